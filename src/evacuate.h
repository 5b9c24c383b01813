/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Moving the memory of a slot.
 */
#ifndef SPM_EVACUATE_H
#define SPM_EVACUATE_H

#include "object.h"

int spm_evacuate(struct spm_object *obj, struct spm_reserv *rv,
		 enum spm_evacuate_cause cause);
int spm_reassemble(struct spm_object *obj, struct spm_reserv *rv,
		   struct vm_area_struct *vma, unsigned long addr,
		   enum spm_evacuate_cause cause);
bool spm_reassemble_due(const struct spm_reserv *rv);

#if IS_ENABLED(CONFIG_KUNIT)
struct page **spm_pages_alloc(const struct spm_reserv *rv);
#endif

#endif /* SPM_EVACUATE_H */
