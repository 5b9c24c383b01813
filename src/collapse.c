// SPDX-License-Identifier: GPL-2.0
/*
 * Collapse, after FreeBSD's vm_object_collapse(): a frozen object with one
 * shadow left is merged into it at once.  Reservations change hands whole, and
 * without a copy, wherever the shadow has nothing in the slot; where both have
 * some, the smaller part is copied.
 *
 * The family's lock is held throughout; a fault never takes it.  Contents move
 * one slot at a time, under the slot's lock.
 */
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <kunit/visibility.h>

#include "collapse.h"
#include "rmap.h"
#include "track.h"

/**
 * spm_object_drop() - free an object that is not connected to anything
 * @obj: without users, shadows and backing
 *
 * Context: process context, may sleep; family lock held, and it stays: the
 * caller has another reference to the family.
 */
void spm_object_drop(struct spm_object *obj)
{
	lockdep_assert_held(&obj->family->lock);
	list_del_init(&obj->link);
	spm_object_destroy(obj);
}

/* Pages of @slot, of a frozen object, that its last shadow cannot see. */
static void spm_merge_trim(struct spm_object *top, const struct spm_slot *above,
			   struct spm_slot *slot)
{
	pgoff_t start = slot->index << SPM_SLOT_SHIFT;
	unsigned int i;

	if (!slot->reserv)
		return;
	for (i = 0; i < SPM_SLOT_PAGES && slot->reserv; i++)
		if (spm_reserv_populated(slot->reserv, i) &&
		    (start + i >= top->backing_end || spm_slot_hides(above, i) ||
		     (above->reserv && spm_reserv_populated(above->reserv, i))))
			spm_slot_depopulate(slot, i, i + 1);
}

/*
 * Copy the pages of @from to @to, which has none of them, and then take them
 * away; or, when a copy fails, leave both as they were.  No entry maps @from.
 */
static int spm_merge_copy(struct spm_reserv *to, struct spm_reserv *from,
			  struct spm_moved *n)
{
	unsigned int i, k;
	int err;

	for_each_set_bit(i, from->popmap, SPM_SLOT_PAGES) {
		err = spm_reserv_dup(to, from, i, SPM_POPULATE_MERGE);
		if (err)
			goto undo;
	}
	n->pages += spm_reserv_popcnt(from);
	for_each_set_bit(i, from->popmap, SPM_SLOT_PAGES)
		spm_reserv_depopulate(from, i);
	return 0;

undo:
	for_each_set_bit(k, from->popmap, i)
		spm_reserv_depopulate(to, k);
	return err;
}

/* The same; single pages change hands without a copy. */
static int spm_merge_pages(struct spm_reserv *to, struct spm_reserv *from,
			   struct spm_moved *n)
{
	unsigned int i;

	if (!spm_reserv_loose(to) || !spm_reserv_loose(from))
		return spm_merge_copy(to, from, n);
	for_each_set_bit(i, from->popmap, SPM_SLOT_PAGES)
		spm_reserv_move_page(to, from, i);
	return 0;
}

/**
 * spm_family_remove_all() - take every entry of a slot out of all mappings
 * @family:	of the objects that may show it
 * @index:	slot
 *
 * Context: process context; family lock and slot lock held.
 */
void spm_family_remove_all(struct spm_family *family, pgoff_t index)
{
	struct spm_object *o;

	lockdep_assert_held(&family->lock);
	list_for_each_entry(o, &family->objects, link)
		/* A private mapping is in the list of its region. */
		if (o->users && !o->private)
			spm_rmap_remove_all(o->rmap, index, 0, SPM_SLOT_PAGES);
}

/*
 * Both hold some of the slot, no page twice.  The smaller part is copied to the
 * other; but a block that may be pinned stays where it is, and nothing is
 * copied into the gaps of a block below that is: somebody may still be writing
 * a page to disk that is hidden now.
 *
 * Returns false, with the slot as it was, when memory for single pages ran out
 * or a page cannot be read.
 */
static bool spm_merge_mixed(struct spm_object *top, struct spm_slot *above,
			    struct spm_slot *slot, struct spm_moved *n)
{
	struct spm_reserv *a = above->reserv, *b = slot->reserv;
	bool up;

	spm_family_remove_all(top->family, slot->index);
	smp_mb(); /* no entry, then the counts of pins */
	up = spm_reserv_pinned(a) || spm_reserv_pinned(b);
	if (!up)
		up = spm_reserv_loose(b) ||
		     (!spm_reserv_loose(a) &&
		      spm_reserv_popcnt(b) <= spm_reserv_popcnt(a));
	if (up) {
		if (spm_merge_pages(a, b, n))
			return false;
	} else {
		if (spm_merge_pages(b, a, n))
			return false;
		spm_reserv_give(b, &top->owner);
		above->reserv = b;
		slot->reserv = a;
	}
	/* What is left there is empty. */
	spm_slot_depopulate(slot, 0, 0);
	return true;
}

static bool spm_merge_slot(struct spm_object *top, struct spm_slot *slot,
			   struct spm_moved *n)
{
	struct spm_slot *above;
	bool done = true;

	/* Runs when a process exits or a file is closed: cannot fail. */
	above = spm_object_slot(top, slot->index, __GFP_NOFAIL);
	mutex_lock(slot->lock);
	spm_merge_trim(top, above, slot);
	spm_track_overrule(above, slot);
	if (slot->reserv && above->reserv) {
		done = spm_merge_mixed(top, above, slot, n);
	} else if (slot->reserv) {
		above->reserv = slot->reserv;
		slot->reserv = NULL;
		spm_reserv_give(above->reserv, &top->owner);
		spm_count(top->owner.counters, cow_optim);
		n->reservs++;
	}
	if (done && slot->hidden && above->hidden) {
		bitmap_or(above->hidden, above->hidden, slot->hidden,
			  SPM_SLOT_PAGES);
	} else if (done && slot->hidden) {
		above->hidden = slot->hidden;
		slot->hidden = NULL;
	}
	if (done)
		spm_track_merge(above, slot);
	mutex_unlock(slot->lock);
	return done;
}

/* Nothing is below any more that could show through. */
static void spm_object_unhide(struct spm_object *obj)
{
	struct spm_slot *slot;
	unsigned long index;

	xa_for_each(&obj->slots, index, slot) {
		mutex_lock(slot->lock);
		bitmap_free(slot->hidden);
		slot->hidden = NULL;
		mutex_unlock(slot->lock);
		cond_resched();
	}
}

/*
 * @obj is empty: let its last shadow see what it saw.  Who follows the
 * old connection still finds nothing in @obj, and goes on.
 */
static void spm_object_bypass(struct spm_object *obj, struct spm_object *top)
{
	struct spm_object *backing = obj->backing;

	lockdep_assert_held(&obj->family->lock);
	if (obj->backing_end < top->backing_end) {
		/* Nobody may see the new backing with the old end. */
		WRITE_ONCE(top->backing_end, obj->backing_end);
		spm_family_quiesce(obj->family);
	}
	list_del_init(&top->shadow_link);
	if (backing) {
		list_replace_init(&obj->shadow_link, &top->shadow_link);
		spm_count_n(obj->owner.counters, links, -1);
	} else {
		spm_count_n(top->owner.counters, links, -1);
	}
	spm_object_set_backing(top, backing);
	spm_family_quiesce(obj->family);
	obj->backing = NULL;
	if (!backing)
		spm_object_unhide(top);
}

/**
 * spm_object_collapse() - merge a frozen object into its last shadow, free it
 * @obj: without users, with one shadow
 *
 * Nobody can shadow it any more: only live objects gain shadows.
 *
 * If memory for single pages runs out in between, or a page cannot be read, it
 * stays, with the slots that were not moved, until its shadow goes.
 *
 * Context: process context, may sleep; family lock held, no slot lock.
 */
void spm_object_collapse(struct spm_object *obj)
{
	struct spm_object *top = list_first_entry(&obj->shadows,
						  struct spm_object,
						  shadow_link);
	struct spm_moved n = { };
	struct spm_slot *slot;
	unsigned long index;
	bool done = true;

	lockdep_assert_held(&obj->family->lock);
	xa_for_each(&obj->slots, index, slot) {
		done = spm_merge_slot(top, slot, &n) && done;
		cond_resched();
	}
	spm_count_n(top->owner.counters, cow_merged, n.pages);
	trace_spm_collapse(obj->owner.region, top->owner.region, n.reservs,
			   n.pages);
	if (!done)
		return;
	spm_count(top->owner.counters, collapses);
	spm_object_bypass(obj, top);
	spm_object_drop(obj);
}

/**
 * spm_object_put() - a user is gone
 * @obj: object
 *
 * The last takes its pages along, unless others shadow it.  What that leaves
 * with one shadow is merged.
 *
 * Context: process context, may sleep; no slot lock held.
 */
void spm_object_put(struct spm_object *obj)
{
	struct spm_family *family = obj->family;

	/* The lock must not go with the last object before it is unlocked. */
	refcount_inc(&family->ref);
	mutex_lock(&family->lock);
	WRITE_ONCE(obj->users, obj->users - 1);
	while (obj && !obj->users && list_empty(&obj->shadows)) {
		struct spm_object *backing = obj->backing;

		if (backing)
			spm_object_unshadow(obj);
		spm_object_drop(obj);
		obj = backing;
	}
	if (obj && !obj->users && list_is_singular(&obj->shadows))
		spm_object_collapse(obj);
	mutex_unlock(&family->lock);
	spm_family_put(family);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_put);
