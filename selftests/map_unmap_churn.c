// SPDX-License-Identifier: GPL-2.0
/*
 * Property: mapping, touching and unmapping a region again and again, by
 * munmap() or by another mapping on top, changes neither its contents nor the
 * process' resident size nor any gauge.
 *
 * Kind of bug: pages given back only when the whole process goes, or by the
 * wrong event, or once too often; counters that creep.
 *
 * spm-test: timeout=240
 */
#include "spm_test.h"

#define SEED	6
#define SIZE	(3 * SPM_SLOT)
#define PAGES	(SIZE / SPM_PAGE)

static size_t length(int round)
{
	/* 4 KB to 6 MB, all kinds of remainders */
	return (1 + (round * 7919UL) % PAGES) * SPM_PAGE;
}

TEST_F(spm, thousands_of_rounds)
{
	int fd = spm_open(), i;
	struct spm_stats start, end;
	char *map, *all;
	size_t len, at;
	long rss;

	all = spm_map(fd, SIZE, 0, SPM_RW);
	spm_promoted(fd, all, SIZE, 0, SEED);
	spm_unmap(all, SIZE);
	ASSERT_EQ(0, spm_consistent(fd));
	spm_stats(fd, &start);
	rss = spm_rss();
	for (i = 0; i < 2000; i++) {
		len = length(i);
		map = mmap(NULL, len, SPM_RW, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		/* first, last and some page in between; read or write */
		at = (i * 104729UL) % (len / SPM_PAGE);
		ASSERT_TRUE(spm_stamped(map, 0, SEED));
		ASSERT_TRUE(spm_stamped(map + at * SPM_PAGE, at, SEED));
		if (i % 2)
			spm_stamp(map + len - SPM_PAGE, len / SPM_PAGE - 1,
				  SEED);
		spm_unmap(map, len);
	}
	ASSERT_EQ(0, spm_consistent(fd));
	spm_stats(fd, &end);
	ASSERT_EQ(start.pages, end.pages);
	ASSERT_EQ(start.reserv_live, end.reserv_live);
	ASSERT_EQ(start.reserv_fullpop, end.reserv_fullpop);
	ASSERT_EQ(start.maps, end.maps);
	ASSERT_EQ(0, end.live);
	ASSERT_EQ(start.populated, end.populated);
	ASSERT_GE(rss + 16, spm_rss());
	all = spm_map(fd, SIZE, 0, PROT_READ);
	ASSERT_EQ(-1, spm_wrong(all, 0, PAGES, SEED));
}

/* A fresh region each time: everything is allocated and freed. */
TEST_F(spm, regions_come_and_go)
{
	char *map;
	int fd, i;

	for (i = 0; i < 100; i++) {
		fd = spm_open();
		map = mmap(NULL, length(i), SPM_RW, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		if (i % 2)
			close(fd);
		ASSERT_EQ(0, map[length(i) - 1]);
		map[0] = 1;
		map[length(i) - 1] = 2;
		if (i % 3)
			spm_unmap(map, length(i));
		else if (mmap(map, length(i), PROT_NONE, MAP_FIXED |
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != map)
			spm_die("mmap over");
		if (!(i % 2))
			close(fd);
	}
}

/* Something else is mapped over a half: the half that is left goes on. */
TEST_F(spm, anonymous_memory_over_half)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map, *anon;
	int i;

	map = spm_map(fd, SIZE, 0, SPM_RW);
	spm_promoted(fd, map, SIZE, 0, SEED);
	for (i = 0; i < 20; i++) {
		size_t from = i % 2 ? 0 : SIZE / 2;

		spm_stats(fd, &before);
		anon = mmap(map + from, SIZE / 2, SPM_RW, MAP_FIXED |
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_EQ(map + from, anon);
		/* Slot 1 was cut in the middle; the other half stays whole. */
		ASSERT_EQ(1, spm_delta(fd, &before, demotions_split));
		ASSERT_EQ(-1, spm_nonzero(anon, 2));
		spm_fill(anon, 0, 2, 99);
		from = SIZE / 2 - from;
		ASSERT_EQ(-1, spm_wrong(map + from, from / SPM_PAGE, PAGES / 2,
					SEED));
		ASSERT_EQ(512, spm_count_2m(fd, map + from, SIZE / 2));
		ASSERT_EQ(256, spm_count_4k(fd, map + from, SIZE / 2));
		ASSERT_EQ(-1, spm_wrong(anon, 0, 2, 99));
		ASSERT_EQ(0, spm_consistent(fd));

		spm_map_at(map, fd, SIZE, 0, SPM_RW);
		ASSERT_EQ(3, spm_touch_faults(map, SIZE, false));
		ASSERT_EQ((long)PAGES, spm_count_2m(fd, map, SIZE));
		ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
	}
}

SPM_TEST_MAIN
