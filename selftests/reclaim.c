// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory that is set aside but empty comes back when the kernel asks
 * for it, whole 2 MB blocks of it; populated pages keep their content and their
 * dirty state, in every mapping, snapshot and private copy; what is in use at that
 * moment is passed over; and a slot that fills up again gets a block again.
 * Guards against: empty memory that nobody can get at, blocks given away under
 * the feet of whoever does I/O to them, and slots that stay without superpages
 * for ever because memory was short once.
 *
 * spm-test: timeout=240
 */
#include "spm_sync.h"

#define SLOTS	16
#define LEN	(SLOTS * SPM_SLOT)

/* Ask the kernel for everything that its shrinkers can give back. */
static void shrink(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "2", 1) != 1)
		spm_die("drop_caches");
	close(fd);
}

/* Pages k, k + 7, ... of slot k, up to 20 of them, with the pattern of @seed. */
static void sprinkle(char *p, unsigned int seed)
{
	size_t k, n;

	for (k = 0; k < SLOTS; k++)
		for (n = 0; n < 20; n++) {
			size_t page = k * SPM_SLOT_PAGES + k + 7 * n;

			spm_fill(p + page * SPM_PAGE, page, 1, seed);
		}
}

static long wrong(const char *p, unsigned int seed)
{
	size_t k, n;

	for (k = 0; k < SLOTS; k++)
		for (n = 0; n < 20; n++) {
			size_t page = k * SPM_SLOT_PAGES + k + 7 * n;

			if (spm_wrong(p + page * SPM_PAGE, page, 1, seed) != -1)
				return page;
		}
	return -1;
}

/* Blocks taken are blocks held, freed, or broken. */
static void expect_blocks(struct __test_metadata *_metadata, int fd)
{
	struct spm_stats s;

	spm_stats_global(fd, &s);
	EXPECT_EQ(s.reserv_allocated,
		  s.reserv_live + s.reserv_freed + s.reserv_broken);
}

TEST_F(spm, empty_parts_come_back)
{
	struct spm_stats before, now;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	char *q = spm_map(fd, LEN, 0, PROT_READ);
	long free;

	spm_stats(fd, &before);
	sprinkle(p, 1);
	ASSERT_EQ(-1, wrong(q, 1));
	ASSERT_EQ(SLOTS, spm_delta(fd, &before, reserv_live));
	free = spm_available();
	shrink();
	spm_stats(fd, &now);
	EXPECT_EQ(0, now.reserv_live);
	EXPECT_EQ(0, now.reserv_empty);
	EXPECT_EQ(0, now.reserv_partpopq);
	EXPECT_EQ(SLOTS, now.reserv_broken - before.reserv_broken);
	EXPECT_EQ(SLOTS, now.reserv_reclaimed - before.reserv_reclaimed);
	EXPECT_EQ(20 * SLOTS, now.evacuated - before.evacuated);
	EXPECT_EQ(20 * SLOTS, now.loose);
	EXPECT_EQ(20 * SLOTS, now.pages);
	EXPECT_EQ(20 * SLOTS, now.dirty);
	/* Other things come and go: three quarters will do. */
	EXPECT_LT(free + SLOTS * 2048 * 3 / 4, spm_available());
	EXPECT_EQ(-1, wrong(p, 1));
	EXPECT_EQ(-1, wrong(q, 1));
	EXPECT_EQ(0, spm_consistent(fd));
	/* What was not populated is still zeros, and can be. */
	EXPECT_EQ(-1, spm_nonzero(p + 400 * SPM_PAGE, 112));
	sprinkle(p, 2);
	EXPECT_EQ(-1, wrong(q, 2));
	EXPECT_EQ(0, spm_consistent(fd));
	expect_blocks(_metadata, fd);
}

/* FreeBSD's traps: full, and then not, in the same tick; still to be found. */
TEST_F(spm, full_to_partly_filled_is_seen)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	spm_fill(p, 0, SPM_SLOT_PAGES, 1);
	spm_stats(fd, &before);
	shrink();
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_broken));
	ASSERT_EQ(0, spm_advise(fd, p + 100 * SPM_PAGE, SPM_PAGE,
				SPM_ADV_DISCARD));
	EXPECT_EQ(1, spm_delta(fd, &before, reserv_partpopq));
	spm_stats_global(fd, &before);
	shrink();
	/* Looked at, but not worth the copy of 511 pages. */
	EXPECT_LT(0, spm_delta_global(fd, &before, reclaim_looks));
	EXPECT_EQ(0, spm_delta_global(fd, &before, reserv_broken));
	ASSERT_EQ(0, spm_advise(fd, p + 100 * SPM_PAGE, 32 * SPM_PAGE,
				SPM_ADV_DISCARD));
	shrink();
	EXPECT_EQ(1, spm_delta_global(fd, &before, reserv_broken));
	EXPECT_EQ(-1, spm_wrong(p, 0, 100, 1));
	EXPECT_EQ(-1, spm_nonzero(p + 100 * SPM_PAGE, 32));
	EXPECT_EQ(-1, spm_wrong(p + 132 * SPM_PAGE, 132, 380, 1));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* A pipe holds the page: whoever reads it sees what was put in. */
TEST_F(spm, what_is_held_is_passed_over)
{
	int fd = spm_open(), pipes[2];
	char *p = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	static char got[SPM_PAGE];
	struct iovec v = { p + 5 * SPM_PAGE, SPM_PAGE };
	struct spm_stats before;

	spm_fill(p, 0, 10, 1);
	spm_fill(p + SPM_SLOT, SPM_SLOT_PAGES, 10, 1);
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ((long)SPM_PAGE, vmsplice(pipes[1], &v, 1, 0));
	spm_stats(fd, &before);
	shrink();
	EXPECT_EQ(1, spm_delta(fd, &before, reserv_broken));
	EXPECT_LT(0, spm_delta(fd, &before, evacuate_held));
	EXPECT_EQ(10, spm_delta(fd, &before, loose));
	/* Still the same memory. */
	spm_fill(p + 5 * SPM_PAGE, 5, 1, 2);
	ASSERT_EQ((long)SPM_PAGE, read(pipes[0], got, SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(got, 5, 1, 2));
	EXPECT_EQ(0, spm_consistent(fd));
	shrink();
	EXPECT_EQ(2, spm_delta(fd, &before, reserv_broken));
	EXPECT_EQ(-1, spm_wrong(p, 0, 5, 1));
	EXPECT_EQ(-1, spm_wrong(p + 5 * SPM_PAGE, 5, 1, 2));
	EXPECT_EQ(0, spm_consistent(fd));
	close(pipes[0]);
	close(pipes[1]);
}

/* Frozen reservations show in several regions and in private mappings. */
TEST_F(spm, every_generation_keeps_its_pages)
{
	struct spm_stats before;
	int fd = spm_open(), snap, again;
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	char *s, *a, *q;

	sprinkle(p, 1);
	snap = spm_snapshot(fd);
	s = spm_map(snap, LEN, 0, SPM_RW);
	ASSERT_EQ(-1, wrong(s, 1));
	q = spm_private(fd, LEN, 0, SPM_RW);
	sprinkle(q, 2);
	again = spm_snapshot(snap);
	a = spm_map(again, LEN, 0, SPM_RW);
	ASSERT_EQ(-1, wrong(a, 1));
	sprinkle(a, 3);
	ASSERT_EQ(-1, wrong(p, 1));
	spm_stats_global(fd, &before);
	shrink();
	/* The frozen one, the private copies, those of the second snapshot. */
	EXPECT_EQ(3 * SLOTS, spm_delta_global(fd, &before, reserv_broken));
	EXPECT_EQ(-1, wrong(p, 1));
	EXPECT_EQ(-1, wrong(s, 1));
	EXPECT_EQ(-1, wrong(q, 2));
	EXPECT_EQ(-1, wrong(a, 3));
	EXPECT_EQ(0, spm_all_consistent());
	sprinkle(p, 4);
	EXPECT_EQ(-1, wrong(s, 1));
	EXPECT_EQ(-1, wrong(q, 2));
	close(snap);
	spm_unmap(s, LEN);
	shrink();
	EXPECT_EQ(-1, wrong(p, 4));
	EXPECT_EQ(-1, wrong(q, 2));
	EXPECT_EQ(-1, wrong(a, 3));
	EXPECT_EQ(0, spm_all_consistent());
	expect_blocks(_metadata, fd);
}

/* Copied once, by the fault that populates the last page; then as ever. */
TEST_F(spm, full_again_gets_a_block)
{
	struct spm_stats before, now;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	char *q = spm_map(fd, LEN, 0, PROT_READ);
	size_t k;

	sprinkle(p, 1);
	shrink();
	spm_stats(fd, &before);
	ASSERT_EQ(0, before.reserv_live);
	for (k = 0; k < SLOTS - 1; k++)
		spm_fill(p + k * SPM_SLOT, k * SPM_SLOT_PAGES, SPM_SLOT_PAGES,
			 2);
	/* The last one by request. */
	ASSERT_EQ(0, spm_advise(fd, p + k * SPM_SLOT, SPM_SLOT,
				SPM_ADV_PROMOTE));
	spm_fill(p + k * SPM_SLOT, k * SPM_SLOT_PAGES, SPM_SLOT_PAGES, 2);
	spm_stats(fd, &now);
	EXPECT_EQ(SLOTS, now.reassembled - before.reassembled);
	EXPECT_EQ(SLOTS, now.reserv_live);
	EXPECT_EQ(SLOTS, now.reserv_fullpop);
	EXPECT_EQ(0, now.loose);
	EXPECT_EQ(SLOTS * SPM_SLOT_PAGES, (size_t)spm_count_2m(fd, p, LEN));
	EXPECT_EQ(-1, spm_wrong(p, 0, SLOTS * SPM_SLOT_PAGES, 2));
	EXPECT_EQ(-1, spm_wrong(q, 0, SLOTS * SPM_SLOT_PAGES, 2));
	EXPECT_EQ(0, spm_consistent(fd));
	expect_blocks(_metadata, fd);
}

/* What is clean, and what changed, is so afterwards. */
TEST_F(spm, dirty_state_survives)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);

	sprinkle(p, 1);
	ASSERT_EQ(20 * SLOTS, spm_dirty(fd, SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR,
					0, LEN));
	p[(3 + 7) * SPM_PAGE + 3 * SPM_SLOT] ^= 1;
	spm_stats(fd, &before);
	shrink();
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_broken));
	EXPECT_EQ(1, spm_dirty(fd, SPM_SCAN_BY_OFFSET, 0, LEN));
	p[(3 + 7) * SPM_PAGE + 3 * SPM_SLOT] ^= 1;
	*(volatile char *)(p + 4 * SPM_PAGE + 4 * SPM_SLOT) ^= 0;
	EXPECT_EQ(2, spm_dirty(fd, SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR, 0, LEN));
	EXPECT_EQ(-1, wrong(p, 1));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* A reservation that is being filled has its second chance, and no more. */
TEST_F(spm, what_changes_is_taken_later)
{
	struct spm_stats before;
	int fd = spm_open(), i;
	char *p = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);

	for (i = 0; i < 4; i++) {
		p[i * SPM_PAGE] = 1;
		usleep(20000);
	}
	spm_stats_global(fd, &before);
	shrink();
	EXPECT_LT(0, spm_delta_global(fd, &before, reclaim_active));
	EXPECT_EQ(1, spm_delta_global(fd, &before, reserv_broken));
}

SPM_TEST_MAIN
