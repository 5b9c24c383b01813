// SPDX-License-Identifier: GPL-2.0
/*
 * Property: where no 2 MB block of memory can be had, everything works with
 * single pages, and only the superpages are missing; later, with memory there,
 * an emptied slot gets its superpage.
 * Guards against: SIGBUS or ENOMEM because memory is fragmented, and slots of
 * single pages that are promoted, counted or freed as if they were one block.
 *
 * spm-test: kernels=debug
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define SLOTS	2
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

static int read_and_write_in_child(void *arg)
{
	int fd = *(int *)arg;
	char *p = spm_map(fd, LEN, 0, SPM_RW);

	spm_child_check(spm_wrong(p, 0, PAGES, 1) == -1, "content");
	spm_fill(p, 0, PAGES, 2);
	return 0;
}

TEST_F(spm, single_pages_instead)
{
	struct spm_stats before, now;
	int fd = spm_open();
	char *p, *q;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	p = spm_map(fd, LEN, 0, SPM_RW);
	q = spm_map(fd, LEN, 0, PROT_READ);
	spm_stats(fd, &before);
	spm_fail_huge_setup();
	spm_fail_huge_for_me(true);

	/* First touch by store and by load, and the rest of the slots. */
	p[3 * SPM_PAGE] = 0;
	EXPECT_EQ(1, spm_delta(fd, &before, reserv_unavailable));
	EXPECT_EQ(0, p[SPM_SLOT + 5 * SPM_PAGE]);
	EXPECT_EQ(2, spm_delta(fd, &before, reserv_unavailable));
	EXPECT_EQ(-1, spm_nonzero(p, PAGES));
	spm_fill(p, 0, PAGES, 1);
	EXPECT_EQ(-1, spm_wrong(q, 0, PAGES, 1));
	spm_stats(fd, &now);
	EXPECT_EQ(PAGES, now.loose);
	EXPECT_EQ(PAGES, now.pages);
	EXPECT_EQ(PAGES, now.dirty);
	EXPECT_EQ(before.reserv_allocated, now.reserv_allocated);
	EXPECT_EQ(0, now.live);
	EXPECT_EQ(0, now.reserv_live);
	EXPECT_EQ(PAGES, spm_count_4k(fd, p, LEN));
	EXPECT_EQ(PAGES, spm_count_writable(fd, p, LEN));
	EXPECT_EQ(0, spm_consistent(fd));

	/* Advice is taken as far as it goes. */
	spm_stats(fd, &before);
	EXPECT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, p_failures));
	EXPECT_EQ(0, spm_delta(fd, &before, promotions));
	EXPECT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_DEMOTE));
	EXPECT_EQ(0, spm_delta(fd, &before, demotions));
	EXPECT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PREFAULT));
	EXPECT_EQ(-1, spm_wrong(p, 0, PAGES, 1));
	EXPECT_EQ(0, spm_consistent(fd));

	/* Mappings can be taken apart. */
	ASSERT_EQ(0, mprotect(p + SPM_PAGE, SPM_PAGE, PROT_READ));
	EXPECT_EQ(SIGSEGV, spm_try_write(p + SPM_PAGE, 0));
	/* Parts do not grow together again: map anew, for superpages later. */
	spm_map_at(p, fd, LEN, 0, SPM_RW);
	ASSERT_EQ(0, madvise(p, LEN, MADV_DONTNEED));
	EXPECT_EQ(-1, spm_wrong(p, 0, PAGES, 1));
	EXPECT_EQ(0, spm_fork_run(read_and_write_in_child, &fd));
	EXPECT_EQ(-1, spm_wrong(p, 0, PAGES, 2));
	EXPECT_EQ(0, spm_consistent(fd));

	/* A part of the second slot, and the whole first one. */
	ASSERT_EQ(0, spm_advise(fd, p + SPM_SLOT + 100 * SPM_PAGE,
				100 * SPM_PAGE, SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_DISCARD));
	spm_stats(fd, &now);
	EXPECT_EQ(SPM_SLOT_PAGES - 100, now.loose);
	EXPECT_EQ(SPM_SLOT_PAGES - 100, now.pages);
	EXPECT_EQ(-1, spm_nonzero(p, SPM_SLOT_PAGES));
	EXPECT_EQ(-1, spm_nonzero(p + SPM_SLOT + 100 * SPM_PAGE, 100));
	EXPECT_EQ(-1, spm_wrong(p + SPM_SLOT + 200 * SPM_PAGE,
				SPM_SLOT_PAGES + 200, 312, 2));
	EXPECT_EQ(0, spm_consistent(fd));

	/* With memory again: an emptied slot is like a new one. */
	spm_fail_huge_off();
	ASSERT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_DISCARD));
	spm_stats(fd, &before);
	spm_fill(p, 0, SPM_SLOT_PAGES, 3);
	EXPECT_EQ(1, spm_delta(fd, &before, reserv_allocated));
	EXPECT_EQ(1, spm_delta(fd, &before, promotions));
	EXPECT_EQ(SPM_SLOT_PAGES, spm_count_2m(fd, p, SPM_SLOT));
	EXPECT_EQ(SPM_SLOT_PAGES, spm_count_4k(fd, p + SPM_SLOT, SPM_SLOT));
	EXPECT_EQ(-1, spm_wrong(p, 0, SPM_SLOT_PAGES, 3));
	ASSERT_EQ(0, spm_advise(fd, p + SPM_SLOT, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
	EXPECT_EQ(PAGES, spm_count_2m(fd, p, LEN));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* Fault after fault in several threads, each allocating a page of its own. */
static void *fill_every_fourth(void *arg)
{
	static atomic_uint next;
	char *p = *(char **)arg;
	unsigned int me = atomic_fetch_add(&next, 1) % 4;
	size_t i;

	for (i = 0; i < PAGES; i++) {
		if (i % 4 == me || i % 16 == 0)
			*(volatile uint64_t *)(p + i * SPM_PAGE + 8 * me) = i + 1;
	}
	return NULL;
}

TEST_F(spm, threads_on_single_pages)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	pthread_t t[4];
	size_t i;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	spm_fail_huge_setup();
	spm_fail_huge_for_me(true);
	spm_stats(fd, &before);
	for (i = 0; i < 4; i++)
		spm_thread(&t[i], fill_every_fourth, &p);
	for (i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	spm_fail_huge_off();
	EXPECT_EQ(PAGES, spm_delta(fd, &before, populated));
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_unavailable));
	for (i = 0; i < PAGES; i++)
		EXPECT_EQ(i + 1, *(uint64_t *)(p + i * SPM_PAGE + 8 * (i % 4)));
	EXPECT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
