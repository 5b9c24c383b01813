/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Freezing: how an object comes to shadow another.
 */
#ifndef SPM_FREEZE_H
#define SPM_FREEZE_H

#include "object.h"

int spm_cow_shadow(struct spm_object *obj, struct spm_object *side,
		   enum spm_freeze_cause cause);
void spm_cow_map_private(struct spm_object *obj, struct spm_object *side);
struct spm_object *spm_cow_forked(struct spm_object *obj,
				  const struct mm_struct *mm);
void spm_object_use(struct spm_object *obj);

#endif /* SPM_FREEZE_H */
