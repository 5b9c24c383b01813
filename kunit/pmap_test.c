// SPDX-License-Identifier: GPL-2.0
/*
 * The pmap by real faults: entries of both sizes, promotion in place, upgrade,
 * removal, and the books beside the page tables.
 *
 * Traps that FreeBSD's history knows have a case named after them.
 */
#include <kunit/static_stub.h>
#include <linux/mm.h>

#include "testmm.h"

#define FULL SPM_SLOT_PAGES
#define LAST (SPM_SLOT_PAGES - 1)

/* Faults taken since the last time. */
static long faults(struct kunit *test)
{
	struct spm_test_mm *t = test->priv;
	long now = spm_stat_read(spm_test_counters(test), SPM_STAT_vm_faults);
	long n = now - t->faults;

	t->faults = now;
	return n;
}

static void remove_all(struct kunit *test, unsigned long addr,
		       unsigned int first, unsigned int end)
{
	struct spm_test_mm *t = test->priv;
	struct spm_test_at at;

	if (!spm_test_lock(&at, test, addr))
		return;
	spm_rmap_remove_all(&t->region->rmap, at.slot->index, first, end);
	spm_test_unlock(&at);
}

/* enter, 4 KB */

static void enter_4k_read_then_write(struct kunit *test)
{
	static const unsigned int pages[] = { 0, 7, LAST };
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned int i;

	EXPECT_NOTHING(test, addr);
	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		KUNIT_EXPECT_EQ(test, spm_test_load(addr, pages[i]), 0);
		EXPECT_SLOT(test, addr, SPM_PMD_TABLE, i + 1, i);
		EXPECT_STAT(test, c, dirty, i);
		spm_test_write(test, addr, pages[i], pages[i] + 1);
		EXPECT_SLOT(test, addr, SPM_PMD_TABLE, i + 1, i + 1);
		EXPECT_STAT(test, c, dirty, i + 1);
		spm_test_check_data(test, addr, pages[i], pages[i] + 1);
	}
	EXPECT_STAT(test, c, pages, ARRAY_SIZE(pages));
	EXPECT_STAT(test, c, vm_faults, 2 * ARRAY_SIZE(pages));
	EXPECT_STAT(test, c, enter_4k, 2 * ARRAY_SIZE(pages));
	spm_test_mm_finish(test);
}

/* A store to an address never read before: one fault, writable at once. */
static void enter_4k_write(struct kunit *test)
{
	unsigned long addr = spm_test_map(test, 2, SPM_TEST_RW);

	faults(test);
	spm_test_write(test, addr, LAST, FULL + 1);
	KUNIT_EXPECT_EQ(test, faults(test), 2);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 1, 1);
	EXPECT_SLOT(test, addr + PMD_SIZE, SPM_PMD_TABLE, 1, 1);
	spm_test_mm_finish(test);
}

static void enter_4k_read_only_mapping(struct kunit *test)
{
	unsigned long rw = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long ro = spm_test_map(test, 1, PROT_READ);

	spm_test_write(test, rw, 3, 4);
	spm_test_check_data(test, ro, 3, 4);
	/* The page is dirty, but this mapping is not allowed to write. */
	EXPECT_SLOT(test, ro, SPM_PMD_TABLE, 1, 0);
	KUNIT_EXPECT_EQ(test, spm_test_store(ro, 3), -EFAULT);
	EXPECT_SLOT(test, ro, SPM_PMD_TABLE, 1, 0);
	spm_test_mm_finish(test);
}

static void enter_4k_beyond_the_end(struct kunit *test)
{
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	struct spm_set_size size = {
		.argsz = sizeof(size),
		.size = 5 * PAGE_SIZE,
	};

	KUNIT_ASSERT_EQ(test, spm_test_ioctl(test, SPM_IOC_SET_SIZE, &size,
					     sizeof(size)), 0);
	spm_test_write(test, addr, 4, 5);
	KUNIT_EXPECT_EQ(test, spm_test_store(addr, 5), -EFAULT);
	KUNIT_EXPECT_EQ(test, spm_test_load(addr, LAST), -EFAULT);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 1, 1);
	spm_test_mm_finish(test);
}

/* Neighbours are mapped if they exist, up to the window, writable if dirty. */
static void prefault_maps_neighbours(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_write(test, addr, 10, 20);
	spm_test_read(test, addr, 20, 22);
	remove_all(test, addr, 0, FULL);
	EXPECT_NOTHING(test, addr);
	WRITE_ONCE(spm_tunables.prefault_pages, 4);

	spm_test_read(test, addr, 15, 16);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 9, 9);
	EXPECT_STAT(test, c, prefaulted, 8);
	faults(test);
	spm_test_check_data(test, addr, 11, 20);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	spm_test_read(test, addr, 21, 22);
	/* 10 and 22 are out of reach, 20 and 21 are clean. */
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 11, 9);
	EXPECT_STAT(test, c, pages, 12);
	spm_test_mm_finish(test);
}

/* promotion in place */

static void promote_with_hole(struct kunit *test, unsigned int hole)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long tables;

	spm_test_write(test, addr, 0, hole);
	spm_test_write(test, addr, hole + 1, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, LAST, LAST);
	EXPECT_STAT(test, c, promotions, 0);
	EXPECT_STAT(test, c, p_failures, 0);
	EXPECT_STAT(test, c, reserv_fullpop, 0);
	tables = mm_pgtables_bytes(current->mm);

	spm_test_write(test, addr, hole, hole + 1);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, promotions, 1);
	EXPECT_STAT(test, c, mappings, 0);
	EXPECT_STAT(test, c, vm_faults, FULL);
	EXPECT_STAT(test, c, reserv_fullpop, 1);
	/* The page table is gone, not kept. */
	KUNIT_EXPECT_EQ(test, mm_pgtables_bytes(current->mm),
			tables - PAGE_SIZE);
	faults(test);
	spm_test_check_data(test, addr, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	faults(test);
	spm_test_write(test, addr, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	spm_test_mm_finish(test);
}

static void trap_hole_at_first_page(struct kunit *test)
{
	promote_with_hole(test, 0);
}

static void trap_hole_at_last_page(struct kunit *test)
{
	promote_with_hole(test, LAST);
}

static void promote_hole_inside(struct kunit *test)
{
	promote_with_hole(test, 256);
}

static void promote_read_only(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, PROT_READ);

	spm_test_read(test, addr, 0, LAST);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, LAST, 0);
	spm_test_read(test, addr, LAST, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, promotions, 1);
	EXPECT_STAT(test, c, dirty, 0);
	spm_test_mm_finish(test);
}

/* Loads of a writable mapping: the superpage must not be writable. */
static void promote_clean_writable(struct kunit *test)
{
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_read(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, spm_test_counters(test), dirty, 0);
	spm_test_mm_finish(test);
}

/* Some pages dirty: no read-only superpage over their writable entries. */
static void no_promotion_over_writable(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_write(test, addr, 0, 5);
	spm_test_read(test, addr, 5, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, 5);
	EXPECT_STAT(test, c, p_failures, 1);
	EXPECT_STAT(test, c, promotions, 0);
	/* The store that makes the last page dirty promotes. */
	spm_test_write(test, addr, 5, LAST);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, LAST);
	spm_test_write(test, addr, LAST, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, promotions, 1);
	spm_test_check_data(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

static void no_promotion_when_off(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	WRITE_ONCE(spm_tunables.superpages, false);
	spm_test_write(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, FULL);
	EXPECT_STAT(test, c, p_failures, 0);
	spm_test_mm_finish(test);
}

/* No 2 MB block to be had: 4 KB entries for ever, and no signal. */
static void no_promotion_of_single_pages(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	kunit_activate_static_stub(test, spm_folio_alloc, spm_test_no_block);
	spm_test_write(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, FULL);
	EXPECT_STAT(test, c, loose, FULL);
	EXPECT_STAT(test, c, p_failures, 1);
	EXPECT_STAT(test, c, promotions, 0);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, FULL);
	spm_test_check_data(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

/* The slot is full, but the mapping shows only a part of it, or shifts it. */
static void no_promotion_where_it_does_not_fit(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 3, SPM_TEST_RW);
	unsigned long shifted = addr + PMD_SIZE + PAGE_SIZE;

	/* The whole slot, one page off. */
	spm_test_map_at(test, shifted, PMD_SIZE, SPM_TEST_RW, 0);
	spm_test_write(test, shifted, 0, FULL);
	EXPECT_STAT(test, c, pages, FULL);
	EXPECT_STAT(test, c, promotions, 0);
	EXPECT_STAT(test, c, p_failures, 0);
	EXPECT_STAT(test, c, live, 0);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, shifted, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_STAT(test, c, live, 0);
	spm_test_check_data(test, shifted, 0, FULL);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), FULL);
	/* The same pages by the first mapping, where they fit. */
	spm_test_check_data(test, addr, 0, 1);
	EXPECT_STAT(test, c, mappings, 1);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), 2 * FULL);
	spm_test_mm_finish(test);
}

/* enter, 2 MB */

static void enter_2m_writable(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long other;

	spm_test_write(test, addr, 0, FULL);
	other = spm_test_map(test, 1, SPM_TEST_RW);
	/* All dirty already: one load makes it writable. */
	faults(test);
	spm_test_check_data(test, other, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, other, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, mappings, 1);
	faults(test);
	spm_test_write(test, other, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	spm_test_mm_finish(test);
}

static void enter_2m_read_only(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long ro = spm_test_map(test, 1, PROT_READ);

	spm_test_write(test, addr, 0, FULL);
	faults(test);
	spm_test_check_data(test, ro, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, ro, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, mappings, 1);
	KUNIT_EXPECT_EQ(test, spm_test_store(ro, 0), -EFAULT);
	EXPECT_SLOT(test, ro, SPM_PMD_2M_RO, FULL, 0);
	spm_test_mm_finish(test);
}

/* The guard on the one path that all 2 MB entries take. */
static void enter_2m_refuses_what_is_wrong(struct kunit *test)
{
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	struct spm_test_at at;

	spm_test_write(test, addr, 0, LAST);
	remove_all(test, addr, 0, FULL);
	kunit_warning_suppress(test) {
		if (!spm_test_lock(&at, test, addr))
			return;
		/* Not full. */
		KUNIT_EXPECT_EQ(test, spm_pmap_enter_2m(at.pm, &at.pl,
							at.slot->reserv, false,
							SPM_PROMOTE_FAULT),
				VM_FAULT_SIGBUS);
		/* Full, but not all dirty. */
		KUNIT_EXPECT_GE(test, spm_reserv_populate(at.slot->reserv, LAST,
							  NULL, 0, SPM_POPULATE_FAULT), 0);
		KUNIT_EXPECT_EQ(test, spm_pmap_enter_2m(at.pm, &at.pl,
							at.slot->reserv, true,
							SPM_PROMOTE_FAULT),
				VM_FAULT_SIGBUS);
		/* A place that does not hold the whole slot. */
		at.pl.fits = false;
		KUNIT_EXPECT_EQ(test, spm_pmap_enter_2m(at.pm, &at.pl,
							at.slot->reserv, false,
							SPM_PROMOTE_FAULT),
				VM_FAULT_SIGBUS);
		spm_test_unlock(&at);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 3);
	}
	EXPECT_NOTHING(test, addr);
	EXPECT_STAT(test, spm_test_counters(test), mappings, 0);
	spm_test_mm_finish(test);
}

static void upgrade_in_place(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long tables;

	spm_test_read(test, a, 0, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RO, FULL, 0);
	/* Another mapping makes all pages dirty. */
	KUNIT_ASSERT_EQ(test, spm_test_advise(test, b, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_SLOT(test, b, SPM_PMD_2M_RW, FULL, FULL);
	tables = mm_pgtables_bytes(current->mm);
	faults(test);
	spm_test_write(test, a, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, demotions, 0);
	KUNIT_EXPECT_EQ(test, mm_pgtables_bytes(current->mm), tables);
	KUNIT_EXPECT_GE(test, spm_stat_read(c, SPM_STAT_upgrades), 1);
	spm_test_check_data(test, b, 0, FULL);
	spm_test_mm_finish(test);
}

/* Fewer dirty pages than all are enough if the administrator says so. */
static void dirty_threshold_marks_the_rest(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_read(test, addr, 0, FULL);
	WRITE_ONCE(spm_tunables.dirty_threshold, 0);
	spm_test_write(test, addr, 9, 10);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, dirty, FULL);
	EXPECT_STAT(test, c, upgrades, 1);
	EXPECT_STAT(test, c, demotions, 0);
	spm_test_mm_finish(test);
}

/* At the populate threshold the fault makes the whole slot exist. */
static void populate_threshold_fills(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, PROT_READ);

	WRITE_ONCE(spm_tunables.populate_threshold, 8);
	spm_test_read(test, addr, 0, 7);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 7, 0);
	spm_test_read(test, addr, 7, 8);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RO, FULL, 0);
	EXPECT_STAT(test, c, populated, FULL);
	EXPECT_STAT(test, c, vm_faults, 8);
	spm_test_mm_finish(test);
}

/* when promotion cannot be had */

static bool unsuitable_mm(struct mm_struct *mm)
{
	return false;
}

static bool table_not_empty(const struct spm_place *pl)
{
	return false;
}

static vm_fault_t no_memory_2m(const struct spm_place *pl, struct folio *folio,
			       bool write)
{
	return VM_FAULT_OOM;
}

static void promotion_refused_by_mm(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	kunit_activate_static_stub(test, spm_pt_mm_suitable, unsuitable_mm);
	spm_test_write(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, FULL);
	EXPECT_STAT(test, c, p_failures, 1);
	spm_test_check_data(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

/* Zapped already, and the table has to stay: pages fault back one by one. */
static void promotion_lost_the_race(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_write(test, addr, 0, LAST);
	kunit_activate_static_stub(test, spm_pt_retract, table_not_empty);
	spm_test_write(test, addr, LAST, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 1, 1);
	EXPECT_STAT(test, c, p_failures, 1);
	EXPECT_STAT(test, c, promotions, 0);
	kunit_deactivate_static_stub(test, spm_pt_retract);
	/* The next fault succeeds. */
	spm_test_check_data(test, addr, 0, 1);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, promotions, 1);
	spm_test_check_data(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

static void promotion_without_memory(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_write(test, addr, 0, LAST);
	kunit_activate_static_stub(test, spm_pt_insert_2m, no_memory_2m);
	KUNIT_EXPECT_EQ(test, spm_test_store(addr, LAST), -EFAULT);
	EXPECT_NOTHING(test, addr);
	EXPECT_STAT(test, c, promotions, 0);
	kunit_deactivate_static_stub(test, spm_pt_insert_2m);
	spm_test_write(test, addr, LAST, FULL);
	/* No table is there any more: counted as a mapping. */
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, mappings, 1);
	spm_test_check_data(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

/* remove, observe, mincore */

static void remove_all_4k(struct kunit *test)
{
	unsigned long a = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, PROT_READ);

	spm_test_write(test, a, 0, 8);
	spm_test_read(test, b, 4, 8);
	remove_all(test, a, 5, 6);
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, 7, 7);
	EXPECT_SLOT(test, b, SPM_PMD_TABLE, 3, 0);
	remove_all(test, a, 0, FULL);
	EXPECT_NOTHING(test, a);
	EXPECT_NOTHING(test, b);
	spm_test_check_data(test, b, 0, 8);
	spm_test_check_data(test, a, 0, 8);
	spm_test_mm_finish(test);
}

static void remove_all_2m(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = spm_test_map(test, 2, SPM_TEST_RW);
	unsigned long b = spm_test_map(test, 1, PROT_READ);

	spm_test_write(test, a, 0, FULL);
	spm_test_write(test, a + PMD_SIZE, 0, 3);
	spm_test_read(test, b, 0, 1);
	EXPECT_STAT(test, c, live, 2);
	remove_all(test, a, 0, FULL);
	EXPECT_NOTHING(test, a);
	EXPECT_NOTHING(test, b);
	EXPECT_STAT(test, c, removals, 2);
	EXPECT_STAT(test, c, live, 0);
	/* The next slot is none of its business. */
	EXPECT_SLOT(test, a + PMD_SIZE, SPM_PMD_TABLE, 3, 3);

	/* One page of a superpage: it goes as a whole. */
	spm_test_check_data(test, a, 0, FULL);
	EXPECT_SLOT(test, a, SPM_PMD_2M_RW, FULL, FULL);
	remove_all(test, a, LAST, FULL);
	EXPECT_NOTHING(test, a);
	EXPECT_STAT(test, c, removals, 3);
	spm_test_check_data(test, a, 0, FULL);
	spm_test_mm_finish(test);
}

/* Behind our back: the shadow is an upper bound until the truth is seen. */
static void observe_removal_by_the_kernel(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	struct spm_test_mm *t = test->priv;
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	struct spm_test_view v;

	spm_test_write(test, addr, 0, FULL);
	unmap_mapping_pages(t->region->inode->i_mapping, 0, FULL, false);
	v = spm_test_look(test, __LINE__, addr);
	KUNIT_EXPECT_EQ(test, v.present, 0);
	KUNIT_EXPECT_EQ(test, v.shadow, SPM_PMD_2M_RW);
	EXPECT_STAT(test, c, removals, 0);

	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, removals, 1);
	EXPECT_STAT(test, c, live, 1);
	spm_test_mm_finish(test);
}

static void mincore_at_both_sizes(struct kunit *test)
{
	const u8 mapped = SPM_MINCORE_INCORE | SPM_MINCORE_MAPPED |
			  SPM_MINCORE_REFERENCED;
	const u8 writable = mapped | SPM_MINCORE_MODIFIED |
			    SPM_MINCORE_WRITABLE;
	const u8 huge = SPM_PSIND_2M << SPM_MINCORE_PSIND_SHIFT;
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	u8 *vec = kunit_kzalloc(test, FULL, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, vec);
	spm_test_write(test, addr, 0, 1);
	spm_test_read(test, addr, LAST, FULL);
	spm_test_mincore(test, addr, vec, FULL);
	KUNIT_EXPECT_EQ(test, vec[0], writable);
	KUNIT_EXPECT_EQ(test, vec[1], 0);
	KUNIT_EXPECT_EQ(test, vec[LAST], mapped);
	remove_all(test, addr, 0, FULL);
	spm_test_mincore(test, addr, vec, FULL);
	KUNIT_EXPECT_EQ(test, vec[0], SPM_MINCORE_INCORE | SPM_MINCORE_MODIFIED);
	KUNIT_EXPECT_EQ(test, vec[LAST], SPM_MINCORE_INCORE);

	spm_test_write(test, addr, 0, FULL);
	spm_test_mincore(test, addr, vec, FULL);
	KUNIT_EXPECT_NULL(test, memchr_inv(vec, writable | huge, FULL));
	spm_test_mm_finish(test);
}

/* Whole mappings of both sizes go: the last state of every entry. */
static void unmap_whole(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 3, SPM_TEST_RW);

	spm_test_write(test, addr, 0, FULL);
	spm_test_write(test, addr, FULL, FULL + 3);
	EXPECT_STAT(test, c, live, 1);
	spm_test_unmap(test, addr, PMD_SIZE);
	EXPECT_NOTHING(test, addr);
	EXPECT_STAT(test, c, removals, 1);
	EXPECT_STAT(test, c, demotions, 0);
	EXPECT_SLOT(test, addr + PMD_SIZE, SPM_PMD_TABLE, 3, 3);
	spm_test_mm_finish(test);
	/* The region keeps its pages. */
	EXPECT_STAT(test, c, pages, FULL + 3);
}

/*
 * FreeBSD took a table that was kept for later to be filled, when it was empty
 * or stale.  Enter 2 MB over an empty and over a half filled table, demote, and
 * compare all 512 entries.
 */
static void trap_leftover_page_table(struct kunit *test)
{
	static const unsigned int leftover[] = { 0, 1, 200 };
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);
	struct spm_test_view v;
	unsigned int i;

	spm_test_write(test, addr, 0, FULL);
	for (i = 0; i < ARRAY_SIZE(leftover); i++) {
		WRITE_ONCE(spm_tunables.superpages, false);
		remove_all(test, addr, 0, FULL);
		spm_test_read(test, addr, 0, max(leftover[i], 1U));
		if (!leftover[i])
			remove_all(test, addr, 0, FULL);
		v = spm_test_look(test, __LINE__, addr);
		KUNIT_EXPECT_EQ(test, v.pmd, SPM_PMD_TABLE);
		KUNIT_EXPECT_EQ(test, v.present, leftover[i]);

		WRITE_ONCE(spm_tunables.superpages, true);
		spm_test_check_data(test, addr, LAST, FULL);
		EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
		EXPECT_STAT(test, c, promotions, i + 2);
		KUNIT_EXPECT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_DEMOTE), 0);
		EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, FULL);
		faults(test);
	spm_test_check_data(test, addr, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	}
	spm_test_mm_finish(test);
}

static struct kunit_case pmap_cases[] = {
	KUNIT_CASE(enter_4k_read_then_write),
	KUNIT_CASE(enter_4k_write),
	KUNIT_CASE(enter_4k_read_only_mapping),
	KUNIT_CASE(enter_4k_beyond_the_end),
	KUNIT_CASE(prefault_maps_neighbours),
	KUNIT_CASE(trap_hole_at_first_page),
	KUNIT_CASE(trap_hole_at_last_page),
	KUNIT_CASE(promote_hole_inside),
	KUNIT_CASE(promote_read_only),
	KUNIT_CASE(promote_clean_writable),
	KUNIT_CASE(no_promotion_over_writable),
	KUNIT_CASE(no_promotion_when_off),
	KUNIT_CASE(no_promotion_of_single_pages),
	KUNIT_CASE(no_promotion_where_it_does_not_fit),
	KUNIT_CASE(enter_2m_writable),
	KUNIT_CASE(enter_2m_read_only),
	KUNIT_CASE(enter_2m_refuses_what_is_wrong),
	KUNIT_CASE(upgrade_in_place),
	KUNIT_CASE(dirty_threshold_marks_the_rest),
	KUNIT_CASE(populate_threshold_fills),
	KUNIT_CASE(promotion_refused_by_mm),
	KUNIT_CASE(promotion_lost_the_race),
	KUNIT_CASE(promotion_without_memory),
	KUNIT_CASE(remove_all_4k),
	KUNIT_CASE(remove_all_2m),
	KUNIT_CASE(observe_removal_by_the_kernel),
	KUNIT_CASE(mincore_at_both_sizes),
	KUNIT_CASE(unmap_whole),
	KUNIT_CASE(trap_leftover_page_table),
	{}
};

static struct kunit_suite pmap_suite = {
	.name = "superpmap_pmap",
	.suite_init = spm_test_node_init,
	.suite_exit = spm_test_node_exit,
	.init = spm_test_mm_init,
	.exit = spm_test_mm_exit,
	.test_cases = pmap_cases,
};

kunit_test_suite(pmap_suite);
