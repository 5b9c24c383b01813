// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks that a region paid for in advance, as hugetlbfs reserves pages: who
 * cannot do without learns it at once, from SET_SIZE, and not from a fault.
 *
 * They are charged to whoever asks for them, and are of no use to anybody else:
 * reclaim does not break reservations that have one.  A snapshot takes the
 * reservations of its source along; what the source then stores needs blocks
 * beyond those paid for.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <kunit/visibility.h>

#include "pool.h"
#include "reserv.h"

/**
 * spm_pool_init() - an empty pool, of which nothing is expected
 * @pool: to be set up
 */
void spm_pool_init(struct spm_pool *pool)
{
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->blocks);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pool_init);

/* With the lock held, but @held may change: a block more or less, for a moment. */
static unsigned long spm_pool_size(struct spm_pool *pool)
{
	return pool->free + atomic_long_read(&pool->held);
}

/* Put a block in if there is room.  @used: it may hold other bytes than zeros. */
static bool spm_pool_put(struct spm_pool *pool, const struct spm_counters *c,
			 struct folio *folio, bool used)
{
	bool room;

	spin_lock(&pool->lock);
	room = spm_pool_size(pool) < pool->target;
	if (room) {
		folio->private = (void *)used;
		list_add(&folio->lru, &pool->blocks);
		pool->free++;
		spm_count(c, reserv_pool);
	}
	spin_unlock(&pool->lock);
	return room;
}

static struct folio *spm_pool_get(struct spm_pool *pool,
				  const struct spm_counters *c, bool surplus)
{
	struct folio *folio = NULL;

	spin_lock(&pool->lock);
	if (!surplus || spm_pool_size(pool) > pool->target)
		folio = list_first_entry_or_null(&pool->blocks, struct folio,
						 lru);
	if (folio) {
		list_del(&folio->lru);
		pool->free--;
		spm_count_n(c, reserv_pool, -1);
	}
	spin_unlock(&pool->lock);
	return folio;
}

static bool spm_pool_short(struct spm_pool *pool)
{
	bool is;

	spin_lock(&pool->lock);
	is = spm_pool_size(pool) < pool->target;
	spin_unlock(&pool->lock);
	return is;
}

static void spm_pool_trim(struct spm_pool *pool, const struct spm_counters *c)
{
	struct folio *folio;

	while ((folio = spm_pool_get(pool, c, true))) {
		folio->private = NULL;
		folio_put(folio);
		spm_count(c, reserv_freed);
		cond_resched();
	}
}

static unsigned long spm_pool_aim(struct spm_pool *pool, unsigned long target)
{
	unsigned long old;

	spin_lock(&pool->lock);
	old = pool->target;
	WRITE_ONCE(pool->target, target);
	spin_unlock(&pool->lock);
	return old;
}

/**
 * spm_pool_resize() - have so many blocks, those in use included
 * @pool:	pool
 * @c:		counters of its region
 * @target:	how many; 0 gives all back that are not in use
 *
 * Context: process context, may sleep; serialised by the caller.
 * Return: 0; -ENOMEM or -EINTR (being killed) with the pool as it was.
 */
int spm_pool_resize(struct spm_pool *pool, const struct spm_counters *c,
		    unsigned long target)
{
	unsigned long old = spm_pool_aim(pool, target);
	int err = 0;

	while (!err && spm_pool_short(pool)) {
		struct folio *folio = spm_reserv_spare();

		if (!folio) {
			err = -ENOMEM;
			break;
		}
		spm_count(c, reserv_allocated);
		/* Somebody gave one back meanwhile. */
		if (!spm_pool_put(pool, c, folio,
				  !want_init_on_alloc(GFP_HIGHUSER))) {
			folio_put(folio);
			spm_count(c, reserv_freed);
		}
		if (fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	if (err)
		spm_pool_aim(pool, old);
	spm_pool_trim(pool, c);
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pool_resize);

/**
 * spm_pool_take() - a block for a new reservation
 * @pool:	of its object
 * @c:		counters of its region
 * @used:	set if it may hold other bytes than zeros
 *
 * Context: slot lock held.
 * Return: the block, not counted as held yet; NULL if there is none.
 */
struct folio *spm_pool_take(struct spm_pool *pool, const struct spm_counters *c,
			    bool *used)
{
	struct folio *folio;

	/* Most regions have none. */
	if (!READ_ONCE(pool->target))
		return NULL;
	folio = spm_pool_get(pool, c, false);
	if (!folio)
		return NULL;
	*used = folio->private;
	folio->private = NULL;
	return folio;
}

/**
 * spm_pool_give() - where a block goes that is not needed any more
 * @pool:	pool
 * @c:		counters of its region
 * @folio:	block that nobody maps, with one reference of ours; not counted as
 *		held any more
 *
 * Context: slot lock held, or the object is dying.
 * Return: true if the pool took it.
 */
bool spm_pool_give(struct spm_pool *pool, const struct spm_counters *c,
		   struct folio *folio)
{
	/* Whoever has pinned it may go on storing to it: not our next user's. */
	if (!READ_ONCE(pool->target) || !folio_ref_freeze(folio, 1))
		return false;
	folio_ref_unfreeze(folio, 1);
	return spm_pool_put(pool, c, folio, true);
}
