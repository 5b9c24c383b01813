/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of FreeBSD's operations on page tables have in common.  A case
 * has the name of the operation and the size of the entries; docs/pmap.md lists
 * them all.
 */
#ifndef SPM_KUNIT_OPTABLE_H
#define SPM_KUNIT_OPTABLE_H

#include <kunit/static_stub.h>
#include <linux/mm.h>

#include "testmm.h"
#include "track.h"

#define FULL SPM_SLOT_PAGES
#define LAST (SPM_SLOT_PAGES - 1)

static inline unsigned long at_page(unsigned long addr, unsigned int i)
{
	return addr + ((unsigned long)i << PAGE_SHIFT);
}

/* Faults taken since the last time. */
static inline long faults(struct kunit *test)
{
	struct spm_test_mm *t = test->priv;
	long now = spm_stat_read(spm_test_counters(test), SPM_STAT_vm_faults);
	long n = now - t->faults;

	t->faults = now;
	return n;
}

/* Two slots, of which the second one is mapped by a 2 MB entry, or not yet. */
static inline unsigned long map_second(struct kunit *test)
{
	return spm_test_map(test, 2, SPM_TEST_RW) + PMD_SIZE;
}

static inline unsigned long map_2m_rw(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_write(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	return addr;
}

static inline unsigned long map_2m_ro(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_read(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, 0, 0);
	return addr;
}

/* FreeBSD's pmap_ts_referenced(): how many accessed bits were set. */
static inline unsigned int ts_referenced(struct kunit *test, unsigned long addr,
					 unsigned int first, unsigned int end,
					 bool clear, unsigned long *out)
{
	struct spm_test_at at;
	unsigned int n;

	if (!spm_test_lock(&at, test, addr))
		return ~0U;
	bitmap_zero(out, SPM_SLOT_PAGES);
	n = spm_pmap_ts_referenced(at.pm, &at.pl, first, end, clear, out);
	spm_test_unlock(&at);
	return n;
}

/* Clear accessed bits. */
static inline void forget(struct kunit *test, unsigned long addr,
			  unsigned int first, unsigned int end)
{
	DECLARE_BITMAP(unused, SPM_SLOT_PAGES);

	ts_referenced(test, addr, first, end, true, unused);
}

static inline vm_fault_t no_memory_4k(const struct spm_place *pl, unsigned int i,
				      struct page *page, bool write)
{
	return VM_FAULT_OOM;
}

static inline vm_fault_t no_memory_2m(const struct spm_place *pl,
				      struct folio *folio, bool write)
{
	return VM_FAULT_OOM;
}

#endif /* SPM_KUNIT_OPTABLE_H */
