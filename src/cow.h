/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changing what an object shows: copies of pages that show through from below,
 * and zeros instead of them.
 */
#ifndef SPM_COW_H
#define SPM_COW_H

#include "object.h"
#include "pmap.h"

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
