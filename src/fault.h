/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults: how a page comes to be, and which entry maps it.
 */
#ifndef SPM_FAULT_H
#define SPM_FAULT_H

#include "map.h"

extern const struct vm_operations_struct spm_vm_ops;

/* Is it a mapping of ours; and of this region?  @vma may be NULL. */
static inline bool spm_vma_is_ours(const struct vm_area_struct *vma)
{
	return vma && vma->vm_ops == &spm_vm_ops;
}

static inline bool spm_vma_maps(struct vm_area_struct *vma,
				const struct spm_region *r)
{
	return spm_vma_is_ours(vma) && spm_vma_region(vma) == r;
}

void spm_fault_fill(struct spm_object *obj, const struct spm_place *pl,
		    struct spm_reserv *rv, enum spm_populate_cause cause);
void spm_fault_uncover(struct spm_map *map, const struct spm_place *pl,
		       struct spm_reserv *src, unsigned int first,
		       unsigned int end, enum spm_pmd_state pmd);

#endif /* SPM_FAULT_H */
