// SPDX-License-Identifier: GPL-2.0
/*
 * helper_store: store one byte at each of some offsets of a region.
 *
 * Usage: helper_store FD [OFFSET]... [--snapshot N] [-- COMMAND...]
 *   FD            an inherited descriptor of the region
 *   --snapshot N  take a snapshot after the stores, as descriptor N
 *   COMMAND       run it while everything is still mapped
 */
#define SPM_TEST_NO_HARNESS
#include "spm_test.h"

#include <limits.h>

static const char *command;

static void store(int fd, unsigned long off)
{
	static unsigned long slot = ULONG_MAX;
	static char *map;

	if (off / SPM_SLOT != slot) {
		slot = off / SPM_SLOT;
		map = spm_map(fd, SPM_SLOT, slot * SPM_SLOT, SPM_RW);
	}
	*(volatile char *)(map + off % SPM_SLOT) = 1;
}

static int run(void *argv)
{
	execvp(command, argv);
	spm_die("%s", command);
}

int main(int argc, char **argv)
{
	int fd, i, snap;

	if (argc < 2)
		return 2;
	fd = atoi(argv[1]);
	for (i = 2; i < argc && argv[i][0] != '-'; i++)
		store(fd, strtoul(argv[i], NULL, 0));
	if (i + 1 < argc && !strcmp(argv[i], "--snapshot")) {
		snap = spm_try_snapshot(fd, 0);
		if (snap < 0 || dup2(snap, atoi(argv[i + 1])) < 0)
			spm_die("snapshot as descriptor %s", argv[i + 1]);
		i += 2;
	}
	if (i + 1 >= argc)
		return 0;
	command = argv[i + 1];
	return spm_fork_run(run, argv + i + 1);
}
