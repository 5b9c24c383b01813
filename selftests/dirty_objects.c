// SPDX-License-Identifier: GPL-2.0
/*
 * Property: dirty state belongs to a region, or a private mapping, not to pages:
 * a snapshot begins with that of its source, and each clears its own; a forked
 * child begins with its parent's; discarded pages count as changed; and pages
 * that somebody holds for I/O stay dirty until they are let go.
 *
 * Kind of bug: one side's clear that takes the other's answer away; changes that
 * come back, or get lost, when objects merge; stores of a device into a page that
 * was told and cleared while the I/O was under way.
 *
 * spm-test: timeout=200 full=debug,7.3
 */
#include "spm_sync.h"

#include <sys/uio.h>

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)
#define SEED	93

static char *cleared(int fd)
{
	char *map = spm_map(fd, LEN, 0, SPM_RW);

	spm_promoted(fd, map, LEN, 0, SEED);
	if (spm_dirty(fd, OFF | CLEAR, 0, LEN) != PAGES)
		spm_die("not all were dirty");
	return map;
}

static long since(int fd, int from)
{
	struct spm_scan s = { .flags = OFF | SPM_SCAN_SINCE, .len = LEN,
			      .since = from };
	int err = spm_scan(fd, SPM_IOC_GET_DIRTY, &s);

	return err ? err : (long)s.pages;
}

TEST_F(spm, snapshot_begins_with_the_state_of_its_source)
{
	int fd = spm_open(), snap;
	char *map, *image;

	map = cleared(fd);
	map[3 * SPM_PAGE] = 1;
	map[SPM_SLOT] = 1;
	snap = spm_snapshot(fd);
	ASSERT_EQ(2, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(2, spm_dirty(snap, OFF, 0, LEN));
	map[4 * SPM_PAGE] = 1;
	ASSERT_EQ(3, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(2, spm_dirty(snap, OFF, 0, LEN));
	image = spm_map(snap, LEN, 0, SPM_RW);
	image[9 * SPM_PAGE] = 1;
	ASSERT_EQ(3, spm_dirty(snap, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(snap, OFF, 0, LEN));
	map[5 * SPM_PAGE] = 1;
	ASSERT_EQ(1, spm_dirty(fd, OFF, 0, LEN));
	/* The image goes; what it had in common with the source comes back. */
	spm_unmap(image, LEN);
	close(snap);
	ASSERT_EQ(1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	map[5 * SPM_PAGE] = 2;
	ASSERT_EQ(1, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_all_consistent());
}

/* The other one goes. */
TEST_F(spm, state_of_a_snapshot_survives_its_source)
{
	int fd = spm_open(), snap, last;
	char *map;

	map = cleared(fd);
	map[3 * SPM_PAGE] = 1;
	snap = spm_snapshot(fd);
	ASSERT_EQ(1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	map[7 * SPM_PAGE] = 1;
	last = spm_snapshot(fd);
	spm_unmap(map, LEN);
	close(fd);
	ASSERT_EQ(1, spm_dirty(snap, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(snap, OFF | CLEAR, 0, LEN));
	close(snap);
	ASSERT_EQ(1, spm_dirty(last, OFF, 0, LEN));
	ASSERT_EQ(0, spm_all_consistent());
}

TEST_F(spm, discarded_pages_are_told_once)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;

	map = cleared(fd);
	spm_stats(fd, &before);
	ASSERT_EQ(0, spm_advise_off(fd, 2 * SPM_PAGE, 3 * SPM_PAGE,
				    SPM_ADV_DISCARD));
	ASSERT_EQ(3, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	/* Zeros are still zeros. */
	ASSERT_EQ(0, spm_advise_off(fd, 2 * SPM_PAGE, 3 * SPM_PAGE,
				    SPM_ADV_DISCARD));
	spm_touch_read(map, LEN);
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_advise_off(fd, SPM_SLOT, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(512 + 3, spm_delta(fd, &before, gone));
	/* Not told yet, and stored to again: still one page, one time. */
	map[SPM_SLOT] = 1;
	ASSERT_EQ(512, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	/* Cut off, and grown again. */
	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT / 2));
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	ASSERT_EQ(256 + 1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/*
 * An interval begins while there is nothing; what comes is copied, and discarded
 * again: the copy holds what the region does not.
 */
TEST_F(spm, discarded_in_a_slot_that_came_after_the_clear)
{
	int fd = spm_open(), snap;
	char *map, *priv;

	map = spm_map(fd, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	spm_touch_write(map + 3 * SPM_PAGE, 2 * SPM_PAGE);
	map[SPM_SLOT] = 1;
	ASSERT_EQ(0, spm_advise_off(fd, 0, 4 * SPM_PAGE, SPM_ADV_DISCARD));
	ASSERT_EQ(3, spm_dirty(fd, OFF, 0, LEN));
	/* Who begins with that state goes on with it. */
	snap = spm_snapshot(fd);
	ASSERT_EQ(0, spm_advise_off(snap, 0, LEN, SPM_ADV_DISCARD));
	ASSERT_EQ(3, spm_dirty(snap, OFF, 0, LEN));
	ASSERT_EQ(3, spm_dirty(fd, OFF, 0, LEN));
	close(snap);
	/* The same by a smaller size. */
	ASSERT_EQ(0, spm_set_size(fd, 0));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	ASSERT_EQ(3, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, LEN));
	/* And in a private mapping. */
	spm_unmap(map, LEN);
	close(fd);
	fd = spm_open();
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	priv = spm_private(fd, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_dirty(fd, CLEAR, (uintptr_t)priv, LEN));
	priv[5 * SPM_PAGE] = 1;
	ASSERT_EQ(0, spm_advise(fd, priv + 5 * SPM_PAGE, SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(1, spm_dirty(fd, CLEAR, (uintptr_t)priv, LEN));
	ASSERT_EQ(0, spm_dirty(fd, 0, (uintptr_t)priv, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* A page that only shows through, and is hidden by a discard. */
TEST_F(spm, discards_above_a_snapshot)
{
	int fd = spm_open(), snap;
	char *map;

	map = cleared(fd);
	snap = spm_snapshot(fd);
	ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_PAGE, SPM_ADV_DISCARD));
	spm_touch_read(map, 2 * SPM_PAGE);
	ASSERT_EQ(1, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_dirty(snap, OFF, 0, LEN));
	ASSERT_EQ(1, since(fd, snap));
	close(snap);
	ASSERT_EQ(1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, LEN));
}

/* What changed between any two, without a write protection. */
TEST_F(spm, since_a_snapshot)
{
	int fd = spm_open(), s[4], i, k;
	struct spm_stats before;
	char *map;

	map = spm_map(fd, LEN, 0, SPM_RW);
	s[0] = spm_snapshot(fd);
	ASSERT_EQ(0, since(fd, s[0]));
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(512, since(fd, s[0]));
	for (i = 1; i < 4; i++) {
		s[i] = spm_snapshot(fd);
		ASSERT_EQ(0, since(fd, s[i]));
		for (k = 0; k < i; k++)
			map[(10 * i + k) * SPM_PAGE] = 1;
		/* Only read: no change, though it populates. */
		spm_touch_read(map + SPM_SLOT, 50 * SPM_PAGE);
		spm_stats(fd, &before);
		ASSERT_EQ(i, since(fd, s[i]));
		ASSERT_EQ(0, spm_delta(fd, &before, wrprotects));
	}
	ASSERT_EQ(1, since(s[2], s[1]));
	ASSERT_EQ(3, since(s[3], s[1]));
	ASSERT_EQ(2, since(s[3], s[2]));
	ASSERT_EQ(6, since(fd, s[1]));
	ASSERT_EQ(512, since(s[3], s[0]));
	/* An older one has not changed since a newer one was made. */
	ASSERT_EQ(0, since(s[1], s[3]));
	ASSERT_EQ(0, since(fd, fd));
	/* The one in the middle goes. */
	close(s[2]);
	ASSERT_EQ(3, since(s[3], s[1]));
	ASSERT_EQ(6, since(fd, s[1]));
	ASSERT_EQ(0, spm_all_consistent());
}

static int child_of_private(void *arg)
{
	char *map = arg;
	int fd = *(int *)(map + LEN - SPM_PAGE);

	spm_child_check(spm_dirty(fd, CLEAR, (uintptr_t)map, LEN) == 3,
			"inherited");
	spm_child_check(spm_dirty(fd, CLEAR, (uintptr_t)map, LEN) == 0, "clear");
	map[9 * SPM_PAGE] = 1;
	spm_child_check(spm_dirty(fd, CLEAR, (uintptr_t)map, LEN) == 1, "own");
	return 0;
}

/* What this mapping stored to, not what others store to the region. */
TEST_F(spm, private_mappings)
{
	int fd = spm_open();
	char *map, *priv;

	map = cleared(fd);
	priv = spm_private(fd, LEN, 0, SPM_RW);
	spm_touch_read(priv, LEN);
	map[0] = 1;
	ASSERT_EQ(0, spm_dirty(fd, 0, (uintptr_t)priv, LEN));
	*(int *)(priv + LEN - SPM_PAGE) = fd;
	priv[3 * SPM_PAGE] = 1;
	ASSERT_EQ(0, spm_advise(fd, priv + 5 * SPM_PAGE, SPM_PAGE,
				SPM_ADV_DISCARD));
	/* Nobody had cleared it: a discard was not told before. */
	ASSERT_EQ(2, spm_dirty(fd, CLEAR, (uintptr_t)priv, LEN));
	ASSERT_EQ(1, spm_dirty(fd, OFF, 0, LEN));
	priv[3 * SPM_PAGE] = 2;
	priv[4 * SPM_PAGE] = 2;
	ASSERT_EQ(0, spm_advise(fd, priv + 6 * SPM_PAGE, SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(3, spm_dirty(fd, 0, (uintptr_t)priv, LEN));
	ASSERT_EQ(0, spm_fork_run(child_of_private, priv));
	ASSERT_EQ(3, spm_dirty(fd, CLEAR, (uintptr_t)priv, LEN));
	ASSERT_EQ(0, spm_dirty(fd, CLEAR, (uintptr_t)priv, LEN));
	ASSERT_EQ(1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_all_consistent());
}

/* A page in a pipe has a reference that is nobody's entry. */
TEST_F(spm, held_pages_stay_dirty)
{
	struct spm_stats before;
	char *map, buf[SPM_PAGE];
	int fd = spm_open(), pipes[2];
	struct iovec v;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, SEED);
	spm_stats(fd, &before);
	v = (struct iovec){ map, SPM_PAGE };
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(SPM_PAGE, vmsplice(pipes[1], &v, 1, 0));
	ASSERT_EQ(PAGES, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(512, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(2 * 512, spm_delta(fd, &before, kept_dirty));
	ASSERT_EQ(512, spm_delta(fd, &before, cleared));
	ASSERT_EQ(SPM_PAGE, read(pipes[0], buf, sizeof(buf)));
	ASSERT_EQ(512, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
