// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a program that knows only the descriptor can find out how large
 * the region is; the size follows what is mapped until it is fixed; calls that
 * a device cannot serve fail at once and with the right error.
 *
 * Kind of bug: size known to nobody (fstat says 0, lseek fails), so that
 * virtual machine monitors and databases cannot use the node.
 */
#include "spm_test.h"

#include <linux/falloc.h>

TEST_F(spm, lseek)
{
	int fd = spm_open();

	ASSERT_EQ(0, lseek(fd, 0, SEEK_END));
	ASSERT_EQ(0, spm_set_size(fd, 3 * SPM_SLOT + SPM_PAGE));
	ASSERT_EQ((off_t)(3 * SPM_SLOT + SPM_PAGE), lseek(fd, 0, SEEK_END));
	ASSERT_EQ((off_t)(3 * SPM_SLOT + SPM_PAGE), lseek(fd, 0, SEEK_CUR));
	ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
	ASSERT_EQ(100, lseek(fd, 100, SEEK_SET));
	ASSERT_EQ(150, lseek(fd, 50, SEEK_CUR));
	ASSERT_EQ((off_t)(3 * SPM_SLOT), lseek(fd, -(off_t)SPM_PAGE, SEEK_END));
	ASSERT_EQ(-1, lseek(fd, -1, SEEK_SET));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, lseek(fd, -(off_t)(4 * SPM_SLOT), SEEK_END));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ((off_t)(3 * SPM_SLOT), lseek(fd, 0, SEEK_CUR));
}

TEST_F(spm, fstat_is_that_of_the_node)
{
	struct stat of_fd, of_node;
	int fd = spm_open();

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	ASSERT_EQ(0, fstat(fd, &of_fd));
	ASSERT_EQ(0, stat(SPM_NODE, &of_node));
	ASSERT_TRUE(S_ISCHR(of_fd.st_mode));
	ASSERT_EQ(0, of_fd.st_size);
	ASSERT_EQ(of_node.st_ino, of_fd.st_ino);
	ASSERT_EQ(of_node.st_rdev, of_fd.st_rdev);
}

TEST_F(spm, calls_of_regular_files)
{
	int fd = spm_open();
	char buf[16] = "";

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	/* ftruncate(2): fd is not a regular file */
	ASSERT_EQ(-1, ftruncate(fd, SPM_SLOT));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, ftruncate(fd, 0));
	ASSERT_EQ(EINVAL, errno);
	/* fallocate(2): neither a regular file nor a directory */
	ASSERT_EQ(-1, fallocate(fd, 0, 0, SPM_SLOT));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_EQ(-1, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				0, SPM_PAGE));
	ASSERT_EQ(ENODEV, errno);
	ASSERT_EQ(-1, read(fd, buf, sizeof(buf)));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, write(fd, buf, sizeof(buf)));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ((off_t)SPM_SLOT, lseek(fd, 0, SEEK_END));
}

TEST_F(spm, grows_with_what_is_mapped)
{
	static const struct {
		uint64_t off;
		size_t len;
		uint64_t size;
	} maps[] = {
		{ 0, 1, SPM_PAGE },
		{ 0, SPM_PAGE + 1, 2 * SPM_PAGE },
		{ 0, SPM_PAGE, 2 * SPM_PAGE },
		{ SPM_SLOT, SPM_SLOT, 2 * SPM_SLOT },
		{ SPM_PAGE, SPM_PAGE, 2 * SPM_SLOT },
		{ 5 * SPM_SLOT, SPM_PAGE, 5 * SPM_SLOT + SPM_PAGE },
	};
	struct spm_info info;
	int fd = spm_open();
	unsigned int i;
	void *p;

	for (i = 0; i < ARRAY_SIZE(maps); i++) {
		/* Mapping is enough, of whatever protection. */
		p = mmap(NULL, maps[i].len, i % 2 ? PROT_NONE : SPM_RW,
			 MAP_SHARED, fd, maps[i].off);
		ASSERT_NE(MAP_FAILED, p);
		spm_info(fd, &info);
		ASSERT_EQ(maps[i].size, info.size);
		ASSERT_EQ((off_t)maps[i].size, lseek(fd, 0, SEEK_END));
		ASSERT_EQ(0, info.flags & SPM_INFO_SIZE_FIXED);
		/* and it stays when the mapping goes */
		spm_unmap(p, maps[i].len);
		ASSERT_EQ((off_t)maps[i].size, lseek(fd, 0, SEEK_END));
	}
}

TEST_F(spm, fixed_size)
{
	struct spm_info info;
	int fd = spm_open();
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	spm_info(fd, &info);
	ASSERT_EQ(SPM_INFO_SIZE_FIXED, info.flags & SPM_INFO_SIZE_FIXED);
	ASSERT_EQ(2 * SPM_SLOT, info.size);
	map = spm_map(fd, SPM_SLOT, 3 * SPM_SLOT, SPM_RW);
	ASSERT_EQ((off_t)(2 * SPM_SLOT), lseek(fd, 0, SEEK_END));
	ASSERT_EQ(SIGBUS, spm_try_read(map));
	/* Larger again: the same mapping works now. */
	ASSERT_EQ(0, spm_set_size(fd, 4 * SPM_SLOT));
	ASSERT_EQ(0, spm_try_write(map + SPM_SLOT - 1, 1));
	ASSERT_EQ((off_t)(4 * SPM_SLOT), lseek(fd, 0, SEEK_END));
	/* Setting the size that it has is no change. */
	ASSERT_EQ(0, spm_set_size(fd, 4 * SPM_SLOT));
	ASSERT_EQ(1, map[SPM_SLOT - 1]);
}

TEST_F(spm, persistent_region)
{
	struct spm_info info;
	int fd;

	if (access(SPM_NODE "0", F_OK))
		SKIP(return, "no persistent region");
	fd = spm_open_persistent(0);
	spm_info(fd, &info);
	ASSERT_EQ(SPM_INFO_PERSISTENT | SPM_INFO_SIZE_FIXED,
		  info.flags & (SPM_INFO_PERSISTENT | SPM_INFO_SIZE_FIXED));
	ASSERT_EQ(1, info.region);
	ASSERT_LT(0, info.size);
	ASSERT_EQ((off_t)info.size, lseek(fd, 0, SEEK_END));
	spm_map(fd, SPM_SLOT, info.size, SPM_RW);
	ASSERT_EQ((off_t)info.size, lseek(fd, 0, SEEK_END));
}

SPM_TEST_MAIN
