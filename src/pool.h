/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Blocks that a region paid for in advance.
 */
#ifndef SPM_POOL_H
#define SPM_POOL_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/spinlock.h>

#include "stats.h"

struct folio;

/**
 * struct spm_pool - blocks set aside for one object, before any slot needs them
 * @lock:	protects @blocks and @free, and changes of @target; innermost, taken
 *		under slot locks in the regions that asked for blocks only
 * @blocks:	free ones, linked by folio->lru
 * @free:	how many
 * @target:	what @free and @held are to be together, or 0
 * @held:	blocks that reservations of the object have; changes twice in the
 *		life of a reservation
 *
 * A block that comes back goes in again as long as that is short of @target.
 */
struct spm_pool {
	spinlock_t lock; /* all of it */
	struct list_head blocks;
	unsigned long free;
	unsigned long target;
	atomic_long_t held;
};

void spm_pool_init(struct spm_pool *pool);
int spm_pool_resize(struct spm_pool *pool, const struct spm_counters *c,
		    unsigned long target);
struct folio *spm_pool_take(struct spm_pool *pool, const struct spm_counters *c,
			    bool *used);
bool spm_pool_give(struct spm_pool *pool, const struct spm_counters *c,
		   struct folio *folio);

#endif /* SPM_POOL_H */
