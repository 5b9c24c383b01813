// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory is charged to the group of the task that touches it first, a
 * reservation whole, a copy to who copies, until it is given back, whoever used
 * it meanwhile.  Where a reservation does not fit below the limit, single pages
 * that do are taken.  Beyond the limit the group's OOM killer ends a process of
 * the group, and nobody else notices.
 * Guards against: SIGBUS because a block is too large for a limit, charges that
 * stay behind, and processes outside a group that suffer from its limit.
 *
 * spm-test: timeout=240 log="Call Trace:|page allocation failure"
 * spm-test: full=debug,7.3
 */
#include "spm_cgroup.h"
#include "spm_sync.h"

#define GROUP_A	SPM_CGROUP_ROOT "superpmap-a"
#define GROUP_B	SPM_CGROUP_ROOT "superpmap-b"
#define SLOTS	6
#define LEN	(SLOTS * SPM_SLOT)

/* What a process does in a group: one access to each @step-th page. */
struct work {
	const char *group;
	int fd;
	size_t from, len, step;
	bool private, read;
};

static int do_work(void *arg)
{
	struct work *w = arg;
	size_t i;
	char *p;

	p = w->private ? spm_private(w->fd, w->len, w->from, SPM_RW) :
			 spm_map(w->fd, w->len, w->from, SPM_RW);
	spm_cgroup_enter(w->group);
	for (i = 0; i < w->len; i += w->step * SPM_PAGE) {
		if (w->read)
			*(volatile char *)(p + i);
		else
			spm_stamp(p + i, (w->from + i) / SPM_PAGE, 1);
	}
	return 0;
}

/* Its exit status. */
static int work(const char *group, int fd, size_t from, size_t len, size_t step)
{
	struct work w = { group, fd, from, len, step };

	return spm_fork_run(do_work, &w);
}

TEST_F(spm, charged_to_the_first_touch)
{
	struct work all = { GROUP_B, spm_open(), 0, LEN, 1, .read = true };
	int fd = all.fd;

	spm_cgroup_make(GROUP_A, "memory.max", "64M");
	spm_cgroup_make(GROUP_B, "memory.max", "64M");
	EXPECT_EQ(0, work(GROUP_A, fd, 0, 3 * SPM_SLOT, 1));
	EXPECT_EQ(0, work(GROUP_B, fd, 3 * SPM_SLOT, SPM_SLOT, 1));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 3 * SPM_SLOT));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_B, SPM_SLOT));
	/* A reservation is charged whole, to who touches one page of it first. */
	EXPECT_EQ(0, work(GROUP_A, fd, 4 * SPM_SLOT, SPM_SLOT, 512));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 4 * SPM_SLOT));
	EXPECT_EQ(0, work(GROUP_B, fd, 4 * SPM_SLOT, SPM_SLOT, 1));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 4 * SPM_SLOT));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_B, SPM_SLOT));
	/* Who comes later uses it for nothing; a load of a hole is a touch. */
	EXPECT_EQ(0, spm_fork_run(do_work, &all));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 4 * SPM_SLOT));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_B, 2 * SPM_SLOT));
	EXPECT_EQ(0, spm_consistent(fd));

	/* A discard gives back what was charged, whoever asks for it. */
	EXPECT_EQ(0, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_DISCARD));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 3 * SPM_SLOT));
	EXPECT_EQ(0, close(fd));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 0));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_B, 0));
	spm_cgroup_remove(GROUP_A);
	spm_cgroup_remove(GROUP_B);
}

/* The copies last as long as the mapping: it looks at its group itself. */
static int copy_and_look(void *arg)
{
	struct work *w = arg;
	int ret = do_work(w);

	spm_child_check(spm_cgroup_holds(GROUP_B, 2 * SPM_SLOT), "of the copier");
	spm_child_check(spm_cgroup_holds(GROUP_A, LEN), "of the owner");
	return ret;
}

TEST_F(spm, copies_are_charged_to_who_copies)
{
	struct work w = { GROUP_B, spm_open(), 0, 2 * SPM_SLOT, 100,
			  .private = true };

	spm_cgroup_make(GROUP_A, "memory.max", "64M");
	spm_cgroup_make(GROUP_B, "memory.max", "64M");
	EXPECT_EQ(0, work(GROUP_A, w.fd, 0, LEN, 1));
	EXPECT_EQ(0, spm_fork_run(copy_and_look, &w));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_B, 0));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, LEN));
	/* The group is gone, what was charged to it is in use. */
	spm_cgroup_remove(GROUP_A);
	EXPECT_EQ(0, work(GROUP_B, w.fd, 0, LEN, 1));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_B, 0));
	EXPECT_EQ(0, spm_all_consistent());
	EXPECT_EQ(0, close(w.fd));
	spm_cgroup_remove(GROUP_B);
}

/*
 * Forty slots with a page each: their blocks are five times the limit, so that the
 * first are broken for the next ones, or there is none for these.
 */
TEST_F(spm, single_pages_where_a_block_does_not_fit)
{
	size_t len = 40 * SPM_SLOT, i;
	struct spm_stats s;
	int fd = spm_open();
	char *p;

	spm_cgroup_make(GROUP_A, "memory.max", "16M");
	EXPECT_EQ(0, work(GROUP_A, fd, 0, len, 512));
	EXPECT_EQ(0, spm_cgroup_read(GROUP_A, "memory.events", "oom_kill"));
	EXPECT_GE(16 << 20, spm_cgroup_read(GROUP_A, "memory.current", NULL));
	spm_stats(fd, &s);
	EXPECT_EQ(40, s.pages);
	EXPECT_LT(0, s.loose);
	EXPECT_LT(0, s.reserv_live);
	EXPECT_EQ(40, s.loose + s.reserv_live);
	EXPECT_EQ(s.loose, s.reserv_unavailable + s.reserv_broken);
	p = spm_map(fd, len, 0, PROT_READ);
	for (i = 0; i < 40; i++)
		EXPECT_TRUE(spm_stamped(p + i * SPM_SLOT, i * SPM_SLOT_PAGES, 1));
	EXPECT_EQ(0, spm_consistent(fd));
	spm_unmap(p, len);
	EXPECT_EQ(0, close(fd));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 0));
	spm_cgroup_remove(GROUP_A);
}

/* A process outside, which uses the region until it is told to stop. */
struct bystander {
	int fd;
	size_t from;
	atomic_bool *stop;
};

static int stand_by(void *arg)
{
	struct bystander *b = arg;
	char *p = spm_map(b->fd, 2 * SPM_SLOT, b->from, SPM_RW);
	unsigned int seed = 0;

	do {
		spm_fill(p, 0, 2 * SPM_SLOT_PAGES, ++seed);
		spm_child_check(spm_wrong(p, 0, 2 * SPM_SLOT_PAGES, seed) == -1,
				"content");
	} while (!atomic_load(b->stop));
	return 0;
}

static void beyond_the_limit(struct __test_metadata *_metadata, bool private)
{
	struct work w = { GROUP_A, spm_open(), 0, 128UL << 20, 1,
			  .private = private };
	struct bystander b = { w.fd, w.len };
	pid_t pid;

	b.stop = mmap(NULL, SPM_PAGE, SPM_RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(b.stop != MAP_FAILED);
	spm_cgroup_make(GROUP_A, "memory.max", "32M");
	pid = spm_fork(stand_by, &b);
	EXPECT_EQ(256 + SIGKILL, spm_fork_run(do_work, &w));
	EXPECT_EQ(1, spm_cgroup_read(GROUP_A, "memory.events", "oom_kill"));
	atomic_store(b.stop, true);
	EXPECT_EQ(0, spm_wait(pid));
	EXPECT_EQ(0, spm_all_consistent());
	EXPECT_EQ(0, close(w.fd));
	EXPECT_TRUE(spm_cgroup_holds(GROUP_A, 0));
	spm_cgroup_remove(GROUP_A);
}

TEST_F(spm, shared_beyond_the_limit)
{
	beyond_the_limit(_metadata, false);
}

TEST_F(spm, copies_beyond_the_limit)
{
	beyond_the_limit(_metadata, true);
}

SPM_TEST_MAIN
