// SPDX-License-Identifier: GPL-2.0
/*
 * Property: every madvise() advice, and mlock, msync and the populating calls,
 * have the documented result on small pages and on superpages; none loses
 * data or dirty state, and none breaks up a superpage without need.
 *
 * Kind of bug: advice that is harmless on files of the kernel's own (split the
 * large folio, reclaim it, drop its entry) hits memory of a driver; calls that
 * report success and leave faults, or signals, for later.
 *
 * The expected results follow from mm/madvise.c, mm/mlock.c, mm/msync.c and
 * mm/gup.c for a shared file mapping with VM_DONTEXPAND, which makes the
 * mapping "special" for them (VM_SPECIAL).
 */
#include "spm_test.h"

#define SEED	15

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED	24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL	102
#define MADV_GUARD_REMOVE	103
#endif

/* What becomes of the entries. */
enum effect {
	KEEP,		/* nothing changes */
	SPLIT,		/* part of a superpage: demoted in place */
	DROP,		/* the range has no entries (a superpage: all of it) */
};

static const struct {
	const char *name;
	int advice;
	int err;
	enum effect part, whole;
} table[] = {
	/* The flags of the VMA do not change: nothing to split. */
	{ "NORMAL", MADV_NORMAL, 0, KEEP, KEEP },
	{ "RANDOM", MADV_RANDOM, 0, SPLIT, KEEP },
	{ "SEQUENTIAL", MADV_SEQUENTIAL, 0, SPLIT, KEEP },
	{ "WILLNEED", MADV_WILLNEED, 0, KEEP, KEEP },
	{ "DONTNEED", MADV_DONTNEED, 0, DROP, DROP },
	{ "DONTNEED_LOCKED", MADV_DONTNEED_LOCKED, 0, DROP, DROP },
	/* anonymous memory only */
	{ "FREE", MADV_FREE, EINVAL, KEEP, KEEP },
	/* fallocate(): not a regular file */
	{ "REMOVE", MADV_REMOVE, ENODEV, KEEP, KEEP },
	{ "DONTFORK", MADV_DONTFORK, 0, SPLIT, KEEP },
	{ "DOFORK", MADV_DOFORK, EINVAL, KEEP, KEEP },
	/* shared memory is silently left out */
	{ "MERGEABLE", MADV_MERGEABLE, 0, KEEP, KEEP },
	{ "UNMERGEABLE", MADV_UNMERGEABLE, 0, KEEP, KEEP },
	{ "HUGEPAGE", MADV_HUGEPAGE, 0, KEEP, KEEP },
	{ "NOHUGEPAGE", MADV_NOHUGEPAGE, 0, SPLIT, KEEP },
	{ "DONTDUMP", MADV_DONTDUMP, 0, SPLIT, KEEP },
	{ "DODUMP", MADV_DODUMP, EINVAL, KEEP, KEEP },
	{ "WIPEONFORK", MADV_WIPEONFORK, EINVAL, KEEP, KEEP },
	{ "KEEPONFORK", MADV_KEEPONFORK, 0, KEEP, KEEP },
	{ "COLD", MADV_COLD, 0, KEEP, KEEP },
	{ "PAGEOUT", MADV_PAGEOUT, 0, KEEP, KEEP },
	{ "POPULATE_READ", MADV_POPULATE_READ, 0, KEEP, KEEP },
	{ "POPULATE_WRITE", MADV_POPULATE_WRITE, 0, KEEP, KEEP },
	{ "COLLAPSE", MADV_COLLAPSE, EINVAL, KEEP, KEEP },
	{ "GUARD_INSTALL", MADV_GUARD_INSTALL, EINVAL, KEEP, KEEP },
	{ "GUARD_REMOVE", MADV_GUARD_REMOVE, EINVAL, KEEP, KEEP },
	{ "no such advice", 9999, EINVAL, KEEP, KEEP },
};

#define PAGE_AT	(300 * SPM_PAGE)

static void run(struct __test_metadata *_metadata, unsigned int t, bool whole,
		bool large)
{
	enum effect effect = whole ? table[t].whole : table[t].part;
	size_t at = whole ? 0 : PAGE_AT;
	size_t len = whole ? SPM_SLOT : SPM_PAGE;
	long m2 = 0, m4 = 0, none = 0;
	int ret, err, fd = spm_open();
	struct spm_stats before;
	char *map;

	/* The mapping is just this slot. */
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	if (!large) {
		ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
	}
	spm_stats(fd, &before);

	ret = madvise(map + at, len, table[t].advice);
	err = ret ? errno : 0;
	ASSERT_EQ(table[t].err, err) {
		TH_LOG("%s on %zu bytes, %s", table[t].name, len,
		       large ? "2 MB" : "4 KB");
	}
	if (effect == DROP)
		none = large ? 512 : len / SPM_PAGE;
	else if (effect == KEEP && large)
		m2 = 512;
	m4 = 512 - m2 - none;
	EXPECT_EQ(m2, spm_count_2m(fd, map, SPM_SLOT)) {
		TH_LOG("%s on %zu bytes, %s", table[t].name, len,
		       large ? "2 MB" : "4 KB");
	}
	EXPECT_EQ(m4, spm_count_4k(fd, map, SPM_SLOT)) {
		TH_LOG("%s on %zu bytes, %s", table[t].name, len,
		       large ? "2 MB" : "4 KB");
	}
	EXPECT_EQ(none, spm_count_none(fd, map, SPM_SLOT)) {
		TH_LOG("%s on %zu bytes, %s", table[t].name, len,
		       large ? "2 MB" : "4 KB");
	}
	ASSERT_EQ(effect == SPLIT && large,
		  spm_delta(fd, &before, demotions_split)) {
		TH_LOG("%s on %zu bytes", table[t].name, len);
	}
	ASSERT_EQ(0, spm_delta(fd, &before, pages));
	ASSERT_EQ(0, spm_delta(fd, &before, dirty));
	ASSERT_EQ(0, spm_consistent(fd));
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED)) {
		TH_LOG("%s on %zu bytes, %s", table[t].name, len,
		       large ? "2 MB" : "4 KB");
	}
	if (!none) {
		ASSERT_EQ(0, spm_delta(fd, &before, vm_faults)) {
			TH_LOG("%s on %zu bytes, %s", table[t].name, len,
			       large ? "2 MB" : "4 KB");
		}
	} else if (large || whole) {
		/* One fault brought all of it back. */
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		ASSERT_EQ(1, spm_delta(fd, &before, vm_faults));
	}
	/* Writing goes on as well. */
	spm_fill(map, 0, 512, SEED + 1);
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED + 1));
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
	close(fd);
	spm_unmap(map, SPM_SLOT);
}

TEST_F(spm, page_of_a_superpage)
{
	unsigned int t;

	for (t = 0; t < ARRAY_SIZE(table); t++)
		run(_metadata, t, false, true);
}

TEST_F(spm, whole_superpage)
{
	unsigned int t;

	for (t = 0; t < ARRAY_SIZE(table); t++)
		run(_metadata, t, true, true);
}

TEST_F(spm, small_page)
{
	unsigned int t;

	for (t = 0; t < ARRAY_SIZE(table); t++)
		run(_metadata, t, false, false);
}

TEST_F(spm, all_small_pages)
{
	unsigned int t;

	for (t = 0; t < ARRAY_SIZE(table); t++)
		run(_metadata, t, true, false);
}

/* On a mapping with nothing in it: nothing may crash, nothing may appear. */
TEST_F(spm, empty_mapping)
{
	struct spm_stats s;
	unsigned int t;
	char *map;
	int fd;

	for (t = 0; t < ARRAY_SIZE(table); t++) {
		if (table[t].advice == MADV_POPULATE_READ ||
		    table[t].advice == MADV_POPULATE_WRITE)
			continue;
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		ASSERT_EQ(table[t].err ? -1 : 0,
			  madvise(map + PAGE_AT, SPM_PAGE, table[t].advice)) {
			TH_LOG("%s", table[t].name);
		}
		spm_stats(fd, &s);
		ASSERT_EQ(0, s.pages);
		ASSERT_EQ(0, s.reserv_live);
		map[PAGE_AT] = 1;
		close(fd);
		spm_unmap(map, SPM_SLOT);
	}
}

TEST_F(spm, populate_read)
{
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, madvise(map, SPM_SLOT + 7 * SPM_PAGE, MADV_POPULATE_READ));
	ASSERT_EQ(0, spm_touch_faults(map, SPM_SLOT + 7 * SPM_PAGE, false));
	ASSERT_EQ(0, spm_count_dirty(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(7, spm_count_4k(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, populate_write)
{
	size_t len = 2 * SPM_SLOT + 7 * SPM_PAGE;
	int fd = spm_open();
	long faults;
	char *map;

	map = spm_map(fd, 3 * SPM_SLOT, 0, SPM_RW);
	spm_touch_read(map, 50 * SPM_PAGE);
	ASSERT_EQ(0, madvise(map, len, MADV_POPULATE_WRITE));
	faults = spm_minflt();
	memset(map, 0x5a, len);
	ASSERT_EQ(0, spm_minflt() - faults);
	ASSERT_EQ(1024, spm_count_2m(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(len / SPM_PAGE, spm_count_dirty(fd, map, 3 * SPM_SLOT));
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, 3 * SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, populate_reports_what_it_cannot_do)
{
	int fd = spm_open();
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(-1, madvise(map, 2 * SPM_SLOT, MADV_POPULATE_READ));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-1, madvise(map, 2 * SPM_SLOT, MADV_POPULATE_WRITE));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-1, mlock(map, 2 * SPM_SLOT));
	ASSERT_EQ(ENOMEM, errno);
	/* What is there was populated on the way. */
	ASSERT_EQ(512, spm_count(fd, map, SPM_SLOT, SPM_MINCORE_INCORE,
				 SPM_MINCORE_INCORE));

	map = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	ASSERT_EQ(-1, madvise(map, SPM_SLOT, MADV_POPULATE_WRITE));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(0, madvise(map, SPM_SLOT, MADV_POPULATE_READ));
	map = spm_map(fd, SPM_SLOT, 0, PROT_NONE);
	ASSERT_EQ(-1, madvise(map, SPM_SLOT, MADV_POPULATE_READ));
	ASSERT_EQ(EINVAL, errno);

	/* MAP_POPULATE cannot report; the signal comes at the touch. */
	map = mmap(NULL, 2 * SPM_SLOT, SPM_RW, MAP_SHARED | MAP_POPULATE, fd,
		   0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_EQ(0, spm_touch_faults(map, SPM_SLOT, false));
	ASSERT_EQ(SIGBUS, spm_try_read(map + SPM_SLOT));
}

TEST_F(spm, map_populate_and_map_locked)
{
	static const int flags[] = {
		MAP_POPULATE, MAP_LOCKED, MAP_POPULATE | MAP_LOCKED,
	};
	unsigned int i;
	char *map;
	int fd;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		fd = spm_open();
		map = mmap(NULL, 2 * SPM_SLOT, SPM_RW, MAP_SHARED | flags[i],
			   fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		ASSERT_EQ(1024, spm_count(fd, map, 2 * SPM_SLOT,
					  SPM_MINCORE_MAPPED,
					  SPM_MINCORE_MAPPED));
		ASSERT_EQ(0, spm_touch_faults(map, 2 * SPM_SLOT, false));
		ASSERT_EQ(-1, spm_nonzero(map, 1024));
		ASSERT_EQ(0, spm_consistent(fd));
		close(fd);
	}
}

/* Our pages are never evicted, so VM_LOCKED is not even set. */
TEST_F(spm, mlock)
{
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, mlock(map, SPM_SLOT));
	ASSERT_EQ(512, spm_count(fd, map, 2 * SPM_SLOT, SPM_MINCORE_MAPPED,
				 SPM_MINCORE_MAPPED));
	ASSERT_EQ(0, spm_touch_faults(map, SPM_SLOT, false));
	ASSERT_EQ(0, spm_smaps(map, "Locked"));
	/* A part of a superpage: the mapping is not split by it. */
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, mlock(map + 5 * SPM_PAGE, SPM_PAGE));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, munlock(map + 5 * SPM_PAGE, SPM_PAGE));
	ASSERT_EQ(0, munlock(map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, syscall(SYS_mlock2, map + SPM_SLOT, SPM_SLOT,
			     1 /* MLOCK_ONFAULT */));
	map[SPM_SLOT] = 1;
	ASSERT_EQ(0, mlockall(MCL_CURRENT | MCL_FUTURE));
	map = spm_map(fd, SPM_SLOT, 2 * SPM_SLOT, SPM_RW);
	ASSERT_EQ(512, spm_count(fd, map, SPM_SLOT, SPM_MINCORE_MAPPED,
				 SPM_MINCORE_MAPPED));
	ASSERT_EQ(0, munlockall());
	ASSERT_EQ(0, madvise(map, SPM_SLOT, MADV_DONTNEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* There is nothing behind the memory, so it is always in sync. */
TEST_F(spm, msync)
{
	static const int flags[] = {
		MS_ASYNC, MS_SYNC, MS_INVALIDATE, MS_SYNC | MS_INVALIDATE,
		MS_ASYNC | MS_INVALIDATE,
	};
	struct spm_stats before;
	int fd = spm_open();
	unsigned int i;
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_fill(map + SPM_SLOT, 512, 5, SEED);
	spm_stats(fd, &before);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		ASSERT_EQ(0, msync(map, 2 * SPM_SLOT, flags[i])) {
			TH_LOG("flags %d: errno %d", flags[i], errno);
		}
		ASSERT_EQ(0, msync(map + SPM_PAGE, SPM_PAGE, flags[i]));
	}
	ASSERT_EQ(0, fsync(fd));
	ASSERT_EQ(0, fdatasync(fd));
	ASSERT_EQ(0, spm_delta(fd, &before, dirty));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 517, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Advice across slots of all kinds and across a hole. */
TEST_F(spm, dontneed_over_everything)
{
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	spm_fill(map + 2 * SPM_SLOT, 1024, 100, SEED);
	spm_unmap(map + SPM_SLOT + 10 * SPM_PAGE, SPM_PAGE);
	ASSERT_EQ(-1, madvise(map + SPM_SLOT / 2, 3 * SPM_SLOT, MADV_DONTNEED));
	ASSERT_EQ(ENOMEM, errno);
	ASSERT_EQ(0, spm_consistent(fd));
	ASSERT_EQ(-1, spm_wrong(map, 0, 522, SEED));
	ASSERT_EQ(-1, spm_wrong(map + 523 * SPM_PAGE, 523, 601, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
