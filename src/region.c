// SPDX-License-Identifier: GPL-2.0
/*
 * Regions: an inode of our own file system, which gives size, reverse map and
 * futex identity, and an object, which gives pages.
 */
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/pagemap.h>
#include <linux/pseudo_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "pmap.h"
#include "region.h"

/* "sprp", shown by statfs to whoever gets hold of such an inode. */
#define SPM_FS_MAGIC	0x73707270

static LIST_HEAD(spm_regions);
static DEFINE_MUTEX(spm_regions_lock);
static DEFINE_IDA(spm_region_ids);
static struct vfsmount *spm_mnt;

static int spm_init_fs_context(struct fs_context *fc)
{
	return init_pseudo(fc, SPM_FS_MAGIC) ? 0 : -ENOMEM;
}

/*
 * No owner: our own mount would hold a reference to the module, and it could
 * never be unloaded.  The mount ends in spm_region_exit(), inside module exit,
 * and an internal mount is torn down there and then, not by deferred work.
 */
static struct file_system_type spm_fs_type = {
	.name = "superpmap",
	.init_fs_context = spm_init_fs_context,
	.kill_sb = kill_anon_super,
};

/* Dirtying by get_user_pages() and by zapping: noted, nothing to write back. */
static const struct address_space_operations spm_aops = {
	.dirty_folio = noop_dirty_folio,
};

/**
 * spm_region_init() - mount the file system of the inodes
 *
 * Context: module init.
 * Return: 0 or a negative errno.
 */
int spm_region_init(void)
{
	spm_mnt = kern_mount(&spm_fs_type);
	return PTR_ERR_OR_ZERO(spm_mnt);
}

/**
 * spm_region_exit() - unmount it
 *
 * Context: module exit; no region is left.
 */
void spm_region_exit(void)
{
	kern_unmount(spm_mnt);
	ida_destroy(&spm_region_ids);
}

static struct inode *spm_inode_new(loff_t size)
{
	struct inode *inode = new_inode(spm_mnt->mnt_sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = S_IFREG | 0600;
	inode->i_mapping->a_ops = &spm_aops;
	mapping_set_gfp_mask(inode->i_mapping, GFP_HIGHUSER);
	mapping_set_unevictable(inode->i_mapping);
	i_size_write(inode, size);
	return inode;
}

/**
 * spm_region_create() - a region without pages
 * @persistent:	it will have a device node of its own, and a fixed size
 * @size:	bytes, a multiple of the page size
 *
 * Context: process context, may sleep.
 * Return: the region with one reference, or an error pointer (-ENOMEM,
 * -ENOSPC).
 */
struct spm_region *spm_region_create(bool persistent, loff_t size)
{
	struct spm_region *r = kzalloc_obj(*r, GFP_KERNEL_ACCOUNT);
	int err;

	if (!r)
		return ERR_PTR(-ENOMEM);
	kref_init(&r->ref);
	mutex_init(&r->size_lock);
	r->persistent = persistent;
	r->fixed = persistent;
	err = ida_alloc_min(&spm_region_ids, 1, GFP_KERNEL_ACCOUNT);
	if (err < 0)
		goto free;
	r->id = err;
	err = -ENOMEM;
	r->inode = spm_inode_new(size);
	if (!r->inode)
		goto free_id;
	err = spm_object_init(&r->object, r->id, r->inode->i_mapping);
	if (err)
		goto put_inode;
	mutex_lock(&spm_regions_lock);
	list_add_tail(&r->link, &spm_regions);
	mutex_unlock(&spm_regions_lock);
	spm_count(&r->object.owner.counters, regions);
	return r;

put_inode:
	iput(r->inode);
free_id:
	ida_free(&spm_region_ids, r->id);
free:
	kfree(r);
	return ERR_PTR(err);
}

/* The last reference went away, with the lock of the list held. */
static void spm_region_release(struct kref *ref)
	__releases(&spm_regions_lock)
{
	struct spm_region *r = container_of(ref, struct spm_region, ref);

	list_del(&r->link);
	mutex_unlock(&spm_regions_lock);
	spm_count_n(&r->object.owner.counters, regions, -1);
	spm_object_destroy(&r->object);
	iput(r->inode);
	ida_free(&spm_region_ids, r->id);
	mutex_destroy(&r->size_lock);
	kfree(r);
}

/**
 * spm_region_get() - take a reference
 * @r: region, referenced already
 *
 * Return: @r.
 */
struct spm_region *spm_region_get(struct spm_region *r)
{
	kref_get(&r->ref);
	return r;
}

/**
 * spm_region_put() - drop a reference; the last frees every page
 * @r: region
 *
 * Context: process context, may sleep.
 */
void spm_region_put(struct spm_region *r)
{
	kref_put_mutex(&r->ref, spm_region_release, &spm_regions_lock);
}

/**
 * spm_region_next() - step through all regions
 * @prev: where to go on, its reference is given up; NULL to begin
 *
 * Context: process context, may sleep.
 * Return: a region with a reference, or NULL after the last.
 */
struct spm_region *spm_region_next(struct spm_region *prev)
{
	struct spm_region *found;

	mutex_lock(&spm_regions_lock);
	/* A region with a reference is on the list: release takes it off. */
	found = prev ? list_next_entry(prev, link) :
		       list_first_entry(&spm_regions, struct spm_region, link);
	if (list_entry_is_head(found, &spm_regions, link))
		found = NULL;
	else
		spm_region_get(found);
	mutex_unlock(&spm_regions_lock);
	if (prev)
		spm_region_put(prev);
	return found;
}

/**
 * spm_region_discard() - pages back to zeros, memory back to the system
 * @r:		region
 * @first:	first page
 * @end:	one past the last
 *
 * Slot by slot; a fault between two slots may populate again behind us, as a
 * store that comes after the call would.
 *
 * Context: process context, may sleep; no slot lock held.
 */
void spm_region_discard(struct spm_region *r, pgoff_t first, pgoff_t end)
{
	struct spm_object *obj = &r->object;
	struct spm_slot *slot;
	unsigned long index;

	if (first >= end)
		return;
	xa_for_each_range(&obj->slots, index, slot, first >> SPM_SLOT_SHIFT,
			  (end - 1) >> SPM_SLOT_SHIFT) {
		pgoff_t start = index << SPM_SLOT_SHIFT;
		unsigned int lo = first > start ? first - start : 0;
		unsigned int hi = min(end - start, (pgoff_t)SPM_SLOT_PAGES);
		unsigned int had;

		mutex_lock(&slot->lock);
		if (slot->reserv) {
			had = bitmap_weight_from(slot->reserv->popmap, lo, hi);
			if (had) {
				spm_pmap_remove_all(&obj->owner, index, lo, hi);
				spm_slot_depopulate(slot, lo, hi);
			}
			spm_count_n(&obj->owner.counters, discarded, had);
		}
		mutex_unlock(&slot->lock);
		cond_resched();
	}
}

/**
 * spm_region_set_size() - fix the size
 * @r:		region
 * @size:	bytes, a multiple of the page size
 *
 * Pages beyond are discarded; touching them gives SIGBUS from then on.  A 2 MB
 * entry that the new end cuts covers discarded pages, so it goes with them, and
 * its slot is mapped by 4 KB entries from then on.
 *
 * Context: process context, may sleep.
 */
void spm_region_set_size(struct spm_region *r, loff_t size)
{
	loff_t old;

	mutex_lock(&r->size_lock);
	old = spm_region_size(r);
	i_size_write(r->inode, size);
	WRITE_ONCE(r->fixed, true);
	/* See spm_object_slot(). */
	smp_mb();
	if (size < old)
		spm_region_discard(r, size >> PAGE_SHIFT, old >> PAGE_SHIFT);
	mutex_unlock(&r->size_lock);
}

/**
 * spm_region_grow() - a mapping reaches to @end
 * @r:		region
 * @end:	bytes, a multiple of the page size
 *
 * Context: mmap_lock held for writing; may sleep.
 */
void spm_region_grow(struct spm_region *r, loff_t end)
{
	/* Once fixed it stays so; do not wait for a SET_SIZE at work. */
	if (READ_ONCE(r->fixed))
		return;
	mutex_lock(&r->size_lock);
	if (!r->fixed && end > spm_region_size(r))
		i_size_write(r->inode, end);
	mutex_unlock(&r->size_lock);
}
