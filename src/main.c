// SPDX-License-Identifier: GPL-2.0
/*
 * superpmap: module parameters, debugfs, init and exit.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "device.h"
#include "policy.h"
#include "reclaim.h"
#include "region.h"
#include "reserv.h"
#include "stats.h"
#include "verify.h"
#include "worker.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static char *spm_regions_param = "64M";
module_param_named(regions, spm_regions_param, charp, 0444);
MODULE_PARM_DESC(regions,
		 "persistent regions: sizes in bytes or with K, M, G, separated by commas, each a multiple of 4K; at most 64 (default 64M)");

/* A tunable and its range, so that a bad value can be refused by name. */
struct spm_param {
	const char *name;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
};

static int spm_param_set(const char *val, const struct kernel_param *kp)
{
	const struct spm_param *p = kp->arg;
	unsigned int n;
	int err = kstrtouint(val, 0, &n);

	if (err || n < p->min || n > p->max) {
		pr_err("parameter %s=%s: a number from %u to %u is wanted\n",
		       p->name, val, p->min, p->max);
		return -EINVAL;
	}
	WRITE_ONCE(*p->value, n);
	spm_worker_wake();
	return 0;
}

static int spm_param_get(char *buf, const struct kernel_param *kp)
{
	const struct spm_param *p = kp->arg;

	return sysfs_emit(buf, "%u\n", READ_ONCE(*p->value));
}

static const struct kernel_param_ops spm_param_ops = {
	.set = spm_param_set,
	.get = spm_param_get,
};

/* The ranges of all tunables: spm_min_FIELD, spm_max_FIELD. */
enum {
#define SPM_RANGE(field, name, min, max) \
	spm_min_##field = min, spm_max_##field = max,
	SPM_TUNABLES(SPM_RANGE)
#undef SPM_RANGE
};

#define SPM_NUMBER(field, where, least, most, text)			\
	static const struct spm_param spm_param_##field = {		\
		.name = #field,						\
		.value = &(where),					\
		.min = least,						\
		.max = most,						\
	};								\
	module_param_cb(field, &spm_param_ops, (void *)&spm_param_##field, 0644); \
	MODULE_PARM_DESC(field, text)
#define SPM_PARAM(field, text)						\
	SPM_NUMBER(field, spm_tunables.field, spm_min_##field,		\
		   spm_max_##field, text)

SPM_PARAM(populate_threshold,
	  "populated 4K pages of a 2M slot at which the rest is populated at once, 1 to 512 (default 512: never early)");
SPM_PARAM(dirty_threshold,
	  "dirty pages among the other 511 at which a writable 2M entry is made by marking the rest dirty, 0 to 511 (default 511)");
SPM_PARAM(prefault_pages,
	  "populated 4K pages on each side that a 4K fault maps as well, 0 to 64 (default 4)");

SPM_NUMBER(worker_rate, spm_worker_tunables.rate, 0, SPM_WORKER_RATE_MAX,
	   "MB that are cleared or copied in a second of idle time, to fill reservations and to free blocks, 0 to 65536 (default 0: off)");
SPM_NUMBER(worker_fill, spm_worker_tunables.fill, 1, SPM_SLOT_PAGES,
	   "populated 4K pages at which the rest of a slot in use is populated in idle time, 1 to 512 (default 64; 512: never)");
SPM_NUMBER(worker_age, spm_worker_tunables.age, 1, SPM_WORKER_AGE_MAX,
	   "seconds after which a partly filled reservation that did not change is broken in idle time, 1 to 86400 (default 10)");

/* A tunable whose values have names. */
struct spm_choice {
	const char *name;
	unsigned int *value;
	const char * const *names;
};

static int spm_choice_set(const char *val, const struct kernel_param *kp)
{
	const struct spm_choice *p = kp->arg;
	int n = __sysfs_match_string(p->names, -1, val);

	if (n < 0) {
		pr_err("parameter %s=%s: 4K, 2M or auto is wanted\n", p->name,
		       val);
		return -EINVAL;
	}
	WRITE_ONCE(*p->value, n);
	return 0;
}

static int spm_choice_get(char *buf, const struct kernel_param *kp)
{
	const struct spm_choice *p = kp->arg;

	return sysfs_emit(buf, "%s\n", p->names[READ_ONCE(*p->value)]);
}

static const struct kernel_param_ops spm_choice_ops = {
	.set = spm_choice_set,
	.get = spm_choice_get,
};

#define SPM_CHOICE(field, list, text)					\
	static const struct spm_choice spm_choice_##field = {		\
		.name = #field,						\
		.value = &spm_tunables.field,				\
		.names = list,						\
	};								\
	module_param_cb(field, &spm_choice_ops,				\
			(void *)&spm_choice_##field, 0644);		\
	MODULE_PARM_DESC(field, text)

static const char * const spm_cow_sizes[] = {
	[SPM_COW_4K] = "4K",
	[SPM_COW_2M] = "2M",
	[SPM_COW_AUTO] = "auto",
	NULL
};

static const char * const spm_grains[] = {
	[SPM_GRAIN_4K] = "4K",
	[SPM_GRAIN_2M] = "2M",
	[SPM_GRAIN_AUTO] = "auto",
	NULL
};

SPM_CHOICE(cow_size, spm_cow_sizes,
	   "what a store to a shared page copies: 4K, 2M, or auto for 2M once most of it, or all before it, is copied (default 4K)");
SPM_CHOICE(dirty_grain, spm_grains,
	   "what the first store to a clean 2M entry makes dirty: 4K, 2M, or auto for 2M but 4K where few pages are written (default 4K)");

static int spm_param_set_superpages(const char *val,
				    const struct kernel_param *kp)
{
	bool on;

	if (kstrtobool(val, &on)) {
		pr_err("parameter pg_ps_enabled=%s: 0 or 1 is wanted\n",
		       val);
		return -EINVAL;
	}
	WRITE_ONCE(spm_tunables.superpages, on);
	return 0;
}

/* As the kernel shows a bool. */
static int spm_param_get_superpages(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%c\n",
			  READ_ONCE(spm_tunables.superpages) ? 'Y' : 'N');
}

static const struct kernel_param_ops spm_superpages_ops = {
	.set = spm_param_set_superpages,
	.get = spm_param_get_superpages,
};
module_param_cb(pg_ps_enabled, &spm_superpages_ops, NULL, 0644);
MODULE_PARM_DESC(pg_ps_enabled, "make 2M entries, 0 or 1 (default 1)");

/* A size with an optional suffix, which is cut off @s. */
static int spm_parse_size(char *s, loff_t *size)
{
	size_t len = strlen(s);
	unsigned int shift = 0;
	unsigned long long n;

	switch (len ? s[len - 1] : 0) {
	case 'G': case 'g':
		shift += 10;
		fallthrough;
	case 'M': case 'm':
		shift += 10;
		fallthrough;
	case 'K': case 'k':
		shift += 10;
		s[len - 1] = 0;
	}
	if (kstrtoull(s, 0, &n) || !n || n > MAX_LFS_FILESIZE >> shift ||
	    !IS_ALIGNED(n << shift, PAGE_SIZE))
		return -EINVAL;
	*size = n << shift;
	return 0;
}

static int spm_parse_regions(loff_t *sizes, unsigned int *n)
{
	char *list __free(kfree) = kstrdup(spm_regions_param, GFP_KERNEL);
	char *rest = list, *s;

	if (!list)
		return -ENOMEM;
	*n = 0;
	if (!*list)
		return 0;
	while ((s = strsep(&rest, ","))) {
		if (*n == SPM_MAX_REGIONS) {
			pr_err("parameter regions=%s: more than %u regions\n",
			       spm_regions_param, SPM_MAX_REGIONS);
			return -EINVAL;
		}
		if (spm_parse_size(s, &sizes[*n])) {
			pr_err("parameter regions=%s: number %u is not a size, a multiple of 4096 bytes above 0\n",
			       spm_regions_param, *n + 1);
			return -EINVAL;
		}
		(*n)++;
	}
	return 0;
}

static int spm_counters_show(struct seq_file *m, void *unused)
{
	spm_stats_show(m, false);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(spm_counters);

static int spm_gauges_show(struct seq_file *m, void *unused)
{
	spm_stats_show(m, true);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(spm_gauges);

static int spm_verify_show(struct seq_file *m, void *unused)
{
	unsigned long n = spm_verify(m);

	seq_printf(m, "differences: %lu\n", n);
	return 0;
}

/* With room for all that spm_verify() may say; see there. */
static int spm_verify_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, spm_verify_show, NULL, SZ_256K);
}

static const struct file_operations spm_verify_fops = {
	.owner = THIS_MODULE,
	.open = spm_verify_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

static int spm_regions_show(struct seq_file *m, void *unused)
{
	struct spm_region *r = NULL;

	seq_puts(m, "region kind             size_kB  pages_kB  dirty_kB  live_2M  maps depth\n");
	while ((r = spm_region_next(r))) {
		const struct spm_counters *c = spm_region_counters(r);

		seq_printf(m, "%6u %-10s %13lld %9ld %9ld %8ld %5ld %5u\n", r->id,
			   r->persistent ? "persistent" : "anonymous",
			   spm_region_size(r) >> 10,
			   spm_stat_read(c, SPM_STAT_pages) << 2,
			   spm_stat_read(c, SPM_STAT_dirty) << 2,
			   spm_stat_read(c, SPM_STAT_live),
			   spm_stat_read(c, SPM_STAT_maps),
			   spm_region_depth(r));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(spm_regions);

static struct shrinker *spm_shrinker;
static struct dentry *spm_debugfs;

static void spm_debugfs_init(void)
{
	spm_debugfs = debugfs_create_dir("superpmap", NULL);
	debugfs_create_file("counters", 0444, spm_debugfs, NULL,
			    &spm_counters_fops);
	debugfs_create_file("gauges", 0444, spm_debugfs, NULL,
			    &spm_gauges_fops);
	debugfs_create_file("regions", 0444, spm_debugfs, NULL,
			    &spm_regions_fops);
	debugfs_create_file("verify", 0400, spm_debugfs, NULL,
			    &spm_verify_fops);
}

static int __init spm_init(void)
{
	loff_t sizes[SPM_MAX_REGIONS];
	unsigned int n;
	int err;

	err = spm_parse_regions(sizes, &n);
	if (err)
		return err;
	spm_shrinker = spm_reclaim_alloc();
	if (!spm_shrinker)
		return -ENOMEM;
	err = spm_reserv_init(spm_shrinker);
	if (err)
		goto shrinker;
	err = spm_region_init();
	if (err)
		goto reserv;
	err = spm_device_init(sizes, n);
	if (err)
		goto region;
	err = spm_worker_init();
	if (err)
		goto device;
	shrinker_register(spm_shrinker);
	spm_debugfs_init();
	return 0;

device:
	spm_device_exit();
region:
	spm_region_exit();
reserv:
	spm_reserv_exit();
shrinker:
	shrinker_free(spm_shrinker);
	return err;
}

static void __exit spm_exit(void)
{
	debugfs_remove(spm_debugfs);
	spm_worker_exit();
	spm_device_exit();
	spm_region_exit();
	/* Waits for whoever scans. */
	shrinker_free(spm_shrinker);
	/* Page-table pages on their way through RCU call back into our text. */
	rcu_barrier();
	spm_reserv_exit();
}

module_init(spm_init);
module_exit(spm_exit);

MODULE_DESCRIPTION("FreeBSD's superpage reservations for any Linux program");
MODULE_LICENSE("GPL");
