// SPDX-License-Identifier: GPL-2.0
/*
 * Policy: every decision over its inputs, against rules written down again here
 * from FreeBSD's description rather than from the code.
 */
#include <kunit/test.h>
#include <linux/minmax.h>
#include <linux/prandom.h>
#include <linux/sched.h>

#include "policy.h"

#define FULL SPM_SLOT_PAGES

static const char *entry_name(enum spm_entry e)
{
	static const char * const names[] = {
		[SPM_ENTRY_4K] = "4 KB",
		[SPM_ENTRY_2M_RO] = "2 MB read-only",
		[SPM_ENTRY_2M_RW] = "2 MB writable",
	};

	return names[e];
}

/* Nothing but the state of the dirty bits can be in the way of 2 MB. */
static bool eligible(const struct spm_facts *f)
{
	return f->superpages && f->fits && f->block && f->popcnt == FULL;
}

/*
 * One modified bit for 512 pages: a writable entry must not make a clean page
 * look dirty, unless the administrator allows it for the few that are missing.
 */
static bool writable_is_right(const struct spm_facts *f)
{
	return eligible(f) && f->may_write &&
	       f->dirty_peers >= f->dirty_threshold;
}

/* Some page of the slot may be mapped writable already. */
static bool writable_entries_there(const struct spm_facts *f)
{
	return f->pmd == SPM_PMD_TABLE && f->dirty_peers + f->dirty_self > 0;
}

/*
 * A read-only entry serves a load; in a writable mapping it is made only if
 * the writable one is wrong, and if it takes no writable entry away.
 */
static bool read_only_is_right(const struct spm_facts *f)
{
	if (!eligible(f) || writable_is_right(f))
		return false;
	if (!f->may_write)
		return true;
	return !f->write && !writable_entries_there(f);
}

static enum spm_refusal right_refusal(const struct spm_facts *f)
{
	/* Not even a candidate: not worth a failure count. */
	if (!f->superpages || !f->fits || f->popcnt != FULL)
		return SPM_REFUSE_NONE;
	if (writable_is_right(f) || read_only_is_right(f))
		return SPM_REFUSE_NONE;
	return f->block ? SPM_REFUSE_NOT_DIRTY : SPM_REFUSE_LOOSE;
}

/* Returns false, and fails the test, if the decision breaks a rule. */
static bool check_entry(struct kunit *test, const struct spm_facts *f)
{
	enum spm_refusal why = SPM_REFUSE_RACED;
	enum spm_entry got = spm_policy_entry(f, &why);
	enum spm_entry want = SPM_ENTRY_4K;

	if (writable_is_right(f))
		want = SPM_ENTRY_2M_RW;
	else if (read_only_is_right(f))
		want = SPM_ENTRY_2M_RO;
	if (got == want && why == right_refusal(f))
		return true;
	KUNIT_FAIL(test,
		   "%s (reason %d) instead of %s (reason %d): write %d may_write %d fits %d superpages %d block %d pmd %d popcnt %u peers %u self %d threshold %u",
		   entry_name(got), why, entry_name(want), right_refusal(f),
		   f->write, f->may_write, f->fits, f->superpages, f->block,
		   f->pmd, f->popcnt, f->dirty_peers, f->dirty_self,
		   f->dirty_threshold);
	return false;
}

/* Bit by bit, the six booleans. */
#define NR_BOOLS 6

static void set_bools(struct spm_facts *f, unsigned int bits)
{
	f->write = bits & BIT(0);
	f->may_write = bits & BIT(1);
	f->dirty_self = bits & BIT(2);
	f->fits = bits & BIT(3);
	f->superpages = bits & BIT(4);
	f->block = bits & BIT(5);
}

/* For each state of the PMD and each number of dirty pages. */
static bool check_pmd_and_peers(struct kunit *test, struct spm_facts *f)
{
	for (f->pmd = SPM_PMD_NONE; f->pmd <= SPM_PMD_2M_RW; f->pmd++)
		for (f->dirty_peers = 0; f->dirty_peers < FULL; f->dirty_peers++)
			if (!check_entry(test, f))
				return false;
	return true;
}

static void entry_over_facts(struct kunit *test)
{
	static const unsigned int popcnts[] = { 0, 1, FULL - 2, FULL - 1, FULL };
	static const unsigned int thresholds[] = { 0, 1, 256, 510, 511 };
	struct spm_facts f = {};
	unsigned int bits, t, p;

	for (bits = 0; bits < BIT(NR_BOOLS); bits++) {
		set_bools(&f, bits);
		for (p = 0; p < ARRAY_SIZE(popcnts); p++)
			for (t = 0; t < ARRAY_SIZE(thresholds); t++) {
				f.popcnt = popcnts[p];
				f.dirty_threshold = thresholds[t];
				if (!check_pmd_and_peers(test, &f))
					return;
			}
		cond_resched();
	}
}

/* One threshold, with the dirty counts on both sides of it. */
static bool check_threshold(struct kunit *test, struct spm_facts *f)
{
	unsigned int t = f->dirty_threshold;
	const unsigned int peers[] = {
		0, 1, t ? t - 1 : 0, t, min(t + 1, FULL - 1),
	};
	unsigned int i;

	for (f->pmd = SPM_PMD_NONE; f->pmd <= SPM_PMD_2M_RW; f->pmd++)
		for (i = 0; i < ARRAY_SIZE(peers); i++) {
			f->dirty_peers = peers[i];
			if (!check_entry(test, f))
				return false;
		}
	return true;
}

static void entry_over_thresholds(struct kunit *test)
{
	struct spm_facts f = { .popcnt = FULL };
	unsigned int bits;

	for (bits = 0; bits < BIT(NR_BOOLS); bits++) {
		set_bools(&f, bits);
		for (f.dirty_threshold = 0; f.dirty_threshold < FULL;
		     f.dirty_threshold++)
			if (!check_threshold(test, &f))
				return;
		cond_resched();
	}
}

/* The rows of FreeBSD's fault handler that users notice, one by one. */
static void entry_examples(struct kunit *test)
{
	static const struct {
		const char *what;
		struct spm_facts f;
		enum spm_entry entry;
		enum spm_refusal why;
	} rows[] = {
		{ "the store that makes the last page dirty promotes",
		  { .write = true, .may_write = true, .pmd = SPM_PMD_TABLE,
		    .dirty_peers = 511 },
		  SPM_ENTRY_2M_RW, SPM_REFUSE_NONE },
		{ "one clean peer refuses it",
		  { .write = true, .may_write = true, .pmd = SPM_PMD_TABLE,
		    .dirty_peers = 510 },
		  SPM_ENTRY_4K, SPM_REFUSE_NOT_DIRTY },
		{ "a load over dirty pages maps writable at once",
		  { .may_write = true, .dirty_self = true, .dirty_peers = 511 },
		  SPM_ENTRY_2M_RW, SPM_REFUSE_NONE },
		{ "a load of clean pages promotes read-only",
		  { .may_write = true, .pmd = SPM_PMD_TABLE },
		  SPM_ENTRY_2M_RO, SPM_REFUSE_NONE },
		{ "a load must not cost the writable entries of others",
		  { .may_write = true, .pmd = SPM_PMD_TABLE, .dirty_peers = 1 },
		  SPM_ENTRY_4K, SPM_REFUSE_NOT_DIRTY },
		{ "a store to a read-only superpage of clean pages demotes",
		  { .write = true, .may_write = true, .pmd = SPM_PMD_2M_RO },
		  SPM_ENTRY_4K, SPM_REFUSE_NOT_DIRTY },
		{ "a store to a read-only superpage of dirty pages upgrades",
		  { .write = true, .may_write = true, .pmd = SPM_PMD_2M_RO,
		    .dirty_self = true, .dirty_peers = 511 },
		  SPM_ENTRY_2M_RW, SPM_REFUSE_NONE },
		{ "a read-only mapping does not ask for dirty pages",
		  { .pmd = SPM_PMD_TABLE, .dirty_peers = 7 },
		  SPM_ENTRY_2M_RO, SPM_REFUSE_NONE },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct spm_facts f = rows[i].f;
		enum spm_refusal why;

		f.fits = true;
		f.superpages = true;
		f.block = true;
		f.popcnt = FULL;
		f.dirty_threshold = FULL - 1;
		KUNIT_EXPECT_EQ_MSG(test, spm_policy_entry(&f, &why),
				    rows[i].entry, "%s", rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, why, rows[i].why, "%s", rows[i].what);
	}
}

/* The rest is populated from the threshold on, as long as there is a rest. */
static void fill_all(struct kunit *test)
{
	unsigned int popcnt, threshold;

	for (threshold = 1; threshold <= FULL; threshold++) {
		unsigned int yes = 0, first = FULL;

		for (popcnt = 0; popcnt <= FULL; popcnt++)
			if (spm_policy_fill(popcnt, threshold)) {
				first = min(first, popcnt);
				yes++;
			}
		KUNIT_ASSERT_EQ(test, first, threshold);
		KUNIT_ASSERT_EQ(test, yes, FULL - threshold);
		KUNIT_ASSERT_FALSE(test, spm_policy_fill(FULL, threshold));
	}
}

/*
 * A store to a page that shows through: FreeBSD copies the page.  The whole slot
 * only where it is then of use, by order of the administrator, or when most of
 * it is copied already or the stores come one after the other.
 */
static bool slot_is_right(enum spm_cow_size size, bool mappable,
			  unsigned int popcnt, unsigned int run)
{
	switch (size) {
	case SPM_COW_2M:
		return mappable;
	case SPM_COW_AUTO:
		return mappable && (2 * popcnt >= FULL || run >= 64);
	default:
		return false;
	}
}

static bool check_cow_slot(struct kunit *test, enum spm_cow_size size,
			   bool mappable, unsigned int popcnt)
{
	unsigned int run;

	for (run = 0; run <= FULL; run++) {
		bool got = spm_policy_cow_slot(size, mappable, popcnt, run);

		if (got == slot_is_right(size, mappable, popcnt, run))
			continue;
		KUNIT_FAIL(test, "%d for size %d mappable %d popcnt %u run %u",
			   got, size, mappable, popcnt, run);
		return false;
	}
	return true;
}

static void cow_slot_all(struct kunit *test)
{
	enum spm_cow_size size;
	unsigned int popcnt;

	for (size = SPM_COW_4K; size <= SPM_COW_AUTO; size++)
		for (popcnt = 0; popcnt <= FULL; popcnt++) {
			if (!check_cow_slot(test, size, false, popcnt) ||
			    !check_cow_slot(test, size, true, popcnt))
				return;
			cond_resched();
		}
	/* What is not set is FreeBSD's. */
	KUNIT_EXPECT_EQ(test, spm_tunables.cow_size, SPM_COW_4K);
}

/* Is page @n one of the neighbours that a fault on @page may map? */
static bool in_window(int n, int page, int window, int lo, int hi)
{
	return lo <= n && n < hi && abs(n - page) <= window;
}

/*
 * The window is an interval around the page, so it is known from its ends: they
 * belong to it, and what lies beyond does not.
 */
static bool check_window(struct kunit *test, int page, int window, int lo,
			 int hi)
{
	unsigned int first, end;

	spm_policy_prefault(page, window, lo, hi, &first, &end);
	if (first <= page && page < end && end <= FULL &&
	    in_window(first, page, window, lo, hi) &&
	    !in_window((int)first - 1, page, window, lo, hi) &&
	    in_window(end - 1, page, window, lo, hi) &&
	    !in_window(end, page, window, lo, hi))
		return true;
	KUNIT_FAIL(test, "page %d window %d in [%d, %d): [%u, %u)", page,
		   window, lo, hi, first, end);
	return false;
}

/* One page and window; bounds of the mapping at and around all that counts. */
static bool check_bounds(struct kunit *test, int page, int window)
{
	const int lo[] = { 0, page - window - 1, page - window,
			   page - window + 1, page - 1, page };
	const int hi[] = { page + 1, page + 2, page + window,
			   page + window + 1, page + window + 2, FULL };
	int i, k;

	for (i = 0; i < ARRAY_SIZE(lo); i++)
		for (k = 0; k < ARRAY_SIZE(hi); k++)
			if (!check_window(test, page, window,
					  clamp(lo[i], 0, page),
					  clamp(hi[k], page + 1, (int)FULL)))
				return false;
	return true;
}

static void prefault_all(struct kunit *test)
{
	int page, window;

	for (page = 0; page < FULL; page++) {
		for (window = 0; window <= SPM_PREFAULT_MAX; window++)
			if (!check_bounds(test, page, window))
				return;
		cond_resched();
	}
}

/* grain of dirty state */

static void tunable_all(struct kunit *test)
{
	static const unsigned int values[] = { 0, 1, 64, 511, 512, ~0U - 1 };
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		KUNIT_EXPECT_EQ(test, spm_policy_tunable(SPM_TUNABLE_INHERIT,
							 values[i]), values[i]);
		/* 0 is a setting as any other. */
		for (k = 0; k < ARRAY_SIZE(values); k++)
			KUNIT_EXPECT_EQ(test, spm_policy_tunable(values[i],
								 values[k]),
					values[i]);
	}
}

/* Either the administrator's threshold, or that no dirty peer is needed. */
static void dirty_threshold_all(struct kunit *test)
{
	static const u8 patience[] = { 0, 1, SPM_GRAIN_PATIENCE, 255 };
	unsigned int coarse, i, t;

	for (coarse = 0; coarse <= U8_MAX; coarse++) {
		for (i = 0; i < ARRAY_SIZE(patience) * FULL; i++) {
			const struct spm_grain_state s = {
				.coarse = coarse,
				.patience = patience[i / FULL],
			};

			t = i % FULL;
			if (spm_policy_dirty_threshold(SPM_GRAIN_4K, s, t) == t &&
			    !spm_policy_dirty_threshold(SPM_GRAIN_2M, s, t) &&
			    spm_policy_dirty_threshold(SPM_GRAIN_AUTO, s, t) ==
				    (coarse ? 0 : t))
				continue;
			KUNIT_FAIL(test, "coarse %u patience %u threshold %u",
				   coarse, s.patience, t);
			return;
		}
		cond_resched();
	}
}

/*
 * While the slot is coarse, @ndirty says nothing, and the time only passes.
 * After a fine interval, it is the judgement.
 */
static bool grain_is_right(struct spm_grain_state was, unsigned int ndirty,
			   struct spm_grain_state is)
{
	if (was.coarse)
		return is.coarse == was.coarse - 1 && is.patience == was.patience;
	if (ndirty <= FULL / 8)
		return !is.coarse && !is.patience;
	return is.coarse == is.patience && is.coarse >= 1 && is.coarse <= 64 &&
	       is.patience == clamp(2 * was.patience, 1, 64);
}

static void grain_all(struct kunit *test)
{
	unsigned int state, n;

	for (state = 0; state <= U16_MAX; state++) {
		const struct spm_grain_state was = {
			.coarse = state >> 8,
			.patience = state & U8_MAX,
		};

		for (n = 0; n <= FULL; n++) {
			if (likely(grain_is_right(was, n,
						  spm_policy_grain(was, n))))
				continue;
			KUNIT_FAIL(test, "coarse %u patience %u, %u dirty",
				   was.coarse, was.patience, n);
			return;
		}
		cond_resched();
	}
}

/* What a slot begins with: one coarse interval. */
static const struct spm_grain_state grain_new = { .coarse = 1, .patience = 1 };

/* Clears until stores make single pages dirty again, @ndirty each time. */
static unsigned int until_fine(struct spm_grain_state *s, unsigned int ndirty)
{
	unsigned int n = 0;

	do {
		*s = spm_policy_grain(*s, ndirty);
		n++;
	} while (s->coarse && n < 1000);
	return n;
}

/* A dense slot is looked at ever more seldom. */
static void grain_of_a_dense_slot(struct kunit *test)
{
	struct spm_grain_state s = grain_new;
	unsigned int i, fine = 0;

	KUNIT_EXPECT_EQ(test, until_fine(&s, FULL), 1);
	/* The fine interval, and the coarse ones after it. */
	for (i = 1; i < 10; i++)
		KUNIT_EXPECT_EQ(test, until_fine(&s, FULL),
				min(1U << i, 64U) + 1);
	for (i = 0; i < 64 * 100; i++) {
		fine += !s.coarse;
		s = spm_policy_grain(s, FULL / 8 + 1);
	}
	KUNIT_EXPECT_LE(test, fine, 100);
}

/* A sparse one stays fine, and is coarse at once when it no longer is. */
static void grain_of_a_sparse_slot(struct kunit *test)
{
	struct spm_grain_state s = grain_new;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, until_fine(&s, FULL), 1);
	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, until_fine(&s, i % (FULL / 8 + 1)), 1);
	s = spm_policy_grain(s, FULL);
	/* What was learnt long ago is forgotten. */
	KUNIT_EXPECT_EQ(test, s.coarse, 1);
	KUNIT_EXPECT_EQ(test, until_fine(&s, FULL), 1);
}

/*
 * However the number of dirty pages changes: an interval in which a store
 * demotes is a fine one, between two clears; and each that was found dense costs
 * at least one coarse interval after it.
 */
static void grain_of_any_slot(struct kunit *test)
{
	struct spm_grain_state s = grain_new;
	unsigned int i, dense = 0, coarse = 0;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 4711);
	for (i = 0; i < 100000; i++) {
		unsigned int n = 1 + prandom_u32_state(&rnd) % FULL;

		/* Mostly few, for a while. */
		if (i / 64 % 2)
			n = n % 70 + 1;
		if (s.coarse)
			coarse++;
		else
			dense += n > FULL / 8;
		s = spm_policy_grain(s, n);
	}
	KUNIT_EXPECT_GT(test, dense, 100);
	KUNIT_EXPECT_GE(test, coarse, dense);
}

/* whose accessed bit is cleared */

/* Slots that follow each other by @step use all pages about equally often. */
static void expect_spread(struct kunit *test, u16 *seen, unsigned long step)
{
	unsigned long i;
	unsigned int n;

	memset(seen, 0, FULL * sizeof(*seen));
	for (i = 0; i < 64 * FULL; i++) {
		n = spm_policy_accessed_page(i * step);
		KUNIT_ASSERT_LT(test, n, FULL);
		seen[n]++;
	}
	for (n = 0; n < FULL; n++)
		if (seen[n] < 32 || seen[n] > 128) {
			KUNIT_FAIL(test, "step %lu: page %u for %u slots of %u",
				   step, n, seen[n], 64 * FULL);
			return;
		}
}

static void accessed_page_spreads(struct kunit *test)
{
	static const unsigned long steps[] = {
		1, 2, 3, 8, 64, 512, 513, 4096, 1UL << 18,
	};
	u16 *seen = kunit_kcalloc(test, FULL, sizeof(*seen), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		expect_spread(test, seen, steps[i]);
		cond_resched();
	}
	KUNIT_EXPECT_LT(test, spm_policy_accessed_page(ULONG_MAX), FULL);
}

/* The same page each time: else whole scans would not be the only sure ones. */
static void accessed_page_is_constant(struct kunit *test)
{
	unsigned long slot;
	unsigned int moves = 0;

	for (slot = 0; slot < 1000; slot++) {
		unsigned int n = spm_policy_accessed_page(slot);

		KUNIT_EXPECT_EQ(test, spm_policy_accessed_page(slot), n);
		/* Neighbours are not met in one place. */
		moves += n != spm_policy_accessed_page(slot + 1);
	}
	KUNIT_EXPECT_EQ(test, moves, 1000);
}

static struct kunit_case policy_cases[] = {
	KUNIT_CASE_SLOW(entry_over_facts),
	KUNIT_CASE_SLOW(entry_over_thresholds),
	KUNIT_CASE(entry_examples),
	KUNIT_CASE_SLOW(fill_all),
	KUNIT_CASE_SLOW(cow_slot_all),
	KUNIT_CASE_SLOW(prefault_all),
	KUNIT_CASE(tunable_all),
	KUNIT_CASE_SLOW(dirty_threshold_all),
	KUNIT_CASE_SLOW(grain_all),
	KUNIT_CASE(grain_of_a_dense_slot),
	KUNIT_CASE(grain_of_a_sparse_slot),
	KUNIT_CASE(grain_of_any_slot),
	KUNIT_CASE(accessed_page_spreads),
	KUNIT_CASE(accessed_page_is_constant),
	{}
};

static struct kunit_suite policy_suite = {
	.name = "superpmap_policy",
	.test_cases = policy_cases,
};

kunit_test_suite(policy_suite);
