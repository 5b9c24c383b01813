/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copy on write: freezing an object for another that shadows it, copying pages
 * up, merging what only one is left to use.
 */
#ifndef SPM_COW_H
#define SPM_COW_H

#include "object.h"
#include "pmap.h"

int spm_cow_shadow(struct spm_object *obj, struct spm_object *side,
		   enum spm_freeze_cause cause);
void spm_cow_map_private(struct spm_object *obj, struct spm_object *side);
struct spm_object *spm_cow_forked(struct spm_object *obj,
				  const struct mm_struct *mm);
void spm_object_use(struct spm_object *obj);
void spm_object_put(struct spm_object *obj);

int spm_cow_page(struct spm_object *obj, struct spm_slot *slot,
		 struct spm_reserv *src, unsigned int i,
		 const struct spm_place *pl);
int spm_cow_slot(struct spm_object *obj, struct spm_slot *slot,
		 const struct spm_place *pl);

bool spm_object_alone(const struct spm_object *obj);
int spm_cow_discard(struct spm_object *obj, pgoff_t first, pgoff_t end,
		    struct spm_pmap *pm, const struct spm_place *pl);
void spm_cow_truncate(struct spm_object *obj, pgoff_t end);

#endif /* SPM_COW_H */
