/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory pressure: reservations that are set aside but mostly empty go back.
 */
#ifndef SPM_RECLAIM_H
#define SPM_RECLAIM_H

#include <linux/types.h>

struct shrinker;

struct shrinker *spm_reclaim_alloc(void);
unsigned long spm_reclaim_cold(int nid, unsigned long budget, u32 age);

#endif /* SPM_RECLAIM_H */
