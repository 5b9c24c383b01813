// SPDX-License-Identifier: GPL-2.0
/*
 * Property: unmapping the first, a middle or the last page of a slot mapped by
 * one 2 MB entry, or all of it, with a copy of the mapping made by fork before
 * or after, removes just those pages from just that process; the region keeps
 * the data.
 *
 * Kind of bug: the pages of one large allocation counted wrongly when they are
 * unmapped one by one ("bad page", a count that runs below zero, memory that is
 * freed while somebody maps it).
 */
#include "spm_test.h"

#define SEED	7

enum { NO_FORK, FORK_BEFORE, FORK_AFTER, FORKS };

struct part {
	size_t from, len;
};

static const struct part parts[] = {
	{ 0, SPM_PAGE },
	{ 256 * SPM_PAGE, SPM_PAGE },
	{ SPM_SLOT - SPM_PAGE, SPM_PAGE },
	{ 0, SPM_SLOT / 2 },
	{ SPM_SLOT / 2, SPM_SLOT / 2 },
	{ 0, SPM_SLOT },
};

struct child {
	int fd;
	char *map;
	const struct part *gone;	/* not mapped here */
	int start, ready;
};

static int look(void *arg)
{
	struct child *c = arg;
	unsigned int i;
	char x = 0;

	if (write(c->ready, &x, 1) != 1 || read(c->start, &x, 1) != 1)
		return 1;
	for (i = 0; i < 512; i++) {
		size_t off = i * SPM_PAGE;

		if (c->gone && off >= c->gone->from &&
		    off < c->gone->from + c->gone->len) {
			spm_child_check(spm_try_read(c->map + off) == SIGSEGV,
					"page %u", i);
			continue;
		}
		spm_child_check(spm_stamped(c->map + off, i, SEED), "page %u",
				i);
	}
	/* Leave without unmapping. */
	return 0;
}

static void run(struct __test_metadata *_metadata, const struct part *p,
		int when)
{
	int start[2], ready[2], fd = spm_open();
	struct child c = { .fd = fd };
	struct spm_stats before;
	long rss, left;
	pid_t pid = 0;
	char *map, x = 0;
	unsigned int i;

	ASSERT_EQ(0, pipe(start));
	ASSERT_EQ(0, pipe(ready));
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	for (i = 0; i < 512; i++)
		spm_stamp(map + i * SPM_PAGE, i, SEED);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	c.map = map;
	c.start = start[0];
	c.ready = ready[1];
	if (when == FORK_BEFORE) {
		pid = spm_fork(look, &c);
		ASSERT_EQ(1, read(ready[0], &x, 1));
	}

	rss = spm_rss();
	spm_stats(fd, &before);
	spm_unmap(map + p->from, p->len);
	left = 512 - p->len / SPM_PAGE;
	ASSERT_EQ(rss - (512 - left), spm_rss());
	ASSERT_EQ(left ? 1 : 0, spm_delta(fd, &before, demotions_split));
	ASSERT_EQ(0, spm_delta(fd, &before, demote_aborts));

	if (when == FORK_AFTER) {
		c.gone = p;
		pid = spm_fork(look, &c);
		ASSERT_EQ(1, read(ready[0], &x, 1));
	}
	/* What is left stays mapped, by 4 KB entries. */
	if (p->from) {
		ASSERT_EQ((long)(p->from / SPM_PAGE),
			  spm_count_4k(fd, map, p->from));
	}
	if (p->from + p->len < SPM_SLOT) {
		size_t end = p->from + p->len;

		ASSERT_EQ((long)((SPM_SLOT - end) / SPM_PAGE),
			  spm_count_4k(fd, map + end, SPM_SLOT - end));
	}
	for (i = 0; i < 512; i++) {
		size_t off = i * SPM_PAGE;

		if (off >= p->from && off < p->from + p->len) {
			ASSERT_EQ(SIGSEGV, spm_try_read(map + off));
		} else {
			ASSERT_TRUE(spm_stamped(map + off, i, SEED));
		}
	}
	ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	ASSERT_EQ(0, spm_consistent(fd));

	if (pid) {
		ASSERT_EQ(1, write(start[1], &x, 1));
		ASSERT_EQ(0, spm_wait(pid));
		ASSERT_EQ(0, spm_consistent(fd));
	}
	/* The region has it all. */
	spm_unmap(map, SPM_SLOT);
	map = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	for (i = 0; i < 512; i++) {
		ASSERT_TRUE(spm_stamped(map + i * SPM_PAGE, i, SEED));
	}
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	close(fd);
	close(start[0]);
	close(start[1]);
	close(ready[0]);
	close(ready[1]);
}

TEST_F(spm, parts_without_fork)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		run(_metadata, &parts[i], NO_FORK);
}

TEST_F(spm, parts_with_fork_before)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		run(_metadata, &parts[i], FORK_BEFORE);
}

TEST_F(spm, parts_with_fork_after)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		run(_metadata, &parts[i], FORK_AFTER);
}

/* Page after page, from both ends, until nothing is left. */
TEST_F(spm, page_by_page)
{
	int fd = spm_open();
	unsigned int i;
	char *map;
	long rss;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	rss = spm_rss();
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(rss + 512, spm_rss());
	for (i = 0; i < 256; i++) {
		spm_unmap(map + i * SPM_PAGE, SPM_PAGE);
		spm_unmap(map + SPM_SLOT - (i + 1) * SPM_PAGE, SPM_PAGE);
		ASSERT_EQ(rss + 510 - 2 * i, spm_rss());
	}
	ASSERT_EQ(0, spm_consistent(fd));
}

/*
 * Slots of one mapping unmapped one after the other: the gauge of superpages
 * follows at once, without anybody having looked at page tables.
 */
TEST_F(spm, gauge_follows_each_slot)
{
	int fd = spm_open(), i;
	struct spm_stats before;
	char *map;

	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(fd, map, 4 * SPM_SLOT, SPM_ADV_PROMOTE));
	spm_stats(fd, &before);
	ASSERT_EQ(4, before.live);
	for (i = 1; i <= 4; i++) {
		/* 2, 0, 3, 1: from the middle, from the ends, the last */
		spm_unmap(map + (i * 2 + i / 3) % 4 * SPM_SLOT, SPM_SLOT);
		ASSERT_EQ(-i, spm_delta(fd, &before, live));
		ASSERT_EQ(i, spm_delta(fd, &before, removals));
	}
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Nobody unmaps: exit does it. */
static int exit_with_entries(void *arg)
{
	int fd = *(int *)arg;
	char *a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	char *b = spm_map(fd, SPM_SLOT, 0, PROT_READ);

	spm_touch_write(a, SPM_SLOT);
	spm_touch_read(b, SPM_SLOT);
	spm_unmap(a + SPM_PAGE, SPM_PAGE);
	return 0;
}

TEST_F(spm, exit_without_unmap)
{
	int fd = spm_open(), i;
	struct spm_stats s;

	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, spm_fork_run(exit_with_entries, &fd));
		ASSERT_EQ(0, spm_consistent(fd));
		spm_stats(fd, &s);
		ASSERT_EQ(0, s.live);
		ASSERT_EQ(0, s.maps);
		ASSERT_EQ(512, s.pages);
	}
}

SPM_TEST_MAIN
