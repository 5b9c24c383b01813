/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads and processes in lock step, for tests of races.
 */
#ifndef SPM_SYNC_H
#define SPM_SYNC_H

#include "spm_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/*
 * A barrier that spins, so that all leave it within nanoseconds rather than as
 * the scheduler wakes them up.  Works between processes when it lies in memory
 * that they share.  All zero but @parties is its initial state.
 */
struct spm_barrier {
	unsigned int parties;
	atomic_uint arrived;
	atomic_uint round;
};

static inline void spm_relax(unsigned int *spins)
{
	if (++*spins % 256 == 0)
		sched_yield();
	else
		asm volatile("pause");
}

static inline void spm_barrier_wait(struct spm_barrier *b)
{
	unsigned int round = atomic_load(&b->round);
	unsigned int spins = 0;

	if (atomic_fetch_add(&b->arrived, 1) + 1 == b->parties) {
		atomic_store(&b->arrived, 0);
		atomic_fetch_add(&b->round, 1);
		return;
	}
	while (atomic_load(&b->round) == round)
		spm_relax(&spins);
}

/*
 * The same for when some take long to arrive: sleeps, and leaves the processors to
 * them.
 */
static inline void spm_barrier_sleep(struct spm_barrier *b)
{
	unsigned int round = atomic_load(&b->round);

	if (atomic_fetch_add(&b->arrived, 1) + 1 == b->parties) {
		atomic_store(&b->arrived, 0);
		atomic_fetch_add(&b->round, 1);
		return;
	}
	while (atomic_load(&b->round) == round)
		usleep(500);
}

/* Wait until *@word has the value; only for words of spm_shared(). */
static inline void spm_wait_for(atomic_uint *word, unsigned int value)
{
	unsigned int spins = 0;

	while (atomic_load(word) != value)
		spm_relax(&spins);
}

static inline double spm_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Zeroed memory that children share; not of a region. */
static inline void *spm_shared(size_t len)
{
	void *p = mmap(NULL, len, SPM_RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		spm_die("mmap of %zu bytes", len);
	memset(p, 0, len);
	return p;
}

/* Keep the calling thread on one processor, modulo those that there are. */
static inline void spm_pin(unsigned int cpu)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu % (n > 0 ? n : 1), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		spm_die("sched_setaffinity to CPU %u of %ld", cpu, n);
}

static inline void spm_thread(pthread_t *t, void *(*fn)(void *), void *arg)
{
	int err = pthread_create(t, NULL, fn, arg);

	if (err) {
		errno = err;
		spm_die("pthread_create");
	}
}

/* Is this kernel built for debugging, and all slower than others? */
static inline bool spm_slow_kernel(void)
{
	return !access("/proc/lockdep", F_OK) ||
	       !access("/sys/kernel/debug/kmemleak", F_OK);
}

#endif /* SPM_SYNC_H */
