// SPDX-License-Identifier: GPL-2.0
/*
 * Property: what holds for 64-bit callers of the ioctls holds for 32-bit ones.
 *
 * Kind of bug: no compat entry, or a layout of its own for 32 bits.
 *
 * spm-test: bits=32
 */
#include "ioctl_abi.c"
