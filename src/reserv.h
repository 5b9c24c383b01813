/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reservations: the memory behind one 2 MB slot of an object.
 *
 * The life of a reservation:
 *
 *   alloc -> partly filled <-> full
 *                 |
 *                 v  (last page depopulated)
 *               free
 *
 * It may change owner, whole, when objects freeze or merge (cow.c).
 *
 * A reservation that found no free 2 MB block is "loose": it holds up to 512
 * single pages instead, is never queued and never mapped by a 2 MB entry, and
 * is in all else the same.
 */
#ifndef SPM_RESERV_H
#define SPM_RESERV_H

#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/list_lru.h>
#include <linux/mm_types.h>
#include <linux/types.h>

#include "policy.h"
#include "pool.h"
#include "stats.h"
#include "trace.h"

struct address_space;
struct mem_cgroup;
struct mutex;
struct shrinker;

/**
 * struct spm_owner - what a reservation and a pmap know of their object
 * @counters:	the region's
 * @region:	its number, for tracepoints
 * @mapping:	folio->mapping: identity for shared futexes, and where the
 *		kernel goes to dirty a page
 * @pool:	where its blocks come from first, and go to; or NULL
 *
 * Constant.
 */
struct spm_owner {
	struct spm_counters *counters;
	u32 region;
	struct address_space *mapping;
	struct spm_pool *pool;
};

/* Bits of spm_reserv_state.flags. */
#define SPM_RV_LOOSE	0x1	/* single pages, no block */
#define SPM_RV_QUEUED	0x2	/* linked in the partly-filled queue */
#define SPM_RV_ACTIVE	0x4	/* changed since it got its place there */
#define SPM_RV_WIRED	0x8	/* paid for in advance: not to be broken */
#define SPM_RV_DEFERRED	0x10	/* full single pages, no block could be had at @tick */

/**
 * union spm_reserv_state - what the scan of the queue wants to know, in a word
 * @popcnt:	populated pages
 * @flags:	SPM_RV_*
 * @tick:	low half of jiffies, at the last change
 * @word:	all of it
 *
 * Read and changed as a whole, as FreeBSD does with the queue state of a page:
 * who holds the slot's lock changes it at will, and the scan, which holds
 * nothing but the queue, takes SPM_RV_ACTIVE away.
 */
union spm_reserv_state {
	struct {
		u16 popcnt;
		u16 flags;
		u32 tick;
	};
	u64 word;
};

/**
 * struct spm_reserv - the memory of one slot
 *
 * Lock key: (c) constant, (s) the slot's lock, (q) list_lru's own lock, (a) by
 * compare-and-swap, see union spm_reserv_state.
 *
 * @owner:	(s) object that it belongs to
 * @index:	(c) slot in that object, and in any that it is given to
 * @lock:	(c) the slot's: the same for all objects of the family
 * @folio:	(s) the block; page i of the slot is its subpage i
 * @pages:	(s) single pages, NULL where unpopulated (SPM_RV_LOOSE)
 * @nid:	(s) NUMA node of the block, NUMA_NO_NODE if loose; constant while
 *		it is queued
 * @grain:	(s) how its stores are to be recorded
 * @ndirty:	(s) bits set in @dirty
 * @state:	(a) how many bits are set in @popmap, and more
 * @partpopq:	(q) link in the partly-filled queue
 * @popmap:	(s) which pages exist
 * @dirty:	(s) which of them are recorded dirty, a subset of @popmap
 * @used:	(s) which pages may hold other bytes than zeros: populated ones that
 *		were stored to or copied, and, of a block, unpopulated ones, which
 *		must be cleared before they are populated
 */
struct spm_reserv {
	const struct spm_owner *owner;
	pgoff_t index;
	struct mutex *lock;
	union {
		struct folio *folio;
		struct page **pages;
	};
	s16 nid;
	struct spm_grain_state grain;
	u16 ndirty;
	union spm_reserv_state state;
	struct list_head partpopq;
	DECLARE_BITMAP(popmap, SPM_SLOT_PAGES);
	DECLARE_BITMAP(dirty, SPM_SLOT_PAGES);
	DECLARE_BITMAP(used, SPM_SLOT_PAGES);
};

/* The price of the bookkeeping: 1/8192 of the memory it keeps. */
static_assert(sizeof(struct spm_reserv) <= 256);

extern struct list_lru spm_partpopq;

int spm_reserv_init(struct shrinker *shrinker);
void spm_reserv_exit(void);

struct spm_reserv *spm_reserv_alloc(const struct spm_owner *owner,
				    pgoff_t index, struct mutex *lock,
				    struct vm_area_struct *vma,
				    unsigned long addr);
struct folio *spm_reserv_spare(void);
void spm_reserv_free(struct spm_reserv *rv);
int spm_reserv_populate(struct spm_reserv *rv, unsigned int i,
			struct vm_area_struct *vma, unsigned long addr,
			enum spm_populate_cause cause);
int spm_reserv_copy(struct spm_reserv *rv, unsigned int i, struct page *from,
		    struct vm_area_struct *vma, unsigned long addr,
		    enum spm_populate_cause cause);
int spm_reserv_dup(struct spm_reserv *to, const struct spm_reserv *from,
		   unsigned int i, enum spm_populate_cause cause);
void spm_reserv_depopulate(struct spm_reserv *rv, unsigned int i);
void spm_reserv_move_page(struct spm_reserv *to, struct spm_reserv *from,
			  unsigned int i);
void spm_reserv_give(struct spm_reserv *rv, const struct spm_owner *owner);
struct mem_cgroup *spm_folio_memcg_get(struct folio *folio);
void spm_reserv_break(struct spm_reserv *rv, struct page **pages);
struct folio *spm_reserv_block(const struct spm_reserv *rv,
			       struct vm_area_struct *vma, unsigned long addr);
void spm_reserv_mend(struct spm_reserv *rv, struct folio *folio);
void spm_reserv_defer(struct spm_reserv *rv);
bool spm_reserv_second_chance(struct spm_reserv *rv);
bool spm_reserv_pinned(const struct spm_reserv *rv);
bool spm_reserv_held(const struct spm_reserv *rv, unsigned int i);
void spm_reserv_set_dirty(struct spm_reserv *rv, unsigned int i);
void spm_reserv_set_all_dirty(struct spm_reserv *rv);
void spm_reserv_clear_dirty(struct spm_reserv *rv, unsigned int first,
			    unsigned int end);

#if IS_ENABLED(CONFIG_KUNIT)
struct folio *spm_folio_alloc(gfp_t gfp, int order, struct vm_area_struct *vma,
			      unsigned long addr);
#endif

/**
 * spm_reserv_state() - one look at a reservation
 * @rv: reservation that cannot be freed meanwhile: its slot is locked, or it is
 *	queued and the queue is
 *
 * Context: any.
 * Return: the state.
 */
static inline union spm_reserv_state
spm_reserv_state(const struct spm_reserv *rv)
{
	return (union spm_reserv_state){ .word = READ_ONCE(rv->state.word) };
}

static inline unsigned int spm_reserv_popcnt(const struct spm_reserv *rv)
{
	return spm_reserv_state(rv).popcnt;
}

static inline bool spm_reserv_loose(const struct spm_reserv *rv)
{
	return spm_reserv_state(rv).flags & SPM_RV_LOOSE;
}

static inline bool spm_reserv_queued(const struct spm_reserv *rv)
{
	return spm_reserv_state(rv).flags & SPM_RV_QUEUED;
}

static inline bool spm_reserv_full(const struct spm_reserv *rv)
{
	return spm_reserv_popcnt(rv) == SPM_SLOT_PAGES;
}

static inline bool spm_reserv_populated(const struct spm_reserv *rv,
					unsigned int i)
{
	return test_bit(i, rv->popmap);
}

static inline bool spm_reserv_dirty(const struct spm_reserv *rv, unsigned int i)
{
	return test_bit(i, rv->dirty);
}

/**
 * spm_reserv_page() - the page behind one index of a slot
 * @rv:	reservation, slot lock held
 * @i:	index of a populated page
 *
 * Return: the page.
 */
static inline struct page *spm_reserv_page(const struct spm_reserv *rv,
					   unsigned int i)
{
	return spm_reserv_loose(rv) ? rv->pages[i] : folio_page(rv->folio, i);
}

#endif /* SPM_RESERV_H */
