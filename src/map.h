/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Maps: the role of FreeBSD's vm_map_entry.  One map stands for what one mmap
 * made in one mm; the VMAs that come of it by splitting share it.
 */
#ifndef SPM_MAP_H
#define SPM_MAP_H

#include <linux/refcount.h>

#include "pmap.h"
#include "region.h"

/**
 * struct spm_map - one mapping of a region
 * @ref:	one for each VMA, and for whoever looks at it from outside
 * @base:	address that page 0 of the region has, or would have, in it;
 *		constant.  A VMA with another base belongs to another map
 * @region:	alive while a VMA or the looker's region reference is; constant
 * @object:	what it shows: the region's object, or one of its own that shadows
 *		it.  NULL if memory for that ran out during fork.  Constant
 * @pmap:	its entries
 * @moved_from:	map whose entries mremap is about to bring, or NULL; under
 *		mmap_lock for writing
 */
struct spm_map {
	refcount_t ref;
	unsigned long base;
	struct spm_region *region;
	struct spm_object *object;
	struct spm_pmap pmap;
	struct spm_map *moved_from;
};

int spm_map_mmap(struct spm_region *r, struct vm_area_struct *vma);
void spm_map_put(struct spm_map *map);
struct spm_map *spm_map_next(struct spm_region *r, struct spm_map *prev);

static inline struct spm_map *spm_map_of(const struct vm_area_struct *vma)
{
	return vma->vm_private_data;
}

/* MAP_PRIVATE.  VM_SHARED says nothing: we set it, see spm_map_mmap(). */
static inline bool spm_vma_private(const struct vm_area_struct *vma)
{
	return !(vma->vm_flags & VM_MAYSHARE);
}

static inline struct spm_region *spm_vma_region(struct vm_area_struct *vma)
{
	return vma->vm_file->private_data;
}

/*
 * The vm_operations that belong to a map's life; see map.c.
 */
void spm_vma_open(struct vm_area_struct *vma);
void spm_vma_close(struct vm_area_struct *vma);
int spm_vma_mremap(struct vm_area_struct *vma);
int spm_vma_mprotect(struct vm_area_struct *vma, unsigned long start,
		     unsigned long end, unsigned long newflags);
int spm_vma_may_split(struct vm_area_struct *vma, unsigned long addr);

#endif /* SPM_MAP_H */
