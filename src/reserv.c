// SPDX-License-Identifier: GPL-2.0
/*
 * Reservations, after FreeBSD's sys/vm/vm_reserv.c.
 *
 * The caller holds the lock of the slot in every function here: nobody else
 * reads or changes the reservation meanwhile.
 */
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "reserv.h"

/*
 * A short attempt at compaction for the block, then single pages: a program must
 * not wait long, and not fail, because memory is fragmented.  Charged to the
 * memory cgroup of the task that touches the slot.  Not movable: entries made
 * from these folios are ours to find, not the migration code's.
 */
#define SPM_GFP_BLOCK	(GFP_HIGHUSER | __GFP_ACCOUNT |		\
			 __GFP_NOMEMALLOC | __GFP_NORETRY | __GFP_NOWARN)
#define SPM_GFP_PAGE	(GFP_HIGHUSER | __GFP_ACCOUNT)

/*
 * Partly filled reservations that have a block, one list per NUMA node and memory
 * cgroup.  A change does not move a reservation in it; the scan does, when it
 * comes to one that changed since (SPM_RV_ACTIVE): a second chance, as for pages.
 * So what it takes away first is, nearly, what changed least recently, and a
 * fault makes no request to the queue: a reservation goes in with its first page
 * and out with its last, or when it is full.
 */
struct list_lru spm_partpopq;
EXPORT_SYMBOL_IF_KUNIT(spm_partpopq);

static struct kmem_cache *spm_reserv_cache;

/**
 * spm_reserv_init() - set up what all reservations share
 * @shrinker:	that scans the queue
 *
 * Context: module init.
 * Return: 0 or -ENOMEM.
 */
int spm_reserv_init(struct shrinker *shrinker)
{
	int err;

	BUILD_BUG_ON(SPM_SLOT_SHIFT != PMD_ORDER);
	spm_reserv_cache = KMEM_CACHE(spm_reserv, SLAB_ACCOUNT);
	if (!spm_reserv_cache)
		return -ENOMEM;
	err = list_lru_init_memcg(&spm_partpopq, shrinker);
	if (err)
		kmem_cache_destroy(spm_reserv_cache);
	return err;
}

/**
 * spm_reserv_exit() - undo spm_reserv_init()
 *
 * Context: module exit; no reservation is left.
 */
void spm_reserv_exit(void)
{
	list_lru_destroy(&spm_partpopq);
	kmem_cache_destroy(spm_reserv_cache);
}

/*
 * A change by who holds the slot's lock: @pages more populated, @set and @clear
 * flags.  One within the tick in which the reservation was queued does not make
 * it active: its place says as much.
 */
static void spm_reserv_change(struct spm_reserv *rv, int pages, u16 set,
			      u16 clear)
{
	union spm_reserv_state old = spm_reserv_state(rv), new;

	do {
		new = old;
		new.popcnt += pages;
		new.flags = (old.flags | set) & ~clear;
		new.tick = jiffies;
		if (pages)
			new.flags &= ~SPM_RV_DEFERRED;
		if (pages && old.flags & SPM_RV_QUEUED && new.tick != old.tick)
			new.flags |= SPM_RV_ACTIVE;
	} while (!try_cmpxchg(&rv->state.word, &old.word, new.word));
}

/*
 * Bring the queue up to date after a change: what is partly filled is always in
 * it, so that nothing is invisible to reclaim (FreeBSD forgets a full reservation
 * that loses a page within the tick of its last change).
 */
static void spm_reserv_requeue(struct spm_reserv *rv)
{
	union spm_reserv_state s = spm_reserv_state(rv);
	bool belongs = s.popcnt && s.popcnt < SPM_SLOT_PAGES &&
		       !(s.flags & SPM_RV_LOOSE);
	struct mem_cgroup *memcg;

	if (belongs == !!(s.flags & SPM_RV_QUEUED))
		return;
	/* A cgroup may go meanwhile; its list goes to the parent then. */
	rcu_read_lock();
	memcg = folio_memcg(rv->folio);
	if (belongs)
		list_lru_add(&spm_partpopq, &rv->partpopq, rv->nid, memcg);
	else
		list_lru_del(&spm_partpopq, &rv->partpopq, rv->nid, memcg);
	rcu_read_unlock();
	if (belongs)
		spm_reserv_change(rv, 0, SPM_RV_QUEUED, 0);
	else
		spm_reserv_change(rv, 0, 0, SPM_RV_QUEUED | SPM_RV_ACTIVE);
	spm_count_n(rv->owner->counters, reserv_partpopq, belongs ? 1 : -1);
}

VISIBLE_IF_KUNIT struct folio *spm_folio_alloc(gfp_t gfp, int order,
					       struct vm_area_struct *vma,
					       unsigned long addr)
{
	KUNIT_STATIC_STUB_REDIRECT(spm_folio_alloc, gfp, order, vma, addr);
	if (vma)
		return vma_alloc_folio(gfp, order, vma, addr);
	return folio_alloc(gfp, order);
}
EXPORT_SYMBOL_IF_KUNIT(spm_folio_alloc);

/*
 * The inode mapping makes the folio a file page to the kernel: reverse map,
 * shared futex keys and dirtying by get_user_pages() all go through it.
 */
static void spm_folio_attach(struct folio *folio, const struct spm_owner *owner,
			     pgoff_t pgoff)
{
	folio->mapping = owner->mapping;
	folio->index = pgoff;
}

/*
 * The memory is not the object's any more.  Whoever pinned the folio may still
 * dirty it; the folio lock makes set_page_dirty_lock() see either the live
 * mapping or none, as truncation does.
 */
static struct folio *spm_folio_detach(struct folio *folio)
{
	unsigned int tries;

	/*
	 * All entries are gone, but whoever took one away at the same time
	 * (munmap, MADV_DONTNEED, exit) may not have counted it yet; it does so
	 * under the page-table lock, or right after its TLB flush.
	 */
	for (tries = 0; folio_mapped(folio) && tries < 1000; tries++)
		usleep_range(10, 20);
	WARN_ONCE(folio_mapped(folio), "superpmap: folio freed while mapped\n");
	folio_lock(folio);
	folio->mapping = NULL;
	folio_unlock(folio);
	return folio;
}

static void spm_folio_release(struct folio *folio)
{
	folio_put(spm_folio_detach(folio));
}

/* The owner has a block more, which its pool counts. */
static void spm_block_adopt(struct spm_reserv *rv)
{
	struct spm_pool *pool = rv->owner->pool;

	if (!pool)
		return;
	atomic_long_inc(&pool->held);
	if (READ_ONCE(pool->target))
		spm_reserv_change(rv, 0, SPM_RV_WIRED, 0);
}

static void spm_block_part(struct spm_reserv *rv)
{
	if (rv->owner->pool)
		atomic_long_dec(&rv->owner->pool->held);
	spm_reserv_change(rv, 0, 0, SPM_RV_WIRED);
}

/* Memory of our own that no page table has: back to the pool, or the system. */
static void spm_block_put(const struct spm_owner *owner, struct folio *folio)
{
	if (owner->pool && spm_pool_give(owner->pool, owner->counters, folio))
		return;
	folio_put(folio);
	spm_count(owner->counters, reserv_freed);
}

static struct spm_reserv *spm_reserv_new(gfp_t more)
{
	struct spm_reserv *rv;

	rv = kmem_cache_alloc_lru(spm_reserv_cache, &spm_partpopq,
				  GFP_KERNEL | __GFP_ZERO | more);
	if (!rv)
		return NULL;
	/* One interval of whole slots, then a look. */
	rv->grain = (struct spm_grain_state){ .coarse = 1, .patience = 1 };
	INIT_LIST_HEAD(&rv->partpopq);
	return rv;
}

/**
 * spm_reserv_alloc() - set memory aside for a slot
 * @owner:	object
 * @index:	slot
 * @lock:	the slot's
 * @vma:	mapping whose memory policy counts, or NULL for the task's
 * @addr:	faulting address in @vma
 *
 * A loose reservation comes back when there is no 2 MB block.
 *
 * Context: process context, may sleep; slot lock held.
 * Return: the reservation, no page populated, or NULL without memory.
 */
struct spm_reserv *spm_reserv_alloc(const struct spm_owner *owner,
				    pgoff_t index, struct mutex *lock,
				    struct vm_area_struct *vma,
				    unsigned long addr)
{
	const struct spm_counters *c = owner->counters;
	struct mem_cgroup *memcg, *old;
	struct spm_reserv *rv;
	bool used;

	/*
	 * One cgroup for both, wherever the task is moved meanwhile: the first
	 * allocation makes its list, on which the second will be found.
	 */
	memcg = get_mem_cgroup_from_mm(current->mm);
	old = set_active_memcg(memcg);
	rv = spm_reserv_new(0);
	if (rv && owner->pool)
		rv->folio = spm_pool_take(owner->pool, c, &used);
	if (rv && !rv->folio) {
		rv->folio = spm_folio_alloc(SPM_GFP_BLOCK, PMD_ORDER, vma, addr);
		used = !want_init_on_alloc(SPM_GFP_BLOCK);
		spm_count_n(c, reserv_allocated, !!rv->folio);
	}
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	if (!rv)
		return NULL;
	rv->owner = owner;
	rv->index = index;
	rv->lock = lock;
	if (rv->folio) {
		rv->nid = folio_nid(rv->folio);
		spm_folio_attach(rv->folio, owner, index << SPM_SLOT_SHIFT);
		if (used)
			bitmap_fill(rv->used, SPM_SLOT_PAGES);
		spm_block_adopt(rv);
		spm_count(c, reserv_live);
		spm_count_n(c, reserv_empty, SPM_SLOT_PAGES);
	} else {
		rv->pages = kzalloc_objs(*rv->pages, SPM_SLOT_PAGES,
					 GFP_KERNEL_ACCOUNT);
		if (!rv->pages) {
			kmem_cache_free(spm_reserv_cache, rv);
			return NULL;
		}
		rv->nid = NUMA_NO_NODE;
		spm_reserv_change(rv, 0, SPM_RV_LOOSE, 0);
		spm_count(c, reserv_unavailable);
	}
	trace_spm_reserv_alloc(owner->region, index, rv->nid, 0);
	return rv;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_alloc);

/**
 * spm_reserv_free() - give a reservation back
 * @rv:	without populated pages
 *
 * Context: process context, may sleep; slot lock held, or the object is dying.
 */
void spm_reserv_free(struct spm_reserv *rv)
{
	const struct spm_counters *c = rv->owner->counters;

	if (WARN_ONCE(spm_reserv_popcnt(rv),
		      "superpmap: slot %lu freed with %u pages\n", rv->index,
		      spm_reserv_popcnt(rv)))
		return;
	trace_spm_reserv_free(rv->owner->region, rv->index, rv->nid, 0);
	if (spm_reserv_loose(rv)) {
		kfree(rv->pages);
	} else {
		spm_block_part(rv);
		spm_block_put(rv->owner, spm_folio_detach(rv->folio));
		spm_count_n(c, reserv_live, -1);
		spm_count_n(c, reserv_empty, -(long)SPM_SLOT_PAGES);
	}
	kmem_cache_free(spm_reserv_cache, rv);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_free);

/* The memory of a page that is, or was to be, populated: gone, or used. */
static void spm_reserv_drop_page(struct spm_reserv *rv, unsigned int i)
{
	if (!spm_reserv_loose(rv)) {
		__set_bit(i, rv->used);
		return;
	}
	spm_folio_release(page_folio(rv->pages[i]));
	rv->pages[i] = NULL;
	__clear_bit(i, rv->used);
	spm_count_n(rv->owner->counters, loose, -1);
}

static int spm_reserv_populate_loose(struct spm_reserv *rv, unsigned int i,
				     gfp_t gfp, struct vm_area_struct *vma,
				     unsigned long addr)
{
	struct folio *folio = spm_folio_alloc(gfp, 0, vma, addr);

	if (!folio)
		return -ENOMEM;
	spm_folio_attach(folio, rv->owner, (rv->index << SPM_SLOT_SHIFT) + i);
	rv->pages[i] = &folio->page;
	spm_count(rv->owner->counters, loose);
	return 0;
}

/* The page has its content: it exists from now on. */
static void spm_reserv_add(struct spm_reserv *rv, unsigned int i, bool cleared,
			   enum spm_populate_cause cause)
{
	const struct spm_counters *c = rv->owner->counters;

	spm_count_n(c, reserv_empty, -(long)!spm_reserv_loose(rv));
	__set_bit(i, rv->popmap);
	spm_reserv_change(rv, 1, 0, 0);
	spm_count(c, populated);
	spm_count(c, pages);
	trace_spm_populate(rv->owner->region, (rv->index << SPM_SLOT_SHIFT) + i,
			   1, cleared, cause);
	if (spm_reserv_full(rv)) {
		spm_count_n(c, reserv_fullpop, !spm_reserv_loose(rv));
		trace_spm_reserv_full(rv->owner->region, rv->index, rv->nid,
				      SPM_SLOT_PAGES);
	}
	spm_reserv_requeue(rv);
}

/**
 * spm_reserv_populate() - make one page exist, reading as zeros
 * @rv:		reservation
 * @i:		index of a page that is not populated
 * @vma:	as for spm_reserv_alloc(), for single pages
 * @addr:	the page's address in @vma
 * @cause:	for the tracepoint
 *
 * Each page is cleared exactly once before it can be mapped: by the allocator,
 * or here if it was used.
 *
 * Context: process context, may sleep; slot lock held.
 * Return: 0, -ENOMEM (single pages only), or -EEXIST with a warning when the
 * page is populated already.
 */
int spm_reserv_populate(struct spm_reserv *rv, unsigned int i,
			struct vm_area_struct *vma, unsigned long addr,
			enum spm_populate_cause cause)
{
	bool cleared = false;

	if (WARN_ONCE(spm_reserv_populated(rv, i),
		      "superpmap: slot %lu page %u populated twice\n",
		      rv->index, i))
		return -EEXIST;
	if (spm_reserv_loose(rv)) {
		int err = spm_reserv_populate_loose(rv, i,
						    SPM_GFP_PAGE | __GFP_ZERO,
						    vma, addr);

		if (err)
			return err;
	} else {
		cleared = __test_and_clear_bit(i, rv->used);
		if (cleared) {
			clear_highpage(spm_reserv_page(rv, i));
			spm_count(rv->owner->counters, zeroed);
		}
	}
	spm_reserv_add(rv, i, cleared, cause);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_populate);

/**
 * spm_reserv_copy() - make one page exist, as a copy of another
 * @rv:		reservation
 * @i:		index of a page that is not populated
 * @from:	what to copy
 * @vma:	as for spm_reserv_alloc(), for single pages
 * @addr:	the page's address in @vma
 * @cause:	for the tracepoint
 *
 * Context: process context, may sleep; slot lock held.
 * Return: 0; -ENOMEM (single pages only); -EHWPOISON when @from cannot be read;
 * -EEXIST with a warning when the page is populated already.
 */
int spm_reserv_copy(struct spm_reserv *rv, unsigned int i, struct page *from,
		    struct vm_area_struct *vma, unsigned long addr,
		    enum spm_populate_cause cause)
{
	KUNIT_STATIC_STUB_REDIRECT(spm_reserv_copy, rv, i, from, vma, addr,
				   cause);
	if (WARN_ONCE(spm_reserv_populated(rv, i),
		      "superpmap: slot %lu page %u copied over a page\n",
		      rv->index, i))
		return -EEXIST;
	if (spm_reserv_loose(rv)) {
		int err = spm_reserv_populate_loose(rv, i, SPM_GFP_PAGE, vma,
						    addr);

		if (err)
			return err;
	}
	if (copy_mc_highpage(spm_reserv_page(rv, i), from)) {
		spm_reserv_drop_page(rv, i);
		return -EHWPOISON;
	}
	__set_bit(i, rv->used);
	spm_reserv_add(rv, i, false, cause);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_copy);

/**
 * spm_reserv_dup() - copy one page from another reservation, with its state
 * @to:		reservation without the page
 * @from:	reservation of the same index that holds it
 * @i:		index of the page
 * @cause:	for the tracepoint
 *
 * Context: process context, may sleep; slot lock held.
 * Return: as spm_reserv_copy().
 */
int spm_reserv_dup(struct spm_reserv *to, const struct spm_reserv *from,
		   unsigned int i, enum spm_populate_cause cause)
{
	int err = spm_reserv_copy(to, i, spm_reserv_page(from, i), NULL, 0,
				  cause);

	if (err)
		return err;
	__assign_bit(i, to->used, test_bit(i, from->used));
	if (spm_reserv_dirty(from, i))
		spm_reserv_set_dirty(to, i);
	return 0;
}

/**
 * spm_reserv_depopulate() - forget one page and what it held
 * @rv:	reservation
 * @i:	index of a populated page that no page table maps
 *
 * The page is cleared when it is populated again, not here: a store that raced
 * the removal of the last entry, through a stale translation of another CPU or
 * by a device, may still come.
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_reserv_depopulate(struct spm_reserv *rv, unsigned int i)
{
	const struct spm_counters *c = rv->owner->counters;

	if (WARN_ONCE(!spm_reserv_populated(rv, i),
		      "superpmap: slot %lu page %u is not populated\n",
		      rv->index, i))
		return;
	if (spm_reserv_full(rv))
		spm_count_n(c, reserv_fullpop, -(long)!spm_reserv_loose(rv));
	if (__test_and_clear_bit(i, rv->dirty)) {
		rv->ndirty--;
		spm_count_n(c, dirty, -1);
	}
	__clear_bit(i, rv->popmap);
	spm_reserv_change(rv, -1, 0, 0);
	spm_reserv_drop_page(rv, i);
	spm_count_n(c, reserv_empty, !spm_reserv_loose(rv));
	spm_count_n(c, pages, -1);
	spm_reserv_requeue(rv);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_depopulate);

/**
 * spm_reserv_set_dirty() - record one page dirty
 * @rv:	reservation
 * @i:	index of a populated page
 *
 * Context: slot lock held.  Must come before an entry that allows writing.
 */
void spm_reserv_set_dirty(struct spm_reserv *rv, unsigned int i)
{
	if (__test_and_set_bit(i, rv->dirty))
		return;
	__set_bit(i, rv->used);
	rv->ndirty++;
	spm_count(rv->owner->counters, dirty);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_set_dirty);

/**
 * spm_reserv_set_all_dirty() - record every page dirty
 * @rv:	full reservation
 *
 * Context: slot lock held.  Must come before a writable 2 MB entry.
 */
void spm_reserv_set_all_dirty(struct spm_reserv *rv)
{
	spm_count_n(rv->owner->counters, dirty, SPM_SLOT_PAGES - rv->ndirty);
	bitmap_fill(rv->dirty, SPM_SLOT_PAGES);
	bitmap_fill(rv->used, SPM_SLOT_PAGES);
	rv->ndirty = SPM_SLOT_PAGES;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_set_all_dirty);

/**
 * spm_reserv_clear_dirty() - record pages clean
 * @rv:		reservation
 * @first:	first page
 * @end:	one past the last
 *
 * Context: slot lock held.  No entry may allow writing to them.
 */
void spm_reserv_clear_dirty(struct spm_reserv *rv, unsigned int first,
			    unsigned int end)
{
	unsigned int before = rv->ndirty;

	bitmap_clear(rv->dirty, first, end - first);
	rv->ndirty = bitmap_weight(rv->dirty, SPM_SLOT_PAGES);
	spm_count_n(rv->owner->counters, dirty, (long)rv->ndirty - before);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_clear_dirty);

/* Have a folio found by its new owner's inode; the lock as on release. */
static void spm_folio_reattach(struct folio *folio,
			       const struct spm_owner *owner)
{
	if (folio->mapping == owner->mapping)
		return;
	folio_lock(folio);
	folio->mapping = owner->mapping;
	folio_unlock(folio);
}

/**
 * spm_reserv_move_page() - move a single page between loose reservations
 * @to:		loose, of the same slot, page @i not populated
 * @from:	loose
 * @i:		index of a page that @from holds
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_reserv_move_page(struct spm_reserv *to, struct spm_reserv *from,
			  unsigned int i)
{
	const struct spm_counters *old = from->owner->counters;
	const struct spm_counters *new = to->owner->counters;

	to->pages[i] = from->pages[i];
	from->pages[i] = NULL;
	spm_folio_reattach(page_folio(to->pages[i]), to->owner);
	__clear_bit(i, from->popmap);
	spm_reserv_change(from, -1, 0, 0);
	spm_count_n(old, pages, -1);
	spm_count_n(old, loose, -1);
	__set_bit(i, to->popmap);
	__assign_bit(i, to->used, __test_and_clear_bit(i, from->used));
	spm_reserv_change(to, 1, 0, 0);
	spm_count(new, pages);
	spm_count(new, loose);
	if (__test_and_clear_bit(i, from->dirty)) {
		from->ndirty--;
		spm_count_n(old, dirty, -1);
		spm_reserv_set_dirty(to, i);
	}
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_move_page);

/* What a reservation adds to the gauges of its owner, @sign 1 or -1. */
static void spm_reserv_account(const struct spm_reserv *rv, long sign)
{
	const struct spm_counters *c = rv->owner->counters;
	unsigned int popcnt = spm_reserv_popcnt(rv);

	spm_count_n(c, pages, sign * popcnt);
	spm_count_n(c, dirty, sign * rv->ndirty);
	if (spm_reserv_loose(rv)) {
		spm_count_n(c, loose, sign * popcnt);
		return;
	}
	spm_count_n(c, reserv_live, sign);
	spm_count_n(c, reserv_fullpop, sign * spm_reserv_full(rv));
	spm_count_n(c, reserv_partpopq, sign * spm_reserv_queued(rv));
	spm_count_n(c, reserv_empty, sign * (long)(SPM_SLOT_PAGES - popcnt));
}

/**
 * spm_reserv_give() - a reservation gets a new owner, whole
 * @rv:		reservation
 * @owner:	the new one; the slot stays the same
 *
 * Entries that map it stay.
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_reserv_give(struct spm_reserv *rv, const struct spm_owner *owner)
{
	unsigned int i;

	spm_reserv_account(rv, -1);
	if (!spm_reserv_loose(rv))
		spm_block_part(rv);
	rv->owner = owner;
	if (!spm_reserv_loose(rv))
		spm_block_adopt(rv);
	spm_reserv_account(rv, 1);
	if (!spm_reserv_loose(rv))
		spm_folio_reattach(rv->folio, owner);
	else
		for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES)
			spm_folio_reattach(page_folio(rv->pages[i]), owner);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_give);

/**
 * spm_folio_memcg_get() - to whom memory is charged
 * @folio: the memory
 *
 * Context: any.
 * Return: the cgroup, for mem_cgroup_put(); NULL if nobody is, or it is going.
 */
struct mem_cgroup *spm_folio_memcg_get(struct folio *folio)
{
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (memcg && !mem_cgroup_tryget(memcg))
		memcg = NULL;
	rcu_read_unlock();
	return memcg;
}

/* The last reference, frozen, to memory that nobody can reach any more. */
static struct folio *spm_folio_retire(struct folio *folio)
{
	folio->mapping = NULL;
	folio_ref_unfreeze(folio, 1);
	return folio;
}

/**
 * spm_reserv_break() - single pages take the place of the block
 * @rv:		reservation with a block, which no entry maps and whose references
 *		are frozen; it is freed
 * @pages:	a copy of each populated page, NULL elsewhere; taken over
 *
 * Context: process context, reclaim included; slot lock held.
 */
void spm_reserv_break(struct spm_reserv *rv, struct page **pages)
{
	const struct spm_counters *c = rv->owner->counters;
	unsigned int i, popcnt = spm_reserv_popcnt(rv);
	struct folio *block = rv->folio;

	spm_count_n(c, reserv_fullpop, -(long)spm_reserv_full(rv));
	spm_count_n(c, reserv_live, -1);
	spm_count_n(c, reserv_empty, -(long)(SPM_SLOT_PAGES - popcnt));
	spm_count_n(c, loose, popcnt);
	spm_reserv_change(rv, 0, SPM_RV_LOOSE, 0);
	spm_reserv_requeue(rv);
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES)
		spm_folio_attach(page_folio(pages[i]), rv->owner,
				 (rv->index << SPM_SLOT_SHIFT) + i);
	rv->pages = pages;
	rv->nid = NUMA_NO_NODE;
	/* What is not populated has no memory that could have been used. */
	bitmap_and(rv->used, rv->used, rv->popmap, SPM_SLOT_PAGES);
	spm_block_part(rv);
	folio_put(spm_folio_retire(block));
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_break);

/* A block charged to @memcg, whose list of the queue this makes, and keeps. */
static struct folio *spm_block_alloc(struct mem_cgroup *memcg, gfp_t gfp,
				     struct vm_area_struct *vma,
				     unsigned long addr)
{
	struct mem_cgroup *old = set_active_memcg(memcg);
	/* Not worth to kill anybody for. */
	struct spm_reserv *list = spm_reserv_new(__GFP_NORETRY | __GFP_NOWARN);
	struct folio *folio = NULL;

	if (list) {
		kmem_cache_free(spm_reserv_cache, list);
		folio = spm_folio_alloc(gfp, PMD_ORDER, vma, addr);
	}
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return folio;
}

/**
 * spm_reserv_spare() - a block for later
 *
 * Charged to the task's memory cgroup; tries harder than a fault does.
 *
 * Context: process context, may sleep.
 * Return: the block, or NULL.
 */
struct folio *spm_reserv_spare(void)
{
	gfp_t gfp = (SPM_GFP_BLOCK & ~__GFP_NORETRY) | __GFP_RETRY_MAYFAIL;

	return spm_block_alloc(get_mem_cgroup_from_mm(current->mm), gfp, NULL,
			       0);
}

/**
 * spm_reserv_block() - a block for spm_reserv_mend(), if there is a free one
 * @rv:		full reservation of single pages
 * @vma:	as for spm_reserv_alloc()
 * @addr:	address of the slot in @vma
 *
 * Charged to whom the first page is.
 *
 * Context: process context, may sleep; slot lock held.
 * Return: the block, or NULL.
 */
struct folio *spm_reserv_block(const struct spm_reserv *rv,
			       struct vm_area_struct *vma, unsigned long addr)
{
	struct folio *first = page_folio(rv->pages[0]);

	return spm_block_alloc(spm_folio_memcg_get(first),
			       SPM_GFP_BLOCK & ~__GFP_DIRECT_RECLAIM, vma, addr);
}

/**
 * spm_reserv_mend() - a block takes the place of single pages
 * @rv:		full reservation of single pages, which no entry maps and whose
 *		references are frozen; they are freed
 * @block:	their copy, of spm_reserv_block(); taken over
 *
 * Context: process context; slot lock held.
 */
void spm_reserv_mend(struct spm_reserv *rv, struct folio *block)
{
	const struct spm_counters *c = rv->owner->counters;
	struct page **pages = rv->pages;
	unsigned int i;

	spm_folio_attach(block, rv->owner, rv->index << SPM_SLOT_SHIFT);
	rv->folio = block;
	rv->nid = folio_nid(block);
	spm_reserv_change(rv, 0, 0, SPM_RV_LOOSE);
	spm_block_adopt(rv);
	spm_count(c, reserv_allocated);
	spm_count(c, reserv_live);
	spm_count(c, reserv_fullpop);
	spm_count_n(c, loose, -(long)SPM_SLOT_PAGES);
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		folio_put(spm_folio_retire(page_folio(pages[i])));
	kfree(pages);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_mend);

/**
 * spm_reserv_defer() - no block could be had for single pages
 * @rv: full reservation of single pages
 *
 * Context: slot lock held.
 */
void spm_reserv_defer(struct spm_reserv *rv)
{
	spm_reserv_change(rv, 0, SPM_RV_DEFERRED, 0);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_defer);

/**
 * spm_reserv_second_chance() - did it change since it got its place?
 * @rv: queued reservation
 *
 * If so, it is to get a new place, at the end, and is told so.
 *
 * Context: any; the queue's lock held.  Who holds the slot's lock may be changing
 * it.
 * Return: true if it did.
 */
bool spm_reserv_second_chance(struct spm_reserv *rv)
{
	union spm_reserv_state old = spm_reserv_state(rv), new;

	do {
		if (!(old.flags & SPM_RV_ACTIVE))
			return false;
		new = old;
		new.flags &= ~SPM_RV_ACTIVE;
	} while (!try_cmpxchg(&rv->state.word, &old.word, new.word));
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_second_chance);

/**
 * spm_reserv_pinned() - may somebody be doing I/O to its pages?
 * @rv: reservation
 *
 * A block has one count of pins for all its pages.  Exact for what is pinned
 * through entries only once these are write-protected or gone:
 * get_user_pages_fast() counts the pin first and then looks at the entry again.
 *
 * Context: slot lock held.
 * Return: true if pins are possible.
 */
bool spm_reserv_pinned(const struct spm_reserv *rv)
{
	unsigned int i;

	if (!spm_reserv_loose(rv))
		return folio_maybe_dma_pinned(rv->folio);
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES)
		if (folio_maybe_dma_pinned(page_folio(rv->pages[i])))
			return true;
	return false;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_pinned);

/**
 * spm_reserv_held() - does somebody hold the memory without an entry?
 * @rv:	reservation
 * @i:	index of a populated page; a block answers for all its pages
 *
 * A pin for I/O, or a plain reference as ptrace and pipes take: they may store
 * to the page without a fault.  The references are ours and one for each
 * entry; whatever is beyond these is somebody's.  Also true for a moment after
 * an entry went, until the kernel has flushed the TLB and dropped its reference.
 *
 * Like pins, exact only once entries are write-protected or gone.
 *
 * Context: slot lock held.
 * Return: true if that is possible.
 */
bool spm_reserv_held(const struct spm_reserv *rv, unsigned int i)
{
	struct folio *folio = page_folio(spm_reserv_page(rv, i));

	return folio_ref_count(folio) > 1 + folio_mapcount(folio);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reserv_held);
