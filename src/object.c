// SPDX-License-Identifier: GPL-2.0
/*
 * Objects.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <kunit/visibility.h>

#include "locks.h"
#include "object.h"

static struct spm_family *spm_family_create(void)
{
	struct spm_family *family = kzalloc_obj(*family, GFP_KERNEL_ACCOUNT);

	if (!family)
		return NULL;
	refcount_set(&family->ref, 1);
	spm_mutex_init(&family->lock, "family_lock");
	INIT_LIST_HEAD(&family->objects);
	spm_xa_init(&family->locks, "locks_xa");
	init_waitqueue_head(&family->thaw);
	return family;
}

/**
 * spm_family_put() - drop a reference
 * @family: family; without objects if this is the last
 *
 * Context: process context, may sleep.
 */
void spm_family_put(struct spm_family *family)
{
	struct mutex *lock;
	unsigned long index;

	if (!refcount_dec_and_test(&family->ref))
		return;
	xa_for_each(&family->locks, index, lock) {
		mutex_destroy(lock);
		kfree(lock);
		cond_resched();
	}
	xa_destroy(&family->locks);
	mutex_destroy(&family->lock);
	kfree(family);
}

/**
 * spm_family_quiesce() - wait until nobody follows an old connection
 * @family: family, its lock held, whose connections were just changed
 *
 * Whoever follows spm_object.backing holds the lock of a slot.  A lock that is
 * added meanwhile is not waited for: its creator reads @backing after a full
 * barrier that comes after the addition, and so sees the change that came
 * before the one here.
 *
 * Context: process context, may sleep; no slot lock held.
 */
void spm_family_quiesce(struct spm_family *family)
{
	struct mutex *lock;
	unsigned long index;

	lockdep_assert_held(&family->lock);
	smp_mb(); /* the change before the look for locks */
	xa_for_each(&family->locks, index, lock) {
		mutex_lock(lock);
		mutex_unlock(lock);
		cond_resched();
	}
}

/**
 * spm_object_create() - an object without pages and backing
 * @spec: what it is made of
 *
 * With one user; without users, and not yet among the family's objects, if it
 * is a frozen one.
 *
 * Context: process context, may sleep.
 * Return: the object, or NULL without memory.
 */
struct spm_object *spm_object_create(const struct spm_object_spec *spec)
{
	struct spm_object *obj = kzalloc_obj(*obj, GFP_KERNEL_ACCOUNT);

	if (!obj)
		return NULL;
	obj->family = spec->family;
	if (obj->family)
		refcount_inc(&obj->family->ref);
	else
		obj->family = spm_family_create();
	if (!obj->family) {
		kfree(obj);
		return NULL;
	}
	obj->owner.counters = spm_counters_get(spec->counters);
	obj->owner.region = spec->region;
	obj->owner.mapping = spec->inode->i_mapping;
	obj->owner.pool = spec->pool;
	obj->inode = spec->inode;
	ihold(obj->inode);
	obj->rmap = spec->rmap;
	obj->mm = spec->mm;
	obj->forked = spec->forked;
	obj->private = spec->mm;
	obj->backing_end = ULONG_MAX;
	INIT_LIST_HEAD(&obj->shadows);
	INIT_LIST_HEAD(&obj->shadow_link);
	INIT_LIST_HEAD(&obj->link);
	spm_xa_init(&obj->slots, "slots_xa");
	if (obj->rmap) {
		obj->users = 1;
		mutex_lock(&obj->family->lock);
		list_add_tail(&obj->link, &obj->family->objects);
		mutex_unlock(&obj->family->lock);
	}
	spm_count(obj->owner.counters, objects);
	return obj;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_create);

/**
 * spm_object_destroy() - free every page, reservation and slot
 * @obj:	without users and shadows, connected to no backing, and off the
 *		family's list: nobody maps it or can look it up any more
 *
 * Context: process context, may sleep.
 */
void spm_object_destroy(struct spm_object *obj)
{
	struct spm_slot *slot;
	unsigned long index;

	xa_for_each(&obj->slots, index, slot) {
		mutex_lock(slot->lock);
		spm_slot_depopulate(slot, 0, SPM_SLOT_PAGES);
		mutex_unlock(slot->lock);
		bitmap_free(slot->hidden);
		bitmap_free(slot->changed);
		kfree(slot);
		cond_resched();
	}
	xa_destroy(&obj->slots);
	spm_count_n(obj->owner.counters, objects, -1);
	spm_counters_put(obj->owner.counters);
	iput(obj->inode);
	spm_family_put(obj->family);
	kfree(obj);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_destroy);

/**
 * spm_object_shadow() - connect an object to a backing
 * @obj:	without backing
 * @backing:	of the same family
 * @end:	pages of @backing that show through
 *
 * Context: family lock held.
 */
void spm_object_shadow(struct spm_object *obj, struct spm_object *backing,
		       pgoff_t end)
{
	lockdep_assert_held(&obj->family->lock);
	WRITE_ONCE(obj->backing_end, end);
	list_add(&obj->shadow_link, &backing->shadows);
	spm_object_set_backing(obj, backing);
	spm_count(obj->owner.counters, links);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_shadow);

/**
 * spm_object_unshadow() - take an object off its backing
 * @obj: object with a backing
 *
 * Context: family lock held; the caller sees to it that who follows the old
 * connection does no harm.
 */
void spm_object_unshadow(struct spm_object *obj)
{
	lockdep_assert_held(&obj->family->lock);
	list_del_init(&obj->shadow_link);
	WRITE_ONCE(obj->backing, NULL);
	spm_count_n(obj->owner.counters, links, -1);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_unshadow);

/**
 * spm_object_depth() - length of the chain under an object
 * @obj: object, family lock held
 *
 * Return: the number of its backing objects.
 */
unsigned int spm_object_depth(const struct spm_object *obj)
{
	unsigned int n = 0;

	lockdep_assert_held(&obj->family->lock);
	while ((obj = obj->backing))
		n++;
	return n;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_depth);

/**
 * spm_object_find_lock() - look the lock of a slot up
 * @obj:	object, referenced by the caller's file or mapping
 * @index:	pgoff >> 9
 *
 * Context: any.
 * Return: the lock, or NULL if no object of the family has a slot there.
 */
struct mutex *spm_object_find_lock(struct spm_object *obj, pgoff_t index)
{
	return xa_load(&obj->family->locks, index);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_find_lock);

static struct mutex *spm_family_lock(struct spm_family *family, pgoff_t index,
				     gfp_t gfp)
{
	struct mutex *lock = xa_load(&family->locks, index);
	struct mutex *old;

	if (likely(lock))
		return lock;
	lock = kmalloc_obj(*lock, gfp);
	if (!lock)
		return NULL;
	spm_mutex_init(lock, "slot_lock");
	old = xa_cmpxchg(&family->locks, index, NULL, lock, gfp);
	if (unlikely(old)) {
		mutex_destroy(lock);
		kfree(lock);
		return xa_is_err(old) ? NULL : old;
	}
	return lock;
}

/**
 * spm_object_find_slot() - look a slot up
 * @obj:	object, referenced by the caller's file or mapping
 * @index:	pgoff >> 9
 *
 * Context: any.
 * Return: the slot, or NULL if this object never had any of it.
 */
struct spm_slot *spm_object_find_slot(struct spm_object *obj, pgoff_t index)
{
	return xa_load(&obj->slots, index);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_find_slot);

/**
 * spm_object_may_show() - does an object, or one below, have anything of a slot?
 * @obj:	object, referenced by the caller's file or mapping
 * @index:	pgoff >> 9
 *
 * Contents that come up from the last backing bring the slot before that goes;
 * so who finds no backing has to look for the slot once more.
 *
 * Context: any.
 * Return: false if it is certain that nothing shows.
 */
bool spm_object_may_show(struct spm_object *obj, pgoff_t index)
{
	return spm_object_find_slot(obj, index) ||
	       /* As in spm_object_below(). */
	       smp_load_acquire(&obj->backing) ||
	       spm_object_find_slot(obj, index);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_may_show);

/**
 * spm_object_slot() - look a slot up, or make it
 * @obj:	object, referenced by the caller's file or mapping
 * @index:	pgoff >> 9
 * @more:	0, or __GFP_NOFAIL from who cannot fail
 *
 * Two threads may make the same slot; the loser takes the winner's.
 *
 * Context: process context, may sleep.
 * Return: the slot, or NULL without memory.
 */
struct spm_slot *spm_object_slot(struct spm_object *obj, pgoff_t index,
				 gfp_t more)
{
	struct spm_slot *slot = xa_load(&obj->slots, index);
	gfp_t gfp = GFP_KERNEL_ACCOUNT | more;
	struct spm_slot *old;

	if (likely(slot))
		return slot;
	slot = kzalloc_obj(*slot, gfp);
	if (!slot)
		return NULL;
	slot->index = index;
	slot->lock = spm_family_lock(obj->family, index, gfp);
	if (!slot->lock) {
		kfree(slot);
		return NULL;
	}
	old = xa_cmpxchg(&obj->slots, index, NULL, slot, gfp);
	if (unlikely(old)) {
		kfree(slot);
		return xa_is_err(old) ? NULL : old;
	}
	/*
	 * Pairs with the barriers in spm_region_set_size(), spm_shadow_locked()
	 * and spm_family_quiesce(): either they find this slot and its lock, or
	 * we, from here on, see what they did before.
	 */
	smp_mb();
	return slot;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_slot);

/**
 * spm_slot_lock_write() - lock a slot in order to change what it holds
 * @obj:	live object
 * @slot:	its slot
 *
 * While the object is being frozen, stores wait: one that went on into a slot
 * that is frozen already might be followed by one into a slot that is not yet,
 * and the image would hold the second without the first.
 *
 * Context: process context, may sleep; neither the family lock nor a slot lock
 * held.
 * Return: 0 with the lock held, or -EINTR when the task is being killed.
 */
int spm_slot_lock_write(struct spm_object *obj, struct spm_slot *slot)
{
	while (!mutex_lock_killable(slot->lock)) {
		if (likely(!READ_ONCE(obj->freezing)))
			return 0;
		mutex_unlock(slot->lock);
		if (wait_event_killable(obj->family->thaw,
					!READ_ONCE(obj->freezing)))
			break;
	}
	return -EINTR;
}
EXPORT_SYMBOL_IF_KUNIT(spm_slot_lock_write);

/**
 * spm_object_page() - which reservation a page shows through from
 * @obj:	top of the chain
 * @index:	slot
 * @i:		page in it
 *
 * FreeBSD's walk along backing_object in vm_fault().
 *
 * Context: slot lock held.
 * Return: a reservation that holds the page, of @obj or of an object it
 * shadows, directly or not; NULL if nobody holds it: it reads as zeros.
 */
struct spm_reserv *spm_object_page(struct spm_object *obj, pgoff_t index,
				   unsigned int i)
{
	pgoff_t pgoff = (index << SPM_SLOT_SHIFT) + i;

	while (obj) {
		struct spm_slot *slot = spm_object_find_slot(obj, index);

		if (slot && spm_slot_holds(slot, i))
			return slot->reserv;
		if (slot && spm_slot_hides(slot, i))
			return NULL;
		obj = spm_object_below(obj, pgoff);
	}
	return NULL;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_page);

/**
 * spm_object_whole() - the one reservation that a whole slot shows
 * @obj:	top of the chain
 * @index:	slot
 *
 * Only from this may a 2 MB entry be made: a full reservation, and no object
 * above it has anything in the slot.  Were a page of it copied, or hidden, in
 * an object above, the entry would show the page as it was before.
 *
 * Context: slot lock held.
 * Return: a full reservation, or NULL.
 */
struct spm_reserv *spm_object_whole(struct spm_object *obj, pgoff_t index)
{
	pgoff_t last = (index << SPM_SLOT_SHIFT) + SPM_SLOT_PAGES - 1;

	while (obj) {
		struct spm_slot *slot = spm_object_find_slot(obj, index);

		if (slot && slot->reserv)
			return spm_reserv_full(slot->reserv) ? slot->reserv :
							       NULL;
		if (slot && slot->hidden)
			return NULL;
		obj = spm_object_below(obj, last);
	}
	return NULL;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_whole);

/**
 * spm_object_home() - where a page that nobody holds is populated for a load
 * @obj:	top of the chain
 * @index:	slot
 * @i:		page in it
 *
 * What a private mapping has not copied is the region's, so that it sees what
 * others store there later; unless it hid the page itself.
 *
 * Context: slot lock held.
 * Return: a live object: @obj, or the region's.
 */
struct spm_object *spm_object_home(struct spm_object *obj, pgoff_t index,
				   unsigned int i)
{
	pgoff_t pgoff = (index << SPM_SLOT_SHIFT) + i;
	struct spm_object *o = obj;

	while (o && o->private) {
		struct spm_slot *slot = spm_object_find_slot(o, index);

		if (slot && spm_slot_hides(slot, i))
			return obj;
		o = spm_object_below(o, pgoff);
	}
	return o ?: obj;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_home);

/**
 * spm_slot_reserve() - see that a slot has a reservation
 * @obj:	object
 * @slot:	slot of @obj
 * @vma:	mapping whose memory policy counts, or NULL
 * @addr:	faulting address in @vma
 *
 * Context: process context, may sleep; slot lock held.
 * Return: 0 or -ENOMEM.
 */
int spm_slot_reserve(struct spm_object *obj, struct spm_slot *slot,
		     struct vm_area_struct *vma, unsigned long addr)
{
	lockdep_assert_held(slot->lock);
	if (!slot->reserv)
		slot->reserv = spm_reserv_alloc(&obj->owner, slot->index,
						slot->lock, vma, addr);
	return slot->reserv ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(spm_slot_reserve);

/**
 * spm_slot_depopulate() - forget pages; an empty reservation goes back whole
 * @slot:	slot, none of whose pages [@first, @end) is mapped
 * @first:	first index
 * @end:	one past the last
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_slot_depopulate(struct spm_slot *slot, unsigned int first,
			 unsigned int end)
{
	struct spm_reserv *rv = slot->reserv;
	unsigned int i = first;

	lockdep_assert_held(slot->lock);
	if (!rv)
		return;
	for_each_set_bit_from(i, rv->popmap, end)
		spm_reserv_depopulate(rv, i);
	if (!spm_reserv_popcnt(rv)) {
		slot->reserv = NULL;
		spm_reserv_free(rv);
	}
}
EXPORT_SYMBOL_IF_KUNIT(spm_slot_depopulate);
