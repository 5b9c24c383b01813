// SPDX-License-Identifier: GPL-2.0
/*
 * Objects.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <kunit/visibility.h>

#include "object.h"

/**
 * spm_object_init() - an object without pages
 * @obj:	to be set up
 * @region:	number of its region
 * @mapping:	of its region's inode
 *
 * Context: process context, may sleep.
 * Return: 0 or -ENOMEM.
 */
int spm_object_init(struct spm_object *obj, u32 region,
		    struct address_space *mapping)
{
	xa_init(&obj->slots);
	obj->owner.region = region;
	obj->owner.mapping = mapping;
	INIT_LIST_HEAD(&obj->owner.pmaps);
	mutex_init(&obj->owner.pmaps_lock);
	return spm_counters_init(&obj->owner.counters);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_init);

/**
 * spm_object_destroy() - free every page, reservation and slot
 * @obj:	nobody maps it or can look it up any more
 *
 * Context: process context, may sleep.
 */
void spm_object_destroy(struct spm_object *obj)
{
	struct spm_slot *slot;
	unsigned long index;

	xa_for_each(&obj->slots, index, slot) {
		mutex_lock(&slot->lock);
		spm_slot_depopulate(slot, 0, SPM_SLOT_PAGES);
		mutex_unlock(&slot->lock);
		mutex_destroy(&slot->lock);
		kfree(slot);
		cond_resched();
	}
	xa_destroy(&obj->slots);
	mutex_destroy(&obj->owner.pmaps_lock);
	spm_counters_destroy(&obj->owner.counters);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_destroy);

/**
 * spm_object_find_slot() - look a slot up
 * @obj:	object, referenced by the caller's file or mapping
 * @index:	pgoff >> 9
 *
 * Context: any.
 * Return: the slot, or NULL if nothing of it was ever touched.
 */
struct spm_slot *spm_object_find_slot(struct spm_object *obj, pgoff_t index)
{
	return xa_load(&obj->slots, index);
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_find_slot);

/**
 * spm_object_slot() - look a slot up, or make it
 * @obj:	object, referenced by the caller's file or mapping
 * @index:	pgoff >> 9
 *
 * Two threads may make the same slot; the loser takes the winner's.
 *
 * Context: process context, may sleep.
 * Return: the slot, or NULL without memory.
 */
struct spm_slot *spm_object_slot(struct spm_object *obj, pgoff_t index)
{
	struct spm_slot *slot = xa_load(&obj->slots, index);
	struct spm_slot *old;

	if (likely(slot))
		return slot;
	slot = kzalloc_obj(*slot, GFP_KERNEL_ACCOUNT);
	if (!slot)
		return NULL;
	mutex_init(&slot->lock);
	slot->index = index;
	old = xa_cmpxchg(&obj->slots, index, NULL, slot, GFP_KERNEL_ACCOUNT);
	if (unlikely(old)) {
		mutex_destroy(&slot->lock);
		kfree(slot);
		return xa_is_err(old) ? NULL : old;
	}
	/*
	 * Pairs with the barrier in spm_region_set_size(): either the shrink
	 * finds this slot, or the fault that made it sees the new size.
	 */
	smp_mb();
	return slot;
}
EXPORT_SYMBOL_IF_KUNIT(spm_object_slot);

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
	lockdep_assert_held(&slot->lock);
	if (!slot->reserv)
		slot->reserv = spm_reserv_alloc(&obj->owner, slot->index, vma,
						addr);
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

	lockdep_assert_held(&slot->lock);
	if (!rv)
		return;
	for_each_set_bit_from(i, rv->popmap, end)
		spm_reserv_depopulate(rv, i);
	if (!rv->popcnt) {
		slot->reserv = NULL;
		spm_reserv_free(rv);
	}
}
EXPORT_SYMBOL_IF_KUNIT(spm_slot_depopulate);
