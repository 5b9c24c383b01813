// SPDX-License-Identifier: GPL-2.0
/*
 * Property: the page at offset N of a region is the same memory through every
 * mapping, whatever the offset, length, address or process.
 *
 * Kind of bug: the offset given to mmap() is dropped, or applied in the wrong
 * unit, so that every mapping shows the start of the region.
 */
#include "spm_test.h"

#define SIZE	(4 * SPM_SLOT)
#define PAGES	(SIZE / SPM_PAGE)
#define SEED	3

static int check_windows(void *arg)
{
	int fd = *(int *)arg;
	uint64_t off;
	char *map;
	int k;

	for (k = 0; k <= 600; k++) {
		off = k * SPM_PAGE;
		map = mmap(NULL, SPM_PAGE, PROT_READ, MAP_SHARED, fd, off);
		spm_child_check(map != MAP_FAILED, "page %d: %d", k, errno);
		spm_child_check(spm_stamped(map, k, SEED), "page %d", k);
		spm_unmap(map, SPM_PAGE);
	}
	/* 2 MB windows, on the grid of slots and off it. */
	for (k = 0; k <= 600; k += 24) {
		off = k * SPM_PAGE;
		map = mmap(NULL, SPM_SLOT, PROT_READ, MAP_SHARED, fd, off);
		spm_child_check(map != MAP_FAILED, "window %d: %d", k, errno);
		spm_child_check(spm_stamped(map, k, SEED) &&
				spm_stamped(map + SPM_SLOT - SPM_PAGE, k + 511,
					    SEED) &&
				spm_stamped(map + SPM_SLOT / 2, k + 256, SEED),
				"window at page %d", k);
		spm_unmap(map, SPM_SLOT);
	}
	for (k = 0; k < 4; k++) {
		map = spm_map(fd, SPM_SLOT, k * SPM_SLOT, PROT_READ);
		spm_child_check(spm_stamped(map, k * 512, SEED) &&
				spm_stamped(map + SPM_SLOT - SPM_PAGE,
					    k * 512 + 511, SEED),
				"slot %d", k);
		spm_child_check(spm_count_2m(fd, map, SPM_SLOT) == 512,
				"slot %d: %ld pages by 2 MB entry", k,
				spm_count_2m(fd, map, SPM_SLOT));
	}
	return 0;
}

static void stamp_all(char *map)
{
	unsigned int i;

	for (i = 0; i < PAGES; i++)
		spm_stamp(map + i * SPM_PAGE, i, SEED);
}

TEST_F(spm, same_page_through_every_window)
{
	int fd = spm_open();
	int copy;
	char *map;

	map = spm_map(fd, SIZE, 0, SPM_RW);
	stamp_all(map);
	ASSERT_EQ(0, check_windows(&fd));
	ASSERT_EQ(0, spm_fork_run(check_windows, &fd));
	copy = dup(fd);
	close(fd);
	ASSERT_EQ(0, check_windows(&copy));
	ASSERT_EQ(0, spm_consistent(copy));
}

/* Written in reverse through single-page windows, read through one map. */
TEST_F(spm, written_through_windows_read_through_one_map)
{
	int fd = spm_open();
	char *map, *page;
	int i;

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	for (i = 1023; i >= 0; i--) {
		page = mmap(NULL, SPM_PAGE, SPM_RW, MAP_SHARED, fd,
			    i * SPM_PAGE);
		ASSERT_NE(MAP_FAILED, page);
		spm_stamp(page, i, SEED);
		spm_unmap(page, SPM_PAGE);
	}
	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	for (i = 0; i < 1024; i++) {
		ASSERT_TRUE(spm_stamped(map + i * SPM_PAGE, i, SEED));
	}
	/* All written: both slots are superpages for this map at once. */
	ASSERT_EQ(1024, spm_count_2m(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int open_and_check(void *arg)
{
	int fd = spm_open_persistent(0);

	return check_windows(&fd);
}

TEST_F(spm, persistent_region_opened_again)
{
	struct spm_info info;
	int fd;

	if (access(SPM_NODE "0", F_OK))
		SKIP(return, "no persistent region");
	fd = spm_open_persistent(0);
	spm_info(fd, &info);
	if (info.size < SIZE)
		SKIP(return, "persistent region too small");
	stamp_all(spm_map(fd, SIZE, 0, SPM_RW));
	close(fd);
	ASSERT_EQ(0, open_and_check(NULL));
	ASSERT_EQ(0, spm_fork_run(open_and_check, NULL));
}

SPM_TEST_MAIN
