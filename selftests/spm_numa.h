/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA nodes: policies by system calls, where pages lie, and what NODES tells.
 */
#ifndef SPM_NUMA_H
#define SPM_NUMA_H

#include "spm_test.h"

#include <linux/mempolicy.h>

/*
 * NODES: how many nodes have something, the first @n of which are told.  Compares
 * the sums with STATS, if all are.
 */
static inline unsigned int spm_nodes(int fd, struct spm_node_figures *vec, unsigned int n)
{
	struct spm_nodes a = {
		.argsz = sizeof(a), .vec = (uintptr_t)vec, .vec_len = n,
	};
	struct spm_node_figures sum = { };
	struct spm_stats s;
	unsigned int i;

	if (ioctl(fd, SPM_IOC_NODES, &a))
		spm_die("SPM_IOC_NODES");
	if (a.count > n)
		return a.count;
	for (i = 0; i < a.count; i++) {
		sum.pages += vec[i].pages;
		sum.loose += vec[i].loose;
		sum.reserv_live += vec[i].reserv_live;
		sum.reserv_full += vec[i].reserv_full;
		sum.reserv_part += vec[i].reserv_part;
		sum.reserv_empty += vec[i].reserv_empty;
		if (vec[i].pad || (i && vec[i].node <= vec[i - 1].node) ||
		    vec[i].pages + vec[i].reserv_empty !=
		    SPM_SLOT_PAGES * vec[i].reserv_live + vec[i].loose)
			spm_die("figures of node %u", vec[i].node);
	}
	spm_stats(fd, &s);
	if (sum.pages != s.pages || sum.loose != s.loose ||
	    sum.reserv_live != s.reserv_live ||
	    sum.reserv_full != s.reserv_fullpop ||
	    sum.reserv_part != s.reserv_partpopq ||
	    sum.reserv_empty != s.reserv_empty)
		spm_die("the sums over %u nodes are not what STATS tells", i);
	return a.count;
}

static inline void spm_need_nodes(void)
{
	if (access("/sys/devices/system/node/node1", F_OK))
		spm_die("this machine has no second node");
}

/* 0 or -errno; @nodes is a mask. */
static inline int spm_bind_vma(void *addr, size_t len, int mode,
			       unsigned long nodes, unsigned int flags)
{
	return syscall(SYS_mbind, addr, len, mode, nodes ? &nodes : NULL,
		       nodes ? 64 : 0, flags) ? -errno : 0;
}

static inline void spm_bind_task(int mode, unsigned long nodes)
{
	if (syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL,
		    nodes ? 64 : 0))
		spm_die("set_mempolicy");
}

/* How many of the pages that are mapped lie on node 1; all others on node 0. */
static inline long spm_on_node1(const void *addr, long pages, long *mapped)
{
	void **where = calloc(pages, sizeof(*where));
	int *status = calloc(pages, sizeof(*status));
	long i, n = 0;

	*mapped = 0;
	if (!where || !status)
		spm_die("no memory");
	for (i = 0; i < pages; i++)
		where[i] = (char *)addr + i * SPM_PAGE;
	if (syscall(SYS_move_pages, 0, pages, where, NULL, status, 0))
		spm_die("move_pages");
	for (i = 0; i < pages; i++) {
		if (status[i] == -ENOENT || status[i] == -EFAULT)
			continue;
		if (status[i] < 0 || status[i] > 1)
			spm_die("page %ld has status %d", i, status[i]);
		n += status[i];
		++*mapped;
	}
	free(where);
	free(status);
	return n;
}

/* Are @pages pages there, all of them on @node? */
static inline bool spm_all_on(const void *addr, long pages, int node)
{
	long mapped, n = spm_on_node1(addr, pages, &mapped);

	if (mapped == pages && n == node * pages)
		return true;
	spm_note("%ld of %ld pages are mapped, %ld on node 1", mapped, pages, n);
	return false;
}

/* The region has something on this node alone. */
static inline bool spm_only_node(int fd, unsigned int node)
{
	struct spm_node_figures f[2];
	unsigned int n = spm_nodes(fd, f, 2);

	if (n == 1 && f[0].node == node)
		return true;
	spm_note("%u nodes, the first is %u", n, f[0].node);
	return false;
}

#endif /* SPM_NUMA_H */
