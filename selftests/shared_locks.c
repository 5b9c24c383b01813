// SPDX-License-Identifier: GPL-2.0
/*
 * Property: futexes, mutexes, condition variables and semaphores in a region
 * work between processes that map it at different addresses, on 4 KB and on
 * 2 MB entries, and while the entry changes under a waiter.
 * Guards against: EFAULT or separate wait queues because the kernel cannot name
 * the page, and a waiter that is never woken because its page was promoted,
 * demoted or discarded while it slept.
 *
 * spm-test: smp=4 full=debug,7.3
 */
#include "spm_sync.h"

#include <linux/futex.h>
#include <semaphore.h>

#define LEN	(2 * SPM_SLOT)

/* Where the locks live: not the first page, and across no page border. */
#define OFFSET	(7 * SPM_PAGE + 512)

struct locks {
	uint32_t word, other;
	uint32_t turn;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem[2];
	unsigned int value, rounds;
};

struct env {
	int fd;
	char *p;
	struct locks *l;
};

static int handovers(void)
{
	return spm_slow_kernel() ? 1000 : 20000;
}

static long futex(uint32_t *word, int op, uint32_t value,
		  const struct timespec *timeout)
{
	long n = syscall(__NR_futex, word, op, value, timeout, NULL, 0);

	return n < 0 ? -errno : n;
}

/* Each process has a place of its own for the region. */
static void env_map(struct env *e)
{
	e->p = spm_map(e->fd, LEN, 0, SPM_RW);
	e->l = (struct locks *)(e->p + OFFSET);
}

static void env_open(struct env *e, bool promoted)
{
	pthread_mutexattr_t ma;
	pthread_condattr_t ca;

	e->fd = spm_open();
	env_map(e);
	if (promoted)
		spm_promoted(e->fd, e->p, LEN, 0, 1);
	memset(e->l, 0, sizeof(*e->l));
	pthread_mutexattr_init(&ma);
	pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&ma, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&e->l->mutex, &ma);
	pthread_condattr_init(&ca);
	pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&e->l->cond, &ca);
	sem_init(&e->l->sem[0], 1, 0);
	sem_init(&e->l->sem[1], 1, 0);
}

/* Run fn in a child which has mapped the region anew, elsewhere. */
struct job {
	struct env e;
	char *parents;
	int (*fn)(struct env *e);
};

static int run_job(void *arg)
{
	struct job *j = arg;

	env_map(&j->e);
	spm_child_check(j->e.p != j->parents, "mapped at the same place");
	return j->fn(&j->e);
}

static pid_t start(struct env *e, int (*fn)(struct env *e))
{
	struct job j = { .e = *e, .parents = e->p, .fn = fn };

	return spm_fork(run_job, &j);
}

static void both_ways(struct __test_metadata *_metadata,
		      void (*fn)(struct __test_metadata *, struct env *))
{
	struct env e;
	int promoted;

	for (promoted = 0; promoted < 2; promoted++) {
		TH_LOG("%s", promoted ? "2 MB entry" : "4 KB entry");
		env_open(&e, promoted);
		fn(_metadata, &e);
		EXPECT_EQ(0, spm_consistent(e.fd));
		spm_unmap(e.p, LEN);
		close(e.fd);
	}
}

/* -- futex words handed to and fro --------------------------------------- */

static int pass_turns(struct locks *l, uint32_t me, int n)
{
	struct timespec limit = { 60, 0 };
	long ret;

	while (n--) {
		while (__atomic_load_n(&l->turn, __ATOMIC_ACQUIRE) != me) {
			ret = futex(&l->turn, FUTEX_WAIT, !me, &limit);
			spm_child_check(ret == 0 || ret == -EAGAIN ||
					ret == -EINTR, "wait gave %ld", ret);
		}
		__atomic_store_n(&l->turn, !me, __ATOMIC_RELEASE);
		ret = futex(&l->turn, FUTEX_WAKE, 1, NULL);
		spm_child_check(ret >= 0, "wake gave %ld", ret);
	}
	return 0;
}

static int child_turns(struct env *e)
{
	return pass_turns(e->l, 1, handovers());
}

static void futex_turns(struct __test_metadata *_metadata, struct env *e)
{
	pid_t pid = start(e, child_turns);

	EXPECT_EQ(0, pass_turns(e->l, 0, handovers()));
	EXPECT_EQ(0, spm_wait(pid));
}

TEST_F(spm, futex_between_processes)
{
	both_ways(_metadata, futex_turns);
}

/* -- the entry changes while somebody waits ------------------------------ */

static int child_wait(struct env *e)
{
	struct timespec limit = { 60, 0 };
	long ret;

	__atomic_store_n(&e->l->other, 1, __ATOMIC_RELEASE);
	ret = futex(&e->l->word, FUTEX_WAIT, 0, &limit);
	spm_child_check(ret == 0, "wait gave %ld", ret);
	return 0;
}

static void wake_after(struct __test_metadata *_metadata, struct env *e,
		       const char *what, uint32_t advice)
{
	uint32_t *ready = &e->l->other;
	long woken = 0;
	pid_t pid;
	int i;

	TH_LOG("waiter, then %s", what);
	__atomic_store_n(ready, 0, __ATOMIC_RELEASE);
	pid = start(e, child_wait);
	while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	usleep(200000);		/* by then it sleeps */
	EXPECT_EQ(0, spm_advise(e->fd, e->p, SPM_SLOT, advice));
	for (i = 0; i < 300 && !woken; i++) {
		woken = futex(&e->l->word, FUTEX_WAKE, 1, NULL);
		usleep(10000);
	}
	EXPECT_EQ(1, woken);
	if (woken != 1)
		kill(pid, SIGKILL);
	EXPECT_EQ(0, spm_wait(pid));
}

TEST_F(spm, waiter_survives_changes_of_its_entry)
{
	struct env e;

	env_open(&e, false);
	wake_after(_metadata, &e, "promotion", SPM_ADV_PROMOTE);
	EXPECT_EQ(SPM_SLOT_PAGES, spm_count_2m(e.fd, e.p, SPM_SLOT));
	wake_after(_metadata, &e, "demotion", SPM_ADV_DEMOTE);
	EXPECT_EQ(0, spm_count_2m(e.fd, e.p, SPM_SLOT));
	wake_after(_metadata, &e, "discarding", SPM_ADV_DISCARD);
	EXPECT_EQ(0, spm_consistent(e.fd));
}

/* Two regions, the same offset: a wake in one is not for the other. */
TEST_F(spm, words_of_two_regions_differ)
{
	struct timespec soon = { 0, 300000000 };
	struct env a, b;
	pid_t pid;

	env_open(&a, false);
	env_open(&b, false);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(futex(&a.l->word, FUTEX_WAIT, 0, &soon) == -ETIMEDOUT ?
		      0 : 1);
	usleep(100000);
	EXPECT_EQ(0, futex(&b.l->word, FUTEX_WAKE, 1, NULL));
	EXPECT_EQ(0, spm_wait(pid));
}

/* -- what the C library makes of it -------------------------------------- */

/* Under the mutex the value is odd for a moment; nobody may see that. */
static int add_locked(struct env *e, int n)
{
	while (n--) {
		spm_child_check(!pthread_mutex_lock(&e->l->mutex), "lock");
		spm_child_check(e->l->value % 2 == 0, "value %u", e->l->value);
		e->l->value++;
		if (n % 64 == 0)
			sched_yield();
		e->l->value++;
		pthread_mutex_unlock(&e->l->mutex);
	}
	return 0;
}

static int child_add(struct env *e)
{
	return add_locked(e, handovers());
}

static void mutex_counts(struct __test_metadata *_metadata, struct env *e)
{
	pid_t a = start(e, child_add), b = start(e, child_add);

	EXPECT_EQ(0, add_locked(e, handovers()));
	EXPECT_EQ(0, spm_wait(a));
	EXPECT_EQ(0, spm_wait(b));
	EXPECT_EQ(6 * handovers(), e->l->value);
}

TEST_F(spm, mutex_excludes_processes)
{
	both_ways(_metadata, mutex_counts);
}

static int pass_by_cond(struct env *e, unsigned int me)
{
	int n = handovers();

	pthread_mutex_lock(&e->l->mutex);
	while (n--) {
		while (e->l->rounds % 2 != me)
			spm_child_check(!pthread_cond_wait(&e->l->cond,
							   &e->l->mutex),
					"wait");
		e->l->rounds++;
		pthread_cond_signal(&e->l->cond);
	}
	pthread_mutex_unlock(&e->l->mutex);
	return 0;
}

static int child_cond(struct env *e)
{
	return pass_by_cond(e, 1);
}

static void cond_turns(struct __test_metadata *_metadata, struct env *e)
{
	pid_t pid = start(e, child_cond);

	EXPECT_EQ(0, pass_by_cond(e, 0));
	EXPECT_EQ(0, spm_wait(pid));
	EXPECT_EQ(2 * handovers(), e->l->rounds);
}

TEST_F(spm, condition_between_processes)
{
	both_ways(_metadata, cond_turns);
}

static int pass_by_sem(struct env *e, int me)
{
	int n = handovers();

	while (n--) {
		while (sem_wait(&e->l->sem[me]))
			spm_child_check(errno == EINTR, "sem_wait %d", errno);
		e->l->rounds++;
		sem_post(&e->l->sem[!me]);
	}
	return 0;
}

static int child_sem(struct env *e)
{
	return pass_by_sem(e, 1);
}

static void sem_turns(struct __test_metadata *_metadata, struct env *e)
{
	pid_t pid = start(e, child_sem);

	sem_post(&e->l->sem[0]);
	EXPECT_EQ(0, pass_by_sem(e, 0));
	EXPECT_EQ(0, spm_wait(pid));
	EXPECT_EQ(2 * handovers(), e->l->rounds);
}

TEST_F(spm, semaphores_between_processes)
{
	both_ways(_metadata, sem_turns);
}

/* The kernel itself marks the word when the owner dies. */
static int child_dies_with_lock(struct env *e)
{
	spm_child_check(!pthread_mutex_lock(&e->l->mutex), "lock");
	kill(getpid(), SIGKILL);
	return 1;
}

static void owner_dies(struct __test_metadata *_metadata, struct env *e)
{
	EXPECT_EQ(256 + SIGKILL, spm_wait(start(e, child_dies_with_lock)));
	EXPECT_EQ(EOWNERDEAD, pthread_mutex_lock(&e->l->mutex));
	EXPECT_EQ(0, pthread_mutex_consistent(&e->l->mutex));
	EXPECT_EQ(0, pthread_mutex_unlock(&e->l->mutex));
	EXPECT_EQ(0, pthread_mutex_lock(&e->l->mutex));
	EXPECT_EQ(0, pthread_mutex_unlock(&e->l->mutex));
}

TEST_F(spm, owner_of_a_mutex_dies)
{
	both_ways(_metadata, owner_dies);
}

SPM_TEST_MAIN
