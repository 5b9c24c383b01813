// SPDX-License-Identifier: GPL-2.0
/*
 * Property: without an address, mmap() picks one congruent to the offset
 * modulo 2 MB whenever a whole slot fits; a hint and MAP_FIXED are honoured,
 * also where they make 2 MB entries impossible.
 *
 * Kind of bug: no get_unmapped_area of the right kind, so that superpages
 * silently never happen; or one that overrides what the program asked for.
 */
#include "spm_test.h"

#define SEED	2

static unsigned int rnd(void)
{
	static unsigned int x = 12345;

	x = x * 1103515245 + 12345;
	return x >> 16;
}

static bool slot_fits(uint64_t off, uint64_t len)
{
	uint64_t first = (off + SPM_SLOT - 1) & ~(SPM_SLOT - 1);

	return first + SPM_SLOT <= off + len;
}

TEST_F(spm, congruent_to_the_offset)
{
	static const size_t lens[] = {
		SPM_SLOT, SPM_SLOT + SPM_PAGE, 4 * SPM_SLOT,
	};
	static const uint64_t offs[] = { 0, SPM_PAGE, SPM_SLOT };
	char *maps[200];
	size_t len[200];
	uint64_t off;
	int fd = spm_open();
	int i;

	for (i = 0; i < 200; i++) {
		/* Small mappings in between disturb the layout. */
		if (mmap(NULL, (1 + rnd() % 300) * SPM_PAGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			spm_die("disturbing mmap");
		len[i] = lens[i % 3];
		off = offs[i / 3 % 3];
		maps[i] = mmap(NULL, len[i], SPM_RW, MAP_SHARED, fd, off);
		ASSERT_NE(MAP_FAILED, maps[i]);
		if (slot_fits(off, len[i])) {
			ASSERT_EQ(off % SPM_SLOT, (uintptr_t)maps[i] % SPM_SLOT) {
				TH_LOG("round %d: %zu bytes at offset %llu mapped at %p",
				       i, len[i], (unsigned long long)off,
				       maps[i]);
			}
		}
		maps[i][len[i] - 1] = i;
		/* Holes come and go as well. */
		if (i > 10 && rnd() % 3 == 0) {
			int k = i - 1 - rnd() % 10;

			if (maps[k])
				spm_unmap(maps[k], len[k]);
			maps[k] = NULL;
		}
	}
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Where no slot fits, address space is not wasted on alignment. */
TEST_F(spm, small_maps_are_placed_like_any_other)
{
	static const size_t lens[] = {
		SPM_PAGE, 16 * SPM_PAGE, SPM_SLOT - SPM_PAGE,
	};
	int fd = spm_open();
	void *anon, *map;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		anon = mmap(NULL, lens[i], SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
		ASSERT_NE(MAP_FAILED, anon);
		spm_unmap(anon, lens[i]);
		map = mmap(NULL, lens[i], SPM_RW, MAP_SHARED, fd, 0);
		ASSERT_EQ(anon, map);
	}
}

TEST_F(spm, hint_with_room_around_is_honoured)
{
	char *room = spm_reserve(8 * SPM_SLOT, 0);
	int fd = spm_open();
	unsigned int i;
	char *map;
	/* congruent, off by a page, off by half a slot */
	static const size_t skews[] = { 0, SPM_PAGE, SPM_SLOT / 2 };

	spm_unmap(room, 8 * SPM_SLOT);
	for (i = 0; i < ARRAY_SIZE(skews); i++) {
		map = mmap(room + skews[i], SPM_SLOT, SPM_RW, MAP_SHARED, fd,
			   0);
		ASSERT_EQ(room + skews[i], map);
		map[0] = 1;
		spm_unmap(map, SPM_SLOT);
	}
	/* A hint inside a page is rounded to the page. */
	map = mmap(room + 100, SPM_SLOT, SPM_RW, MAP_SHARED, fd, 0);
	ASSERT_TRUE(map == room || map == room + SPM_PAGE);
}

/* mmap(2): if nothing is there, the kernel creates the mapping at the hint. */
TEST_F(spm, hint_into_a_hole_of_just_that_size_is_honoured)
{
	char *room = spm_reserve(4 * SPM_SLOT, 0);
	int fd = spm_open();
	char *map;

	spm_unmap(room + SPM_SLOT, SPM_SLOT);
	map = mmap(room + SPM_SLOT, SPM_SLOT, SPM_RW, MAP_SHARED, fd, 0);
	ASSERT_EQ(room + SPM_SLOT, map);

	spm_unmap(room + 3 * SPM_SLOT + SPM_PAGE, 4 * SPM_PAGE);
	map = mmap(room + 3 * SPM_SLOT + SPM_PAGE, 4 * SPM_PAGE, SPM_RW,
		   MAP_SHARED, fd, 0);
	ASSERT_EQ(room + 3 * SPM_SLOT + SPM_PAGE, map);
}

/* A hint where something is already: elsewhere, and still congruent. */
TEST_F(spm, occupied_hint_falls_back)
{
	char *room = spm_reserve(4 * SPM_SLOT, 0);
	int fd = spm_open();
	char *map;

	map = mmap(room + SPM_PAGE, 2 * SPM_SLOT, SPM_RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	ASSERT_TRUE(map + 2 * SPM_SLOT <= room ||
		    map >= room + 4 * SPM_SLOT) {
		TH_LOG("mapped at %p, inside %p", map, room);
	}
	ASSERT_EQ(0, (uintptr_t)map % SPM_SLOT);

	ASSERT_EQ(MAP_FAILED, mmap(room, SPM_SLOT, SPM_RW,
				   MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0));
	ASSERT_EQ(EEXIST, errno);
}

TEST_F(spm, misaligned_fixed_map_works_with_4k)
{
	static const size_t skews[] = {
		SPM_PAGE, SPM_SLOT / 2, SPM_SLOT - SPM_PAGE,
	};
	struct spm_stats before;
	unsigned int i;
	char *room, *map;
	int fd;

	for (i = 0; i < ARRAY_SIZE(skews); i++) {
		fd = spm_open();
		spm_stats(fd, &before);
		room = spm_reserve(4 * SPM_SLOT, 0);
		map = spm_map_at(room + skews[i], fd, 2 * SPM_SLOT, 0, SPM_RW);
		spm_fill(map, 0, 1024, SEED);
		ASSERT_EQ(1024, spm_count_4k(fd, map, 2 * SPM_SLOT));
		ASSERT_EQ(0, spm_delta(fd, &before, promotions));
		ASSERT_EQ(0, spm_delta(fd, &before, mappings));
		ASSERT_EQ(0, spm_advise(fd, map, 2 * SPM_SLOT,
					SPM_ADV_PROMOTE));
		ASSERT_EQ(1024, spm_count_4k(fd, map, 2 * SPM_SLOT));
		ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));

		/* The same slots through an aligned map are superpages. */
		map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
		ASSERT_EQ(2, spm_touch_faults(map, 2 * SPM_SLOT, false));
		ASSERT_EQ(1024, spm_count_2m(fd, map, 2 * SPM_SLOT));
		ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));
		ASSERT_EQ(0, spm_consistent(fd));
		close(fd);
	}
}

SPM_TEST_MAIN
