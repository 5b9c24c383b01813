/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Collapse: merging frozen objects that only one other shadows.
 */
#ifndef SPM_COLLAPSE_H
#define SPM_COLLAPSE_H

#include "object.h"

/**
 * struct spm_moved - what a freeze or a collapse did, for tracepoints
 * @reservs:	reservations that got another owner
 * @pages:	pages copied
 */
struct spm_moved {
	unsigned long reservs;
	unsigned long pages;
};

void spm_family_remove_all(struct spm_family *family, pgoff_t index);
void spm_object_drop(struct spm_object *obj);
void spm_object_collapse(struct spm_object *obj);
void spm_object_put(struct spm_object *obj);

#endif /* SPM_COLLAPSE_H */
