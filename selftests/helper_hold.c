// SPDX-License-Identifier: GPL-2.0
/*
 * helper_hold: keep a node open or mapped until standard input ends.
 *
 * Usage: helper_hold open|map|both PATH
 *   open  only the descriptor, map  only a mapping of 4 MB (touched), both
 * Prints "ready" when it holds what it was asked to.
 */
#define SPM_TEST_NO_HARNESS
#include "spm_test.h"

int main(int argc, char **argv)
{
	char c, *p;
	int fd;

	if (argc != 3)
		return 2;
	fd = open(argv[2], O_RDWR);
	if (fd < 0)
		spm_die("open %s", argv[2]);
	if (strcmp(argv[1], "open")) {
		p = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
		spm_touch_write(p, SPM_SLOT + SPM_PAGE);
	}
	if (!strcmp(argv[1], "map"))
		close(fd);
	printf("ready\n");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}
