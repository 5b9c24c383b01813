// SPDX-License-Identifier: GPL-2.0
/*
 * SPM_IOC_MINCORE: what the region holds and what this mapping maps, page by
 * page, with FreeBSD's size of the entry.
 *
 * No user memory is touched under any lock, because the buffer may lie in a
 * mapping of ours: one slot is described into memory of the kernel, then copied.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "advise.h"
#include "fault.h"
#include "mincore.h"
#include "track.h"

/* Pages that one round describes: of one slot, and under one PMD. */
struct spm_mincore_round {
	unsigned long addr;
	unsigned int n;
	struct spm_pte pte[SPM_SLOT_PAGES];
	DECLARE_BITMAP(dirty, SPM_SLOT_PAGES);
	u8 vec[SPM_SLOT_PAGES];
};

static u8 spm_mincore_page(bool held, bool dirty, const struct spm_pte *pte)
{
	u8 v = 0;

	if (held)
		v |= SPM_MINCORE_INCORE;
	if (dirty)
		v |= SPM_MINCORE_MODIFIED;
	if (pte->present) {
		v |= SPM_MINCORE_MAPPED;
		if (pte->young)
			v |= SPM_MINCORE_REFERENCED;
		if (pte->writable)
			v |= SPM_MINCORE_WRITABLE;
		if (pte->huge)
			v |= SPM_PSIND_2M << SPM_MINCORE_PSIND_SHIFT;
	}
	return v;
}

/* Describe what of [m->addr, end) one slot and one PMD cover. */
static int spm_mincore_round(struct spm_region *r, struct spm_mincore_round *m,
			     unsigned long end)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct spm_object *obj;
	struct mutex *lock;
	pgoff_t pgoff, index;
	unsigned int i, k;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	vma = vma_lookup(mm, m->addr);
	if (!spm_vma_maps(vma, r)) {
		mmap_read_unlock(mm);
		return -ENOMEM;
	}
	pgoff = linear_page_index(vma, m->addr);
	i = pgoff & (SPM_SLOT_PAGES - 1);
	end = min3(end, vma->vm_end, ALIGN(m->addr + 1, PMD_SIZE));
	m->n = min((end - m->addr) >> PAGE_SHIFT,
		   (unsigned long)SPM_SLOT_PAGES - i);
	index = pgoff >> SPM_SLOT_SHIFT;
	obj = spm_map_of(vma)->object;
	lock = obj ? spm_object_find_lock(obj, index) : NULL;
	if (lock && mutex_lock_killable(lock)) {
		mmap_read_unlock(mm);
		return -EINTR;
	}
	spm_pt_read(mm, m->addr, m->n, m->pte);
	bitmap_zero(m->dirty, SPM_SLOT_PAGES);
	if (lock)
		spm_track_dirty(obj, index, m->dirty);
	for (k = 0; k < m->n; k++)
		m->vec[k] = spm_mincore_page(lock && spm_object_page(obj, index,
								     i + k),
					     test_bit(i + k, m->dirty),
					     &m->pte[k]);
	if (lock)
		mutex_unlock(lock);
	mmap_read_unlock(mm);
	return 0;
}

/**
 * spm_mincore() - SPM_IOC_MINCORE
 * @r:	region of the descriptor
 * @m:	arguments, flags checked
 *
 * A snapshot slot by slot; nothing holds the pages still in between.
 *
 * Context: process context, may sleep, no lock held.
 * Return: 0 or a negative errno as the user interface documents it.
 */
int spm_mincore(struct spm_region *r, const struct spm_mincore *m)
{
	u8 __user *vec = u64_to_user_ptr(m->vec);
	struct spm_mincore_round *round;
	int err;

	err = spm_check_range(m->start, m->len);
	if (err || !m->len)
		return err;
	round = kvmalloc_obj(*round, GFP_KERNEL_ACCOUNT);
	if (!round)
		return -ENOMEM;
	round->addr = m->start;
	while (round->addr < m->start + m->len) {
		err = spm_mincore_round(r, round, m->start + m->len);
		if (err)
			break;
		if (copy_to_user(vec, round->vec, round->n)) {
			err = -EFAULT;
			break;
		}
		vec += round->n;
		round->addr += (unsigned long)round->n << PAGE_SHIFT;
		cond_resched();
	}
	kvfree(round);
	return err;
}
