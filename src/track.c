// SPDX-License-Identifier: GPL-2.0
/*
 * Dirty state of objects.
 *
 * A reservation records stores, page by page.  What a slot adds is whether it is
 * watched, which it is from the first clear on, and which of its pages changed
 * by other means: a page that was discarded has no reservation to be dirty in,
 * but whoever keeps a copy must learn that it reads as zeros now.
 *
 *	   snapshot of R                    clear R
 *	   +-------------+
 *	   R             S               R (watched)   S
 *	    \           /                 \           /
 *	     F: page 5 dirty       =>      F: page 5 dirty
 *
 *	5 is dirty in R and S            5 is dirty in S
 *
 * So a clear of R, whose pages are in a frozen object that others show as well,
 * changes nothing there: R's slot, being watched, says from then on what is
 * dirty in R, and nobody looks further down.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "rmap.h"
#include "track.h"

/* Where to look next; pages beyond the end of that are @open no more. */
static struct spm_object *spm_track_below(const struct spm_object *obj,
					  pgoff_t index, unsigned long *open)
{
	pgoff_t start = index << SPM_SLOT_SHIFT;
	/* See spm_object_below(). */
	pgoff_t end = smp_load_acquire(&obj->backing_end);

	if (end <= start) {
		bitmap_zero(open, SPM_SLOT_PAGES);
		return NULL;
	}
	if (end - start < SPM_SLOT_PAGES)
		bitmap_clear(open, end - start, SPM_SLOT_PAGES - (end - start));
	/* Likewise. */
	return smp_load_acquire(&obj->backing);
}

/*
 * The same, for dirty state: what others store to the region is nothing that a
 * private mapping did.
 */
static struct spm_object *spm_track_next(const struct spm_object *obj,
					 pgoff_t index, unsigned long *open)
{
	struct spm_object *below = spm_track_below(obj, index, open);

	return below && obj->private && !below->private ? NULL : below;
}

static void spm_or_masked(unsigned long *out, const unsigned long *bits,
			  const unsigned long *mask)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(SPM_SLOT_PAGES); i++)
		out[i] |= bits[i] & mask[i];
}

static void spm_track_walk(struct spm_object *obj, pgoff_t index,
			   unsigned long *open, unsigned long *out)
{
	while (obj) {
		const struct spm_slot *slot = spm_object_find_slot(obj, index);

		if (slot && slot->reserv && slot->reserv->ndirty)
			spm_or_masked(out, slot->reserv->dirty, open);
		if (slot && slot->changed)
			spm_or_masked(out, slot->changed, open);
		if (slot && slot->watched)
			break;
		if (slot && slot->hidden)
			bitmap_andnot(open, open, slot->hidden, SPM_SLOT_PAGES);
		obj = spm_track_next(obj, index, open);
	}
}

/**
 * spm_track_dirty() - which pages of a slot are dirty
 * @obj:	top of the chain
 * @index:	slot
 * @out:	SPM_SLOT_PAGES bits, all written
 *
 * Those that the first objects of the chain record, down to the first where the
 * slot is watched.  A clean page above a dirty one comes of a load, or is a copy
 * of it with its state: then both tell the same.
 */
void spm_track_dirty(struct spm_object *obj, pgoff_t index, unsigned long *out)
{
	DECLARE_BITMAP(open, SPM_SLOT_PAGES);

	bitmap_fill(open, SPM_SLOT_PAGES);
	bitmap_zero(out, SPM_SLOT_PAGES);
	spm_track_walk(obj, index, open, out);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_dirty);

/**
 * spm_track_clean() - is it certain, at a glance, that nothing of a slot is dirty?
 * @slot:	of the object at the top of the chain
 *
 * Return: true if spm_track_dirty() would find nothing, and the slot is watched.
 */
bool spm_track_clean(const struct spm_slot *slot)
{
	return slot->watched && !slot->changed &&
	       (!slot->reserv || !slot->reserv->ndirty);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_clean);

/**
 * spm_track_watched() - was a slot ever cleared, as its object sees it?
 * @obj:	top of the chain
 * @index:	slot
 *
 * Return: true if it was, in this object or one below.
 */
bool spm_track_watched(struct spm_object *obj, pgoff_t index)
{
	DECLARE_BITMAP(unused, SPM_SLOT_PAGES);

	while (obj) {
		const struct spm_slot *slot = spm_object_find_slot(obj, index);

		if (slot && slot->watched)
			return true;
		obj = spm_track_next(obj, index, unused);
	}
	return false;
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_watched);

/**
 * spm_track_arm() - the dirty state of an object is about to be cleared
 * @obj: live object
 *
 * Also where nothing is yet, and so no slot that could be watched: what comes
 * there and is discarded again has changed since.
 */
void spm_track_arm(struct spm_object *obj)
{
	WRITE_ONCE(obj->armed, true);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_arm);

/**
 * spm_track_armed() - is there anybody to tell of a discard?
 * @obj:	live object
 * @index:	slot
 *
 * Return: true if somebody may be told what changed since a clear.
 */
bool spm_track_armed(struct spm_object *obj, pgoff_t index)
{
	return READ_ONCE(obj->armed) || spm_track_watched(obj, index);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_armed);

VISIBLE_IF_KUNIT int spm_slot_need_changed(struct spm_slot *slot, gfp_t more)
{
	KUNIT_STATIC_STUB_REDIRECT(spm_slot_need_changed, slot, more);
	if (!slot->changed)
		slot->changed = bitmap_zalloc(SPM_SLOT_PAGES,
					      GFP_KERNEL_ACCOUNT | more);
	return slot->changed ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(spm_slot_need_changed);

/* Only a part is cleared: what below says of the rest is the slot's own now. */
static int spm_track_keep_rest(struct spm_object *obj, struct spm_slot *slot,
			       unsigned int lo, unsigned int hi)
{
	DECLARE_BITMAP(rest, SPM_SLOT_PAGES);

	spm_track_dirty(obj, slot->index, rest);
	bitmap_clear(rest, lo, hi - lo);
	if (slot->reserv)
		bitmap_andnot(rest, rest, slot->reserv->dirty, SPM_SLOT_PAGES);
	if (bitmap_empty(rest, SPM_SLOT_PAGES))
		return 0;
	if (spm_slot_need_changed(slot, 0))
		return -ENOMEM;
	bitmap_or(slot->changed, slot->changed, rest, SPM_SLOT_PAGES);
	return 0;
}

/* What dirty_grain=auto makes of the slot. */
static void spm_track_learn(struct spm_reserv *rv, unsigned int ndirty)
{
	bool was = rv->grain.coarse;

	rv->grain = spm_policy_grain(rv->grain, ndirty);
	if (was && !rv->grain.coarse)
		spm_count(rv->owner->counters, grain_4k);
	else if (!was && rv->grain.coarse)
		spm_count(rv->owner->counters, grain_2m);
}

/**
 * spm_track_clear() - pages of a slot are clean from now on
 * @obj:	live object
 * @slot:	its slot, locked by spm_slot_lock_write()
 * @lo:		first page
 * @hi:		one past the last
 * @learn:	dirty_grain=auto: see whether stores to the slot are many or few
 *
 * Whoever stores to one of them waits in its fault for the slot lock, so a store
 * comes before, and what spm_track_dirty() said under the same lock has it, or
 * after, and is recorded anew.
 *
 * Return: 0, or -ENOMEM with nothing changed.
 */
int spm_track_clear(struct spm_object *obj, struct spm_slot *slot,
		    unsigned int lo, unsigned int hi, bool learn)
{
	const struct spm_counters *c = obj->owner.counters;
	bool whole = !lo && hi == SPM_SLOT_PAGES;
	struct spm_reserv *rv = slot->reserv;
	unsigned int ndirty, kept = 0;

	lockdep_assert_held(slot->lock);
	if (!slot->watched && !whole && spm_track_keep_rest(obj, slot, lo, hi))
		return -ENOMEM;
	slot->watched = true;
	if (slot->changed)
		bitmap_clear(slot->changed, lo, hi - lo);
	if (slot->changed && bitmap_empty(slot->changed, SPM_SLOT_PAGES)) {
		bitmap_free(slot->changed);
		slot->changed = NULL;
	}
	if (!rv || !rv->ndirty)
		return 0;
	ndirty = rv->ndirty;
	kept = spm_rmap_clear_modify(obj->rmap, rv, lo, hi);
	if (ndirty == rv->ndirty && !kept)
		return 0;
	if (learn && whole)
		spm_track_learn(rv, ndirty);
	spm_count(c, wrprotects);
	spm_count_n(c, cleared, ndirty - rv->ndirty);
	spm_count_n(c, kept_dirty, kept);
	trace_spm_clear(obj->owner.region, slot->index, ndirty, kept,
			rv->grain.coarse);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_clear);

/**
 * spm_track_restore() - pages are dirty after all
 * @obj:	live object
 * @slot:	its slot
 * @lo:		first page
 * @hi:		one past the last
 *
 * They were cleared, but nobody was told.
 */
void spm_track_restore(struct spm_object *obj, struct spm_slot *slot,
		       unsigned int lo, unsigned int hi)
{
	unsigned int i;

	lockdep_assert_held(slot->lock);
	/* In the slot's own book: the page may be of a frozen object. */
	spm_slot_need_changed(slot, __GFP_NOFAIL);
	for (i = lo; i < hi; i++) {
		if (spm_slot_holds(slot, i))
			spm_reserv_set_dirty(slot->reserv, i);
		else
			__set_bit(i, slot->changed);
	}
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_restore);

/**
 * spm_track_gone() - pages are about to read as zeros
 * @obj:	live object
 * @slot:	its slot
 * @lo:		first page
 * @hi:		one past the last
 * @more:	0, or __GFP_NOFAIL from who cannot fail
 *
 * Where nobody was ever told what is dirty, there is nobody to tell.  Else those
 * that show something, and those that were dirty, have changed.
 *
 * Return: 0 or -ENOMEM.
 */
int spm_track_gone(struct spm_object *obj, struct spm_slot *slot,
		   unsigned int lo, unsigned int hi, gfp_t more)
{
	DECLARE_BITMAP(gone, SPM_SLOT_PAGES);
	unsigned int i;

	lockdep_assert_held(slot->lock);
	if (!spm_track_armed(obj, slot->index))
		return 0;
	spm_track_dirty(obj, slot->index, gone);
	bitmap_clear(gone, 0, lo);
	bitmap_clear(gone, hi, SPM_SLOT_PAGES - hi);
	for (i = lo; i < hi; i++)
		if (spm_object_page(obj, slot->index, i))
			__set_bit(i, gone);
	if (!bitmap_empty(gone, SPM_SLOT_PAGES) &&
	    spm_slot_need_changed(slot, more))
		return -ENOMEM;
	/*
	 * Nothing that others record counts any more; and if they are about to be
	 * cut off, nobody else would know that the slot is watched.
	 */
	if (!lo && hi == SPM_SLOT_PAGES)
		slot->watched = true;
	if (!slot->changed)
		return 0;
	bitmap_or(slot->changed, slot->changed, gone, SPM_SLOT_PAGES);
	spm_count_n(obj->owner.counters, gone,
		    bitmap_weight(gone, SPM_SLOT_PAGES));
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_gone);

/**
 * spm_track_freezes() - does a slot without contents have dirty state of its own?
 * @obj:	live object
 * @slot:	its slot
 *
 * Return: true if what @obj shadows would say something else.
 */
bool spm_track_freezes(struct spm_object *obj, const struct spm_slot *slot)
{
	DECLARE_BITMAP(open, SPM_SLOT_PAGES);
	DECLARE_BITMAP(out, SPM_SLOT_PAGES) = { };
	struct spm_object *below;

	if (slot->changed && !bitmap_empty(slot->changed, SPM_SLOT_PAGES))
		return true;
	if (!slot->watched)
		return false;
	bitmap_fill(open, SPM_SLOT_PAGES);
	below = spm_track_next(obj, slot->index, open);
	if (!spm_track_watched(below, slot->index))
		return true;
	spm_track_walk(below, slot->index, open, out);
	return !bitmap_empty(out, SPM_SLOT_PAGES);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_freezes);

/**
 * spm_track_move() - dirty state goes down with the contents of a slot
 * @below:	slot of the object that is being frozen
 * @slot:	slot of the live one; it tells what @below does from then on
 */
void spm_track_move(struct spm_slot *below, struct spm_slot *slot)
{
	below->changed = slot->changed;
	below->watched = slot->watched;
	slot->changed = NULL;
	slot->watched = false;
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_move);

/**
 * spm_track_overrule() - contents are about to come up from a frozen object
 * @above:	slot of its last shadow
 * @slot:	slot of the frozen object
 *
 * Where the shadow is watched, it alone says what is dirty.  Entries of frozen
 * pages are read-only, so none has to be changed for that.
 */
void spm_track_overrule(const struct spm_slot *above, struct spm_slot *slot)
{
	struct spm_reserv *rv = slot->reserv;
	unsigned int i;

	if (!above->watched || !rv)
		return;
	for_each_set_bit(i, rv->dirty, SPM_SLOT_PAGES)
		if (!above->changed || !test_bit(i, above->changed))
			spm_reserv_clear_dirty(rv, i, i + 1);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_overrule);

/**
 * spm_track_merge() - ... and they have come
 * @above:	slot of the last shadow
 * @slot:	slot of the frozen object, which is about to go
 */
void spm_track_merge(struct spm_slot *above, struct spm_slot *slot)
{
	if (above->watched)
		return;
	above->watched = slot->watched;
	if (!above->changed)
		swap(above->changed, slot->changed);
	else if (slot->changed)
		bitmap_or(above->changed, above->changed, slot->changed,
			  SPM_SLOT_PAGES);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_merge);

/**
 * spm_track_copy() - the dirty state of a slot whose contents were copied
 * @slot:	of a new object that shadows nothing
 * @from:	object that shows the same contents
 *
 * Return: 0 or -ENOMEM.
 */
int spm_track_copy(struct spm_slot *slot, struct spm_object *from)
{
	DECLARE_BITMAP(dirty, SPM_SLOT_PAGES);
	struct spm_reserv *rv = slot->reserv;
	unsigned int i;

	spm_track_dirty(from, slot->index, dirty);
	slot->watched = spm_track_watched(from, slot->index);
	for (i = 0; rv && i < SPM_SLOT_PAGES; i++) {
		if (!spm_reserv_populated(rv, i))
			continue;
		if (!test_bit(i, dirty))
			spm_reserv_clear_dirty(rv, i, i + 1);
		else
			spm_reserv_set_dirty(rv, i);
		__clear_bit(i, dirty);
	}
	if (bitmap_empty(dirty, SPM_SLOT_PAGES))
		return 0;
	if (spm_slot_need_changed(slot, 0))
		return -ENOMEM;
	bitmap_copy(slot->changed, dirty, SPM_SLOT_PAGES);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_copy);

/**
 * spm_track_parted() - the object at which two chains meet
 * @a:	object
 * @b:	object of the same family
 *
 * What both showed when one was made as a snapshot of the other is frozen there,
 * and stays there as long as both are in use.
 *
 * Context: process context; family lock held.
 * Return: the object, or NULL if there was nothing to show.
 */
struct spm_object *spm_track_parted(struct spm_object *a, struct spm_object *b)
{
	struct spm_object *o;

	lockdep_assert_held(&a->family->lock);
	for (; a; a = a->backing)
		for (o = b; o; o = o->backing)
			if (o == a)
				return a;
	return NULL;
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_parted);

/* A page that was never stored to is zeros, whoever populated it. */
static bool spm_page_used(struct spm_object *obj, pgoff_t index, unsigned int i)
{
	struct spm_reserv *rv = obj ? spm_object_page(obj, index, i) : NULL;

	return rv && test_bit(i, rv->used);
}

/**
 * spm_track_since() - which pages of a slot changed since two chains parted
 * @obj:	top of one
 * @common:	where they meet, see spm_track_parted()
 * @index:	slot
 * @out:	SPM_SLOT_PAGES bits, all written
 *
 * What the objects above @common hold was stored there after that, but for zeros
 * that a load populated.  No entry is looked at.
 *
 * Context: family lock and slot lock held.
 */
void spm_track_since(struct spm_object *obj, struct spm_object *common,
		     pgoff_t index, unsigned long *out)
{
	DECLARE_BITMAP(open, SPM_SLOT_PAGES);
	DECLARE_BITMAP(zeros, SPM_SLOT_PAGES) = { };
	unsigned int i;

	bitmap_fill(open, SPM_SLOT_PAGES);
	bitmap_zero(out, SPM_SLOT_PAGES);
	while (obj && obj != common) {
		const struct spm_slot *slot = spm_object_find_slot(obj, index);

		if (slot && slot->reserv) {
			const struct spm_reserv *rv = slot->reserv;

			for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
				if (!__test_and_clear_bit(i, open))
					continue;
				__set_bit(i, test_bit(i, rv->used) ? out : zeros);
			}
		}
		if (slot && slot->hidden) {
			spm_or_masked(zeros, slot->hidden, open);
			bitmap_andnot(open, open, slot->hidden, SPM_SLOT_PAGES);
		}
		obj = spm_track_below(obj, index, open);
	}
	/* Cut off by a smaller size in between. */
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (!test_bit(i, open) && !test_bit(i, out))
			__set_bit(i, zeros);
	for_each_set_bit(i, zeros, SPM_SLOT_PAGES)
		if (spm_page_used(common, index, i))
			__set_bit(i, out);
}
EXPORT_SYMBOL_IF_KUNIT(spm_track_since);
