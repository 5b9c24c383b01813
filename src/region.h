/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Regions: what a file descriptor names.
 */
#ifndef SPM_REGION_H
#define SPM_REGION_H

#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>

#include "object.h"
#include "pmap.h"

/**
 * struct spm_region - memory with a size and a number
 * @ref:	one for each open file, and one of the device node if persistent
 * @link:	in the list of all regions, under its lock
 * @id:		number; constant
 * @persistent:	has a device node of its own; constant
 * @fixed:	mmap does not grow it; under @size_lock
 * @size_lock:	serialises changes of the size, and snapshots, which have one.
 *		Taken inside mmap_lock, outside the family's lock and slot locks
 * @inode:	holds the size, and the mapping that all VMAs are linked to;
 *		constant
 * @rmap:	where it is mapped
 * @object:	the pages; constant
 * @pool:	blocks set aside by SET_SIZE; resized under @size_lock
 * @tunables:	its own, each SPM_TUNABLE_INHERIT or a value; words that are read
 *		and written alone
 */
struct spm_region {
	struct kref ref;
	struct list_head link;
	u32 id;
	bool persistent;
	bool fixed;
	struct mutex size_lock; /* changes of the size */
	struct inode *inode;
	struct spm_rmap rmap;
	struct spm_object *object;
	struct spm_pool pool;
	struct spm_tunables tunables;
};

/* What applies to a region, see struct spm_tunables. */
#define spm_region_tunable(r, field)					\
	spm_policy_tunable(READ_ONCE((r)->tunables.field),		\
			   READ_ONCE(spm_tunables.field))

int spm_region_init(void);
void spm_region_exit(void);

struct spm_region *spm_region_create(bool persistent, loff_t size);
struct spm_region *spm_region_snapshot(struct spm_region *r);
struct spm_object *spm_region_private(struct spm_region *r,
				      const struct mm_struct *mm);
struct spm_object *spm_region_fork(struct spm_region *r,
				   struct spm_object *parent,
				   const struct mm_struct *mm);
struct spm_region *spm_region_get(struct spm_region *r);
void spm_region_put(struct spm_region *r);
struct spm_region *spm_region_next(struct spm_region *prev);

unsigned int spm_region_depth(struct spm_region *r);
int spm_region_set_size(struct spm_region *r, loff_t size, bool reserve);
void spm_region_grow(struct spm_region *r, loff_t end);

static inline loff_t spm_region_size(const struct spm_region *r)
{
	return i_size_read(r->inode);
}

static inline const struct spm_counters *
spm_region_counters(const struct spm_region *r)
{
	return r->object->owner.counters;
}

/* Both must say yes; whoever inherits does. */
static inline bool spm_region_superpages(const struct spm_region *r)
{
	return READ_ONCE(spm_tunables.superpages) &&
	       READ_ONCE(r->tunables.superpages);
}

/* Pages that can be touched; the size is a multiple of the page size. */
static inline pgoff_t spm_region_pages(const struct spm_region *r)
{
	return spm_region_size(r) >> PAGE_SHIFT;
}

#endif /* SPM_REGION_H */
