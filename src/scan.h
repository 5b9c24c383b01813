/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SPM_IOC_GET_DIRTY and SPM_IOC_GET_REFERENCED.
 */
#ifndef SPM_SCAN_H
#define SPM_SCAN_H

#include "region.h"

int spm_get_dirty(struct spm_region *r, struct spm_scan *a,
		  struct spm_region *since, bool write);
int spm_get_referenced(struct spm_region *r, struct spm_scan *a, bool write);

#endif /* SPM_SCAN_H */
