/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters with FreeBSD's names, per region and for the module as a whole.
 *
 * The list of counters, their names and their kinds is SPM_STATS_LIST of the
 * user interface; everything here is made from it.
 */
#ifndef SPM_STATS_H
#define SPM_STATS_H

#include <linux/percpu.h>
#include <linux/refcount.h>
#include <linux/superpmap.h>

enum spm_stat {
#define SPM_STAT_ENUM(field, name, kind) SPM_STAT_##field,
	SPM_STATS_LIST(SPM_STAT_ENUM)
#undef SPM_STAT_ENUM
	SPM_NR_STATS
};

/* One CPU's share; a gauge may be negative on one CPU, never in the sum. */
struct spm_stats_cpu {
	long v[SPM_NR_STATS];
};

/**
 * struct spm_counters - the counters of one region
 * @ref:	one for each object that counts here: what a region froze for its
 *		snapshots may outlive it
 * @cpu:	per-CPU shares, so that no fault writes a cache line of another CPU
 */
struct spm_counters {
	refcount_t ref;
	struct spm_stats_cpu __percpu *cpu;
};

DECLARE_PER_CPU(struct spm_stats_cpu, spm_stats_global);

/**
 * spm_stat_add() - count an event for a region and for the module
 * @c:	the region's counters
 * @s:	which
 * @n:	how many; negative only for gauges
 *
 * Context: any.
 */
static inline void spm_stat_add(const struct spm_counters *c, enum spm_stat s,
				long n)
{
	this_cpu_add(c->cpu->v[s], n);
	this_cpu_add(spm_stats_global.v[s], n);
}

#define spm_count(c, field)	spm_stat_add(c, SPM_STAT_##field, 1)
#define spm_count_n(c, field, n) spm_stat_add(c, SPM_STAT_##field, n)

/* An event of the module as a whole, whose region is not known. */
#define spm_count_global(field)						\
	this_cpu_inc(spm_stats_global.v[SPM_STAT_##field])

struct spm_counters *spm_counters_create(void);
struct spm_counters *spm_counters_get(struct spm_counters *c);
void spm_counters_put(struct spm_counters *c);
long spm_stat_read(const struct spm_counters *c, enum spm_stat s);
void spm_stats_fill(const struct spm_counters *c, struct spm_stats *out);

struct seq_file;
void spm_stats_show(struct seq_file *m, bool gauges_only);

#endif /* SPM_STATS_H */
