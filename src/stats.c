// SPDX-License-Identifier: GPL-2.0
/*
 * Counters: per-CPU cells, summed when somebody asks.
 */
#include <linux/minmax.h>
#include <linux/seq_file.h>
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
 * spm_counters_init() - give a region its counters, all zero
 * @c: to be set up
 *
 * Context: process context, may sleep.
 * Return: 0 or -ENOMEM.
 */
int spm_counters_init(struct spm_counters *c)
{
	c->cpu = alloc_percpu_gfp(struct spm_stats_cpu, GFP_KERNEL_ACCOUNT);
	return c->cpu ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(spm_counters_init);

/**
 * spm_counters_destroy() - free a region's counters
 * @c: as spm_counters_init() left it; what it counted stays in the global sums
 */
void spm_counters_destroy(struct spm_counters *c)
{
	free_percpu(c->cpu);
	c->cpu = NULL;
}
EXPORT_SYMBOL_IF_KUNIT(spm_counters_destroy);

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
