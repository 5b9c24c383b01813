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
#include "spm_sync.h"

#define RESERVATIONS	200
#define CGROUP		"/sys/fs/cgroup/superpmap-memory"

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		spm_die("cannot write %s to %s", text, path);
	close(fd);
}

static long long read_number(const char *path, const char *key)
{
	char line[256];
	long long v = -1;
	FILE *f = fopen(path, "r");

	if (!f)
		spm_die("open %s", path);
	while (fgets(line, sizeof(line), f)) {
		if (!key) {
			v = atoll(line);
			break;
		}
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ')
			v = atoll(line + strlen(key));
	}
	fclose(f);
	return v;
}

/*
 * Takes memory until it is killed: by huge pages as long as there are any, which
 * is many times faster on a kernel that checks every access.
 */
static int hog(void *arg)
{
	size_t step = 16UL << 20;
	char *p;

	write_to("/proc/self/oom_score_adj", "1000");
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

static bool cgroup_make(const char *limit)
{
	rmdir(CGROUP);
	if (mkdir(CGROUP, 0755))
		return false;
	if (access(CGROUP "/memory.max", F_OK)) {
		rmdir(CGROUP);
		return false;
	}
	write_to(CGROUP "/memory.max", limit);
	if (!access(CGROUP "/memory.swap.max", F_OK))
		write_to(CGROUP "/memory.swap.max", "0");
	return true;
}

/*
 * Is all given back?  The kernel keeps a charge of 64 pages at hand on each
 * processor, and a little for its own; one slot is more than that.
 */
static bool cgroup_is_empty(void)
{
	long long some = sysconf(_SC_NPROCESSORS_ONLN) * 64 * 4096 + (256 << 10);
	long long n = 0;
	int i;

	for (i = 0; i < 100; i++) {
		n = read_number(CGROUP "/memory.current", NULL);
		if (n < some)
			return true;
		usleep(100000);
	}
	spm_note("%lld bytes are left in the cgroup", n);
	return false;
}

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

	write_to(CGROUP "/cgroup.procs", "0");
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

	if (!cgroup_make("64M"))
		SKIP(return, "no memory cgroups");
	EXPECT_EQ(0, spm_fork_run(eat, &e));
	EXPECT_EQ(0, read_number(CGROUP "/memory.events", "oom_kill"));
	/* It was charged for what it touched. */
	if (!access(CGROUP "/memory.peak", F_OK)) {
		EXPECT_LE(e.len, read_number(CGROUP "/memory.peak", NULL));
	}
	EXPECT_TRUE(cgroup_is_empty());
	EXPECT_EQ(0, rmdir(CGROUP));
}

TEST_F(spm, cgroup_beyond_its_limit)
{
	struct eater e = { -1, 200UL << 20, false };

	if (!cgroup_make("64M"))
		SKIP(return, "no memory cgroups");
	EXPECT_EQ(256 + SIGKILL, spm_fork_run(eat, &e));
	EXPECT_LT(0, read_number(CGROUP "/memory.events", "oom_kill"));
	EXPECT_TRUE(cgroup_is_empty());
	EXPECT_EQ(0, rmdir(CGROUP));
}

TEST_F(spm, cgroup_beyond_its_limit_by_advice)
{
	struct eater e = { -1, 200UL << 20, true };
	int status;

	if (!cgroup_make("64M"))
		SKIP(return, "no memory cgroups");
	status = spm_fork_run(eat, &e);
	EXPECT_TRUE(status == 7 || status == 256 + SIGKILL) {
		TH_LOG("status %d", status);
	}
	EXPECT_TRUE(cgroup_is_empty());
	EXPECT_EQ(0, rmdir(CGROUP));
}

/* The region lives on with what was stored before the kill. */
TEST_F(spm, region_survives_a_kill_in_a_cgroup)
{
	struct eater e = { spm_open(), 200UL << 20, false };
	struct spm_stats s;
	char *p;

	if (!cgroup_make("64M"))
		SKIP(return, "no memory cgroups");
	p = spm_map(e.fd, e.len, 0, SPM_RW);
	spm_fill(p + e.len - SPM_SLOT, 5, SPM_SLOT_PAGES, 3);
	EXPECT_EQ(256 + SIGKILL, spm_fork_run(eat, &e));
	EXPECT_EQ(-1, spm_wrong(p + e.len - SPM_SLOT, 5, SPM_SLOT_PAGES, 3));
	EXPECT_EQ(1, p[0]);
	EXPECT_EQ(0, spm_consistent(e.fd));
	/* Memory of a region outlives the process that touched it ... */
	spm_stats(e.fd, &s);
	EXPECT_LT(SPM_SLOT_PAGES, s.pages);
	EXPECT_LT(SPM_SLOT, read_number(CGROUP "/memory.current", NULL));
	/* ... until it is discarded. */
	EXPECT_EQ(0, spm_advise_off(e.fd, 0, e.len, SPM_ADV_DISCARD));
	EXPECT_TRUE(cgroup_is_empty());
	EXPECT_EQ(0, rmdir(CGROUP));
}

SPM_TEST_MAIN
