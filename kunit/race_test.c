// SPDX-License-Identifier: GPL-2.0
/*
 * Threads of one process that fault in one slot at the same time.
 */
#include <linux/atomic.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

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

/*
 * Stores by one mapping and by a private one, while the region is frozen and
 * merged again all the time.
 */
#define FREEZES 60
#define SECONDS 4

/**
 * struct beside - what the threads share
 * @mm:		they run in it
 * @a:		shared mapping of the slot
 * @p:		private mapping of it
 * @stop:	they are to end
 * @arrived:	threads that have begun
 * @sharers:	of these, those that store by @a
 * @failed:	accesses that failed
 * @wrong:	bytes that were not what was stored last
 */
struct beside {
	struct mm_struct *mm;
	unsigned long a, p;
	bool stop;
	atomic_t arrived;
	atomic_t sharers;
	atomic_t failed;
	atomic_t wrong;
};

static void store_and_look(struct beside *b, unsigned long addr, unsigned int i,
			   u8 value)
{
	u8 __user *to = (u8 __user *)addr + i * PAGE_SIZE;
	u8 now;

	if (put_user(value, to) || get_user(now, to))
		atomic_inc(&b->failed);
	else if (now != value)
		atomic_inc(&b->wrong);
}

/* Threads 0 and 1 by the shared mapping, each to pages of its own. */
static int store_by_shared(void *arg)
{
	struct beside *b = arg;
	unsigned int i, n, me;

	kthread_use_mm(b->mm);
	me = atomic_fetch_inc(&b->sharers);
	atomic_inc(&b->arrived);
	for (n = 1; !READ_ONCE(b->stop); n++) {
		for (i = me % 2; i < FULL; i += 2)
			store_and_look(b, b->a, i, n);
		cond_resched();
	}
	kthread_unuse_mm(b->mm);
	return spm_test_thread_end();
}

/* What it has stored stays, whatever the others do to the same pages. */
static int store_by_private(void *arg)
{
	struct beside *b = arg;
	unsigned int i, n;
	u8 now;

	kthread_use_mm(b->mm);
	atomic_inc(&b->arrived);
	for (n = 1; !READ_ONCE(b->stop); n++) {
		for (i = 0; i < FULL; i += 16)
			store_and_look(b, b->p, i, n);
		for (i = 0; i < FULL; i++) {
			if (get_user(now, (u8 __user *)b->p + i * PAGE_SIZE))
				atomic_inc(&b->failed);
			else if (i % 16 == 0 && now != (u8)n)
				atomic_inc(&b->wrong);
		}
		cond_resched();
	}
	kthread_unuse_mm(b->mm);
	return spm_test_thread_end();
}

/* The first byte of every page of a slot. */
static void read_image(struct spm_object *obj, u8 *out)
{
	struct mutex *lock = spm_object_find_lock(obj, 0);
	unsigned int i;

	mutex_lock(lock);
	for (i = 0; i < FULL; i++) {
		struct spm_reserv *rv = spm_object_page(obj, 0, i);

		out[i] = 0;
		if (rv)
			memcpy_from_page(out + i, spm_reserv_page(rv, i), 0, 1);
	}
	mutex_unlock(lock);
}

static void freeze_and_merge(struct kunit *test, struct spm_test_base *base,
			     struct beside *b)
{
	struct spm_test_mm *t = test->priv;
	struct spm_object *obj = t->region->object, *side;
	u8 *first = kunit_kzalloc(test, FULL, GFP_KERNEL);
	u8 *then = kunit_kzalloc(test, FULL, GFP_KERNEL);
	unsigned long until = jiffies + SECONDS * HZ;
	unsigned int n;

	for (n = 0; n < FREEZES && time_before(jiffies, until); n++) {
		side = spm_test_base_object(base, obj->family, NULL);
		if (!side || !first || !then ||
		    spm_cow_shadow(obj, side, SPM_FREEZE_SNAPSHOT)) {
			atomic_inc(&b->failed);
		} else {
			read_image(side, first);
			schedule_timeout_uninterruptible(2);
			read_image(side, then);
			if (memcmp(first, then, FULL))
				atomic_inc(&b->wrong);
		}
		if (side)
			spm_object_put(side);
	}
	kunit_info(test, "%u freezes", n);
}

static void freezes_beside_faults(struct kunit *test)
{
	static int (* const roles[])(void *) = {
		store_by_shared, store_by_shared, store_by_private,
	};
	struct beside *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	struct spm_test_base *base = kunit_kzalloc(test, sizeof(*base),
						   GFP_KERNEL);
	struct task_struct *tasks[ARRAY_SIZE(roles)];
	unsigned int i, n;

	KUNIT_ASSERT_NOT_NULL(test, b);
	KUNIT_ASSERT_NOT_NULL(test, base);
	b->mm = current->mm;
	b->a = spm_test_map(test, 1, SPM_TEST_RW);
	b->p = spm_test_map_private(test, 1);
	spm_test_write(test, b->a, 0, FULL);
	spm_test_base_init(test, base, 4711);
	for (n = 0; n < ARRAY_SIZE(roles); n++) {
		tasks[n] = kthread_run(roles[n], b, "spm_beside/%u", n);
		if (IS_ERR(tasks[n]))
			break;
	}
	while (atomic_read(&b->arrived) < n)
		schedule_timeout_uninterruptible(1);
	if (n == ARRAY_SIZE(roles))
		freeze_and_merge(test, base, b);
	WRITE_ONCE(b->stop, true);
	for (i = 0; i < n; i++)
		kthread_stop(tasks[i]);
	KUNIT_EXPECT_EQ(test, n, ARRAY_SIZE(roles));
	KUNIT_EXPECT_EQ(test, atomic_read(&b->failed), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->wrong), 0);
	spm_test_look(test, __LINE__, b->a);
	spm_test_look(test, __LINE__, b->p);
	spm_test_mm_finish(test);
	EXPECT_STAT(test, spm_test_counters(test), objects, 1);
	EXPECT_STAT(test, spm_test_counters(test), links, 0);
	EXPECT_STAT(test, spm_test_counters(test), pages, FULL);
	spm_test_base_exit(test, base);
}

static struct kunit_case race_cases[] = {
	KUNIT_CASE_SLOW(complete_once),
	KUNIT_CASE_SLOW(demote_once),
	KUNIT_CASE_SLOW(freezes_beside_faults),
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
