// SPDX-License-Identifier: GPL-2.0
/*
 * Dirty state of objects, continued: what clears teach, copies at the bound of
 * generations, differences between two regions, and failures.
 */
#include "dirty.h"

/* dirty_grain=auto */

static int clear_and_learn(struct spm_test_image *img, unsigned int hi)
{
	struct spm_slot *slot = spm_object_find_slot(img->obj, 0);
	int err = spm_slot_lock_write(img->obj, slot);

	if (err)
		return err;
	err = spm_track_clear(img->obj, slot, 0, hi, true);
	mutex_unlock(slot->lock);
	return err;
}

/* From whole slots that were dirty, and from nothing else. */
static void clears_learn_the_grain(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;
	struct spm_grain_state *g;

	KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
	g = &spm_test_reserv(r->obj, 0)->grain;
	KUNIT_EXPECT_EQ(test, g->coarse, 1);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, LAST), 0);
	clear(test, r, 0);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, FULL), 0);
	KUNIT_EXPECT_EQ(test, g->coarse, 1);
	EXPECT_STAT(test, c, grain_4k, 0);

	set_mask(test, r, 0, 1);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, FULL), 0);
	KUNIT_EXPECT_EQ(test, g->coarse, 0);
	EXPECT_STAT(test, c, grain_4k, 1);
	/* The look: many pages. */
	KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, FULL), 0);
	KUNIT_EXPECT_EQ(test, g->coarse, 2);
	EXPECT_STAT(test, c, grain_2m, 1);
	set_mask(test, r, 0, 1);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, FULL), 0);
	EXPECT_STAT(test, c, grain_4k, 1);
	set_mask(test, r, 0, 1);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, FULL), 0);
	/* And few. */
	set_mask(test, r, 0, 1);
	KUNIT_EXPECT_EQ(test, clear_and_learn(r, FULL), 0);
	KUNIT_EXPECT_EQ(test, g->coarse, 0);
	EXPECT_STAT(test, c, grain_4k, 2);
	EXPECT_STAT(test, c, grain_2m, 1);
	EXPECT_FAMILY(test);
}

/* the bound of generations */

/* As many as there may be, all of them in use. */
static void make_generations(struct kunit *test, struct spm_test_image *p,
			     struct spm_object **sides)
{
	unsigned int i;

	for (i = 0; i < SPM_DEPTH_MAX - 1; i++) {
		set_mask(test, p, 0, BIT(i % 4));
		sides[i] = spm_test_base_object(p->base, p->obj->family,
						(void *)sides);
		KUNIT_ASSERT_NOT_NULL(test, sides[i]);
		KUNIT_ASSERT_EQ(test, spm_cow_shadow(p->obj, sides[i],
						     SPM_FREEZE_FORK), 0);
	}
}

static void put_generations(struct spm_object **sides)
{
	unsigned int i;

	for (i = 0; i < SPM_DEPTH_MAX - 1; i++)
		spm_object_put(sides[i]);
}

static void fork_copy_at_the_bound(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;
	struct spm_object *sides[SPM_DEPTH_MAX] = { };
	unsigned int i;

	set_mask(test, r, 0, 0xc0);
	set_mask(test, r, 2, 0x01);
	p = spm_test_private(test, r);
	make_generations(test, p, sides);
	clear(test, p, 0);
	set_mask(test, p, 0, 0x11);
	discard_mask(test, p, 0, 0x02);
	set_mask(test, p, 1, 0x04);
	discard_mask(test, p, 1, 0x04);
	c = fork_of(test, p);
	KUNIT_EXPECT_NULL(test, c->obj->backing);
	/* What it copied of the region is not dirty. */
	for (i = 0; i < SPM_TEST_SLOTS; i++)
		KUNIT_EXPECT_EQ(test, dirty_mask(c->obj, i),
				dirty_mask(p->obj, i));
	EXPECT_DIRTY(test, c, 0, 0x13);
	EXPECT_DIRTY(test, c, 1, 0);
	EXPECT_DIRTY(test, c, 2, 0);
	clear(test, p, 0);
	EXPECT_DIRTY(test, c, 0, 0x13);
	/* It is watched as the parent is. */
	discard_mask(test, c, 0, 0x04);
	EXPECT_DIRTY(test, c, 0, 0x17);
	put_generations(sides);
	EXPECT_DIRTY(test, c, 0, 0x17);
	EXPECT_DIRTY(test, p, 0, 0);
}

/* since */

static void since_a_snapshot(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s, *u;

	set_mask(test, r, 0, 0x0f);
	s = snapshot(test, r);
	EXPECT_SINCE(test, r, s, 0, 0);
	/* A store, a discard of data, one of zeros, loads. */
	set_mask(test, r, 0, 0x11);
	discard_mask(test, r, 0, 0x22);
	touch_mask(test, r, 0, 0xc6);
	EXPECT_SINCE(test, r, s, 0, 0x13);
	EXPECT_SINCE(test, s, r, 0, 0);
	/* A clear is none of its business. */
	clear(test, r, 0);
	EXPECT_SINCE(test, r, s, 0, 0x13);
	/* The other's own stores do not count. */
	set_mask(test, s, 0, 0x08);
	EXPECT_SINCE(test, r, s, 0, 0x13);
	EXPECT_SINCE(test, s, r, 0, 0x08);
	u = snapshot(test, r);
	set_mask(test, r, 0, 0x80);
	EXPECT_SINCE(test, u, s, 0, 0x13);
	EXPECT_SINCE(test, r, s, 0, 0x93);
	EXPECT_SINCE(test, r, u, 0, 0x80);
	spm_test_put(u);
	EXPECT_SINCE(test, r, s, 0, 0x93);
	/* Back to zeros, as it was. */
	discard_mask(test, r, 0, 0x80);
	EXPECT_SINCE(test, r, s, 0, 0x13);
	spm_test_truncate(test, r, 255);
	EXPECT_SINCE(test, r, s, 0, 0x0b);
	EXPECT_FAMILY(test);
}

/* Both began empty: whatever there is was stored after that. */
static void since_nothing(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;

	s = snapshot(test, r);
	set_mask(test, r, 0, 0x21);
	touch_mask(test, r, 0, 0x0e);
	touch_mask(test, s, 0, 0x0e);
	EXPECT_SINCE(test, r, s, 0, 0x21);
	EXPECT_SINCE(test, s, r, 0, 0);
	EXPECT_SINCE(test, r, s, 1, 0);
}

/* without memory for a slot's own book */

static int no_memory(struct spm_slot *slot, gfp_t more)
{
	return -ENOMEM;
}

static void clear_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	const struct spm_counters *c = r->base->counters;

	set_mask(test, r, 0, 0x0f);
	s = snapshot(test, r);
	set_mask(test, r, 0, 0x11);
	kunit_activate_static_stub(test, spm_slot_need_changed, no_memory);
	/* Pages 2 and 255 would have to be written down. */
	KUNIT_EXPECT_EQ(test, clear_range(r, 0, 0, 2), -ENOMEM);
	EXPECT_DIRTY(test, r, 0, 0x1f);
	EXPECT_DIRTY(test, s, 0, 0x0f);
	EXPECT_STAT(test, c, cleared, 0);
	EXPECT_STAT(test, c, wrprotects, 0);
	/* Still as if it was never cleared. */
	discard_mask(test, r, 0, 0x10);
	EXPECT_DIRTY(test, r, 0, 0x0f);
	/* The whole takes no memory; nor does the next part after that. */
	KUNIT_EXPECT_EQ(test, clear_range(r, 0, 0, FULL), 0);
	EXPECT_DIRTY(test, r, 0, 0);
	set_mask(test, r, 0, 0x03);
	KUNIT_EXPECT_EQ(test, clear_range(r, 0, 0, 1), 0);
	EXPECT_DIRTY(test, r, 0, 0x02);
	kunit_deactivate_static_stub(test, spm_slot_need_changed);
	EXPECT_DIRTY(test, s, 0, 0x0f);
	EXPECT_FAMILY(test);
}

static void discard_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;

	set_mask(test, r, 0, 0x0f);
	clear(test, r, 0);
	set_mask(test, r, 0, 0x02);
	kunit_activate_static_stub(test, spm_slot_need_changed, no_memory);
	/* 0 and 1 show something. */
	KUNIT_EXPECT_EQ(test, spm_test_discard(r, 0, 2), -ENOMEM);
	EXPECT_DIRTY(test, r, 0, 0x02);
	EXPECT_STAT(test, c, gone, 0);
	EXPECT_STAT(test, c, discarded, 0);
	EXPECT_FAMILY(test);
	/* Zeros already: nothing to write down. */
	KUNIT_EXPECT_EQ(test, spm_test_discard(r, 300, FULL), 0);
	kunit_deactivate_static_stub(test, spm_slot_need_changed);
	KUNIT_EXPECT_EQ(test, spm_test_discard(r, 0, 2), 0);
	EXPECT_DIRTY(test, r, 0, 0x03);
	EXPECT_STAT(test, c, gone, 2);
	EXPECT_FAMILY(test);
}

static void fork_copy_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p;
	struct spm_object *sides[SPM_DEPTH_MAX] = { };
	int err;

	set_mask(test, r, 0, 0xc0);
	p = spm_test_private(test, r);
	make_generations(test, p, sides);
	clear(test, p, 0);
	set_mask(test, p, 0, 0x11);
	discard_mask(test, p, 0, 0x02);
	kunit_activate_static_stub(test, spm_slot_need_changed, no_memory);
	KUNIT_EXPECT_NULL(test, spm_test_fork(test, p, &err));
	KUNIT_EXPECT_EQ(test, err, -ENOMEM);
	kunit_deactivate_static_stub(test, spm_slot_need_changed);
	EXPECT_DIRTY(test, p, 0, 0x13);
	EXPECT_FAMILY(test);
	put_generations(sides);
	EXPECT_DIRTY(test, p, 0, 0x13);
	EXPECT_FAMILY(test);
}

static struct kunit_case track_chain_cases[] = {
	KUNIT_CASE(clears_learn_the_grain),
	KUNIT_CASE(fork_copy_at_the_bound),
	KUNIT_CASE(since_a_snapshot),
	KUNIT_CASE(since_nothing),
	KUNIT_CASE(clear_without_memory),
	KUNIT_CASE(discard_without_memory),
	KUNIT_CASE(fork_copy_without_memory),
	{}
};

static struct kunit_suite track_chain_suite = {
	.name = "superpmap_track_chain",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = track_chain_cases,
};

kunit_test_suite(track_chain_suite);
