// SPDX-License-Identifier: GPL-2.0
/*
 * Objects: slots are found, made once, emptied, and freed with all they hold.
 */
#include <kunit/static_stub.h>
#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "support.h"

#define LAST (SPM_SLOT_PAGES - 1)

static struct spm_object *object(struct kunit *test)
{
	struct spm_test_object *t = test->priv;

	return t->obj;
}

static struct spm_slot *make_slot(struct kunit *test, pgoff_t index)
{
	struct spm_slot *slot = spm_object_slot(object(test), index, 0);

	KUNIT_ASSERT_NOT_NULL(test, slot);
	return slot;
}

/* Reserve, and populate [first, end). */
static void populate(struct kunit *test, struct spm_slot *slot,
		     unsigned int first, unsigned int end)
{
	int err;

	mutex_lock(slot->lock);
	err = spm_slot_reserve(object(test), slot, NULL, 0);
	for (; !err && first < end; first++)
		err = min(spm_reserv_populate(slot->reserv, first, NULL, 0, SPM_POPULATE_FAULT), 0);
	mutex_unlock(slot->lock);
	KUNIT_ASSERT_EQ(test, err, 0);
}

static void depopulate(struct spm_slot *slot, unsigned int first,
		       unsigned int end)
{
	mutex_lock(slot->lock);
	spm_slot_depopulate(slot, first, end);
	mutex_unlock(slot->lock);
}

static void slots_are_found(struct kunit *test)
{
	static const pgoff_t indices[] = {
		0, 1, 63, 64, MAX_LFS_FILESIZE >> PMD_SHIFT,
	};
	struct spm_slot *slots[ARRAY_SIZE(indices)];
	struct spm_object *obj = object(test);
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(indices); i++) {
		KUNIT_EXPECT_NULL(test, spm_object_find_slot(obj, indices[i]));
		slots[i] = make_slot(test, indices[i]);
		KUNIT_EXPECT_EQ(test, slots[i]->index, indices[i]);
		KUNIT_EXPECT_NULL(test, slots[i]->reserv);
	}
	for (i = 0; i < ARRAY_SIZE(indices); i++) {
		KUNIT_EXPECT_PTR_EQ(test, spm_object_find_slot(obj, indices[i]),
				    slots[i]);
		KUNIT_EXPECT_PTR_EQ(test, spm_object_slot(obj, indices[i], 0),
				    slots[i]);
		for (k = 0; k < i; k++)
			KUNIT_EXPECT_PTR_NE(test, slots[k], slots[i]);
	}
	KUNIT_EXPECT_NULL(test, spm_object_find_slot(obj, 2));
}

/* A slot keeps the reservation that it has. */
static void reserved_once(struct kunit *test)
{
	struct spm_slot *slot = make_slot(test, 0);
	struct spm_reserv *rv;

	populate(test, slot, 0, 1);
	rv = slot->reserv;
	KUNIT_EXPECT_PTR_EQ(test, rv->owner, &object(test)->owner);
	KUNIT_EXPECT_EQ(test, rv->index, 0);
	populate(test, slot, 1, 2);
	KUNIT_EXPECT_PTR_EQ(test, slot->reserv, rv);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), 2);
	depopulate(slot, 0, SPM_SLOT_PAGES);
	KUNIT_EXPECT_NULL(test, slot->reserv);
}

static void depopulate_ranges(struct kunit *test)
{
	struct spm_slot *slot = make_slot(test, 1);
	struct spm_reserv *rv;

	/* Nothing reserved: nothing to do. */
	depopulate(slot, 0, SPM_SLOT_PAGES);

	populate(test, slot, 0, SPM_SLOT_PAGES);
	rv = slot->reserv;
	depopulate(slot, 0, 0);
	depopulate(slot, SPM_SLOT_PAGES, SPM_SLOT_PAGES);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), SPM_SLOT_PAGES);
	depopulate(slot, 100, 200);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), SPM_SLOT_PAGES - 100);
	KUNIT_EXPECT_TRUE(test, spm_reserv_populated(rv, 99));
	KUNIT_EXPECT_FALSE(test, spm_reserv_populated(rv, 100));
	KUNIT_EXPECT_FALSE(test, spm_reserv_populated(rv, 199));
	KUNIT_EXPECT_TRUE(test, spm_reserv_populated(rv, 200));
	/* Holes in the range are stepped over. */
	depopulate(slot, 50, 250);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), SPM_SLOT_PAGES - 200);
	depopulate(slot, LAST, SPM_SLOT_PAGES);
	depopulate(slot, 0, 1);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), SPM_SLOT_PAGES - 202);
	KUNIT_EXPECT_PTR_EQ(test, slot->reserv, rv);
	/* All that is left, in a range that is not the whole slot. */
	depopulate(slot, 1, LAST);
	KUNIT_EXPECT_NULL(test, slot->reserv);
	EXPECT_STAT(test, object(test)->owner.counters, reserv_freed,
		    !!spm_stat_read(object(test)->owner.counters,
				    SPM_STAT_reserv_allocated));
	/* And from the beginning again. */
	populate(test, slot, LAST, SPM_SLOT_PAGES);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(slot->reserv), 1);
	depopulate(slot, 0, SPM_SLOT_PAGES);
}

/* A reservation without a page is given back by an empty range. */
static void empty_reservation_goes_back(struct kunit *test)
{
	struct spm_slot *slot = make_slot(test, 0);

	populate(test, slot, 0, 0);
	KUNIT_EXPECT_NOT_NULL(test, slot->reserv);
	depopulate(slot, 0, 0);
	KUNIT_EXPECT_NULL(test, slot->reserv);
}

/* What stays keeps its data; what comes back reads as zeros. */
static void content_of_the_rest(struct kunit *test)
{
	struct spm_slot *slot = make_slot(test, 0);
	unsigned int i;

	populate(test, slot, 0, 4);
	for (i = 0; i < 4; i++)
		spm_test_page_fill(spm_reserv_page(slot->reserv, i), 0x10 + i);
	depopulate(slot, 1, 3);
	populate(test, slot, 1, 3);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_TRUE(test,
				  spm_test_page_is(spm_reserv_page(slot->reserv, i),
						   i == 1 || i == 2 ? 0 : 0x10 + i));
	depopulate(slot, 0, SPM_SLOT_PAGES);
}

/*
 * Pages are cleared when they go only if the rest of the block must stay known
 * to be zeros; a block that goes back whole is not worth the work.
 */
static void clean_block_stays_clean(struct kunit *test)
{
	struct spm_slot *slot = make_slot(test, 0);
	struct spm_reserv *rv;
	unsigned int i;

	populate(test, slot, 0, 4);
	rv = slot->reserv;
	if (spm_reserv_loose(rv)) {
		depopulate(slot, 0, 4);
		kunit_skip(test, "no free 2 MB block");
	}
	bitmap_zero(rv->used, SPM_SLOT_PAGES);
	for (i = 0; i < 4; i++)
		spm_test_page_fill(spm_reserv_page(rv, i), 0x77);
	depopulate(slot, 1, 3);
	/* Again by the same range: nothing there that could be the whole. */
	depopulate(slot, 1, 3);
	KUNIT_EXPECT_EQ(test, bitmap_weight(rv->used, SPM_SLOT_PAGES), 2);
	populate(test, slot, 1, 3);
	KUNIT_EXPECT_EQ(test, bitmap_weight(rv->used, SPM_SLOT_PAGES), 0);
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(spm_reserv_page(rv, 1), 0));
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(spm_reserv_page(rv, 2), 0));
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(spm_reserv_page(rv, 3), 0x77));
	depopulate(slot, 0, SPM_SLOT_PAGES);
}

/* Everything that an object may hold when it dies: the module's gauges tell. */
static void destroy_frees_everything(struct kunit *test)
{
	static const enum spm_stat gauges[] = {
		SPM_STAT_pages, SPM_STAT_dirty, SPM_STAT_loose,
		SPM_STAT_reserv_live, SPM_STAT_reserv_empty,
		SPM_STAT_reserv_fullpop, SPM_STAT_reserv_partpopq,
	};
	long before[ARRAY_SIZE(gauges)];
	struct spm_slot *slot;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(gauges); i++)
		before[i] = spm_stat_read(NULL, gauges[i]);
	make_slot(test, 10);
	populate(test, make_slot(test, 0), 5, 6);
	slot = make_slot(test, 1);
	populate(test, slot, 0, SPM_SLOT_PAGES);
	spm_reserv_set_all_dirty(slot->reserv);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	populate(test, make_slot(test, 2), 0, 9);
	populate(test, make_slot(test, 3), 0, SPM_SLOT_PAGES);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	KUNIT_EXPECT_EQ(test, spm_stat_read(NULL, SPM_STAT_pages) - before[0],
			1 + 9 + 2 * SPM_SLOT_PAGES);

	spm_object_put(object(test));
	for (i = 0; i < ARRAY_SIZE(gauges); i++)
		KUNIT_EXPECT_EQ_MSG(test, spm_stat_read(NULL, gauges[i]),
				    before[i], "gauge %d", gauges[i]);
	/* It is destroyed; nothing is left for the end of the case. */
	((struct spm_test_object *)test->priv)->obj = NULL;
}

/* Threads that do the same to one object, in step. */
#define RACERS 4
#define ROUNDS 64

struct race {
	struct spm_object *obj;
	struct spm_object **relatives;
	atomic_t arrived;
	struct spm_slot *found[RACERS][ROUNDS];
	int err;
};

struct racer {
	struct race *race;
	unsigned int id;
};

/* Wait until all have come here for the @n-th time. */
static void in_step(struct race *race, unsigned int n)
{
	atomic_inc(&race->arrived);
	while (atomic_read(&race->arrived) < (n + 1) * RACERS)
		cond_resched();
}

static int race_for_slots(void *arg)
{
	struct racer *me = arg;
	unsigned int n;

	for (n = 0; n < ROUNDS; n++) {
		in_step(me->race, n);
		me->race->found[me->id][n] = spm_object_slot(me->race->obj, n, 0);
	}
	return spm_test_thread_end();
}

/* Each its own pages of one slot, which is reserved by whoever is first. */
static int race_for_pages(void *arg)
{
	struct racer *me = arg;
	struct race *race = me->race;
	struct spm_slot *slot;
	unsigned int i;

	in_step(race, 0);
	slot = spm_object_slot(race->obj, 0, 0);
	for (i = me->id; slot && i < SPM_SLOT_PAGES; i += RACERS) {
		mutex_lock(slot->lock);
		if (spm_slot_reserve(race->obj, slot, NULL, 0) ||
		    spm_reserv_populate(slot->reserv, i, NULL, 0, SPM_POPULATE_FAULT) < 0)
			race->err = -ENOMEM;
		else
			spm_reserv_set_dirty(slot->reserv, i);
		mutex_unlock(slot->lock);
	}
	return spm_test_thread_end();
}

static struct race *run_race_of(struct kunit *test, int (*fn)(void *),
				struct spm_object **relatives)
{
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	struct task_struct *tasks[RACERS];
	struct racer racers[RACERS];
	unsigned int i, n;

	KUNIT_ASSERT_NOT_NULL(test, race);
	race->obj = object(test);
	race->relatives = relatives;
	for (n = 0; n < RACERS; n++) {
		racers[n].race = race;
		racers[n].id = n;
		tasks[n] = kthread_create(fn, &racers[n], "spm_racer/%u", n);
		if (IS_ERR(tasks[n]))
			break;
	}
	if (n == RACERS)
		for (i = 0; i < n; i++)
			wake_up_process(tasks[i]);
	/* One that has not begun yet would not begin any more. */
	while (n == RACERS && atomic_read(&race->arrived) < RACERS)
		cond_resched();
	for (i = 0; i < n; i++)
		kthread_stop(tasks[i]);
	KUNIT_ASSERT_EQ(test, n, RACERS);
	return race;
}

static struct race *run_race(struct kunit *test, int (*fn)(void *))
{
	return run_race_of(test, fn, NULL);
}

static void one_slot_for_all(struct kunit *test)
{
	struct race *race = run_race(test, race_for_slots);
	unsigned int i, n;

	for (n = 0; n < ROUNDS; n++) {
		struct spm_slot *slot = spm_object_find_slot(race->obj, n);

		KUNIT_ASSERT_NOT_NULL(test, slot);
		for (i = 0; i < RACERS; i++)
			KUNIT_ASSERT_PTR_EQ(test, race->found[i][n], slot);
	}
}

static void one_reservation_for_all(struct kunit *test)
{
	struct race *race = run_race(test, race_for_pages);
	const struct spm_counters *c = race->obj->owner.counters;
	struct spm_slot *slot = spm_object_find_slot(race->obj, 0);

	KUNIT_ASSERT_EQ(test, race->err, 0);
	KUNIT_ASSERT_NOT_NULL(test, slot);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(slot->reserv), SPM_SLOT_PAGES);
	KUNIT_EXPECT_EQ(test, slot->reserv->ndirty, SPM_SLOT_PAGES);
	KUNIT_EXPECT_EQ(test, spm_stat_read(c, SPM_STAT_reserv_allocated) +
			spm_stat_read(c, SPM_STAT_reserv_unavailable), 1);
	EXPECT_STAT(test, c, populated, SPM_SLOT_PAGES);
	EXPECT_STAT(test, c, pages, SPM_SLOT_PAGES);
	EXPECT_STAT(test, c, dirty, SPM_SLOT_PAGES);
	EXPECT_STAT(test, c, reserv_fullpop, 1);
	EXPECT_STAT(test, c, reserv_partpopq, 0);
	depopulate(slot, 0, SPM_SLOT_PAGES);
}

/* One lock for an index, whoever of the family makes it first; not two. */
static int race_for_locks(void *arg)
{
	struct racer *me = arg;
	unsigned int n;

	for (n = 0; n < ROUNDS; n++) {
		in_step(me->race, n);
		me->race->found[me->id][n] =
			spm_object_slot(me->race->relatives[me->id], n, 0);
	}
	return spm_test_thread_end();
}

static void one_lock_for_the_family(struct kunit *test)
{
	struct spm_test_object *t = test->priv;
	struct spm_object *obj[RACERS];
	struct race *race;
	unsigned int i, n;

	for (i = 0; i < RACERS; i++) {
		obj[i] = spm_test_base_object(&t->base, t->obj->family, NULL);
		KUNIT_ASSERT_NOT_NULL(test, obj[i]);
	}
	race = run_race_of(test, race_for_locks, obj);
	for (n = 0; n < ROUNDS; n++) {
		struct mutex *lock = spm_object_find_lock(t->obj, n);

		KUNIT_EXPECT_NOT_NULL(test, lock);
		/* Of an object that is not concerned. */
		KUNIT_EXPECT_NULL(test, spm_object_find_slot(t->obj, n));
		for (i = 0; i < RACERS; i++) {
			KUNIT_EXPECT_NOT_NULL(test, race->found[i][n]);
			if (race->found[i][n])
				KUNIT_EXPECT_PTR_EQ(test,
						    race->found[i][n]->lock,
						    lock);
		}
		if (n)
			KUNIT_EXPECT_PTR_NE(test, lock,
					    spm_object_find_lock(t->obj, n - 1));
	}
	KUNIT_EXPECT_NULL(test, spm_object_find_lock(t->obj, ROUNDS));
	for (i = 0; i < RACERS; i++)
		spm_object_put(obj[i]);
}

/* Who is killed need not wait for the lock, nor for a freeze. */
struct victim {
	struct spm_object *obj;
	struct spm_slot *slot;
	bool begun;
	int err;
};

static int lock_until_killed(void *arg)
{
	struct victim *v = arg;

	allow_signal(SIGKILL);
	WRITE_ONCE(v->begun, true);
	v->err = spm_slot_lock_write(v->obj, v->slot);
	if (!v->err)
		mutex_unlock(v->slot->lock);
	flush_signals(current);
	return spm_test_thread_end();
}

static int kill_waiter(struct spm_object *obj, struct spm_slot *slot)
{
	struct victim v = { .obj = obj, .slot = slot, .err = 1 };
	struct task_struct *task;
	unsigned int n;

	task = kthread_run(lock_until_killed, &v, "spm_victim");
	if (IS_ERR(task))
		return PTR_ERR(task);
	while (!READ_ONCE(v.begun))
		schedule_timeout_uninterruptible(1);
	schedule_timeout_uninterruptible(3);
	if (READ_ONCE(v.err) == 1)
		send_sig(SIGKILL, task, 1);
	for (n = 0; n < 2000 && READ_ONCE(v.err) == 1; n++)
		schedule_timeout_uninterruptible(1);
	/* Who still waits, for ever, is woken by what the case does next. */
	kthread_stop(task);
	return v.err;
}

static void the_killed_do_not_wait(struct kunit *test)
{
	struct spm_object *obj = object(test);
	struct spm_slot *slot = make_slot(test, 0);
	int err;

	mutex_lock(slot->lock);
	err = kill_waiter(obj, slot);
	mutex_unlock(slot->lock);
	KUNIT_EXPECT_EQ(test, err, -EINTR);
	WRITE_ONCE(obj->freezing, true);
	err = kill_waiter(obj, slot);
	WRITE_ONCE(obj->freezing, false);
	KUNIT_EXPECT_EQ(test, err, -EINTR);
	KUNIT_EXPECT_FALSE(test, mutex_is_locked(slot->lock));
	KUNIT_EXPECT_EQ(test, spm_slot_lock_write(obj, slot), 0);
	mutex_unlock(slot->lock);
}

static struct kunit_case object_cases[] = {
	KUNIT_CASE(slots_are_found),
	KUNIT_CASE(reserved_once),
	KUNIT_CASE(depopulate_ranges),
	KUNIT_CASE(empty_reservation_goes_back),
	KUNIT_CASE(content_of_the_rest),
	KUNIT_CASE(clean_block_stays_clean),
	KUNIT_CASE(destroy_frees_everything),
	KUNIT_CASE_SLOW(one_slot_for_all),
	KUNIT_CASE(one_reservation_for_all),
	KUNIT_CASE_SLOW(one_lock_for_the_family),
	KUNIT_CASE(the_killed_do_not_wait),
	{}
};

static struct kunit_suite object_suite = {
	.name = "superpmap_object",
	.init = spm_test_object_init,
	.exit = spm_test_object_exit,
	.test_cases = object_cases,
};

kunit_test_suite(object_suite);
