// SPDX-License-Identifier: GPL-2.0
/*
 * Freezing an object for another that shadows it, after FreeBSD's
 * vm_object_shadow().
 *
 * Live objects have users: a region, or the maps of a private mapping.  They
 * change.  When one of them gets a sibling, by snapshot or fork, it is frozen:
 * its contents move down into a new object that has no users and never changes
 * any more, and both shadow that.  So live objects keep their identity, and
 * with it their maps, their counters and who shadows them.
 *
 *	    R                R   S             R   S
 *	    |      snapshot   \ /    R writes  |\ /
 *	 contents    ==>       F       ==>     k F
 *
 * The family's lock is held throughout; a fault never takes it.  Contents move
 * one slot at a time, under the slot's lock.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <kunit/visibility.h>

#include "collapse.h"
#include "freeze.h"
#include "rmap.h"
#include "track.h"

/* Copy every page of @rv into a new reservation of @to's. */
static int spm_copy_early(struct spm_object *to, struct spm_slot *below,
			  const struct spm_reserv *rv, struct spm_moved *n)
{
	unsigned int i;
	int err;

	err = spm_slot_reserve(to, below, NULL, 0);
	if (err)
		return err;
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		err = spm_reserv_dup(below->reserv, rv, i, SPM_POPULATE_EARLY);
		if (err)
			break;
		n->pages++;
	}
	/* Frees the reservation if it has nothing in it. */
	spm_slot_depopulate(below, 0, 0);
	return err;
}

static bool spm_slot_empty(struct spm_object *obj, const struct spm_slot *slot)
{
	return !slot->reserv && !slot->hidden && !spm_track_freezes(obj, slot);
}

/*
 * Move what a slot holds down to @frozen, entries write-protected.
 *
 * Pinned memory stays: I/O that is under way belongs to the side that began it.
 * The other gets a copy.  The test comes after the write protection: see
 * spm_reserv_pinned().
 */
static int spm_freeze_slot(struct spm_object *obj, struct spm_slot *slot,
			   struct spm_object *frozen, struct spm_moved *n)
{
	struct spm_reserv *rv;
	struct spm_slot *below;
	int err = 0;

	mutex_lock(slot->lock);
	if (spm_slot_empty(obj, slot))
		goto unlock;
	below = spm_object_slot(frozen, slot->index, __GFP_NOFAIL);
	rv = slot->reserv;
	if (rv) {
		spm_rmap_remove_write(obj->rmap, rv);
		smp_mb(); /* the write protection before the count of pins */
		if (spm_reserv_pinned(rv)) {
			err = spm_copy_early(frozen, below, rv, n);
			if (err)
				goto unlock;
		} else {
			slot->reserv = NULL;
			spm_reserv_give(rv, &frozen->owner);
			below->reserv = rv;
			n->reservs++;
		}
	}
	below->hidden = slot->hidden;
	slot->hidden = NULL;
	spm_track_move(below, slot);
unlock:
	mutex_unlock(slot->lock);
	return err;
}

/*
 * With obj->freezing set, so that no store can begin.  Waits for those that
 * began before.
 */
static bool spm_object_empty(struct spm_object *obj)
{
	struct spm_slot *slot;
	unsigned long index;
	bool empty = true;

	xa_for_each(&obj->slots, index, slot) {
		mutex_lock(slot->lock);
		empty = spm_slot_empty(obj, slot);
		mutex_unlock(slot->lock);
		if (!empty)
			break;
		cond_resched();
	}
	return empty;
}

/* A new object without users between @obj and its backing. */
static void spm_object_insert(struct spm_object *obj, struct spm_object *frozen)
{
	lockdep_assert_held(&obj->family->lock);
	list_add_tail(&frozen->link, &obj->family->objects);
	frozen->private = obj->private;
	if (obj->backing) {
		frozen->backing = obj->backing;
		frozen->backing_end = obj->backing_end;
		list_replace_init(&obj->shadow_link, &frozen->shadow_link);
		/* What was @obj's link is @frozen's; both count alike. */
	}
	list_add(&obj->shadow_link, &frozen->shadows);
	spm_object_set_backing(obj, frozen);
	/*
	 * In this order: who sees the new end sees the new backing.  With the
	 * old end, no less shows through @frozen than did before, as long as it
	 * is empty.
	 */
	smp_store_release(&obj->backing_end, ULONG_MAX);
	spm_count(obj->owner.counters, links);
}

/* Freeze @obj; on failure @frozen is gone and @obj as before. */
static int spm_freeze(struct spm_object *obj, struct spm_object *frozen,
		      struct spm_moved *n)
{
	struct spm_slot *slot;
	unsigned long index;
	int err = 0;

	spm_object_insert(obj, frozen);
	xa_for_each(&obj->slots, index, slot) {
		err = spm_freeze_slot(obj, slot, frozen, n);
		if (err)
			break;
		cond_resched();
	}
	if (err)
		spm_object_collapse(frozen);
	return err;
}

/*
 * What a chain shows, all of it, into an object that shadows nothing.  First
 * write-protect: the address space that maps @obj is locked for fork, so stores
 * wait from then on.
 */
static int spm_copy_all(struct spm_object *obj, struct spm_object *side,
			struct spm_moved *n)
{
	struct spm_slot *slot;
	unsigned long index;
	struct mutex *lock;
	int err = 0;

	xa_for_each(&obj->slots, index, slot) {
		mutex_lock(slot->lock);
		if (slot->reserv)
			spm_rmap_remove_write(obj->rmap, slot->reserv);
		mutex_unlock(slot->lock);
		cond_resched();
	}
	xa_for_each(&obj->family->locks, index, lock) {
		unsigned int i;

		slot = spm_object_slot(side, index, 0);
		if (!slot)
			return -ENOMEM;
		mutex_lock(lock);
		for (i = 0; i < SPM_SLOT_PAGES && !err; i++) {
			struct spm_reserv *src = spm_object_page(obj, index, i);

			if (!src)
				continue;
			err = spm_slot_reserve(side, slot, NULL, 0);
			if (!err)
				err = spm_reserv_dup(slot->reserv, src, i,
						     SPM_POPULATE_EARLY);
			n->pages += !err;
		}
		spm_slot_depopulate(slot, 0, 0);
		if (!err)
			err = spm_track_copy(slot, obj);
		mutex_unlock(lock);
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

static struct spm_object *spm_object_frozen(struct spm_object *obj)
{
	const struct spm_object_spec spec = {
		.family = obj->family,
		.counters = obj->owner.counters,
		.region = obj->owner.region,
		.inode = obj->inode,
	};

	return spm_object_create(&spec);
}

/* *@frozen is taken if it is needed. */
static int spm_shadow_locked(struct spm_object *obj, struct spm_object *side,
			     struct spm_object **frozen,
			     enum spm_freeze_cause cause, struct spm_moved *n)
{
	bool empty;
	int err;

	/* It begins with the dirty state, and so with who waits for more. */
	side->armed = READ_ONCE(obj->armed);
	WRITE_ONCE(obj->freezing, true);
	smp_mb(); /* pairs with spm_object_slot() */
	empty = spm_object_empty(obj);
	if (spm_object_depth(obj) + !empty > SPM_DEPTH_MAX) {
		err = cause == SPM_FREEZE_FORK ? spm_copy_all(obj, side, n) :
						 -EMLINK;
	} else if (empty) {
		/* Nothing to freeze: the sibling may shadow the same. */
		err = 0;
		if (obj->backing)
			spm_object_shadow(side, obj->backing, obj->backing_end);
	} else {
		err = spm_freeze(obj, *frozen, n);
		if (!err)
			spm_object_shadow(side, *frozen, ULONG_MAX);
		*frozen = NULL;
	}
	WRITE_ONCE(obj->freezing, false);
	wake_up_all(&obj->family->thaw);
	return err;
}

/**
 * spm_cow_shadow() - a new object that shows what another shows now
 * @obj:	live object
 * @side:	new, of the same family, without pages and backing
 * @cause:	why
 *
 * Afterwards neither sees what is stored to the other.  The moment is one for
 * all of @obj: stores that come while it is being frozen wait.  Each 2 MB entry
 * of @obj costs one write protection, nothing is copied unless it is pinned.
 *
 * Context: process context, may sleep; no slot lock held.  For a fork, the
 * address space that maps @obj is locked for writing.
 * Return: 0; -ENOMEM; -EMLINK beyond SPM_DEPTH_MAX generations (a snapshot; a
 * fork gets a copy of everything then); -EHWPOISON when a pinned page cannot be
 * read.  On failure @obj is as before, and @side has to be put.
 */
int spm_cow_shadow(struct spm_object *obj, struct spm_object *side,
		   enum spm_freeze_cause cause)
{
	struct spm_object *frozen = spm_object_frozen(obj);
	const struct spm_counters *c = obj->owner.counters;
	struct spm_moved n = { };
	unsigned int depth;
	int err;

	if (!frozen)
		return -ENOMEM;
	mutex_lock(&obj->family->lock);
	err = spm_shadow_locked(obj, side, &frozen, cause, &n);
	depth = spm_object_depth(side);
	if (frozen)
		spm_object_drop(frozen);
	mutex_unlock(&obj->family->lock);
	spm_count_n(c, cow_early, n.pages);
	if (!err && cause == SPM_FREEZE_FORK)
		spm_count(c, forks);
	else if (!err)
		spm_count(c, snapshots);
	trace_spm_snapshot(obj->owner.region, side->owner.region, cause,
			   n.reservs, n.pages, depth, err);
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_shadow);

/**
 * spm_cow_map_private() - a private mapping's object begins to shadow a region's
 * @obj:	the region's object, live
 * @side:	new, of the same family, without pages and backing
 *
 * Nothing is frozen: the mapping sees what is stored to the region later, in
 * pages that it has not copied, as with any file.
 *
 * Context: process context, may sleep.
 */
void spm_cow_map_private(struct spm_object *obj, struct spm_object *side)
{
	mutex_lock(&obj->family->lock);
	spm_object_shadow(side, obj, ULONG_MAX);
	mutex_unlock(&obj->family->lock);
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_map_private);

/**
 * spm_cow_forked() - the object that a fork under way made of another already
 * @obj:	private object of the parent
 * @mm:		the child's
 *
 * Several VMAs may show one object.  The parent cannot store to it before the
 * fork is over, so the first of them froze it for all.
 *
 * Context: process context, may sleep; mmap_lock of the parent and of @mm held
 * for writing.
 * Return: the child's object with another user, or NULL.
 */
struct spm_object *spm_cow_forked(struct spm_object *obj,
				  const struct mm_struct *mm)
{
	struct spm_object *side = NULL;

	mutex_lock(&obj->family->lock);
	if (obj->backing)
		side = list_first_entry(&obj->backing->shadows,
					struct spm_object, shadow_link);
	if (side && side->mm == mm && side->forked == obj)
		WRITE_ONCE(side->users, side->users + 1);
	else
		side = NULL;
	mutex_unlock(&obj->family->lock);
	return side;
}
EXPORT_SYMBOL_IF_KUNIT(spm_cow_forked);

/**
 * spm_object_use() - one more map of a private object
 * @obj: object with users
 *
 * Context: process context, may sleep.
 */
void spm_object_use(struct spm_object *obj)
{
	mutex_lock(&obj->family->lock);
	WRITE_ONCE(obj->users, obj->users + 1);
	mutex_unlock(&obj->family->lock);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_use);
