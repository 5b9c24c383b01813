// SPDX-License-Identifier: GPL-2.0-only
/* A test that does not compile: it fails, and keeps none of the others from running. */
#error this is meant to fail
