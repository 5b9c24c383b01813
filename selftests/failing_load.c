// SPDX-License-Identifier: GPL-2.0
/*
 * Property: when a step of loading the module fails, the load fails with the
 * error of that step and leaves nothing: no node, no folder, no memory; and the
 * next load succeeds.
 * Guards against: an init function that undoes too little, too much or in the
 * wrong order: nodes of a module that is gone, warnings about missing folders,
 * names that stay taken.
 *
 * The steps of the module's own start are the last ones of a load.  How many
 * steps a load has before is found by a load with a bad parameter.
 *
 * spm-test: module=self kernels=debug timeout=300
 * spm-test: log="Call Trace:|page allocation failure|SLUB: Unable to allocate"
 */
#define SPM_TEST_NO_HARNESS	/* without the fixture, which needs the module */
#include "spm_sync.h"
#include "spm_fail.h"

#include "kselftest_harness.h"

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 300

#define SECONDS	150

static int module_file;

static int load(const char *params)
{
	return syscall(__NR_finit_module, module_file, params, 0) ? -errno : 0;
}

static int unload(void)
{
	return syscall(__NR_delete_module, "superpmap", O_NONBLOCK) ? -errno : 0;
}

static int something_left(void)
{
	static const char * const paths[] = {
		SPM_NODE, SPM_NODE "0", SPM_NODE "1",
		"/sys/module/superpmap", "/sys/class/superpmap",
		"/sys/kernel/debug/superpmap",
		"/sys/kernel/tracing/events/superpmap",
	};
	unsigned int i;
	int n = 0;

	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (access(paths[i], F_OK))
			continue;
		spm_note("left behind: %s", paths[i]);
		n++;
	}
	return n;
}

/* How many steps a load has; it may fail for another reason meanwhile. */
static unsigned int steps_of(int nth, const char *params)
{
	const unsigned int many = 1000000;
	unsigned int left;
	int ret;

	spm_fail_nth(nth, many);
	ret = load(params);
	left = spm_fail_left(nth);
	if (!ret && unload())
		spm_die("unload");
	return many - left;
}

TEST(each_step_of_loading)
{
	unsigned int n, steps, first, failed = 0, loaded = 0;
	double start = spm_now();
	int nth, ret;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	module_file = open(getenv("SPM_MODULE") ?: "/spm/superpmap.ko",
			   O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, module_file);
	spm_fail_setup();
	nth = spm_fail_open();
	ASSERT_EQ(0, something_left());

	first = steps_of(nth, "regions=bad");
	steps = steps_of(nth, "regions=8M,4K");
	TH_LOG("%u steps, of which the module's own come after %u", steps, first);
	ASSERT_LT(first, steps);
	for (n = steps + 1; n > first && spm_now() - start < SECONDS; n--) {
		spm_fail_nth(nth, n);
		ret = load("regions=8M,4K");
		if (spm_fail_left(nth)) {
			/* Fewer steps than the last time. */
			EXPECT_EQ(0, ret);
		}
		if (!ret) {
			loaded++;
			EXPECT_EQ(0, access(SPM_NODE "1", F_OK));
			ASSERT_EQ(0, unload());
		} else {
			failed++;
			EXPECT_TRUE(ret == -ENOMEM || ret == -EFAULT) {
				TH_LOG("step %u: %d", n, ret);
			}
		}
		ASSERT_EQ(0, something_left()) {
			TH_LOG("step %u: %d", n, ret);
		}
	}
	TH_LOG("%u loads failed, %u succeeded without that step; %u steps not tried",
	       failed, loaded, n - first);
	EXPECT_LT(0, failed);
	ASSERT_EQ(0, load(""));
	EXPECT_EQ(0, access(SPM_NODE "0", F_OK));
	EXPECT_EQ(0, unload());
	EXPECT_EQ(0, something_left());
}

TEST_HARNESS_MAIN
