// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a request costs what it finds, not what its range could hold, and
 * takes no memory where nothing is to come into being; the size of a persistent
 * region is not for its users to change; a mapping that said no to huge pages
 * gets none.
 *
 * Kind of bug: book-keeping that is made to be looked at, in an amount that an
 * unprivileged caller chooses, and that outlives him; a shared thing that one
 * user can take away from the others.
 *
 * spm-test: params="regions=4M"
 */
#include <time.h>

#include "spm_test.h"

#define HUGE_LEN	(8UL << 40)

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A read-only descriptor may demote; there is nothing beyond the size. */
TEST_F(spm, demote_of_terabytes_of_nothing)
{
	int fd = open(SPM_NODE "0", O_RDONLY);
	long slab = spm_meminfo("Slab");
	double start;
	char *map;

	ASSERT_LE(0, fd);
	map = mmap(NULL, HUGE_LEN, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	start = seconds();
	ASSERT_EQ(0, spm_advise(fd, map, HUGE_LEN, SPM_ADV_DEMOTE));
	EXPECT_GT(5, seconds() - start);
	/* A slot for each 2 MB would be over 256 MB. */
	EXPECT_GT(32 << 10, spm_meminfo("Slab") - slab);
	munmap(map, HUGE_LEN);
	close(fd);
}

TEST_F(spm, discard_of_terabytes_of_nothing)
{
	int fd = spm_open_persistent(0);
	long slab = spm_meminfo("Slab");
	double start = seconds();
	char *map;

	ASSERT_EQ(0, spm_advise_off(fd, 0, HUGE_LEN, SPM_ADV_DISCARD));
	map = mmap(NULL, HUGE_LEN, SPM_RW, MAP_SHARED | MAP_NORESERVE, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(0, spm_advise(fd, map, HUGE_LEN, SPM_ADV_DISCARD));
	EXPECT_GT(5, seconds() - start);
	EXPECT_GT(32 << 10, spm_meminfo("Slab") - slab);
	/* What is inside the size is still served, between the nothing. */
	map[3UL << 20] = 1;
	ASSERT_EQ(0, spm_advise(fd, map, HUGE_LEN, SPM_ADV_DISCARD));
	ASSERT_EQ(0, map[3UL << 20]);
	ASSERT_EQ(0, spm_advise(fd, map, HUGE_LEN, SPM_ADV_DISCARD));
	munmap(map, HUGE_LEN);
	close(fd);
}

TEST_F(spm, size_of_a_persistent_region_is_fixed)
{
	int fd = spm_open_persistent(0);

	ASSERT_EQ(-EPERM, spm_set_size(fd, 0));
	ASSERT_EQ(-EPERM, spm_set_size(fd, 1UL << 40));
	ASSERT_EQ(4 << 20, lseek(fd, 0, SEEK_END));
	close(fd);
}

TEST_F(spm, no_huge_pages_means_none)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	ASSERT_EQ(0, madvise(map, SPM_SLOT, MADV_NOHUGEPAGE));
	spm_touch_write(map, SPM_SLOT);
	ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
	/* Another mapping of the same pages did not say so. */
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_touch_write(map, SPM_PAGE);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	close(fd);
}

/* Page 8 of a row is written: page 8, and no neighbour, is soft-dirty. */
TEST_F(spm, soft_dirty_names_the_written_page)
{
	int fd = spm_open(), refs, pagemap, n = 0;
	char *map = spm_map(fd, 16 * SPM_PAGE, 0, SPM_RW);
	uint64_t entry[16];
	unsigned int i;

	spm_touch_write(map, 16 * SPM_PAGE);
	refs = open("/proc/self/clear_refs", O_WRONLY);
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	ASSERT_LE(0, refs);
	ASSERT_LE(0, pagemap);
	if (write(refs, "4", 1) != 1)
		SKIP(return, "this kernel has no soft-dirty bits");
	map[8 * SPM_PAGE] = 2;
	ASSERT_EQ(sizeof(entry), pread(pagemap, entry, sizeof(entry),
				       (uintptr_t)map / SPM_PAGE * 8));
	for (i = 0; i < 16; i++)
		n += entry[i] >> 55 & 1;
	if (!n && !(entry[8] >> 55 & 1))
		SKIP(return, "this kernel has no soft-dirty bits");
	EXPECT_EQ(1, entry[8] >> 55 & 1);
	EXPECT_EQ(1, n);
	close(refs);
	close(pagemap);
	close(fd);
}

TEST_HARNESS_MAIN
