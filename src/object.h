/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects: a sparse array of 2 MB slots, and the object that shows through
 * where it holds nothing.
 *
 * Regions, snapshots and private mappings are all the same: an object whose
 * missing pages are looked up in the object it shadows, its backing, at the
 * same index.  Objects that may come to share pages form a family.
 */
#ifndef SPM_OBJECT_H
#define SPM_OBJECT_H

#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "reserv.h"

struct inode;
struct mm_struct;
struct spm_rmap;

/**
 * struct spm_family - objects that are connected by shadowing, or were
 * @ref:	one for each object, and for who holds @lock while the last may go
 * @lock:	how its objects are connected, and their users.  Taken inside
 *		mmap_lock and a region's size_lock, outside slot locks; never by
 *		a fault
 * @objects:	all that have users or shadows, under @lock
 * @locks:	the slot locks by index: struct mutex, shared by the slots of all
 *		objects.  Looked up under RCU, and only ever added
 * @thaw:	who wants to store into an object that is being frozen
 *
 * One lock for an index in the whole family: whoever holds it sees the contents
 * of the whole chain at that index standing still, and nothing nests.  To copy
 * a page, siblings would meet at the lock of their common backing anyway.
 */
struct spm_family {
	refcount_t ref;
	struct mutex lock; /* connections and users */
	struct list_head objects;
	struct xarray locks;
	wait_queue_head_t thaw;
};

/**
 * struct spm_slot - 2 MB of an object
 * @lock:	of the family, for this index: the reservations of all its
 *		objects, and every page-table entry of ours that maps the index,
 *		in any process.  Taken inside mmap_lock or a VMA lock; outside
 *		i_mmap_rwsem and page-table locks.  Faults on other slots never
 *		wait for it.  Constant
 * @index:	pgoff >> 9; constant
 * @reserv:	its memory, or NULL; under @lock
 * @hidden:	pages at which the backing must not show through, because they
 *		were discarded here: 512 bits, or NULL for none; under @lock
 * @changed:	pages that changed otherwise than by a store that @reserv has
 *		recorded: 512 bits, or NULL for none; under @lock
 * @watched:	@reserv and @changed say all about what is dirty: see track.c;
 *		under @lock
 *
 * A slot lives as long as its object.
 */
struct spm_slot {
	struct mutex *lock;
	pgoff_t index;
	struct spm_reserv *reserv;
	unsigned long *hidden;
	unsigned long *changed;
	bool watched;
};

/**
 * struct spm_object - pages
 *
 * Lock key: (c) constant, (f) family lock, (F) family lock to change, any slot
 * lock of the family to read: see spm_family_quiesce().
 *
 * @owner:	(c) what reservations and pmaps refer to
 * @family:	(c)
 * @link:	(f) in family->objects
 * @inode:	(c) whose mapping is owner.mapping; referenced
 * @rmap:	(c) the mappings that show it, as long as it is live
 * @mm:		(c) of the mapping it belongs to if private; never followed
 * @forked:	(c) object that @mm's parent had when it forked, or NULL; never
 *		followed
 * @private:	(c) of a private mapping, or frozen from one
 * @users:	(f) the region or the maps whose object it is.  Live while there
 *		are some; frozen, and never changed any more, after that
 * @freezing:	its contents are on the way to a frozen object; under the family
 *		lock, and read under slot locks
 * @armed:	its dirty state was cleared, or that of what it began as; once
 *		set it stays
 * @backing:	(F) the object it shadows, or NULL
 * @backing_end:(F) where @backing ends, in pages, as seen from here
 * @shadows:	(f) objects whose backing it is, newest first.  Live objects may
 *		get more; a frozen one only loses them
 * @shadow_link:(f) in backing->shadows
 * @slots:	struct spm_slot by index; looked up under RCU, and entries are
 *		only ever added while the object lives
 */
struct spm_object {
	struct spm_owner owner;
	struct spm_family *family;
	struct list_head link;
	struct inode *inode;
	struct spm_rmap *rmap;
	const struct mm_struct *mm;
	const struct spm_object *forked;
	bool private;
	unsigned int users;
	bool freezing;
	bool armed;
	struct spm_object *backing;
	pgoff_t backing_end;
	struct list_head shadows;
	struct list_head shadow_link;
	struct xarray slots;
};

/**
 * struct spm_object_spec - what an object is made of
 * @family:	to join, or NULL to found one
 * @counters:	region's, to take a reference to
 * @region:	its number
 * @inode:	to take a reference to
 * @rmap:	the region's; NULL for an object that is frozen from the start
 * @pool:	the region's, for its own object; or NULL
 * @mm:		of a private mapping, or NULL
 * @forked:	see struct spm_object
 */
struct spm_object_spec {
	struct spm_family *family;
	struct spm_counters *counters;
	u32 region;
	struct inode *inode;
	struct spm_rmap *rmap;
	struct spm_pool *pool;
	const struct mm_struct *mm;
	const struct spm_object *forked;
};

struct spm_object *spm_object_create(const struct spm_object_spec *spec);
void spm_object_destroy(struct spm_object *obj);
void spm_object_shadow(struct spm_object *obj, struct spm_object *backing,
		       pgoff_t end);
void spm_object_unshadow(struct spm_object *obj);
unsigned int spm_object_depth(const struct spm_object *obj);
void spm_family_quiesce(struct spm_family *family);
void spm_family_put(struct spm_family *family);

struct mutex *spm_object_find_lock(struct spm_object *obj, pgoff_t index);
struct spm_slot *spm_object_slot(struct spm_object *obj, pgoff_t index,
				 gfp_t more);
struct spm_slot *spm_object_find_slot(struct spm_object *obj, pgoff_t index);
bool spm_object_may_show(struct spm_object *obj, pgoff_t index);
int spm_slot_lock_write(struct spm_object *obj, struct spm_slot *slot);

struct spm_reserv *spm_object_page(struct spm_object *obj, pgoff_t index,
				   unsigned int i);
struct spm_reserv *spm_object_whole(struct spm_object *obj, pgoff_t index);
struct spm_object *spm_object_home(struct spm_object *obj, pgoff_t index,
				   unsigned int i);

int spm_slot_reserve(struct spm_object *obj, struct spm_slot *slot,
		     struct vm_area_struct *vma, unsigned long addr);
void spm_slot_depopulate(struct spm_slot *slot, unsigned int first,
			 unsigned int end);

static inline bool spm_slot_holds(const struct spm_slot *slot, unsigned int i)
{
	return slot->reserv && spm_reserv_populated(slot->reserv, i);
}

static inline bool spm_slot_hides(const struct spm_slot *slot, unsigned int i)
{
	return slot->hidden && test_bit(i, slot->hidden);
}

/**
 * spm_object_below() - where to look next for a page
 * @obj:	object that does not hold it
 * @pgoff:	the page
 *
 * Context: a slot lock of the family held.
 * Return: the object that shows through, or NULL.
 */
static inline struct spm_object *spm_object_below(const struct spm_object *obj,
						  pgoff_t pgoff)
{
	/* The end before what it is the end of: see spm_object_insert(). */
	if (pgoff >= smp_load_acquire(&obj->backing_end))
		return NULL;
	/* Pairs with the release in spm_object_set_backing(). */
	return smp_load_acquire(&obj->backing);
}

static inline void spm_object_set_backing(struct spm_object *obj,
					  struct spm_object *backing)
{
	/* What was done to @backing before comes first. */
	smp_store_release(&obj->backing, backing);
}

#endif /* SPM_OBJECT_H */
