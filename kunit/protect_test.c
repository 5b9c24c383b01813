// SPDX-License-Identifier: GPL-2.0
/*
 * Whose page an entry maps: a page of a backing object is never writable, and
 * a write protection reaches every entry of a reservation, at both sizes.
 *
 * By real faults in shared and private mappings; EXPECT_SLOT fails on every
 * entry that is writable without right.
 */
#include <kunit/static_stub.h>
#include <linux/highmem.h>
#include <linux/mm.h>

#include "family.h"
#include "testmm.h"

#define FULL SPM_SLOT_PAGES
#define LAST (SPM_SLOT_PAGES - 1)

static long faults(struct kunit *test)
{
	struct spm_test_mm *t = test->priv;
	long now = spm_stat_read(spm_test_counters(test), SPM_STAT_vm_faults);
	long n = now - t->faults;

	t->faults = now;
	return n;
}

/* Entries of a slot whose hardware dirty bit is set, as pages. */
static unsigned int dirty_entries(unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	unsigned int i, n = 0;
	pmd_t *pmd;
	pte_t *pte;

	mmap_read_lock(mm);
	pmd = spm_pt_pmd(mm, addr);
	if (pmd && pmd_trans_huge(*pmd)) {
		n = pmd_dirty(*pmd) ? FULL : 0;
	} else if (pmd && !pmd_none(*pmd)) {
		pte = pte_offset_kernel(pmd, addr);
		for (i = 0; i < FULL; i++)
			n += pte_present(pte[i]) && pte_dirty(pte[i]);
	}
	mmap_read_unlock(mm);
	return n;
}

/* Write-protect what a mapping shows in a slot, wherever that is mapped. */
static void remove_write(struct kunit *test, unsigned long addr)
{
	struct spm_test_mm *t = test->priv;
	struct spm_test_at at;

	if (!spm_test_lock(&at, test, addr))
		return;
	spm_rmap_remove_write(&t->region->rmap, at.slot->reserv);
	spm_test_unlock(&at);
}

static enum spm_pmd_state shadow_of(struct kunit *test, unsigned long addr)
{
	return spm_test_look(test, __LINE__, addr).shadow;
}

/* As EXPECT_SLOT, for a case with a mapping that no whole slot fits into. */
static void expect_view(struct kunit *test, int line, unsigned long addr,
			enum spm_pmd_state state, unsigned int writable)
{
	struct spm_test_view v = spm_test_look(test, line, addr);

	KUNIT_EXPECT_EQ_MSG(test, v.state, state, "line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, v.present, FULL, "line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, v.writable, writable, "line %d", line);
}

/* a side of the region, as a snapshot has it */

static struct spm_object *freeze(struct kunit *test, struct spm_test_base *base)
{
	struct spm_test_mm *t = test->priv;
	struct spm_object *obj = t->region->object, *side;

	spm_test_base_init(test, base, 4711);
	side = spm_test_base_object(base, obj->family, NULL);
	KUNIT_ASSERT_NOT_NULL(test, side);
	KUNIT_EXPECT_EQ(test, spm_cow_shadow(obj, side, SPM_FREEZE_SNAPSHOT), 0);
	return side;
}

static void unfreeze(struct kunit *test, struct spm_test_base *base,
		     struct spm_object *side)
{
	spm_object_put(side);
	spm_test_base_exit(test, base);
}

/* the owner rule */

static void backing_pages_are_read_only(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, 10);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 10, 10);
	/* Dirty, in a mapping that allows stores; but not its own. */
	spm_test_check_data(test, p, 0, 10);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, 10, 0);
	spm_test_write(test, p, 3, 5);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, 10, 2);
	EXPECT_STAT(test, c, cow_faults, 2);
	EXPECT_STAT(test, c, cow_copied, 2);
	EXPECT_STAT(test, c, pages, 12);
	/* A store right away: one fault. */
	faults(test);
	spm_test_write(test, p, LAST, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, 11, 3);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 10, 10);
	KUNIT_EXPECT_EQ(test, spm_test_load(a, LAST), 0);
	spm_test_mm_finish(test);
	EXPECT_STAT(test, c, objects, 1);
	EXPECT_STAT(test, c, links, 0);
}

/* Neighbours of both kinds around a fault. */
static void prefault_minds_the_owner(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);
	struct spm_test_mm *t = test->priv;

	spm_test_write(test, a, 0, 20);
	spm_test_write(test, p, 8, 12);
	unmap_mapping_pages(t->region->inode->i_mapping, 0, FULL, false);
	WRITE_ONCE(spm_tunables.prefault_pages, 6);
	spm_test_read(test, p, 9, 10);
	/* 3..15, of which 8..11 are its own. */
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, 13, 4);
	EXPECT_STAT(test, c, prefaulted, 12);
	spm_test_read(test, a, 9, 10);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 13, 13);
	spm_test_mm_finish(test);
}

static void backing_superpage_is_read_only(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	faults(test);
	spm_test_check_data(test, p, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RO, FULL, 0);
	KUNIT_EXPECT_EQ(test, shadow_of(test, p), SPM_PMD_2M_RO);
	/* A store: one page of 512, all others stay mapped. */
	spm_test_write(test, p, 77, 78);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 1);
	EXPECT_STAT(test, c, demotions_cow, 1);
	EXPECT_STAT(test, c, cow_copied, 1);
	spm_test_check_data(test, p, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	/* The other mapping does not notice. */
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

/* A private mapping that copied all of a slot has a superpage of its own. */
static void own_superpage_is_writable(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	spm_test_write(test, p, 0, FULL);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, cow_copied, FULL);
	EXPECT_STAT(test, c, pages, 2 * FULL);
	spm_test_mm_finish(test);
	EXPECT_STAT(test, c, pages, FULL);
}

/* The guards on the functions that all entries go through. */
static void entering_refuses_what_is_not_owned(struct kunit *test)
{
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);
	struct spm_test_mm *t = test->priv;
	struct spm_reserv *rv;
	struct spm_test_at at;

	spm_test_write(test, a, 0, FULL);
	/* For the PMD page to exist. */
	spm_test_read(test, p, 0, 1);
	unmap_mapping_pages(t->region->inode->i_mapping, 0, FULL, false);
	if (!spm_test_lock(&at, test, p))
		return;
	rv = spm_test_reserv(t->region->object, 0);
	kunit_warning_suppress(test) {
		spm_pmap_observe(at.pm, &at.pl);
		KUNIT_EXPECT_EQ(test,
				spm_pmap_enter_2m(at.pm, &at.pl, rv, true,
						  SPM_PROMOTE_FAULT),
				VM_FAULT_SIGBUS);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_EQ(test, spm_pmap_enter_2m(at.pm, &at.pl, rv, false,
						SPM_PROMOTE_FAULT),
			VM_FAULT_NOPAGE);
	/* Not in its own mapping either, by a demotion. */
	KUNIT_EXPECT_TRUE(test, spm_pmap_demote(at.pm, &at.pl, rv,
						SPM_DEMOTE_ADVISE));
	spm_test_unlock(&at);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 0);
	if (!spm_test_lock(&at, test, p))
		return;
	KUNIT_EXPECT_EQ(test, spm_pmap_enter_4k(at.pm, &at.pl, rv, 5),
			VM_FAULT_NOPAGE);
	spm_test_unlock(&at);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 0);
	spm_test_mm_finish(test);
}

/* Requests, too: a superpage that shows through is made read-only. */
static void advice_minds_the_owner(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, p, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, cow_copied, 0);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, p, PMD_SIZE,
					      SPM_ADV_DEMOTE), 0);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 0);
	/* Mixed: the missing pages are copied, and then it is its own. */
	spm_test_write(test, p, 9, 10);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 1);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, p, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, cow_copied, FULL);
	spm_test_check_data(test, p, 0, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	/* Discarded by it: zeros here, and nothing is lost there. */
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, p, PMD_SIZE,
					      SPM_ADV_DISCARD), 0);
	EXPECT_NOTHING(test, p);
	KUNIT_EXPECT_EQ(test, spm_test_load(p, 9), 0);
	spm_test_check_data(test, a, 0, FULL);
	spm_test_mm_finish(test);
}

/* how much is copied */

/* What a store to one page costs, and what it gets. */
static void cow_size_of_a_slot(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	spm_test_read(test, p, 0, 1);
	WRITE_ONCE(spm_tunables.cow_size, SPM_COW_2M);
	faults(test);
	spm_test_write(test, p, 300, 301);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_STAT(test, c, cow_copied, FULL);
	EXPECT_STAT(test, c, cow_faults, 1);
	EXPECT_STAT(test, c, demotions, 0);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_check_data(test, p, 0, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

/* Pages that nobody holds are not copied, and stay zeros. */
static void cow_size_of_a_slot_with_holes(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);
	unsigned int i, wrong = 0;

	spm_test_write(test, a, 100, 200);
	WRITE_ONCE(spm_tunables.cow_size, SPM_COW_2M);
	spm_test_write(test, p, 150, 151);
	EXPECT_STAT(test, c, cow_copied, 100);
	spm_test_check_data(test, p, 100, 200);
	for (i = 0; i < FULL; i++)
		if (i < 100 || i >= 200)
			wrong += spm_test_load(p, i) != 0;
	KUNIT_EXPECT_EQ(test, wrong, 0);
	/* They are its own now: what is stored there later is not seen. */
	spm_test_write(test, a, 0, 3);
	KUNIT_EXPECT_EQ(test, spm_test_load(p, 2), 0);
	spm_test_mm_finish(test);
}

/* Stores one after the other: the rest at once as soon as that is plain. */
static void cow_size_auto_follows_a_sequence(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 2, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 2);
	unsigned int i;

	spm_test_write(test, a, 0, 2 * FULL);
	WRITE_ONCE(spm_tunables.cow_size, SPM_COW_AUTO);
	spm_test_write(test, p, 10, 10 + SPM_COW_RUN);
	EXPECT_STAT(test, c, cow_copied, SPM_COW_RUN);
	spm_test_write(test, p, 10 + SPM_COW_RUN, 11 + SPM_COW_RUN);
	EXPECT_STAT(test, c, cow_copied, FULL);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RW, FULL, FULL);
	/* No two neighbours: when half of it is there. */
	for (i = FULL; i < 2 * FULL; i += 2)
		spm_test_write(test, p, i, i + 1);
	EXPECT_STAT(test, c, cow_copied, FULL + FULL / 2);
	spm_test_write(test, p, FULL + LAST, 2 * FULL);
	EXPECT_STAT(test, c, cow_copied, 2 * FULL);
	spm_test_check_data(test, p, 0, 2 * FULL);
	spm_test_mm_finish(test);
}

/* when it fails */

static vm_fault_t no_table_once(const struct spm_place *pl, unsigned int i,
				struct page *page, bool write)
{
	kunit_deactivate_static_stub(kunit_get_current_test(),
				     spm_pt_insert_4k);
	return VM_FAULT_OOM;
}

/* The demotion is aborted; the store goes on all the same. */
static void abort_of_cow_demotion_goes_on(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	spm_test_read(test, p, 0, 1);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RO, FULL, 0);
	kunit_activate_static_stub(test, spm_pt_insert_4k, no_table_once);
	spm_test_write(test, p, 8, 9);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, 1, 1);
	EXPECT_STAT(test, c, demote_aborts, 1);
	EXPECT_STAT(test, c, demotions, 0);
	spm_test_check_data(test, p, 0, FULL);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 1);
	spm_test_mm_finish(test);
}

/* No memory for the copy: as if the store had not been. */
static void store_without_memory_leaves_entries(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	spm_test_read(test, p, 0, 1);
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_page);
	KUNIT_EXPECT_EQ(test, spm_test_store(p, 8), -EFAULT);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, pages, FULL);
	EXPECT_STAT(test, c, cow_copied, 0);
	EXPECT_STAT(test, c, demotions, 0);
	/* The whole slot, and there is memory for one page only. */
	WRITE_ONCE(spm_tunables.cow_size, SPM_COW_2M);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	spm_test_folios = 1;
	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_folios_left);
	spm_test_write(test, p, 8, 9);
	kunit_deactivate_static_stub(test, spm_folio_alloc);
	EXPECT_STAT(test, c, cow_copied, 1);
	EXPECT_STAT(test, c, pages, FULL + 1);
	spm_test_check_data(test, p, 0, FULL);
	spm_test_check_data(test, a, 0, FULL);
	spm_test_mm_finish(test);
}

/* remove write */

static void remove_write_4k(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_write(test, a, 0, 8);
	spm_test_write(test, a, LAST, FULL);
	spm_test_read(test, a, 8, 11);
	spm_test_write(test, b, 4, 6);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 12, 9);
	EXPECT_SLOT(test, b, SPM_PMD_TABLE, 2, 2);
	KUNIT_EXPECT_EQ(test, dirty_entries(a), 9);
	remove_write(test, a);
	/* Read-only and clean; none is gone, and the record of dirt stays. */
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 12, 0);
	EXPECT_SLOT(test, b, SPM_PMD_TABLE, 2, 0);
	KUNIT_EXPECT_EQ(test, dirty_entries(a), 0);
	KUNIT_EXPECT_EQ(test, dirty_entries(b), 0);
	EXPECT_STAT(test, c, dirty, 9);
	faults(test);
	spm_test_check_data(test, a, 0, 8);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	spm_test_write(test, a, 0, 1);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 12, 1);
	spm_test_mm_finish(test);
}

static void remove_write_2m(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 2, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long ro = spm_test_map(test, 1, PROT_READ);
	unsigned long tables;

	spm_test_write(test, a, 0, FULL);
	spm_test_write(test, a + PMD_SIZE, 0, FULL);
	spm_test_read(test, b, 0, 1);
	spm_test_read(test, ro, 0, 1);
	tables = mm_pgtables_bytes(current->mm);
	EXPECT_STAT(test, c, live, 4);
	remove_write(test, a);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_SLOT(test, b, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_SLOT(test, ro, SPM_PMD_2M_RO, FULL, 0);
	KUNIT_EXPECT_EQ(test, shadow_of(test, a), SPM_PMD_2M_RO);
	KUNIT_EXPECT_EQ(test, shadow_of(test, b), SPM_PMD_2M_RO);
	KUNIT_EXPECT_EQ(test, dirty_entries(a), 0);
	KUNIT_EXPECT_EQ(test, dirty_entries(b), 0);
	/* The next slot is none of its business. */
	EXPECT_SLOT(test, a + PMD_SIZE, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, live, 4);
	EXPECT_STAT(test, c, demotions, 0);
	EXPECT_STAT(test, c, removals, 0);
	EXPECT_STAT(test, c, dirty, 2 * FULL);
	KUNIT_EXPECT_EQ(test, mm_pgtables_bytes(current->mm), tables);
	faults(test);
	spm_test_check_data(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	/* One fault, and it is as before. */
	spm_test_write(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_STAT(test, c, upgrades, 1);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_SLOT(test, b, SPM_PMD_2M_RO, FULL, 0);
	spm_test_mm_finish(test);
}

/* One slot mapped at both sizes, and one page off. */
static void remove_write_at_all_sizes_at_once(struct kunit *test)
{
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long m = spm_test_map(test, 3, SPM_TEST_RW);
	unsigned long shifted = m + PMD_SIZE + PAGE_SIZE;

	spm_test_map_at(test, shifted, PMD_SIZE, SPM_TEST_RW, 0);
	spm_test_write(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, b, PMD_SIZE,
					      SPM_ADV_PREFAULT), 0);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, b, PMD_SIZE,
					      SPM_ADV_DEMOTE), 0);
	spm_test_write(test, shifted, 0, FULL);
	expect_view(test, __LINE__, a, SPM_PMD_2M_RW, FULL);
	expect_view(test, __LINE__, b, SPM_PMD_TABLE, FULL);
	KUNIT_EXPECT_EQ(test, dirty_entries(m + PMD_SIZE), LAST);
	KUNIT_EXPECT_EQ(test, dirty_entries(m + 2 * PMD_SIZE), 1);
	remove_write(test, a);
	expect_view(test, __LINE__, a, SPM_PMD_2M_RO, 0);
	expect_view(test, __LINE__, b, SPM_PMD_TABLE, 0);
	KUNIT_EXPECT_EQ(test, dirty_entries(m + PMD_SIZE), 0);
	KUNIT_EXPECT_EQ(test, dirty_entries(m + 2 * PMD_SIZE), 0);
	spm_test_check_data(test, shifted, 0, FULL);
	spm_test_mm_finish(test);
}

static void remove_write_of_single_pages(struct kunit *test)
{
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);

	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	spm_test_write(test, a, 0, 5);
	spm_test_write(test, a, 300, FULL);
	spm_test_read(test, a, 10, 20);
	spm_test_write(test, b, 3, 5);
	remove_write(test, a);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 5 + 10 + FULL - 300, 0);
	EXPECT_SLOT(test, b, SPM_PMD_TABLE, 2, 0);
	KUNIT_EXPECT_EQ(test, dirty_entries(a), 0);
	spm_test_write(test, a, 4, 5);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 5 + 10 + FULL - 300, 1);
	spm_test_mm_finish(test);
}

/* Entries of other reservations at the same index keep their rights. */
static void remove_write_minds_the_page(struct kunit *test)
{
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);
	unsigned long q = spm_test_map_private(test, 1);

	spm_test_write(test, a, 0, FULL);
	spm_test_write(test, p, 0, 20);
	spm_test_write(test, q, 0, FULL);
	spm_test_read(test, p, 20, FULL);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 20);
	remove_write(test, a);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 20);
	remove_write(test, p);
	EXPECT_SLOT(test, p, SPM_PMD_TABLE, FULL, 0);
	/*
	 * The shadow of q is lowered with the others', though its entry is not:
	 * see the list of bugs if this fails.
	 */
	EXPECT_SLOT(test, q, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

/* freeze and merge under mappings */

static void freeze_protects_superpages(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	struct spm_test_base base = { };
	struct spm_object *side;

	spm_test_write(test, a, 0, FULL);
	side = freeze(test, &base);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, demotions, 0);
	faults(test);
	spm_test_check_data(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	/* The side goes without anything stored: in place as before. */
	unfreeze(test, &base, side);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, cow_optim, 1);
	faults(test);
	spm_test_write(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, upgrades, 1);
	EXPECT_STAT(test, c, cow_copied, 0);
	spm_test_mm_finish(test);
}

static void merge_under_a_mapping(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 2, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);
	struct spm_test_base base = { };
	struct spm_object *side;

	spm_test_write(test, a, 0, FULL);
	spm_test_write(test, a + PMD_SIZE, 0, FULL);
	spm_test_read(test, b, 0, 1);
	side = freeze(test, &base);
	spm_test_write(test, a, 100, 102);
	/* In the mapping stored to the others stay; the other faults back. */
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, FULL, 2);
	EXPECT_NOTHING(test, b);
	EXPECT_STAT(test, c, demotions_cow, 1);
	EXPECT_SLOT(test, a + PMD_SIZE, SPM_PMD_2M_RO, FULL, 0);
	spm_test_check_data(test, b, 0, FULL);
	EXPECT_SLOT(test, b, SPM_PMD_TABLE, FULL, 2);
	/* Mixed slots lose their entries, others keep theirs. */
	unfreeze(test, &base, side);
	EXPECT_NOTHING(test, a);
	EXPECT_NOTHING(test, b);
	EXPECT_SLOT(test, a + PMD_SIZE, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, cow_optim, 1);
	EXPECT_STAT(test, c, cow_merged, 2);
	EXPECT_STAT(test, c, pages, 2 * FULL);
	spm_test_check_data(test, a, 0, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

/* A store goes on in the copy, and the image keeps what was there. */
static void the_image_stands_still(struct kunit *test)
{
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long p = spm_test_map_private(test, 1);
	struct spm_test_base base = { };
	struct spm_object *side;
	unsigned int i, wrong = 0;
	struct mutex *lock;

	spm_test_write(test, a, 0, FULL);
	spm_test_read(test, p, 0, 1);
	EXPECT_SLOT(test, p, SPM_PMD_2M_RO, FULL, 0);
	side = freeze(test, &base);
	/* The private mapping sees what is stored to the region. */
	for (i = 0; i < FULL; i += 3)
		KUNIT_ASSERT_EQ(test, put_user(0xee, (u8 __user *)a +
					       i * PAGE_SIZE), 0);
	for (i = 0; i < FULL; i++) {
		int want = i % 3 ? spm_test_load(a, i) : 0xee;

		KUNIT_EXPECT_EQ(test, spm_test_load(p, i), want);
	}
	lock = spm_object_find_lock(side, 0);
	mutex_lock(lock);
	for (i = 0; i < FULL; i++) {
		struct spm_reserv *rv = spm_object_page(side, 0, i);
		u8 byte = 0;

		if (rv)
			memcpy_from_page(&byte, spm_reserv_page(rv, i), 0, 1);
		wrong += byte != i % 251 + 1;
	}
	mutex_unlock(lock);
	KUNIT_EXPECT_EQ(test, wrong, 0);
	unfreeze(test, &base, side);
	spm_test_mm_finish(test);
}

static struct kunit_case protect_cases[] = {
	KUNIT_CASE(backing_pages_are_read_only),
	KUNIT_CASE(prefault_minds_the_owner),
	KUNIT_CASE(backing_superpage_is_read_only),
	KUNIT_CASE(own_superpage_is_writable),
	KUNIT_CASE(entering_refuses_what_is_not_owned),
	KUNIT_CASE(advice_minds_the_owner),
	KUNIT_CASE(cow_size_of_a_slot),
	KUNIT_CASE(cow_size_of_a_slot_with_holes),
	KUNIT_CASE(cow_size_auto_follows_a_sequence),
	KUNIT_CASE(abort_of_cow_demotion_goes_on),
	KUNIT_CASE(store_without_memory_leaves_entries),
	KUNIT_CASE(remove_write_4k),
	KUNIT_CASE(remove_write_2m),
	KUNIT_CASE(remove_write_at_all_sizes_at_once),
	KUNIT_CASE(remove_write_of_single_pages),
	KUNIT_CASE(remove_write_minds_the_page),
	KUNIT_CASE(freeze_protects_superpages),
	KUNIT_CASE(merge_under_a_mapping),
	KUNIT_CASE(the_image_stands_still),
	{}
};

static struct kunit_suite protect_suite = {
	.name = "superpmap_protect",
	.suite_init = spm_test_node_init,
	.suite_exit = spm_test_node_exit,
	.init = spm_test_mm_init,
	.exit = spm_test_mm_exit,
	.test_cases = protect_cases,
};

kunit_test_suite(protect_suite);
