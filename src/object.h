/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects: a sparse array of 2 MB slots.
 */
#ifndef SPM_OBJECT_H
#define SPM_OBJECT_H

#include <linux/mutex.h>
#include <linux/xarray.h>

#include "reserv.h"

/**
 * struct spm_slot - 2 MB of an object
 * @lock:	everything about the slot: its reservation, and every page-table
 *		entry of ours that maps it, in any process.  Taken inside
 *		mmap_lock or a VMA lock; outside i_mmap_rwsem and page-table
 *		locks.  Faults on other slots never wait for it.
 * @index:	pgoff >> 9; constant
 * @reserv:	its memory, or NULL; under @lock
 *
 * A slot lives as long as its object.
 */
struct spm_slot {
	struct mutex lock; /* the slot: reservation and entries */
	pgoff_t index;
	struct spm_reserv *reserv;
};

/**
 * struct spm_object - the pages of a region
 * @owner:	what reservations and pmaps refer to
 * @slots:	struct spm_slot by index; looked up under RCU, and entries are
 *		only ever added while the object lives
 */
struct spm_object {
	struct spm_owner owner;
	struct xarray slots;
};

int spm_object_init(struct spm_object *obj, u32 region,
		    struct address_space *mapping);
void spm_object_destroy(struct spm_object *obj);
struct spm_slot *spm_object_slot(struct spm_object *obj, pgoff_t index);
struct spm_slot *spm_object_find_slot(struct spm_object *obj, pgoff_t index);
int spm_slot_reserve(struct spm_object *obj, struct spm_slot *slot,
		     struct vm_area_struct *vma, unsigned long addr);
void spm_slot_depopulate(struct spm_slot *slot, unsigned int first,
			 unsigned int end);

#endif /* SPM_OBJECT_H */
