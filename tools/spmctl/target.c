// SPDX-License-Identifier: GPL-2.0
/*
 * spmctl: numbers, and the region that a command is about.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/superpmap.h>

#include "spmctl.h"

/* A number with nothing behind it but, if @units, K, M or G. */
bool parse_number(const char *text, bool units, uint64_t max, uint64_t *n)
{
	static const char unit[] = "KMG";
	unsigned int shift = 0;
	const char *u;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &end, 0);
	if (units && *end) {
		u = strchr(unit, *end);
		if (!u)
			return false;
		shift = 10 * (u - unit + 1);
		end++;
	}
	if (errno || *end || *n > max >> shift)
		return false;
	*n <<= shift;
	return true;
}

/* A descriptor that this program was started with, or -1. */
int parse_fd(const char *option, const char *text)
{
	uint64_t n;

	if (!parse_number(text, false, INT32_MAX, &n) || fcntl((int)n, F_GETFD) < 0) {
		complain("%s: \"%s\" is not an open descriptor; a shell opens one with \"exec 3<>" NODE "0\"",
			 option, text);
		return -1;
	}
	return n;
}

/* Takes PATH from the arguments, if there is no --fd.  0 or -1, explained. */
int target_open(struct target *t, const struct options *opt, bool write,
		const char *command, int *argc, char ***argv)
{
	static char name[32];

	t->opened = false;
	if (opt->fd) {
		t->fd = parse_fd("--fd", opt->fd);
		snprintf(name, sizeof(name), "descriptor %d", t->fd);
		t->name = name;
		return t->fd < 0 ? -1 : 0;
	}
	if (!*argc) {
		complain("%s: takes the path of one node, such as " NODE "0, or --fd N",
			 command);
		return -1;
	}
	t->name = **argv;
	++*argv;
	--*argc;
	if (!strcmp(t->name, NODE)) {
		complain("%s: %s is a new region each time it is opened; take one like " NODE "0, or --fd N with a descriptor of the region",
			 command, t->name);
		return -1;
	}
	t->fd = open(t->name, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	t->opened = true;
	if (t->fd < 0)
		explain(t->name, errno);
	return t->fd < 0 ? -1 : 0;
}

void target_close(const struct target *t)
{
	if (t->opened)
		close(t->fd);
}
