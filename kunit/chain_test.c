// SPDX-License-Identifier: GPL-2.0
/*
 * Chains: which page shows through, against a search in plain arrays.
 *
 * The chains are random and put together by hand, so that they may be such as
 * snapshots and forks would never make.  The seed is fixed: a failure comes back.
 */
#include <linux/prandom.h>

#include "family.h"

#define DEPTH	8
#define SLOTS	3
#define FULL	SPM_SLOT_PAGES
#define PAGES	(SLOTS * FULL)
#define CHAINS	25

/**
 * struct level - an object of a chain, in plain arrays
 * @obj:	the object
 * @end:	where what it shadows ends, as seen from here
 * @private:	of a private mapping
 * @holds:	pages that it has
 * @hides:	pages at which nothing shows through
 * @covers:	slots in which something is hidden, if only what it holds
 */
struct level {
	struct spm_object *obj;
	pgoff_t end;
	bool private;
	DECLARE_BITMAP(holds, PAGES);
	DECLARE_BITMAP(hides, PAGES);
	DECLARE_BITMAP(covers, SLOTS);
};

/**
 * struct chain - test->priv
 * @base:	region of all its objects
 * @level:	the first is the top
 * @depth:	levels in use
 * @rnd:	the dice
 */
struct chain {
	struct spm_test_base base;
	struct level level[DEPTH];
	unsigned int depth;
	struct rnd_state rnd;
};

static unsigned int dice(struct chain *c, unsigned int n)
{
	return prandom_u32_state(&c->rnd) % n;
}

static int chain_init(struct kunit *test)
{
	struct chain *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, c);
	test->priv = c;
	prandom_seed_state(&c->rnd, 20250801);
	spm_test_base_init(test, &c->base, 4711);
	return 0;
}

static void put_chain(struct chain *c)
{
	unsigned int d;

	/* From the top: nobody shadows what goes. */
	for (d = 0; d < c->depth; d++)
		if (c->level[d].obj)
			spm_object_put(c->level[d].obj);
	memset(c->level, 0, sizeof(c->level));
	c->depth = 0;
}

static void chain_exit(struct kunit *test)
{
	struct chain *c = test->priv;

	if (!c)
		return;
	put_chain(c);
	spm_test_base_exit(test, &c->base);
}

/* Some pages, many, all or none of a slot. */
static bool populate_slot(struct chain *c, struct level *l, pgoff_t index)
{
	static const unsigned int percent[] = { 0, 0, 3, 50, 99, 100, 100 };
	unsigned int some = percent[dice(c, ARRAY_SIZE(percent))];
	struct spm_slot *slot;
	unsigned int i;
	bool ok = true;

	if (!some)
		return true;
	slot = spm_object_slot(l->obj, index, 0);
	if (!slot)
		return false;
	mutex_lock(slot->lock);
	for (i = 0; i < FULL && ok; i++) {
		if (dice(c, 100) >= some)
			continue;
		ok = !spm_slot_reserve(l->obj, slot, NULL, 0) &&
		     !spm_reserv_populate(slot->reserv, i, NULL, 0,
					  SPM_POPULATE_FAULT);
		__set_bit(index * FULL + i, l->holds);
	}
	mutex_unlock(slot->lock);
	return ok;
}

static bool hide_in_slot(struct chain *c, struct level *l, pgoff_t index)
{
	unsigned int first = dice(c, FULL), n = dice(c, FULL - first + 1);
	struct spm_slot *slot;

	if (dice(c, 3))
		return true;
	slot = spm_object_slot(l->obj, index, 0);
	if (!slot)
		return false;
	slot->hidden = bitmap_zalloc(FULL, GFP_KERNEL);
	if (!slot->hidden)
		return false;
	bitmap_set(slot->hidden, first, n);
	bitmap_set(l->hides, index * FULL + first, n);
	__set_bit(index, l->covers);
	return true;
}

static pgoff_t random_end(struct chain *c)
{
	switch (dice(c, 4)) {
	case 0:
		return dice(c, PAGES + 1);
	case 1:
		return dice(c, SLOTS + 1) * FULL;
	default:
		return ULONG_MAX;
	}
}

/* From the bottom up, each shadowing the one below. */
static void make_chain(struct kunit *test, struct chain *c)
{
	struct spm_family *family = NULL;
	unsigned int d, s;

	c->depth = 1 + dice(c, DEPTH);
	for (d = c->depth; d--;) {
		struct level *l = &c->level[d];

		l->obj = spm_test_base_object(&c->base, family, NULL);
		KUNIT_ASSERT_NOT_NULL(test, l->obj);
		family = l->obj->family;
		l->private = dice(c, 2);
		l->obj->private = l->private;
		for (s = 0; s < SLOTS; s++) {
			KUNIT_ASSERT_TRUE(test, populate_slot(c, l, s));
			KUNIT_ASSERT_TRUE(test, hide_in_slot(c, l, s));
		}
		if (d + 1 == c->depth)
			continue;
		l->end = random_end(c);
		mutex_lock(&family->lock);
		spm_object_shadow(l->obj, c->level[d + 1].obj, l->end);
		mutex_unlock(&family->lock);
	}
}

/* The last level that a page is looked for in, which may hold it or not. */
static unsigned int last_level(const struct chain *c, pgoff_t n)
{
	unsigned int d;

	for (d = 0; d + 1 < c->depth; d++)
		if (test_bit(n, c->level[d].holds) ||
		    test_bit(n, c->level[d].hides) || n >= c->level[d].end)
			break;
	return d;
}

static struct spm_object *want_page(const struct chain *c, pgoff_t n)
{
	const struct level *l = &c->level[last_level(c, n)];

	return test_bit(n, l->holds) ? l->obj : NULL;
}

static bool page_is_right(struct chain *c, pgoff_t index, unsigned int i)
{
	struct spm_object *want = want_page(c, index * FULL + i);
	struct spm_reserv *rv = spm_object_page(c->level[0].obj, index, i);

	if (!want || !rv)
		return !want && !rv;
	return rv == spm_test_reserv(want, index) && rv->owner == &want->owner;
}

/*
 * One 2 MB entry for the slot shows what 512 of 4 KB would, now and when more
 * is stored below: no object above has, hides or cuts off any page of it.
 */
static struct spm_object *want_whole(const struct chain *c, pgoff_t index)
{
	unsigned int d;

	for (d = 0; d < c->depth; d++) {
		const struct level *l = &c->level[d];
		pgoff_t first = index * FULL;
		unsigned int n;

		n = find_next_bit(l->holds, first + FULL, first);
		if (n < first + FULL) {
			n = find_next_zero_bit(l->holds, first + FULL, first);
			return n == first + FULL ? l->obj : NULL;
		}
		if (test_bit(index, l->covers) || l->end < first + FULL)
			return NULL;
	}
	return NULL;
}

static void check_whole(struct kunit *test, struct chain *c, pgoff_t index)
{
	struct spm_reserv *rv = spm_object_whole(c->level[0].obj, index);
	struct spm_object *want = want_whole(c, index);
	unsigned int i;

	KUNIT_ASSERT_EQ(test, !!rv, !!want);
	if (!rv)
		return;
	KUNIT_ASSERT_PTR_EQ(test, rv->owner, &want->owner);
	for (i = 0; i < FULL; i++)
		KUNIT_ASSERT_PTR_EQ(test, rv,
				    spm_object_page(c->level[0].obj, index, i));
}

/* The region's, unless somebody on the way hid the page or cut it off. */
static struct spm_object *want_home(const struct chain *c, pgoff_t n)
{
	unsigned int d;

	for (d = 0; d < c->depth; d++) {
		const struct level *l = &c->level[d];

		if (!l->private)
			return l->obj;
		if (test_bit(n, l->hides) ||
		    (d + 1 < c->depth && n >= l->end))
			break;
	}
	return c->level[0].obj;
}

/* Nobody else knows the chain, so no slot lock is needed. */
static void check_chain(struct kunit *test, struct chain *c)
{
	unsigned int s, i;

	for (s = 0; s < SLOTS; s++) {
		for (i = 0; i < FULL; i++) {
			pgoff_t n = s * FULL + i;

			KUNIT_ASSERT_TRUE_MSG(test, page_is_right(c, s, i),
					      "slot %u page %u", s, i);
			if (!want_page(c, n))
				KUNIT_ASSERT_PTR_EQ(test, want_home(c, n),
						    spm_object_home(c->level[0].obj,
								    s, i));
		}
		check_whole(test, c, s);
	}
	/* A slot that nobody in the chain ever had. */
	KUNIT_EXPECT_NULL(test, spm_object_page(c->level[0].obj, SLOTS, 5));
	KUNIT_EXPECT_NULL(test, spm_object_whole(c->level[0].obj, SLOTS));
}

static void look_up_in_random_chains(struct kunit *test)
{
	struct chain *c = test->priv;
	unsigned int n;

	for (n = 0; n < CHAINS; n++) {
		make_chain(test, c);
		check_chain(test, c);
		KUNIT_EXPECT_EQ(test, spm_test_depth(c->level[0].obj),
				c->depth - 1);
		put_chain(c);
		cond_resched();
	}
}

/* A chain of two: R below with all of slot 0, S above without anything. */
static void make_pair(struct kunit *test, struct chain *c)
{
	struct spm_slot *slot;
	struct spm_object *r;
	unsigned int i;

	c->depth = 2;
	c->level[1].obj = spm_test_base_object(&c->base, NULL, NULL);
	KUNIT_ASSERT_NOT_NULL(test, c->level[1].obj);
	r = c->level[1].obj;
	c->level[0].obj = spm_test_base_object(&c->base, r->family, NULL);
	KUNIT_ASSERT_NOT_NULL(test, c->level[0].obj);
	mutex_lock(&r->family->lock);
	spm_object_shadow(c->level[0].obj, r, ULONG_MAX);
	mutex_unlock(&r->family->lock);
	slot = spm_object_slot(r, 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, slot);
	mutex_lock(slot->lock);
	spm_slot_reserve(r, slot, NULL, 0);
	for (i = 0; i < FULL && slot->reserv; i++)
		spm_reserv_populate(slot->reserv, i, NULL, 0,
				    SPM_POPULATE_FAULT);
	mutex_unlock(slot->lock);
	KUNIT_ASSERT_NOT_NULL(test, slot->reserv);
}

/* The end cuts the slot at every page: whole only if it does not cut. */
static void end_at_every_page(struct kunit *test)
{
	struct chain *c = test->priv;
	struct spm_reserv *rv;
	struct spm_object *s;
	unsigned int end;

	make_pair(test, c);
	s = c->level[0].obj;
	rv = spm_test_reserv(c->level[1].obj, 0);
	for (end = 0; end <= FULL + 1; end++) {
		WRITE_ONCE(s->backing_end, end);
		KUNIT_ASSERT_PTR_EQ(test, spm_object_whole(s, 0),
				    end >= FULL ? rv : NULL);
		if (end < FULL)
			KUNIT_ASSERT_NULL(test, spm_object_page(s, 0, end));
		if (end && end <= FULL)
			KUNIT_ASSERT_PTR_EQ(test,
					    spm_object_page(s, 0, end - 1), rv);
	}
}

/* One hidden page, anywhere: it alone is gone, and no 2 MB entry may be. */
static void hidden_at_every_page(struct kunit *test)
{
	struct chain *c = test->priv;
	struct spm_slot *slot;
	struct spm_object *s;
	unsigned int i;

	make_pair(test, c);
	s = c->level[0].obj;
	slot = spm_object_slot(s, 0, 0);
	KUNIT_ASSERT_NOT_NULL(test, slot);
	slot->hidden = bitmap_zalloc(FULL, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, slot->hidden);
	for (i = 0; i < FULL; i++) {
		bitmap_zero(slot->hidden, FULL);
		__set_bit(i, slot->hidden);
		KUNIT_ASSERT_NULL(test, spm_object_page(s, 0, i));
		KUNIT_ASSERT_NULL(test, spm_object_whole(s, 0));
		if (i)
			KUNIT_ASSERT_NOT_NULL(test,
					      spm_object_page(s, 0, i - 1));
		if (i + 1 < FULL)
			KUNIT_ASSERT_NOT_NULL(test,
					      spm_object_page(s, 0, i + 1));
	}
}

static struct kunit_case chain_cases[] = {
	KUNIT_CASE_SLOW(look_up_in_random_chains),
	KUNIT_CASE(end_at_every_page),
	KUNIT_CASE(hidden_at_every_page),
	{}
};

static struct kunit_suite chain_suite = {
	.name = "superpmap_chain",
	.init = chain_init,
	.exit = chain_exit,
	.test_cases = chain_cases,
};

kunit_test_suite(chain_suite);
