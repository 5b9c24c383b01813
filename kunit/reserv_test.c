// SPDX-License-Identifier: GPL-2.0
/*
 * Reservations: every step of their life, forwards and back.
 *
 * Each case owns its reservations, so no slot lock is needed to keep others
 * away from them.
 */
#include <kunit/static_stub.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/mm.h>

#include "support.h"

static_assert(sizeof(struct spm_reserv) <= 256);

#define LAST (SPM_SLOT_PAGES - 1)

static const struct spm_counters *counters(struct kunit *test)
{
	struct spm_test_object *t = test->priv;

	return t->base.counters;
}

/* What is not in a slot has no lock; reclaim finds this one taken. */
static DEFINE_MUTEX(taken);

static struct spm_reserv *alloc(struct kunit *test, pgoff_t index)
{
	struct spm_test_object *t = test->priv;
	struct spm_reserv *rv = spm_reserv_alloc(&t->obj->owner, index,
						 &taken, NULL, 0);

	KUNIT_ASSERT_NOT_NULL(test, rv);
	return rv;
}

/* Most cases are about blocks; where the guest has none left, say so. */
static struct spm_reserv *alloc_block(struct kunit *test, pgoff_t index)
{
	struct spm_reserv *rv = alloc(test, index);

	if (spm_reserv_loose(rv)) {
		spm_reserv_free(rv);
		kunit_skip(test, "no free 2 MB block");
	}
	return rv;
}

static void populate(struct kunit *test, struct spm_reserv *rv, unsigned int i)
{
	KUNIT_ASSERT_EQ(test,
			spm_reserv_populate(rv, i, NULL, 0, SPM_POPULATE_FAULT),
			0);
}

static void populate_range(struct kunit *test, struct spm_reserv *rv,
			   unsigned int first, unsigned int end)
{
	for (; first < end; first++)
		populate(test, rv, first);
}

static void depopulate_range(struct spm_reserv *rv, unsigned int first,
			     unsigned int end)
{
	for (; first < end; first++)
		spm_reserv_depopulate(rv, first);
}

/*
 * The tick decides whether a change counts as activity.  Set the time of the last
 * one instead of waiting for the clock.
 */
static void same_tick(struct spm_reserv *rv)
{
	rv->state.tick = jiffies;
}

static void later_tick(struct spm_reserv *rv)
{
	rv->state.tick = jiffies - 1;
}

static bool active(const struct spm_reserv *rv)
{
	return spm_reserv_state(rv).flags & SPM_RV_ACTIVE;
}

/* Where in the queue of its node: the list_lru's own order. */
struct position {
	const struct spm_reserv *rv;
	int seen;
	int at;
};

static enum lru_status find_position(struct list_head *item,
				     struct list_lru_one *list, void *arg)
{
	struct position *p = arg;

	if (container_of(item, struct spm_reserv, partpopq) == p->rv)
		p->at = p->seen;
	p->seen++;
	return LRU_SKIP;
}

/* Returns -1 for one that is not queued. */
static int position(const struct spm_reserv *rv)
{
	struct position p = { .rv = rv, .at = -1 };
	unsigned long all = ULONG_MAX;

	if (rv->nid != NUMA_NO_NODE)
		list_lru_walk_one(&spm_partpopq, rv->nid, NULL, find_position,
				  &p, &all);
	return p.at;
}

/* The counts, the flag, the list and the gauges must tell the same story. */
static void expect_state(struct kunit *test, const struct spm_reserv *rv,
			 unsigned int popcnt)
{
	const struct spm_counters *c = counters(test);
	bool loose = spm_reserv_loose(rv);
	bool queued = popcnt && popcnt < SPM_SLOT_PAGES && !loose;

	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv), popcnt);
	KUNIT_EXPECT_EQ(test, bitmap_weight(rv->popmap, SPM_SLOT_PAGES), popcnt);
	KUNIT_EXPECT_EQ(test, bitmap_weight(rv->dirty, SPM_SLOT_PAGES),
			rv->ndirty);
	KUNIT_EXPECT_TRUE(test, bitmap_subset(rv->dirty, rv->popmap,
					      SPM_SLOT_PAGES));
	KUNIT_EXPECT_EQ(test, spm_reserv_queued(rv), queued);
	KUNIT_EXPECT_EQ(test, position(rv) >= 0, queued);
	KUNIT_EXPECT_EQ(test, spm_reserv_full(rv), popcnt == SPM_SLOT_PAGES);
	EXPECT_STAT(test, c, pages, popcnt);
	EXPECT_STAT(test, c, loose, loose ? popcnt : 0);
	EXPECT_STAT(test, c, dirty, rv->ndirty);
	EXPECT_STAT(test, c, reserv_live, !loose);
	EXPECT_STAT(test, c, reserv_empty, loose ? 0 : SPM_SLOT_PAGES - popcnt);
	EXPECT_STAT(test, c, reserv_fullpop,
		    popcnt == SPM_SLOT_PAGES && !loose);
	EXPECT_STAT(test, c, reserv_partpopq, queued);
}

static void life_cycle(struct kunit *test)
{
	const struct spm_counters *c = counters(test);
	struct spm_reserv *rv = alloc_block(test, 3);

	expect_state(test, rv, 0);
	EXPECT_STAT(test, c, reserv_allocated, 1);
	populate(test, rv, 7);
	expect_state(test, rv, 1);
	populate_range(test, rv, 0, 7);
	populate_range(test, rv, 8, LAST);
	expect_state(test, rv, LAST);
	populate(test, rv, LAST);
	expect_state(test, rv, SPM_SLOT_PAGES);
	EXPECT_STAT(test, c, populated, SPM_SLOT_PAGES);

	spm_reserv_depopulate(rv, 7);
	expect_state(test, rv, LAST);
	populate(test, rv, 7);
	expect_state(test, rv, SPM_SLOT_PAGES);
	spm_reserv_depopulate(rv, 7);
	depopulate_range(rv, 8, SPM_SLOT_PAGES);
	depopulate_range(rv, 1, 7);
	expect_state(test, rv, 1);
	spm_reserv_depopulate(rv, 0);
	expect_state(test, rv, 0);
	populate(test, rv, 0);
	expect_state(test, rv, 1);
	spm_reserv_depopulate(rv, 0);

	spm_reserv_free(rv);
	EXPECT_STAT(test, c, reserv_freed, 1);
	EXPECT_STAT(test, c, reserv_allocated, 1);
	EXPECT_STAT(test, c, reserv_unavailable, 0);
	EXPECT_STAT(test, c, populated, SPM_SLOT_PAGES + 2);
}

/* The first and the last bit: a shift or a bound that is off by one. */
static void both_ends(struct kunit *test)
{
	static const unsigned int ends[] = { 0, LAST };
	struct spm_reserv *rv = alloc_block(test, 0);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ends); i++) {
		unsigned int e = ends[i];

		populate(test, rv, e);
		expect_state(test, rv, 1);
		KUNIT_EXPECT_EQ(test, find_first_bit(rv->popmap, SPM_SLOT_PAGES),
				e);
		KUNIT_EXPECT_PTR_EQ(test, spm_reserv_page(rv, e),
				    folio_page(rv->folio, e));
		spm_reserv_set_dirty(rv, e);
		KUNIT_EXPECT_EQ(test, find_first_bit(rv->dirty, SPM_SLOT_PAGES),
				e);
		expect_state(test, rv, 1);
		spm_reserv_depopulate(rv, e);
		expect_state(test, rv, 0);
	}
	populate(test, rv, LAST);
	populate(test, rv, 0);
	expect_state(test, rv, 2);
	depopulate_range(rv, 0, 1);
	KUNIT_EXPECT_TRUE(test, spm_reserv_populated(rv, LAST));
	spm_reserv_depopulate(rv, LAST);
	spm_reserv_free(rv);
}

/* The last page that is missing may be any. */
static void hole_anywhere(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);
	unsigned int i;

	populate_range(test, rv, 0, SPM_SLOT_PAGES);
	for (i = 0; i < SPM_SLOT_PAGES; i++) {
		spm_reserv_depopulate(rv, i);
		KUNIT_ASSERT_FALSE(test, spm_reserv_full(rv));
		KUNIT_ASSERT_EQ(test,
				find_first_zero_bit(rv->popmap, SPM_SLOT_PAGES),
				i);
		populate(test, rv, i);
		KUNIT_ASSERT_TRUE(test, spm_reserv_full(rv));
	}
	depopulate_range(rv, 0, SPM_SLOT_PAGES);
	spm_reserv_free(rv);
}

/*
 * FreeBSD moves a reservation to the tail with the first change in a tick.  Here
 * it keeps its place, and the scan gives it a second chance, once.
 */
static void queue_order(struct kunit *test)
{
	struct spm_reserv *rv[3];
	unsigned long tick;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		rv[i] = alloc_block(test, i);
		populate(test, rv[i], 0);
	}
	if (rv[0]->nid != rv[1]->nid || rv[1]->nid != rv[2]->nid) {
		kunit_mark_skipped(test, "blocks of several NUMA nodes");
		goto free;
	}
	KUNIT_EXPECT_LT(test, position(rv[0]), position(rv[1]));
	KUNIT_EXPECT_LT(test, position(rv[1]), position(rv[2]));
	KUNIT_EXPECT_FALSE(test, spm_reserv_second_chance(rv[0]));

	/* A change within the tick is no news; the clock may go on meanwhile. */
	do {
		spm_reserv_second_chance(rv[0]);
		tick = jiffies;
		same_tick(rv[0]);
		populate(test, rv[0], 1);
		spm_reserv_depopulate(rv[0], 1);
	} while (time_after(jiffies, tick));
	KUNIT_EXPECT_FALSE(test, active(rv[0]));

	/* The first in a later tick is, in either direction; the place stays. */
	later_tick(rv[0]);
	populate(test, rv[0], 1);
	KUNIT_EXPECT_TRUE(test, active(rv[0]));
	KUNIT_EXPECT_TRUE(test, spm_reserv_second_chance(rv[0]));
	KUNIT_EXPECT_FALSE(test, spm_reserv_second_chance(rv[0]));
	later_tick(rv[0]);
	spm_reserv_depopulate(rv[0], 1);
	KUNIT_EXPECT_TRUE(test, spm_reserv_second_chance(rv[0]));
	KUNIT_EXPECT_LT(test, position(rv[0]), position(rv[1]));
	KUNIT_EXPECT_FALSE(test, active(rv[1]));
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(rv[0]), 1);
	EXPECT_STAT(test, counters(test), reserv_partpopq, 3);
free:
	for (i = 0; i < 3; i++) {
		depopulate_range(rv[i], 0, 1);
		spm_reserv_free(rv[i]);
	}
}

/*
 * FreeBSD forgets to queue a full reservation that loses a page in the tick of
 * its last change; reclaim never sees it.
 */
static void full_to_partial_in_one_tick(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);

	populate_range(test, rv, 0, SPM_SLOT_PAGES);
	same_tick(rv);
	spm_reserv_depopulate(rv, 100);
	expect_state(test, rv, LAST);
	same_tick(rv);
	populate(test, rv, 100);
	expect_state(test, rv, SPM_SLOT_PAGES);
	depopulate_range(rv, 0, SPM_SLOT_PAGES);
	spm_reserv_free(rv);
}

/* What is empty or full leaves the queue at once, whatever the tick. */
static void empty_in_one_tick(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);

	same_tick(rv);
	populate(test, rv, 5);
	expect_state(test, rv, 1);
	same_tick(rv);
	spm_reserv_depopulate(rv, 5);
	expect_state(test, rv, 0);
	spm_reserv_free(rv);
}

static void double_populate(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);

	populate(test, rv, 9);
	spm_test_page_fill(spm_reserv_page(rv, 9), 0x5a);
	kunit_warning_suppress(test) {
		KUNIT_EXPECT_EQ(test, spm_reserv_populate(rv, 9, NULL, 0,
							  SPM_POPULATE_FAULT),
				-EEXIST);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	expect_state(test, rv, 1);
	EXPECT_STAT(test, counters(test), populated, 1);
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(spm_reserv_page(rv, 9), 0x5a));
	spm_reserv_depopulate(rv, 9);
	spm_reserv_free(rv);
}

static void double_depopulate(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);

	populate(test, rv, 1);
	populate(test, rv, 2);
	spm_reserv_depopulate(rv, 2);
	kunit_warning_suppress(test) {
		spm_reserv_depopulate(rv, 2);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	expect_state(test, rv, 1);
	spm_reserv_depopulate(rv, 1);
	spm_reserv_free(rv);
}

/* It refuses, so that nobody is left with a page that is free. */
static void free_with_pages(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);

	populate(test, rv, 1);
	kunit_warning_suppress(test) {
		spm_reserv_free(rv);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	expect_state(test, rv, 1);
	EXPECT_STAT(test, counters(test), reserv_freed, 0);
	spm_reserv_depopulate(rv, 1);
	spm_reserv_free(rv);
}

static void fill_block(struct spm_reserv *rv, u8 byte)
{
	unsigned int i;

	for (i = 0; i < SPM_SLOT_PAGES; i++)
		spm_test_page_fill(folio_page(rv->folio, i), byte);
}

/* A block full of other people's data: each page is cleared when populated. */
static void zeroed_at_populate(struct kunit *test)
{
	static const unsigned int pages[] = { 0, 200, LAST };
	struct spm_reserv *rv = alloc_block(test, 0);
	unsigned int i;

	bitmap_fill(rv->used, SPM_SLOT_PAGES);
	fill_block(rv, 0xa5);
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		struct page *page = folio_page(rv->folio, pages[i]);

		populate(test, rv, pages[i]);
		KUNIT_EXPECT_TRUE(test, spm_test_page_is(page, 0));
		spm_test_page_fill(page, 0x11);
		spm_reserv_depopulate(rv, pages[i]);
		populate(test, rv, pages[i]);
		KUNIT_EXPECT_TRUE(test, spm_test_page_is(page, 0));
	}
	/* No more than that: neighbours cost nothing until they are used. */
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(folio_page(rv->folio, 1), 0xa5));
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(folio_page(rv->folio, LAST - 1),
						 0xa5));
	EXPECT_STAT(test, counters(test), zeroed, 2 * ARRAY_SIZE(pages));
	for (i = 0; i < ARRAY_SIZE(pages); i++)
		spm_reserv_depopulate(rv, pages[i]);
	spm_reserv_free(rv);
}

/* A block that the allocator cleared: again only what was in use since. */
static void zeroed_by_allocator(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);
	struct page *page = folio_page(rv->folio, LAST);

	fill_block(rv, 0);
	bitmap_zero(rv->used, SPM_SLOT_PAGES);
	populate(test, rv, LAST);
	EXPECT_STAT(test, counters(test), zeroed, 0);
	spm_reserv_depopulate(rv, LAST);
	/* A store that comes late must not be seen. */
	spm_test_page_fill(page, 0x11);
	populate(test, rv, LAST);
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(page, 0));
	EXPECT_STAT(test, counters(test), zeroed, 1);
	populate(test, rv, 0);
	EXPECT_STAT(test, counters(test), zeroed, 1);
	spm_reserv_depopulate(rv, 0);
	spm_reserv_depopulate(rv, LAST);
	spm_reserv_free(rv);
}

static void dirty_accounting(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);

	populate_range(test, rv, 0, SPM_SLOT_PAGES);
	KUNIT_EXPECT_EQ(test, rv->ndirty, 0);
	spm_reserv_set_dirty(rv, 0);
	spm_reserv_set_dirty(rv, 0);
	spm_reserv_set_dirty(rv, LAST);
	KUNIT_EXPECT_EQ(test, rv->ndirty, 2);
	KUNIT_EXPECT_TRUE(test, spm_reserv_dirty(rv, 0));
	KUNIT_EXPECT_FALSE(test, spm_reserv_dirty(rv, 1));
	KUNIT_EXPECT_TRUE(test, spm_reserv_dirty(rv, LAST));
	expect_state(test, rv, SPM_SLOT_PAGES);

	spm_reserv_set_all_dirty(rv);
	KUNIT_EXPECT_EQ(test, rv->ndirty, SPM_SLOT_PAGES);
	spm_reserv_set_all_dirty(rv);
	expect_state(test, rv, SPM_SLOT_PAGES);

	/* A page that comes back is a new one, and clean. */
	spm_reserv_depopulate(rv, 44);
	KUNIT_EXPECT_EQ(test, rv->ndirty, LAST);
	populate(test, rv, 44);
	KUNIT_EXPECT_FALSE(test, spm_reserv_dirty(rv, 44));
	expect_state(test, rv, SPM_SLOT_PAGES);
	depopulate_range(rv, 0, SPM_SLOT_PAGES);
	expect_state(test, rv, 0);
	spm_reserv_free(rv);
}

/* What the kernel's reverse map and futex keys go by. */
static void folio_identity(struct kunit *test)
{
	struct spm_test_object *t = test->priv;
	struct spm_reserv *rv = alloc_block(test, 5);
	struct folio *folio = rv->folio;

	KUNIT_EXPECT_EQ(test, folio_order(folio), SPM_SLOT_SHIFT);
	KUNIT_EXPECT_PTR_EQ(test, folio->mapping, t->base.inode.i_mapping);
	KUNIT_EXPECT_EQ(test, folio->index, 5 << SPM_SLOT_SHIFT);
	populate(test, rv, 6);
	KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 1);
	spm_reserv_depopulate(rv, 6);

	/* Somebody has pinned it: it must outlive us without a mapping. */
	folio_get(folio);
	spm_reserv_free(rv);
	KUNIT_EXPECT_NULL(test, folio->mapping);
	KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 1);
	folio_put(folio);
}

static void loose_life_cycle(struct kunit *test)
{
	const struct spm_counters *c = counters(test);
	struct spm_test_object *t = test->priv;
	struct spm_reserv *rv;

	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	rv = alloc(test, 2);
	KUNIT_ASSERT_TRUE(test, spm_reserv_loose(rv));
	KUNIT_EXPECT_EQ(test, rv->nid, NUMA_NO_NODE);
	expect_state(test, rv, 0);
	populate(test, rv, 0);
	populate(test, rv, LAST);
	expect_state(test, rv, 2);
	KUNIT_EXPECT_EQ(test, page_folio(spm_reserv_page(rv, LAST))->index,
			(2 << SPM_SLOT_SHIFT) + LAST);
	KUNIT_EXPECT_PTR_EQ(test, page_folio(spm_reserv_page(rv, 0))->mapping,
			    t->base.inode.i_mapping);
	KUNIT_EXPECT_EQ(test, folio_order(page_folio(spm_reserv_page(rv, 0))),
			0);
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(spm_reserv_page(rv, LAST), 0));
	populate_range(test, rv, 1, LAST);
	expect_state(test, rv, SPM_SLOT_PAGES);
	spm_reserv_set_all_dirty(rv);
	expect_state(test, rv, SPM_SLOT_PAGES);
	depopulate_range(rv, 0, LAST);
	expect_state(test, rv, 1);
	spm_reserv_depopulate(rv, LAST);
	expect_state(test, rv, 0);
	spm_reserv_free(rv);
	EXPECT_STAT(test, c, reserv_unavailable, 1);
	EXPECT_STAT(test, c, reserv_allocated, 0);
	EXPECT_STAT(test, c, reserv_freed, 0);
}

static void loose_without_memory(struct kunit *test)
{
	struct spm_reserv *rv;

	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_page);
	rv = alloc(test, 0);
	KUNIT_ASSERT_TRUE(test, spm_reserv_loose(rv));
	KUNIT_EXPECT_EQ(test, spm_reserv_populate(rv, 4, NULL, 0, SPM_POPULATE_FAULT), -ENOMEM);
	expect_state(test, rv, 0);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	populate(test, rv, 4);
	expect_state(test, rv, 1);
	spm_reserv_depopulate(rv, 4);
	spm_reserv_free(rv);
}

/* Copies, and changes of owner. */

/* Bytes that are the same in no two places of a page near each other. */
static void fill_pattern(struct page *page)
{
	u8 *p = kmap_local_page(page);
	unsigned int i;

	for (i = 0; i < PAGE_SIZE; i++)
		p[i] = i % 251;
	kunmap_local(p);
}

static bool same_bytes(struct page *a, struct page *b)
{
	void *p = kmap_local_page(a), *q = kmap_local_page(b);
	bool same = !memcmp(p, q, PAGE_SIZE);

	kunmap_local(q);
	kunmap_local(p);
	return same;
}

static struct spm_reserv *alloc_loose(struct kunit *test, pgoff_t index)
{
	struct spm_reserv *rv;

	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	rv = alloc(test, index);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	KUNIT_ASSERT_TRUE(test, spm_reserv_loose(rv));
	return rv;
}

static void copy_into(struct kunit *test, struct spm_reserv *rv)
{
	struct page *from = alloc_page(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, from);
	fill_pattern(from);
	KUNIT_EXPECT_EQ(test, spm_reserv_copy(rv, LAST, from, NULL, 0,
					      SPM_POPULATE_COW), 0);
	expect_state(test, rv, 1);
	KUNIT_EXPECT_FALSE(test, spm_reserv_dirty(rv, LAST));
	KUNIT_EXPECT_TRUE(test, same_bytes(from, spm_reserv_page(rv, LAST)));
	EXPECT_STAT(test, counters(test), populated, 1);
	EXPECT_STAT(test, counters(test), zeroed, 0);
	/* Over a page that is there: refused. */
	spm_test_page_fill(from, 0x33);
	kunit_warning_suppress(test) {
		KUNIT_EXPECT_EQ(test, spm_reserv_copy(rv, LAST, from, NULL, 0,
						      SPM_POPULATE_COW),
				-EEXIST);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_FALSE(test, same_bytes(from, spm_reserv_page(rv, LAST)));
	__free_page(from);
	/* Zeros again when it comes back. */
	spm_reserv_depopulate(rv, LAST);
	populate(test, rv, LAST);
	KUNIT_EXPECT_TRUE(test, spm_test_page_is(spm_reserv_page(rv, LAST), 0));
	spm_reserv_depopulate(rv, LAST);
	expect_state(test, rv, 0);
	spm_reserv_free(rv);
}

static void copy_into_block(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 3);

	bitmap_fill(rv->used, SPM_SLOT_PAGES);
	copy_into(test, rv);
}

static void copy_into_single_pages(struct kunit *test)
{
	copy_into(test, alloc_loose(test, 3));
}

static void copy_without_memory(struct kunit *test)
{
	struct page *from = alloc_page(GFP_KERNEL);
	struct spm_reserv *rv;

	KUNIT_ASSERT_NOT_NULL(test, from);
	rv = alloc_loose(test, 0);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_page);
	KUNIT_EXPECT_EQ(test, spm_reserv_copy(rv, 7, from, NULL, 0,
					      SPM_POPULATE_COW), -ENOMEM);
	expect_state(test, rv, 0);
	spm_reserv_free(rv);
	__free_page(from);
}

/* Two owners with books of their own; what moves is counted once. */
static void move_single_page(struct kunit *test)
{
	struct spm_test_object *t = test->priv;
	struct spm_test_base *heir;
	struct spm_reserv *from = alloc_loose(test, 1), *to;
	struct spm_object *obj;
	struct page *page;
	unsigned int i;

	heir = kunit_kzalloc(test, sizeof(*heir), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, heir);
	spm_test_base_init(test, heir, 4712);
	obj = spm_test_base_object(heir, t->obj->family, NULL);
	KUNIT_ASSERT_NOT_NULL(test, obj);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	to = spm_reserv_alloc(&obj->owner, 1, &taken, NULL, 0);
	KUNIT_ASSERT_NOT_NULL(test, to);
	populate_range(test, from, 4, 7);
	spm_reserv_set_dirty(from, 5);
	page = spm_reserv_page(from, 5);
	spm_reserv_move_page(to, from, 5);
	expect_state(test, from, 2);
	KUNIT_EXPECT_EQ(test, from->ndirty, 0);
	KUNIT_EXPECT_PTR_EQ(test, spm_reserv_page(to, 5), page);
	KUNIT_EXPECT_TRUE(test, spm_reserv_dirty(to, 5));
	KUNIT_EXPECT_PTR_EQ(test, page_folio(page)->mapping,
			    heir->inode.i_mapping);
	KUNIT_EXPECT_EQ(test, page_folio(page)->index,
			(1 << SPM_SLOT_SHIFT) + 5);
	spm_reserv_move_page(to, from, 4);
	spm_reserv_move_page(to, from, 6);
	KUNIT_EXPECT_EQ(test, spm_reserv_popcnt(to), 3);
	KUNIT_EXPECT_EQ(test, to->ndirty, 1);
	EXPECT_STAT(test, counters(test), pages, 0);
	EXPECT_STAT(test, counters(test), loose, 0);
	EXPECT_STAT(test, counters(test), dirty, 0);
	EXPECT_STAT(test, heir->counters, pages, 3);
	EXPECT_STAT(test, heir->counters, loose, 3);
	EXPECT_STAT(test, heir->counters, dirty, 1);
	spm_reserv_free(from);
	for (i = 4; i < 7; i++)
		spm_reserv_depopulate(to, i);
	spm_reserv_free(to);
	spm_object_put(obj);
	spm_test_base_exit(test, heir);
}

/* All that the gauges of the one lose, those of the other gain. */
static void give_to_another_owner(struct kunit *test)
{
	static const unsigned int popcnts[] = { 1, 100, SPM_SLOT_PAGES };
	struct spm_test_object *t = test->priv;
	struct spm_test_base *heir;
	struct spm_object *obj;
	struct spm_reserv *rv;
	unsigned int i, loose;

	heir = kunit_kzalloc(test, sizeof(*heir), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, heir);
	spm_test_base_init(test, heir, 4712);
	obj = spm_test_base_object(heir, t->obj->family, NULL);
	KUNIT_ASSERT_NOT_NULL(test, obj);
	for (i = 0; i < 2 * ARRAY_SIZE(popcnts); i++) {
		unsigned int n = popcnts[i / 2];
		int at;

		loose = i % 2;
		rv = loose ? alloc_loose(test, 9) : alloc_block(test, 9);
		populate_range(test, rv, 0, n);
		spm_reserv_set_dirty(rv, 0);
		at = position(rv);
		spm_reserv_give(rv, &obj->owner);
		EXPECT_STAT(test, counters(test), pages, 0);
		EXPECT_STAT(test, counters(test), dirty, 0);
		EXPECT_STAT(test, counters(test), loose, 0);
		EXPECT_STAT(test, counters(test), reserv_live, 0);
		EXPECT_STAT(test, counters(test), reserv_empty, 0);
		EXPECT_STAT(test, counters(test), reserv_fullpop, 0);
		EXPECT_STAT(test, counters(test), reserv_partpopq, 0);
		EXPECT_STAT(test, heir->counters, pages, n);
		EXPECT_STAT(test, heir->counters, dirty, 1);
		EXPECT_STAT(test, heir->counters, loose, loose ? n : 0);
		/* It keeps its place in the queue. */
		KUNIT_EXPECT_EQ(test, position(rv), at);
		KUNIT_EXPECT_PTR_EQ(test,
				    page_folio(spm_reserv_page(rv, 0))->mapping,
				    heir->inode.i_mapping);
		/* And back; then all is as it was. */
		spm_reserv_give(rv, &t->obj->owner);
		EXPECT_STAT(test, heir->counters, pages, 0);
		EXPECT_STAT(test, heir->counters, dirty, 0);
		EXPECT_STAT(test, heir->counters, loose, 0);
		EXPECT_STAT(test, heir->counters, reserv_live, 0);
		EXPECT_STAT(test, heir->counters, reserv_empty, 0);
		EXPECT_STAT(test, heir->counters, reserv_fullpop, 0);
		EXPECT_STAT(test, heir->counters, reserv_partpopq, 0);
		expect_state(test, rv, n);
		depopulate_range(rv, 0, n);
		spm_reserv_free(rv);
	}
	spm_object_put(obj);
	spm_test_base_exit(test, heir);
}

/* One count for a block, one each for single pages. */
static void pins_are_seen(struct kunit *test)
{
	struct spm_reserv *rv = alloc_block(test, 0);
	struct folio *folio = rv->folio;

	populate(test, rv, 3);
	KUNIT_EXPECT_FALSE(test, spm_reserv_pinned(rv));
	/* A reference is none: the reverse map and others take them. */
	folio_get(folio);
	KUNIT_EXPECT_FALSE(test, spm_reserv_pinned(rv));
	atomic_inc(&folio->_pincount);
	KUNIT_EXPECT_TRUE(test, spm_reserv_pinned(rv));
	atomic_dec(&folio->_pincount);
	folio_put(folio);
	spm_reserv_depopulate(rv, 3);
	spm_reserv_free(rv);

	rv = alloc_loose(test, 0);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	populate(test, rv, 0);
	populate(test, rv, LAST);
	KUNIT_EXPECT_FALSE(test, spm_reserv_pinned(rv));
	folio = page_folio(spm_reserv_page(rv, LAST));
	folio_ref_add(folio, GUP_PIN_COUNTING_BIAS);
	KUNIT_EXPECT_TRUE(test, spm_reserv_pinned(rv));
	folio_ref_sub(folio, GUP_PIN_COUNTING_BIAS);
	KUNIT_EXPECT_FALSE(test, spm_reserv_pinned(rv));
	spm_reserv_depopulate(rv, 0);
	spm_reserv_depopulate(rv, LAST);
	spm_reserv_free(rv);
}

static struct kunit_case reserv_cases[] = {
	KUNIT_CASE(life_cycle),
	KUNIT_CASE(both_ends),
	KUNIT_CASE(hole_anywhere),
	KUNIT_CASE(queue_order),
	KUNIT_CASE(full_to_partial_in_one_tick),
	KUNIT_CASE(empty_in_one_tick),
	KUNIT_CASE(double_populate),
	KUNIT_CASE(double_depopulate),
	KUNIT_CASE(free_with_pages),
	KUNIT_CASE(zeroed_at_populate),
	KUNIT_CASE(zeroed_by_allocator),
	KUNIT_CASE(dirty_accounting),
	KUNIT_CASE(folio_identity),
	KUNIT_CASE(loose_life_cycle),
	KUNIT_CASE(loose_without_memory),
	KUNIT_CASE(copy_into_block),
	KUNIT_CASE(copy_into_single_pages),
	KUNIT_CASE(copy_without_memory),
	KUNIT_CASE(move_single_page),
	KUNIT_CASE(give_to_another_owner),
	KUNIT_CASE(pins_are_seen),
	{}
};

static int take(struct kunit_suite *suite)
{
	mutex_lock(&taken);
	return 0;
}

static void leave(struct kunit_suite *suite)
{
	mutex_unlock(&taken);
}

static struct kunit_suite reserv_suite = {
	.name = "superpmap_reserv",
	.suite_init = take,
	.suite_exit = leave,
	.init = spm_test_object_init,
	.exit = spm_test_object_exit,
	.test_cases = reserv_cases,
};

kunit_test_suite(reserv_suite);
