// SPDX-License-Identifier: GPL-2.0
/*
 * Maps: what happens when VMAs come, go, split and move.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/slab.h>
#include <kunit/visibility.h>

#include "collapse.h"
#include "freeze.h"
#include "map.h"

static unsigned long spm_vma_base(const struct vm_area_struct *vma)
{
	return vma->vm_start - (vma->vm_pgoff << PAGE_SHIFT);
}

/*
 * A map that shows @object, whose use it takes over if it is the mapping's own.
 * @more: __GFP_NOFAIL from who cannot fail, else 0.
 */
static struct spm_map *spm_map_alloc(struct vm_area_struct *vma,
				     struct spm_object *object, gfp_t more)
{
	struct spm_region *r = spm_vma_region(vma);
	struct spm_map *map = kzalloc_obj(*map, GFP_KERNEL_ACCOUNT | more);

	if (!map)
		return NULL;
	refcount_set(&map->ref, 1);
	map->base = spm_vma_base(vma);
	map->region = r;
	map->object = object;
	spm_pmap_init(&map->pmap,
		      object ? &object->owner : &r->object->owner, &r->rmap,
		      vma->vm_mm);
	return map;
}

/**
 * spm_map_put() - drop a reference
 * @map: map
 *
 * Context: process context, may sleep; no slot lock held.
 */
void spm_map_put(struct spm_map *map)
{
	struct spm_object *object = map->object;

	if (!refcount_dec_and_test(&map->ref))
		return;
	spm_pmap_destroy(&map->pmap);
	if (object && object->private)
		spm_object_put(object);
	kfree(map);
}

/**
 * spm_map_next() - step through the maps of a region
 * @r:		region, referenced by the caller
 * @prev:	where to go on, its reference is given up; NULL to begin
 *
 * Maps that are made or go away meanwhile may or may not be seen.
 *
 * Context: process context, may sleep; no slot lock held.
 * Return: a map with a reference, or NULL after the last.
 */
struct spm_map *spm_map_next(struct spm_region *r, struct spm_map *prev)
{
	struct spm_rmap *rmap = &r->rmap;
	struct spm_map *found = NULL;
	struct list_head *pos;

	mutex_lock(&rmap->lock);
	/* @prev is on the list as long as we hold its reference. */
	pos = prev ? &prev->pmap.link : &rmap->pmaps;
	list_for_each_continue(pos, &rmap->pmaps) {
		struct spm_map *map = list_entry(pos, struct spm_map,
						 pmap.link);

		if (refcount_inc_not_zero(&map->ref)) {
			found = map;
			break;
		}
	}
	mutex_unlock(&rmap->lock);
	if (prev)
		spm_map_put(prev);
	return found;
}

/**
 * spm_map_mmap() - give a new VMA its map
 * @r:		region
 * @vma:	VMA that mmap is about to link
 *
 * A private mapping gets VM_SHARED, and only that: then every first store is
 * ours to handle, and the core never puts anonymous copies into it.
 * VM_MAYSHARE, which says what was asked for, stays clear.
 *
 * Context: mmap_lock held for writing.
 * Return: 0 or -ENOMEM.
 */
int spm_map_mmap(struct spm_region *r, struct vm_area_struct *vma)
{
	struct spm_object *object = r->object;
	struct spm_map *map;

	if (spm_vma_private(vma)) {
		object = spm_region_private(r, vma->vm_mm);
		if (!object)
			return -ENOMEM;
	}
	map = spm_map_alloc(vma, object, 0);
	if (!map) {
		if (object->private)
			spm_object_put(object);
		return -ENOMEM;
	}
	if (spm_vma_private(vma))
		vm_flags_set(vma, VM_SHARED);
	vma->vm_private_data = map;
	return 0;
}

/* What the child's VMA shows; NULL without memory. */
static struct spm_object *spm_vma_fork(struct vm_area_struct *vma,
				       const struct spm_map *from)
{
	struct spm_region *r = from->region;

	if (!spm_vma_private(vma))
		return r->object;
	/* A copy of a mapping that ran out of memory itself. */
	if (!from->object)
		return NULL;
	return spm_region_fork(r, from->object, vma->vm_mm);
}

/**
 * spm_vma_open() - a VMA came to be by fork, split or mremap
 * @vma: the new VMA, a copy of the old one with a range of its own
 *
 * Split: the entries stay where they are, the map is shared.  Fork: the core
 * does not copy our page tables, the child's map is empty; what a private
 * mapping shows is frozen for both.  mremap: the entries are moved after this,
 * and spm_vma_mremap() tells.
 *
 * Context: mmap_lock of the VMA's mm held for writing, for a fork also that of
 * the parent; may sleep, cannot fail: the map is small.  A child's private
 * mapping for which there is no memory is left without object, and faults in it
 * give SIGBUS.
 */
void spm_vma_open(struct vm_area_struct *vma)
{
	struct spm_map *from = spm_map_of(vma);
	struct spm_object *object = from->object;
	struct spm_map *map;

	if (from->pmap.mm != vma->vm_mm) {
		object = spm_vma_fork(vma, from);
		vma->vm_private_data = spm_map_alloc(vma, object, __GFP_NOFAIL);
		return;
	}
	if (from->base == spm_vma_base(vma)) {
		refcount_inc(&from->ref);
		return;
	}
	if (object && object->private)
		spm_object_use(object);
	map = spm_map_alloc(vma, object, __GFP_NOFAIL);
	refcount_inc(&from->ref);
	map->moved_from = from;
	vma->vm_private_data = map;
}

/*
 * Slots of which the VMA covers at least one page: [*first, *last].  The first
 * and the last may reach beyond it, into a neighbour that shares the map.
 */
static void spm_vma_slots(const struct vm_area_struct *vma, pgoff_t *first,
			  pgoff_t *last)
{
	*first = vma->vm_pgoff >> SPM_SLOT_SHIFT;
	*last = (vma->vm_pgoff + vma_pages(vma) - 1) >> SPM_SLOT_SHIFT;
}

/* The lock of a slot that the map may have entries for. */
static struct mutex *spm_map_find_lock(const struct spm_map *map, pgoff_t slot)
{
	/* A map without object has no entries, but may be asked all the same. */
	return map->object ? spm_object_find_lock(map->object, slot) : NULL;
}

static bool spm_vma_covers(const struct vm_area_struct *vma, pgoff_t slot)
{
	pgoff_t first = slot << SPM_SLOT_SHIFT;

	return first >= vma->vm_pgoff &&
	       first + SPM_SLOT_PAGES <= vma->vm_pgoff + vma_pages(vma);
}

/* The part of a slot that lies in [start, end). */
static void spm_clean_slot(struct spm_map *map, struct vm_area_struct *vma,
			   pgoff_t index, unsigned long start,
			   unsigned long end)
{
	struct spm_slot *slot = spm_object_find_slot(map->object, index);
	unsigned int i, n, stop;
	struct spm_place pl;

	/* All entries are of pages that may be written to. */
	if (slot && slot->reserv && slot->reserv->ndirty == SPM_SLOT_PAGES)
		return;
	spm_place_init(&pl, vma, index, ULONG_MAX, NULL);
	start = max(start, spm_place_addr(&pl, pl.lo));
	end = min(end, spm_place_addr(&pl, pl.hi));
	stop = (end - pl.addr) >> PAGE_SHIFT;
	for (i = (start - pl.addr) >> PAGE_SHIFT; i < stop; i += n) {
		n = spm_place_run(&pl, i, stop);
		spm_pt_clean_readonly(vma->vm_mm, spm_place_addr(&pl, i), n);
	}
}

/*
 * The core makes a read-only entry writable by itself if its dirty bit is set,
 * which is right for one entry.  But when it changes rights, or moves entries, it
 * does so for all entries of a folio that follow each other at once, and for their
 * dirty bits it takes the sum: one dirty page would make clean neighbours
 * writable, and stores to them would not be recorded.  File systems do not mind,
 * for they track whole folios.  So no dirty bit is left where both kinds are; the
 * pages fault once more.
 *
 * With mmap_lock held for writing, nobody makes read-only entries with a dirty bit
 * meanwhile: faults of ours never do, clear_refs and NUMA hinting need mmap_lock.
 */
static void spm_vma_clean(struct vm_area_struct *vma, unsigned long start,
			  unsigned long end)
{
	struct spm_map *map = spm_map_of(vma);
	unsigned long index;
	struct mutex *lock;

	if (!map->object)
		return;
	xa_for_each_range(&map->object->family->locks, index, lock,
			  linear_page_index(vma, start) >> SPM_SLOT_SHIFT,
			  linear_page_index(vma, end - 1) >> SPM_SLOT_SHIFT) {
		mutex_lock(lock);
		spm_clean_slot(map, vma, index, start, end);
		mutex_unlock(lock);
		cond_resched();
	}
}

/**
 * spm_vma_mremap() - the entries have been moved to a new VMA
 * @vma: the new VMA
 *
 * Both VMAs are locked for writing, no fault can run on them.
 *
 * Context: mmap_lock held for writing; may sleep.
 * Return: 0: a failure here would undo the move for the sake of bookkeeping.
 */
int spm_vma_mremap(struct vm_area_struct *vma)
{
	struct spm_map *map = spm_map_of(vma);
	struct spm_map *from;
	unsigned long index;
	pgoff_t first, last;
	void *entry;

	if (!map->moved_from)
		return 0;
	from = map->moved_from;
	map->moved_from = NULL;
	spm_vma_slots(vma, &first, &last);
	xa_for_each_range(&from->pmap.shadow, index, entry, first, last) {
		struct mutex *lock = spm_map_find_lock(map, index);

		if (!lock)
			continue;
		mutex_lock(lock);
		if (spm_pmap_move(&map->pmap, &from->pmap, index,
				  spm_vma_covers(vma, index)))
			/* See struct spm_pmap. */
			WRITE_ONCE(map->pmap.inexact, true);
		mutex_unlock(lock);
	}
	spm_map_put(from);
	spm_vma_clean(vma, vma->vm_start, vma->vm_end);
	return 0;
}

/**
 * spm_vma_close() - a VMA is gone, and its entries with it
 * @vma: the VMA
 *
 * Context: mmap_lock held, or the mm is dying; nobody else can reach the VMA;
 * may sleep.
 */
void spm_vma_close(struct vm_area_struct *vma)
{
	struct spm_map *map = spm_map_of(vma);
	unsigned long index;
	pgoff_t first, last;
	void *entry;

	spm_vma_slots(vma, &first, &last);
	xa_for_each_range(&map->pmap.shadow, index, entry, first, last) {
		struct mutex *lock = spm_map_find_lock(map, index);

		if (!lock)
			continue;
		mutex_lock(lock);
		if (spm_vma_covers(vma, index) ||
		    spm_pmd_is_2m(spm_pmap_shadow(&map->pmap, index)))
			spm_pmap_forget(&map->pmap, index);
		mutex_unlock(lock);
	}
	if (map->moved_from) {
		/* mremap failed: what it had moved went back. */
		spm_map_put(map->moved_from);
		map->moved_from = NULL;
	}
	spm_map_put(map);
}

/**
 * spm_vma_may_split() - a VMA is about to be split
 * @vma:	the VMA
 * @addr:	where
 *
 * A 2 MB entry across @addr would be thrown away by the core.  Demote it here
 * instead, so that its pages stay mapped.  Whatever fails is left to the core.
 *
 * A fault under the VMA lock alone may promote the slot again before the core
 * locks the VMA for the split; then the core throws the entry away, and its
 * pages fault back.
 *
 * Context: mmap_lock held for writing; may sleep.
 * Return: 0: every 4 KB multiple will do.
 */
int spm_vma_may_split(struct vm_area_struct *vma, unsigned long addr)
{
	struct spm_map *map = spm_map_of(vma);
	struct spm_reserv *rv;
	struct spm_place pl;
	struct mutex *lock;
	pgoff_t slot;

	if (IS_ALIGNED(addr, PMD_SIZE) || !vma_is_accessible(vma))
		return 0;
	slot = linear_page_index(vma, addr) >> SPM_SLOT_SHIFT;
	lock = spm_map_find_lock(map, slot);
	if (!lock)
		return 0;
	mutex_lock(lock);
	spm_place_init(&pl, vma, slot, spm_region_pages(map->region),
		       spm_pt_pmd(vma->vm_mm, addr));
	rv = spm_object_whole(map->object, slot);
	if (rv && pl.fits && !spm_pmap_prepare(&map->pmap, slot) &&
	    spm_pmd_is_2m(spm_pmap_observe(&map->pmap, &pl)))
		spm_pmap_demote(&map->pmap, &pl, rv, SPM_DEMOTE_SPLIT);
	mutex_unlock(lock);
	return 0;
}

/**
 * spm_vma_mprotect() - rights of a VMA are about to change
 * @vma:	the VMA
 * @start:	first address
 * @end:	one past the last
 * @newflags:	flags that it will have
 *
 * Context: mmap_lock held for writing; may sleep.
 * Return: 0: any rights that the file allows will do.
 */
int spm_vma_mprotect(struct vm_area_struct *vma, unsigned long start,
		     unsigned long end, unsigned long newflags)
{
	if (newflags & VM_WRITE)
		spm_vma_clean(vma, start, end);
	return 0;
}
