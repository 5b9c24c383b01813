// SPDX-License-Identifier: GPL-2.0
/*
 * Counters: per-CPU cells, summed when somebody asks.
 */
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <kunit/visibility.h>

#include "stats.h"

DEFINE_PER_CPU(struct spm_stats_cpu, spm_stats_global);

static const struct {
	const char *name;
	bool gauge;
} spm_stat_desc[SPM_NR_STATS] = {
#define SPM_KIND_C false
#define SPM_KIND_G true
#define SPM_STAT_DESC(field, text, kind) \
	[SPM_STAT_##field] = { .name = text, .gauge = SPM_KIND_##kind },
	SPM_STATS_LIST(SPM_STAT_DESC)
#undef SPM_STAT_DESC
#undef SPM_KIND_G
#undef SPM_KIND_C
};

/**
 * spm_counters_create() - counters for a region, all zero
 *
 * Context: process context, may sleep.
 * Return: the counters with one reference, or NULL without memory.
 */
struct spm_counters *spm_counters_create(void)
{
	struct spm_counters *c = kmalloc_obj(*c, GFP_KERNEL_ACCOUNT);

	if (!c)
		return NULL;
	refcount_set(&c->ref, 1);
	c->cpu = alloc_percpu_gfp(struct spm_stats_cpu, GFP_KERNEL_ACCOUNT);
	if (!c->cpu) {
		kfree(c);
		return NULL;
	}
	return c;
}
EXPORT_SYMBOL_IF_KUNIT(spm_counters_create);

/**
 * spm_counters_get() - take a reference
 * @c: counters, referenced already
 *
 * Return: @c.
 */
struct spm_counters *spm_counters_get(struct spm_counters *c)
{
	refcount_inc(&c->ref);
	return c;
}

/**
 * spm_counters_put() - drop a reference
 * @c: counters; what they counted stays in the global sums
 */
void spm_counters_put(struct spm_counters *c)
{
	if (!refcount_dec_and_test(&c->ref))
		return;
	free_percpu(c->cpu);
	kfree(c);
}
EXPORT_SYMBOL_IF_KUNIT(spm_counters_put);

/**
 * spm_stat_read() - the value of one counter
 * @c:	a region's counters, or NULL for the whole module
 * @s:	which
 *
 * Exact when nothing counts at the same time.  A gauge that is read while it
 * moves between CPUs may come out below zero.
 *
 * Return: the sum over all CPUs.
 */
long spm_stat_read(const struct spm_counters *c, enum spm_stat s)
{
	long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		const struct spm_stats_cpu *p = c ?
			per_cpu_ptr(c->cpu, cpu) : &per_cpu(spm_stats_global, cpu);

		sum += READ_ONCE(p->v[s]);
	}
	return sum;
}
EXPORT_SYMBOL_IF_KUNIT(spm_stat_read);

/**
 * spm_stats_fill() - all counters in the form of the user interface
 * @c:		a region's counters, or NULL for the whole module
 * @out:	every counter field is written, argsz and flags are not
 */
void spm_stats_fill(const struct spm_counters *c, struct spm_stats *out)
{
#define SPM_STAT_FILL(field, name, kind) \
	out->field = max(spm_stat_read(c, SPM_STAT_##field), 0L);
	SPM_STATS_LIST(SPM_STAT_FILL)
#undef SPM_STAT_FILL
}

/**
 * spm_stats_show() - print the module's counters, one "name: value" a line
 * @m:			where to
 * @gauges_only:	leave out what only counts up
 */
void spm_stats_show(struct seq_file *m, bool gauges_only)
{
	enum spm_stat s;

	for (s = 0; s < SPM_NR_STATS; s++) {
		if (gauges_only && !spm_stat_desc[s].gauge)
			continue;
		seq_printf(m, "%s: %ld\n", spm_stat_desc[s].name,
			   spm_stat_read(NULL, s));
	}
}
