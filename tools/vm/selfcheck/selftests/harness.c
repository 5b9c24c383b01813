// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's test harness compiles, here as a 32-bit program.
 * spm-test: bits=32
 */
#include "kselftest_harness.h"

TEST(pointer)
{
	ASSERT_EQ(4, sizeof(void *));
}

TEST_HARNESS_MAIN
