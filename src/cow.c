// SPDX-License-Identifier: GPL-2.0
/*
 * Changing what an object shows, without touching what it shadows: copies of
 * pages that show through from below (FreeBSD's vm_fault_cow()), and zeros
 * instead of them.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <kunit/visibility.h>

#include "cow.h"
#include "rmap.h"
#include "track.h"

/**
 * spm_cow_page() - copy a page up for a store
 * @obj:	live object
 * @slot:	its slot, without the page
 * @src:	reservation below that holds it
 * @i:		index of the page
 * @pl:		place of the slot in the mapping stored to
 *
 * The copy is recorded dirty.  Entries of the old page are the caller's
 * business.
 *
 * Context: process context, may sleep; slot lock held.
 * Return: 0, -ENOMEM or -EHWPOISON, with nothing changed.
 */
int spm_cow_page(struct spm_object *obj, struct spm_slot *slot,
		 struct spm_reserv *src, unsigned int i,
		 const struct spm_place *pl)
{
	const struct spm_counters *c = obj->owner.counters;
	int err;

	err = spm_slot_reserve(obj, slot, pl->vma, spm_place_addr(pl, i));
	if (err)
		return err;
	err = spm_reserv_copy(slot->reserv, i, spm_reserv_page(src, i), pl->vma,
			      spm_place_addr(pl, i), SPM_POPULATE_COW);
	if (err) {
		spm_slot_depopulate(slot, 0, 0);
		return err;
	}
	spm_reserv_set_dirty(slot->reserv, i);
	spm_count(c, cow_copied);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_page);

/**
 * spm_cow_slot() - copy up whatever of a slot shows through
 * @obj:	live object
 * @slot:	its slot
 * @pl:		place of the slot in the mapping
 *
 * Pages that nobody holds stay so.  Stops early without memory.
 *
 * Context: process context, may sleep; slot lock held.
 * Return: how many pages were copied.
 */
int spm_cow_slot(struct spm_object *obj, struct spm_slot *slot,
		 const struct spm_place *pl)
{
	unsigned int i;
	int n = 0;

	for (i = 0; i < SPM_SLOT_PAGES; i++) {
		struct spm_reserv *src = spm_object_page(obj, slot->index, i);

		if (!src || src == slot->reserv)
			continue;
		if (spm_cow_page(obj, slot, src, i, pl) ||
		    fatal_signal_pending(current))
			break;
		n++;
	}
	return n;
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_slot);

/**
 * spm_object_alone() - is there only one map that shows an object?
 * @obj: live object
 *
 * A private object has its maps alone.  A region's object has all maps of the
 * region, the private ones included, which see its pages too.  A map that is
 * being added has no entry yet, and waits for the slot lock to make one.
 *
 * Context: slot lock held.
 * Return: true if entries of its pages are in one map at most.
 */
bool spm_object_alone(const struct spm_object *obj)
{
	if (obj->private)
		return READ_ONCE(obj->users) == 1;
	return READ_ONCE(obj->rmap->npmaps) == 1;
}

static int spm_discard_slot(struct spm_object *obj, struct spm_slot *slot,
			    unsigned int lo, unsigned int hi,
			    struct spm_pmap *pm, const struct spm_place *pl)
{
	/* Reads the connection under a slot lock, as a fault does. */
	bool hide = READ_ONCE(obj->backing);
	unsigned int had = 0;

	if (slot->reserv)
		had = bitmap_weight_from(slot->reserv->popmap, lo, hi);
	if (spm_track_gone(obj, slot, lo, hi, 0))
		return -ENOMEM;
	if (hide && !slot->hidden) {
		slot->hidden = bitmap_zalloc(SPM_SLOT_PAGES,
					     GFP_KERNEL_ACCOUNT);
		if (!slot->hidden)
			return -ENOMEM;
	}
	if (pm && spm_object_alone(obj))
		spm_pmap_remove(pm, pl, lo, hi);
	else if (had || slot->hidden)
		spm_rmap_remove_all(obj->rmap, slot->index, lo, hi);
	if (hide)
		bitmap_set(slot->hidden, lo, hi - lo);
	spm_slot_depopulate(slot, lo, hi);
	spm_count_n(obj->owner.counters, discarded, had);
	return 0;
}

static void spm_slot_range(pgoff_t index, pgoff_t first, pgoff_t end,
			   unsigned int *lo, unsigned int *hi)
{
	pgoff_t start = index << SPM_SLOT_SHIFT;

	*lo = first > start ? first - start : 0;
	*hi = min(end - start, (pgoff_t)SPM_SLOT_PAGES);
}

/**
 * spm_cow_discard() - pages back to zeros, memory back to the system
 * @obj:	live object
 * @first:	first page
 * @end:	one past the last
 * @pm:		mapping that asks, its VMA locked, and the range in one slot of
 *		it; or NULL
 * @pl:		place of that slot
 *
 * What others hold of these pages stays theirs, and does not show through here
 * any more.  Slot by slot; a fault between two slots may populate again behind
 * us, as a store that comes after the call would.
 *
 * Context: process context, may sleep; no slot lock held.
 * Return: 0; -ENOMEM or -EINTR (being killed) with the slots before done.
 */
int spm_cow_discard(struct spm_object *obj, pgoff_t first, pgoff_t end,
		    struct spm_pmap *pm, const struct spm_place *pl)
{
	unsigned int lo, hi;
	struct mutex *lock;
	unsigned long index;
	int err;

	if (first >= end)
		return 0;
	/* Where nobody in the family has a slot, nothing can show through. */
	xa_for_each_range(&obj->family->locks, index, lock,
			  first >> SPM_SLOT_SHIFT,
			  (end - 1) >> SPM_SLOT_SHIFT) {
		struct spm_slot *slot;

		if (!spm_object_may_show(obj, index))
			continue;
		slot = spm_object_slot(obj, index, 0);
		if (!slot)
			return -ENOMEM;
		err = spm_slot_lock_write(obj, slot);
		if (err)
			return err;
		spm_slot_range(index, first, end, &lo, &hi);
		err = spm_discard_slot(obj, slot, lo, hi, pm, pl);
		mutex_unlock(slot->lock);
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_discard);

/* With the slot's lock held: what the live objects of a region hold there. */
static void spm_truncate_slot(struct spm_object *obj, pgoff_t index,
			      unsigned int lo)
{
	struct spm_object *o;

	spm_rmap_remove_all(obj->rmap, index, lo, SPM_SLOT_PAGES);
	list_for_each_entry(o, &obj->family->objects, link) {
		struct spm_slot *slot = spm_object_find_slot(o, index);

		if (!o->users || o->rmap != obj->rmap || !slot || !slot->reserv)
			continue;
		spm_count_n(o->owner.counters, discarded,
			    bitmap_weight_from(slot->reserv->popmap, lo,
					       SPM_SLOT_PAGES));
		spm_slot_depopulate(slot, lo, SPM_SLOT_PAGES);
	}
}

/*
 * Who watches the region, or a private mapping, will find zeros if the region
 * grows again.  Before anything is cut off, while what was there still shows.
 */
static void spm_truncate_watched(struct spm_object *obj, pgoff_t index,
				 unsigned int lo)
{
	struct spm_object *o;

	list_for_each_entry(o, &obj->family->objects, link)
		if (o->users && o->rmap == obj->rmap &&
		    spm_track_armed(o, index))
			spm_track_gone(o, spm_object_slot(o, index, __GFP_NOFAIL),
				       lo, SPM_SLOT_PAGES, __GFP_NOFAIL);
}

/**
 * spm_cow_truncate() - cut a region off, with its private mappings
 * @obj:	the region's object
 * @end:	pages that stay
 *
 * The pages beyond are gone for good, from what the objects shadow as well.
 * Faults there must be refused already.
 *
 * Context: process context, may sleep; no slot lock held.
 */
void spm_cow_truncate(struct spm_object *obj, pgoff_t end)
{
	struct spm_family *family = obj->family;
	struct spm_object *o;
	struct mutex *lock;
	unsigned long index;

	mutex_lock(&family->lock);
	xa_for_each_start(&family->locks, index, lock, end >> SPM_SLOT_SHIFT) {
		pgoff_t start = index << SPM_SLOT_SHIFT;

		mutex_lock(lock);
		spm_truncate_watched(obj, index, end > start ? end - start : 0);
		mutex_unlock(lock);
		cond_resched();
	}
	list_for_each_entry(o, &family->objects, link)
		if (o->users && o->rmap == obj->rmap && end < o->backing_end)
			WRITE_ONCE(o->backing_end, end);
	xa_for_each_start(&family->locks, index, lock, end >> SPM_SLOT_SHIFT) {
		pgoff_t start = index << SPM_SLOT_SHIFT;

		mutex_lock(lock);
		spm_truncate_slot(obj, index, end > start ? end - start : 0);
		mutex_unlock(lock);
		cond_resched();
	}
	mutex_unlock(&family->lock);
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_truncate);
