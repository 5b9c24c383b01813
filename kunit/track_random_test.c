// SPDX-License-Identifier: GPL-2.0
/*
 * Dirty state of a family of objects, by random operations, against a model
 * that knows nothing of chains: each object has an array of pages.
 *
 * The answer must be the model's for all 512 pages of a slot, so nothing is lost
 * and nothing extra is told.  The seed is fixed: a failure comes back.
 */
#include <kunit/static_stub.h>
#include <linux/mm.h>
#include <linux/prandom.h>

#include "family.h"
#include "track.h"

#define FULL SPM_SLOT_PAGES
#define NPAGES SPM_TEST_PAGES
#define SEEDS 8
#define STEPS 200
#define PINS 3
#define BIRTHS 64

/**
 * struct state - what is known of a live object
 * @node:	index of its region in the tree of snapshots
 * @watched:	slots that were cleared, or begin as a copy of one that was
 * @cut:	of these, ones that lay beyond the end of the region since: they may
 *		begin anew, for all that changed up to then is marked
 * @stored:	pages that were stored to since they were cleared
 * @marked:	pages that changed otherwise
 */
struct state {
	unsigned int node;
	bool watched[SPM_TEST_SLOTS];
	bool cut[SPM_TEST_SLOTS];
	bool stored[SPM_TEST_SLOTS][NPAGES];
	bool marked[SPM_TEST_SLOTS][NPAGES];
};

/**
 * struct birth - a region that there is, or was
 * @parent:	the region that it is a snapshot of; its own index for the first
 * @value:	of each page at that moment
 */
struct birth {
	unsigned int parent;
	u32 value[SPM_TEST_SLOTS][NPAGES];
};

/**
 * struct track_game - a random sequence
 * @rnd:	the dice
 * @states:	of the family's images
 * @births:	regions, older ones first
 * @n:		how many
 * @pins:	pages that somebody pins
 * @pinned:	some page was pinned once
 */
struct track_game {
	struct rnd_state rnd;
	struct state states[SPM_TEST_IMAGES];
	struct birth births[BIRTHS];
	unsigned int n;
	struct page *pins[PINS];
	bool pinned;
};

static unsigned int dice(struct track_game *g, unsigned int n)
{
	return prandom_u32_state(&g->rnd) % n;
}

static struct state *state_of(struct kunit *test, struct track_game *g,
			      const struct spm_test_image *img)
{
	const struct spm_test_family *f = test->priv;

	return &g->states[img - f->images];
}

/* Any live object; or a region, or NULL. */
static struct spm_test_image *any(struct kunit *test, struct track_game *g,
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

/* -- the model ------------------------------------------------------------- */

/*
 * Which pages show something: bits of pages in play, by slot.  And what became of
 * slots that were cut off.
 */
static void showing(struct spm_object *obj, struct state *st,
		    u8 shows[SPM_TEST_SLOTS])
{
	unsigned int s, k;

	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		struct mutex *lock = spm_object_find_lock(obj, s);

		shows[s] = 0;
		if (!lock)
			continue;
		mutex_lock(lock);
		for (k = 0; k < NPAGES; k++)
			if (spm_object_page(obj, s, spm_test_pages[k]))
				shows[s] |= BIT(k);
		if (st->cut[s])
			st->watched[s] = spm_track_watched(obj, s);
		mutex_unlock(lock);
	}
}

/* Pages read as zeros now: news for who watches, forgotten by who does not. */
static void model_gone(struct state *st, const u8 shows[SPM_TEST_SLOTS],
		       pgoff_t first, pgoff_t end)
{
	unsigned int s, k;

	for (s = 0; s < SPM_TEST_SLOTS; s++)
		for (k = 0; k < NPAGES; k++) {
			pgoff_t n = s * FULL + spm_test_pages[k];

			if (n < first || n >= end)
				continue;
			if (st->watched[s] &&
			    (shows[s] & BIT(k) || st->stored[s][k]))
				st->marked[s][k] = true;
			st->stored[s][k] = false;
		}
}

/* Does somebody hold a page of the object's own? */
static bool held(struct spm_object *obj, unsigned int s, unsigned int k)
{
	struct spm_reserv *rv = spm_test_reserv(obj, s);
	unsigned int i = spm_test_pages[k];

	return rv && spm_reserv_populated(rv, i) && spm_reserv_held(rv, i);
}

static void model_clear(struct spm_test_image *img, struct state *st,
			unsigned int s, unsigned int lo, unsigned int hi)
{
	unsigned int k;

	st->watched[s] = true;
	st->cut[s] = false;
	for (k = 0; k < NPAGES; k++) {
		if (spm_test_pages[k] < lo || spm_test_pages[k] >= hi)
			continue;
		st->marked[s][k] = false;
		st->stored[s][k] &= held(img->obj, s, k);
	}
}

/*
 * The snapshot by which the ways to two regions parted.  Parents have smaller
 * numbers, so the last step to where they meet is from the older of two
 * snapshots of the same region.
 */
static const struct birth *parted(const struct track_game *g, unsigned int a,
				  unsigned int b)
{
	unsigned int first = ~0U;

	/* Ancestors have smaller numbers. */
	while (a != b) {
		unsigned int *up = a > b ? &a : &b;

		first = *up;
		*up = g->births[*up].parent;
	}
	return first == ~0U ? NULL : &g->births[first];
}

/* -- the moves ------------------------------------------------------------- */

static void play_set(struct kunit *test, struct track_game *g,
		     struct spm_test_image *img)
{
	unsigned int s = dice(g, SPM_TEST_SLOTS), k = dice(g, NPAGES);

	if (!spm_test_set(test, img, s, k))
		state_of(test, g, img)->stored[s][k] = true;
}

static void play_clear(struct kunit *test, struct track_game *g,
		       struct spm_test_image *img)
{
	unsigned int s = dice(g, SPM_TEST_SLOTS), k = dice(g, NPAGES);
	struct spm_slot *slot = spm_object_slot(img->obj, s, 0);
	struct state *st = state_of(test, g, img);
	unsigned int lo = 0, hi = FULL, i;
	bool was;

	KUNIT_ASSERT_NOT_NULL(test, slot);
	if (dice(g, 2)) {
		lo = dice(g, FULL);
		hi = lo + 1 + dice(g, FULL - lo);
	}
	KUNIT_ASSERT_EQ(test, spm_slot_lock_write(img->obj, slot), 0);
	was = st->stored[s][k] || st->marked[s][k];
	KUNIT_EXPECT_EQ(test, spm_track_clear(img->obj, slot, lo, hi, dice(g, 2)),
			0);
	model_clear(img, st, s, lo, hi);
	/* Now and then somebody is not told, in the end. */
	i = spm_test_pages[k];
	if (was && i >= lo && i < hi && !dice(g, 4)) {
		spm_track_restore(img->obj, slot, i, i + 1);
		if (spm_slot_holds(slot, i))
			st->stored[s][k] = true;
		else
			st->marked[s][k] = true;
	}
	mutex_unlock(slot->lock);
}

static void play_discard(struct kunit *test, struct track_game *g,
			 struct spm_test_image *img)
{
	pgoff_t first = dice(g, SPM_TEST_SLOTS * FULL);
	pgoff_t n = dice(g, 2) ? dice(g, 600) : FULL;
	struct state *st = state_of(test, g, img);
	u8 shows[SPM_TEST_SLOTS];

	if (n == FULL)
		first = round_down(first, FULL);
	showing(img->obj, st, shows);
	KUNIT_EXPECT_EQ(test, spm_test_discard(img, first, first + n), 0);
	model_gone(st, shows, first, first + n);
}

static void play_truncate(struct kunit *test, struct track_game *g,
			  struct spm_test_image *r)
{
	struct spm_test_family *f = test->priv;
	pgoff_t end = dice(g, SPM_TEST_SLOTS * FULL);
	u8 shows[SPM_TEST_IMAGES][SPM_TEST_SLOTS];
	unsigned int i, s;

	for (i = 0; i < SPM_TEST_IMAGES; i++)
		if (f->images[i].obj)
			showing(f->images[i].obj, &g->states[i], shows[i]);
	spm_test_truncate(test, r, end);
	for (i = 0; i < SPM_TEST_IMAGES; i++) {
		struct spm_test_image *img = &f->images[i];

		if (!img->obj || (img != r && img->region != r))
			continue;
		model_gone(&g->states[i], shows[i], end, ULONG_MAX);
		for (s = 0; s < SPM_TEST_SLOTS; s++)
			if (end <= s * FULL)
				g->states[i].cut[s] |= g->states[i].watched[s];
	}
}

static void play_new(struct kunit *test, struct track_game *g,
		     struct spm_test_image *img)
{
	struct spm_test_family *f = test->priv;
	struct spm_test_image *new;
	struct state *st;
	int err = 0;

	if (images(f, false) >= SPM_TEST_IMAGES || images(f, true) >= 5 ||
	    g->n == BIRTHS)
		return;
	if (!img->region && !dice(g, 3)) {
		new = spm_test_private(test, img);
		*state_of(test, g, new) = (struct state){ };
		return;
	}
	new = img->region ? spm_test_fork(test, img, &err) :
			    spm_test_snapshot(test, img, &err);
	KUNIT_EXPECT_TRUE(test, !err || err == -ENOMEM || err == -EMLINK);
	if (!new)
		return;
	st = state_of(test, g, new);
	*st = *state_of(test, g, img);
	if (img->region)
		return;
	g->births[g->n].parent = st->node;
	memcpy(g->births[g->n].value, img->value, sizeof(img->value));
	st->node = g->n++;
}

static void play_pin(struct track_game *g, const struct spm_test_image *img)
{
	struct spm_reserv *rv = spm_test_reserv(img->obj,
						dice(g, SPM_TEST_SLOTS));
	struct page **pin = &g->pins[dice(g, PINS)];

	if (*pin) {
		unpin_user_page(*pin);
		*pin = NULL;
	} else if (rv) {
		*pin = spm_test_pin(rv);
		g->pinned = true;
	}
}

static void unpin_all(struct track_game *g)
{
	unsigned int i;

	for (i = 0; i < PINS; i++)
		if (g->pins[i]) {
			unpin_user_page(g->pins[i]);
			g->pins[i] = NULL;
		}
}

/* Returns what it did, for messages. */
static const char *play(struct kunit *test, struct track_game *g, bool pins)
{
	struct spm_test_image *img = any(test, g, false);
	unsigned int what = dice(g, 100);

	if (!img)
		return "nothing";
	if (what < 36) {
		play_set(test, g, img);
		return "set";
	}
	if (what < 44) {
		spm_test_touch(img, dice(g, SPM_TEST_SLOTS), dice(g, NPAGES));
		return "touch";
	}
	if (what < 60) {
		play_clear(test, g, img);
		return "clear";
	}
	if (what < 74) {
		play_new(test, g, img);
		return "new";
	}
	if (what < 84) {
		if (may_put(test->priv, img))
			spm_test_put(img);
		return "put";
	}
	if (what < 92) {
		play_discard(test, g, img);
		return "discard";
	}
	if (what < 96) {
		if (pins)
			play_pin(g, img);
		return "pin";
	}
	img = any(test, g, true);
	if (img)
		play_truncate(test, g, img);
	return "truncate";
}

/* Memory as it comes: plenty, fragmented, or about to run out. */
static const char *play_with_memory(struct kunit *test, struct track_game *g,
				    bool pins)
{
	struct spm_test_family *f = test->priv;
	const char *what;

	switch (dice(g, 4)) {
	case 0:
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_no_block);
		what = play(test, g, pins);
		break;
	case 1:
		spm_test_folios = dice(g, 6);
		f->unmerged = true;
		kunit_activate_static_stub(test, spm_folio_alloc,
					   spm_test_folios_left);
		what = play(test, g, pins);
		break;
	default:
		return play(test, g, pins);
	}
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	return what;
}

/* -- the checks ------------------------------------------------------------ */

static void expect_bits(struct kunit *test, const unsigned long *is,
			const bool *want, const char *what, unsigned int n,
			unsigned int s)
{
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES) = { };
	unsigned int i, k;

	for (k = 0; k < NPAGES; k++)
		if (want[k])
			__set_bit(spm_test_pages[k], bits);
	for (i = 0; i < FULL; i++)
		if (test_bit(i, is) != test_bit(i, bits))
			KUNIT_FAIL(test, "object %u slot %u page %u: %s %s", n,
				   s, i, test_bit(i, bits) ? "not" : "wrongly",
				   what);
}

static void check_dirty(struct kunit *test, struct track_game *g)
{
	struct spm_test_family *f = test->priv;
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES);
	bool want[NPAGES];
	unsigned int i, s, k;

	for (i = 0; i < SPM_TEST_IMAGES * SPM_TEST_SLOTS; i++) {
		struct spm_object *obj = f->images[i / SPM_TEST_SLOTS].obj;
		const struct state *st = &g->states[i / SPM_TEST_SLOTS];
		struct spm_slot *slot;
		struct mutex *lock;

		s = i % SPM_TEST_SLOTS;
		lock = obj ? spm_object_find_lock(obj, s) : NULL;
		if (!lock)
			continue;
		for (k = 0; k < NPAGES; k++)
			want[k] = st->stored[s][k] || st->marked[s][k];
		mutex_lock(lock);
		spm_track_dirty(obj, s, bits);
		slot = spm_object_find_slot(obj, s);
		if (slot && spm_track_clean(slot) && !bitmap_empty(bits, FULL))
			KUNIT_FAIL(test, "object %u slot %u: not clean",
				   i / SPM_TEST_SLOTS, s);
		mutex_unlock(lock);
		expect_bits(test, bits, want, "dirty", i / SPM_TEST_SLOTS, s);
	}
}

/* Two regions: what differs from the moment when they parted. */
static void check_since(struct kunit *test, struct track_game *g)
{
	const struct spm_test_image *a = any(test, g, true);
	const struct spm_test_image *b = any(test, g, true);
	const struct spm_test_family *f = test->priv;
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES);
	const struct birth *birth;
	bool want[NPAGES];
	unsigned int s, k;

	if (!a || !b || a == b)
		return;
	birth = parted(g, state_of(test, g, a)->node, state_of(test, g, b)->node);
	KUNIT_ASSERT_NOT_NULL(test, birth);
	for (s = 0; s < SPM_TEST_SLOTS; s++) {
		struct mutex *lock = spm_object_find_lock(a->obj, s);

		if (!lock)
			continue;
		for (k = 0; k < NPAGES; k++)
			want[k] = a->value[s][k] != birth->value[s][k];
		mutex_lock(&a->obj->family->lock);
		mutex_lock(lock);
		spm_track_since(a->obj, spm_track_parted(a->obj, b->obj), s,
				bits);
		mutex_unlock(lock);
		mutex_unlock(&a->obj->family->lock);
		expect_bits(test, bits, want, "changed since", a - f->images, s);
	}
}

static void play_sequence(struct kunit *test, struct track_game *g,
			  unsigned int seed)
{
	unsigned int step;
	const char *what;

	memset(g, 0, sizeof(*g));
	g->n = 1;
	prandom_seed_state(&g->rnd, seed);
	for (step = 0; step < STEPS; step++) {
		what = play_with_memory(test, g, seed % 2);
		EXPECT_FAMILY(test);
		check_dirty(test, g);
		/* A copy that was made because of a pin counts as a change. */
		if (!g->pinned)
			check_since(test, g);
		if (test->status == KUNIT_FAILURE) {
			KUNIT_FAIL(test, "seed %u step %u: %s", seed, step, what);
			break;
		}
		cond_resched();
	}
	unpin_all(g);
}

static void random_sequences(struct kunit *test)
{
	struct track_game *g = kunit_kzalloc(test, sizeof(*g), GFP_KERNEL);
	unsigned int seed;

	KUNIT_ASSERT_NOT_NULL(test, g);
	for (seed = 1; seed <= SEEDS && test->status != KUNIT_FAILURE; seed++) {
		play_sequence(test, g, seed);
		spm_test_family_again(test);
	}
}

static struct kunit_case track_random_cases[] = {
	KUNIT_CASE_SLOW(random_sequences),
	{}
};

static struct kunit_suite track_random_suite = {
	.name = "superpmap_track_random",
	.init = spm_test_family_init,
	.exit = spm_test_family_exit,
	.test_cases = track_random_cases,
};

kunit_test_suite(track_random_suite);
