// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a mapping that is moved shows the same memory at its new place,
 * with 2 MB entries as far as the place allows, and nothing at the old one.
 *
 * Kind of bug: driver state keyed by the old address; entries of the wrong
 * size after a move to an address of another alignment.
 */
#include "spm_test.h"

#define SEED	14

static void move(char *from, char *to, size_t len)
{
	if (mremap(from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		spm_die("mremap %p to %p, %zu bytes", from, to, len);
}

TEST_F(spm, between_aligned_places)
{
	int fd = spm_open(), i;
	char *a, *b, *t;
	struct spm_stats before;

	a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	b = spm_reserve(SPM_SLOT, 0);
	spm_promoted(fd, a, SPM_SLOT, 0, SEED);
	spm_stats(fd, &before);
	for (i = 0; i < 20; i++) {
		move(a, b, SPM_SLOT);
		ASSERT_EQ(SIGSEGV, spm_try_read(a));
		ASSERT_EQ(SIGSEGV, spm_try_read(a + SPM_SLOT - 1));
		/* The kernel moves the entry as it is. */
		ASSERT_EQ(0, spm_touch_faults(b, SPM_SLOT, false));
		ASSERT_EQ(512, spm_count_2m(fd, b, SPM_SLOT));
		ASSERT_EQ(0, spm_consistent(fd));
		t = a, a = b, b = t;
	}
	ASSERT_EQ(-1, spm_wrong(a, 0, 512, SEED));
	ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, spm_delta(fd, &before, maps));
}

TEST_F(spm, to_a_misaligned_place_and_back)
{
	static const size_t skews[] = {
		SPM_PAGE, SPM_SLOT / 2, SPM_SLOT - SPM_PAGE,
	};
	int fd = spm_open();
	char *a, *b;
	unsigned int i;

	a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, a, SPM_SLOT, 0, SEED);
	for (i = 0; i < ARRAY_SIZE(skews); i++) {
		b = spm_reserve(SPM_SLOT, 0) + skews[i];
		move(a, b, SPM_SLOT);
		ASSERT_EQ(-1, spm_wrong(b, 0, 512, SEED));
		ASSERT_EQ(512, spm_count_4k(fd, b, SPM_SLOT));
		ASSERT_EQ(0, spm_consistent(fd));
		spm_fill(b, 0, 512, SEED + i + 1);
		ASSERT_EQ(512, spm_count_4k(fd, b, SPM_SLOT));
		/* Back: can be a superpage again. */
		move(b, a, SPM_SLOT);
		ASSERT_EQ(-1, spm_wrong(a, 0, 512, SEED + i + 1));
		ASSERT_EQ(0, spm_advise(fd, a, SPM_SLOT, SPM_ADV_PROMOTE));
		ASSERT_EQ(512, spm_count_2m(fd, a, SPM_SLOT));
		ASSERT_EQ(0, spm_consistent(fd));
		spm_fill(a, 0, 512, SEED);
	}
}

/* Filled half here, half there: promoted at the new place. */
TEST_F(spm, moved_while_filling)
{
	struct spm_stats before;
	int fd = spm_open();
	char *a, *b;

	a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	b = spm_reserve(SPM_SLOT, 0);
	spm_stats(fd, &before);
	spm_fill(a, 0, 256, SEED);
	move(a, b, SPM_SLOT);
	ASSERT_EQ(0, spm_touch_faults(b, SPM_SLOT / 2, true));
	spm_fill(b, 0, 512, SEED);
	ASSERT_EQ(1, spm_delta(fd, &before, promotions));
	ASSERT_EQ(512, spm_count_2m(fd, b, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(b, 0, 512, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* A part of a mapping, whole slots; on top of another mapping of the region. */
TEST_F(spm, slots_out_of_a_larger_mapping)
{
	struct spm_stats before;
	int fd = spm_open();
	char *a, *b;

	a = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, a, 4 * SPM_SLOT, 0, SEED);
	b = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	spm_touch_read(b, 4 * SPM_SLOT);
	ASSERT_EQ(2048, spm_count_2m(fd, b, 4 * SPM_SLOT));
	spm_stats(fd, &before);
	/* slots 1, 2 of a over slots 0, 1 of b */
	move(a + SPM_SLOT, b, 2 * SPM_SLOT);
	ASSERT_EQ(-1, spm_wrong(b, 512, 1024, SEED));
	ASSERT_EQ(-1, spm_wrong(b + 2 * SPM_SLOT, 1024, 1024, SEED));
	ASSERT_EQ(-1, spm_wrong(a, 0, 512, SEED));
	ASSERT_EQ(-1, spm_wrong(a + 3 * SPM_SLOT, 1536, 512, SEED));
	ASSERT_EQ(SIGSEGV, spm_try_read(a + SPM_SLOT));
	ASSERT_EQ(SIGSEGV, spm_try_read(a + 3 * SPM_SLOT - 1));
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(512, spm_count_2m(fd, a, SPM_SLOT));
	ASSERT_EQ(512, spm_count_2m(fd, a + 3 * SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(2048, spm_count_2m(fd, b, 4 * SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, shrunk_in_place)
{
	struct spm_stats before;
	int fd = spm_open();
	char *a;

	a = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, a, 2 * SPM_SLOT, 0, SEED);
	spm_stats(fd, &before);
	ASSERT_EQ((void *)a, mremap(a, 2 * SPM_SLOT,
				    SPM_SLOT + 100 * SPM_PAGE, 0));
	ASSERT_EQ(1, spm_delta(fd, &before, demotions_split));
	ASSERT_EQ(512, spm_count_2m(fd, a, SPM_SLOT));
	ASSERT_EQ(100, spm_count_4k(fd, a + SPM_SLOT, 100 * SPM_PAGE));
	ASSERT_EQ(SIGSEGV, spm_try_read(a + SPM_SLOT + 100 * SPM_PAGE));
	ASSERT_EQ(0, spm_touch_faults(a, SPM_SLOT + 100 * SPM_PAGE, false));
	ASSERT_EQ(-1, spm_wrong(a, 0, 612, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int moving_child(void *arg)
{
	int fd = *(int *)arg;
	char *a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	char *b = spm_reserve(SPM_SLOT, 0);

	spm_touch_read(a, SPM_SLOT);
	move(a, b, SPM_SLOT);
	spm_child_check(spm_wrong(b, 0, 512, SEED) == -1, "moved");
	move(b, a + SPM_PAGE, SPM_SLOT);
	spm_child_check(spm_wrong(a + SPM_PAGE, 0, 512, SEED) == -1, "moved");
	return 0;
}

TEST_F(spm, another_process_moves)
{
	int fd = spm_open();
	char *a;

	a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, a, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_fork_run(moving_child, &fd));
	ASSERT_EQ(0, spm_touch_faults(a, SPM_SLOT, true));
	ASSERT_EQ(512, spm_count_2m(fd, a, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
