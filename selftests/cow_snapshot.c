// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a snapshot is the region of one moment; afterwards neither side
 * sees the other, each can do all that a region can, and what one of them costs
 * is a page for each page that is stored to, with all other superpages intact.
 *
 * Kind of bug: copies of 2 MB where 4 KB were stored to; superpages that are
 * lost on the side that did nothing; a block that is not given back, or copied
 * in vain, when it has one owner again; a moment that is not one.
 *
 * spm-test: timeout=200 smp=4
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define SEED	31

/* -- what it costs ------------------------------------------------------------- */

#define SLOTS	128UL
#define BIG	(SLOTS * SPM_SLOT)
#define MANY	(SLOTS * SPM_SLOT_PAGES)

/* Two words of each page: filling all of it would take long. */
static void stamp(char *map, size_t first, size_t end, unsigned int seed)
{
	for (; first < end; first++)
		spm_stamp(map + first * SPM_PAGE, first, seed);
}

static long stamped(const char *map, unsigned int seed)
{
	size_t i;

	for (i = 0; i < MANY; i++)
		if (!spm_stamped(map + i * SPM_PAGE, i, seed))
			break;
	return i;
}

static char *big_region(int fd)
{
	char *map = spm_map(fd, BIG, 0, SPM_RW);

	if (spm_advise(fd, map, BIG, SPM_ADV_PROMOTE))
		spm_die("PROMOTE");
	stamp(map, 0, MANY, SEED);
	return map;
}

TEST_F(spm, one_byte_in_each_slot)
{
	struct spm_stats before, after;
	int fd = spm_open(), snap;
	char *map, *copy;
	size_t i, page;

	map = big_region(fd);
	spm_stats_global(fd, &before);
	snap = spm_snapshot(fd);
	ASSERT_EQ(1, spm_delta_global(fd, &before, snapshots));
	ASSERT_EQ(0, spm_delta_global(fd, &before, pages));
	/* The entries are still there, but no store passes any more. */
	ASSERT_EQ(MANY, spm_count_2m(fd, map, BIG));
	ASSERT_EQ(0, spm_count_writable(fd, map, BIG));
	ASSERT_EQ(0, spm_touch_faults(map, BIG, false));

	for (i = 0; i < SLOTS; i++)
		map[(i * SPM_SLOT_PAGES + i * 37 % 512) * SPM_PAGE + 99] = 1;
	spm_stats_global(fd, &after);
	ASSERT_EQ(SLOTS, after.demotions_cow - before.demotions_cow);
	ASSERT_EQ(SLOTS, after.demotions - before.demotions);
	ASSERT_EQ(0, after.demote_aborts - before.demote_aborts);
	ASSERT_EQ(SLOTS, after.cow_faults - before.cow_faults);
	ASSERT_EQ(SLOTS, after.cow_copied - before.cow_copied);
	ASSERT_EQ(0, after.cow_early - before.cow_early);
	/* That much memory, too; and all other pages are mapped and shared. */
	ASSERT_EQ(SLOTS, after.pages - before.pages);
	ASSERT_EQ(0, spm_count_none(fd, map, BIG));
	ASSERT_EQ(SLOTS, spm_count_writable(fd, map, BIG));
	ASSERT_EQ(0, spm_touch_faults(map, BIG, false));

	copy = spm_map(snap, BIG, 0, SPM_RW);
	ASSERT_EQ(SLOTS, spm_touch_faults(copy, BIG, false));
	ASSERT_EQ(MANY, spm_count_2m(snap, copy, BIG));
	ASSERT_EQ(0, spm_count_writable(snap, copy, BIG));
	ASSERT_EQ(0, spm_delta_global(fd, &after, pages));
	for (i = 0; i < SLOTS; i++) {
		page = i * SPM_SLOT_PAGES + i * 37 % 512;
		ASSERT_EQ(1, map[page * SPM_PAGE + 99]);
		ASSERT_EQ(0, copy[page * SPM_PAGE + 99]);
	}
	ASSERT_EQ(MANY, stamped(copy, SEED));
	ASSERT_EQ(0, spm_all_consistent());

	/* One user again: where each side holds some, the fewer are copied. */
	spm_unmap(copy, BIG);
	spm_stats_global(fd, &before);
	close(snap);
	spm_stats_global(fd, &after);
	ASSERT_EQ(1, after.collapses - before.collapses);
	ASSERT_EQ(SLOTS, after.cow_merged - before.cow_merged);
	ASSERT_EQ(0, after.links);
	ASSERT_EQ(MANY, after.pages);
	ASSERT_EQ(SLOTS, after.reserv_fullpop);
	ASSERT_EQ(MANY, stamped(map, SEED));
	for (i = 0; i < SLOTS; i++) {
		page = i * SPM_SLOT_PAGES + i * 37 % 512;
		ASSERT_EQ(1, map[page * SPM_PAGE + 99]);
	}
	ASSERT_EQ(0, spm_all_consistent());
}

TEST_F(spm, write_all_of_one_side_then_close_it)
{
	struct spm_stats before, after;
	int fd = spm_open(), snap;
	char *map, *copy;
	size_t i;

	map = big_region(fd);
	snap = spm_snapshot(fd);
	copy = spm_map(snap, BIG, 0, SPM_RW);
	spm_stats_global(fd, &before);
	/* Page by page; the same at the end, but most of it in less time. */
	stamp(copy, 0, 8 * SPM_SLOT_PAGES, SEED + 1);
	ASSERT_EQ(0, spm_param_set("cow_size", "2M"));
	stamp(copy, 8 * SPM_SLOT_PAGES, MANY, SEED + 1);
	ASSERT_EQ(0, spm_param_set("cow_size", "4K"));
	spm_stats_global(fd, &after);
	/* All its own, and superpages. */
	ASSERT_EQ(MANY, spm_count_2m(snap, copy, BIG));
	ASSERT_EQ(MANY, spm_count_writable(snap, copy, BIG));
	ASSERT_EQ(MANY, after.cow_copied - before.cow_copied);
	ASSERT_EQ(2 * SLOTS, after.reserv_fullpop);
	ASSERT_EQ(MANY, spm_count_2m(fd, map, BIG));

	spm_unmap(copy, BIG);
	spm_stats_global(fd, &before);
	close(snap);
	spm_stats_global(fd, &after);
	ASSERT_EQ(SLOTS, after.cow_optim - before.cow_optim);
	ASSERT_EQ(0, after.cow_merged - before.cow_merged);
	ASSERT_EQ(0, after.cow_copied - before.cow_copied);
	ASSERT_EQ(SLOTS, after.reserv_fullpop);
	ASSERT_EQ(MANY, spm_count_2m(fd, map, BIG));
	ASSERT_EQ(0, spm_count_writable(fd, map, BIG));
	/* One fault a slot, in place. */
	for (i = 0; i < SLOTS; i++) {
		ASSERT_EQ(1, spm_touch_faults(map + i * SPM_SLOT + 7 * SPM_PAGE,
					      SPM_PAGE, true));
	}
	ASSERT_EQ(SLOTS, spm_delta_global(fd, &after, upgrades));
	ASSERT_EQ(0, spm_delta_global(fd, &after, demotions));
	ASSERT_EQ(MANY, spm_count_writable(fd, map, BIG));
	ASSERT_EQ(0, spm_delta_global(fd, &after, cow_copied));
	ASSERT_EQ(0, spm_touch_faults(map, BIG, true));
	ASSERT_EQ(0, spm_all_consistent());
}

/* The other way round: the source goes, the snapshot inherits. */
TEST_F(spm, the_source_goes_first)
{
	struct spm_stats before, after;
	int fd = spm_open(), snap;
	char *map, *copy;

	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, 4 * SPM_SLOT, 0, SEED);
	snap = spm_snapshot(fd);
	copy = spm_map(snap, 4 * SPM_SLOT, 0, SPM_RW);
	spm_fill(map, 0, 1024, SEED + 1);
	spm_fill(copy + 3 * SPM_SLOT, 3 * 512, 1, SEED + 2);
	spm_stats_global(fd, &before);
	spm_unmap(map, 4 * SPM_SLOT);
	close(fd);
	spm_stats_global(snap, &after);
	ASSERT_EQ(1, after.collapses - before.collapses);
	/* Slot 3 is mixed: one page against 511. */
	ASSERT_EQ(1, after.cow_merged - before.cow_merged);
	ASSERT_EQ(0, after.links);
	ASSERT_EQ(before.objects - 2, after.objects);
	ASSERT_EQ(-1, spm_wrong(copy, 0, 3 * 512, SEED));
	ASSERT_EQ(-1, spm_wrong(copy + 3 * SPM_SLOT, 3 * 512, 1, SEED + 2));
	ASSERT_EQ(-1, spm_wrong(copy + 3 * SPM_SLOT + SPM_PAGE, 3 * 512 + 1, 511,
				SEED));
	/* Nothing is left to be copied for. */
	spm_stats_global(snap, &before);
	spm_fill(copy, 0, 4 * 512, SEED + 3);
	ASSERT_EQ(0, spm_delta_global(snap, &before, cow_copied));
	ASSERT_EQ(4 * 512, spm_count_2m(snap, copy, 4 * SPM_SLOT));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- what it is ------------------------------------------------------------------ */

#define LEN	(3 * SPM_SLOT)
#define PAGES	(3 * SPM_SLOT_PAGES)

TEST_F(spm, descriptor)
{
	struct spm_info info, of;
	int fd = spm_open(), snap;
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, LEN + 5 * SPM_PAGE));
	snap = spm_try_snapshot(fd, 0);
	ASSERT_LE(0, snap);
	ASSERT_EQ(0, fcntl(snap, F_GETFD));
	ASSERT_EQ(O_RDWR, fcntl(snap, F_GETFL) & O_ACCMODE);
	spm_info(fd, &of);
	spm_info(snap, &info);
	ASSERT_EQ(LEN + 5 * SPM_PAGE, info.size);
	ASSERT_TRUE(info.flags & SPM_INFO_SIZE_FIXED);
	ASSERT_FALSE(info.flags & SPM_INFO_PERSISTENT);
	ASSERT_NE(of.region, info.region);
	ASSERT_EQ(of.version, info.version);
	close(snap);
	snap = spm_try_snapshot(fd, SPM_SNAPSHOT_CLOEXEC);
	ASSERT_EQ(FD_CLOEXEC, fcntl(snap, F_GETFD));

	/* Beyond the size as in any region; it may be changed on either side. */
	map = spm_map(snap, LEN + SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(SIGBUS, spm_try_read(map + LEN + 5 * SPM_PAGE));
	ASSERT_EQ(0, spm_try_write(map + LEN + 4 * SPM_PAGE, 1));
	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	ASSERT_EQ(1, map[LEN + 4 * SPM_PAGE]);
	ASSERT_EQ(0, spm_set_size(snap, LEN + SPM_SLOT));
	ASSERT_EQ(0, spm_try_read(map + LEN + 5 * SPM_PAGE));
	ASSERT_EQ(0, spm_all_consistent());
	close(snap);
	ASSERT_EQ(-EBADF, spm_try_snapshot(snap, 0));
}

TEST_F(spm, descriptor_that_may_not_read)
{
	int wo = open(SPM_NODE "0", O_WRONLY | O_CLOEXEC);

	ASSERT_LE(0, wo);
	ASSERT_EQ(-EBADF, spm_try_snapshot(wo, 0));
	close(wo);
	ASSERT_EQ(0, spm_all_consistent());
}

/* Reading is enough; the copy may be written, the origin may not. */
TEST_F(spm, descriptor_that_may_only_read)
{
	int fd = spm_open_persistent(0), ro, snap;
	struct spm_info info;
	char *map, *copy;

	ro = open(SPM_NODE "0", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, ro);
	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, SEED);
	snap = spm_snapshot(ro);
	spm_info(snap, &info);
	ASSERT_EQ(64UL << 20, info.size);
	ASSERT_FALSE(info.flags & SPM_INFO_PERSISTENT);
	copy = spm_map(snap, LEN, 0, SPM_RW);
	spm_fill(copy, 0, PAGES, SEED + 1);
	ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
	ASSERT_EQ(0, spm_advise_off(snap, 0, LEN, SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(copy, PAGES));
	ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
	ASSERT_EQ(0, spm_set_size(snap, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, LEN, SPM_RW, MAP_SHARED, ro, 0));
	ASSERT_EQ(0, spm_all_consistent());
	/* A persistent region that is emptied keeps its snapshots whole. */
	close(snap);
	spm_unmap(copy, LEN);
	snap = spm_snapshot(fd);
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(map, PAGES));
	copy = spm_map(snap, LEN, 0, SPM_RW);
	ASSERT_EQ(-1, spm_wrong(copy, 0, PAGES, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * Slot 0 promoted, slot 1 with some pages, slot 2 never touched: the same on
 * both sides, and whatever one side does stays there.
 */
TEST_F(spm, sides_are_apart)
{
	char *map, *copy, *priv, *w, *r;
	int fd, snap, turn, wfd;

	for (turn = 0; turn < 2; turn++) {
		fd = spm_open();
		map = spm_map(fd, LEN, 0, SPM_RW);
		spm_promoted(fd, map, SPM_SLOT, 0, SEED);
		spm_fill(map + SPM_SLOT, 512, 100, SEED);
		snap = spm_snapshot(fd);
		copy = spm_map(snap, LEN, 0, SPM_RW);
		priv = spm_private(turn ? fd : snap, LEN, 0, SPM_RW);
		w = turn ? copy : map;
		r = turn ? map : copy;
		wfd = turn ? snap : fd;

		spm_fill(w + 3 * SPM_PAGE, 3, 1, SEED + 1);
		spm_fill(w + SPM_SLOT + 50 * SPM_PAGE, 562, 100, SEED + 1);
		spm_fill(w + 2 * SPM_SLOT, 1024, 10, SEED + 1);
		ASSERT_EQ(-1, spm_wrong(r, 0, 612, SEED));
		ASSERT_EQ(-1, spm_nonzero(r + 612 * SPM_PAGE, 924));
		ASSERT_EQ(-1, spm_wrong(priv, 0, 612, SEED));
		ASSERT_EQ(-1, spm_nonzero(priv + 612 * SPM_PAGE, 924));
		ASSERT_EQ(-1, spm_wrong(w, 0, 3, SEED));
		ASSERT_EQ(-1, spm_wrong(w + 4 * SPM_PAGE, 4, 558, SEED));
		ASSERT_EQ(-1, spm_wrong(w + 562 * SPM_PAGE, 562, 100, SEED + 1));
		ASSERT_EQ(-1, spm_nonzero(w + 662 * SPM_PAGE, 362));
		ASSERT_EQ(0, spm_all_consistent());

		/* Discarded: zeros here, never the frozen data. */
		ASSERT_EQ(0, spm_advise_off(wfd, 0, LEN, SPM_ADV_DISCARD));
		ASSERT_EQ(-1, spm_nonzero(w, PAGES));
		ASSERT_EQ(0, spm_advise(wfd, w, LEN, SPM_ADV_PROMOTE));
		ASSERT_EQ(-1, spm_nonzero(w, PAGES));
		ASSERT_EQ(-1, spm_wrong(r, 0, 612, SEED));
		ASSERT_EQ(-1, spm_wrong(priv, 0, 612, SEED));
		ASSERT_EQ(0, spm_all_consistent());

		/* Made small and large again: the same. */
		ASSERT_EQ(0, spm_set_size(turn ? fd : snap, 7 * SPM_PAGE));
		ASSERT_EQ(0, spm_set_size(turn ? fd : snap, LEN));
		ASSERT_EQ(-1, spm_wrong(r, 0, 7, SEED));
		ASSERT_EQ(-1, spm_nonzero(r + 7 * SPM_PAGE, PAGES - 7));
		ASSERT_EQ(-1, spm_nonzero(w, PAGES));
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(map, LEN);
		spm_unmap(copy, LEN);
		spm_unmap(priv, LEN);
		close(fd);
		close(snap);
	}
}

/* A region that shrank: its snapshots keep the pages, its private maps do not. */
TEST_F(spm, shrunk_source)
{
	int fd = spm_open(), snap;
	char *map, *copy, *priv;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, SEED);
	priv = spm_private(fd, LEN, 0, SPM_RW);
	spm_fill(priv + 20 * SPM_PAGE, 20, 1, SEED + 1);
	snap = spm_snapshot(fd);
	ASSERT_EQ(0, spm_set_size(fd, 10 * SPM_PAGE));
	ASSERT_EQ(SIGBUS, spm_try_read(map + 10 * SPM_PAGE));
	ASSERT_EQ(SIGBUS, spm_try_read(priv + 20 * SPM_PAGE));
	copy = spm_map(snap, LEN, 0, SPM_RW);
	ASSERT_EQ(-1, spm_wrong(copy, 0, PAGES, SEED));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	ASSERT_EQ(-1, spm_nonzero(map + 10 * SPM_PAGE, PAGES - 10));
	ASSERT_EQ(-1, spm_nonzero(priv + 10 * SPM_PAGE, PAGES - 10));
	ASSERT_EQ(-1, spm_wrong(priv, 0, 10, SEED));
	ASSERT_EQ(-1, spm_wrong(copy, 0, PAGES, SEED));
	ASSERT_EQ(0, spm_all_consistent());
	/* Populated without a look: still not the frozen pages. */
	ASSERT_EQ(0, spm_set_size(fd, 10 * SPM_PAGE));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_PREFAULT));
	ASSERT_EQ(0, spm_advise(fd, map, LEN, SPM_ADV_PROMOTE));
	ASSERT_EQ(-1, spm_wrong(map, 0, 10, SEED));
	ASSERT_EQ(-1, spm_nonzero(map + 10 * SPM_PAGE, PAGES - 10));
	ASSERT_EQ(0, spm_all_consistent());
}

TEST_F(spm, promote_a_mixed_slot)
{
	struct spm_stats before;
	int fd = spm_open(), snap;
	char *map, *copy;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	snap = spm_snapshot(fd);
	copy = spm_map(snap, SPM_SLOT, 0, SPM_RW);
	spm_stats_global(fd, &before);
	ASSERT_EQ(0, spm_advise(snap, copy, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_2m(snap, copy, SPM_SLOT));
	ASSERT_EQ(0, spm_count_writable(snap, copy, SPM_SLOT));
	ASSERT_EQ(0, spm_delta_global(fd, &before, cow_copied));
	spm_fill(copy + 10 * SPM_PAGE, 10, 1, SEED + 1);
	ASSERT_EQ(0, spm_advise(snap, copy, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_2m(snap, copy, SPM_SLOT));
	ASSERT_EQ(512, spm_count_writable(snap, copy, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(copy, 0, 10, SEED));
	ASSERT_EQ(-1, spm_wrong(copy + 10 * SPM_PAGE, 10, 1, SEED + 1));
	ASSERT_EQ(-1, spm_wrong(copy + 11 * SPM_PAGE, 11, 501, SEED));
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- generations -------------------------------------------------------------------- */

/* Generation k has stored page k: each sees those before it and no later one. */
static bool generation_holds(char *map, unsigned int k, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (i <= k ? !spm_stamped(map + i * SPM_PAGE, i, SEED) :
			     spm_nonzero(map + i * SPM_PAGE, 1) != -1) {
			spm_note("generation %u, page %u", k, i);
			return false;
		}
	}
	return true;
}

static int deep_child(void *arg)
{
	char *map = arg;

	map[100] = 2;
	return !generation_holds(map, SPM_DEPTH_MAX, SPM_DEPTH_MAX + 3);
}

TEST_F(spm, as_deep_as_it_goes)
{
	int fd[SPM_DEPTH_MAX + 2], n, i;
	char *map;

	fd[0] = spm_open();
	ASSERT_EQ(0, spm_set_size(fd[0], SPM_SLOT));
	for (n = 0; n < SPM_DEPTH_MAX + 1; n++) {
		map = spm_map(fd[n], SPM_SLOT, 0, SPM_RW);
		spm_stamp(map + n * SPM_PAGE, n, SEED);
		spm_unmap(map, SPM_SLOT);
		fd[n + 1] = spm_try_snapshot(fd[n], 0);
		if (fd[n + 1] < 0)
			break;
	}
	ASSERT_EQ(-EMLINK, fd[n + 1]);
	ASSERT_EQ(SPM_DEPTH_MAX, n);
	ASSERT_EQ(0, spm_all_consistent());
	for (i = 0; i <= n; i++) {
		map = spm_map(fd[i], SPM_SLOT, 0, SPM_RW);
		ASSERT_TRUE(generation_holds(map, i, n + 3));
		spm_unmap(map, SPM_SLOT);
	}
	ASSERT_EQ(-EMLINK, spm_try_snapshot(fd[n], 0));
	/* A private mapping is a generation too; fork must not fail for it. */
	map = spm_private(fd[n], SPM_SLOT, 0, SPM_RW);
	map[100] = 1;
	ASSERT_TRUE(generation_holds(map, n, n + 3));
	ASSERT_EQ(0, spm_fork_run(deep_child, map));
	ASSERT_EQ(1, map[100]);
	spm_unmap(map, SPM_SLOT);

	/* Every other one goes: those that remain are close together again. */
	for (i = 1; i < n; i += 2)
		close(fd[i]);
	ASSERT_EQ(0, spm_all_consistent());
	for (i = 0; i < n; i += 2) {
		map = spm_map(fd[i], SPM_SLOT, 0, SPM_RW);
		ASSERT_TRUE(generation_holds(map, i, n + 3));
		spm_unmap(map, SPM_SLOT);
	}
	fd[1] = spm_try_snapshot(fd[n], 0);
	ASSERT_LE(0, fd[1]);
	map = spm_map(fd[1], SPM_SLOT, 0, SPM_RW);
	ASSERT_TRUE(generation_holds(map, n, n + 3));
	ASSERT_EQ(0, spm_all_consistent());
}

/* The same region again and again, each older snapshot going: no depth at all. */
TEST_F(spm, a_snapshot_every_minute)
{
	int fd = spm_open(), snap = -1, i;
	struct spm_stats before;
	char *map, *copy;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	copy = spm_reserve(SPM_SLOT, 0);
	spm_stats_global(fd, &before);
	for (i = 0; i < 200; i++) {
		if (snap >= 0)
			close(snap);
		snap = spm_snapshot(fd);
		spm_map_at(copy, snap, SPM_SLOT, 0, SPM_RW);
		spm_stamp(map + i * SPM_PAGE, i, SEED + 1);
		ASSERT_TRUE(spm_stamped(copy + i * SPM_PAGE, i, SEED));
		if (i) {
			ASSERT_TRUE(spm_stamped(copy + (i - 1) * SPM_PAGE, i - 1,
						SEED + 1));
		}
	}
	ASSERT_EQ(2, spm_delta_global(fd, &before, objects));
	ASSERT_EQ(2, spm_delta_global(fd, &before, links));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- the moment ------------------------------------------------------------------------ */

#define WRITERS	3

static volatile int stop;

/* A is stored before B, always, far from each other. */
static void *count_up(void *arg)
{
	char *map = arg;
	volatile uint64_t *a = (uint64_t *)map;
	volatile uint64_t *b = (uint64_t *)(map + 2 * SPM_SLOT + 3 * SPM_PAGE);
	volatile uint64_t *c = (uint64_t *)(map + SPM_SLOT + 9 * SPM_PAGE);
	uint64_t i;

	for (i = 1; !stop; i++) {
		*a = i;
		asm volatile("" ::: "memory");
		*c = i;
		asm volatile("" ::: "memory");
		*b = i;
	}
	return NULL;
}

static int count_up_child(void *arg)
{
	count_up(arg);
	return 0;
}

TEST_F(spm, one_moment)
{
	double end = spm_now() + 6;
	pthread_t t[WRITERS];
	int fd = spm_open(), snap, i, rounds;
	char *map, *copy;
	uint64_t a, b, c;
	pid_t pid;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, SEED);
	memset(map, 0, LEN);
	for (i = 0; i < WRITERS; i++)
		spm_thread(&t[i], count_up, map + i * 64);
	/* Another process, through the same region. */
	pid = spm_fork(count_up_child, map + WRITERS * 64);
	copy = spm_reserve(LEN, 0);
	for (rounds = 0; spm_now() < end; rounds++) {
		snap = spm_snapshot(fd);
		spm_map_at(copy, snap, LEN, 0, PROT_READ);
		for (i = 0; i <= WRITERS; i++) {
			/* In any order: it stands still. */
			b = *(uint64_t *)(copy + i * 64 + 2 * SPM_SLOT +
					  3 * SPM_PAGE);
			a = *(uint64_t *)(copy + i * 64);
			c = *(uint64_t *)(copy + i * 64 + SPM_SLOT +
					  9 * SPM_PAGE);
			ASSERT_TRUE(a >= c && c >= b && a - b <= 1) {
				TH_LOG("writer %d: stored %llu, %llu, %llu", i,
				       (unsigned long long)a,
				       (unsigned long long)c,
				       (unsigned long long)b);
			}
		}
		spm_unmap(copy, LEN);
		close(snap);
	}
	stop = 1;
	for (i = 0; i < WRITERS; i++)
		pthread_join(t[i], NULL);
	kill(pid, SIGKILL);
	spm_wait(pid);
	TH_LOG("%d snapshots", rounds);
	/* All stores arrived in the region. */
	for (i = 0; i < WRITERS; i++) {
		ASSERT_EQ(*(uint64_t *)(map + i * 64),
			  *(uint64_t *)(map + i * 64 + 2 * SPM_SLOT +
					3 * SPM_PAGE));
	}
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- without superpages, and in copies of 2 MB ------------------------------------------- */

static void both_sides(struct __test_metadata *_metadata)
{
	int fd = spm_open(), snap;
	char *map, *copy;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_fill(map, 0, 700, SEED);
	snap = spm_snapshot(fd);
	copy = spm_map(snap, LEN, 0, SPM_RW);
	spm_fill(map + 100 * SPM_PAGE, 100, 500, SEED + 1);
	spm_fill(copy + 400 * SPM_PAGE, 400, 500, SEED + 2);
	ASSERT_EQ(-1, spm_wrong(map, 0, 100, SEED));
	ASSERT_EQ(-1, spm_wrong(map + 100 * SPM_PAGE, 100, 500, SEED + 1));
	ASSERT_EQ(-1, spm_wrong(map + 600 * SPM_PAGE, 600, 100, SEED));
	ASSERT_EQ(-1, spm_nonzero(map + 700 * SPM_PAGE, PAGES - 700));
	ASSERT_EQ(-1, spm_wrong(copy, 0, 400, SEED));
	ASSERT_EQ(-1, spm_wrong(copy + 400 * SPM_PAGE, 400, 500, SEED + 2));
	ASSERT_EQ(-1, spm_nonzero(copy + 900 * SPM_PAGE, PAGES - 900));
	ASSERT_EQ(0, spm_all_consistent());
	spm_unmap(map, LEN);
	close(fd);
	ASSERT_EQ(-1, spm_wrong(copy, 0, 400, SEED));
	ASSERT_EQ(-1, spm_wrong(copy + 400 * SPM_PAGE, 400, 500, SEED + 2));
	ASSERT_EQ(-1, spm_nonzero(copy + 900 * SPM_PAGE, PAGES - 900));
	spm_fill(copy, 0, PAGES, SEED + 3);
	ASSERT_EQ(-1, spm_wrong(copy, 0, PAGES, SEED + 3));
	ASSERT_EQ(0, spm_all_consistent());
	spm_unmap(copy, LEN);
	close(snap);
}

TEST_F(spm, superpages_off)
{
	ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "0"));
	both_sides(_metadata);
}

TEST_F(spm, whole_slots_and_auto)
{
	ASSERT_EQ(0, spm_param_set("cow_size", "2M"));
	both_sides(_metadata);
	ASSERT_EQ(0, spm_param_set("cow_size", "auto"));
	both_sides(_metadata);
	ASSERT_EQ(0, spm_param_set("populate_threshold", "64"));
	both_sides(_metadata);
}

/* No 2 MB blocks: for nobody; for the copies only; for the source only. */
TEST_F(spm, no_huge_blocks)
{
	int fd, snap, which;
	char *map, *copy;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	spm_fail_huge_setup();
	spm_fail_huge_for_me(true);
	both_sides(_metadata);
	for (which = 0; which < 2; which++) {
		fd = spm_open();
		map = spm_map(fd, LEN, 0, SPM_RW);
		spm_fail_huge_for_me(which);
		spm_fill(map, 0, PAGES, SEED);
		spm_fail_huge_for_me(!which);
		snap = spm_snapshot(fd);
		copy = spm_map(snap, LEN, 0, SPM_RW);
		spm_fill(copy, 0, 600, SEED + 1);
		spm_fill(map, 0, 10, SEED + 2);
		ASSERT_EQ(-1, spm_wrong(copy, 0, 600, SEED + 1));
		ASSERT_EQ(-1, spm_wrong(copy + 600 * SPM_PAGE, 600, PAGES - 600,
					SEED));
		ASSERT_EQ(-1, spm_wrong(map, 0, 10, SEED + 2));
		ASSERT_EQ(-1, spm_wrong(map + 10 * SPM_PAGE, 10, PAGES - 10,
					SEED));
		ASSERT_EQ(0, spm_all_consistent());
		/* Merged: blocks and single pages into one object. */
		spm_unmap(which ? map : copy, LEN);
		close(which ? fd : snap);
		if (which) {
			ASSERT_EQ(-1, spm_wrong(copy, 0, 600, SEED + 1));
			ASSERT_EQ(-1, spm_wrong(copy + 600 * SPM_PAGE, 600,
						PAGES - 600, SEED));
		} else {
			ASSERT_EQ(-1, spm_wrong(map, 0, 10, SEED + 2));
			ASSERT_EQ(-1, spm_wrong(map + 10 * SPM_PAGE, 10,
						PAGES - 10, SEED));
		}
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(which ? copy : map, LEN);
		close(which ? snap : fd);
	}
	spm_fail_huge_off();
}

SPM_TEST_MAIN
