// SPDX-License-Identifier: GPL-2.0
/*
 * Copy on write without processes: snapshots and forks, what is stored, hidden
 * and cut off after them, and what happens when memory runs out.
 */
#include <kunit/static_stub.h>
#include <linux/kthread.h>
#include <linux/mm.h>

#include "family.h"

#define FULL SPM_SLOT_PAGES
#define NPAGES SPM_TEST_PAGES

#define COUNT(img, field) spm_stat_read((img)->base->counters, SPM_STAT_##field)

static void set_pages(struct kunit *test, struct spm_test_image *img,
		      unsigned int s, unsigned int first, unsigned int end)
{
	for (; first < end; first++)
		KUNIT_ASSERT_EQ(test, spm_test_set(test, img, s, first), 0);
}

/* The same in single pages. */
static void set_loose(struct kunit *test, struct spm_test_image *img,
		      unsigned int s, unsigned int first, unsigned int end)
{
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	set_pages(test, img, s, first, end);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	KUNIT_ASSERT_TRUE(test, spm_reserv_loose(spm_test_reserv(img->obj, s)));
}

static void fill(struct kunit *test, struct spm_test_image *img, unsigned int s)
{
	KUNIT_ASSERT_EQ(test, spm_test_fill(img, s), 0);
}

static struct spm_test_image *snapshot(struct kunit *test,
				       struct spm_test_image *of)
{
	struct spm_test_image *img;
	int err;

	img = spm_test_snapshot(test, of, &err);
	KUNIT_ASSERT_EQ(test, err, 0);
	return img;
}

static struct spm_test_image *fork_of(struct kunit *test,
				      struct spm_test_image *of)
{
	struct spm_test_image *img;
	int err;

	img = spm_test_fork(test, of, &err);
	KUNIT_ASSERT_EQ(test, err, 0);
	return img;
}

static void discard(struct kunit *test, struct spm_test_image *img,
		    pgoff_t first, pgoff_t end)
{
	KUNIT_ASSERT_EQ(test, spm_test_discard(img, first, end), 0);
}

/* A full block, a partly filled one, single pages. */
static void make_all_kinds(struct kunit *test, struct spm_test_image *img)
{
	set_pages(test, img, 0, 0, NPAGES);
	fill(test, img, 0);
	set_pages(test, img, 1, 2, 5);
	KUNIT_ASSERT_EQ(test, spm_test_touch(img, 1, 6), 0);
	set_loose(test, img, 2, 1, 4);
}

/* freeze */

static void expect_moved_down(struct kunit *test, struct spm_test_image *img,
			      struct spm_test_image *side,
			      struct spm_reserv **rv)
{
	struct spm_object *frozen = img->obj->backing;
	unsigned int s;

	KUNIT_ASSERT_NOT_NULL(test, frozen);
	KUNIT_EXPECT_PTR_EQ(test, side->obj->backing, frozen);
	KUNIT_EXPECT_EQ(test, frozen->users, 0);
	KUNIT_EXPECT_EQ(test, frozen->private, img->obj->private);
	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		KUNIT_EXPECT_NULL(test, spm_test_reserv(img->obj, s));
		KUNIT_EXPECT_NULL(test, spm_test_reserv(side->obj, s));
		KUNIT_EXPECT_PTR_EQ(test, spm_test_reserv(frozen, s), rv[s]);
		KUNIT_EXPECT_PTR_EQ(test, rv[s]->owner, &frozen->owner);
	}
}

static void remember(struct spm_test_image *img, struct spm_reserv **rv)
{
	unsigned int s;

	for (s = 0; s < SPM_TEST_SLOTS; s++)
		rv[s] = spm_test_reserv(img->obj, s);
}

/* A snapshot copies nothing: memory changes hands, whole. */
static void snapshot_moves_memory_down(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct spm_reserv *rv[SPM_TEST_SLOTS];
	long populated;

	make_all_kinds(test, r);
	remember(r, rv);
	populated = COUNT(r, populated);
	s = snapshot(test, r);
	expect_moved_down(test, r, s, rv);
	EXPECT_FAMILY(test);
	EXPECT_STAT(test, r->base->counters, populated, populated);
	EXPECT_STAT(test, r->base->counters, snapshots, 1);
	EXPECT_STAT(test, r->base->counters, cow_early, 0);
	EXPECT_STAT(test, s->base->counters, populated, 0);
	EXPECT_STAT(test, s->base->counters, pages, 0);

	set_pages(test, r, 0, 0, 3);
	set_pages(test, s, 0, 2, 5);
	set_pages(test, s, 1, 0, 3);
	set_pages(test, r, 2, 3, NPAGES);
	EXPECT_FAMILY(test);
	/* Pages 0..2 and 3 of those stored were there to be copied. */
	EXPECT_STAT(test, r->base->counters, cow_copied, 3 + 1);
	EXPECT_STAT(test, s->base->counters, cow_copied, 3 + 1);
}

static void fork_moves_memory_down(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;
	struct spm_reserv *rv[SPM_TEST_SLOTS];

	set_pages(test, r, 1, 0, NPAGES);
	p = spm_test_private(test, r);
	make_all_kinds(test, p);
	remember(p, rv);
	c = fork_of(test, p);
	expect_moved_down(test, p, c, rv);
	EXPECT_FAMILY(test);
	EXPECT_STAT(test, r->base->counters, forks, 1);
	EXPECT_STAT(test, r->base->counters, snapshots, 0);
	set_pages(test, p, 1, 1, 3);
	set_pages(test, c, 1, 2, 4);
	set_pages(test, c, 0, 0, 1);
	/* Neither has its own copy of these: both see it. */
	set_pages(test, r, 1, 5, 6);
	EXPECT_FAMILY(test);
	spm_test_put(p);
	EXPECT_FAMILY(test);
}

static void snapshots_of_snapshots(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_test_image *s, *ss, *sss;

	make_all_kinds(test, r);
	s = snapshot(test, r);
	set_pages(test, s, 0, 0, 1);
	ss = snapshot(test, s);
	set_pages(test, ss, 0, 1, 2);
	set_pages(test, s, 0, 2, 3);
	sss = snapshot(test, ss);
	set_pages(test, r, 0, 0, 4);
	set_pages(test, sss, 2, 0, NPAGES);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_depth(sss->obj), 3);
	spm_test_put(ss);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_depth(sss->obj), 2);
	spm_test_put(r);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_depth(sss->obj), 1);
	spm_test_put(s);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_NULL(test, sss->obj->backing);
}

/* Where there is nothing to freeze, the chain gets no longer. */
static void empty_object_is_not_frozen(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *a, *b, *p, *c;

	a = snapshot(test, r);
	KUNIT_EXPECT_NULL(test, r->obj->backing);
	KUNIT_EXPECT_NULL(test, a->obj->backing);
	set_pages(test, r, 0, 0, 2);
	EXPECT_FAMILY(test);
	spm_test_put(a);

	a = snapshot(test, r);
	b = snapshot(test, r);
	KUNIT_EXPECT_EQ(test, spm_test_depth(r->obj), 1);
	KUNIT_EXPECT_PTR_EQ(test, b->obj->backing, a->obj->backing);
	EXPECT_FAMILY(test);
	set_pages(test, b, 0, 1, 3);
	EXPECT_FAMILY(test);

	p = spm_test_private(test, r);
	c = fork_of(test, p);
	KUNIT_EXPECT_PTR_EQ(test, c->obj->backing, r->obj);
	set_pages(test, r, 1, 0, 1);
	EXPECT_FAMILY(test);
}

/* A slot that only hides pages is contents, too. */
static void hidden_pages_are_frozen(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *a, *b;
	struct spm_object *frozen;

	set_pages(test, r, 0, 0, NPAGES);
	a = snapshot(test, r);
	discard(test, r, 0, 256);
	KUNIT_EXPECT_NULL(test, spm_test_reserv(r->obj, 0));
	b = snapshot(test, r);
	frozen = r->obj->backing;
	KUNIT_EXPECT_PTR_EQ(test, b->obj->backing, frozen);
	KUNIT_EXPECT_PTR_NE(test, a->obj->backing, frozen);
	KUNIT_EXPECT_NULL(test, spm_object_find_slot(r->obj, 0)->hidden);
	KUNIT_EXPECT_NOT_NULL(test, spm_object_find_slot(frozen, 0)->hidden);
	EXPECT_FAMILY(test);
	set_pages(test, b, 0, 1, 2);
	EXPECT_FAMILY(test);
	spm_test_put(r);
	EXPECT_FAMILY(test);
	spm_test_put(a);
	EXPECT_FAMILY(test);
}

/* generations */

/* A chain of @n generations under @img, all of them in use by @sides. */
static void make_generations(struct kunit *test, struct spm_test_image *img,
			     struct spm_object **sides, unsigned int n,
			     enum spm_freeze_cause cause)
{
	const void *mm = cause == SPM_FREEZE_FORK ? sides : NULL;
	unsigned int i;

	for (i = 0; i < n; i++) {
		set_pages(test, img, 0, i % NPAGES, i % NPAGES + 1);
		sides[i] = spm_test_base_object(img->base, img->obj->family, mm);
		KUNIT_ASSERT_NOT_NULL(test, sides[i]);
		KUNIT_ASSERT_EQ(test, spm_cow_shadow(img->obj, sides[i], cause),
				0);
	}
}

static void put_generations(struct spm_object **sides, unsigned int n)
{
	while (n--)
		if (sides[n])
			spm_object_put(sides[n]);
}

static void too_many_snapshots(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct spm_object *sides[SPM_DEPTH_MAX] = { };
	struct spm_reserv *rv;
	long objects;
	int err;

	make_generations(test, r, sides, SPM_DEPTH_MAX, SPM_FREEZE_SNAPSHOT);
	KUNIT_EXPECT_EQ(test, spm_test_depth(r->obj), SPM_DEPTH_MAX);
	EXPECT_FAMILY(test);
	/* Nothing was stored since: no generation more. */
	s = snapshot(test, r);
	KUNIT_EXPECT_EQ(test, spm_test_depth(s->obj), SPM_DEPTH_MAX);
	spm_test_put(s);

	set_pages(test, r, 1, 0, 3);
	rv = spm_test_reserv(r->obj, 1);
	objects = COUNT(r, objects);
	KUNIT_EXPECT_NULL(test, spm_test_snapshot(test, r, &err));
	KUNIT_EXPECT_EQ(test, err, -EMLINK);
	KUNIT_EXPECT_PTR_EQ(test, spm_test_reserv(r->obj, 1), rv);
	EXPECT_STAT(test, r->base->counters, objects, objects);
	EXPECT_STAT(test, r->base->counters, snapshots, SPM_DEPTH_MAX + 1);
	EXPECT_FAMILY(test);

	/* One generation that is not in use any more makes room for one. */
	spm_object_put(sides[30]);
	sides[30] = NULL;
	KUNIT_EXPECT_EQ(test, spm_test_depth(r->obj), SPM_DEPTH_MAX - 1);
	s = snapshot(test, r);
	EXPECT_FAMILY(test);
	set_pages(test, s, 0, 0, NPAGES);
	EXPECT_FAMILY(test);
	put_generations(sides, SPM_DEPTH_MAX);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_depth(r->obj), 1);
}

/* The child cannot do without: it gets a copy of everything. */
static void fork_copies_at_the_bound(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;
	struct spm_object *sides[SPM_DEPTH_MAX] = { };
	unsigned int s, k;
	long early;

	set_pages(test, r, 0, 4, NPAGES);
	set_pages(test, r, 2, 0, 1);
	p = spm_test_private(test, r);
	make_generations(test, p, sides, SPM_DEPTH_MAX - 1, SPM_FREEZE_FORK);
	KUNIT_EXPECT_EQ(test, spm_test_depth(p->obj), SPM_DEPTH_MAX);
	set_pages(test, p, 1, 2, 3);
	discard(test, p, 511, 512);
	early = COUNT(p, cow_early);
	c = fork_of(test, p);
	KUNIT_EXPECT_NULL(test, c->obj->backing);
	KUNIT_EXPECT_EQ(test, spm_test_depth(p->obj), SPM_DEPTH_MAX);
	/* Page 511 of slot 0 reads as zeros: not worth a page. */
	EXPECT_STAT(test, r->base->counters, cow_early,
		    early + NPAGES - 1 + 1 + 1);
	EXPECT_STAT(test, r->base->counters, forks, SPM_DEPTH_MAX);
	EXPECT_FAMILY(test);
	/* It does not see what is stored to the region any more. */
	for (s = 0; s < SPM_TEST_SLOTS; s++)
		for (k = 0; k < NPAGES; k++) {
			c->value[s][k] = spm_test_want(c, s, k);
			c->own[s][k] = true;
		}
	set_pages(test, c, 0, 0, 2);
	set_pages(test, p, 0, 1, 3);
	set_pages(test, r, 2, 0, 2);
	EXPECT_FAMILY(test);
	put_generations(sides, SPM_DEPTH_MAX);
	EXPECT_FAMILY(test);
}

static void fork_at_the_bound_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;
	struct spm_object *sides[SPM_DEPTH_MAX] = { };
	unsigned int n;
	int err;

	set_pages(test, r, 0, 4, NPAGES);
	p = spm_test_private(test, r);
	make_generations(test, p, sides, SPM_DEPTH_MAX - 1, SPM_FREEZE_FORK);
	set_pages(test, p, 1, 2, 3);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_folios_left);
	for (n = 0; n < NPAGES + 1; n++) {
		spm_test_folios = n;
		c = spm_test_fork(test, p, &err);
		KUNIT_EXPECT_NULL(test, c);
		KUNIT_EXPECT_EQ(test, err, -ENOMEM);
		EXPECT_FAMILY(test);
	}
	spm_test_folios = n;
	c = spm_test_fork(test, p, &err);
	KUNIT_EXPECT_NOT_NULL(test, c);
	EXPECT_FAMILY(test);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	put_generations(sides, SPM_DEPTH_MAX);
}

/* pins */

/* I/O goes on in the memory of the side that began it; the other has copies. */
static void pinned_memory_stays(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct spm_reserv *rv[SPM_TEST_SLOTS];
	struct page *pin[SPM_TEST_SLOTS];
	unsigned int i;

	make_all_kinds(test, r);
	remember(r, rv);
	for (i = 0; i < SPM_TEST_SLOTS; i++)
		pin[i] = spm_test_pin(rv[i]);
	s = snapshot(test, r);
	for (i = 0; i < SPM_TEST_SLOTS; i++) {
		KUNIT_EXPECT_PTR_EQ(test, spm_test_reserv(r->obj, i), rv[i]);
		KUNIT_EXPECT_NULL(test, spm_test_reserv(s->obj, i));
	}
	EXPECT_STAT(test, r->base->counters, cow_early, FULL + 4 + 3);
	EXPECT_FAMILY(test);
	/* The device writes. */
	spm_test_page_set(pin[0], 4711);
	r->value[0][0] = 4711;
	EXPECT_FAMILY(test);
	for (i = 0; i < SPM_TEST_SLOTS; i++)
		unpin_user_page(pin[i]);
	spm_test_put(s);
	EXPECT_FAMILY(test);
	/* All that was below is hidden: nothing to merge. */
	EXPECT_STAT(test, r->base->counters, cow_merged, 0);
	EXPECT_STAT(test, r->base->counters, cow_optim, 0);
}

/* Dirty stays dirty, and what is clean stays so, in the copies. */
static void early_copies_keep_dirty_bits(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_reserv *rv, *copy;
	struct page *pin;

	set_pages(test, r, 1, 2, 5);
	KUNIT_ASSERT_EQ(test, spm_test_touch(r, 1, 6), 0);
	rv = spm_test_reserv(r->obj, 1);
	pin = spm_test_pin(rv);
	snapshot(test, r);
	unpin_user_page(pin);
	copy = spm_test_reserv(r->obj->backing, 1);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_EXPECT_PTR_NE(test, copy, rv);
	KUNIT_EXPECT_TRUE(test, bitmap_equal(copy->popmap, rv->popmap, FULL));
	KUNIT_EXPECT_TRUE(test, bitmap_equal(copy->dirty, rv->dirty, FULL));
	KUNIT_EXPECT_EQ(test, copy->ndirty, 3);
}

/* Memory runs out at every page that has to be copied. */
static void pinned_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct spm_reserv *rv[SPM_TEST_SLOTS], *now[SPM_TEST_SLOTS];
	struct page *pin;
	unsigned int n;
	int err;

	set_pages(test, r, 0, 0, 3);
	set_pages(test, r, 1, 2, 5);
	KUNIT_ASSERT_EQ(test, spm_test_touch(r, 1, 6), 0);
	set_loose(test, r, 2, 1, 4);
	/* So that the failed freeze has hidden pages to bring back. */
	s = snapshot(test, r);
	discard(test, r, 0, 2);
	set_pages(test, r, 0, 0, 1);
	set_pages(test, r, 1, 2, 5);
	set_loose(test, r, 2, 1, 4);
	remember(r, rv);
	pin = spm_test_pin(rv[1]);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_folios_left);
	for (n = 0; n < 3; n++) {
		spm_test_folios = n;
		KUNIT_EXPECT_NULL(test, spm_test_snapshot(test, r, &err));
		KUNIT_EXPECT_EQ(test, err, -ENOMEM);
		EXPECT_FAMILY(test);
		remember(r, now);
		KUNIT_EXPECT_MEMEQ(test, now, rv, sizeof(rv));
		KUNIT_EXPECT_PTR_EQ(test, r->obj->backing, s->obj->backing);
		KUNIT_EXPECT_NOT_NULL(test,
				      spm_object_find_slot(r->obj, 0)->hidden);
	}
	spm_test_folios = n;
	s = spm_test_snapshot(test, r, &err);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	unpin_user_page(pin);
	KUNIT_EXPECT_EQ(test, err, 0);
	EXPECT_FAMILY(test);
}

/* private mappings */

static void private_sees_what_it_has_not_copied(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *q;

	set_pages(test, r, 0, 0, 4);
	p = spm_test_private(test, r);
	q = spm_test_private(test, r);
	set_pages(test, p, 0, 1, 2);
	set_pages(test, r, 0, 0, 6);
	EXPECT_FAMILY(test);
	/* A snapshot of the region changes nothing of that. */
	snapshot(test, r);
	set_pages(test, r, 0, 2, NPAGES);
	set_pages(test, q, 0, 7, 8);
	EXPECT_FAMILY(test);
	spm_test_put(p);
	spm_test_put(q);
	EXPECT_FAMILY(test);
}

/* A load of zeros must not part a private mapping from its region. */
static void zeros_come_from_the_region(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;
	unsigned int k;

	p = spm_test_private(test, r);
	set_pages(test, p, 0, 0, 1);
	c = fork_of(test, p);
	for (k = 0; k < 4; k++)
		KUNIT_ASSERT_EQ(test, spm_test_touch(c, 0, k), 0);
	KUNIT_EXPECT_NULL(test, spm_test_reserv(c->obj, 0));
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(spm_test_reserv(r->obj, 0)), 3);
	KUNIT_EXPECT_EQ(test, spm_test_reserv(r->obj, 0)->ndirty, 0);
	set_pages(test, r, 0, 1, 3);
	EXPECT_FAMILY(test);
	/* What the parent hid before the fork is the child's own. */
	discard(test, p, 255, 257);
	spm_test_put(c);
	c = fork_of(test, p);
	KUNIT_ASSERT_EQ(test, spm_test_touch(c, 0, 3), 0);
	KUNIT_EXPECT_NOT_NULL(test, spm_test_reserv(c->obj, 0));
	set_pages(test, r, 0, 3, 5);
	EXPECT_FAMILY(test);
}

/*
 * Several VMAs of a process may show one object; so do those of its child, by
 * one object of its own, with as many users.
 */
static void one_object_for_all_vmas_of_a_child(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *p, *q, *c;
	const struct mm_struct *child = (void *)&r, *other = (void *)&p;
	struct spm_object *side;
	unsigned int stored;

	p = spm_test_private(test, r);
	q = spm_test_private(test, r);
	for (stored = 0; stored < 2; stored++) {
		if (stored)
			set_pages(test, p, 0, 0, 2);
		KUNIT_EXPECT_NULL(test, spm_cow_forked(p->obj, child));
		side = spm_test_base_object(p->base, p->obj->family, child);
		KUNIT_ASSERT_NOT_NULL(test, side);
		side->forked = p->obj;
		KUNIT_EXPECT_EQ(test, spm_cow_shadow(p->obj, side,
						     SPM_FREEZE_FORK), 0);
		KUNIT_EXPECT_NULL(test, spm_cow_forked(p->obj, other));
		KUNIT_EXPECT_NULL(test, spm_cow_forked(q->obj, child));
		KUNIT_EXPECT_PTR_EQ(test, spm_cow_forked(p->obj, child), side);
		KUNIT_EXPECT_EQ(test, side->users, 2);
		/* The child may move one of them, and unmap both. */
		spm_object_use(side);
		KUNIT_EXPECT_EQ(test, side->users, 3);
		spm_object_put(side);
		spm_object_put(side);
		EXPECT_STAT(test, r->base->counters, objects, 4 + stored);
		spm_object_put(side);
		EXPECT_STAT(test, r->base->counters, objects, 3);
		EXPECT_FAMILY(test);
	}
	/* Somebody else's child in between does no harm. */
	c = fork_of(test, p);
	set_pages(test, c, 0, 1, 3);
	EXPECT_FAMILY(test);
}

/* discard */

static void discard_hides_what_others_keep(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s, *p;
	unsigned int i;

	make_all_kinds(test, r);
	s = snapshot(test, r);
	p = spm_test_private(test, r);
	/* By the region: its private mapping sees it, the snapshot does not. */
	discard(test, r, 1, 256);
	EXPECT_FAMILY(test);
	/* By the private mapping: nobody else sees it. */
	discard(test, p, 300, FULL + 3);
	EXPECT_FAMILY(test);
	set_pages(test, r, 0, 1, 3);
	set_pages(test, p, 0, 5, 7);
	EXPECT_FAMILY(test);
	/* What was stored since goes again. */
	discard(test, r, 0, SPM_TEST_SLOTS * FULL);
	discard(test, p, 0, SPM_TEST_SLOTS * FULL);
	EXPECT_FAMILY(test);
	for (i = 0; i < SPM_TEST_SLOTS; i++) {
		KUNIT_EXPECT_NULL(test, spm_test_reserv(r->obj, i));
		KUNIT_EXPECT_NULL(test, spm_test_reserv(p->obj, i));
	}
	discard(test, s, 0, SPM_TEST_SLOTS * FULL);
	EXPECT_FAMILY(test);
}

/* Ranges that begin and end anywhere in a slot. */
static void discard_of_every_range(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	unsigned int a, b;

	set_pages(test, r, 0, 0, NPAGES);
	set_pages(test, r, 1, 0, NPAGES);
	s = snapshot(test, r);
	for (a = 0; a < NPAGES; a++)
		for (b = 0; b < NPAGES; b++) {
			struct spm_test_image *t = snapshot(test, s);

			discard(test, t, spm_test_pages[a],
				FULL + spm_test_pages[b]);
			EXPECT_FAMILY(test);
			spm_test_put(t);
		}
	discard(test, s, 7, 7);
	KUNIT_EXPECT_NULL(test, spm_test_reserv(s->obj, 0));
	EXPECT_FAMILY(test);
}

/* Where nobody holds anything there is nothing to do, and nothing is made. */
static void discard_of_nothing(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);

	discard(test, r, 0, 1UL << 40);
	KUNIT_EXPECT_TRUE(test, xa_empty(&r->obj->slots));
	snapshot(test, r);
	set_pages(test, r, 2, 0, 1);
	snapshot(test, r);
	discard(test, r, 0, 1UL << 40);
	KUNIT_EXPECT_NULL(test, spm_object_find_slot(r->obj, 0));
	KUNIT_EXPECT_NOT_NULL(test, spm_object_find_slot(r->obj, 2));
	EXPECT_FAMILY(test);
}

/* What goes back to the system is what the object itself had. */
static void discards_count_own_pages(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s, *p;
	const struct spm_counters *c = r->base->counters;

	set_pages(test, r, 0, 0, NPAGES);
	s = snapshot(test, r);
	discard(test, r, 0, FULL);
	EXPECT_STAT(test, c, discarded, 0);
	EXPECT_STAT(test, c, pages, NPAGES);
	set_pages(test, r, 0, 0, 3);
	p = spm_test_private(test, r);
	set_pages(test, p, 0, 2, 6);
	EXPECT_STAT(test, c, pages, NPAGES + 3 + 4);
	discard(test, r, 1, FULL);
	EXPECT_STAT(test, c, discarded, 2);
	/* Page 0 of the region; 2, 255, 256 and 300 of the private mapping. */
	spm_test_truncate(test, r, 256);
	EXPECT_STAT(test, c, discarded, 2 + 2);
	spm_test_truncate(test, r, 0);
	EXPECT_STAT(test, c, discarded, 2 + 2 + 3);
	EXPECT_STAT(test, c, pages, NPAGES);
	EXPECT_FAMILY(test);
	spm_test_put(p);
	spm_test_put(r);
	EXPECT_FAMILY(test);
	EXPECT_STAT(test, s->base->counters, pages, NPAGES);
}

/* truncate */

static void truncate_keeps_snapshots(struct kunit *test)
{
	static const pgoff_t ends[] = { 2 * FULL, FULL + 256, FULL, 1, 0 };
	struct spm_test_image *r = spm_test_family_region(test), *p, *c;
	unsigned int i;

	make_all_kinds(test, r);
	snapshot(test, r);
	p = spm_test_private(test, r);
	set_pages(test, p, 1, 0, NPAGES);
	c = fork_of(test, p);
	set_pages(test, c, 1, 3, 6);
	set_pages(test, r, 0, 5, NPAGES);
	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		spm_test_truncate(test, r, ends[i]);
		EXPECT_FAMILY(test);
	}
	/* It grows again: zeros, and what is stored then. */
	set_pages(test, r, 1, 0, 4);
	set_pages(test, c, 1, 5, 7);
	EXPECT_FAMILY(test);
	snapshot(test, r);
	set_pages(test, r, 1, 2, 6);
	EXPECT_FAMILY(test);
	spm_test_put(p);
	EXPECT_FAMILY(test);
}

/* What is cut off stays so for all that comes to be later. */
static void the_end_is_inherited(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test);
	struct spm_test_image *s, *a, *b, *p, *c;

	set_pages(test, r, 0, 0, NPAGES);
	set_pages(test, r, 1, 0, NPAGES);
	p = spm_test_private(test, r);
	set_pages(test, p, 0, 0, 2);
	set_pages(test, p, 1, 2, 3);
	s = snapshot(test, r);
	spm_test_truncate(test, r, 256);
	/* Empty but for the end. */
	a = snapshot(test, r);
	EXPECT_FAMILY(test);
	set_pages(test, r, 0, 6, 7);
	b = snapshot(test, r);
	EXPECT_FAMILY(test);
	c = fork_of(test, p);
	EXPECT_FAMILY(test);
	set_pages(test, p, 0, 5, 7);
	spm_test_put(fork_of(test, p));
	EXPECT_FAMILY(test);
	/* Merges must not bring back what was cut off. */
	spm_test_put(s);
	EXPECT_FAMILY(test);
	spm_test_put(a);
	EXPECT_FAMILY(test);
	spm_test_put(b);
	EXPECT_FAMILY(test);
	spm_test_put(p);
	EXPECT_FAMILY(test);
	spm_test_put(c);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_NULL(test, r->obj->backing);
	EXPECT_STAT(test, r->base->counters, pages, 4 + 1);
}

/* copying up */

static void copying_a_slot_takes_what_shows(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	const struct spm_place pl = { .slot = 1 };
	struct spm_slot *slot;

	make_all_kinds(test, r);
	s = snapshot(test, r);
	set_pages(test, s, 1, 0, 3);
	slot = spm_object_find_slot(s->obj, 1);
	mutex_lock(slot->lock);
	/* 3, 4 and 6 show through; 0..2 are its own; nobody holds 5 and 7. */
	KUNIT_EXPECT_EQ(test, spm_cow_slot(s->obj, slot, &pl), 3);
	KUNIT_EXPECT_EQ(test, spm_cow_slot(s->obj, slot, &pl), 0);
	mutex_unlock(slot->lock);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(spm_test_reserv(s->obj, 1)), 6);
	KUNIT_EXPECT_EQ(test, spm_test_reserv(s->obj, 1)->ndirty, 6);
	EXPECT_STAT(test, s->base->counters, cow_copied, 1 + 3);
	EXPECT_FAMILY(test);
}

static void copying_a_slot_stops_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	const struct spm_place pl = { .slot = 0 };
	struct spm_slot *slot;
	unsigned int n;

	set_pages(test, r, 0, 0, NPAGES);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_folios_left);
	for (n = 0; n <= NPAGES; n++) {
		s = snapshot(test, r);
		slot = spm_object_slot(s->obj, 0, 0);
		KUNIT_ASSERT_NOT_NULL(test, slot);
		spm_test_folios = n;
		mutex_lock(slot->lock);
		KUNIT_EXPECT_EQ(test, spm_cow_slot(s->obj, slot, &pl), n);
		mutex_unlock(slot->lock);
		KUNIT_EXPECT_EQ(test, !!slot->reserv, !!n);
		EXPECT_FAMILY(test);
		spm_test_put(s);
	}
	kunit_deactivate_static_stub(test, spm_folio_alloc);
}

/* A store that finds no memory changes nothing, and leaves nothing behind. */
static void store_without_memory(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s, *p;

	set_pages(test, r, 0, 0, 3);
	s = snapshot(test, r);
	p = spm_test_private(test, s);
	set_loose(test, s, 0, 1, 2);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_page);
	KUNIT_EXPECT_EQ(test, spm_test_set(test, r, 0, 0), -ENOMEM);
	KUNIT_EXPECT_EQ(test, spm_test_set(test, p, 0, 1), -ENOMEM);
	KUNIT_EXPECT_EQ(test, spm_test_set(test, p, 0, 5), -ENOMEM);
	/* One that has a loose reservation already. */
	KUNIT_EXPECT_EQ(test, spm_test_set(test, s, 0, 2), -ENOMEM);
	KUNIT_EXPECT_EQ(test, spm_test_touch(p, 0, 5), -ENOMEM);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	KUNIT_EXPECT_NULL(test, spm_test_reserv(r->obj, 0));
	KUNIT_EXPECT_NULL(test, spm_test_reserv(p->obj, 0));
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(spm_test_reserv(s->obj, 0)), 1);
	EXPECT_FAMILY(test);
	set_pages(test, r, 0, 0, 1);
	set_pages(test, p, 0, 1, 6);
	EXPECT_FAMILY(test);
}

/* Stores wait while their object is being frozen, and only they. */
struct waiter {
	struct spm_object *obj;
	struct spm_slot *slot;
	int begun;
	int got;
};

static int store_lock(void *arg)
{
	struct waiter *w = arg;

	WRITE_ONCE(w->begun, 1);
	if (!spm_slot_lock_write(w->obj, w->slot)) {
		WRITE_ONCE(w->got, 1);
		mutex_unlock(w->slot->lock);
	}
	return spm_test_thread_end();
}

static void set_freezing(struct spm_object *obj, bool freezing)
{
	mutex_lock(&obj->family->lock);
	WRITE_ONCE(obj->freezing, freezing);
	if (!freezing)
		wake_up_all(&obj->family->thaw);
	mutex_unlock(&obj->family->lock);
}

static void stores_wait_for_the_freeze(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct waiter w = { };
	struct task_struct *task;
	unsigned int n;

	set_pages(test, r, 0, 0, 1);
	s = snapshot(test, r);
	w.obj = r->obj;
	w.slot = spm_object_find_slot(r->obj, 0);
	set_freezing(r->obj, true);
	task = kthread_run(store_lock, &w, "spm_waiter");
	if (IS_ERR(task)) {
		set_freezing(r->obj, false);
		KUNIT_FAIL_AND_ABORT(test, "no thread");
	}
	for (n = 0; n < 50 || !READ_ONCE(w.begun); n++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(w.got), 0);
	/* A sibling is not concerned; nor are loads. */
	KUNIT_EXPECT_EQ(test, spm_test_set(test, s, 0, 1), 0);
	KUNIT_EXPECT_EQ(test, spm_test_touch(r, 0, 1), 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(w.got), 0);
	set_freezing(r->obj, false);
	for (n = 0; n < 1000 && !READ_ONCE(w.got); n++)
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, READ_ONCE(w.got), 1);
	kthread_stop(task);
	EXPECT_FAMILY(test);
}

/* who goes when */

#define FOUR 4

/* The @n-th order of four. */
static void order(unsigned int n, unsigned int *out)
{
	unsigned int left[FOUR] = { 0, 1, 2, 3 };
	unsigned int i, k;

	for (i = 0; i < FOUR; i++) {
		unsigned int at = n % (FOUR - i);

		n /= FOUR - i;
		out[i] = left[at];
		for (k = at; k + 1 < FOUR - i; k++)
			left[k] = left[k + 1];
	}
}

/* Four relatives that each have pages of their own, and of the others'. */
static void make_relatives(struct kunit *test, struct spm_test_image **img)
{
	img[1] = snapshot(test, img[0]);
	set_pages(test, img[1], 0, 1, 3);
	set_loose(test, img[1], 2, 0, 2);
	img[2] = snapshot(test, img[1]);
	set_pages(test, img[2], 1, 0, 5);
	discard(test, img[2], 0, 2);
	img[3] = snapshot(test, img[1]);
	set_pages(test, img[3], 2, 0, NPAGES);
	set_pages(test, img[1], 1, 3, 6);
	set_pages(test, img[0], 0, 3, 6);
}

static void regions_go_in_any_order(struct kunit *test)
{
	struct spm_test_image *img[FOUR];
	unsigned int n, i, out[FOUR];

	for (n = 0; n < 4 * 3 * 2; n++) {
		struct spm_test_image *last;

		img[0] = spm_test_family_region(test);
		if (n) {
			/* The last of the round before is the new beginning. */
			discard(test, img[0], 0, SPM_TEST_SLOTS * FULL);
			EXPECT_FAMILY(test);
		}
		make_all_kinds(test, img[0]);
		make_relatives(test, img);
		EXPECT_FAMILY(test);
		order(n, out);
		for (i = 0; i < FOUR - 1; i++) {
			spm_test_put(img[out[i]]);
			EXPECT_FAMILY(test);
		}
		last = img[out[i]];
		KUNIT_EXPECT_NULL(test, last->obj->backing);
		/* To where the next round looks for it. */
		if (last != img[0]) {
			*img[0] = *last;
			last->obj = NULL;
		}
	}
}

static void processes_go_in_any_order(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *img[FOUR];
	unsigned int n, i, out[FOUR];

	make_all_kinds(test, r);
	for (n = 0; n < 4 * 3 * 2; n++) {
		img[0] = spm_test_private(test, r);
		set_pages(test, img[0], 0, 0, 4);
		img[1] = fork_of(test, img[0]);
		set_pages(test, img[1], 0, 2, 6);
		img[2] = fork_of(test, img[1]);
		set_loose(test, img[2], 1, 0, 3);
		img[3] = fork_of(test, img[0]);
		set_pages(test, img[3], 2, 0, NPAGES);
		set_pages(test, img[0], 0, 1, 2);
		discard(test, img[1], 0, 1);
		EXPECT_FAMILY(test);
		order(n, out);
		for (i = 0; i < FOUR; i++) {
			spm_test_put(img[out[i]]);
			if (i == 1)
				set_pages(test, r, 0, n % 8, n % 8 + 1);
			EXPECT_FAMILY(test);
		}
		EXPECT_STAT(test, r->base->counters, objects, 1);
		EXPECT_STAT(test, r->base->counters, links, 0);
	}
}

static struct kunit_case cow_cases[] = {
	KUNIT_CASE(snapshot_moves_memory_down),
	KUNIT_CASE(fork_moves_memory_down),
	KUNIT_CASE(snapshots_of_snapshots),
	KUNIT_CASE(empty_object_is_not_frozen),
	KUNIT_CASE(hidden_pages_are_frozen),
	KUNIT_CASE(too_many_snapshots),
	KUNIT_CASE(fork_copies_at_the_bound),
	KUNIT_CASE_SLOW(fork_at_the_bound_without_memory),
	KUNIT_CASE(pinned_memory_stays),
	KUNIT_CASE(early_copies_keep_dirty_bits),
	KUNIT_CASE(pinned_without_memory),
	KUNIT_CASE(private_sees_what_it_has_not_copied),
	KUNIT_CASE(zeros_come_from_the_region),
	KUNIT_CASE(one_object_for_all_vmas_of_a_child),
	KUNIT_CASE(discard_hides_what_others_keep),
	KUNIT_CASE(discard_of_every_range),
	KUNIT_CASE(discard_of_nothing),
	KUNIT_CASE(discards_count_own_pages),
	KUNIT_CASE(truncate_keeps_snapshots),
	KUNIT_CASE(the_end_is_inherited),
	KUNIT_CASE(copying_a_slot_takes_what_shows),
	KUNIT_CASE(copying_a_slot_stops_without_memory),
	KUNIT_CASE(store_without_memory),
	KUNIT_CASE(stores_wait_for_the_freeze),
	KUNIT_CASE_SLOW(regions_go_in_any_order),
	KUNIT_CASE_SLOW(processes_go_in_any_order),
	{}
};

static struct kunit_suite cow_suite = {
	.name = "superpmap_cow",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = cow_cases,
};

kunit_test_suite(cow_suite);
