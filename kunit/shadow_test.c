// SPDX-License-Identifier: GPL-2.0
/*
 * The shadow of a pmap: every change of state, without page tables.  What a PMD
 * holds is made up.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "pmap.h"
#include "support.h"

static const struct spm_owner *owner(struct kunit *test)
{
	struct spm_test_object *t = test->priv;

	return &t->obj->owner;
}

static void init_pmap(struct kunit *test, struct spm_pmap *pm)
{
	struct spm_test_object *t = test->priv;

	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
	spm_pmap_init(pm, owner(test), &t->base.rmap, current->mm);
}

static pmd_t pmd_of(enum spm_pmd_state state)
{
	const pmdval_t leaf = _PAGE_PRESENT | _PAGE_USER | _PAGE_ACCESSED |
			      _PAGE_PSE;

	switch (state) {
	case SPM_PMD_TABLE:
		return __pmd(_PAGE_TABLE);
	case SPM_PMD_2M_RO:
		return __pmd(leaf);
	case SPM_PMD_2M_RW:
		return __pmd(leaf | _PAGE_RW | _PAGE_DIRTY);
	default:
		return __pmd(0);
	}
}

static enum spm_pmd_state observe(struct spm_pmap *pm, pgoff_t slot,
				  enum spm_pmd_state is)
{
	pmd_t pmd = pmd_of(is);
	struct spm_place pl = { .pmd = &pmd, .slot = slot };

	return spm_pmap_observe(pm, &pl);
}

/*
 * Bring the shadow to a state by what it may learn from page tables; a state of
 * 4 KB entries it learns when a superpage turns out to be gone.
 */
static void set_shadow(struct kunit *test, struct spm_pmap *pm, pgoff_t slot,
		       enum spm_pmd_state state)
{
	pm->inexact = true;
	KUNIT_ASSERT_EQ(test, spm_pmap_prepare(pm, slot), 0);
	spm_pmap_forget(pm, slot);
	if (state != SPM_PMD_NONE) {
		observe(pm, slot, SPM_PMD_2M_RW);
		if (state != SPM_PMD_2M_RW)
			observe(pm, slot, SPM_PMD_TABLE);
		if (state == SPM_PMD_2M_RO)
			observe(pm, slot, SPM_PMD_2M_RO);
	}
	KUNIT_ASSERT_EQ(test, spm_pmap_shadow(pm, slot), state);
}

static long stat(struct kunit *test, enum spm_stat s)
{
	return spm_stat_read(owner(test)->counters, s);
}

static void empty_shadow(struct kunit *test)
{
	struct spm_test_object *t = test->priv;
	struct spm_pmap pm;

	init_pmap(test, &pm);
	KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&pm, 0), SPM_PMD_NONE);
	KUNIT_EXPECT_EQ(test, spm_pmap_live(&pm), 0);
	KUNIT_EXPECT_EQ(test, spm_pmap_prepare(&pm, 7), 0);
	KUNIT_EXPECT_EQ(test, spm_pmap_prepare(&pm, 7), 0);
	KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&pm, 7), SPM_PMD_NONE);
	EXPECT_STAT(test, owner(test)->counters, maps, 1);
	spm_pmap_destroy(&pm);
	EXPECT_STAT(test, owner(test)->counters, maps, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&t->base.rmap.pmaps));
	KUNIT_EXPECT_EQ(test, t->base.rmap.npmaps, 0);
}

/* Preparing again must not throw away what is known. */
static void prepare_keeps_the_state(struct kunit *test)
{
	struct spm_pmap pm;

	init_pmap(test, &pm);
	set_shadow(test, &pm, 3, SPM_PMD_2M_RO);
	KUNIT_EXPECT_EQ(test, spm_pmap_prepare(&pm, 3), 0);
	KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&pm, 3), SPM_PMD_2M_RO);
	spm_pmap_destroy(&pm);
}

/*
 * All that was believed against all that is found.  A superpage that is gone is
 * a removal, an unknown one a mapping; in all else the shadow stays, because it
 * may be above the truth.
 */
static void observe_all(struct kunit *test)
{
	enum spm_pmd_state was, is;
	struct spm_pmap pm;

	init_pmap(test, &pm);
	for (was = SPM_PMD_NONE; was <= SPM_PMD_2M_RW; was++)
		for (is = SPM_PMD_NONE; is <= SPM_PMD_2M_RW; is++) {
			bool lost = spm_pmd_is_2m(was) && !spm_pmd_is_2m(is);
			bool found = !spm_pmd_is_2m(was) && spm_pmd_is_2m(is);
			long removals, mappings;

			set_shadow(test, &pm, 5, was);
			removals = stat(test, SPM_STAT_removals);
			mappings = stat(test, SPM_STAT_mappings);
			KUNIT_EXPECT_EQ(test, observe(&pm, 5, is), is);
			KUNIT_EXPECT_EQ_MSG(test, spm_pmap_shadow(&pm, 5),
					    lost || found ? is : was,
					    "was %d is %d", was, is);
			KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_removals),
					removals + lost);
			KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_mappings),
					mappings + found);
			KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_live),
					spm_pmd_is_2m(is));
			KUNIT_EXPECT_EQ(test, spm_pmap_live(&pm),
					spm_pmd_is_2m(is));
		}
	spm_pmap_destroy(&pm);
}

/* Where nothing was lost, an unknown superpage is a bug, and is said. */
static void observe_unknown_superpage(struct kunit *test)
{
	struct spm_pmap pm;

	if (!IS_ENABLED(CONFIG_DEBUG_VM))
		kunit_skip(test, "CONFIG_DEBUG_VM is off");
	init_pmap(test, &pm);
	KUNIT_ASSERT_EQ(test, spm_pmap_prepare(&pm, 0), 0);
	kunit_warning_suppress(test) {
		observe(&pm, 0, SPM_PMD_2M_RO);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	spm_pmap_destroy(&pm);
}

static void forget_counts_superpages(struct kunit *test)
{
	enum spm_pmd_state s;
	struct spm_pmap pm;

	init_pmap(test, &pm);
	for (s = SPM_PMD_NONE; s <= SPM_PMD_2M_RW; s++) {
		long removals;

		set_shadow(test, &pm, 1, s);
		removals = stat(test, SPM_STAT_removals);
		spm_pmap_forget(&pm, 1);
		KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&pm, 1), SPM_PMD_NONE);
		KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_removals),
				removals + spm_pmd_is_2m(s));
		KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_live), 0);
	}
	/* A slot that it never heard of. */
	spm_pmap_forget(&pm, 99);
	KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&pm, 99), SPM_PMD_NONE);
	spm_pmap_destroy(&pm);
}

/* mremap: superpages move whole; of 4 KB entries some may stay behind. */
static void move_all(struct kunit *test)
{
	struct spm_pmap from, to;
	enum spm_pmd_state s;
	int whole;

	init_pmap(test, &from);
	init_pmap(test, &to);
	for (s = SPM_PMD_NONE; s <= SPM_PMD_2M_RW; s++)
		for (whole = 0; whole <= 1; whole++) {
			bool stays = s == SPM_PMD_TABLE && !whole;

			spm_pmap_forget(&to, 2);
			set_shadow(test, &from, 2, s);
			KUNIT_EXPECT_EQ(test, spm_pmap_move(&to, &from, 2, whole),
					0);
			KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&to, 2), s);
			KUNIT_EXPECT_EQ(test, spm_pmap_shadow(&from, 2),
					stays ? s : SPM_PMD_NONE);
			KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_live),
					spm_pmd_is_2m(s));
		}
	spm_pmap_destroy(&from);
	spm_pmap_destroy(&to);
}

/* What is left when a mapping goes is a removal each. */
static void destroy_counts_what_is_left(struct kunit *test)
{
	struct spm_pmap pm;
	long removals;

	init_pmap(test, &pm);
	set_shadow(test, &pm, 0, SPM_PMD_2M_RO);
	set_shadow(test, &pm, 1, SPM_PMD_TABLE);
	set_shadow(test, &pm, 1000, SPM_PMD_2M_RW);
	KUNIT_EXPECT_EQ(test, spm_pmap_live(&pm), 2);
	removals = stat(test, SPM_STAT_removals);
	spm_pmap_destroy(&pm);
	KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_removals), removals + 2);
	KUNIT_EXPECT_EQ(test, stat(test, SPM_STAT_live), 0);
}

static struct kunit_case shadow_cases[] = {
	KUNIT_CASE(empty_shadow),
	KUNIT_CASE(prepare_keeps_the_state),
	KUNIT_CASE(observe_all),
	KUNIT_CASE(observe_unknown_superpage),
	KUNIT_CASE(forget_counts_superpages),
	KUNIT_CASE(move_all),
	KUNIT_CASE(destroy_counts_what_is_left),
	{}
};

static struct kunit_suite shadow_suite = {
	.name = "superpmap_shadow",
	.init = spm_test_object_init,
	.exit = spm_test_object_exit,
	.test_cases = shadow_cases,
};

kunit_test_suite(shadow_suite);
