// SPDX-License-Identifier: GPL-2.0
/*
 * Property: both ways to keep a copy that docs/tracking.md shows, by clearing and
 * by snapshots, keep one that equals the region, write only what changed, and do
 * not disturb each other.  The two functions are printed there as they are here.
 *
 * Kind of bug: an example in the documentation that loses stores.
 *
 * spm-test: full=7.3
 */
#include "spm_test.h"

#define SLOTS	4
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

static uint64_t saved;		/* pages */

int save(int file, const char *map, uint64_t start, uint64_t end)
{
	saved += (end - start) / SPM_PAGE;
	for (; start < end; start += SPM_PAGE)
		if (pwrite(file, map + start, SPM_PAGE, start) != SPM_PAGE)
			return -1;
	return 0;
}

/* Brings the copy in @file up to date; @map is a mapping of the region @fd. */
int backup_by_clearing(int fd, const char *map, size_t size, int file)
{
	struct spm_page_range vec[256];
	struct spm_scan s = {
		.argsz = sizeof(s),
		.flags = SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR,
		.len = size,
		.vec = (uintptr_t)vec,
		.vec_len = 256,
	};

	while (s.len) {
		if (ioctl(fd, SPM_IOC_GET_DIRTY, &s))
			return -1;
		for (uint64_t i = 0; i < s.count; i++)
			if (save(file, map, vec[i].start, vec[i].end))
				return -1;
		s.len -= s.next - s.start;
		s.start = s.next;
	}
	return 0;
}

/* The same by snapshots; @last is what the last call returned, -1 at first. */
int backup_by_snapshots(int fd, size_t size, int file, int last)
{
	struct spm_snapshot snap = { .argsz = sizeof(snap) };
	int now = ioctl(fd, SPM_IOC_SNAPSHOT, &snap), bad = 0;
	struct spm_page_range vec[256];
	struct spm_scan s = {
		.argsz = sizeof(s),
		.flags = SPM_SCAN_BY_OFFSET | SPM_SCAN_SINCE,
		.len = size,
		.since = last,
		.vec = (uintptr_t)vec,
		.vec_len = 256,
	};
	char *map = mmap(NULL, size, PROT_READ, MAP_SHARED, now, 0);

	if (map == MAP_FAILED) {
		close(now);
		return -1;
	}
	if (last < 0)
		bad = save(file, map, 0, size);
	while (last >= 0 && !bad && s.len) {
		bad = ioctl(now, SPM_IOC_GET_DIRTY, &s);
		for (uint64_t i = 0; !bad && i < s.count; i++)
			bad = save(file, map, vec[i].start, vec[i].end);
		s.len -= s.next - s.start;
		s.start = s.next;
	}
	munmap(map, size);
	close(bad ? now : last);
	return bad ? -1 : now;
}

static char *map;
static int fd;

static int same(int file)
{
	static char page[SPM_PAGE];
	size_t i;

	for (i = 0; i < PAGES; i++) {
		if (pread(file, page, SPM_PAGE, i * SPM_PAGE) != SPM_PAGE)
			spm_die("read the copy");
		if (memcmp(page, map + i * SPM_PAGE, SPM_PAGE)) {
			spm_note("page %zu differs", i);
			return 0;
		}
	}
	return 1;
}

/* Some stores, spread or in sequence, and a discard; how many pages differ. */
static long change(unsigned int round)
{
	size_t first = round * 331 % PAGES, step = 1 + round * 7 % 64, i, n = 0;
	static bool changed[PAGES];

	memset(changed, 0, sizeof(changed));
	for (i = first; i < PAGES && i < first + 100 * step; i += step) {
		*(volatile unsigned int *)(map + i * SPM_PAGE) = round;
		changed[i] = true;
	}
	i = (first + 900) % (PAGES - 20);
	if (spm_advise_off(fd, i * SPM_PAGE, 20 * SPM_PAGE, SPM_ADV_DISCARD))
		spm_die("DISCARD");
	memset(changed + i, true, 20);
	for (i = 0; i < PAGES; i++)
		n += changed[i];
	return n;
}

TEST_F(spm, copies_are_kept)
{
	int cleared = memfd_create("cleared", 0);
	int since = memfd_create("since", 0), last = -1;
	unsigned int round;
	long changed;

	fd = spm_open();
	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, 1);
	ASSERT_EQ(0, ftruncate(cleared, LEN));
	ASSERT_EQ(0, backup_by_clearing(fd, map, LEN, cleared));
	last = backup_by_snapshots(fd, LEN, since, last);
	ASSERT_LE(0, last);
	ASSERT_EQ(2 * PAGES, saved);
	for (round = 1; round < 40; round++) {
		changed = change(round);
		saved = 0;
		ASSERT_EQ(0, backup_by_clearing(fd, map, LEN, cleared));
		ASSERT_EQ(changed, saved);
		ASSERT_TRUE(same(cleared));
		saved = 0;
		last = backup_by_snapshots(fd, LEN, since, last);
		ASSERT_LE(0, last);
		ASSERT_EQ(changed, saved);
		ASSERT_TRUE(same(since));
	}
	close(last);
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
