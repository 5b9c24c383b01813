// SPDX-License-Identifier: GPL-2.0
/*
 * Property: DISCARD brings exactly the range given back to zeros, in every
 * process, whatever maps it; memory goes back to the system when a slot is
 * empty; and a slot that lost a page is known as partly filled at once.
 *
 * Kind of bug: old contents that shine through (in one process, or after the
 * memory was reused); reservations that are empty and held for ever; a slot
 * that was full a moment ago and is on no queue, so that nobody finds it.
 */
#include "spm_test.h"

#define SEED	19

TEST_F(spm, whole_superpage)
{
	struct spm_stats before;
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	spm_stats(fd, &before);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(-512, spm_delta(fd, &before, pages));
	ASSERT_EQ(-512, spm_delta(fd, &before, dirty));
	ASSERT_EQ(512, spm_delta(fd, &before, discarded));
	ASSERT_EQ(1, spm_delta(fd, &before, reserv_freed));
	ASSERT_EQ(-1, spm_delta(fd, &before, reserv_live));
	ASSERT_EQ(-1, spm_delta(fd, &before, reserv_fullpop));
	ASSERT_EQ(0, spm_delta(fd, &before, reserv_partpopq));
	ASSERT_EQ(512, spm_count(fd, map, SPM_SLOT, 0xff, 0));
	ASSERT_EQ(0, spm_consistent(fd));
	ASSERT_EQ(-1, spm_delta(fd, &before, live));

	ASSERT_EQ(-1, spm_nonzero(map, 512));
	ASSERT_EQ(0, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(1, spm_delta(fd, &before, reserv_allocated));
	ASSERT_EQ(512, spm_count_2m(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map + SPM_SLOT, 512, 512, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

struct other {
	int fd;
	bool large;
	int ready, go;
};

/* Has a mapping of its own; sees zeros where, and only where, it should. */
static int watcher(void *arg)
{
	struct other *o = arg;
	char *map = spm_map(o->fd, SPM_SLOT, 0, SPM_RW);
	char c = 0;

	spm_touch_read(map, SPM_SLOT);
	if (!o->large && spm_advise(o->fd, map, SPM_SLOT, SPM_ADV_DEMOTE))
		return 1;
	spm_child_check(spm_count_2m(o->fd, map, SPM_SLOT) ==
			(o->large ? 512 : 0), "%ld",
			spm_count_2m(o->fd, map, SPM_SLOT));
	if (write(o->ready, &c, 1) != 1 || read(o->go, &c, 1) != 1)
		return 1;
	spm_child_check(spm_count(o->fd, map + 100 * SPM_PAGE, 10 * SPM_PAGE,
				  SPM_MINCORE_MAPPED, 0) == 10, "mapped");
	spm_child_check(spm_wrong(map, 0, 100, SEED) == -1, "front");
	spm_child_check(spm_nonzero(map + 100 * SPM_PAGE, 10) == -1, "range");
	spm_child_check(spm_wrong(map + 110 * SPM_PAGE, 110, 402, SEED) == -1,
			"back");
	return 0;
}

TEST_F(spm, part_of_a_slot_in_two_processes)
{
	struct spm_stats before;
	int ready[2], go[2], mine, theirs;
	struct other o;
	pid_t pid;
	char *map, c = 0;
	int fd;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	o.ready = ready[1];
	o.go = go[0];
	for (mine = 0; mine < 2; mine++) {
		for (theirs = 0; theirs < 2; theirs++) {
			fd = spm_open();
			map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
			spm_promoted(fd, map, SPM_SLOT, 0, SEED);
			if (!mine) {
				ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT,
							SPM_ADV_DEMOTE));
			}
			o.fd = fd;
			o.large = theirs;
			pid = spm_fork(watcher, &o);
			ASSERT_EQ(1, read(ready[0], &c, 1));
			spm_stats(fd, &before);
			ASSERT_EQ(0, spm_advise(fd, map + 100 * SPM_PAGE,
						10 * SPM_PAGE,
						SPM_ADV_DISCARD));
			ASSERT_EQ(-10, spm_delta(fd, &before, pages));
			ASSERT_EQ(-10, spm_delta(fd, &before, dirty));
			ASSERT_EQ(0, spm_delta(fd, &before, reserv_live));
			ASSERT_EQ(-1, spm_delta(fd, &before, reserv_fullpop));
			ASSERT_EQ(1, spm_delta(fd, &before, reserv_partpopq));
			ASSERT_EQ(10, spm_delta(fd, &before, reserv_empty));
			ASSERT_EQ(10, spm_count(fd, map, SPM_SLOT,
						SPM_MINCORE_INCORE, 0));
			ASSERT_EQ(0, spm_count_2m(fd, map, SPM_SLOT));
			ASSERT_EQ(1, write(go[1], &c, 1));
			ASSERT_EQ(0, spm_wait(pid));
			ASSERT_EQ(-1, spm_wrong(map, 0, 100, SEED));
			ASSERT_EQ(-1, spm_nonzero(map + 100 * SPM_PAGE, 10));
			ASSERT_EQ(-1, spm_wrong(map + 110 * SPM_PAGE, 110, 402,
						SEED));
			ASSERT_EQ(0, spm_consistent(fd));
			/* It was filled again by reads; written it promotes. */
			spm_fill(map + 100 * SPM_PAGE, 100, 10, SEED);
			spm_touch_write(map, SPM_SLOT);
			ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
			ASSERT_EQ(0, spm_consistent(fd));
			close(fd);
			spm_unmap(map, SPM_SLOT);
		}
	}
}

/* What was discarded is clean when it comes back by a read. */
TEST_F(spm, discarded_page_is_clean)
{
	int fd = spm_open();
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_fill(map, 0, 20, SEED);
	ASSERT_EQ(0, spm_advise(fd, map + 5 * SPM_PAGE, SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_state(fd, map + 5 * SPM_PAGE));
	spm_touch_read(map + 5 * SPM_PAGE, 1);
	ASSERT_EQ(0, spm_state(fd, map + 5 * SPM_PAGE) &
		  (SPM_MINCORE_MODIFIED | SPM_MINCORE_WRITABLE));
	ASSERT_EQ(19, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(-1, spm_nonzero(map + 5 * SPM_PAGE, 1));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, page_by_page_until_empty)
{
	struct spm_stats s, before;
	int fd = spm_open();
	unsigned int i;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_stats(fd, &before);
	for (i = 0; i < 512; i++) {
		ASSERT_EQ(0, spm_advise_off(fd, i * 181 % 512 * SPM_PAGE,
					    SPM_PAGE, SPM_ADV_DISCARD));
		spm_stats(fd, &s);
		ASSERT_EQ(511 - i, s.pages);
		ASSERT_EQ(i < 511 ? 1 : 0, s.reserv_live);
		ASSERT_EQ(i < 511 ? 1 : 0, s.reserv_partpopq);
		ASSERT_EQ(0, s.reserv_fullpop);
		ASSERT_EQ(i < 511 ? i + 1 : 0, s.reserv_empty);
	}
	ASSERT_EQ(1, spm_delta(fd, &before, reserv_freed));
	/* Nothing is left to discard; nothing is counted for it. */
	ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(512, spm_delta(fd, &before, discarded));
	ASSERT_EQ(1, spm_delta(fd, &before, reserv_freed));
	ASSERT_EQ(-1, spm_nonzero(map, 512));
	ASSERT_EQ(0, spm_consistent(fd));
}

/*
 * Full, one page less, full again, as fast as it goes: at every moment the
 * slot is counted as full or as queued, never as neither.
 */
TEST_F(spm, full_and_one_less_within_a_tick)
{
	struct spm_stats s;
	int fd = spm_open();
	unsigned int i, page;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	for (i = 0; i < 200; i++) {
		page = i * 181 % 512;
		ASSERT_EQ(0, spm_advise_off(fd, page * SPM_PAGE, SPM_PAGE,
					    SPM_ADV_DISCARD));
		spm_stats(fd, &s);
		ASSERT_EQ(0, s.reserv_fullpop);
		ASSERT_EQ(1, s.reserv_partpopq);
		ASSERT_EQ(0, map[page * SPM_PAGE]);
		map[page * SPM_PAGE] = 1;
		spm_stats(fd, &s);
		ASSERT_EQ(1, s.reserv_fullpop);
		ASSERT_EQ(0, s.reserv_partpopq);
	}
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Ranges that begin and end inside slots; by address and by offset. */
TEST_F(spm, across_slots)
{
	size_t from = SPM_SLOT / 2, len = 2 * SPM_SLOT;
	int fd = spm_open(), by_offset;
	struct spm_stats s;
	char *map;

	map = spm_map(fd, 3 * SPM_SLOT, 0, SPM_RW);
	for (by_offset = 0; by_offset < 2; by_offset++) {
		spm_fill(map, 0, 1536, SEED);
		if (by_offset) {
			ASSERT_EQ(0, spm_advise_off(fd, from, len,
						    SPM_ADV_DISCARD));
		} else {
			ASSERT_EQ(0, spm_advise(fd, map + from, len,
						SPM_ADV_DISCARD));
		}
		spm_stats(fd, &s);
		ASSERT_EQ(512, s.pages);
		ASSERT_EQ(2, s.reserv_live);
		ASSERT_EQ(2, s.reserv_partpopq);
		ASSERT_EQ(-1, spm_wrong(map, 0, 256, SEED));
		ASSERT_EQ(-1, spm_wrong(map + 5 * SPM_SLOT / 2, 1280, 256,
					SEED));
		ASSERT_EQ(-1, spm_nonzero(map + from, 1024));
		ASSERT_EQ(0, spm_consistent(fd));
	}
}

/* Sparse pages in many slots: all of it comes back to the system. */
TEST_F(spm, memory_comes_back)
{
	long before, during, after = 0;
	int fd = spm_open(), i;
	struct spm_stats s;
	char *map;

	map = spm_map(fd, 32 * SPM_SLOT, 0, SPM_RW);
	before = spm_available();
	for (i = 0; i < 32; i++)
		map[i * SPM_SLOT + (i * 37 % 512) * SPM_PAGE] = 1;
	during = spm_available();
	spm_stats(fd, &s);
	ASSERT_EQ(32, s.reserv_live + s.reserv_unavailable);
	ASSERT_EQ(0, spm_advise(fd, map, 32 * SPM_SLOT, SPM_ADV_DISCARD));
	spm_stats(fd, &s);
	ASSERT_EQ(0, s.pages);
	ASSERT_EQ(0, s.reserv_live);
	ASSERT_EQ(0, s.reserv_empty);
	for (i = 0; i < 20; i++) {
		after = spm_available();
		if (after > before - 8192)
			break;
		usleep(100000);
	}
	/* 64 MB were taken, as whole reservations; 8 MB are noise. */
	ASSERT_LT(before - 8192, after) {
		TH_LOG("%ld, %ld, %ld kB available", before, during, after);
	}
	ASSERT_EQ(0, spm_consistent(fd));
}

/* A reservation that is used anew shows nothing of what was in it. */
TEST_F(spm, reused_reservation_is_clean)
{
	int fd = spm_open(), i;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	for (i = 0; i < 6; i++) {
		spm_fill(map, 0, 512, SEED + i);
		/* a part, or all of it */
		ASSERT_EQ(0, spm_advise(fd, map, i % 2 ? SPM_SLOT :
					SPM_SLOT - SPM_PAGE, SPM_ADV_DISCARD));
		switch (i % 3) {
		case 0:
			spm_touch_read(map, SPM_SLOT - SPM_PAGE);
			break;
		case 1:
			ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT,
						SPM_ADV_PROMOTE));
			break;
		default:
			ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT,
						    SPM_ADV_PREFAULT));
			break;
		}
		ASSERT_EQ(-1, spm_nonzero(map, 511));
	}
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Contents of a persistent region stay until somebody discards them. */
TEST_F(spm, persistent_contents)
{
	char *map;
	int fd;

	if (access(SPM_NODE "0", F_OK))
		SKIP(return, "no persistent region");
	fd = spm_open_persistent(0);
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_unmap(map, SPM_SLOT);
	close(fd);
	fd = spm_open_persistent(0);
	map = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(map, 512));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* MADV_DONTNEED is not that: it drops entries, and no data. */
TEST_F(spm, dontneed_discards_nothing)
{
	struct spm_stats before;
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_fill(map + SPM_SLOT, 512, 10, SEED);
	spm_stats(fd, &before);
	ASSERT_EQ(0, madvise(map, 2 * SPM_SLOT, MADV_DONTNEED));
	ASSERT_EQ(1024, spm_count_none(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(0, spm_delta(fd, &before, pages));
	ASSERT_EQ(522, spm_count_dirty(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
	ASSERT_EQ(1, spm_delta(fd, &before, removals));
	ASSERT_EQ(-1, spm_wrong(map, 0, 522, SEED));
	ASSERT_EQ(1, spm_delta(fd, &before, mappings));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
