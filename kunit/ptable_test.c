// SPDX-License-Identifier: GPL-2.0
/*
 * Where a slot lies in a VMA, and what a PMD holds: the parts of ptable.c that
 * need no process.
 */
#include <kunit/test.h>
#include <linux/mm.h>

#include "ptable.h"

#define FULL ((pgoff_t)SPM_SLOT_PAGES)

/* Page by page: does the VMA, and the region, reach page @i of the slot? */
static bool covers(const struct vm_area_struct *vma, pgoff_t slot, pgoff_t i,
		   pgoff_t size)
{
	pgoff_t pgoff = slot * FULL + i;

	return pgoff >= vma->vm_pgoff &&
	       pgoff < vma->vm_pgoff + vma_pages(vma) && pgoff < size;
}

/* Compare with a search for the first and the last page that is covered. */
static bool check_place(struct kunit *test, struct vm_area_struct *vma,
			pgoff_t slot, pgoff_t size)
{
	unsigned int i, lo = SPM_SLOT_PAGES, hi = 0, n = 0;
	struct spm_place pl;
	unsigned long page;

	for (i = 0; i < SPM_SLOT_PAGES; i++) {
		if (!covers(vma, slot, i, size))
			continue;
		lo = min(lo, i);
		hi = i + 1;
		n++;
	}
	spm_place_init(&pl, vma, slot, size, NULL);
	/* A slot wholly beyond the region: any empty range will do. */
	if (!n && pl.lo < pl.hi)
		goto wrong;
	if (n && (pl.lo != lo || pl.hi != hi))
		goto wrong;
	/* The address of a page that is covered is known from the VMA alone. */
	page = vma->vm_start + ((slot * FULL + lo - vma->vm_pgoff) << PAGE_SHIFT);
	if (n && spm_place_addr(&pl, lo) != page)
		goto wrong;
	if (pl.fits != (n == SPM_SLOT_PAGES && IS_ALIGNED(pl.addr, PMD_SIZE)))
		goto wrong;
	return true;
wrong:
	KUNIT_FAIL(test,
		   "slot %lu of a VMA [0x%lx, 0x%lx) from page %lu, region of %lu: 0x%lx, [%u, %u), fits %d",
		   slot, vma->vm_start, vma->vm_end, vma->vm_pgoff, size,
		   pl.addr, pl.lo, pl.hi, pl.fits);
	return false;
}

/* Every slot that the VMA touches, in regions that end inside and outside it. */
static bool check_vma(struct kunit *test, struct vm_area_struct *vma)
{
	pgoff_t end = vma->vm_pgoff + vma_pages(vma);
	const pgoff_t sizes[] = { end + 1000, end, end - 1,
				  round_down(end, FULL) + 1, vma->vm_pgoff };
	pgoff_t slot;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		for (slot = vma->vm_pgoff / FULL; slot <= (end - 1) / FULL;
		     slot++)
			if (!check_place(test, vma, slot, sizes[i]))
				return false;
	return true;
}

static void place_of_every_vma(struct kunit *test)
{
	static const pgoff_t pgoffs[] = { 0, 1, 255, 511, 512, 513, 1023, 1UL << 30 };
	static const pgoff_t lens[] = { 1, 2, 256, 511, 512, 513, 1023, 1024, 1537 };
	/* Congruent to the offset modulo 2 MB, or off by so many pages. */
	static const unsigned long shifts[] = { 0, 1, 256, 511 };
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma),
						   GFP_KERNEL);
	unsigned int p, l, s;

	KUNIT_ASSERT_NOT_NULL(test, vma);
	for (p = 0; p < ARRAY_SIZE(pgoffs); p++) {
		for (l = 0; l < ARRAY_SIZE(lens); l++)
			for (s = 0; s < ARRAY_SIZE(shifts); s++) {
				vma->vm_pgoff = pgoffs[p];
				vma->vm_start = 0x7f0000000000 +
					((pgoffs[p] % FULL + shifts[s]) <<
					 PAGE_SHIFT);
				vma->vm_end = vma->vm_start +
					      (lens[l] << PAGE_SHIFT);
				if (!check_vma(test, vma))
					return;
			}
		cond_resched();
	}
}

/* A VMA may begin so low that the slot's first page would lie below address 0. */
static void place_that_begins_below_zero(struct kunit *test)
{
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma),
						   GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, vma);
	vma->vm_start = 16 * PAGE_SIZE;
	vma->vm_end = 20 * PAGE_SIZE;
	vma->vm_pgoff = 300;
	check_place(test, vma, 0, 1000);
}

static void state_of_pmd(struct kunit *test)
{
	const pmdval_t leaf = _PAGE_PRESENT | _PAGE_USER | _PAGE_ACCESSED |
			      _PAGE_PSE;
	const struct {
		pmdval_t val;
		enum spm_pmd_state state;
	} rows[] = {
		{ 0, SPM_PMD_NONE },
		{ _PAGE_TABLE, SPM_PMD_TABLE },
		{ leaf, SPM_PMD_2M_RO },
		{ leaf | _PAGE_DIRTY, SPM_PMD_2M_RO },
		{ leaf | _PAGE_RW | _PAGE_DIRTY, SPM_PMD_2M_RW },
		{ leaf | _PAGE_RW, SPM_PMD_2M_RW },
	};
	unsigned int i;

	KUNIT_EXPECT_EQ(test, spm_pt_state(NULL), SPM_PMD_NONE);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pmd_t pmd = __pmd(rows[i].val);

		KUNIT_EXPECT_EQ_MSG(test, spm_pt_state(&pmd), rows[i].state,
				    "row %u", i);
	}
}

static struct kunit_case ptable_cases[] = {
	KUNIT_CASE(place_of_every_vma),
	KUNIT_CASE(place_that_begins_below_zero),
	KUNIT_CASE(state_of_pmd),
	{}
};

static struct kunit_suite ptable_suite = {
	.name = "superpmap_ptable",
	.test_cases = ptable_cases,
};

kunit_test_suite(ptable_suite);
