// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory that is set aside but empty is no reason to kill anybody.  It
 * comes back before the OOM killer is called: when the machine runs short, with
 * kswapd at rest again soon, and when a memory cgroup reaches its limit, from
 * that cgroup's own reservations.
 * Guards against: programs killed, or given SIGBUS, for the sake of pages that
 * hold nothing; a shrinker that is asked in vain for ever, or that takes from
 * those who are far below their limit.
 *
 * spm-test: timeout=400 full=debug,7.3
 */
#include "spm_sync.h"
#include <dirent.h>

#define LIMITED		"/sys/fs/cgroup/superpmap-limit"
#define OTHER		"/sys/fs/cgroup/superpmap-other"

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		spm_die("cannot write %s to %s", text, path);
	close(fd);
}

/* The number after @key at the beginning of a line; -1: no such. */
static long long read_key(const char *path, const char *key)
{
	size_t len = strlen(key);
	long long v = -1;
	char line[256];
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, len) && line[len] == ' ')
			v = atoll(line + len + 1);
	if (f)
		fclose(f);
	return v;
}

/* Processor time of all kswapd threads, in clock ticks. */
static long kswapd_ticks(void)
{
	long sum = 0;
	struct dirent *e;
	DIR *d = opendir("/proc");

	while (d && (e = readdir(d))) {
		char path[300], name[32];
		unsigned long user, system;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = atoi(e->d_name) ? fopen(path, "r") : NULL;
		if (f && fscanf(f, "%*d (%31[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
				name, &user, &system) == 3 &&
		    !strncmp(name, "kswapd", 6))
			sum += user + system;
		if (f)
			fclose(f);
	}
	closedir(d);
	return sum;
}

/* Takes @arg bytes and touches them, by huge pages where there are any. */
static int take(void *arg)
{
	size_t len = *(size_t *)arg, step = 16UL << 20, done;

	write_to("/proc/self/oom_score_adj", "1000");
	for (done = 0; done < len; done += step) {
		char *p = mmap(NULL, step, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		spm_child_check(p != MAP_FAILED, "mmap");
		madvise(p, step, MADV_HUGEPAGE);
		spm_touch_write(p, step);
	}
	return 0;
}

static void stamp_all(char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		spm_stamp(p + i * SPM_SLOT + i % 512 * SPM_PAGE, i, 1);
}

static long unstamped(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!spm_stamped(p + i * SPM_SLOT + i % 512 * SPM_PAGE, i, 1))
			return i;
	return -1;
}

/* 7/10 of the memory set aside and empty, 6/10 of it wanted by another. */
TEST_F(spm, empty_memory_before_the_oom_killer)
{
	size_t total = spm_meminfo("MemTotal") << 10;
	size_t n = total / 10 * 7 / SPM_SLOT, hog = total / 10 * 6;
	long long kills = read_key("/proc/vmstat", "oom_kill");
	struct spm_stats before, now;
	int fd = spm_open(), i;
	double start, took;
	char *p = spm_map(fd, n * SPM_SLOT, 0, SPM_RW);
	long ticks, later;

	spm_stats(fd, &before);
	stamp_all(p, n);
	spm_stats(fd, &now);
	TH_LOG("%zu slots with a page each: %llu reservations, %llu MB empty",
	       n, (unsigned long long)now.reserv_live,
	       (unsigned long long)now.reserv_empty >> 8);
	/* The shrinker may have been asked already. */
	EXPECT_LT(n / 2, now.reserv_live);
	ticks = kswapd_ticks();
	start = spm_now();
	EXPECT_EQ(0, spm_fork_run(take, &hog));
	took = spm_now() - start;
	EXPECT_EQ(kills, read_key("/proc/vmstat", "oom_kill"));
	TH_LOG("another took %zu MB in %.1f s; %lld reservations broken, %lld held, %lld without memory; kswapd ran for %ld ms",
	       hog >> 20, took, spm_delta(fd, &before, reserv_broken),
	       spm_delta(fd, &before, evacuate_held),
	       spm_delta(fd, &before, evacuate_nomem),
	       (kswapd_ticks() - ticks) * 1000 / sysconf(_SC_CLK_TCK));
	EXPECT_LT(n / 4, (size_t)spm_delta(fd, &before, reserv_reclaimed));
	EXPECT_EQ(-1, unstamped(p, n));
	EXPECT_EQ(0, spm_consistent(fd));

	/* With memory free again, nothing keeps kswapd busy. */
	for (i = 0; i < 30; i++) {
		ticks = kswapd_ticks();
		sleep(1);
		later = kswapd_ticks();
		if (later - ticks <= sysconf(_SC_CLK_TCK) / 20)
			break;
	}
	EXPECT_GT(30, i);
}

/* -- memory cgroups -------------------------------------------------------- */

static bool cgroup_make(const char *path)
{
	char file[128];

	rmdir(path);
	if (mkdir(path, 0755))
		return false;
	snprintf(file, sizeof(file), "%s/memory.max", path);
	if (access(file, F_OK)) {
		rmdir(path);
		return false;
	}
	return true;
}

static void cgroup_remove(struct __test_metadata *_metadata, const char *path)
{
	int i;

	/* The dead are gone for good a moment after they were waited for. */
	for (i = 0; i < 100 && rmdir(path); i++)
		usleep(100000);
	EXPECT_GT(100, i);
}

struct toucher {
	int fd;
	const char *cgroup;
	size_t slots;
};

/* A page in each slot: much is set aside, and little of it used. */
static int touch(void *arg)
{
	struct toucher *t = arg;
	char file[128], *p;

	snprintf(file, sizeof(file), "%s/cgroup.procs", t->cgroup);
	write_to(file, "0");
	p = spm_map(t->fd, t->slots * SPM_SLOT, 0, SPM_RW);
	stamp_all(p, t->slots);
	spm_child_check(unstamped(p, t->slots) == -1, "content");
	return 0;
}

TEST_F(spm, a_limit_takes_empty_parts_first)
{
	int fd = spm_open(), other = spm_open();
	struct toucher mine = { fd, LIMITED, 100 };
	struct toucher theirs = { other, OTHER, 20 };
	struct spm_stats before, others;
	char *p;

	if (!cgroup_make(LIMITED))
		SKIP(return, "no memory cgroups");
	ASSERT_TRUE(cgroup_make(OTHER));
	/* 200 MB set aside by turns, 32 MB allowed. */
	write_to(LIMITED "/memory.max", "33554432");
	if (!access(LIMITED "/memory.swap.max", F_OK))
		write_to(LIMITED "/memory.swap.max", "0");
	EXPECT_EQ(0, spm_fork_run(touch, &theirs));
	spm_stats(fd, &before);
	spm_stats(other, &others);
	ASSERT_EQ(20, others.reserv_live);
	EXPECT_EQ(0, spm_fork_run(touch, &mine));
	EXPECT_EQ(0, read_key(LIMITED "/memory.events", "oom_kill"));
	TH_LOG("%lld reservations had, %lld broken, %lld slots by single pages",
	       spm_delta(fd, &before, reserv_allocated),
	       spm_delta(fd, &before, reserv_broken),
	       spm_delta(fd, &before, reserv_unavailable));
	/* From its own, and from nobody else's. */
	EXPECT_LT(0, spm_delta(fd, &before, reserv_reclaimed));
	EXPECT_EQ(0, spm_delta(other, &others, reserv_broken));
	EXPECT_EQ(100, spm_delta(fd, &before, pages));
	p = spm_map(fd, 100 * SPM_SLOT, 0, SPM_RW);
	EXPECT_EQ(-1, unstamped(p, 100));
	EXPECT_EQ(0, spm_consistent(fd));
	EXPECT_EQ(0, spm_consistent(other));
	spm_unmap(p, 100 * SPM_SLOT);
	close(fd);
	close(other);
	cgroup_remove(_metadata, LIMITED);
	cgroup_remove(_metadata, OTHER);
}

/* Its reservations go to the parent's list with it, and can be had from there. */
TEST_F(spm, a_cgroup_that_is_gone_leaves_its_reservations)
{
	int fd = spm_open(), i;
	struct toucher t = { fd, OTHER, 20 };
	struct spm_stats before;
	char *p;

	if (!cgroup_make(OTHER))
		SKIP(return, "no memory cgroups");
	spm_stats(fd, &before);
	EXPECT_EQ(0, spm_fork_run(touch, &t));
	cgroup_remove(_metadata, OTHER);
	p = spm_map(fd, 20 * SPM_SLOT, 0, SPM_RW);
	EXPECT_EQ(-1, unstamped(p, 20));
	/* A page more in each: they change their place, too. */
	for (i = 0; i < 10; i++)
		spm_stamp(p + i * SPM_SLOT + 300 * SPM_PAGE, i, 2);
	for (i = 0; i < 20 && spm_delta(fd, &before, reserv_broken) < 20; i++)
		write_to("/proc/sys/vm/drop_caches", "2");
	EXPECT_EQ(20, spm_delta(fd, &before, reserv_broken));
	EXPECT_EQ(-1, unstamped(p, 20));
	EXPECT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
