/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the commands of spmctl share.
 */
#ifndef SPMCTL_H
#define SPMCTL_H

#include <stdbool.h>
#include <stdint.h>

#define NODE		"/dev/superpmap"

enum { EXIT_OK, EXIT_DIFFERENCES, EXIT_TROUBLE };

/* What the command line says; each command takes some of it. */
struct options {
	bool json;
	bool all;
	bool quiet;
	bool clear;
	bool effective;
	bool referenced;
	const char *region;
	const char *fd;
	const char *since;
	const char *offset;
	const char *len;
};

/**
 * struct target - the region that a command is about
 * @fd:		descriptor
 * @name:	for messages
 * @opened:	@fd is to be closed
 */
struct target {
	int fd;
	const char *name;
	bool opened;
};

/* spmctl.c: say what is wrong; with a path, what its errno means here. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void explain(const char *path, int err);

/* target.c */
bool parse_number(const char *text, bool units, uint64_t max, uint64_t *n);
int parse_fd(const char *option, const char *text);
int target_open(struct target *t, const struct options *opt, bool write,
		const char *command, int *argc, char ***argv);
void target_close(const struct target *t);

/* dirty.c, policy.c, nodes.c; the exit status */
int cmd_dirty(const struct options *opt, int argc, char **argv);
int cmd_policy(const struct options *opt, int argc, char **argv);
int cmd_nodes(const struct options *opt, int argc, char **argv);

#endif /* SPMCTL_H */
