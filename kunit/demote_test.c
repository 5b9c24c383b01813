// SPDX-License-Identifier: GPL-2.0
/*
 * Demotion: a 2 MB entry becomes 512 entries, or nothing at all.
 */
#include <kunit/static_stub.h>
#include <linux/mm.h>

#include "testmm.h"

#define FULL SPM_SLOT_PAGES
#define LAST (SPM_SLOT_PAGES - 1)

static unsigned long at_page(unsigned long addr, unsigned int i)
{
	return addr + ((unsigned long)i << PAGE_SHIFT);
}

/* A slot mapped by one writable 2 MB entry, made directly. */
static unsigned long map_2m(struct kunit *test)
{
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_write(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	return addr;
}

/* The same for clean pages. */
static unsigned long map_2m_clean(struct kunit *test)
{
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_read(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RO, FULL, 0);
	return addr;
}

static bool demote(struct kunit *test, unsigned long addr)
{
	struct spm_test_at at;
	bool done;

	if (!spm_test_lock(&at, test, addr))
		return false;
	done = spm_pmap_demote(at.pm, &at.pl, at.slot->reserv,
			       SPM_DEMOTE_ADVISE);
	spm_test_unlock(&at);
	return done;
}

static void expect_no_faults(struct kunit *test, unsigned long addr,
			     unsigned int first, unsigned int end)
{
	const struct spm_counters *c = spm_test_counters(test);
	long before = spm_stat_read(c, SPM_STAT_vm_faults);

	spm_test_check_data(test, addr, first, end);
	EXPECT_STAT(test, c, vm_faults, before);
}

/* All pages stay mapped, as writable as they were; and promote again. */
static void demote_and_promote_again(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_2m(test);
	unsigned long tables = mm_pgtables_bytes(current->mm);

	KUNIT_EXPECT_TRUE(test, demote(test, addr));
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, FULL);
	KUNIT_EXPECT_EQ(test, mm_pgtables_bytes(current->mm),
			tables + PAGE_SIZE);
	EXPECT_STAT(test, c, demotions, 1);
	EXPECT_STAT(test, c, demotions_advise, 1);
	EXPECT_STAT(test, c, live, 0);
	expect_no_faults(test, addr, 0, FULL);

	KUNIT_EXPECT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, promotions, 2);
	KUNIT_EXPECT_EQ(test, mm_pgtables_bytes(current->mm), tables);
	expect_no_faults(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

/* Clean pages come back read-only, dirty ones writable. */
static void demote_keeps_clean_pages_read_only(struct kunit *test)
{
	unsigned long addr = map_2m_clean(test);
	struct spm_test_at at;

	if (!spm_test_lock(&at, test, addr))
		return;
	spm_reserv_set_dirty(at.slot->reserv, 0);
	spm_reserv_set_dirty(at.slot->reserv, 77);
	spm_reserv_set_dirty(at.slot->reserv, LAST);
	spm_test_unlock(&at);
	KUNIT_EXPECT_TRUE(test, demote(test, addr));
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, 3);
	spm_test_mm_finish(test);
}

/* A store to a read-only superpage of clean pages, at both ends and inside. */
static void demote_by_write(struct kunit *test)
{
	static const unsigned int pages[] = { 0, 255, LAST };
	const struct spm_counters *c = spm_test_counters(test);
	struct spm_test_mm *t = test->priv;
	unsigned long addr = map_2m_clean(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pages); i++) {
		spm_test_write(test, addr, pages[i], pages[i] + 1);
		EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, 1);
		KUNIT_EXPECT_TRUE(test, t->pte[pages[i]].writable);
		EXPECT_STAT(test, c, demotions_write, i + 1);
		EXPECT_STAT(test, c, demotions, i + 1);
		EXPECT_STAT(test, c, dirty, 1);
		/* From the beginning: all zeros, all clean. */
		KUNIT_EXPECT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_DISCARD), 0);
		EXPECT_NOTHING(test, addr);
		EXPECT_STAT(test, c, dirty, 0);
		EXPECT_STAT(test, c, pages, 0);
		spm_test_read(test, addr, 0, FULL);
		EXPECT_SLOT(test, addr, SPM_PMD_2M_RO, FULL, 0);
	}
	spm_test_mm_finish(test);
}

/* Another mapping keeps its superpage when one is demoted. */
static void demote_leaves_others_alone(struct kunit *test)
{
	unsigned long a = map_2m(test);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_read(test, b, 0, 1);
	EXPECT_SLOT(test, b, SPM_PMD_2M_RW, FULL, FULL);
	KUNIT_EXPECT_TRUE(test, demote(test, a));
	EXPECT_SLOT(test, a, SPM_PMD_TABLE, FULL, FULL);
	EXPECT_SLOT(test, b, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, spm_test_counters(test), live, 1);
	spm_test_mm_finish(test);
}

/*
 * FreeBSD demoted with an address inside the superpage and filled the wrong
 * entries.  Unmap one page at every offset; the other 511 must stay as they
 * were, without a fault.
 */
static void trap_demote_at_every_offset(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	struct spm_test_mm *t = test->priv;
	unsigned long addr = map_2m(test);
	unsigned int i;

	for (i = 0; i < FULL; i++) {
		spm_test_unmap(test, at_page(addr, i), PAGE_SIZE);
		EXPECT_SLOT(test, addr, SPM_PMD_TABLE, LAST, LAST);
		KUNIT_ASSERT_FALSE(test, t->pte[i].present);
		KUNIT_ASSERT_EQ(test, spm_stat_read(c, SPM_STAT_demotions_split),
				i + 1);
		KUNIT_ASSERT_EQ(test, spm_test_load(addr, i), -EFAULT);
		/* A whole mapping again, and a superpage with one fault. */
		spm_test_map_at(test, addr, PMD_SIZE, SPM_TEST_RW, 0);
		spm_test_check_data(test, addr, i, i + 1);
		KUNIT_ASSERT_EQ(test, spm_stat_read(c, SPM_STAT_mappings),
				i + 1);
		cond_resched();
	}
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	expect_no_faults(test, addr, 0, FULL);
	spm_test_mm_finish(test);
}

/* A range that begins inside one superpage and ends inside the next. */
static void partial_unmap_across_slots(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 3, SPM_TEST_RW);

	spm_test_write(test, addr, 0, 3 * FULL);
	EXPECT_STAT(test, c, live, 3);
	spm_test_unmap(test, at_page(addr, 100), 2 * PMD_SIZE);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 100, 100);
	EXPECT_NOTHING(test, addr + PMD_SIZE);
	EXPECT_SLOT(test, addr + 2 * PMD_SIZE, SPM_PMD_TABLE, FULL - 100,
		    FULL - 100);
	EXPECT_STAT(test, c, demotions_split, 2);
	EXPECT_STAT(test, c, removals, 1);
	expect_no_faults(test, addr, 0, 100);
	expect_no_faults(test, addr, 2 * FULL + 100, 3 * FULL);
	spm_test_mm_finish(test);
}

/* Between two slots nothing has to be demoted. */
static void unmap_at_slot_boundary(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 2, SPM_TEST_RW);

	spm_test_write(test, addr, 0, 2 * FULL);
	spm_test_unmap(test, addr, PMD_SIZE);
	EXPECT_SLOT(test, addr + PMD_SIZE, SPM_PMD_2M_RW, FULL, FULL);
	EXPECT_STAT(test, c, demotions, 0);
	EXPECT_STAT(test, c, removals, 1);
	spm_test_mm_finish(test);
}

/* Once a part is gone, the slot cannot be promoted, until it is whole again. */
static void no_promotion_after_partial_unmap(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_2m(test);
	struct spm_test_mm *t = test->priv;

	spm_test_unmap(test, at_page(addr, LAST), PAGE_SIZE);
	unmap_mapping_pages(t->region->inode->i_mapping, 0, FULL, false);
	spm_test_check_data(test, addr, 0, LAST);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, LAST, LAST);
	EXPECT_STAT(test, c, promotions, 1);
	EXPECT_STAT(test, c, p_failures, 0);
	spm_test_mm_finish(test);
}

/* The old kernel forgot 511 pages of the resident count on a demotion. */
static void trap_resident_count_on_demote(struct kunit *test)
{
	unsigned long a = map_2m(test);
	unsigned long b = spm_test_map(test, 1, SPM_TEST_RW);

	spm_test_read(test, b, 0, 1);
	EXPECT_STAT(test, spm_test_counters(test), mappings, 1);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), 2 * FULL);
	KUNIT_EXPECT_TRUE(test, demote(test, b));
	KUNIT_EXPECT_EQ(test, spm_test_rss(), 2 * FULL);
	spm_test_unmap(test, b, PMD_SIZE / 2);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), FULL + FULL / 2);
	spm_test_unmap(test, b + PMD_SIZE / 2, PMD_SIZE / 2);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), FULL);
	spm_test_unmap(test, a, PMD_SIZE);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), 0);
	spm_test_mm_finish(test);
}

/*
 * Aborted demotion.  The page-table page cannot be had when the first of the
 * 512 entries is made.
 */
static vm_fault_t no_memory(const struct spm_place *pl, unsigned int i,
			    struct page *page, bool write)
{
	return VM_FAULT_OOM;
}

/* Fails once, with the first insert after it was set. */
static vm_fault_t no_memory_once(const struct spm_place *pl, unsigned int i,
				 struct page *page, bool write)
{
	kunit_deactivate_static_stub(kunit_get_current_test(),
				     spm_pt_insert_4k);
	return VM_FAULT_OOM;
}

/* Fails from page 300 on. */
static vm_fault_t no_memory_at_300(const struct spm_place *pl, unsigned int i,
				   struct page *page, bool write)
{
	struct kunit *test = kunit_get_current_test();
	vm_fault_t ret;

	if (i >= 300)
		return VM_FAULT_OOM;
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	ret = spm_pt_insert_4k(pl, i, page, write);
	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_at_300);
	return ret;
}

static void expect_aborted(struct kunit *test, unsigned long addr)
{
	const struct spm_counters *c = spm_test_counters(test);

	EXPECT_NOTHING(test, addr);
	EXPECT_STAT(test, c, demote_aborts, 1);
	EXPECT_STAT(test, c, demotions, 0);
	EXPECT_STAT(test, c, live, 0);
}

static void trap_abort_leaves_nothing_mapped(struct kunit *test)
{
	unsigned long addr = map_2m(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory);
	KUNIT_EXPECT_FALSE(test, demote(test, addr));
	expect_aborted(test, addr);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	/* Nothing is lost: the pages fault back. */
	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

static void abort_of_partial_unmap(struct kunit *test)
{
	unsigned long addr = map_2m(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory);
	spm_test_unmap(test, at_page(addr, 300), FULL / 4 * PAGE_SIZE);
	expect_aborted(test, addr);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	spm_test_check_data(test, addr, 0, 300);
	spm_test_check_data(test, addr, 300 + FULL / 4, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL / 4 * 3, FULL / 4 * 3);
	spm_test_mm_finish(test);
}

/* The store that demotes: it fails as a whole, or carries on by itself. */
static void abort_of_write(struct kunit *test)
{
	unsigned long addr = map_2m_clean(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory);
	KUNIT_EXPECT_EQ(test, spm_test_store(addr, 8), -EFAULT);
	expect_aborted(test, addr);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	spm_test_write(test, addr, 8, 9);
	/* Nothing was there any more, so it is an ordinary store. */
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 1, 1);
	spm_test_mm_finish(test);
}

static void abort_of_write_goes_on(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_2m_clean(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_once);
	spm_test_write(test, addr, 8, 9);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 1, 1);
	EXPECT_STAT(test, c, demote_aborts, 1);
	EXPECT_STAT(test, c, demotions, 0);
	spm_test_read(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, FULL, 1);
	spm_test_mm_finish(test);
}

/* In the middle: whatever is mapped by then is mapped right. */
static void abort_half_way(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_2m(test);
	struct spm_test_view v;

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_at_300);
	KUNIT_EXPECT_FALSE(test, demote(test, addr));
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	EXPECT_STAT(test, c, demote_aborts, 1);
	EXPECT_STAT(test, c, live, 0);
	v = spm_test_look(test, __LINE__, addr);
	KUNIT_EXPECT_LE(test, v.present, 300);
	KUNIT_EXPECT_EQ(test, spm_test_rss(), v.present);
	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_SLOT(test, addr, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

/* A 4 KB entry that cannot be made: no entry, and no trace of one. */
static void insert_without_memory(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = spm_test_map(test, 1, SPM_TEST_RW);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory);
	KUNIT_EXPECT_EQ(test, spm_test_store(addr, 0), -EFAULT);
	EXPECT_NOTHING(test, addr);
	EXPECT_STAT(test, c, enter_4k, 0);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	spm_test_write(test, addr, 0, 1);
	EXPECT_SLOT(test, addr, SPM_PMD_TABLE, 1, 1);
	EXPECT_STAT(test, c, pages, 1);
	spm_test_mm_finish(test);
}

/*
 * FreeBSD's central invariant by every path that makes an entry: EXPECT_SLOT
 * fails on an entry that is writable for a page that is not recorded dirty.
 */
static void trap_writable_implies_dirty(struct kunit *test)
{
	unsigned long rw = spm_test_map(test, 1, SPM_TEST_RW);
	unsigned long ro = spm_test_map(test, 1, PROT_READ);
	unsigned long b;

	/* 4 KB by load, by store, by a store after a load. */
	spm_test_read(test, rw, 0, 10);
	spm_test_write(test, rw, 10, 20);
	spm_test_write(test, rw, 0, 5);
	EXPECT_SLOT(test, rw, SPM_PMD_TABLE, 20, 15);
	/* By prefault, over clean and dirty neighbours. */
	WRITE_ONCE(spm_tunables.prefault_pages, 16);
	b = spm_test_map(test, 1, SPM_TEST_RW);
	spm_test_read(test, b, 8, 9);
	EXPECT_SLOT(test, b, SPM_PMD_TABLE, 20, 15);
	WRITE_ONCE(spm_tunables.prefault_pages, 0);
	/* 2 MB promoted read-only, then demoted. */
	spm_test_read(test, ro, 0, FULL);
	EXPECT_SLOT(test, ro, SPM_PMD_2M_RO, FULL, 0);
	KUNIT_EXPECT_TRUE(test, demote(test, ro));
	EXPECT_SLOT(test, ro, SPM_PMD_TABLE, FULL, 0);
	/* Promoted writable, demoted, on request. */
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, rw, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_SLOT(test, rw, SPM_PMD_2M_RW, FULL, FULL);
	KUNIT_EXPECT_TRUE(test, demote(test, rw));
	EXPECT_SLOT(test, rw, SPM_PMD_TABLE, FULL, FULL);
	/* And from the beginning once more, all at a time. */
	spm_test_unmap(test, b, PMD_SIZE);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, rw, PMD_SIZE,
					      SPM_ADV_DISCARD), 0);
	EXPECT_NOTHING(test, ro);
	EXPECT_NOTHING(test, rw);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, rw, PMD_SIZE,
					      SPM_ADV_PREFAULT), 0);
	EXPECT_SLOT(test, rw, SPM_PMD_2M_RW, FULL, FULL);
	spm_test_mm_finish(test);
}

static struct kunit_case demote_cases[] = {
	KUNIT_CASE(demote_and_promote_again),
	KUNIT_CASE(demote_keeps_clean_pages_read_only),
	KUNIT_CASE(demote_by_write),
	KUNIT_CASE(demote_leaves_others_alone),
	KUNIT_CASE_SLOW(trap_demote_at_every_offset),
	KUNIT_CASE(partial_unmap_across_slots),
	KUNIT_CASE(unmap_at_slot_boundary),
	KUNIT_CASE(no_promotion_after_partial_unmap),
	KUNIT_CASE(trap_resident_count_on_demote),
	KUNIT_CASE(trap_abort_leaves_nothing_mapped),
	KUNIT_CASE(abort_of_partial_unmap),
	KUNIT_CASE(abort_of_write),
	KUNIT_CASE(abort_of_write_goes_on),
	KUNIT_CASE(abort_half_way),
	KUNIT_CASE(insert_without_memory),
	KUNIT_CASE(trap_writable_implies_dirty),
	{}
};

static struct kunit_suite demote_suite = {
	.name = "superpmap_demote",
	.suite_init = spm_test_node_init,
	.suite_exit = spm_test_node_exit,
	.init = spm_test_mm_init,
	.exit = spm_test_mm_exit,
	.test_cases = demote_cases,
};

kunit_test_suite(demote_suite);
