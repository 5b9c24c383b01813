// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory reads as zeros at first touch also where the kernel's own
 * allocator does not clear what it hands out and gets back.
 * Guards against: a module that relies on init_on_alloc, which distributions
 * turn on and others do not.
 *
 * spm-test: cmdline="init_on_alloc=0 init_on_free=0" full=debug,7.3
 */
#include "zero_first_touch.c"
