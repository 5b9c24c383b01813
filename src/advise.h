/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SPM_IOC_ADVISE.
 */
#ifndef SPM_ADVISE_H
#define SPM_ADVISE_H

#include "region.h"

int spm_check_range(u64 start, u64 len);
int spm_advise(struct spm_region *r, const struct spm_advise *a, bool write);

#endif /* SPM_ADVISE_H */
