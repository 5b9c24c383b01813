/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module does to Linux page tables, and nothing else.
 *
 * Common rules.  The caller holds the lock of the slot that the range belongs
 * to, so no other path of the module changes these entries; and it holds the
 * VMA's lock or mmap_lock, for reading at least, so the VMA stays, and the PMD
 * page under it too.  The core may still take entries away meanwhile (reclaim
 * of page tables, MADV_DONTNEED, truncation), but never adds any: every entry
 * of these VMAs is made here.
 */
#ifndef SPM_PTABLE_H
#define SPM_PTABLE_H

#include <linux/mm.h>

#include "policy.h"

/**
 * struct spm_place - where one slot lies in one VMA
 * @vma:	the VMA
 * @pmd:	entry that covers the faulting address; of the whole slot if @fits
 * @addr:	virtual address of the slot's first page, which may lie outside
 *		the VMA
 * @slot:	index of the slot
 * @lo:		the VMA covers the slot's pages [@lo, @hi), region size included
 * @hi:		see @lo
 * @fits:	the VMA covers it all and @addr is aligned to 2 MB
 */
struct spm_place {
	struct vm_area_struct *vma;
	pmd_t *pmd;
	unsigned long addr;
	pgoff_t slot;
	unsigned int lo;
	unsigned int hi;
	bool fits;
};

/**
 * struct spm_pte - one 4 KB stretch of what a page table says
 * @pfn:	page frame, valid if @present
 * @present:	there is an entry
 * @writable:	... that allows writing
 * @young:	... whose accessed bit is set
 * @dirty:	... whose dirty bit is set
 * @huge:	... that is part of a 2 MB entry
 */
struct spm_pte {
	unsigned long pfn;
	bool present : 1;
	bool writable : 1;
	bool young : 1;
	bool dirty : 1;
	bool huge : 1;
};

/* Accessed bits that were set, one for a 2 MB entry; of these cleared. */
struct spm_accessed {
	unsigned int found;
	unsigned int cleared;
};

static inline unsigned long spm_place_addr(const struct spm_place *pl,
					   unsigned int i)
{
	return pl->addr + ((unsigned long)i << PAGE_SHIFT);
}

/* How many pages of [@i, @end) one PMD entry maps, from page @i on. */
static inline unsigned int spm_place_run(const struct spm_place *pl,
					 unsigned int i, unsigned int end)
{
	unsigned long addr = spm_place_addr(pl, i);

	return min((PMD_SIZE - (addr & ~PMD_MASK)) >> PAGE_SHIFT,
		   (unsigned long)(end - i));
}

void spm_place_init(struct spm_place *pl, struct vm_area_struct *vma,
		    pgoff_t slot, pgoff_t size, pmd_t *pmd);
pmd_t *spm_pt_pmd(struct mm_struct *mm, unsigned long addr);
enum spm_pmd_state spm_pt_state(pmd_t *pmd);
bool spm_pt_mm_suitable(struct mm_struct *mm);
bool spm_pt_soft_dirty_tracked(const struct vm_area_struct *vma);
void spm_pt_renew(const struct spm_place *pl, unsigned int i);
vm_fault_t spm_pt_insert_4k(const struct spm_place *pl, unsigned int i,
			    struct page *page, bool write);
vm_fault_t spm_pt_insert_2m(const struct spm_place *pl, struct folio *folio,
			    bool write);
void spm_pt_zap(const struct spm_place *pl, unsigned int first,
		unsigned int end);
bool spm_pt_retract(const struct spm_place *pl);
void spm_pt_read(struct mm_struct *mm, unsigned long addr, unsigned int n,
		 struct spm_pte *out);
struct spm_accessed spm_pt_accessed(struct mm_struct *mm, unsigned long addr,
				    unsigned int n, bool clear, bool clear_2m,
				    unsigned long *out);
void spm_pt_clean_readonly(struct mm_struct *mm, unsigned long addr,
			   unsigned int n);

#endif /* SPM_PTABLE_H */
