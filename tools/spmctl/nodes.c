// SPDX-License-Identifier: GPL-2.0
/*
 * spmctl nodes: on which NUMA nodes the memory of a region lies.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/superpmap.h>

#include "spmctl.h"

static const struct column {
	const char *name;
	size_t offset;
} columns[] = {
#define COLUMN(field) { #field, offsetof(struct spm_node_figures, field) }
	COLUMN(pages),
	COLUMN(loose),
	COLUMN(reserv_live),
	COLUMN(reserv_full),
	COLUMN(reserv_part),
	COLUMN(reserv_empty),
#undef COLUMN
};

#define NR_COLUMNS	(sizeof(columns) / sizeof(columns[0]))

static unsigned long long figure(const struct spm_node_figures *f,
				 const struct column *c)
{
	__u64 v;

	memcpy(&v, (const char *)f + c->offset, sizeof(v));
	return v;
}

static void print_table(const struct spm_node_figures *f, size_t n)
{
	size_t i, k;

	printf("node");
	for (k = 0; k < NR_COLUMNS; k++)
		printf(" %12s", columns[k].name);
	printf("\n");
	for (i = 0; i < n; i++) {
		printf("%4u", f[i].node);
		for (k = 0; k < NR_COLUMNS; k++)
			printf(" %12llu", figure(&f[i], &columns[k]));
		printf("\n");
	}
}

/* One list for each column. */
static void print_json(const struct spm_node_figures *f, size_t n)
{
	size_t i, k;

	printf("{\n  \"node\": [");
	for (i = 0; i < n; i++)
		printf("%s%u", i ? ", " : "", f[i].node);
	for (k = 0; k < NR_COLUMNS; k++) {
		printf("],\n  \"%s\": [", columns[k].name);
		for (i = 0; i < n; i++)
			printf("%s%llu", i ? ", " : "", figure(&f[i], &columns[k]));
	}
	printf("]\n}\n");
}

static int show_nodes(const struct target *t, const struct options *opt)
{
	/* More nodes than Linux can be built for on x86. */
	static struct spm_node_figures f[1024];
	struct spm_nodes a = {
		.argsz = sizeof(a),
		.vec = (uintptr_t)f,
		.vec_len = sizeof(f) / sizeof(f[0]),
	};

	if (ioctl(t->fd, SPM_IOC_NODES, &a)) {
		explain(t->name, errno);
		return -1;
	}
	if (a.count > a.vec_len)
		a.count = a.vec_len;
	if (opt->json)
		print_json(f, a.count);
	else
		print_table(f, a.count);
	return 0;
}

int cmd_nodes(const struct options *opt, int argc, char **argv)
{
	struct target t;
	int ret = -1;

	if (target_open(&t, opt, false, "nodes", &argc, &argv))
		return EXIT_TROUBLE;
	if (argc)
		complain("nodes: \"%s\" is too much; see \"spmctl --help\"", argv[0]);
	else
		ret = show_nodes(&t, opt);
	target_close(&t);
	return ret ? EXIT_TROUBLE : EXIT_OK;
}
