// SPDX-License-Identifier: GPL-2.0
/*
 * The scan of the queue of partly filled reservations, FreeBSD's
 * vm_reserv_reclaim_inactive(), as a shrinker.
 *
 * While it looks, the scan holds the lock of one node's and cgroup's list, which
 * a fault takes twice in the life of a reservation.  It reads one word of each,
 * and tries the lock of the slot of those it wants: whoever has that one goes
 * on, and the scan passes by.  Once it has a slot, it holds nothing else.
 */
#include <linux/jiffies.h>
#include <linux/list_lru.h>
#include <linux/sched.h>
#include <linux/shrinker.h>
#include <linux/swap.h>
#include <kunit/visibility.h>

#include "evacuate.h"
#include "reclaim.h"

/* Reservations that one call looks at, at most. */
#define SPM_SCAN_LOOKS	128UL

/**
 * struct spm_scan_queue - one pass over a part of the queue
 * @age:	what changed more recently, in ticks, is passed over
 * @victim:	found, with its slot locked; or NULL
 * @active:	how many got a second chance
 */
struct spm_scan_queue {
	u32 age;
	struct spm_reserv *victim;
	unsigned int active;
};

/*
 * Called with the list locked, so nothing that is in it can be freed: a
 * reservation is taken out first.  Hence the lock of its slot exists, too.
 */
static enum lru_status spm_scan_look(struct list_head *item,
				     struct list_lru_one *list, void *arg)
{
	struct spm_reserv *rv = container_of(item, struct spm_reserv, partpopq);
	struct spm_scan_queue *q = arg;
	union spm_reserv_state s;

	spm_count_global(reclaim_looks);
	if (spm_reserv_second_chance(rv)) {
		q->active++;
		spm_count_global(reclaim_active);
		return LRU_ROTATE;
	}
	s = spm_reserv_state(rv);
	if (s.flags & SPM_RV_WIRED ||
	    !spm_policy_break(s.popcnt, (u32)jiffies - s.tick, q->age))
		return LRU_ROTATE;
	if (!mutex_trylock(rv->lock)) {
		spm_count_global(reclaim_busy);
		return LRU_ROTATE;
	}
	q->victim = rv;
	/* If it cannot be broken, it must not be in the way of the others. */
	list_move_tail(item, &list->list);
	/* Whoever ends the walk gives the list up. */
	spin_unlock(&list->lock);
	return LRU_STOP;
}

/*
 * Break a reservation whose slot is locked, and unlock that.  Returns the pages
 * that are free now and were not before.
 */
static unsigned int spm_scan_break(struct spm_reserv *rv,
				   enum spm_evacuate_cause cause)
{
	/* Its object lives as long as it has a slot that we have locked. */
	struct spm_object *obj = container_of(rv->owner, struct spm_object,
					      owner);
	struct spm_family *family = obj->family;
	struct mutex *lock = rv->lock;
	unsigned int empty = 0, popcnt = spm_reserv_popcnt(rv);

	/* The lock is the family's, and must not go before it is unlocked. */
	refcount_inc(&family->ref);
	if (!spm_evacuate(obj, rv, cause))
		empty = SPM_SLOT_PAGES - popcnt;
	mutex_unlock(lock);
	spm_family_put(family);
	return empty;
}

static unsigned long spm_shrink_count(struct shrinker *shrinker,
				      struct shrink_control *sc)
{
	unsigned long n = list_lru_shrink_count(&spm_partpopq, sc);

	/* In pages.  An estimate: the scan knows how many are empty. */
	return n ? n * SPM_SLOT_PAGES : SHRINK_EMPTY;
}

/* Gives back sc->nr_to_scan pages, or as many as it finds in a bounded look. */
static unsigned long spm_shrink_scan(struct shrinker *shrinker,
				     struct shrink_control *sc)
{
	unsigned long looks = SPM_SCAN_LOOKS, freed = 0;
	struct spm_scan_queue q = { };

	/* Reverse maps are walked, which wait for whoever holds their locks. */
	if (!(sc->gfp_mask & __GFP_FS))
		return SHRINK_STOP;
	do {
		q.victim = NULL;
		list_lru_walk_one(&spm_partpopq, sc->nid, sc->memcg,
				  spm_scan_look, &q, &looks);
		if (q.victim)
			freed += spm_scan_break(q.victim,
						SPM_EVACUATE_PRESSURE);
	} while (q.victim && freed < sc->nr_to_scan);
	/* For the allocation that waits: this is progress. */
	mm_account_reclaimed_pages(freed);
	/* Whoever had a second chance may be taken the next time. */
	return freed || q.active ? freed : SHRINK_STOP;
}

/**
 * spm_reclaim_cold() - break reservations that have not changed for long
 * @nid:	of which node
 * @budget:	pages to copy; the last reservation may take it a little beyond
 * @age:	ticks without a change that make a reservation cold
 *
 * Context: process context, may sleep.
 * Return: how many pages were copied.
 */
unsigned long spm_reclaim_cold(int nid, unsigned long budget, u32 age)
{
	unsigned long looks = SPM_SCAN_LOOKS, copied = 0;
	struct spm_scan_queue q = { .age = age };

	do {
		unsigned int popcnt;

		q.victim = NULL;
		list_lru_walk_node(&spm_partpopq, nid, spm_scan_look, &q,
				   &looks);
		if (!q.victim)
			break;
		popcnt = spm_reserv_popcnt(q.victim);
		if (spm_scan_break(q.victim, SPM_EVACUATE_WORKER))
			copied += popcnt;
		cond_resched();
	} while (copied < budget);
	return copied;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reclaim_cold);

/**
 * spm_reclaim_alloc() - the shrinker, not registered yet
 *
 * Context: module init; spm_reserv_init() has to follow.
 * Return: the shrinker, or NULL without memory.
 */
struct shrinker *spm_reclaim_alloc(void)
{
	struct shrinker *s;

	s = shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE,
			   "superpmap");
	if (!s)
		return NULL;
	s->count_objects = spm_shrink_count;
	s->scan_objects = spm_shrink_scan;
	/* One reservation, if nothing is in the way. */
	s->batch = SPM_SLOT_PAGES;
	s->seeks = DEFAULT_SEEKS;
	return s;
}
