// SPDX-License-Identifier: GPL-2.0
/*
 * Property: fork copies a private mapping: parent and child, and theirs in
 * turn, each keep what they had and see nothing of what the others store, in
 * whatever order they end, and by whatever means; superpages stay superpages,
 * and come back to one owner without being copied.
 *
 * Kind of bug: one side of a fork left with a writable entry; data that is lost
 * with the process that first had it; objects that nobody merges or frees when
 * a process in the middle of a line of descent goes.
 *
 * spm-test: timeout=200 smp=4
 */
#include <sys/prctl.h>

#include "spm_sync.h"

#define SEED	41
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)

struct env {
	int fd;
	char *map;
	struct spm_barrier *step;
};

/* A private mapping that has all its pages itself, promoted. */
static void env_open(struct env *e)
{
	e->fd = spm_open();
	e->map = spm_private(e->fd, LEN, 0, SPM_RW);
	spm_fill(e->map, 0, PAGES, SEED);
	if (spm_count_writable(e->fd, e->map, LEN) != PAGES ||
	    spm_count_2m(e->fd, e->map, LEN) != PAGES)
		spm_die("a private mapping that was filled is not promoted");
	e->step = spm_shared(sizeof(*e->step));
	e->step->parties = 2;
}

static int superpage_child(void *arg)
{
	struct env *e = arg;
	long n;

	/* One fault a slot brings the parent's superpages. */
	n = spm_touch_faults(e->map, LEN, false);
	spm_child_check(n == 2, "%ld faults", n);
	n = spm_count_2m(e->fd, e->map, LEN);
	spm_child_check(n == PAGES, "%ld", n);
	spm_child_check(!spm_count_writable(e->fd, e->map, LEN), "writable");
	spm_child_check(spm_wrong(e->map, 0, PAGES, SEED) == -1, "data");
	spm_barrier_wait(e->step);
	/* The parent stores, then this one. */
	spm_barrier_wait(e->step);
	spm_child_check(spm_wrong(e->map, 0, PAGES, SEED) == -1,
			"what the parent stored");
	spm_fill(e->map + 100 * SPM_PAGE, 100, 1, SEED + 2);
	spm_fill(e->map + SPM_SLOT, 512, 512, SEED + 2);
	n = spm_count_writable(e->fd, e->map, LEN);
	spm_child_check(n == 513, "%ld", n);
	n = spm_count_2m(e->fd, e->map, LEN);
	spm_child_check(n == 512, "%ld", n);
	spm_barrier_wait(e->step);
	spm_barrier_wait(e->step);
	return 0;
}

TEST_F(spm, superpages_stay)
{
	struct spm_stats before, after;
	struct env e;
	pid_t pid;

	env_open(&e);
	spm_stats_global(e.fd, &before);
	pid = spm_fork(superpage_child, &e);
	ASSERT_EQ(PAGES, spm_count_2m(e.fd, e.map, LEN));
	ASSERT_EQ(0, spm_count_writable(e.fd, e.map, LEN));
	spm_barrier_wait(e.step);
	ASSERT_EQ(1, spm_delta_global(e.fd, &before, forks));
	ASSERT_EQ(0, spm_delta_global(e.fd, &before, pages));
	ASSERT_EQ(0, spm_delta_global(e.fd, &before, cow_copied));
	spm_fill(e.map + 50 * SPM_PAGE, 50, 1, SEED + 1);
	ASSERT_EQ(1, spm_delta_global(e.fd, &before, demotions_cow));
	ASSERT_EQ(1, spm_delta_global(e.fd, &before, cow_copied));
	ASSERT_EQ(0, spm_count_none(e.fd, e.map, LEN));
	spm_barrier_wait(e.step);
	spm_barrier_wait(e.step);
	ASSERT_EQ(-1, spm_wrong(e.map, 0, 50, SEED));
	ASSERT_EQ(-1, spm_wrong(e.map + 50 * SPM_PAGE, 50, 1, SEED + 1));
	ASSERT_EQ(-1, spm_wrong(e.map + 51 * SPM_PAGE, 51, PAGES - 51, SEED));
	ASSERT_EQ(0, spm_all_consistent());

	/* The child ends: slot 1 is the parent's alone, slot 0 is merged. */
	spm_stats_global(e.fd, &before);
	spm_barrier_wait(e.step);
	ASSERT_EQ(0, spm_wait(pid));
	spm_stats_global(e.fd, &after);
	ASSERT_EQ(1, after.collapses - before.collapses);
	ASSERT_EQ(1, after.cow_merged - before.cow_merged);
	ASSERT_EQ(PAGES, after.pages);
	spm_fill(e.map + SPM_SLOT, 512, 512, SEED + 3);
	ASSERT_EQ(1, spm_delta_global(e.fd, &after, upgrades));
	spm_fill(e.map, 0, 512, SEED + 3);
	ASSERT_EQ(0, spm_delta_global(e.fd, &after, cow_copied));
	ASSERT_EQ(PAGES, spm_count_2m(e.fd, e.map, LEN));
	ASSERT_EQ(-1, spm_wrong(e.map, 0, PAGES, SEED + 3));
	ASSERT_EQ(0, spm_all_consistent());
}

/* Both sides store to all, at the same time. */
static int storing_child(void *arg)
{
	struct env *e = arg;

	spm_barrier_wait(e->step);
	spm_fill(e->map, 0, PAGES, SEED + 2);
	spm_child_check(spm_wrong(e->map, 0, PAGES, SEED + 2) == -1, "data");
	return 0;
}

TEST_F(spm, both_store_to_all)
{
	char *region, *map;
	struct env e;
	pid_t pid;
	int own;

	/* Once with the mapping's own pages, once with the region's. */
	for (own = 0; own < 2; own++) {
		env_open(&e);
		region = spm_map(e.fd, LEN, 0, SPM_RW);
		spm_promoted(e.fd, region, LEN, 0, SEED);
		map = e.map;
		if (!own)
			e.map = spm_private(e.fd, LEN, 0, SPM_RW);
		pid = spm_fork(storing_child, &e);
		spm_barrier_wait(e.step);
		spm_fill(e.map, 0, PAGES, SEED + 1);
		ASSERT_EQ(0, spm_wait(pid));
		ASSERT_EQ(-1, spm_wrong(e.map, 0, PAGES, SEED + 1));
		ASSERT_EQ(-1, spm_wrong(region, 0, PAGES, SEED));
		ASSERT_EQ(PAGES, spm_count_writable(e.fd, e.map, LEN));
		ASSERT_EQ(PAGES, spm_count_2m(e.fd, e.map, LEN));
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(map, LEN);
		if (!own)
			spm_unmap(e.map, LEN);
		spm_unmap(region, LEN);
		close(e.fd);
	}
}

/* -- a line of descent, which ends in every order ---------------------------------- */

#define DEPTH	4

enum { WAIT, CHECK, STORE, EXIT };

static struct line {
	struct {
		atomic_uint todo;
		pid_t pid;
		int bad;
	} of[DEPTH];
} *line;

/*
 * Process k stored to page k before it forked the next, and to page 100 + k
 * afterwards; those of before are inherited.  Page 200 is stored to again and
 * again.
 */
static int line_look(char *map, unsigned int k, unsigned int n)
{
	unsigned int i;
	int bad = 0;

	for (i = 0; i < DEPTH; i++) {
		bad += !spm_stamped(map + i * SPM_PAGE, i,
				    i <= k ? SEED + 1 + i : SEED);
		bad += !spm_stamped(map + (100 + i) * SPM_PAGE, 100 + i,
				    i == k ? SEED + 10 + i : SEED);
	}
	bad += !spm_stamped(map + 200 * SPM_PAGE, 200, SEED + 20 + k + n);
	bad += !spm_stamped(map + 300 * SPM_PAGE, 300, SEED);
	bad += !spm_stamped(map + 511 * SPM_PAGE, 511, SEED);
	return bad;
}

static void line_member(char *map, unsigned int k)
{
	unsigned int todo, spins = 0, n = 0;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, 0);
	spm_stamp(map + k * SPM_PAGE, k, SEED + 1 + k);
	spm_stamp(map + 200 * SPM_PAGE, 200, SEED + 20 + k);
	if (k + 1 < DEPTH) {
		pid = fork();
		if (!pid) {
			line_member(map, k + 1);
			_exit(0);
		}
	}
	spm_stamp(map + (100 + k) * SPM_PAGE, 100 + k, SEED + 10 + k);
	line->of[k].pid = getpid();
	atomic_store(&line->of[k].todo, WAIT);
	for (;;) {
		todo = atomic_load(&line->of[k].todo);
		if (todo == WAIT) {
			spm_relax(&spins);
			continue;
		}
		if (todo == EXIT)
			return;
		if (todo == STORE)
			spm_stamp(map + 200 * SPM_PAGE, 200, SEED + 20 + k + ++n);
		line->of[k].bad = line_look(map, k, n);
		atomic_store(&line->of[k].todo, WAIT);
	}
}

static int line_first(void *arg)
{
	line_member(arg, 0);
	return 0;
}

static void line_end(unsigned int k, bool killed)
{
	pid_t pid = line->of[k].pid;

	if (killed)
		kill(pid, SIGKILL);
	else
		atomic_store(&line->of[k].todo, EXIT);
	while (!kill(pid, 0))
		usleep(500);
}

static int permutation(int n, unsigned int *order)
{
	unsigned int left[DEPTH], i, k, used = DEPTH;

	for (i = 0; i < DEPTH; i++)
		left[i] = i;
	for (i = 0; i < DEPTH; i++) {
		k = n % used;
		n /= used;
		order[i] = left[k];
		left[k] = left[--used];
	}
	return n;
}

TEST_F(spm, every_order_of_exits)
{
	unsigned int order[DEPTH], i, k;
	struct spm_stats before;
	int fd = spm_open(), n;
	char *map;

	line = spm_shared(sizeof(*line));
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGCHLD, SIG_IGN);
	map = spm_private(fd, SPM_SLOT, 0, SPM_RW);
	spm_fill(map, 0, 512, SEED);
	for (n = 0; !permutation(n, order); n++) {
		for (k = 0; k < DEPTH; k++)
			atomic_store(&line->of[k].todo, CHECK);
		spm_fork(line_first, map);
		for (k = 0; k < DEPTH; k++)
			spm_wait_for(&line->of[k].todo, WAIT);
		for (i = 0; i < DEPTH; i++) {
			for (k = 0; k < DEPTH; k++) {
				if (line->of[k].pid < 0)
					continue;
				atomic_store(&line->of[k].todo,
					     i % 2 ? STORE : CHECK);
				spm_wait_for(&line->of[k].todo, WAIT);
				EXPECT_EQ(0, line->of[k].bad) {
					TH_LOG("order %u%u%u%u, after %u, process %u",
					       order[0], order[1], order[2],
					       order[3], i, k);
				}
			}
			line_end(order[i], n % 2);
			line->of[order[i]].pid = -1;
		}
		ASSERT_EQ(0, spm_all_consistent());
	}
	ASSERT_EQ(24, n);
	/* All that this process has, it has alone. */
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	spm_stats_global(fd, &before);
	ASSERT_GE(1, spm_touch_faults(map, SPM_SLOT, true));
	ASSERT_EQ(0, spm_delta_global(fd, &before, cow_faults));
	ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
}

/* -- the ways to end ---------------------------------------------------------------- */

__attribute__((constructor)) static void after_exec(void)
{
	if (getenv("SPM_AFTER_EXEC"))
		_exit(42);
}

static int exec_child(void *arg)
{
	char * const argv[] = { "self", NULL };
	char * const env[] = { "SPM_AFTER_EXEC=1", NULL };
	struct env *e = arg;

	spm_fill(e->map, 0, 100, SEED + 1);
	execve("/proc/self/exe", argv, env);
	return 1;
}

static int unmapping_child(void *arg)
{
	struct env *e = arg;

	spm_unmap(e->map + SPM_SLOT / 2, SPM_SLOT);
	spm_child_check(spm_wrong(e->map, 0, 256, SEED) == -1, "data");
	spm_fill(e->map, 0, 256, SEED + 1);
	spm_child_check(mremap(e->map + 3 * SPM_SLOT / 2, SPM_SLOT / 2,
			       SPM_SLOT / 2, MREMAP_MAYMOVE | MREMAP_FIXED,
			       e->map + SPM_SLOT / 2) != MAP_FAILED, "mremap");
	spm_child_check(spm_wrong(e->map + SPM_SLOT / 2, 768, 256, SEED) == -1,
			"moved data");
	return 0;
}

static int discarding_child(void *arg)
{
	struct env *e = arg;

	spm_child_check(!spm_advise(e->fd, e->map, LEN, SPM_ADV_DISCARD), "-");
	spm_child_check(spm_nonzero(e->map, PAGES) == -1,
			"the parent's data came back");
	e->map[5 * SPM_PAGE] = 0;
	spm_child_check(spm_nonzero(e->map, PAGES) == -1,
			"the parent's data came back with a store");
	return 0;
}

static int stuck_child(void *arg)
{
	struct env *e = arg;
	unsigned int i;

	for (i = 0;; i++)
		spm_fill(e->map + i * 7 % PAGES * SPM_PAGE, 0, 1, SEED + i);
	return 1;
}

TEST_F(spm, exec_unmap_discard_kill)
{
	static int (* const fn[])(void *arg) = {
		exec_child, unmapping_child, discarding_child, stuck_child,
	};
	static const int want[] = { 42, 0, 0, 256 + SIGKILL };
	struct spm_stats before;
	unsigned int i, rounds;
	struct env e;
	pid_t pid;

	for (i = 0; i < ARRAY_SIZE(fn); i++) {
		env_open(&e);
		for (rounds = 0; rounds < (i == 3 ? 8 : 1); rounds++) {
			pid = spm_fork(fn[i], &e);
			if (i == 3) {
				usleep(1000 + rounds * 7000);
				kill(pid, SIGKILL);
			}
			ASSERT_EQ(want[i], spm_wait(pid));
			ASSERT_EQ(-1, spm_wrong(e.map, 0, PAGES, SEED));
		}
		spm_stats_global(e.fd, &before);
		ASSERT_GE(2, spm_touch_faults(e.map, LEN, true));
		ASSERT_EQ(0, spm_delta_global(e.fd, &before, cow_faults));
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(e.map, LEN);
		close(e.fd);
	}
}

static int parentless_child(void *arg)
{
	struct env *e = arg;

	spm_barrier_wait(e->step);
	spm_barrier_wait(e->step);
	spm_child_check(spm_wrong(e->map, 0, PAGES, SEED) == -1, "data");
	/* Alone with it: nothing to copy. */
	spm_child_check(spm_touch_faults(e->map, LEN, true) <= 2, "faults");
	spm_child_check(spm_count_2m(e->fd, e->map, LEN) == PAGES, "superpages");
	return 0;
}

TEST_F(spm, the_parent_unmaps_first)
{
	struct spm_stats before;
	struct env e;
	pid_t pid;

	env_open(&e);
	spm_stats_global(e.fd, &before);
	pid = spm_fork(parentless_child, &e);
	spm_barrier_wait(e.step);
	spm_unmap(e.map, LEN);
	spm_barrier_wait(e.step);
	ASSERT_EQ(0, spm_wait(pid));
	ASSERT_EQ(0, spm_delta_global(e.fd, &before, cow_copied));
	ASSERT_EQ(2, spm_delta_global(e.fd, &before, cow_optim));
	ASSERT_EQ(0, spm_all_consistent());
}

static int dontfork_child(void *arg)
{
	struct env *e = arg;

	spm_child_check(spm_try_read(e->map + SPM_SLOT) == SIGSEGV, "read");
	spm_child_check(spm_wrong(e->map, 0, 512, SEED) == -1, "slot 0");
	spm_fill(e->map, 0, 512, SEED + 1);
	return 0;
}

TEST_F(spm, dontfork)
{
	struct env e;

	env_open(&e);
	ASSERT_EQ(0, madvise(e.map + SPM_SLOT, SPM_SLOT, MADV_DONTFORK));
	ASSERT_EQ(0, spm_fork_run(dontfork_child, &e));
	ASSERT_EQ(-1, spm_wrong(e.map, 0, PAGES, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

/* A shared and a private mapping of one region, as fork finds them. */
static int both_kinds_child(void *arg)
{
	struct env *e = arg;

	spm_fill(e->map, 0, 10, SEED + 1);
	spm_fill(e->map + LEN, 5, 10, SEED + 2);
	spm_child_check(spm_wrong(e->map, 0, 10, SEED + 1) == -1, "private");
	return 0;
}

TEST_F(spm, shared_stays_shared)
{
	struct env e;
	char *both;

	env_open(&e);
	both = spm_reserve(2 * LEN, 0);
	spm_private_at(both, e.fd, LEN, 0, SPM_RW);
	spm_map_at(both + LEN, e.fd, SPM_SLOT, 5 * SPM_PAGE, SPM_RW);
	e.map = both;
	ASSERT_EQ(0, spm_fork_run(both_kinds_child, &e));
	/* Pages 5 to 14 of the region; what was not stored to sees them. */
	ASSERT_EQ(-1, spm_nonzero(both, 5));
	ASSERT_EQ(-1, spm_wrong(both + 5 * SPM_PAGE, 5, 10, SEED + 2));
	ASSERT_EQ(-1, spm_wrong(both + LEN, 5, 10, SEED + 2));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- the moment ------------------------------------------------------------------------ */

static volatile int stop;

static void *count_up(void *arg)
{
	volatile uint64_t *a = arg, *b = arg + SPM_SLOT + 9 * SPM_PAGE;
	uint64_t i;

	for (i = 1; !stop; i++) {
		*a = i;
		asm volatile("" ::: "memory");
		*b = i;
	}
	return NULL;
}

static int moment_child(void *arg)
{
	struct env *e = arg;
	uint64_t a, b;
	int i;

	for (i = 0; i < 2; i++) {
		b = *(uint64_t *)(e->map + i * 64 + SPM_SLOT + 9 * SPM_PAGE);
		a = *(uint64_t *)(e->map + i * 64);
		spm_child_check(a >= b && a - b <= 1, "%llu, then %llu",
				(unsigned long long)a, (unsigned long long)b);
	}
	return 0;
}

TEST_F(spm, fork_under_writers)
{
	double end = spm_now() + 4;
	pthread_t t[2];
	struct env e;
	int i, n;

	env_open(&e);
	memset(e.map, 0, LEN);
	for (i = 0; i < 2; i++)
		spm_thread(&t[i], count_up, e.map + i * 64);
	for (n = 0; spm_now() < end; n++)
		ASSERT_EQ(0, spm_fork_run(moment_child, &e));
	stop = 1;
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	TH_LOG("%d forks", n);
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
