// SPDX-License-Identifier: GPL-2.0
/*
 * Dirty state of objects, one rule at a time; track_random_test.c plays all of
 * them against a model.
 */
#include "dirty.h"

/* stores, loads, clears */

static void stores_are_dirty_loads_are_not(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);

	EXPECT_DIRTY(test, r, 0, 0);
	touch_mask(test, r, 0, ALL);
	EXPECT_DIRTY(test, r, 0, 0);
	set_mask(test, r, 0, 0x42);
	EXPECT_DIRTY(test, r, 0, 0x42);
	EXPECT_DIRTY(test, r, 1, 0);
	EXPECT_FAMILY(test);
}

static void clear_whole(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;

	set_mask(test, r, 0, 0x3c);
	set_mask(test, r, 1, ALL);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, 0);
	EXPECT_DIRTY(test, r, 1, ALL);
	EXPECT_STAT(test, c, cleared, 4);
	EXPECT_STAT(test, c, wrprotects, 1);
	/* There is nothing to do. */
	clear(test, r, 0);
	EXPECT_STAT(test, c, wrprotects, 1);
	set_mask(test, r, 0, 0x81);
	EXPECT_DIRTY(test, r, 0, 0x81);
	EXPECT_STAT(test, c, kept_dirty, 0);
	EXPECT_FAMILY(test);
}

/* At both ends, in the middle, nothing at all. */
static void clear_partial(struct kunit *test)
{
	static const struct {
		unsigned int lo, hi, left;
	} part[] = {
		{ 0, 1, ALL & ~0x01 }, { 511, 512, ALL & ~0x80 },
		{ 1, 256, ALL & ~0x0e }, { 3, 255, ALL }, { 256, 512, 0x0f },
		{ 0, 511, 0x80 },
	};
	struct spm_test_image *r = spm_test_family_region(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(part); i++) {
		set_mask(test, r, 0, ALL);
		KUNIT_EXPECT_EQ(test, clear_range(r, 0, part[i].lo, part[i].hi),
				0);
		EXPECT_DIRTY(test, r, 0, part[i].left);
	}
	EXPECT_FAMILY(test);
}

/* What is not cleared of a frozen object becomes the slot's own. */
static void clear_partial_keeps_what_is_below(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;

	set_mask(test, r, 0, 0x3f);
	s = snapshot(test, r);
	set_mask(test, r, 0, 0x40);
	/* Pages 0, 1, 2. */
	KUNIT_EXPECT_EQ(test, clear_range(r, 0, 0, 255), 0);
	EXPECT_DIRTY(test, r, 0, 0x78);
	EXPECT_DIRTY(test, s, 0, 0x3f);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, 0);
	EXPECT_DIRTY(test, s, 0, 0x3f);
	spm_test_put(s);
	EXPECT_DIRTY(test, r, 0, 0);
	EXPECT_FAMILY(test);
}

/* Each of two begins with what was dirty, and clears its own. */
static void siblings_clear_on_their_own(struct kunit *test)
{
	unsigned int first;

	for (first = 0; first < 4; first++) {
		struct spm_test_image *r = spm_test_family_region(test);
		struct spm_test_image *s, *x, *y;

		set_mask(test, r, 0, 0x0f);
		s = snapshot(test, r);
		x = first & 1 ? s : r;
		y = first & 1 ? r : s;
		EXPECT_DIRTY(test, x, 0, 0x0f);
		EXPECT_DIRTY(test, y, 0, 0x0f);
		clear(test, x, 0);
		EXPECT_DIRTY(test, x, 0, 0);
		EXPECT_DIRTY(test, y, 0, 0x0f);
		set_mask(test, x, 0, 0x11);
		set_mask(test, y, 0, 0x22);
		EXPECT_DIRTY(test, x, 0, 0x11);
		EXPECT_DIRTY(test, y, 0, 0x2f);
		/* The pages of one that goes are the other's. */
		if (first & 2) {
			spm_test_put(x);
			EXPECT_DIRTY(test, y, 0, 0x2f);
			clear(test, y, 0);
			EXPECT_DIRTY(test, y, 0, 0);
		} else {
			spm_test_put(y);
			EXPECT_DIRTY(test, x, 0, 0x11);
		}
		EXPECT_FAMILY(test);
		spm_test_family_again(test);
	}
}

/* What others store to the region is nothing that a private mapping did. */
static void private_mappings_have_their_own(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;

	set_mask(test, r, 0, 0x0f);
	p = spm_test_private(test, r);
	EXPECT_DIRTY(test, p, 0, 0);
	set_mask(test, p, 0, 0x18);
	touch_mask(test, p, 0, 0x40);
	EXPECT_DIRTY(test, p, 0, 0x18);
	EXPECT_DIRTY(test, r, 0, 0x0f);
	c = fork_of(test, p);
	EXPECT_DIRTY(test, c, 0, 0x18);
	clear(test, p, 0);
	EXPECT_DIRTY(test, p, 0, 0);
	EXPECT_DIRTY(test, c, 0, 0x18);
	set_mask(test, c, 0, 0x20);
	spm_test_put(p);
	EXPECT_DIRTY(test, c, 0, 0x38);
	clear(test, r, 0);
	EXPECT_DIRTY(test, c, 0, 0x38);
	EXPECT_FAMILY(test);
}

/* The child has the state of the parent's slot, though it holds no page. */
static void fork_of_a_cleared_slot(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;

	set_mask(test, r, 0, 0x0f);
	p = spm_test_private(test, r);
	clear(test, p, 0);
	c = fork_of(test, p);
	discard_mask(test, p, 0, 0x01);
	EXPECT_DIRTY(test, p, 0, 0x01);
	discard_mask(test, c, 0, 0x02);
	EXPECT_DIRTY(test, c, 0, 0x02);
	EXPECT_FAMILY(test);
}

/* discards and smaller sizes */

static void discards_of_a_cleared_slot(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;

	set_mask(test, r, 0, 0x0f);
	set_mask(test, r, 1, 0x0f);
	discard_mask(test, r, 0, 0x01);
	/* Nobody was ever told that the page was dirty. */
	EXPECT_DIRTY(test, r, 0, 0x0e);
	EXPECT_STAT(test, c, gone, 0);
	clear(test, r, 0);
	discard_mask(test, r, 0, 0x02);
	EXPECT_DIRTY(test, r, 0, 0x02);
	EXPECT_STAT(test, c, gone, 1);
	/* Zeros already. */
	discard_mask(test, r, 0, 0xf1);
	EXPECT_DIRTY(test, r, 0, 0x02);
	/* Stored to since, and not told yet. */
	set_mask(test, r, 0, 0x80);
	discard_mask(test, r, 0, 0x80);
	EXPECT_DIRTY(test, r, 0, 0x82);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, 0);
	/* No slot but the one that was cleared. */
	discard_mask(test, r, 1, 0x01);
	EXPECT_DIRTY(test, r, 1, 0x0e);
	EXPECT_FAMILY(test);
}

static void marks_survive_freeze_and_collapse(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s, *u;

	set_mask(test, r, 0, 0x0f);
	clear(test, r, 0);
	discard_mask(test, r, 0, 0x03);
	s = snapshot(test, r);
	EXPECT_DIRTY(test, r, 0, 0x03);
	EXPECT_DIRTY(test, s, 0, 0x03);
	u = snapshot(test, s);
	EXPECT_DIRTY(test, u, 0, 0x03);
	/* The source was cleared, so all three have to tell. */
	discard_mask(test, r, 0, 0x04);
	discard_mask(test, u, 0, 0x08);
	EXPECT_DIRTY(test, r, 0, 0x07);
	EXPECT_DIRTY(test, s, 0, 0x03);
	EXPECT_DIRTY(test, u, 0, 0x0b);
	clear(test, s, 0);
	EXPECT_DIRTY(test, u, 0, 0x0b);
	spm_test_put(r);
	EXPECT_DIRTY(test, s, 0, 0);
	EXPECT_DIRTY(test, u, 0, 0x0b);
	spm_test_put(s);
	EXPECT_DIRTY(test, u, 0, 0x0b);
	EXPECT_FAMILY(test);
}

static void smaller_sizes_are_told(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *s;

	set_mask(test, r, 0, ALL);
	set_mask(test, r, 1, 0x0f);
	set_mask(test, r, 2, 0x0f);
	p = spm_test_private(test, r);
	set_mask(test, p, 1, 0x80);
	s = snapshot(test, r);
	clear(test, r, 0);
	clear(test, r, 1);
	clear(test, p, 1);
	spm_test_truncate(test, r, 256);
	/* Pages 256, 300, 510, 511. */
	EXPECT_DIRTY(test, r, 0, 0xf0);
	EXPECT_DIRTY(test, r, 1, 0x0f);
	EXPECT_DIRTY(test, p, 1, 0x8f);
	/* Never cleared, and zeros now. */
	EXPECT_DIRTY(test, r, 2, 0);
	EXPECT_DIRTY(test, s, 0, ALL);
	EXPECT_DIRTY(test, s, 2, 0x0f);
	EXPECT_FAMILY(test);
}

/* held pages */

static void held_pages_stay_dirty(struct kunit *test, bool loose,
				  unsigned int kept)
{
	struct spm_test_image *r = spm_test_family_region(test);
	const struct spm_counters *c = r->base->counters;
	struct page *page;

	if (loose)
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_no_block);
	set_mask(test, r, 0, 0x1f);
	if (loose)
		kunit_deactivate_static_stub(test, spm_folio_alloc);
	page = spm_reserv_page(spm_test_reserv(r->obj, 0), 0);
	get_page(page);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, kept);
	EXPECT_STAT(test, c, kept_dirty, hweight32(kept));
	EXPECT_STAT(test, c, cleared, hweight32(0x1f & ~kept));
	/* Again and again, as long as somebody may store to it. */
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, kept);
	put_page(page);
	EXPECT_DIRTY(test, r, 0, kept);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, 0);
	EXPECT_FAMILY(test);
}

static void held_block_stays_dirty(struct kunit *test)
{
	held_pages_stay_dirty(test, false, 0x1f);
}

static void held_single_page_stays_dirty(struct kunit *test)
{
	held_pages_stay_dirty(test, true, 0x01);
}

/* A copy is made for the other side; both know what was dirty. */
static void pinned_memory_keeps_its_state(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct page *page;

	set_mask(test, r, 0, 0x07);
	clear(test, r, 0);
	set_mask(test, r, 0, 0x18);
	page = spm_test_pin(spm_test_reserv(r->obj, 0));
	s = snapshot(test, r);
	EXPECT_DIRTY(test, r, 0, 0x18);
	EXPECT_DIRTY(test, s, 0, 0x18);
	clear(test, s, 0);
	EXPECT_DIRTY(test, r, 0, 0x18);
	unpin_user_page(page);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, 0);
	EXPECT_FAMILY(test);
}

/* restore */

static void restore_of_own_and_inherited_pages(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct spm_slot *slot;
	unsigned int k;

	set_mask(test, r, 0, 0x0f);
	s = snapshot(test, r);
	set_mask(test, r, 0, 0x03);
	clear(test, r, 0);
	slot = spm_object_find_slot(r->obj, 0);
	mutex_lock(slot->lock);
	/* One that it holds, one that shows through, one that nobody holds. */
	for (k = 1; k < 6; k += 2)
		spm_track_restore(r->obj, slot, spm_test_pages[k],
				  spm_test_pages[k] + 1);
	mutex_unlock(slot->lock);
	EXPECT_DIRTY(test, r, 0, 0x2a);
	EXPECT_DIRTY(test, s, 0, 0x0f);
	spm_test_put(s);
	EXPECT_DIRTY(test, r, 0, 0x2a);
	clear(test, r, 0);
	EXPECT_DIRTY(test, r, 0, 0);
	EXPECT_FAMILY(test);
}

static struct kunit_case track_cases[] = {
	KUNIT_CASE(stores_are_dirty_loads_are_not),
	KUNIT_CASE(clear_whole),
	KUNIT_CASE(clear_partial),
	KUNIT_CASE(clear_partial_keeps_what_is_below),
	KUNIT_CASE(siblings_clear_on_their_own),
	KUNIT_CASE(private_mappings_have_their_own),
	KUNIT_CASE(fork_of_a_cleared_slot),
	KUNIT_CASE(discards_of_a_cleared_slot),
	KUNIT_CASE(marks_survive_freeze_and_collapse),
	KUNIT_CASE(smaller_sizes_are_told),
	KUNIT_CASE(held_block_stays_dirty),
	KUNIT_CASE(held_single_page_stays_dirty),
	KUNIT_CASE(pinned_memory_keeps_its_state),
	KUNIT_CASE(restore_of_own_and_inherited_pages),
	{}
};

static struct kunit_suite track_suite = {
	.name = "superpmap_track",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = track_cases,
};

kunit_test_suite(track_suite);
