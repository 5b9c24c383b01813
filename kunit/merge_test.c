// SPDX-License-Identifier: GPL-2.0
/*
 * Merges: a frozen object goes up into the last that shadows it.
 *
 * What the survivor shows, and which of it is dirty, is the same afterwards,
 * whatever kind of memory the two had, whoever pins it; no page is kept that
 * nobody can see.
 */
#include <kunit/static_stub.h>
#include <linux/mm.h>
#include <linux/prandom.h>

#include "family.h"

#define FULL SPM_SLOT_PAGES
#define NPAGES SPM_TEST_PAGES

#define COUNT(img, field) spm_stat_read((img)->base->counters, SPM_STAT_##field)

enum kind { NONE, BLOCK, LOOSE, WHOLE, NR_KINDS };

static const char * const kind_name[] = { "nothing", "block", "loose", "full" };

/**
 * struct layout - which of the pages in play are where, bit by bit
 * @above:	stored to after the freeze
 * @below:	stored to before
 * @clean:	before the freeze only loaded from
 * @hidden:	discarded after the freeze, before @above
 */
struct layout {
	u8 above, below, clean, hidden;
};

static const struct layout layouts[] = {
	/* apart, more above, more below, as many */
	{ .above = 0x03, .below = 0xfc },
	{ .above = 0xfc, .below = 0x03 },
	{ .above = 0x0f, .below = 0xf0 },
	/* partly and wholly over each other */
	{ .above = 0x3c, .below = 0x0f, .clean = 0xc0 },
	{ .above = 0xff, .below = 0xff },
	{ .above = 0x81, .below = 0xc3, .clean = 0x18 },
	/* with pages hidden that are below, above, both and neither */
	{ .above = 0x11, .below = 0x3f, .hidden = 0x73 },
	{ .above = 0x40, .below = 0x0f, .hidden = 0xff },
	{ .above = 0x01, .below = 0x02, .clean = 0x04, .hidden = 0x06 },
};

/**
 * struct combo - one way in which a slot can be mixed
 * @above:	what the survivor has
 * @below:	what the frozen object has
 * @pin_above:	somebody pins the one
 * @pin_below:	... the other
 * @heir:	the snapshot survives, not the region that was frozen
 * @layout:	which pages
 */
struct combo {
	enum kind above, below;
	bool pin_above, pin_below, heir;
	const struct layout *layout;
};

/**
 * struct mixed - a slot that is about to be merged
 * @top:	who survives
 * @other:	who goes
 * @a:		reservation above, or NULL
 * @b:		reservation below, or NULL
 * @na:		pages of @a
 * @nb:		pages of @b that the survivor sees
 * @pages:	which pages the survivor sees
 * @dirty:	which of them are dirty
 */
struct mixed {
	struct spm_test_image *top, *other;
	struct spm_reserv *a, *b;
	unsigned int na, nb;
	DECLARE_BITMAP(pages, FULL);
	DECLARE_BITMAP(dirty, FULL);
};

static bool set_mask(struct kunit *test, struct spm_test_image *img, u8 mask)
{
	unsigned int k;

	for (k = 0; k < NPAGES; k++)
		if (mask & BIT(k) && spm_test_set(test, img, 0, k))
			return false;
	return true;
}

static bool touch_mask(struct spm_test_image *img, u8 mask)
{
	unsigned int k;

	for (k = 0; k < NPAGES; k++)
		if (mask & BIT(k) && spm_test_touch(img, 0, k))
			return false;
	return true;
}

static bool hide_mask(struct spm_test_image *img, u8 mask)
{
	unsigned int k;

	for (k = 0; k < NPAGES; k++)
		if (mask & BIT(k) &&
		    spm_test_discard(img, spm_test_pages[k],
				     spm_test_pages[k] + 1))
			return false;
	return true;
}

/* One slot's worth of contents. */
static bool make(struct kunit *test, struct spm_test_image *img,
		 enum kind kind, u8 stored, u8 loaded)
{
	bool ok;

	if (kind == NONE)
		return true;
	if (kind == LOOSE)
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_no_block);
	ok = set_mask(test, img, stored) && touch_mask(img, loaded);
	if (kind == WHOLE)
		ok = ok && !spm_test_fill(img, 0);
	if (kind == LOOSE)
		kunit_deactivate_static_stub(test, spm_folio_alloc);
	return ok && spm_test_reserv(img->obj, 0) &&
	       spm_reserv_loose(spm_test_reserv(img->obj, 0)) == (kind == LOOSE);
}

static void look(struct mixed *m)
{
	unsigned int i;

	m->a = spm_test_reserv(m->top->obj, 0);
	m->b = spm_test_reserv(m->top->obj->backing, 0);
	m->na = m->a ? spm_reserv_popcnt(m->a) : 0;
	for (i = 0; i < FULL; i++) {
		struct spm_reserv *rv = spm_object_page(m->top->obj, 0, i);

		if (!rv)
			continue;
		__set_bit(i, m->pages);
		__assign_bit(i, m->dirty, spm_reserv_dirty(rv, i));
		m->nb += rv == m->b;
	}
}

static bool make_mixed(struct kunit *test, const struct combo *c,
		       struct mixed *m)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	const struct layout *l = c->layout;
	int err;

	if (!make(test, r, c->below, l->below, l->clean))
		return false;
	s = spm_test_snapshot(test, r, &err);
	if (!s)
		return false;
	m->top = c->heir ? s : r;
	m->other = c->heir ? r : s;
	if (!hide_mask(m->top, l->hidden) ||
	    !make(test, m->top, c->above, l->above, 0))
		return false;
	if (m->top->obj->backing)
		look(m);
	return true;
}

/* How many pages are copied, by the rules in words; who keeps its memory. */
static unsigned int want_copies(const struct combo *c, const struct mixed *m,
				const struct spm_reserv **kept)
{
	*kept = m->a ?: m->b;
	if (!m->na || !m->nb) {
		/* Not mixed: all is taken over, or there is nothing to take. */
		*kept = m->na ? m->a : m->nb ? m->b : NULL;
		return 0;
	}
	if (spm_reserv_loose(m->a) && spm_reserv_loose(m->b))
		return 0;
	/* I/O that is under way must find its page. */
	if (c->pin_above || c->pin_below)
		return m->nb;
	/* The block wins; of two, the fuller one. */
	if (spm_reserv_loose(m->b))
		return m->nb;
	if (!spm_reserv_loose(m->a) && m->nb <= m->na)
		return m->nb;
	*kept = m->b;
	return m->na;
}

static void expect_merged(struct kunit *test, const struct mixed *m,
			  const struct spm_reserv *kept)
{
	struct spm_reserv *rv = spm_test_reserv(m->top->obj, 0);

	KUNIT_EXPECT_NULL(test, m->top->obj->backing);
	KUNIT_EXPECT_PTR_EQ(test, rv, kept);
	EXPECT_STAT(test, m->top->base->counters, objects, 1);
	EXPECT_STAT(test, m->top->base->counters, links, 0);
	EXPECT_STAT(test, m->top->base->counters, pages,
		    bitmap_weight(m->pages, FULL));
	if (!rv)
		return;
	KUNIT_EXPECT_TRUE(test, bitmap_equal(rv->popmap, m->pages, FULL));
	KUNIT_EXPECT_TRUE(test, bitmap_equal(rv->dirty, m->dirty, FULL));
}

static void run_combo(struct kunit *test, const struct combo *c)
{
	struct page *pin_a = NULL, *pin_b = NULL;
	const struct spm_reserv *kept;
	long merged, optim, collapses;
	struct mixed *m;
	unsigned int n;

	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m);
	if (!make_mixed(test, c, m))
		kunit_skip(test, "no memory of the kind");
	n = want_copies(c, m, &kept);
	if (c->pin_above && m->a)
		pin_a = spm_test_pin(m->a);
	if (c->pin_below && m->b)
		pin_b = spm_test_pin(m->b);
	merged = COUNT(m->top, cow_merged);
	optim = COUNT(m->top, cow_optim);
	collapses = COUNT(m->top, collapses);
	spm_test_put(m->other);
	EXPECT_FAMILY(test);
	expect_merged(test, m, kept);
	EXPECT_STAT(test, m->top->base->counters, cow_merged, merged + n);
	EXPECT_STAT(test, m->top->base->counters, cow_optim,
		    optim + (!m->a && m->nb));
	EXPECT_STAT(test, m->top->base->counters, collapses, collapses + 1);
	if (pin_a)
		unpin_user_page(pin_a);
	if (pin_b)
		unpin_user_page(pin_b);
	spm_test_family_again(test);
	kunit_kfree(test, m);
}

/* Every kind above every kind below; for each, all layouts, pins and heirs. */
static void merge_all(struct kunit *test, enum kind above, enum kind below)
{
	struct combo c = { .above = above, .below = below };
	/* Where all is there anyway, most layouts are the same. */
	unsigned int step = above == WHOLE || below == WHOLE ? 3 : 1;
	unsigned int i, bits;

	for (i = 0; i < ARRAY_SIZE(layouts); i += step)
		for (bits = 0; bits < 8; bits++) {
			c.layout = &layouts[i];
			c.pin_above = bits & 1;
			c.pin_below = bits & 2;
			c.heir = bits & 4;
			run_combo(test, &c);
			if (test->status == KUNIT_FAILURE) {
				KUNIT_FAIL(test, "%s over %s, layout %u, bits %u",
					   kind_name[above], kind_name[below],
					   i, bits);
				return;
			}
		}
}

#define MERGE_CASE(name, above, below)					\
	static void merge_##name(struct kunit *test)			\
	{								\
		merge_all(test, above, below);				\
	}

MERGE_CASE(nothing_over_block, NONE, BLOCK)
MERGE_CASE(nothing_over_loose, NONE, LOOSE)
MERGE_CASE(nothing_over_full, NONE, WHOLE)
MERGE_CASE(block_over_block, BLOCK, BLOCK)
MERGE_CASE(block_over_loose, BLOCK, LOOSE)
MERGE_CASE(block_over_full, BLOCK, WHOLE)
MERGE_CASE(loose_over_block, LOOSE, BLOCK)
MERGE_CASE(loose_over_loose, LOOSE, LOOSE)
MERGE_CASE(loose_over_full, LOOSE, WHOLE)
MERGE_CASE(full_over_block, WHOLE, BLOCK)
MERGE_CASE(full_over_full, WHOLE, WHOLE)

/*
 * A page below that is hidden may be on its way to a disk still: nothing is
 * copied over it, in the block that it is in.
 */
static void pinned_gap_is_not_written(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct page *pin;
	u32 before;
	int err;

	set_mask(test, r, 0xff);
	before = r->value[0][0];
	s = spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_NOT_NULL(test, s);
	set_mask(test, r, 0x01);
	/* The one that r does not see any more. */
	pin = spm_test_pin(spm_test_reserv(r->obj->backing, 0));
	KUNIT_ASSERT_EQ(test, spm_test_page_value(pin), before);
	spm_test_put(s);
	KUNIT_EXPECT_EQ(test, spm_test_page_value(pin), before);
	EXPECT_FAMILY(test);
	unpin_user_page(pin);
}

/* A block with holes that takes pages over fills no hole with old bytes. */
static void holes_stay_zero_after_merge(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	int err;

	set_mask(test, r, 0xff);
	s = spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_NOT_NULL(test, s);
	set_mask(test, r, 0x01);
	/* In both blocks these pages have been something else. */
	hide_mask(r, 0x1e);
	spm_test_put(s);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_TRUE(test, touch_mask(r, 0x1e));
	EXPECT_FAMILY(test);
}

/* Take-over: slots without anything above change hands, nothing is copied. */
static void take_over_moves_whole_slots(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *s;
	struct spm_reserv *rv[SPM_TEST_SLOTS];
	struct folio *folio;
	unsigned int i;
	long populated;
	int err;

	for (i = 0; i < SPM_TEST_SLOTS; i++)
		KUNIT_ASSERT_EQ(test, spm_test_set(test, r, i, i), 0);
	KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
	for (i = 0; i < SPM_TEST_SLOTS; i++)
		rv[i] = spm_test_reserv(r->obj, i);
	folio = rv[0]->folio;
	s = spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_NOT_NULL(test, s);
	populated = spm_stat_read(NULL, SPM_STAT_populated);
	/* The heir has other counters and another inode. */
	spm_test_put(r);
	EXPECT_FAMILY(test);
	for (i = 0; i < SPM_TEST_SLOTS; i++) {
		KUNIT_EXPECT_PTR_EQ(test, spm_test_reserv(s->obj, i), rv[i]);
		KUNIT_EXPECT_PTR_EQ(test, rv[i]->owner, &s->obj->owner);
	}
	KUNIT_EXPECT_PTR_EQ(test, rv[0]->folio, folio);
	KUNIT_EXPECT_PTR_EQ(test, folio->mapping, s->base->inode.i_mapping);
	KUNIT_EXPECT_EQ(test, spm_stat_read(NULL, SPM_STAT_populated),
			populated);
	EXPECT_STAT(test, s->base->counters, cow_optim, SPM_TEST_SLOTS);
	EXPECT_STAT(test, s->base->counters, cow_merged, 0);
	EXPECT_STAT(test, s->base->counters, collapses, 1);
	EXPECT_STAT(test, s->base->counters, reserv_fullpop, 1);
}

/* A frozen object may be merged into another frozen one. */
static void merge_in_the_middle(struct kunit *test)
{
	struct spm_test_image *r = spm_test_family_region(test), *a, *b, *c;
	struct spm_object *bottom, *middle;
	int err;

	set_mask(test, r, 0xff);
	a = spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_NOT_NULL(test, a);
	bottom = r->obj->backing;
	set_mask(test, r, 0x0f);
	b = spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_NOT_NULL(test, b);
	set_mask(test, r, 0x03);
	hide_mask(r, 0x10);
	c = spm_test_snapshot(test, r, &err);
	KUNIT_ASSERT_NOT_NULL(test, c);
	middle = b->obj->backing;
	KUNIT_ASSERT_PTR_EQ(test, middle->backing, bottom);
	spm_test_put(b);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_depth(r->obj), 2);
	KUNIT_EXPECT_PTR_EQ(test, r->obj->backing->backing, bottom);
	spm_test_put(a);
	EXPECT_FAMILY(test);
	KUNIT_EXPECT_EQ(test, spm_test_depth(c->obj), 1);
	spm_test_put(c);
	EXPECT_FAMILY(test);
}

/*
 * Pages of a block below into loose memory above, which must stay for its pins:
 * one allocation a page, of which any may be the one that fails.
 */
static void merge_without_memory(struct kunit *test)
{
	static const struct layout l = { .above = 0x03, .below = 0xfe };
	struct combo c = { .above = LOOSE, .below = BLOCK, .layout = &l };
	unsigned int n;

	for (n = 0; n <= 6; n++) {
		struct spm_test_family *f = test->priv;
		struct spm_test_image *r, *s;
		struct mixed *m;
		struct page *pin;
		int err;

		m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, m);
		if (!make_mixed(test, &c, m))
			kunit_skip(test, "no memory of the kind");
		r = m->top;
		pin = spm_test_pin(m->a);
		f->unmerged = n < 6;
		spm_test_folios = n;
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_folios_left);
		spm_test_put(m->other);
		kunit_deactivate_static_stub(test, spm_folio_alloc);
		EXPECT_FAMILY(test);
		KUNIT_EXPECT_EQ(test, !!r->obj->backing, n < 6);
		EXPECT_STAT(test, r->base->counters, pages, 2 + 6);
		EXPECT_STAT(test, r->base->counters, objects, 1 + (n < 6));
		unpin_user_page(pin);
		/* Life goes on: it stores, hides, and has descendants. */
		set_mask(test, r, 0x40);
		s = spm_test_snapshot(test, r, &err);
		KUNIT_ASSERT_NOT_NULL(test, s);
		set_mask(test, r, 0x21);
		hide_mask(s, 0x82);
		EXPECT_FAMILY(test);
		spm_test_put(s);
		EXPECT_FAMILY(test);
		spm_test_discard(r, 0, FULL);
		EXPECT_FAMILY(test);
		spm_test_family_again(test);
		kunit_kfree(test, m);
	}
}

/* Copies that spm_reserv_copy() still makes. */
static unsigned int copies_left;

/* Memory that cannot be read: a machine check in the middle of a copy. */
static int poisoned_copy(struct spm_reserv *rv, unsigned int i,
			 struct page *from, struct vm_area_struct *vma,
			 unsigned long addr, enum spm_populate_cause cause)
{
	struct kunit *test = kunit_get_current_test();
	int err;

	if (!copies_left)
		return -EHWPOISON;
	copies_left--;
	kunit_deactivate_static_stub(test, spm_reserv_copy);
	err = spm_reserv_copy(rv, i, from, vma, addr, cause);
	kunit_activate_static_stub(test, spm_reserv_copy, poisoned_copy);
	return err;
}

/*
 * A merge that ends at any of its copies loses nothing, in either direction, of
 * any layout: what the survivor shows, and what is dirty of it, stays.
 */
static void merge_poisoned(struct kunit *test, const struct combo *c,
			   unsigned int n)
{
	struct spm_test_family *f = test->priv;
	unsigned int i;
	struct mixed *m;

	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m);
	if (!make_mixed(test, c, m))
		kunit_skip(test, "no memory of the kind");
	f->unmerged = true;
	copies_left = n;
	kunit_activate_static_stub(test, spm_reserv_copy, poisoned_copy);
	spm_test_put(m->other);
	kunit_deactivate_static_stub(test, spm_reserv_copy);
	EXPECT_FAMILY(test);
	for (i = 0; i < FULL; i++) {
		struct spm_reserv *rv = spm_object_page(m->top->obj, 0, i);
		bool had = test_bit(i, m->pages), dirty = test_bit(i, m->dirty);

		KUNIT_EXPECT_EQ_MSG(test, !!rv, had, "page %u", i);
		if (rv)
			KUNIT_EXPECT_EQ_MSG(test, spm_reserv_dirty(rv, i),
					    dirty, "page %u", i);
	}
	/* And it can still be stored to. */
	set_mask(test, m->top, 0xa5);
	EXPECT_FAMILY(test);
	spm_test_family_again(test);
	kunit_kfree(test, m);
}

static void merge_of_poisoned_memory(struct kunit *test)
{
	static const enum kind kinds[] = { BLOCK, LOOSE };
	unsigned int a, b, l, n;
	struct combo c = { };

	for (a = 0; a < ARRAY_SIZE(kinds); a++)
		for (b = 0; b < ARRAY_SIZE(kinds); b++)
			for (l = 0; l < ARRAY_SIZE(layouts); l++)
				for (n = 1; n < 3; n++) {
					c.above = kinds[a];
					c.below = kinds[b];
					c.layout = &layouts[l];
					c.heir = n % 2;
					merge_poisoned(test, &c, n);
					if (test->status != KUNIT_FAILURE)
						continue;
					KUNIT_FAIL(test, "%s over %s, layout %u, copy %u",
						   kind_name[c.above],
						   kind_name[c.below], l, n);
					return;
				}
}

/* Slots that were cut off in the middle, before and after they were stored to. */
static void merge_with_an_end(struct kunit *test)
{
	static const pgoff_t ends[] = { 0, 1, 2, 256, 400, 511, FULL };
	unsigned int e, bits;

	for (e = 0; e < ARRAY_SIZE(ends); e++)
		for (bits = 0; bits < 4; bits++) {
			struct spm_test_image *r, *s;
			int err;

			r = spm_test_family_region(test);
			KUNIT_ASSERT_TRUE(test, make(test, r, BLOCK, 0xff, 0));
			if (bits & 1)
				KUNIT_ASSERT_EQ(test, spm_test_fill(r, 0), 0);
			s = spm_test_snapshot(test, r, &err);
			KUNIT_ASSERT_NOT_NULL(test, s);
			set_mask(test, r, 0x33);
			spm_test_truncate(test, r, ends[e]);
			/* It grows again. */
			if (bits & 2)
				set_mask(test, r, 0x55);
			EXPECT_FAMILY(test);
			spm_test_put(s);
			EXPECT_FAMILY(test);
			KUNIT_EXPECT_NULL(test, r->obj->backing);
			spm_test_family_again(test);
		}
}

/* random sequences */

#define SEEDS 4
#define STEPS 150
#define PINS 3

/**
 * struct game - a random sequence
 * @rnd:	the dice
 * @pins:	pages that somebody pins
 */
struct game {
	struct rnd_state rnd;
	struct page *pins[PINS];
};

static unsigned int dice(struct game *g, unsigned int n)
{
	return prandom_u32_state(&g->rnd) % n;
}

/* Any live object, or NULL: of regions only, if so wanted. */
static struct spm_test_image *any(struct kunit *test, struct game *g,
				  bool region)
{
	struct spm_test_family *f = test->priv;
	unsigned int i, tries;

	for (tries = 0; tries < 50; tries++) {
		i = dice(g, SPM_TEST_IMAGES);
		if (f->images[i].obj && !(region && f->images[i].region))
			return &f->images[i];
	}
	return NULL;
}

static unsigned int images(const struct spm_test_family *f, bool regions)
{
	unsigned int i, n = 0;

	for (i = 0; i < SPM_TEST_IMAGES; i++)
		n += f->images[i].obj && !(regions && f->images[i].region);
	return n;
}

/* The last region stays, and one that is mapped. */
static bool may_put(const struct spm_test_family *f,
		    const struct spm_test_image *img)
{
	unsigned int i;

	if (img->region)
		return true;
	for (i = 0; i < SPM_TEST_IMAGES; i++)
		if (f->images[i].obj && f->images[i].region == img)
			return false;
	return images(f, true) > 1;
}

static void play_pin(struct game *g, const struct spm_test_image *img)
{
	struct spm_reserv *rv = spm_test_reserv(img->obj,
						dice(g, SPM_TEST_SLOTS));
	struct page **pin = &g->pins[dice(g, PINS)];

	if (*pin) {
		unpin_user_page(*pin);
		*pin = NULL;
	} else if (rv) {
		*pin = spm_test_pin(rv);
	}
}

static void unpin_all(struct game *g)
{
	unsigned int i;

	for (i = 0; i < PINS; i++)
		if (g->pins[i]) {
			unpin_user_page(g->pins[i]);
			g->pins[i] = NULL;
		}
}

static void play_discard(struct kunit *test, struct game *g,
			 struct spm_test_image *img)
{
	pgoff_t first = dice(g, SPM_TEST_SLOTS * FULL);
	pgoff_t n = dice(g, 2) ? dice(g, 600) : FULL;

	/* Whole slots now and then. */
	if (n == FULL)
		first = round_down(first, FULL);
	KUNIT_EXPECT_EQ(test, spm_test_discard(img, first, first + n), 0);
}

static void play_new(struct kunit *test, struct game *g,
		     struct spm_test_image *img)
{
	const struct spm_test_family *f = test->priv;
	int err = 0;

	/* A region that nobody uses any more may live on in what it froze. */
	if (images(f, false) >= SPM_TEST_IMAGES || images(f, true) >= 5)
		return;
	if (img->region)
		spm_test_fork(test, img, &err);
	else if (dice(g, 3))
		spm_test_snapshot(test, img, &err);
	else
		spm_test_private(test, img);
	KUNIT_EXPECT_TRUE(test, !err || err == -ENOMEM);
}

/* Returns what it did, for messages. */
static const char *play(struct kunit *test, struct game *g, bool short_of_memory)
{
	struct spm_test_image *img = any(test, g, false);
	unsigned int s = dice(g, SPM_TEST_SLOTS), k = dice(g, NPAGES);
	unsigned int what = dice(g, 100);

	if (!img)
		return "nothing";
	if (what < 45) {
		spm_test_set(test, img, s, k);
		return "set";
	}
	if (what < 55) {
		spm_test_touch(img, s, k);
		return "touch";
	}
	if (what < 58) {
		/* It may fail half-way, and then the model would not know. */
		if (!short_of_memory)
			spm_test_fill(img, s);
		return "fill";
	}
	if (what < 74) {
		play_new(test, g, img);
		return "new";
	}
	if (what < 86) {
		if (may_put(test->priv, img))
			spm_test_put(img);
		return "put";
	}
	if (what < 93) {
		play_discard(test, g, img);
		return "discard";
	}
	if (what < 97) {
		play_pin(g, img);
		return "pin";
	}
	img = any(test, g, true);
	if (img)
		spm_test_truncate(test, img, dice(g, SPM_TEST_SLOTS * FULL));
	return "truncate";
}

/* Memory as it comes: plenty, fragmented, or about to run out. */
static const char *play_with_memory(struct kunit *test, struct game *g,
				    bool may_run_out)
{
	struct spm_test_family *f = test->priv;
	const char *what;

	switch (dice(g, 4) + !may_run_out * 2) {
	case 0:
	case 2:
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_no_block);
		what = play(test, g, false);
		break;
	case 1:
		spm_test_folios = dice(g, 6);
		f->unmerged = true;
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_folios_left);
		what = play(test, g, true);
		break;
	default:
		return play(test, g, false);
	}
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	return what;
}

static void random_sequences(struct kunit *test)
{
	struct game *g = kunit_kzalloc(test, sizeof(*g), GFP_KERNEL);
	unsigned int seed, step;
	const char *what;

	KUNIT_ASSERT_NOT_NULL(test, g);
	for (seed = 1; seed <= SEEDS; seed++) {
		prandom_seed_state(&g->rnd, seed);
		for (step = 0; step < STEPS; step++) {
			what = play_with_memory(test, g, seed % 2);
			EXPECT_FAMILY(test);
			if (test->status == KUNIT_FAILURE) {
				unpin_all(g);
				KUNIT_FAIL(test, "seed %u step %u: %s", seed,
					   step, what);
				return;
			}
			cond_resched();
		}
		unpin_all(g);
		spm_test_family_again(test);
	}
}

static struct kunit_case merge_cases[] = {
	KUNIT_CASE(merge_nothing_over_block),
	KUNIT_CASE_SLOW(merge_nothing_over_loose),
	KUNIT_CASE_SLOW(merge_nothing_over_full),
	KUNIT_CASE(merge_block_over_block),
	KUNIT_CASE_SLOW(merge_block_over_loose),
	KUNIT_CASE_SLOW(merge_block_over_full),
	KUNIT_CASE(merge_loose_over_block),
	KUNIT_CASE(merge_loose_over_loose),
	KUNIT_CASE_SLOW(merge_loose_over_full),
	KUNIT_CASE_SLOW(merge_full_over_block),
	KUNIT_CASE_SLOW(merge_full_over_full),
	KUNIT_CASE(pinned_gap_is_not_written),
	KUNIT_CASE(holes_stay_zero_after_merge),
	KUNIT_CASE(take_over_moves_whole_slots),
	KUNIT_CASE(merge_in_the_middle),
	KUNIT_CASE(merge_without_memory),
	KUNIT_CASE_SLOW(merge_of_poisoned_memory),
	KUNIT_CASE(merge_with_an_end),
	KUNIT_CASE_SLOW(random_sequences),
	{}
};

static struct kunit_suite merge_suite = {
	.name = "superpmap_merge",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = merge_cases,
};

kunit_test_suite(merge_suite);
