// SPDX-License-Identifier: GPL-2.0
/*
 * Threads of one process that fault in one slot at the same time.
 */
#include <linux/atomic.h>
#include <linux/kthread.h>
#include <linux/mm.h>

#include "testmm.h"

#define FULL SPM_SLOT_PAGES
#define RACERS 4
#define ROUNDS 8

/**
 * struct race - what the threads share
 * @mm:		they run in it
 * @addr:	of the slot
 * @arrived:	threads that have begun
 * @failed:	accesses that failed
 */
struct race {
	struct mm_struct *mm;
	unsigned long addr;
	atomic_t arrived;
	atomic_t failed;
};

static void wait_for_all(struct race *race)
{
	while (atomic_read(&race->arrived) < RACERS)
		cond_resched();
}

/* All threads store to all pages, each beginning somewhere else. */
static int store_everywhere(void *arg)
{
	struct race *race = arg;
	unsigned int i, start;

	kthread_use_mm(race->mm);
	start = atomic_fetch_inc(&race->arrived) * (FULL / RACERS);
	wait_for_all(race);
	for (i = 0; i < FULL; i++)
		if (spm_test_store(race->addr, (start + i) % FULL))
			atomic_inc(&race->failed);
	kthread_unuse_mm(race->mm);
	return spm_test_thread_end();
}

/* All threads store to the same few pages of a read-only superpage. */
static int store_to_the_same(void *arg)
{
	struct race *race = arg;
	unsigned int i;

	kthread_use_mm(race->mm);
	atomic_inc(&race->arrived);
	wait_for_all(race);
	for (i = 0; i < 16; i++)
		if (spm_test_store(race->addr, i))
			atomic_inc(&race->failed);
	kthread_unuse_mm(race->mm);
	return spm_test_thread_end();
}

static void run_race(struct kunit *test, unsigned long addr, int (*fn)(void *))
{
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	struct task_struct *tasks[RACERS];
	unsigned int i, n;

	KUNIT_ASSERT_NOT_NULL(test, race);
	race->mm = current->mm;
	race->addr = addr;
	for (n = 0; n < RACERS; n++) {
		tasks[n] = kthread_create(fn, race, "spm_racer/%u", n);
		if (IS_ERR(tasks[n]))
			break;
	}
	if (n == RACERS) {
		for (i = 0; i < n; i++)
			wake_up_process(tasks[i]);
		/* One that has not begun yet would not begin any more. */
		wait_for_all(race);
	}
	for (i = 0; i < n; i++)
		kthread_stop(tasks[i]);
	KUNIT_ASSERT_EQ(test, n, RACERS);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->failed), 0);
}

/* Whoever completes the slot promotes it; once, whoever else is on the way. */
static void complete_once(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned int n;

	for (n = 1; n <= ROUNDS; n++) {
		run_race(test, addr, store_everywhere);
		EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
		EXPECT_STAT(test, c, promotions, n);
		EXPECT_STAT(test, c, demotions, 0);
		EXPECT_STAT(test, c, live, 1);
		EXPECT_STAT(test, c, populated, n * FULL);
		spm_test_check_data(test, addr, 0, FULL);
		KUNIT_ASSERT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_DISCARD), 0);
		EXPECT_NOTHING(test, addr);
	}
	spm_test_mm_finish(test);
}

/* Several stores find the same read-only superpage: it is demoted once. */
static void demote_once(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned int n;

	for (n = 1; n <= ROUNDS; n++) {
		spm_test_read(test, addr, 0, FULL);
		EXPECT_SLOT(test, addr, SPM_PMD_2M_RO, FULL, 0);
		run_race(test, addr, store_to_the_same);
		EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, 16);
		EXPECT_STAT(test, c, demotions_write, n);
		EXPECT_STAT(test, c, dirty, 16);
		spm_test_check_data(test, addr, 0, 16);
		KUNIT_ASSERT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_DISCARD), 0);
	}
	spm_test_mm_finish(test);
}

static struct kunit_case race_cases[] = {
	KUNIT_CASE_SLOW(complete_once),
	KUNIT_CASE_SLOW(demote_once),
	{}
};

static struct kunit_suite race_suite = {
	.name = "superpmap_race",
	.suite_init = spm_test_node_init,
	.suite_exit = spm_test_node_exit,
	.init = spm_test_mm_init,
	.exit = spm_test_mm_exit,
	.test_cases = race_cases,
};

kunit_test_suite(race_suite);
