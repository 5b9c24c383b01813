// SPDX-License-Identifier: GPL-2.0
/*
 * Copy on write, after FreeBSD's vm_object_shadow(), vm_fault_cow() and
 * vm_object_collapse().
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
 * A frozen object with one shadow left is merged into it at once: reservations
 * change hands whole wherever the shadow has nothing in the slot.
 *
 * The family's lock is held for all of that; a fault never takes it.  Contents
 * move one slot at a time, under the slot's lock.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <kunit/visibility.h>

#include "cow.h"

/* What a freeze or a merge did, for the tracepoint. */
struct spm_moved {
	unsigned long reservs;
	unsigned long pages;
};

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
		err = spm_reserv_copy(below->reserv, i, spm_reserv_page(rv, i),
				      NULL, 0, SPM_POPULATE_EARLY);
		if (err)
			break;
		if (spm_reserv_dirty(rv, i))
			spm_reserv_set_dirty(below->reserv, i);
		n->pages++;
	}
	/* Frees the reservation if it has nothing in it. */
	spm_slot_depopulate(below, 0, 0);
	return err;
}

static bool spm_slot_empty(const struct spm_slot *slot)
{
	return !slot->reserv && !slot->hidden;
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
	if (spm_slot_empty(slot))
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
		empty = spm_slot_empty(slot);
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

/* Not connected to anything any more, or yet. */
static void spm_object_drop(struct spm_object *obj)
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
		err = spm_reserv_copy(to, i, spm_reserv_page(from, i), NULL, 0,
				      SPM_POPULATE_MERGE);
		if (err)
			goto undo;
		if (spm_reserv_dirty(from, i))
			spm_reserv_set_dirty(to, i);
	}
	n->pages += from->popcnt;
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

/* Take every entry of a slot out of all mappings of the family. */
static void spm_family_remove_all(struct spm_family *family, pgoff_t index)
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
		     (!spm_reserv_loose(a) && b->popcnt <= a->popcnt);
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
	mutex_unlock(slot->lock);
	return done;
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
}

/*
 * Merge a frozen object into its last shadow, and free it.  Nobody can shadow
 * it any more: only live objects gain shadows.
 *
 * If memory for single pages runs out in between, or a page cannot be read, it
 * stays, with the slots that were not moved, until its shadow goes.
 */
static void spm_merge(struct spm_object *obj)
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
		spm_merge(frozen);
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
				err = spm_reserv_copy(slot->reserv, i,
						      spm_reserv_page(src, i),
						      NULL, 0,
						      SPM_POPULATE_EARLY);
			if (!err && spm_reserv_dirty(src, i))
				spm_reserv_set_dirty(slot->reserv, i);
			n->pages += !err;
		}
		spm_slot_depopulate(slot, 0, 0);
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
		spm_merge(obj);
	mutex_unlock(&family->lock);
	spm_family_put(family);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_put);

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
		struct spm_slot *slot = spm_object_find_slot(obj, index);

		if (!slot && !READ_ONCE(obj->backing))
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
