// SPDX-License-Identifier: GPL-2.0
/*
 * Property: what changed since a snapshot is told exactly, also where a side of
 * it was cut off, emptied, closed, or is itself stored to; and neither clears nor
 * promotions, demotions and loads in between change the answer.
 *
 * Kind of bug: the answer is taken from what objects hold, so it is wrong where
 * an object holds nothing any more: after a smaller size, after the connection
 * to the backing is cut, after a merge.
 *
 * spm-test: full=debug,7.3
 */
#include "spm_test.h"

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define LEN	(3 * SPM_SLOT)
#define PAGES	(3 * SPM_SLOT_PAGES)
#define SEED	97

static long since(int fd, int from)
{
	struct spm_scan s = { .flags = OFF | SPM_SCAN_SINCE, .len = LEN,
			      .since = from };
	int err = spm_scan(fd, SPM_IOC_GET_DIRTY, &s);

	return err ? err : (long)s.pages;
}

/* A superpage, a slot with 100 pages stored to, and one with none. */
static char *prepared(int fd)
{
	char *map = spm_map(fd, LEN, 0, SPM_RW);

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_fill(map + SPM_SLOT, 512, 100, SEED);
	return map;
}

/* Cut off to nothing, and grown again: all that was there reads as zeros. */
TEST_F(spm, size_of_nothing_in_between)
{
	static const uint64_t sizes[] = {
		0, SPM_PAGE, SPM_SLOT, SPM_SLOT + 40 * SPM_PAGE,
		SPM_SLOT + 100 * SPM_PAGE, 2 * SPM_SLOT,
	};
	static const long changed[] = { 612, 611, 100, 60, 0, 0 };
	int fd, snap, i;
	char *map;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		fd = spm_open();
		map = prepared(fd);
		snap = spm_snapshot(fd);
		ASSERT_EQ(0, spm_set_size(fd, sizes[i]));
		ASSERT_EQ(0, spm_set_size(fd, LEN));
		ASSERT_EQ(changed[i], since(fd, snap)) {
			TH_LOG("size %llu", (unsigned long long)sizes[i]);
		}
		/* Loads of the zeros add nothing. */
		spm_touch_read(map, LEN);
		ASSERT_EQ(changed[i], since(fd, snap));
		ASSERT_EQ(0, since(snap, fd));
		/* Stores beyond what was there do. */
		map[LEN - SPM_PAGE] = 1;
		ASSERT_EQ(changed[i] + 1, since(fd, snap));
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(map, LEN);
		close(snap);
		close(fd);
	}
}

/* The other side is cut off: that is no change of this one. */
TEST_F(spm, snapshot_cut_off)
{
	int fd = spm_open(), snap;
	char *map;

	map = prepared(fd);
	snap = spm_snapshot(fd);
	map[5 * SPM_PAGE] = 1;
	ASSERT_EQ(0, spm_set_size(snap, 0));
	ASSERT_EQ(1, since(fd, snap));
	ASSERT_EQ(0, since(snap, fd));
	ASSERT_EQ(0, spm_set_size(snap, LEN));
	ASSERT_EQ(1, since(fd, snap));
	ASSERT_EQ(612, since(snap, fd));
	ASSERT_EQ(0, spm_all_consistent());
}

/* All of it discarded, then the same contents stored again: changed all the same. */
TEST_F(spm, discarded_and_stored_again)
{
	int fd = spm_open(), snap;
	char *map;

	map = prepared(fd);
	snap = spm_snapshot(fd);
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_DISCARD));
	ASSERT_EQ(612, since(fd, snap));
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_DISCARD));
	spm_touch_read(map, LEN);
	ASSERT_EQ(612, since(fd, snap));
	spm_fill(map + SPM_SLOT, 512, 100, SEED);
	ASSERT_EQ(612, since(fd, snap));
	spm_fill(map + SPM_SLOT + 100 * SPM_PAGE, 612, 10, SEED);
	ASSERT_EQ(622, since(fd, snap));
	ASSERT_EQ(0, spm_all_consistent());
}

/* A snapshot of a region that had nothing, or had lost it. */
TEST_F(spm, since_nothing)
{
	int fd = spm_open(), first, second;
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, LEN));
	first = spm_snapshot(fd);
	ASSERT_EQ(0, since(fd, first));
	map = prepared(fd);
	spm_touch_read(map + 2 * SPM_SLOT, 20 * SPM_PAGE);
	ASSERT_EQ(612, since(fd, first));
	ASSERT_EQ(0, since(first, fd));
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_DISCARD));
	/* Nothing then, nothing now. */
	ASSERT_EQ(0, since(fd, first));
	second = spm_snapshot(fd);
	ASSERT_EQ(0, since(second, first));
	map[0] = 1;
	ASSERT_EQ(1, since(fd, second));
	ASSERT_EQ(1, since(fd, first));
	ASSERT_EQ(0, since(second, first));
	ASSERT_EQ(0, spm_all_consistent());
}

/* Whatever else happens to state and entries. */
TEST_F(spm, clears_and_entries_do_not_matter)
{
	int fd = spm_open(), snap, copy;
	struct spm_stats before;
	char *map, *image, *priv;

	map = prepared(fd);
	snap = spm_snapshot(fd);
	map[3 * SPM_PAGE] = 1;
	map[SPM_SLOT] = 1;
	ASSERT_EQ(2, since(fd, snap));
	spm_stats(fd, &before);
	ASSERT_EQ(612, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(2, since(fd, snap));
	ASSERT_EQ(612, spm_dirty(snap, OFF | CLEAR, 0, LEN));
	spm_touch_read(map, LEN);
	ASSERT_EQ(0, madvise(map, LEN, MADV_DONTNEED));
	ASSERT_EQ(0, spm_advise(fd, map, LEN, SPM_ADV_DEMOTE));
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_PREFAULT));
	ASSERT_EQ(2, since(fd, snap));
	/* Private mappings are nobody's region. */
	priv = spm_private(fd, LEN, 0, SPM_RW);
	spm_touch_write(priv, LEN);
	ASSERT_EQ(2, since(fd, snap));
	/* What the snapshot stores is its own, and not its copy's past. */
	image = spm_map(snap, LEN, 0, SPM_RW);
	image[7 * SPM_PAGE] = 1;
	ASSERT_EQ(2, since(fd, snap));
	ASSERT_EQ(1, since(snap, fd));
	copy = spm_snapshot(snap);
	image[8 * SPM_PAGE] = 1;
	ASSERT_EQ(0, since(copy, snap));
	ASSERT_EQ(1, since(copy, fd));
	ASSERT_EQ(2, since(snap, fd));
	ASSERT_EQ(1, since(snap, copy));
	ASSERT_EQ(2, since(fd, copy));
	ASSERT_EQ(0, spm_all_consistent());
}

/* A promotion stores to nothing but what it fills: those were zeros, too. */
TEST_F(spm, whole_slots_copied)
{
	int fd = spm_open(), snap;
	char *map;

	ASSERT_EQ(0, spm_policy_set(fd, "cow_size", SPM_COW_SIZE_2M));
	map = prepared(fd);
	snap = spm_snapshot(fd);
	map[3 * SPM_PAGE] = 1;
	/* Coarse, as the copy is, but nothing is missing. */
	ASSERT_LE(1, since(fd, snap));
	ASSERT_GE(512, since(fd, snap));
	map[SPM_SLOT + 99 * SPM_PAGE] = 1;
	ASSERT_GE(512 + 512, since(fd, snap));
	close(snap);
	snap = spm_snapshot(fd);
	ASSERT_EQ(0, since(fd, snap));
	ASSERT_EQ(0, spm_all_consistent());
}

/* Thirty in a row, closed in any order: those that are left still agree. */
TEST_F(spm, long_chain)
{
	int fd = spm_open(), snap[30], i, k, left;
	unsigned int rnd = 4711;
	char *map;

	map = prepared(fd);
	for (i = 0; i < 30; i++) {
		snap[i] = spm_snapshot(fd);
		/* One of its own, and one that all store to. */
		map[(20 + i) * SPM_PAGE] = 1;
		map[SPM_SLOT + 7 * SPM_PAGE] = i;
		if (i % 5 == 0)
			spm_dirty(fd, OFF | CLEAR, 0, LEN);
	}
	for (left = 30; left; left--) {
		for (i = 0; i < 30; i++) {
			if (snap[i] < 0)
				continue;
			ASSERT_EQ(30 - i + 1, since(fd, snap[i]));
			for (k = i + 1; k < 30; k++)
				if (snap[k] >= 0)
					ASSERT_EQ(k - i + 1,
						  since(snap[k], snap[i]));
		}
		do {
			rnd = rnd * 1103515245 + 12345;
			i = (rnd >> 16) % 30;
		} while (snap[i] < 0);
		close(snap[i]);
		snap[i] = -1;
	}
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
