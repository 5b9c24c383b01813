// SPDX-License-Identifier: GPL-2.0
/*
 * Breaking reservations and mending them: what moves, what stays, what refuses.
 */
#include <kunit/static_stub.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/prandom.h>

#include "evacuate.h"
#include "family.h"
#include "reclaim.h"

/* Every number of pages, and both sides of the age. */
static void what_is_worth_breaking(struct kunit *test)
{
	unsigned int n;

	for (n = 0; n <= SPM_SLOT_PAGES; n++) {
		bool worth = n + SPM_BREAK_GAIN <= SPM_SLOT_PAGES;

		KUNIT_EXPECT_EQ(test, spm_policy_break(n, 0, 0), worth);
		KUNIT_EXPECT_EQ(test, spm_policy_break(n, 7, 7), worth);
		KUNIT_EXPECT_FALSE(test, spm_policy_break(n, 6, 7));
		KUNIT_EXPECT_EQ(test, spm_policy_break(n, ~0U, 7), worth);
	}
}

static void what_is_worth_filling(struct kunit *test)
{
	unsigned int n, at;

	for (n = 0; n <= SPM_SLOT_PAGES; n++)
		for (at = 1; at <= SPM_SLOT_PAGES; at++) {
			bool fill = n < SPM_SLOT_PAGES && n >= at;

			KUNIT_EXPECT_EQ(test, spm_policy_fill_idle(n, at, 9, 10),
					fill);
			KUNIT_EXPECT_FALSE(test,
					   spm_policy_fill_idle(n, at, 10, 10));
		}
}

/* The reservation of a slot in play, with its block; or the case is skipped. */
static struct spm_reserv *held(struct kunit *test, struct spm_object *obj,
			       unsigned int s)
{
	struct spm_reserv *rv = spm_test_reserv(obj, s);

	KUNIT_ASSERT_NOT_NULL(test, rv);
	if (spm_reserv_loose(rv))
		kunit_skip(test, "no free 2 MB block");
	return rv;
}

static int evacuate(struct spm_object *obj, struct spm_reserv *rv)
{
	int err;

	mutex_lock(rv->lock);
	err = spm_evacuate(obj, rv, SPM_EVACUATE_PRESSURE);
	mutex_unlock(rv->lock);
	return err;
}

static int reassemble(struct spm_object *obj, struct spm_reserv *rv)
{
	int err;

	mutex_lock(rv->lock);
	err = spm_reassemble(obj, rv, NULL, 0, SPM_EVACUATE_FAULT);
	mutex_unlock(rv->lock);
	return err;
}

static void set_all(struct kunit *test, struct spm_test_image *img,
		    unsigned int s)
{
	unsigned int k;

	for (k = 0; k < SPM_TEST_PAGES; k++)
		KUNIT_ASSERT_EQ(test, spm_test_set(test, img, s, k), 0);
}

/* Pages, what is dirty, what was used: all but the place. */
static void pages_move(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;
	struct spm_reserv *rv;

	set_all(test, r, 0);
	rv = held(test, r->obj, 0);
	KUNIT_ASSERT_EQ(test, evacuate(r->obj, rv), 0);
	KUNIT_EXPECT_TRUE(test, spm_reserv_loose(rv));
	KUNIT_EXPECT_FALSE(test, spm_reserv_queued(rv));
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), SPM_TEST_PAGES);
	KUNIT_EXPECT_TRUE(test, bitmap_subset(rv->used, rv->popmap,
					      SPM_SLOT_PAGES));
	EXPECT_STAT(test, c, reserv_broken, 1);
	EXPECT_STAT(test, c, reserv_reclaimed, 1);
	EXPECT_STAT(test, c, evacuated, SPM_TEST_PAGES);
	EXPECT_FAMILY(test);
	/* It goes on as any reservation of single pages. */
	set_all(test, r, 0);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_discard(r, 0, SPM_SLOT_PAGES), 0);
	EXPECT_FAMILY(test);
}

/* Of a snapshot's past: only if the family stands still. */
static void frozen_pages_move(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_object *frozen;
	struct spm_reserv *rv;
	int err;

	set_all(test, r, 1);
	spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_EQ(test, err, 0);
	frozen = r->obj->backing;
	KUNIT_ASSERT_NOT_NULL(test, frozen);
	rv = held(test, frozen, 1);

	mutex_lock(&frozen->family->lock);
	err = evacuate(frozen, rv);
	mutex_unlock(&frozen->family->lock);
	KUNIT_EXPECT_EQ(test, err, -EAGAIN);
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv));
	EXPECT_FAMILY(test);

	KUNIT_EXPECT_EQ(test, evacuate(frozen, rv), 0);
	KUNIT_EXPECT_TRUE(test, spm_reserv_loose(rv));
	EXPECT_FAMILY(test);
	set_all(test, r, 1);
	EXPECT_FAMILY(test);
}

static void held_pages_stay(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;
	struct page *pin;
	struct spm_reserv *rv;

	set_all(test, r, 0);
	rv = held(test, r->obj, 0);
	pin = spm_test_pin(rv);
	KUNIT_EXPECT_EQ(test, evacuate(r->obj, rv), -EBUSY);
	unpin_user_page(pin);
	get_page(spm_reserv_page(rv, 0));
	KUNIT_EXPECT_EQ(test, evacuate(r->obj, rv), -EBUSY);
	put_page(spm_reserv_page(rv, 0));
	EXPECT_STAT(test, c, evacuate_held, 2);
	EXPECT_STAT(test, c, reserv_broken, 0);
	EXPECT_FAMILY(test);

	/* The same of single pages that are to get a block. */
	KUNIT_ASSERT_EQ(test, evacuate(r->obj, rv), 0);
	KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
	get_page(spm_reserv_page(rv, 300));
	KUNIT_EXPECT_EQ(test, reassemble(r->obj, rv), -EBUSY);
	put_page(spm_reserv_page(rv, 300));
	EXPECT_FAMILY(test);
}

static struct page **no_pages(const struct spm_reserv *rv)
{
	return NULL;
}

static void without_memory_nothing_moves(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_reserv *rv;

	set_all(test, r, 0);
	rv = held(test, r->obj, 0);
	kunit_activate_static_stub(test, spm_pages_alloc, no_pages);
	KUNIT_EXPECT_EQ(test, evacuate(r->obj, rv), -ENOMEM);
	kunit_deactivate_static_stub(test, spm_pages_alloc);
	EXPECT_STAT(test, r->base->counters, evacuate_nomem, 1);
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv));
	EXPECT_FAMILY(test);

	KUNIT_ASSERT_EQ(test, evacuate(r->obj, rv), 0);
	KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	KUNIT_EXPECT_EQ(test, reassemble(r->obj, rv), -ENOMEM);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	EXPECT_FAMILY(test);
}

/* When it fills up, and then once a second. */
static void when_a_block_is_looked_for(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_reserv *rv;

	set_all(test, r, 0);
	rv = held(test, r->obj, 0);
	KUNIT_EXPECT_FALSE(test, spm_reassemble_due(rv));
	KUNIT_ASSERT_EQ(test, evacuate(r->obj, rv), 0);
	KUNIT_EXPECT_FALSE(test, spm_reassemble_due(rv));
	KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
	KUNIT_EXPECT_TRUE(test, spm_reassemble_due(rv));
	spm_reserv_defer(rv);
	KUNIT_EXPECT_FALSE(test, spm_reassemble_due(rv));
	rv->state.tick = jiffies - HZ;
	KUNIT_EXPECT_TRUE(test, spm_reassemble_due(rv));

	KUNIT_ASSERT_EQ(test, reassemble(r->obj, rv), 0);
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv));
	KUNIT_EXPECT_FALSE(test, spm_reassemble_due(rv));
	EXPECT_STAT(test, r->base->counters, reassembled, 1);
	EXPECT_FAMILY(test);
}

/* FreeBSD's D22392: the scan stopped at a reservation that somebody had locked. */
static void the_scan_passes_a_locked_slot(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_reserv *rv[SPM_TEST_SLOTS];
	long busy = spm_stat_read(NULL, SPM_STAT_reclaim_busy);
	unsigned int s;
	int nid;

	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		set_all(test, r, s);
		rv[s] = held(test, r->obj, s);
	}
	mutex_lock(rv[0]->lock);
	for_each_node_state(nid, N_MEMORY)
		spm_reclaim_cold(nid, ULONG_MAX, 0);
	mutex_unlock(rv[0]->lock);
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv[0]));
	for (s = 1; s < SPM_TEST_SLOTS; s++)
		KUNIT_EXPECT_TRUE(test, spm_reserv_loose(rv[s]));
	KUNIT_EXPECT_GT(test, spm_stat_read(NULL, SPM_STAT_reclaim_busy), busy);
	EXPECT_FAMILY(test);
	for_each_node_state(nid, N_MEMORY)
		spm_reclaim_cold(nid, ULONG_MAX, 0);
	KUNIT_EXPECT_TRUE(test, spm_reserv_loose(rv[0]));
	EXPECT_FAMILY(test);
}

/* What changed goes behind what did not, and an age is an age. */
static void the_scan_takes_the_oldest_first(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_reserv *rv[SPM_TEST_SLOTS];
	unsigned int s;
	int nid;

	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		set_all(test, r, s);
		rv[s] = held(test, r->obj, s);
		spm_reserv_second_chance(rv[s]);
		rv[s]->state.tick = jiffies - 100 * HZ;
	}
	nid = rv[0]->nid;
	for (s = 1; s < SPM_TEST_SLOTS; s++)
		if (rv[s]->nid != nid)
			kunit_skip(test, "blocks of several NUMA nodes");
	rv[2]->state.tick = jiffies - 10 * HZ;
	spm_reclaim_cold(nid, ULONG_MAX, 1000 * HZ);
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv[0]));
	/* A change: a second chance. */
	KUNIT_ASSERT_EQ(test, spm_test_discard(r, 0, 1), 0);
	rv[0]->state.tick = jiffies - 100 * HZ;
	spm_reclaim_cold(nid, 1, 50 * HZ);
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv[0]));
	KUNIT_EXPECT_TRUE(test, spm_reserv_loose(rv[1]));
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv[2]));
	spm_reclaim_cold(nid, ULONG_MAX, 50 * HZ);
	KUNIT_EXPECT_TRUE(test, spm_reserv_loose(rv[0]));
	KUNIT_EXPECT_FALSE(test, spm_reserv_loose(rv[2]));
	EXPECT_FAMILY(test);
}

#define ROUNDS 400

/* Move what an object holds of a slot, whichever way it can be. */
static void move(struct kunit *test, struct spm_object *obj, unsigned int s)
{
	struct spm_reserv *rv = spm_test_reserv(obj, s);

	if (!rv)
		return;
	if (!spm_reserv_loose(rv))
		KUNIT_EXPECT_EQ(test, evacuate(obj, rv), 0);
	else if (spm_reserv_full(rv))
		reassemble(obj, rv);
}

/* Moves between everything else that happens to a family. */
static void moves_at_random(struct kunit *test)
{
	struct spm_test_family *f = test->priv;
	struct rnd_state rnd;
	unsigned int n;
	int err;

	spm_test_family_region(test);
	prandom_seed_state(&rnd, 20261201);
	for (n = 0; n < ROUNDS; n++) {
		u32 dice = prandom_u32_state(&rnd);
		struct spm_test_image *img = &f->images[dice % 6];
		unsigned int s = (dice >> 8) % SPM_TEST_SLOTS;
		unsigned int k = (dice >> 12) % SPM_TEST_PAGES;
		struct spm_object *obj;

		if (!img->obj)
			img = &f->images[0];
		switch ((dice >> 16) % 10) {
		case 0:
			if (!f->images[5].obj && !img->region)
				spm_test_snapshot(test, img, &err);
			break;
		case 1:
			if (img != &f->images[0] && !img->region) {
				bool parent = false;

				for (k = 0; k < SPM_TEST_IMAGES; k++)
					parent |= f->images[k].region == img;
				if (!parent)
					spm_test_put(img);
			}
			break;
		case 2:
			spm_test_discard(img, s * SPM_SLOT_PAGES + 3 * k,
					 s * SPM_SLOT_PAGES + 40 * k + 4);
			break;
		case 3:
			spm_test_fill(img, s);
			break;
		case 4 ... 6:
			spm_test_set(test, img, s, k);
			break;
		default:
			for (obj = img->obj; obj; obj = obj->backing)
				move(test, obj, s);
		}
		if (n % 16 == 0)
			EXPECT_FAMILY(test);
	}
	EXPECT_FAMILY(test);
}

static struct kunit_case reclaim_cases[] = {
	KUNIT_CASE(what_is_worth_breaking),
	KUNIT_CASE(what_is_worth_filling),
	KUNIT_CASE(pages_move),
	KUNIT_CASE(frozen_pages_move),
	KUNIT_CASE(held_pages_stay),
	KUNIT_CASE(without_memory_nothing_moves),
	KUNIT_CASE(when_a_block_is_looked_for),
	KUNIT_CASE(the_scan_passes_a_locked_slot),
	KUNIT_CASE(the_scan_takes_the_oldest_first),
	KUNIT_CASE_SLOW(moves_at_random),
	{}
};

static struct kunit_suite reclaim_suite = {
	.name = "superpmap_reclaim",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = reclaim_cases,
};

kunit_test_suite(reclaim_suite);
