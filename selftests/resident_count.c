// SPDX-License-Identifier: GPL-2.0
/*
 * Property: resident size (statm, smaps) is exact to the page after every
 * operation that makes, breaks up or removes entries of either size.
 *
 * Kind of bug: a large entry counted as one page, or pages counted again when
 * it is broken up, or not at all when the entry was made directly; the kernel
 * then reports a bad count when the process ends.
 */
#include "spm_test.h"

#define SEED	18

/* By the counters of the process and by a walk of its page tables. */
static void check(struct __test_metadata *_metadata, long base, char *map,
		  size_t len, long pages, long kb_2m)
{
	EXPECT_EQ(base + pages, spm_rss());
	EXPECT_EQ(pages * 4, spm_smaps_range(map, len, "Rss"));
	EXPECT_EQ(kb_2m, spm_smaps_range(map, len, "FilePmdMapped"));
}

TEST_F(spm, direct_then_demoted_then_unmapped)
{
	int fd = spm_open();
	char *map, *m;
	long base;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	spm_unmap(map, 2 * SPM_SLOT);
	m = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	check(_metadata, spm_rss(), m, 2 * SPM_SLOT, 0, 0);
	base = spm_rss();
	spm_touch_read(m, 2 * SPM_SLOT);
	check(_metadata, base, m, 2 * SPM_SLOT, 1024, 4096);
	ASSERT_EQ(0, spm_advise(fd, m, SPM_SLOT, SPM_ADV_DEMOTE));
	check(_metadata, base, m, 2 * SPM_SLOT, 1024, 2048);
	spm_unmap(m, SPM_PAGE);
	check(_metadata, base, m, 2 * SPM_SLOT, 1023, 2048);
	/* cut the one that is still a superpage */
	spm_unmap(m + 2 * SPM_SLOT - SPM_PAGE, SPM_PAGE);
	check(_metadata, base, m, 2 * SPM_SLOT, 1022, 0);
	spm_unmap(m + SPM_PAGE, SPM_SLOT);
	check(_metadata, base, m, 2 * SPM_SLOT, 510, 0);
	spm_unmap(m, 2 * SPM_SLOT);
	ASSERT_EQ(base, spm_rss());
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, page_by_page_to_a_superpage_and_back)
{
	int fd = spm_open();
	unsigned int i;
	char *map;
	long base;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	check(_metadata, spm_rss(), map, SPM_SLOT, 0, 0);
	base = spm_rss();
	for (i = 0; i < 512; i++) {
		spm_touch_read(map + i * SPM_PAGE, 1);
		ASSERT_EQ(base + i + 1, spm_rss());
	}
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	/* demoted by a write, promoted by the last */
	map[0] = 1;
	check(_metadata, base, map, SPM_SLOT, 512, 0);
	spm_touch_write(map, SPM_SLOT);
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	/* the kernel throws all of it away for one page */
	ASSERT_EQ(0, madvise(map + 3 * SPM_PAGE, SPM_PAGE, MADV_DONTNEED));
	check(_metadata, base, map, SPM_SLOT, 0, 0);
	spm_touch_read(map, SPM_SLOT);
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	ASSERT_EQ(0, mprotect(map, SPM_SLOT, PROT_NONE));
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	ASSERT_EQ(0, mprotect(map, SPM_SLOT, SPM_RW));
	spm_touch_write(map, SPM_SLOT);
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DISCARD));
	check(_metadata, base, map, SPM_SLOT, 0, 0);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PREFAULT));
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	spm_unmap(map, SPM_SLOT);
	ASSERT_EQ(base, spm_rss());
}

TEST_F(spm, moved_mappings)
{
	int fd = spm_open();
	char *map, *to;
	long base;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	check(_metadata, spm_rss(), map, SPM_SLOT, 0, 0);
	base = spm_rss();
	spm_touch_write(map, SPM_SLOT);
	check(_metadata, base, map, SPM_SLOT, 512, 2048);
	to = spm_reserve(SPM_SLOT, 0);
	ASSERT_EQ((void *)to, mremap(map, SPM_SLOT, SPM_SLOT,
				     MREMAP_MAYMOVE | MREMAP_FIXED, to));
	check(_metadata, base, to, SPM_SLOT, 512, 2048);
	map = spm_reserve(SPM_SLOT, 0) + SPM_PAGE;
	ASSERT_EQ((void *)map, mremap(to, SPM_SLOT, SPM_SLOT,
				      MREMAP_MAYMOVE | MREMAP_FIXED, map));
	spm_touch_read(map, SPM_SLOT);
	check(_metadata, base, map, SPM_SLOT, 512, 0);
	ASSERT_EQ((void *)map, mremap(map, SPM_SLOT, SPM_SLOT / 2, 0));
	check(_metadata, base, map, SPM_SLOT, 256, 0);
	spm_unmap(map, SPM_SLOT);
	ASSERT_EQ(base, spm_rss());
}

static int the_fd;

static int child(void *arg)
{
	char *map = arg;
	long base;

	/* Nothing of ours is copied by fork. */
	spm_child_check(spm_smaps(map, "Rss") == 0, "%ld kB",
			spm_smaps(map, "Rss"));
	/* Makes all resident that there is, so the mapping must go for it. */
	spm_unmap(map, SPM_SLOT);
	spm_settle();
	base = spm_rss();
	spm_map_at(map, the_fd, SPM_SLOT, 0, SPM_RW);
	spm_touch_read(map, 1);
	spm_child_check(spm_rss() == base + 512, "%ld, was %ld", spm_rss(),
			base);
	spm_unmap(map + 10 * SPM_PAGE, SPM_PAGE);
	spm_child_check(spm_rss() == base + 511, "%ld, was %ld", spm_rss(),
			base);
	return 0;
}

TEST_F(spm, forked)
{
	int fd = spm_open(), i;
	char *map;
	long rss;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	the_fd = fd;
	rss = spm_rss();
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, spm_fork_run(child, map));
	}
	ASSERT_EQ(rss, spm_rss());
}

SPM_TEST_MAIN
