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
#include "stats.h"
#include "trace.h"

struct address_space;

/**
 * struct spm_owner - what a reservation and a pmap know of their object
 * @counters:	the region's
 * @region:	its number, for tracepoints
 * @mapping:	folio->mapping: identity for shared futexes, and where the
 *		kernel goes to dirty a page
 *
 * Constant.
 */
struct spm_owner {
	struct spm_counters *counters;
	u32 region;
	struct address_space *mapping;
};

/* Bits of spm_reserv.flags. */
enum {
	SPM_RV_LOOSE,	/* single pages, no block; constant */
	SPM_RV_QUEUED,	/* in the partly-filled queue */
};

/**
 * struct spm_reserv - the memory of one slot
 *
 * Lock key: (c) constant, (s) the slot's lock, (q) list_lru's own lock, and
 * SPM_RV_QUEUED, changed under the slot's lock, says whether it is linked.
 *
 * @owner:	(s) object that it belongs to
 * @index:	(s) slot in that object
 * @folio:	(c) the block; page i of the slot is its subpage i
 * @pages:	(s) single pages, NULL where unpopulated (SPM_RV_LOOSE)
 * @nid:	(c) NUMA node of the block, NUMA_NO_NODE if loose
 * @grain:	(s) how its stores are to be recorded
 * @popcnt:	(s) bits set in @popmap
 * @ndirty:	(s) bits set in @dirty
 * @flags:	(s) SPM_RV_*
 * @lasttick:	(s) jiffies of the last change that moved it in the queue
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
	union {
		struct folio *folio;
		struct page **pages;
	};
	s16 nid;
	struct spm_grain_state grain;
	u16 popcnt;
	u16 ndirty;
	unsigned long flags;
	unsigned long lasttick;
	struct list_head partpopq;
	DECLARE_BITMAP(popmap, SPM_SLOT_PAGES);
	DECLARE_BITMAP(dirty, SPM_SLOT_PAGES);
	DECLARE_BITMAP(used, SPM_SLOT_PAGES);
};

/* The price of the bookkeeping: 1/8192 of the memory it keeps. */
static_assert(sizeof(struct spm_reserv) <= 256);

extern struct list_lru spm_partpopq;

int spm_reserv_init(void);
void spm_reserv_exit(void);

struct spm_reserv *spm_reserv_alloc(const struct spm_owner *owner,
				    pgoff_t index, struct vm_area_struct *vma,
				    unsigned long addr);
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

static inline bool spm_reserv_loose(const struct spm_reserv *rv)
{
	return test_bit(SPM_RV_LOOSE, &rv->flags);
}

static inline unsigned int spm_reserv_popcnt(const struct spm_reserv *rv)
{
	return rv->popcnt;
}

static inline bool spm_reserv_full(const struct spm_reserv *rv)
{
	return rv->popcnt == SPM_SLOT_PAGES;
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
