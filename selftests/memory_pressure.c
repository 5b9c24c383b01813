// SPDX-License-Identifier: GPL-2.0
/*
 * Property: many slots with one page each, which hold far more memory than they
 * show, do no harm when memory runs out: whoever takes too much is killed, and
 * the pages keep their content.  In a memory cgroup, touching more than its
 * limit ends in a kill inside that cgroup, never in SIGBUS, and what the dead
 * process used is given back.
 * Guards against: lock-ups in reclaim, memory that is not charged to whoever
 * touches it, and "bus error" as the answer to a limit.
 *
 * spm-test: timeout=240 log="Call Trace:|page allocation failure"
 * spm-test: full=debug,7.3
 */
#include "spm_cgroup.h"
#include "spm_sync.h"

#define RESERVATIONS	200
#define CGROUP		SPM_CGROUP_ROOT "superpmap-memory"

/*
 * Takes memory until it is killed: by huge pages as long as there are any, which
 * is many times faster on a kernel that checks every access.
 */
static int hog(void *arg)
{
	size_t step = 16UL << 20;
	char *p;

	spm_file_write("/proc/self/oom_score_adj", "1000");
	for (;;) {
		p = mmap(NULL, step, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		spm_child_check(p != MAP_FAILED, "mmap");
		madvise(p, step, MADV_HUGEPAGE);
		spm_touch_write(p, step);
	}
}

TEST_F(spm, one_page_in_each_of_many_slots)
{
	struct spm_stats before, now;
	int fd = spm_open();
	size_t len = RESERVATIONS * SPM_SLOT, i;
	char *p = spm_map(fd, len, 0, SPM_RW);

	spm_stats(fd, &before);
	for (i = 0; i < RESERVATIONS; i++)
		spm_stamp(p + i * SPM_SLOT + i * SPM_PAGE,
			  i * SPM_SLOT_PAGES + i, 1);
	spm_stats(fd, &now);
	EXPECT_EQ(RESERVATIONS, now.pages);
	EXPECT_EQ(RESERVATIONS, now.reserv_live + now.reserv_unavailable -
				before.reserv_unavailable);
	EXPECT_EQ(now.reserv_live, now.reserv_partpopq);
	EXPECT_EQ(0, spm_consistent(fd));

	EXPECT_EQ(256 + SIGKILL, spm_fork_run(hog, NULL));

	for (i = 0; i < RESERVATIONS; i++)
		EXPECT_TRUE(spm_stamped(p + i * SPM_SLOT + i * SPM_PAGE,
					i * SPM_SLOT_PAGES + i, 1));
	/* New memory can be had, also of these slots. */
	spm_fill(p, 0, SPM_SLOT_PAGES, 2);
	EXPECT_EQ(-1, spm_wrong(p, 0, SPM_SLOT_PAGES, 2));
	EXPECT_EQ(0, spm_consistent(fd));
	EXPECT_EQ(0, spm_advise_off(fd, 0, len, SPM_ADV_DISCARD));
	spm_stats(fd, &now);
	EXPECT_EQ(0, now.pages);
	EXPECT_EQ(0, now.reserv_live);
}

/* -- a memory cgroup ------------------------------------------------------- */

struct eater {
	int fd;
	size_t len;
	bool promote;
};

static int eat(void *arg)
{
	struct eater *e = arg;
	char *p;
	int err;

	spm_cgroup_enter(CGROUP);
	if (e->fd < 0)
		e->fd = spm_open();
	p = spm_map(e->fd, e->len, 0, SPM_RW);
	if (e->promote) {
		/* A call can say that there is no memory, or be killed. */
		err = spm_advise(e->fd, p, e->len, SPM_ADV_PROMOTE);
		spm_child_check(err == -ENOMEM || err == -EINTR, "gave %d", err);
		return 7;
	}
	spm_touch_write(p, e->len);
	return 0;
}

TEST_F(spm, cgroup_within_its_limit)
{
	struct eater e = { -1, 20UL << 20, false };

	spm_cgroup_make(CGROUP, "memory.max", "64M");
	EXPECT_EQ(0, spm_fork_run(eat, &e));
	EXPECT_EQ(0, spm_cgroup_read(CGROUP, "memory.events", "oom_kill"));
	/* It was charged for what it touched. */
	if (!access(CGROUP "/memory.peak", F_OK)) {
		EXPECT_LE(e.len, spm_cgroup_read(CGROUP, "memory.peak", NULL));
	}
	EXPECT_TRUE(spm_cgroup_holds(CGROUP, 0));
	spm_cgroup_remove(CGROUP);
}

TEST_F(spm, cgroup_beyond_its_limit)
{
	struct eater e = { -1, 200UL << 20, false };

	spm_cgroup_make(CGROUP, "memory.max", "64M");
	EXPECT_EQ(256 + SIGKILL, spm_fork_run(eat, &e));
	EXPECT_LT(0, spm_cgroup_read(CGROUP, "memory.events", "oom_kill"));
	EXPECT_TRUE(spm_cgroup_holds(CGROUP, 0));
	spm_cgroup_remove(CGROUP);
}

TEST_F(spm, cgroup_beyond_its_limit_by_advice)
{
	struct eater e = { -1, 200UL << 20, true };
	int status;

	spm_cgroup_make(CGROUP, "memory.max", "64M");
	status = spm_fork_run(eat, &e);
	EXPECT_TRUE(status == 7 || status == 256 + SIGKILL) {
		TH_LOG("status %d", status);
	}
	EXPECT_TRUE(spm_cgroup_holds(CGROUP, 0));
	spm_cgroup_remove(CGROUP);
}

/* The region lives on with what was stored before the kill. */
TEST_F(spm, region_survives_a_kill_in_a_cgroup)
{
	struct eater e = { spm_open(), 200UL << 20, false };
	struct spm_stats s;
	char *p;

	spm_cgroup_make(CGROUP, "memory.max", "64M");
	p = spm_map(e.fd, e.len, 0, SPM_RW);
	spm_fill(p + e.len - SPM_SLOT, 5, SPM_SLOT_PAGES, 3);
	EXPECT_EQ(256 + SIGKILL, spm_fork_run(eat, &e));
	EXPECT_EQ(-1, spm_wrong(p + e.len - SPM_SLOT, 5, SPM_SLOT_PAGES, 3));
	EXPECT_EQ(1, p[0]);
	EXPECT_EQ(0, spm_consistent(e.fd));
	/* Memory of a region outlives the process that touched it ... */
	spm_stats(e.fd, &s);
	EXPECT_LT(SPM_SLOT_PAGES, s.pages);
	EXPECT_LT(SPM_SLOT, spm_cgroup_read(CGROUP, "memory.current", NULL));
	/* ... until it is discarded. */
	EXPECT_EQ(0, spm_advise_off(e.fd, 0, e.len, SPM_ADV_DISCARD));
	EXPECT_TRUE(spm_cgroup_holds(CGROUP, 0));
	spm_cgroup_remove(CGROUP);
}

SPM_TEST_MAIN
