// SPDX-License-Identifier: GPL-2.0
/*
 * Property: tunables can be set for one region, while it is mapped, and rule it
 * from the next fault on; a superpage that was cleared is demoted by the first
 * store or made dirty whole, as dirty_grain says; and auto finds out which is
 * better without demoting more than once for each clear.
 *
 * Kind of bug: a slot that is promoted and demoted by turns; a setting that
 * reaches other regions; one bad value among good ones that leaves half of them
 * changed.
 *
 * spm-test: full=debug,7.3
 */
#include "spm_test.h"

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define SLOTS	3
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

static char *promoted(int fd)
{
	char *map = spm_map(fd, LEN, 0, SPM_RW);

	spm_promoted(fd, map, LEN, 0, 1);
	if (spm_dirty(fd, OFF | CLEAR, 0, LEN) != PAGES)
		spm_die("not all were dirty");
	return map;
}

TEST_F(spm, values)
{
	static const struct {
		const char *name;
		uint32_t min, max, initial;
	} t[] = {
		{ "pg_ps_enabled", 0, 1, 1 },
		{ "populate_threshold", 1, 512, 512 },
		{ "dirty_threshold", 0, 511, 511 },
		{ "prefault_pages", 0, 64, 4 },
		{ "cow_size", 0, 2, 0 },
		{ "dirty_grain", 0, 2, 0 },
	};
	int fd = spm_open(), other = spm_open(), snap;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(t); i++) {
		ASSERT_EQ(SPM_POLICY_INHERIT, spm_policy_get(fd, 0, t[i].name));
		ASSERT_EQ(t[i].initial, spm_policy_get(fd, SPM_POLICY_EFFECTIVE,
						       t[i].name)) {
			TH_LOG("%s", t[i].name);
		}
		ASSERT_EQ(0, spm_policy_set(fd, t[i].name, t[i].min));
		ASSERT_EQ(0, spm_policy_set(fd, t[i].name, t[i].max));
		ASSERT_EQ(-EINVAL, spm_policy_set(fd, t[i].name, t[i].max + 1));
		ASSERT_EQ(-EINVAL, spm_policy_set(fd, t[i].name, 0xfffffffd));
		if (t[i].min) {
			ASSERT_EQ(-EINVAL, spm_policy_set(fd, t[i].name, 0));
		}
		ASSERT_EQ(t[i].max, spm_policy_get(fd, 0, t[i].name));
		ASSERT_EQ(SPM_POLICY_INHERIT,
			  spm_policy_get(other, 0, t[i].name));
	}
	/* A snapshot begins with what its source has, and goes on alone. */
	snap = spm_snapshot(fd);
	ASSERT_EQ(64, spm_policy_get(snap, 0, "prefault_pages"));
	ASSERT_EQ(0, spm_policy_set(snap, "prefault_pages", 7));
	ASSERT_EQ(64, spm_policy_get(fd, 0, "prefault_pages"));
	ASSERT_EQ(0, spm_policy_set(fd, "prefault_pages", SPM_POLICY_INHERIT));
	ASSERT_EQ(4, spm_policy_get(fd, SPM_POLICY_EFFECTIVE, "prefault_pages"));
	ASSERT_EQ(0, spm_param_set("prefault_pages", "9"));
	ASSERT_EQ(9, spm_policy_get(fd, SPM_POLICY_EFFECTIVE, "prefault_pages"));
}

TEST_F(spm, one_bad_value_changes_nothing)
{
	struct spm_policy p = {
		.argsz = sizeof(p), .pg_ps_enabled = 0,
		.populate_threshold = 3, .dirty_threshold = 4,
		.prefault_pages = 5, .cow_size = 1, .dirty_grain = 3,
	};
	int fd = spm_open();

	ASSERT_EQ(-1, ioctl(fd, SPM_IOC_SET_POLICY, &p));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(SPM_POLICY_INHERIT, spm_policy_get(fd, 0, "pg_ps_enabled"));
	ASSERT_EQ(SPM_POLICY_INHERIT, spm_policy_get(fd, 0, "cow_size"));
	p.dirty_grain = 2;
	ASSERT_EQ(0, ioctl(fd, SPM_IOC_SET_POLICY, &p));
	ASSERT_EQ(0, spm_policy_get(fd, 0, "pg_ps_enabled"));
	ASSERT_EQ(5, spm_policy_get(fd, 0, "prefault_pages"));
}

/* Off: nothing new is mapped by 2 MB; what is stays until it has to go. */
TEST_F(spm, superpages_switched_while_mapped)
{
	int fd = spm_open(), other = spm_open(), k;
	struct spm_stats before;
	struct spm_info info;
	char *map, *theirs;

	map = promoted(fd);
	theirs = spm_map(other, SPM_SLOT, 0, SPM_RW);
	for (k = 0; k < 2; k++) {
		/* by the region's policy, then by the module's parameter */
		if (k) {
			ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "0"));
		} else {
			ASSERT_EQ(0, spm_policy_set(fd, "pg_ps_enabled", 0));
		}
		spm_info(fd, &info);
		ASSERT_EQ(0, info.flags & SPM_INFO_SUPERPAGES);
		ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
		ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, 1));
		ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
		spm_stats(fd, &before);
		*(volatile char *)map = map[0];
		*(volatile char *)(map + SPM_SLOT) = map[SPM_SLOT];
		ASSERT_EQ(2, spm_delta(fd, &before, demotions));
		ASSERT_EQ(PAGES - 1024, spm_count_2m(fd, map, LEN));
		ASSERT_EQ(0, madvise(map, LEN, MADV_DONTNEED));
		ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, 1));
		ASSERT_EQ(0, spm_advise(fd, map, LEN, SPM_ADV_PROMOTE));
		ASSERT_EQ(0, spm_count_2m(fd, map, LEN));
		spm_touch_write(theirs, SPM_SLOT);
		ASSERT_EQ(k ? 0 : 512, spm_count_2m(other, theirs, SPM_SLOT));
		ASSERT_EQ(0, spm_advise_off(other, 0, SPM_SLOT, SPM_ADV_DISCARD));
		/* And on again. */
		ASSERT_EQ(0, spm_policy_set(fd, "pg_ps_enabled", 1));
		ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "1"));
		spm_promoted(fd, map, LEN, 0, 1);
		ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
		ASSERT_EQ(PAGES, spm_dirty(fd, OFF | CLEAR, 0, LEN));
		ASSERT_EQ(0, spm_consistent(fd));
	}
}

TEST_F(spm, thresholds_of_a_region)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;

	map = spm_map(fd, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_policy_set(fd, "prefault_pages", 0));
	spm_stats(fd, &before);
	map[0] = 1;
	map[2 * SPM_PAGE] = 1;
	spm_touch_read(map + SPM_PAGE, SPM_PAGE);
	ASSERT_EQ(0, spm_delta(fd, &before, prefaulted));
	/* One page fills the slot, and makes it dirty. */
	ASSERT_EQ(0, spm_policy_set(fd, "populate_threshold", 1));
	ASSERT_EQ(0, spm_policy_set(fd, "dirty_threshold", 0));
	map[SPM_SLOT] = 1;
	ASSERT_EQ(512, spm_count_2m(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(514, spm_dirty(fd, OFF, 0, LEN));
	/* Copy on write of whole slots. */
	close(spm_snapshot(fd));
	ASSERT_EQ(0, spm_policy_set(fd, "cow_size", SPM_COW_SIZE_2M));
	spm_snapshot(fd);
	spm_stats(fd, &before);
	map[SPM_SLOT] = 2;
	ASSERT_EQ(512, spm_delta(fd, &before, cow_copied));
}

/* Exact answers: the page, and a demotion. */
TEST_F(spm, grain_of_4k)
{
	int fd = spm_open();
	struct spm_stats before;
	bool set[PAGES];
	char *map;
	int i;

	map = promoted(fd);
	spm_stats(fd, &before);
	map[SPM_SLOT + 17 * SPM_PAGE] = 1;
	ASSERT_EQ(1, spm_dirty_set(fd, CLEAR, PAGES, set));
	ASSERT_TRUE(set[512 + 17]);
	ASSERT_EQ(1, spm_delta(fd, &before, demotions_write));
	ASSERT_EQ(PAGES - 512, spm_count_2m(fd, map, LEN));
	/* The next stores cost no demotion any more. */
	for (i = 0; i < 10; i++) {
		map[SPM_SLOT + i * SPM_PAGE] = i;
		ASSERT_EQ(1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	}
	ASSERT_EQ(1, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, spm_delta(fd, &before, promotions));
	ASSERT_EQ(11, spm_delta(fd, &before, wrprotects));
	ASSERT_EQ(11, spm_delta(fd, &before, cleared));
	/* Not where enough others are dirty, as dirty_threshold has it. */
	ASSERT_EQ(0, spm_policy_set(fd, "dirty_threshold", 0));
	map[0] = 2;
	ASSERT_EQ(512, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(1, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Coarse answers: the slot, and the entry stays. */
TEST_F(spm, grain_of_2m)
{
	int fd = spm_open(), i;
	struct spm_stats before;
	char *map;

	map = promoted(fd);
	ASSERT_EQ(0, spm_policy_set(fd, "dirty_grain", SPM_DIRTY_GRAIN_2M));
	spm_stats(fd, &before);
	for (i = 0; i < 5; i++) {
		map[SPM_SLOT + 17 * SPM_PAGE] = i;
		map[2 * SPM_SLOT] = i;
		ASSERT_EQ(1024, spm_dirty(fd, OFF | CLEAR, 0, LEN));
		ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	}
	/* Loads make nothing dirty, whatever they map. */
	ASSERT_EQ(0, madvise(map, LEN, MADV_DONTNEED));
	spm_touch_read(map, LEN);
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(10, spm_delta(fd, &before, upgrades));
	ASSERT_EQ(10, spm_delta(fd, &before, wrprotects));
	ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Stores to @n pages of each slot, then a clear; @times. */
static void intervals(int fd, char *map, unsigned int n, unsigned int times,
		      unsigned int *exact)
{
	unsigned int i, slot;

	for (*exact = 0; times; times--) {
		for (slot = 0; slot < SLOTS; slot++)
			for (i = 0; i < n; i++)
				map[slot * SPM_SLOT + i * 509 % 512 * SPM_PAGE]++;
		*exact += spm_dirty(fd, OFF | CLEAR, 0, LEN) == SLOTS * n;
	}
}

/* Few stores: exact after two intervals, and from then on. */
TEST_F(spm, auto_where_stores_are_few)
{
	int fd = spm_open();
	struct spm_stats before;
	unsigned int exact;
	char *map;

	map = promoted(fd);
	ASSERT_EQ(0, spm_policy_set(fd, "dirty_grain", SPM_DIRTY_GRAIN_AUTO));
	spm_stats(fd, &before);
	intervals(fd, map, 3, 40, &exact);
	ASSERT_EQ(39, exact);
	ASSERT_EQ(SLOTS, spm_delta(fd, &before, grain_4k));
	ASSERT_EQ(SLOTS, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, spm_delta(fd, &before, promotions));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Many stores: superpages, but for a look now and then. */
TEST_F(spm, auto_where_stores_are_many)
{
	int fd = spm_open();
	struct spm_stats before;
	unsigned int exact;
	char *map;

	map = promoted(fd);
	ASSERT_EQ(0, spm_policy_set(fd, "dirty_grain", SPM_DIRTY_GRAIN_AUTO));
	spm_stats(fd, &before);
	intervals(fd, map, 400, 100, &exact);
	/* Looks after 1, then 2, 4, 8, 16, 32 more: six in a hundred. */
	ASSERT_EQ(6, exact);
	ASSERT_LE(spm_delta(fd, &before, demotions), 6 * SLOTS);
	ASSERT_EQ(6 * SLOTS, spm_delta(fd, &before, grain_2m));
	ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* By turns dense and sparse, read in between: never twice for one clear. */
TEST_F(spm, no_more_demotions_than_clears)
{
	static const unsigned int grains[] = { 0, 1, 2 };
	unsigned int exact, g, k, rnd = 12345, clears;
	struct spm_stats before;
	char *map;
	int fd;

	for (g = 0; g < ARRAY_SIZE(grains); g++) {
		fd = spm_open();
		map = promoted(fd);
		ASSERT_EQ(0, spm_policy_set(fd, "dirty_grain", grains[g]));
		spm_stats(fd, &before);
		for (k = 0, clears = 0; k < 30; k++, clears++) {
			rnd = rnd * 1103515245 + 12345;
			intervals(fd, map, rnd >> 16 & 1 ? 512 : rnd >> 20 & 7,
				  1, &exact);
			spm_touch_read(map, LEN);
			if (rnd >> 24 & 1)
				madvise(map, LEN, MADV_DONTNEED);
		}
		ASSERT_LE(spm_delta(fd, &before, demotions), clears * SLOTS);
		if (grains[g] == 1) {
			ASSERT_EQ(0, spm_delta(fd, &before, demotions));
		}
		ASSERT_EQ(0, spm_consistent(fd));
		spm_unmap(map, LEN);
		close(fd);
	}
}

SPM_TEST_MAIN
