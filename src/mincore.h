/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SPM_IOC_MINCORE.
 */
#ifndef SPM_MINCORE_H
#define SPM_MINCORE_H

#include "region.h"

int spm_mincore(struct spm_region *r, const struct spm_mincore *m);

#endif /* SPM_MINCORE_H */
