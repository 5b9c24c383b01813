// SPDX-License-Identifier: GPL-2.0
/*
 * /dev nodes, file operations, ioctls.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/anon_inodes.h>
#include <linux/compat.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/miscdevice.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include "advise.h"
#include "device.h"
#include "fault.h"
#include "mincore.h"
#include "nodes.h"
#include "scan.h"

/**
 * struct spm_node - a device node
 * @misc:	as the kernel knows it
 * @region:	the persistent region it stands for, or NULL for /dev/superpmap
 * @name:	"superpmap" or "superpmapN"
 */
struct spm_node {
	struct miscdevice misc;
	struct spm_region *region;
	char name[24];
};

/* The generic node, a node for each persistent region, and an empty one. */
static struct spm_node spm_nodes[1 + SPM_MAX_REGIONS + 1];
static unsigned int spm_nr_nodes;
/* All nodes are there: init will not fail any more, so files may be opened. */
static bool spm_live;

static const struct file_operations spm_fops;

/*
 * Size and reverse map are those of the region's inode, not of the device
 * node's, as for DAX devices.
 */
static void spm_file_init(struct file *file, struct spm_region *r)
{
	file->private_data = r;
	file->f_mapping = r->inode->i_mapping;
	file->f_wb_err = filemap_sample_wb_err(file->f_mapping);
}

static int spm_open(struct inode *inode, struct file *file)
{
	struct spm_node *node = container_of(file->private_data,
					     struct spm_node, misc);
	struct spm_region *r;

	if (!READ_ONCE(spm_live))
		return -ENODEV;
	if (node->region) {
		r = spm_region_get(node->region);
	} else {
		r = spm_region_create(false, 0);
		if (IS_ERR(r))
			return PTR_ERR(r);
	}
	spm_file_init(file, r);
	return 0;
}

/* Every VMA holds the file, so none is left here. */
static int spm_release(struct inode *inode, struct file *file)
{
	spm_region_put(file->private_data);
	return 0;
}

static int spm_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct spm_region *r = file->private_data;
	pgoff_t end;
	int err;

	if (check_add_overflow(vma->vm_pgoff, vma_pages(vma), &end) ||
	    end > MAX_LFS_FILESIZE >> PAGE_SHIFT)
		return -EOVERFLOW;
	err = spm_map_mmap(r, vma);
	if (err)
		return err;
	spm_region_grow(r, (loff_t)end << PAGE_SHIFT);
	/*
	 * VM_DONTEXPAND: two mappings never become one VMA, and mremap cannot
	 * make one longer.  It also keeps userfaultfd out, whose write
	 * protection we would not see.
	 */
	vm_flags_set(vma, VM_DONTEXPAND | VM_HUGEPAGE);
	vma->vm_ops = &spm_vm_ops;
	return 0;
}

/*
 * Take the caller's structure by the rules at the head of the user interface.
 * @min is the first published size, @size ours.
 */
static int spm_copy_in(void *dst, size_t size, size_t min, void __user *arg)
{
	u32 argsz;

	if (get_user(argsz, (u32 __user *)arg))
		return -EFAULT;
	if (argsz < min)
		return -EINVAL;
	if (argsz > PAGE_SIZE)
		return -E2BIG;
	return copy_struct_from_user(dst, size, arg, argsz);
}

/* As much as the caller knows of, and argsz as the caller gave it. */
static int spm_copy_out(void __user *arg, const void *src, size_t size,
			u32 argsz)
{
	return copy_to_user(arg, src, min_t(size_t, size, argsz)) ? -EFAULT : 0;
}

static int spm_ioc_info(struct spm_region *r, void __user *arg)
{
	struct spm_info in, out = { };
	int err = spm_copy_in(&in, sizeof(in), sizeof(in), arg);

	if (err)
		return err;
	if (in.flags || in.pad)
		return -EINVAL;
	out.argsz = in.argsz;
	if (spm_region_superpages(r))
		out.flags |= SPM_INFO_SUPERPAGES;
	if (r->persistent)
		out.flags |= SPM_INFO_PERSISTENT;
	if (READ_ONCE(r->fixed))
		out.flags |= SPM_INFO_SIZE_FIXED;
	if (READ_ONCE(r->pool.target))
		out.flags |= SPM_INFO_RESERVED;
	out.version = SPM_API_VERSION;
	out.region = r->id;
	out.pagesizes[SPM_PSIND_4K] = PAGE_SIZE;
	out.pagesizes[SPM_PSIND_2M] = PMD_SIZE;
	out.npagesizes = 2;
	out.size = spm_region_size(r);
	return spm_copy_out(arg, &out, sizeof(out), in.argsz);
}

static int spm_ioc_set_size(struct spm_region *r, void __user *arg, bool write)
{
	struct spm_set_size a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags & ~SPM_SIZE_RESERVE || !IS_ALIGNED(a.size, PAGE_SIZE))
		return -EINVAL;
	if (a.size > MAX_LFS_FILESIZE)
		return -EFBIG;
	if (!write)
		return -EBADF;
	if (r->persistent)
		return -EPERM;
	return spm_region_set_size(r, a.size, a.flags & SPM_SIZE_RESERVE);
}

static int spm_ioc_advise(struct spm_region *r, void __user *arg, bool write)
{
	struct spm_advise a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags & ~SPM_ADVISE_BY_OFFSET || a.pad)
		return -EINVAL;
	return spm_advise(r, &a, write);
}

static int spm_ioc_mincore(struct spm_region *r, void __user *arg)
{
	struct spm_mincore a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags)
		return -EINVAL;
	return spm_mincore(r, &a);
}

static int spm_ioc_stats(struct spm_region *r, void __user *arg)
{
	struct spm_stats s;
	/* The list grows; @regions was the last counter of the first version. */
	int err = spm_copy_in(&s, sizeof(s),
			      offsetofend(struct spm_stats, regions), arg);
	u32 argsz, flags;

	if (err)
		return err;
	argsz = s.argsz;
	flags = s.flags;
	if (flags & ~SPM_STATS_GLOBAL)
		return -EINVAL;
	memset(&s, 0, sizeof(s));
	s.argsz = argsz;
	s.flags = flags;
	spm_stats_fill(flags & SPM_STATS_GLOBAL ? NULL :
		       spm_region_counters(r), &s);
	return spm_copy_out(arg, &s, sizeof(s), argsz);
}

static int spm_ioc_snapshot(struct spm_region *r, void __user *arg, bool read)
{
	struct spm_snapshot a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);
	struct spm_region *s;
	struct file *file;
	int fd;

	if (err)
		return err;
	if (a.flags & ~SPM_SNAPSHOT_CLOEXEC)
		return -EINVAL;
	if (!read)
		return -EBADF;
	fd = get_unused_fd_flags(a.flags & SPM_SNAPSHOT_CLOEXEC ? O_CLOEXEC : 0);
	if (fd < 0)
		return fd;
	s = spm_region_snapshot(r);
	if (IS_ERR(s)) {
		put_unused_fd(fd);
		return PTR_ERR(s);
	}
	file = anon_inode_getfile("[superpmap]", &spm_fops, s, O_RDWR);
	if (IS_ERR(file)) {
		spm_region_put(s);
		put_unused_fd(fd);
		return PTR_ERR(file);
	}
	spm_file_init(file, s);
	fd_install(fd, file);
	return fd;
}

static bool spm_tunable_valid(u32 value, u32 min, u32 max)
{
	return value == SPM_POLICY_KEEP || value == SPM_POLICY_INHERIT ||
	       (value >= min && value <= max);
}

/*
 * Nothing changes when one value is refused.  Two callers at once: each tunable is
 * what one of them wants, as with the module parameters.
 */
static int spm_ioc_set_policy(struct spm_region *r, void __user *arg,
			      bool write)
{
	struct spm_policy a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);
	bool valid = true;

	BUILD_BUG_ON(SPM_TUNABLE_INHERIT != SPM_POLICY_INHERIT);
	BUILD_BUG_ON(SPM_COW_AUTO != SPM_COW_SIZE_AUTO);
	BUILD_BUG_ON(SPM_GRAIN_AUTO != SPM_DIRTY_GRAIN_AUTO);
	if (err)
		return err;
#define SPM_CHECK(field, name, min, max) \
	valid &= spm_tunable_valid(a.name, min, max);
	SPM_TUNABLES(SPM_CHECK)
#undef SPM_CHECK
	if (a.flags || !valid)
		return -EINVAL;
	if (!write)
		return -EBADF;
#define SPM_SET(field, name, min, max)					\
	if (a.name != SPM_POLICY_KEEP)					\
		WRITE_ONCE(r->tunables.field, a.name);
	SPM_TUNABLES(SPM_SET)
#undef SPM_SET
	return 0;
}

static int spm_ioc_get_policy(struct spm_region *r, void __user *arg)
{
	struct spm_policy a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);
	bool own;

	if (err)
		return err;
	if (a.flags & ~SPM_POLICY_EFFECTIVE)
		return -EINVAL;
	own = !(a.flags & SPM_POLICY_EFFECTIVE);
#define SPM_GET(field, name, min, max)					\
	a.name = own ? READ_ONCE(r->tunables.field) :			\
		       spm_region_tunable(r, field);
	SPM_TUNABLES(SPM_GET)
#undef SPM_GET
	if (!own)
		a.pg_ps_enabled = spm_region_superpages(r);
	return spm_copy_out(arg, &a, sizeof(a), a.argsz);
}

#define SPM_SCAN_FLAGS	(SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR | SPM_SCAN_BITMAP)

/* Take the request; what the answer goes to is written once, to see that it can be. */
static int spm_scan_in(struct spm_scan *a, u32 flags, void __user *arg)
{
	int err = spm_copy_in(a, sizeof(*a), sizeof(*a), arg);

	if (err)
		return err;
	if (a->flags & ~flags || a->pad ||
	    (!(a->flags & SPM_SCAN_SINCE) && a->since) ||
	    (a->flags & SPM_SCAN_BITMAP && a->vec_len % sizeof(u64)))
		return -EINVAL;
	return spm_copy_out(arg, a, sizeof(*a), a->argsz);
}

/* Another region that this one has parted from. */
static int spm_scan_since(struct spm_region *r, struct spm_scan *a)
{
	CLASS(fd, f)(a->since);
	struct spm_region *since;

	if (fd_empty(f))
		return -EBADF;
	if (fd_file(f)->f_op != &spm_fops || a->flags & SPM_SCAN_CLEAR ||
	    !(a->flags & SPM_SCAN_BY_OFFSET))
		return -EINVAL;
	since = fd_file(f)->private_data;
	if (since->object->family != r->object->family)
		return -EINVAL;
	return spm_get_dirty(r, a, since, false);
}

static int spm_ioc_get_dirty(struct spm_region *r, void __user *arg, bool write)
{
	struct spm_scan a;
	int err = spm_scan_in(&a, SPM_SCAN_FLAGS | SPM_SCAN_SINCE, arg);

	if (err)
		return err;
	if (a.flags & SPM_SCAN_SINCE)
		err = spm_scan_since(r, &a);
	else
		err = spm_get_dirty(r, &a, NULL, write);
	return err ?: spm_copy_out(arg, &a, sizeof(a), a.argsz);
}

static int spm_ioc_get_referenced(struct spm_region *r, void __user *arg,
				  bool write)
{
	struct spm_scan a;
	int err = spm_scan_in(&a, SPM_SCAN_FLAGS, arg);

	if (!err)
		err = spm_get_referenced(r, &a, write);
	return err ?: spm_copy_out(arg, &a, sizeof(a), a.argsz);
}

static int spm_ioc_nodes(struct spm_region *r, void __user *arg)
{
	struct spm_nodes a;
	int err = spm_copy_in(&a, sizeof(a), sizeof(a), arg);

	if (err)
		return err;
	if (a.flags)
		return -EINVAL;
	err = spm_get_nodes(r, &a);
	return err ?: spm_copy_out(arg, &a, sizeof(a), a.argsz);
}

static long spm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct spm_region *r = file->private_data;
	bool write = file->f_mode & FMODE_WRITE;
	void __user *p = (void __user *)arg;

	switch (cmd) {
	case SPM_IOC_INFO:
		return spm_ioc_info(r, p);
	case SPM_IOC_SET_SIZE:
		return spm_ioc_set_size(r, p, write);
	case SPM_IOC_ADVISE:
		return spm_ioc_advise(r, p, write);
	case SPM_IOC_MINCORE:
		return spm_ioc_mincore(r, p);
	case SPM_IOC_STATS:
		return spm_ioc_stats(r, p);
	case SPM_IOC_SNAPSHOT:
		return spm_ioc_snapshot(r, p, file->f_mode & FMODE_READ);
	case SPM_IOC_SET_POLICY:
		return spm_ioc_set_policy(r, p, write);
	case SPM_IOC_GET_POLICY:
		return spm_ioc_get_policy(r, p);
	case SPM_IOC_GET_DIRTY:
		return spm_ioc_get_dirty(r, p, write);
	case SPM_IOC_GET_REFERENCED:
		return spm_ioc_get_referenced(r, p, write);
	case SPM_IOC_NODES:
		return spm_ioc_nodes(r, p);
	default:
		return -ENOTTY;
	}
}

/*
 * A hint that is free as it stands is taken; else an address that is congruent
 * to the offset modulo 2 MB, wherever a whole slot fits into the mapping.
 */
static unsigned long spm_get_unmapped_area(struct file *file,
					   unsigned long addr,
					   unsigned long len,
					   unsigned long pgoff,
					   unsigned long flags)
{
	if (addr && !(flags & MAP_FIXED)) {
		unsigned long hint = PAGE_ALIGN(addr);

		addr = mm_get_unmapped_area(file, hint, len, pgoff, flags);
		if (addr == hint)
			return addr;
		addr = 0;
	}
	return thp_get_unmapped_area(file, addr, len, pgoff, flags);
}

static const struct file_operations spm_fops = {
	.owner = THIS_MODULE,
	.open = spm_open,
	.release = spm_release,
	.mmap = spm_mmap,
	.get_unmapped_area = spm_get_unmapped_area,
	.fsync = noop_fsync,
	.llseek = generic_file_llseek,
	.unlocked_ioctl = spm_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static int spm_node_add(struct spm_node *node)
{
	int err;

	node->misc.minor = MISC_DYNAMIC_MINOR;
	node->misc.name = node->name;
	node->misc.fops = &spm_fops;
	/* Never open to the world by default; a udev rule gives the group. */
	node->misc.mode = 0660;
	err = misc_register(&node->misc);
	if (err)
		pr_err("cannot make /dev/%s: error %d\n", node->name, err);
	return err;
}

static void spm_put_regions(void)
{
	struct spm_node *node;

	for (node = spm_nodes + 1; node->region; node++) {
		spm_region_put(node->region);
		node->region = NULL;
	}
}

static int spm_make_regions(const loff_t *sizes, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct spm_node *node = &spm_nodes[i + 1];
		struct spm_region *r = spm_region_create(true, sizes[i]);

		if (IS_ERR(r)) {
			spm_put_regions();
			return PTR_ERR(r);
		}
		node->region = r;
		snprintf(node->name, sizeof(node->name), "superpmap%u", i);
	}
	return 0;
}

/**
 * spm_device_init() - make the persistent regions and all device nodes
 * @sizes:	bytes of each persistent region
 * @n:		how many, at most SPM_MAX_REGIONS
 *
 * The nodes come last, so that only making a node itself can fail once there is
 * one that somebody may try to open.
 *
 * Context: module init.
 * Return: 0, or a negative errno with nothing left behind.
 */
int spm_device_init(const loff_t *sizes, unsigned int n)
{
	int err;

	err = spm_make_regions(sizes, n);
	if (err)
		return err;
	strscpy(spm_nodes[0].name, "superpmap");
	while (spm_nr_nodes <= n) {
		err = spm_node_add(&spm_nodes[spm_nr_nodes]);
		if (err) {
			spm_device_exit();
			return err;
		}
		spm_nr_nodes++;
	}
	WRITE_ONCE(spm_live, true);
	return 0;
}

/**
 * spm_device_exit() - undo spm_device_init()
 *
 * Context: module exit, or failed init, when no open has succeeded yet.
 */
void spm_device_exit(void)
{
	while (spm_nr_nodes)
		misc_deregister(&spm_nodes[--spm_nr_nodes].misc);
	spm_put_regions();
}
