// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a forked child shares the region with its parent, coherently in
 * both directions and at both page sizes; whatever the child does to its own
 * mappings, or to itself, is nothing to the parent; and when the parent gives
 * a range back, the child sees zeros.
 *
 * Kind of bug: the child's copy of a mapping is not known to the driver (no
 * open hook) or shares per-mapping state with the parent's; ranges taken from
 * addresses instead of offsets, so that only one process is invalidated.
 * Private mappings: cow_private.c, cow_fork.c.
 */
#include "spm_test.h"

#define SEED	9

struct pair {
	int fd;
	char *map;
	int to_child[2], to_parent[2];
};

static void pair_init(struct pair *p, int fd, char *map)
{
	p->fd = fd;
	p->map = map;
	if (pipe(p->to_child) || pipe(p->to_parent))
		spm_die("pipe");
}

/* Lock step: tell the other side, wait for its answer. */
static bool step(int to, int from)
{
	char c = 0;

	return write(to, &c, 1) == 1 && read(from, &c, 1) == 1;
}

#define child_step(p)	step((p)->to_parent[1], (p)->to_child[0])
#define parent_step(p)	step((p)->to_child[1], (p)->to_parent[0])

static bool parent_wait(struct pair *p)
{
	char c;

	return read(p->to_parent[0], &c, 1) == 1;
}

static void parent_go(struct pair *p)
{
	char c = 0;

	if (write(p->to_child[1], &c, 1) != 1)
		spm_die("child is gone");
}

static int coherent_child(void *arg)
{
	struct pair *p = arg;
	char *map = p->map;

	spm_child_check(spm_wrong(map, 0, 512, SEED) == -1, "parent's data");
	/* One fault for all of it; the parent's entry was not copied. */
	spm_child_check(spm_count_2m(p->fd, map, SPM_SLOT) == 512, "%ld",
			spm_count_2m(p->fd, map, SPM_SLOT));
	spm_fill(map, 0, 256, SEED + 1);
	if (!child_step(p))
		return 1;
	spm_child_check(spm_wrong(map + SPM_SLOT / 2, 256, 256, SEED + 2) == -1,
			"what the parent wrote");
	/* 4 KB pages: the child populates, the parent reads. */
	spm_fill(map + SPM_SLOT + 3 * SPM_PAGE, 515, 2, SEED);
	return 0;
}

TEST_F(spm, coherent_both_ways)
{
	int fd = spm_open();
	char *map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	struct pair p;
	pid_t pid;

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	map[SPM_SLOT] = 1;
	pair_init(&p, fd, map);
	pid = spm_fork(coherent_child, &p);
	ASSERT_TRUE(parent_wait(&p));
	ASSERT_EQ(-1, spm_wrong(map, 0, 256, SEED + 1));
	ASSERT_EQ(-1, spm_wrong(map + SPM_SLOT / 2, 256, 256, SEED));
	spm_fill(map + SPM_SLOT / 2, 256, 256, SEED + 2);
	parent_go(&p);
	ASSERT_EQ(0, spm_wait(pid));
	ASSERT_EQ(-1, spm_wrong(map + SPM_SLOT + 3 * SPM_PAGE, 515, 2, SEED));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* The child fills a slot; both then have it as superpage. */
static int filling_child(void *arg)
{
	struct pair *p = arg;

	spm_fill(p->map, 0, 512, SEED);
	spm_child_check(spm_count_2m(p->fd, p->map, SPM_SLOT) == 512, "%ld",
			spm_count_2m(p->fd, p->map, SPM_SLOT));
	return 0;
}

TEST_F(spm, child_fills_what_the_parent_maps)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	struct pair p = { .fd = fd, .map = map };

	ASSERT_EQ(0, spm_fork_run(filling_child, &p));
	ASSERT_EQ(1, spm_touch_faults(map, SPM_SLOT, true));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int splitting_child(void *arg)
{
	struct pair *p = arg;
	char *map = p->map;

	spm_touch_read(map, 2 * SPM_SLOT);
	spm_unmap(map + SPM_SLOT / 2, SPM_SLOT);
	spm_child_check(spm_wrong(map, 0, 256, SEED) == -1, "first half");
	spm_child_check(spm_try_read(map + SPM_SLOT) == SIGSEGV, "hole");
	spm_child_check(spm_wrong(map + SPM_SLOT / 2 * 3, 768, 256, SEED) == -1,
			"last half");
	spm_fill(map, 0, 1, SEED + 1);
	return 0;
}

TEST_F(spm, child_unmaps_half)
{
	int fd = spm_open();
	char *map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	struct pair p = { .fd = fd, .map = map };

	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_fork_run(splitting_child, &p));
	/* The parent's own entries were not touched. */
	ASSERT_EQ(1024, spm_count_2m(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 1, SEED + 1));
	ASSERT_EQ(-1, spm_wrong(map + SPM_PAGE, 1, 1023, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int protecting_child(void *arg)
{
	struct pair *p = arg;

	p->map[0] = 1;
	if (mprotect(p->map, SPM_SLOT, PROT_READ))
		return 1;
	spm_child_check(spm_try_write(p->map, 1) == SIGSEGV, "write");
	if (mprotect(p->map + SPM_PAGE, SPM_PAGE, PROT_NONE))
		return 1;
	spm_child_check(spm_try_read(p->map + SPM_PAGE) == SIGSEGV, "read");
	return 0;
}

TEST_F(spm, child_changes_its_protection)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	struct pair p = { .fd = fd, .map = map };

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_fork_run(protecting_child, &p));
	ASSERT_EQ(0, spm_touch_faults(map, SPM_SLOT, true));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

__attribute__((constructor)) static void after_exec(void)
{
	if (getenv("SPM_AFTER_EXEC"))
		_exit(42);
}

static int exec_child(void *arg)
{
	char * const argv[] = { "self", NULL };
	char * const env[] = { "SPM_AFTER_EXEC=1", NULL };
	struct pair *p = arg;

	p->map[100] = 3;
	execve("/proc/self/exe", argv, env);
	return 1;
}

TEST_F(spm, child_execs)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	struct pair p = { .fd = fd, .map = map };

	spm_touch_write(map, SPM_SLOT);
	ASSERT_EQ(42, spm_fork_run(exec_child, &p));
	ASSERT_EQ(3, map[100]);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int discarded_child(void *arg)
{
	struct pair *p = arg;
	char *map = p->map;

	spm_child_check(spm_wrong(map, 0, 1024, SEED) == -1, "before");
	if (!child_step(p))
		return 1;
	/* pages 100..109, the whole of slot 1 */
	spm_child_check(spm_nonzero(map + 100 * SPM_PAGE, 10) == -1, "old data");
	spm_child_check(spm_nonzero(map + SPM_SLOT, 512) == -1, "old data");
	spm_child_check(spm_wrong(map, 0, 100, SEED) == -1, "lost data");
	spm_child_check(spm_wrong(map + 110 * SPM_PAGE, 110, 402, SEED) == -1,
			"lost data");
	spm_fill(map + 100 * SPM_PAGE, 100, 10, SEED + 1);
	return 0;
}

TEST_F(spm, parent_discards)
{
	int fd = spm_open();
	char *map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	struct pair p;
	pid_t pid;

	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	pair_init(&p, fd, map);
	pid = spm_fork(discarded_child, &p);
	ASSERT_TRUE(parent_wait(&p));
	ASSERT_EQ(0, spm_advise(fd, map + 100 * SPM_PAGE, 10 * SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise(fd, map + SPM_SLOT, SPM_SLOT, SPM_ADV_DISCARD));
	parent_go(&p);
	ASSERT_EQ(0, spm_wait(pid));
	ASSERT_EQ(-1, spm_wrong(map + 100 * SPM_PAGE, 100, 10, SEED + 1));
	ASSERT_EQ(-1, spm_nonzero(map + SPM_SLOT, 512));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int dontfork_child(void *arg)
{
	struct pair *p = arg;

	spm_child_check(spm_try_read(p->map + SPM_SLOT) == SIGSEGV, "read");
	spm_child_check(spm_try_write(p->map + 2 * SPM_SLOT - 1, 1) == SIGSEGV,
			"write");
	spm_child_check(spm_wrong(p->map, 0, 512, SEED) == -1, "slot 0");
	return 0;
}

TEST_F(spm, dontfork)
{
	int fd = spm_open();
	char *map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	struct pair p = { .fd = fd, .map = map };

	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, madvise(map + SPM_SLOT, SPM_SLOT, MADV_DONTFORK));
	ASSERT_EQ(0, spm_fork_run(dontfork_child, &p));
	/* Whole slots: nothing had to be demoted. */
	ASSERT_EQ(1024, spm_count_2m(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Two generations, the middle one gone. */
static int grandchild(void *arg)
{
	struct pair *p = arg;

	spm_child_check(spm_wrong(p->map, 0, 512, SEED) == -1, "data");
	spm_fill(p->map + SPM_PAGE, 1, 1, SEED + 1);
	return 0;
}

static int middle(void *arg)
{
	struct pair *p = arg;
	pid_t pid = spm_fork(grandchild, arg);

	spm_unmap(p->map, SPM_SLOT);
	return spm_wait(pid);
}

TEST_F(spm, grandchild)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	struct pair p = { .fd = fd, .map = map };

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_fork_run(middle, &p));
	ASSERT_EQ(-1, spm_wrong(map + SPM_PAGE, 1, 1, SEED + 1));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
