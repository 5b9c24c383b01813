// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a superpage can be broken up at every 4 KB offset, by request and
 * by a cut, and each of the 512 entries that replace it shows its own page
 * with the right protection.  Requests that do not cover a slot leave it be.
 *
 * Kind of bug: the address inside the slot, where its start is meant, is used
 * to fill the page table, so that entries are shifted or left out; a page
 * table that is assumed to be filled, or empty, and is not.
 *
 * spm-test: timeout=300
 */
#include "spm_test.h"

#define SEED	12

static void stamp_all(char *map)
{
	unsigned int i;

	for (i = 0; i < 512; i++)
		spm_stamp(map + i * SPM_PAGE, i, SEED);
}

TEST_F(spm, cut_at_every_page)
{
	int fd = spm_open();
	struct spm_stats before;
	char *place, *map;
	unsigned int k, i;

	place = spm_reserve(SPM_SLOT, 0);
	map = spm_map_at(place, fd, SPM_SLOT, 0, SPM_RW);
	stamp_all(map);
	for (k = 0; k < 512; k++) {
		/* One fault: a 2 MB entry where no page table is left. */
		map = spm_map_at(place, fd, SPM_SLOT, 0, SPM_RW);
		spm_stamp(map, 0, SEED);
		ASSERT_EQ(SPM_2M, spm_state(fd, map) & SPM_IS_2M);
		spm_stats(fd, &before);
		spm_unmap(map + k * SPM_PAGE, SPM_PAGE);
		ASSERT_EQ(1, spm_delta(fd, &before, demotions_split)) {
			TH_LOG("page %u", k);
		}
		for (i = 0; i < 512; i++) {
			if (i == k)
				continue;
			ASSERT_TRUE(spm_stamped(map + i * SPM_PAGE, i, SEED)) {
				TH_LOG("cut at page %u", k);
			}
			/* Still writable. */
			map[i * SPM_PAGE + 100] = k;
		}
		ASSERT_EQ(0, spm_delta(fd, &before, vm_faults)) {
			TH_LOG("page %u", k);
		}
		if (k % 64 == 0 || k == 511) {
			ASSERT_EQ(0, spm_consistent(fd));
		}
	}
}

TEST_F(spm, by_request)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;
	int i;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	for (i = 0; i < 5; i++) {
		spm_stats(fd, &before);
		ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
		ASSERT_EQ(1, spm_delta(fd, &before, demotions_advise));
		ASSERT_EQ(1, spm_delta(fd, &before, demotions));
		ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
		ASSERT_EQ(512, spm_count_2m(fd, map + SPM_SLOT, SPM_SLOT));
		ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
		ASSERT_EQ(512, spm_count_dirty(fd, map, SPM_SLOT));
		ASSERT_EQ(0, spm_touch_faults(map, 2 * SPM_SLOT, false));
		ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));
		spm_fill(map, 0, 512, SEED);
		ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
		/* A second time there is nothing to do. */
		ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
		ASSERT_EQ(1, spm_delta(fd, &before, demotions));
		ASSERT_EQ(0, spm_consistent(fd));
		ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
		ASSERT_EQ(1, spm_delta(fd, &before, promotions));
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	}
	/* A range that is no whole slot: left as it is. */
	spm_stats(fd, &before);
	for (i = 1; i < 512; i++) {
		ASSERT_EQ(0, spm_advise(fd, map + i * SPM_PAGE, SPM_SLOT,
					SPM_ADV_DEMOTE));
		ASSERT_EQ(0, spm_advise(fd, map, i * SPM_PAGE,
					SPM_ADV_DEMOTE));
		ASSERT_EQ(0, spm_advise(fd, map + i * SPM_PAGE,
					SPM_SLOT - i * SPM_PAGE,
					SPM_ADV_DEMOTE));
	}
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(1024, spm_count_2m(fd, map, 2 * SPM_SLOT));
	/* Several slots and odd ends: only the slot in the middle. */
	ASSERT_EQ(0, spm_advise(fd, map + SPM_PAGE, 2 * SPM_SLOT - SPM_PAGE,
				SPM_ADV_DEMOTE));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_4k(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Demotion by a write to a clean superpage, at every page. */
TEST_F(spm, by_write_to_every_page)
{
	struct spm_stats before;
	unsigned int k, i;
	char *map;
	int fd;

	for (k = 0; k < 512; k += k < 8 || k >= 504 ? 1 : 31) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT,
					    SPM_ADV_PREFAULT));
		ASSERT_EQ(0, spm_try_read(map));
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		ASSERT_EQ(0, spm_count_writable(fd, map, SPM_SLOT));
		spm_stats(fd, &before);
		map[k * SPM_PAGE] = 1;
		ASSERT_EQ(1, spm_delta(fd, &before, demotions_write));
		ASSERT_EQ(1, spm_delta(fd, &before, demotions));
		ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
		ASSERT_EQ(1, spm_count_dirty(fd, map, SPM_SLOT));
		ASSERT_EQ(1, spm_count_writable(fd, map, SPM_SLOT));
		ASSERT_NE(0, spm_state(fd, map + k * SPM_PAGE) &
			  SPM_MINCORE_WRITABLE);
		for (i = 0; i < 512; i++) {
			ASSERT_EQ(i == k, map[i * SPM_PAGE]) {
				TH_LOG("page %u, written %u", i, k);
			}
		}
		ASSERT_EQ(1, spm_delta(fd, &before, vm_faults));
		ASSERT_EQ(0, spm_consistent(fd));
		spm_unmap(map, SPM_SLOT);
		close(fd);
	}
}

SPM_TEST_MAIN
