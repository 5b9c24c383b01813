// SPDX-License-Identifier: GPL-2.0
/*
 * Property: the worker, off unless asked for, fills reservations that are in use
 * and filled far enough, breaks those that have not changed for long, and gives
 * blocks back to full slots of single pages, within its budget; no page changes.
 * Guards against: work that nobody asked for, pages that appear beyond the end
 * of a region or over what shows through, and a worker that never sleeps again.
 *
 * spm-test: timeout=240
 */
#include "spm_sync.h"

#define SLOTS	8
#define LEN	(SLOTS * SPM_SLOT)

static void set(const char *name, const char *value)
{
	int err = spm_param_set(name, value);

	if (err)
		spm_die("parameter %s=%s: %s", name, value, strerror(-err));
}

#define wait_for(cond) ({						\
	int __i;							\
	for (__i = 0; __i < 300 && !(cond); __i++)			\
		usleep(100000);						\
	(cond); })

TEST_F(spm, off_by_default)
{
	char value[32];

	spm_param_get("worker_rate", value, sizeof(value));
	EXPECT_EQ(0, atoi(value));
	EXPECT_EQ(-EINVAL, spm_param_set("worker_rate", "65537"));
	EXPECT_EQ(-EINVAL, spm_param_set("worker_fill", "0"));
	EXPECT_EQ(-EINVAL, spm_param_set("worker_fill", "513"));
	EXPECT_EQ(-EINVAL, spm_param_set("worker_age", "0"));
}

/* From worker_fill pages on; the next fault maps 2 MB. */
TEST_F(spm, fills_what_is_in_use)
{
	struct spm_stats before;
	int fd = spm_open(), snap, i;
	char *p = spm_map(fd, LEN, 0, SPM_RW), *s;

	ASSERT_EQ(0, spm_set_size(fd, LEN - SPM_PAGE));
	spm_fill(p, 0, 64, 1);
	spm_fill(p + SPM_SLOT, SPM_SLOT_PAGES, 63, 1);
	/* Never full: the region ends before. */
	spm_fill(p + LEN - SPM_SLOT, LEN / SPM_PAGE - SPM_SLOT_PAGES, 100, 1);
	/* Shows through, and is not to be hidden by zeros. */
	spm_fill(p + 3 * SPM_SLOT, 3 * SPM_SLOT_PAGES, 200, 1);
	snap = spm_snapshot(fd);
	s = spm_map(snap, LEN - SPM_SLOT, 0, SPM_RW);
	spm_fill(p + 3 * SPM_SLOT, 3 * SPM_SLOT_PAGES, 100, 2);
	spm_fill(p, 0, 1, 1);
	spm_stats(fd, &before);
	set("worker_age", "1000");
	set("worker_fill", "64");
	set("worker_rate", "64");
	/* What changed in the last two seconds is in use. */
	for (i = 0; i < 50 && !spm_delta(fd, &before, worker_filled); i++) {
		ASSERT_EQ(0, spm_advise(fd, p + 3 * SPM_SLOT + 511 * SPM_PAGE,
					SPM_PAGE, SPM_ADV_DISCARD));
		spm_fill(p + 3 * SPM_SLOT + 511 * SPM_PAGE,
			 3 * SPM_SLOT_PAGES + 511, 1, 2);
		usleep(200000);
	}
	set("worker_rate", "0");
	EXPECT_LE(311, spm_delta(fd, &before, worker_filled));
	EXPECT_EQ(-1, spm_wrong(p + 3 * SPM_SLOT, 3 * SPM_SLOT_PAGES, 100, 2));
	EXPECT_EQ(-1, spm_wrong(p + 3 * SPM_SLOT + 100 * SPM_PAGE,
				3 * SPM_SLOT_PAGES + 100, 100, 1));
	EXPECT_EQ(-1, spm_nonzero(p + 3 * SPM_SLOT + 200 * SPM_PAGE, 311));
	EXPECT_EQ(-1, spm_wrong(p, 0, 64, 1));
	EXPECT_EQ(-1, spm_wrong(p + SPM_SLOT, SPM_SLOT_PAGES, 63, 1));
	EXPECT_EQ(-1, spm_wrong(s + 3 * SPM_SLOT, 3 * SPM_SLOT_PAGES, 200, 1));
	EXPECT_EQ(0, spm_all_consistent());
}

TEST_F(spm, filled_slots_are_mapped_by_2m)
{
	struct spm_stats before;
	int fd = spm_open(), i;
	char *p = spm_map(fd, LEN, 0, SPM_RW);

	spm_stats(fd, &before);
	set("worker_age", "1000");
	set("worker_fill", "2");
	set("worker_rate", "64");
	/* If it was not in time while the slot was in use, once more. */
	for (i = 0; i < 20 && !spm_delta(fd, &before, worker_filled); i++) {
		ASSERT_EQ(0, spm_advise(fd, p, SPM_SLOT, SPM_ADV_DISCARD));
		spm_touch_write(p, 2 * SPM_PAGE);
		sleep(2);
	}
	set("worker_rate", "0");
	EXPECT_EQ(510, spm_delta(fd, &before, worker_filled));
	set("dirty_threshold", "1");
	spm_touch_write(p + 100 * SPM_PAGE, SPM_PAGE);
	EXPECT_EQ((long)SPM_SLOT_PAGES, spm_count_2m(fd, p, SPM_SLOT));
	EXPECT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, breaks_what_is_cold)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	size_t k;

	for (k = 0; k < SLOTS; k++)
		spm_fill(p + k * SPM_SLOT, k * SPM_SLOT_PAGES, 10, 1);
	spm_stats(fd, &before);
	set("worker_fill", "512");
	set("worker_age", "1");
	set("worker_rate", "64");
	EXPECT_TRUE(wait_for(spm_delta(fd, &before, reserv_broken) == SLOTS));
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_reclaimed));
	EXPECT_EQ(10 * SLOTS, spm_delta(fd, &before, evacuated));
	for (k = 0; k < SLOTS; k++)
		EXPECT_EQ(-1, spm_wrong(p + k * SPM_SLOT, k * SPM_SLOT_PAGES,
					10, 1));
	/* Full slots of single pages get their blocks back. */
	ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "0"));
	spm_fill(p, 0, SLOTS * SPM_SLOT_PAGES, 2);
	EXPECT_EQ(0, spm_delta(fd, &before, reassembled));
	ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "1"));
	EXPECT_TRUE(wait_for(spm_delta(fd, &before, reassembled) == SLOTS));
	set("worker_rate", "0");
	EXPECT_EQ(-1, spm_wrong(p, 0, SLOTS * SPM_SLOT_PAGES, 2));
	EXPECT_EQ(SLOTS * (long)SPM_SLOT_PAGES, spm_count_2m(fd, p, LEN));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* 1 MB in a second: one slot of 200 pages and a little. */
TEST_F(spm, keeps_within_its_budget)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	size_t k;
	long n;

	for (k = 0; k < SLOTS; k++)
		spm_fill(p + k * SPM_SLOT, k * SPM_SLOT_PAGES, 200, 1);
	sleep(2);
	spm_stats(fd, &before);
	set("worker_fill", "512");
	set("worker_age", "1");
	set("worker_rate", "1");
	usleep(1500000);
	set("worker_rate", "0");
	n = spm_delta(fd, &before, reserv_broken);
	/* Two a second; the emulated machine may be late. */
	EXPECT_LE(1, n);
	EXPECT_GE(6, n);
	EXPECT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
