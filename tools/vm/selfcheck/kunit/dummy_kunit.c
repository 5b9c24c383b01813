// SPDX-License-Identifier: GPL-2.0-only
/* One KUnit case that passes and one that fails, for the test of the harness. */
#include <kunit/test.h>
#include <linux/module.h>

static void good_case(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, 1);
}

static void bad_case(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 1, 2);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(good_case),
	KUNIT_CASE(bad_case),
	{}
};

static struct kunit_suite suite = {
	.name = "dummy",
	.test_cases = cases,
};
kunit_test_suite(suite);

MODULE_DESCRIPTION("KUnit cases for the test of the harness");
MODULE_LICENSE("GPL");
