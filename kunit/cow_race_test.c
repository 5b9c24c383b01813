// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that look pages up, store, snapshot, fork and close in one family at
 * the same time.
 *
 * Each checks what it may rely on; that nothing is used after it was freed is
 * for KASAN to say.
 */
#include <kunit/static_stub.h>
#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>

#include "family.h"

#define ROUNDS 100
#define SECONDS 4
#define SNAPPERS 2
#define FORKERS 2

/* Pages: of the one who stores, of those who only look, and of each side. */
#define MARK	0
#define STILL	9
#define OWN	300
#define FREE	400

/**
 * struct cow_race - what the threads share
 * @obj:	a region's object
 * @base:	its region
 * @sides:	regions of the snapshots
 * @until:	when all are to end at the latest, in jiffies
 * @stop:	the endless ones are to end
 * @arrived:	threads that have begun
 * @done:	threads that have played all their rounds
 * @rounds:	that were played
 * @failed:	calls that failed
 * @wrong:	pages that showed what they must not
 */
struct cow_race {
	struct spm_object *obj;
	struct spm_test_base *base;
	struct spm_test_base sides[SNAPPERS];
	unsigned long until;
	bool stop;
	atomic_t arrived;
	atomic_t done;
	atomic_t rounds;
	atomic_t failed;
	atomic_t wrong;
};

/**
 * struct player - a thread
 * @race:	shared
 * @id:		which of its kind
 */
struct player {
	struct cow_race *race;
	unsigned int id;
};

static void must_show(struct cow_race *race, struct spm_object *obj,
		      unsigned int s, unsigned int i, u32 value)
{
	if (spm_test_shown(obj, s, i) != value)
		atomic_inc(&race->wrong);
}

static void must_store(struct cow_race *race, struct spm_object *obj,
		       unsigned int s, unsigned int i, u32 value)
{
	if (spm_test_store_page(obj, s, i, value))
		atomic_inc(&race->failed);
}

/* One number into one slot after the other, always in this order. */
static int store_in_order(void *arg)
{
	struct player *me = arg;
	struct cow_race *race = me->race;
	unsigned int s, n;

	atomic_inc(&race->arrived);
	for (n = 1; !READ_ONCE(race->stop); n++) {
		for (s = 0; s < SPM_TEST_SLOTS; s++)
			must_store(race, race->obj, s, MARK, n);
		cond_resched();
	}
	return spm_test_thread_end();
}

/* Numbers only go up, and what nobody stores to stays. */
static int look_all_the_time(void *arg)
{
	struct player *me = arg;
	struct cow_race *race = me->race;
	u32 last[SPM_TEST_SLOTS] = { }, now;
	unsigned int s;

	atomic_inc(&race->arrived);
	while (!READ_ONCE(race->stop)) {
		for (s = 0; s < SPM_TEST_SLOTS; s++) {
			now = spm_test_shown(race->obj, s, MARK);
			if (now < last[s])
				atomic_inc(&race->wrong);
			last[s] = now;
			must_show(race, race->obj, s, STILL, s + 1);
		}
		cond_resched();
	}
	return spm_test_thread_end();
}

/*
 * An image is of one moment: where the numbers are stored in order, a later slot
 * never has a higher one, and the first is ahead by one at most.
 */
static void check_image(struct cow_race *race, struct spm_object *side)
{
	u32 v[SPM_TEST_SLOTS];
	unsigned int s;

	for (s = 0; s < SPM_TEST_SLOTS; s++)
		v[s] = spm_test_shown(side, s, MARK);
	for (s = 0; s + 1 < SPM_TEST_SLOTS; s++)
		if (v[s] < v[s + 1])
			atomic_inc(&race->wrong);
	if (v[0] > v[SPM_TEST_SLOTS - 1] + 1)
		atomic_inc(&race->wrong);
	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		must_store(race, side, s, OWN, 1000 + s);
		must_show(race, side, s, STILL, s + 1);
	}
	if (spm_cow_discard(side, STILL, SPM_SLOT_PAGES + STILL + 1, NULL,
			    NULL))
		atomic_inc(&race->failed);
	/* It stands still, whatever is stored to the other. */
	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		must_show(race, side, s, MARK, s == 1 ? 0 : v[s]);
		must_show(race, side, s, STILL, s < 2 ? 0 : s + 1);
		must_show(race, side, s, OWN, s ? 1000 + s : 0);
		must_show(race, side, s, FREE, 0);
	}
}

static int take_snapshots(void *arg)
{
	struct player *me = arg;
	struct cow_race *race = me->race;
	unsigned int n;

	atomic_inc(&race->arrived);
	for (n = 0; n < ROUNDS && time_before(jiffies, race->until); n++) {
		struct spm_object *side;

		side = spm_test_base_object(&race->sides[me->id],
					    race->obj->family, NULL);
		if (!side || spm_cow_shadow(race->obj, side,
					    SPM_FREEZE_SNAPSHOT))
			atomic_inc(&race->failed);
		else
			check_image(race, side);
		if (side)
			spm_object_put(side);
		atomic_inc(&race->rounds);
		cond_resched();
	}
	atomic_inc(&race->done);
	return spm_test_thread_end();
}

/* A process with a private mapping and its child; they end in either order. */
static int fork_and_exit(void *arg)
{
	struct player *me = arg;
	struct cow_race *race = me->race;
	const void *mm = me;
	unsigned int n;

	atomic_inc(&race->arrived);
	for (n = 0; n < ROUNDS && time_before(jiffies, race->until); n++) {
		struct spm_object *p, *c;

		p = spm_test_base_object(race->base, race->obj->family, mm);
		c = spm_test_base_object(race->base, race->obj->family, mm);
		if (!p || !c) {
			atomic_inc(&race->failed);
			break;
		}
		spm_cow_map_private(race->obj, p);
		must_store(race, p, 0, OWN, 7);
		if (spm_cow_shadow(p, c, SPM_FREEZE_FORK))
			atomic_inc(&race->failed);
		must_store(race, c, 1, OWN, 8);
		must_store(race, p, 0, OWN, 9);
		must_show(race, c, 0, OWN, 7);
		must_show(race, c, 2, STILL, 3);
		must_show(race, p, 1, OWN, 0);
		spm_object_put(n % 2 ? p : c);
		must_show(race, n % 2 ? c : p, 0, OWN, n % 2 ? 7 : 9);
		must_show(race, n % 2 ? c : p, 1, STILL, 2);
		spm_object_put(n % 2 ? c : p);
		atomic_inc(&race->rounds);
		cond_resched();
	}
	atomic_inc(&race->done);
	return spm_test_thread_end();
}

static int (* const roles[])(void *) = {
	store_in_order, look_all_the_time,
	take_snapshots, take_snapshots,
	fork_and_exit, fork_and_exit,
};

#define PLAYERS ARRAY_SIZE(roles)

static void wait_for(atomic_t *count, unsigned int n)
{
	while (atomic_read(count) < n)
		schedule_timeout_uninterruptible(1);
}

static void play(struct kunit *test, struct cow_race *race)
{
	struct task_struct *tasks[PLAYERS];
	struct player players[PLAYERS];
	unsigned int i, n;

	for (n = 0; n < PLAYERS; n++) {
		players[n].race = race;
		players[n].id = n % SNAPPERS;
		tasks[n] = kthread_create(roles[n], &players[n], "spm_player/%u",
					  n);
		if (IS_ERR(tasks[n]))
			break;
	}
	if (n == PLAYERS) {
		for (i = 0; i < n; i++)
			wake_up_process(tasks[i]);
		/* One that has not begun yet would not begin any more. */
		wait_for(&race->arrived, PLAYERS);
		wait_for(&race->done, SNAPPERS + FORKERS);
	}
	WRITE_ONCE(race->stop, true);
	for (i = 0; i < n; i++)
		kthread_stop(tasks[i]);
	KUNIT_EXPECT_EQ(test, n, PLAYERS);
}

static void make_race(struct kunit *test, struct cow_race *race)
{
	struct spm_test_image *r = spm_test_family_region(test);
	unsigned int s, i;

	race->obj = r->obj;
	race->base = r->base;
	for (i = 0; i < SNAPPERS; i++)
		spm_test_base_init(test, &race->sides[i], 200 + i);
	/* More than is stored to, so that merges find something to mix. */
	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		if (s == 2)
			kunit_activate_static_stub(test, spm_folio_alloc,
						   spm_test_no_block);
		must_store(race, race->obj, s, STILL, s + 1);
		must_store(race, race->obj, s, MARK, 0);
		must_store(race, race->obj, s, FREE, 0);
	}
	kunit_deactivate_static_stub(test, spm_folio_alloc);
}

static void snapshots_and_forks_beside_stores(struct kunit *test)
{
	struct cow_race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	unsigned int i, s;

	KUNIT_ASSERT_NOT_NULL(test, race);
	make_race(test, race);
	race->until = jiffies + SECONDS * HZ;
	play(test, race);
	kunit_info(test, "%d rounds", atomic_read(&race->rounds));
	KUNIT_EXPECT_EQ(test, atomic_read(&race->failed), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->wrong), 0);
	/* All of it has come together in the one that is left. */
	KUNIT_EXPECT_NULL(test, race->obj->backing);
	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		must_show(race, race->obj, s, STILL, s + 1);
		KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(spm_test_reserv(race->obj, s)), 3);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&race->wrong), 0);
	EXPECT_STAT(test, race->base->counters, objects, 1);
	EXPECT_STAT(test, race->base->counters, links, 0);
	EXPECT_STAT(test, race->base->counters, pages, 3 * SPM_TEST_SLOTS);
	for (i = 0; i < SNAPPERS; i++)
		spm_test_base_exit(test, &race->sides[i]);
}

/* The last two of a family go at the same time, again and again. */
struct leavers {
	struct spm_object *obj[2];
	atomic_t arrived;
};

static int leave(void *arg)
{
	struct leavers *l = arg;
	unsigned int me = atomic_inc_return(&l->arrived) - 1;

	while (atomic_read(&l->arrived) < 2)
		cond_resched();
	spm_object_put(l->obj[me]);
	return spm_test_thread_end();
}

static void last_two_go_together(struct kunit *test)
{
	unsigned int n, i;
	int err;

	for (n = 0; n < 50; n++) {
		struct spm_test_image *r, *s;
		struct task_struct *tasks[2];
		struct leavers l = { };

		spm_test_family_again(test);
		r = spm_test_family_region(test);
		KUNIT_ASSERT_EQ(test, spm_test_set(test, r, 0, 0), 0);
		s = spm_test_snapshot(test, r, &err);
		KUNIT_ASSERT_NOT_NULL(test, s);
		KUNIT_ASSERT_EQ(test, spm_test_set(test, s, 0, 1), 0);
		for (i = 0; i < 2; i++)
			tasks[i] = kthread_create(leave, &l, "spm_leaver/%u", i);
		if (IS_ERR(tasks[0]) || IS_ERR(tasks[1]))
			kunit_skip(test, "no threads");
		l.obj[0] = r->obj;
		l.obj[1] = s->obj;
		r->obj = NULL;
		s->obj = NULL;
		for (i = 0; i < 2; i++)
			wake_up_process(tasks[i]);
		wait_for(&l.arrived, 2);
		for (i = 0; i < 2; i++)
			kthread_stop(tasks[i]);
	}
}

static struct kunit_case cow_race_cases[] = {
	KUNIT_CASE_SLOW(snapshots_and_forks_beside_stores),
	KUNIT_CASE_SLOW(last_two_go_together),
	{}
};

static struct kunit_suite cow_race_suite = {
	.name = "superpmap_cow_race",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = cow_race_cases,
};

kunit_test_suite(cow_race_suite);
