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

#include "collapse.h"
#include "cow.h"
#include "freeze.h"
#include "locks.h"
#include "region.h"
#include "rmap.h"

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

static void spm_region_free(struct spm_region *r)
{
	if (r->object) {
		spm_pool_resize(&r->pool, spm_region_counters(r), 0);
		spm_object_put(r->object);
	}
	spm_rmap_destroy(&r->rmap);
	iput(r->inode);
	ida_free(&spm_region_ids, r->id);
	mutex_destroy(&r->size_lock);
	kfree(r);
}

/* A region that nobody can find yet, its object in @family or a new one. */
static struct spm_region *spm_region_alloc(loff_t size,
					   struct spm_family *family)
{
	struct spm_region *r = kzalloc_obj(*r, GFP_KERNEL_ACCOUNT);
	struct spm_object_spec spec = { .family = family };
	int err;

	if (!r)
		return ERR_PTR(-ENOMEM);
	err = ida_alloc_min(&spm_region_ids, 1, GFP_KERNEL_ACCOUNT);
	if (err < 0) {
		kfree(r);
		return ERR_PTR(err);
	}
	kref_init(&r->ref);
	/* Every tunable is SPM_TUNABLE_INHERIT. */
	memset(&r->tunables, 0xff, sizeof(r->tunables));
	spm_mutex_init(&r->size_lock, "region_size_lock");
	spm_pool_init(&r->pool);
	r->id = err;
	r->inode = spm_inode_new(size);
	if (!r->inode) {
		ida_free(&spm_region_ids, r->id);
		kfree(r);
		return ERR_PTR(-ENOMEM);
	}
	spm_rmap_init(&r->rmap, r->inode->i_mapping);
	spec.region = r->id;
	spec.inode = r->inode;
	spec.rmap = &r->rmap;
	spec.pool = &r->pool;
	spec.counters = spm_counters_create();
	if (spec.counters) {
		r->object = spm_object_create(&spec);
		spm_counters_put(spec.counters);
	}
	if (!r->object) {
		spm_region_free(r);
		return ERR_PTR(-ENOMEM);
	}
	return r;
}

static void spm_region_publish(struct spm_region *r)
{
	mutex_lock(&spm_regions_lock);
	list_add_tail(&r->link, &spm_regions);
	mutex_unlock(&spm_regions_lock);
	spm_count(spm_region_counters(r), regions);
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
	struct spm_region *r = spm_region_alloc(size, NULL);

	if (IS_ERR(r))
		return r;
	r->persistent = persistent;
	r->fixed = persistent;
	spm_region_publish(r);
	return r;
}

/**
 * spm_region_snapshot() - a region that holds what another holds now
 * @r: the other
 *
 * Context: process context, may sleep.
 * Return: the new region with one reference, or an error pointer (-ENOMEM,
 * -ENOSPC, -EMLINK, -EHWPOISON).
 */
struct spm_region *spm_region_snapshot(struct spm_region *r)
{
	struct spm_region *s = spm_region_alloc(0, r->object->family);
	int err;

	if (IS_ERR(s))
		return s;
	mutex_lock(&r->size_lock);
	i_size_write(s->inode, spm_region_size(r));
	s->fixed = r->fixed;
	s->tunables = r->tunables;
	err = spm_cow_shadow(r->object, s->object, SPM_FREEZE_SNAPSHOT);
	mutex_unlock(&r->size_lock);
	if (err) {
		spm_region_free(s);
		return ERR_PTR(err);
	}
	spm_region_publish(s);
	return s;
}

/* An object for a private mapping, with an inode of its own for futexes. */
static struct spm_object *spm_region_object(struct spm_region *r,
					    const struct mm_struct *mm,
					    const struct spm_object *forked)
{
	struct spm_object_spec spec = {
		.family = r->object->family,
		.counters = r->object->owner.counters,
		.region = r->id,
		.inode = spm_inode_new(0),
		.rmap = &r->rmap,
		.mm = mm,
		.forked = forked,
	};
	struct spm_object *obj;

	if (!spec.inode)
		return NULL;
	obj = spm_object_create(&spec);
	iput(spec.inode);
	return obj;
}

/**
 * spm_region_private() - the object of a new private mapping
 * @r:	region that is mapped
 * @mm:	where
 *
 * Context: process context, may sleep.
 * Return: the object with one user, or NULL without memory.
 */
struct spm_object *spm_region_private(struct spm_region *r,
				      const struct mm_struct *mm)
{
	struct spm_object *obj = spm_region_object(r, mm, NULL);

	if (obj)
		spm_cow_map_private(r->object, obj);
	return obj;
}

/**
 * spm_region_fork() - the object of the child's copy of a private mapping
 * @r:		region that is mapped
 * @parent:	object of the parent's mapping
 * @mm:		the child's
 *
 * Context: mmap_lock of the parent and the child held for writing; may sleep.
 * Return: the object with one user more, or NULL without memory.
 */
struct spm_object *spm_region_fork(struct spm_region *r,
				   struct spm_object *parent,
				   const struct mm_struct *mm)
{
	struct spm_object *obj = spm_cow_forked(parent, mm);

	if (obj)
		return obj;
	obj = spm_region_object(r, mm, parent);
	if (obj && spm_cow_shadow(parent, obj, SPM_FREEZE_FORK)) {
		spm_object_put(obj);
		obj = NULL;
	}
	return obj;
}

/* The last reference went away, with the lock of the list held. */
static void spm_region_release(struct kref *ref)
	__releases(&spm_regions_lock)
{
	struct spm_region *r = container_of(ref, struct spm_region, ref);

	list_del(&r->link);
	mutex_unlock(&spm_regions_lock);
	spm_count_n(spm_region_counters(r), regions, -1);
	spm_region_free(r);
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
 * spm_region_depth() - how many generations of snapshots it looks through
 * @r: region
 *
 * Context: process context, may sleep; no slot lock held.
 * Return: length of the chain under its object.
 */
unsigned int spm_region_depth(struct spm_region *r)
{
	unsigned int depth;

	mutex_lock(&r->object->family->lock);
	depth = spm_object_depth(r->object);
	mutex_unlock(&r->object->family->lock);
	return depth;
}

/**
 * spm_region_set_size() - fix the size
 * @r:		region
 * @size:	bytes, a multiple of the page size
 * @reserve:	set a block aside for each slot; else, give up those that are and
 *		that no slot uses
 *
 * Pages beyond are discarded, those of private mappings too; touching them gives
 * SIGBUS from then on.  Snapshots keep theirs.  A 2 MB
 * entry that the new end cuts covers discarded pages, so it goes with them, and
 * its slot is mapped by 4 KB entries from then on.
 *
 * Context: process context, may sleep.
 * Return: 0; -ENOMEM or -EINTR (being killed), for want of blocks, with nothing
 * changed.
 */
int spm_region_set_size(struct spm_region *r, loff_t size, bool reserve)
{
	unsigned long blocks = reserve ? DIV_ROUND_UP(size, PMD_SIZE) : 0;
	loff_t old;
	int err;

	mutex_lock(&r->size_lock);
	err = spm_pool_resize(&r->pool, spm_region_counters(r), blocks);
	if (err) {
		mutex_unlock(&r->size_lock);
		return err;
	}
	old = spm_region_size(r);
	i_size_write(r->inode, size);
	WRITE_ONCE(r->fixed, true);
	/* See spm_object_slot(). */
	smp_mb();
	if (size < old)
		spm_cow_truncate(r->object, size >> PAGE_SHIFT);
	mutex_unlock(&r->size_lock);
	return 0;
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
