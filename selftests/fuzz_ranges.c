// SPDX-License-Identifier: GPL-2.0
/*
 * Property: whatever is asked for whatever range, aligned or not, by several
 * threads and their children at once, a page holds zeros or what was stored to
 * it, and the books are right in the end.
 *
 * Kind of bug: a path that is only reached by ranges, sizes and places that
 * nobody would choose: misaligned pieces, holes, requests across mappings, a
 * size that changes under them.
 *
 * The seed is printed; SPM_FUZZ_SEED sets it, SPM_FUZZ_SECONDS the time.
 *
 * spm-test: kernels=debug,7.3 timeout=240 smp=4 full=debug
 */
#include <pthread.h>
#include <time.h>

#include "spm_test.h"

#define SEED	77
#define PAGES	2560UL			/* five slots of the region */
#define AREA	4096UL			/* eight slots of address space */
#define THREADS	4

#define ARENA	2048UL			/* pages of a thread's own place */

static char *area;
static __thread char *arena;
static int fd, other;
static volatile int stop;
static _Atomic unsigned long wrong, done;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

/* Half of the time on a slot's border, else anywhere. */
static unsigned long pick(uint64_t *x, unsigned long n)
{
	unsigned long v = next(x) % n;

	return next(x) & 1 ? v / 512 * 512 : v;
}

static unsigned long length(uint64_t *x, unsigned long from, unsigned long n)
{
	static const unsigned int some[] = { 1, 2, 511, 512, 513, 1024, 1536 };
	unsigned long len = some[next(x) % 7];

	return len < n - from ? len : n - from;
}

struct access {
	uint64_t *x;
	char *page;
	unsigned long pgoff;
	bool write;
};

/* May be in a hole, beyond the size, or not allowed: then a signal ends it. */
static void touch(void *arg)
{
	struct access *a = arg;
	volatile uint64_t *word = (volatile uint64_t *)a->page;
	uint64_t mark, page;

	if (a->write)
		*word = spm_word(a->pgoff, SEED, 0);
	page = *word;
	mark = spm_word(a->pgoff, SEED, 0);
	if (page && page != mark) {
		spm_note("page %lu holds %llx", a->pgoff, (unsigned long long)page);
		wrong++;
	}
}

/*
 * The area may be mapped anyhow, so pages are accessed through a mapping that
 * nobody else touches, in a place of the thread's own; nothing in this program
 * lets the kernel choose an address, which might be a hole that somebody is
 * about to map over.
 */
static void through_own_map(uint64_t *x)
{
	unsigned long pgoff = pick(x, PAGES), n = length(x, pgoff, PAGES), i;
	int prot = next(x) % 4 ? SPM_RW : PROT_READ;
	char *p = arena + (next(x) & 1 ? pgoff : next(x)) % 512 * SPM_PAGE;

	if (mmap(p, n * SPM_PAGE, prot, MAP_SHARED | MAP_FIXED, fd,
		 pgoff * SPM_PAGE) != p)
		return;
	for (i = 0; i < n; i += 1 + next(x) % 16) {
		struct access a = { x, p + i * SPM_PAGE, pgoff + i,
				    prot == SPM_RW && next(x) % 2 };

		spm_try(touch, &a);
	}
	if (next(x) & 1)
		munmap(p + next(x) % n * SPM_PAGE, SPM_PAGE);
	if (next(x) & 1)
		munmap(p, n * SPM_PAGE);
}

static void in_the_area(uint64_t *x)
{
	static const int advices[] = { MADV_DONTNEED, MADV_COLD, MADV_PAGEOUT,
		MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_NOHUGEPAGE,
		MADV_HUGEPAGE, MADV_DONTFORK, MADV_WILLNEED, MADV_FREE };
	static const int prots[] = { PROT_NONE, PROT_READ, SPM_RW, SPM_RW };
	unsigned long at = pick(x, AREA), n = length(x, at, AREA);
	char *p = area + at * SPM_PAGE, *to;

	switch (next(x) % 6) {
	case 0:
		/* Aligned with the slot, or not. */
		mmap(p, n * SPM_PAGE, prots[next(x) % 4], MAP_SHARED | MAP_FIXED,
		     next(x) % 8 ? fd : other,
		     (next(x) & 1 ? at % PAGES : pick(x, PAGES)) * SPM_PAGE);
		break;
	case 1:
		mprotect(p, n * SPM_PAGE, prots[next(x) % 4]);
		break;
	case 2:
		madvise(p, n * SPM_PAGE, advices[next(x) % 10]);
		break;
	case 3:
		to = area + (AREA + pick(x, AREA - n + 1)) * SPM_PAGE;
		mremap(p, n * SPM_PAGE, n * SPM_PAGE,
		       MREMAP_MAYMOVE | MREMAP_FIXED, to);
		break;
	case 4:
		mmap(p, n * SPM_PAGE, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		break;
	case 5:
		spm_try_read(p);
		break;
	}
}

static void a_request(uint64_t *x)
{
	unsigned long at = pick(x, AREA), n = length(x, at, AREA);
	unsigned long off = pick(x, PAGES);
	static __thread unsigned char vec[AREA];

	switch (next(x) % 8) {
	case 0 ... 3:
		spm_advise(fd, area + at * SPM_PAGE, n * SPM_PAGE,
			   1 + next(x) % 4);
		break;
	case 4:
		spm_advise_off(fd, off * SPM_PAGE,
			       length(x, off, PAGES) * SPM_PAGE,
			       next(x) & 1 ? SPM_ADV_DISCARD : SPM_ADV_PREFAULT);
		break;
	case 5:
		spm_mincore(fd, area + at * SPM_PAGE, n * SPM_PAGE, vec);
		break;
	case 6:
		if (next(x) % 4 == 0)
			spm_set_size(fd, pick(x, PAGES + 1) * SPM_PAGE);
		else
			spm_set_size(fd, PAGES * SPM_PAGE);
		break;
	case 7:
		spm_ioctl_advise(fd, next(x) % 3, next(x), next(x), next(x) % 6);
		break;
	}
}

static void work(uint64_t *x)
{
	switch (next(x) % 4) {
	case 0:
		through_own_map(x);
		break;
	case 1:
	case 2:
		in_the_area(x);
		break;
	case 3:
		a_request(x);
		break;
	}
	done++;
}

struct worker {
	uint64_t seed;
	char *arena;
};

static void *worker(void *arg)
{
	struct worker *w = arg;
	uint64_t x = w->seed;

	arena = w->arena;
	while (!stop)
		work(&x);
	return NULL;
}

static int child(void *arg)
{
	uint64_t x = *(uint64_t *)arg;
	int i;

	for (i = 0; i < 50; i++)
		work(&x);
	/* One in four dies in the middle of something. */
	if (next(&x) % 4 == 0)
		kill(getpid(), SIGKILL);
	return wrong != 0;
}

TEST_F(spm, any_range)
{
	const char *s = getenv("SPM_FUZZ_SEED"), *t = getenv("SPM_FUZZ_SECONDS");
	uint64_t seed = s ? strtoull(s, NULL, 0) : time(NULL) * 2654435761ULL | 1;
	time_t end = time(NULL) + (t ? atoi(t) : 40);
	struct worker worker_of[THREADS];
	pthread_t thread[THREADS];
	uint64_t x = seed;
	long i;

	TH_LOG("SPM_FUZZ_SEED=%llu", (unsigned long long)seed);
	fd = spm_open();
	other = spm_open();
	area = spm_reserve(2 * AREA * SPM_PAGE, 0);
	spm_map_at(area, fd, PAGES * SPM_PAGE, 0, SPM_RW);
	ASSERT_EQ(0, spm_set_size(fd, PAGES * SPM_PAGE));
	/* The children use that of the first thread of the program. */
	arena = spm_reserve(ARENA * SPM_PAGE, 0);
	for (i = 0; i < THREADS; i++) {
		worker_of[i].seed = next(&x) | 1;
		worker_of[i].arena = spm_reserve(ARENA * SPM_PAGE, 0);
	}
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, worker,
					    &worker_of[i]));
	while (time(NULL) < end) {
		uint64_t y = next(&x) | 1;
		int status = spm_fork_run(child, &y);

		EXPECT_TRUE(status == 0 || status == 256 + SIGKILL) {
			TH_LOG("child ended with %d", status);
		}
	}
	stop = 1;
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%lu operations", (unsigned long)done);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, spm_consistent(fd));
	munmap(area, 2 * AREA * SPM_PAGE);
	close(fd);
	close(other);
}

TEST_HARNESS_MAIN
