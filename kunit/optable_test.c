// SPDX-License-Identifier: GPL-2.0
/*
 * FreeBSD's pmap operations, first part: those that make entries and take them
 * away.
 */
#include "optable.h"

/* enter, psind 0 */

static void optable_enter_4k(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_read(test, addr, 3, 4);
	EXPECT_4K(test, addr, 1, 1, 0, 0);
	/* The dirty state comes before the right to store. */
	spm_test_write(test, addr, 3, 5);
	EXPECT_4K(test, addr, 2, 2, 2, 2);
	/* The next store needs no fault, and nobody else's entry changes. */
	faults(test);
	spm_test_write(test, addr, 3, 5);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	spm_test_mm_finish(test);
}

/* Made writable, an entry is accessed; others are left as they are. */
static void optable_enter_4k_same_frame(struct kunit *test)
{
	unsigned long addr = map_second(test);
	struct spm_test_mm *t = test->priv;

	spm_test_read(test, addr, 0, 4);
	forget(test, addr, 0, FULL);
	EXPECT_4K(test, addr, 4, 0, 0, 0);
	spm_test_write(test, addr, 2, 3);
	EXPECT_4K(test, addr, 4, 1, 1, 1);
	KUNIT_EXPECT_TRUE(test, t->pte[2].young && t->pte[2].writable);
	spm_test_mm_finish(test);
}

/* Recorded dirty although the store did not come to pass: the safe side. */
static void optable_enter_4k_failure(struct kunit *test)
{
	unsigned long addr = map_second(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_4k);
	KUNIT_EXPECT_EQ(test, spm_test_load(addr, 0), -EFAULT);
	EXPECT_4K(test, addr, 0, 0, 0, 0);
	KUNIT_EXPECT_EQ(test, spm_test_store(addr, 0), -EFAULT);
	EXPECT_4K(test, addr, 0, 0, 1, 0);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	spm_test_write(test, addr, 0, 2);
	EXPECT_4K(test, addr, 2, 2, 2, 2);
	spm_test_mm_finish(test);
}

/* A 2 MB entry is demoted first. */
static void optable_enter_4k_over_2m(struct kunit *test)
{
	unsigned long addr = map_2m_ro(test);

	spm_test_write(test, addr, 300, 301);
	EXPECT_4K(test, addr, FULL, FULL, 1, 1);
	EXPECT_STAT(test, spm_test_counters(test), demotions_write, 1);
	spm_test_mm_finish(test);
}

/* ... and where that is aborted, the page is entered into what is left. */
static vm_fault_t no_memory_once(const struct spm_place *pl, unsigned int i,
				 struct page *page, bool write)
{
	kunit_deactivate_static_stub(kunit_get_current_test(), spm_pt_insert_4k);
	return VM_FAULT_OOM;
}

static void optable_enter_4k_over_2m_failure(struct kunit *test)
{
	unsigned long addr = map_2m_ro(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_once);
	spm_test_write(test, addr, 300, 301);
	EXPECT_4K(test, addr, 1, 1, 1, 1);
	EXPECT_STAT(test, spm_test_counters(test), demote_aborts, 1);
	spm_test_mm_finish(test);
}

/* enter, psind 1 */

static void optable_enter_2m(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long a = map_2m_ro(test), b, d;

	/* Nothing but the size: clean pages stay clean. */
	b = map_second(test);
	spm_test_read(test, b, LAST, FULL);
	EXPECT_2M(test, b, 1, 0, 0);
	EXPECT_STAT(test, c, mappings, 1);
	/* All dirty: writable at once, for a load as well. */
	KUNIT_ASSERT_EQ(test, spm_test_advise(test, a, PMD_SIZE,
					      SPM_ADV_PROMOTE), 0);
	EXPECT_2M(test, a, 1, FULL, 1);
	d = map_second(test);
	spm_test_read(test, d, 0, 1);
	EXPECT_2M(test, d, 1, FULL, 1);
	EXPECT_STAT(test, c, mappings, 2);
	EXPECT_STAT(test, c, demotions, 0);
	spm_test_mm_finish(test);
}

static void optable_enter_2m_failure(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	spm_test_unmap(test, addr, PMD_SIZE);
	spm_test_map_at(test, addr, PMD_SIZE, SPM_TEST_RW, PMD_SIZE);
	kunit_activate_static_stub(test, spm_pt_insert_2m, no_memory_2m);
	KUNIT_EXPECT_EQ(test, spm_test_load(addr, 0), -EFAULT);
	KUNIT_EXPECT_EQ(test, spm_test_store(addr, 0), -EFAULT);
	EXPECT_4K(test, addr, 0, 0, FULL, 0);
	kunit_deactivate_static_stub(test, spm_pt_insert_2m);
	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

/* enter_object: what shows through from an object below, for loads alone */

static void optable_enter_object_4k(struct kunit *test)
{
	unsigned long addr = map_second(test), own;

	spm_test_write(test, addr, 0, 4);
	own = spm_test_map_private(test, 2) + PMD_SIZE;
	spm_test_read(test, own, 0, 6);
	/* Not this mapping's to store to, and not its dirty state. */
	EXPECT_4K(test, own, 6, 6, 0, 0);
	EXPECT_4K(test, addr, 4, 4, 4, 4);
	spm_test_mm_finish(test);
}

static void optable_enter_object_2m(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test), own;

	own = spm_test_map_private(test, 2) + PMD_SIZE;
	kunit_activate_static_stub(test, spm_pt_insert_2m, no_memory_2m);
	KUNIT_EXPECT_EQ(test, spm_test_load(own, 7), -EFAULT);
	EXPECT_4K(test, own, 0, 0, 0, 0);
	kunit_deactivate_static_stub(test, spm_pt_insert_2m);
	spm_test_check_data(test, own, 7, 8);
	EXPECT_2M(test, own, 1, 0, 0);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

/* enter_quick: neighbours of a faulting page */

static void optable_enter_quick_4k(struct kunit *test)
{
	unsigned long addr = map_second(test), b;
	struct spm_test_mm *t = test->priv;
	unsigned int i;

	spm_test_write(test, addr, 0, 2);
	spm_test_read(test, addr, 2, 4);
	b = map_second(test);
	spm_test_read(test, b, 3, 4);
	forget(test, b, 0, FULL);
	WRITE_ONCE(spm_tunables.prefault_pages, 4);
	spm_test_read(test, b, 2, 3);
	/* Dirty ones are writable; nothing is populated. */
	EXPECT_4K(test, b, 4, 3, 2, 2);
	/* The one that was there is left alone. */
	KUNIT_EXPECT_FALSE(test, t->pte[3].young);
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_TRUE(test, t->pte[i].young && t->pte[i].writable);
	EXPECT_STAT(test, spm_test_counters(test), pages, 4);
	spm_test_mm_finish(test);
}

/* A hint: it stops, and the fault succeeds all the same. */
static vm_fault_t no_memory_but_one(const struct spm_place *pl, unsigned int i,
				    struct page *page, bool write)
{
	struct kunit *test = kunit_get_current_test();
	vm_fault_t ret;

	if (i != 2)
		return VM_FAULT_OOM;
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	ret = spm_pt_insert_4k(pl, i, page, write);
	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_but_one);
	return ret;
}

static void optable_enter_quick_4k_failure(struct kunit *test)
{
	unsigned long addr = map_second(test), b;

	spm_test_write(test, addr, 0, 4);
	b = map_second(test);
	WRITE_ONCE(spm_tunables.prefault_pages, 4);
	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_but_one);
	spm_test_read(test, b, 2, 3);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	EXPECT_4K(test, b, 1, 1, 4, 1);
	spm_test_mm_finish(test);
}

/* promotion and demotion */

static void optable_promote(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_second(test);

	spm_test_write(test, addr, 0, LAST);
	EXPECT_4K(test, addr, LAST, LAST, LAST, LAST);
	spm_test_write(test, addr, LAST, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	EXPECT_STAT(test, c, promotions, 1);
	faults(test);
	spm_test_check_data(test, addr, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 0);
	spm_test_mm_finish(test);
}

/* One page that nobody looked at is enough. */
static void optable_promote_without_a(struct kunit *test)
{
	static const unsigned int cold[] = { 1, 100, LAST };
	unsigned long addr = map_2m_rw(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cold); i++) {
		KUNIT_ASSERT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_DEMOTE), 0);
		spm_test_check_data(test, addr, 0, FULL);
		forget(test, addr, cold[i], cold[i] + 1);
		EXPECT_4K(test, addr, FULL, LAST, FULL, FULL);
		/* A request touches the first page. */
		KUNIT_ASSERT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_PROMOTE), 0);
		EXPECT_2M(test, addr, 0, FULL, 1);
		/* The next touch, by this processor, which holds nothing. */
		spm_test_check_data(test, addr, 5, 6);
		EXPECT_2M(test, addr, 1, FULL, 1);
	}
	spm_test_mm_finish(test);
}

static bool table_not_empty(const struct spm_place *pl)
{
	return false;
}

/* Zapped, and the table had to stay: nothing is mapped, nothing is lost. */
static void optable_promote_failure(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_write(test, addr, 0, LAST);
	kunit_activate_static_stub(test, spm_pt_retract, table_not_empty);
	spm_test_write(test, addr, LAST, FULL);
	EXPECT_4K(test, addr, 1, 1, FULL, 1);
	kunit_deactivate_static_stub(test, spm_pt_retract);
	EXPECT_STAT(test, spm_test_counters(test), p_failures, 1);
	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
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

static void optable_demote(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);
	unsigned int a;

	for (a = 2; a--;) {
		if (!a)
			forget(test, addr, 0, FULL);
		KUNIT_EXPECT_TRUE(test, demote(test, addr));
		EXPECT_4K(test, addr, FULL, a * FULL, FULL, FULL);
		KUNIT_ASSERT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
						      SPM_ADV_PROMOTE), 0);
		EXPECT_2M(test, addr, a, FULL, 1);
	}
	spm_test_mm_finish(test);
}

static void optable_demote_failure(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_4k);
	KUNIT_EXPECT_FALSE(test, demote(test, addr));
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	EXPECT_4K(test, addr, 0, 0, FULL, 0);
	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

/* remove */

/* What the kernel keeps of the accessed bits of entries that are gone. */
static bool referenced(struct kunit *test, unsigned long addr)
{
	struct spm_test_at at;
	bool is = false;

	if (spm_test_lock(&at, test, addr)) {
		is = folio_test_referenced(at.slot->reserv->folio);
		folio_clear_referenced(at.slot->reserv->folio);
		spm_test_unlock(&at);
	}
	return is;
}

static void remove_pages(struct kunit *test, unsigned long addr,
			 unsigned int first, unsigned int end)
{
	struct spm_test_at at;

	if (!spm_test_lock(&at, test, addr))
		return;
	spm_pmap_remove(at.pm, &at.pl, first, end);
	spm_test_unlock(&at);
}

static void optable_remove_4k(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_write(test, addr, 0, 8);
	forget(test, addr, 0, 4);
	referenced(test, addr);
	remove_pages(test, addr, 0, 4);
	EXPECT_4K(test, addr, 4, 4, 8, 4);
	KUNIT_EXPECT_FALSE(test, referenced(test, addr));
	remove_pages(test, addr, 4, 5);
	EXPECT_4K(test, addr, 3, 3, 8, 3);
	KUNIT_EXPECT_TRUE(test, referenced(test, addr));
	/* The TLB was flushed: every page faults. */
	faults(test);
	spm_test_check_data(test, addr, 0, 5);
	KUNIT_EXPECT_EQ(test, faults(test), 5);
	EXPECT_4K(test, addr, 8, 8, 8, 8);
	spm_test_mm_finish(test);
}

static void optable_remove_2m(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	referenced(test, addr);
	remove_pages(test, addr, 0, FULL);
	EXPECT_4K(test, addr, 0, 0, FULL, 0);
	KUNIT_EXPECT_TRUE(test, referenced(test, addr));
	EXPECT_STAT(test, spm_test_counters(test), removals, 1);
	faults(test);
	spm_test_check_data(test, addr, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

/* munmap of a part: what is left keeps its bits, accessed or not. */
static void optable_remove_2m_partial(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	forget(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 0, FULL, 1);
	spm_test_unmap(test, at_page(addr, 100), 12 * PAGE_SIZE);
	EXPECT_4K(test, addr, 500, 0, FULL, 500);
	EXPECT_STAT(test, spm_test_counters(test), demotions_split, 1);
	spm_test_mm_finish(test);
}

static void optable_remove_2m_partial_failure(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_4k);
	spm_test_unmap(test, at_page(addr, 100), 12 * PAGE_SIZE);
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	EXPECT_4K(test, addr, 0, 0, FULL, 0);
	EXPECT_STAT(test, spm_test_counters(test), demote_aborts, 1);
	spm_test_check_data(test, addr, 0, 100);
	EXPECT_4K(test, addr, 100, 100, FULL, 100);
	spm_test_mm_finish(test);
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

static void optable_remove_all_4k(struct kunit *test)
{
	unsigned long a = map_second(test), b = map_second(test);

	spm_test_write(test, a, 0, 8);
	spm_test_read(test, b, 0, 8);
	remove_all(test, a, 2, 3);
	EXPECT_4K(test, a, 7, 7, 8, 7);
	EXPECT_4K(test, b, 7, 7, 8, 7);
	faults(test);
	spm_test_check_data(test, b, 2, 3);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	spm_test_mm_finish(test);
}

/* One page of a 2 MB entry takes the whole entry; the dirty state stays. */
static void optable_remove_all_2m(struct kunit *test)
{
	unsigned long a = map_2m_rw(test), b = map_second(test);

	spm_test_read(test, b, 0, 1);
	EXPECT_2M(test, b, 1, FULL, 1);
	remove_all(test, a, LAST, FULL);
	EXPECT_4K(test, a, 0, 0, FULL, 0);
	EXPECT_4K(test, b, 0, 0, FULL, 0);
	faults(test);
	spm_test_check_data(test, a, 0, FULL);
	spm_test_check_data(test, b, 0, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 2);
	spm_test_mm_finish(test);
}

/* remove_pages: all entries go, of both sizes; the region keeps all state. */
static void optable_remove_pages(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test), again;

	spm_test_write(test, addr - PMD_SIZE, 0, 9);
	spm_test_unmap(test, addr - PMD_SIZE, 2 * PMD_SIZE);
	again = map_second(test);
	EXPECT_4K(test, again, 0, 0, FULL, 0);
	EXPECT_4K(test, again - PMD_SIZE, 0, 0, 9, 0);
	spm_test_mm_finish(test);
}

static struct kunit_case optable_cases[] = {
	KUNIT_CASE(optable_enter_4k),
	KUNIT_CASE(optable_enter_4k_same_frame),
	KUNIT_CASE(optable_enter_4k_failure),
	KUNIT_CASE(optable_enter_4k_over_2m),
	KUNIT_CASE(optable_enter_4k_over_2m_failure),
	KUNIT_CASE(optable_enter_2m),
	KUNIT_CASE(optable_enter_2m_failure),
	KUNIT_CASE(optable_enter_object_4k),
	KUNIT_CASE(optable_enter_object_2m),
	KUNIT_CASE(optable_enter_quick_4k),
	KUNIT_CASE(optable_enter_quick_4k_failure),
	KUNIT_CASE(optable_promote),
	KUNIT_CASE(optable_promote_without_a),
	KUNIT_CASE(optable_promote_failure),
	KUNIT_CASE(optable_demote),
	KUNIT_CASE(optable_demote_failure),
	KUNIT_CASE(optable_remove_4k),
	KUNIT_CASE(optable_remove_2m),
	KUNIT_CASE(optable_remove_2m_partial),
	KUNIT_CASE(optable_remove_2m_partial_failure),
	KUNIT_CASE(optable_remove_all_4k),
	KUNIT_CASE(optable_remove_all_2m),
	KUNIT_CASE(optable_remove_pages),
	{}
};

static struct kunit_suite optable_suite = {
	.name = "superpmap_optable",
	.suite_init = spm_test_node_init,
	.suite_exit = spm_test_node_exit,
	.init = spm_test_mm_init,
	.exit = spm_test_mm_exit,
	.test_cases = optable_cases,
};

kunit_test_suite(optable_suite);
