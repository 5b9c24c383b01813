/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the superpmap selftests share: the kselftest harness, helpers that map,
 * fill, check and observe memory of a region, and a fixture that proves after
 * every test case that nothing was left behind.
 *
 * Helpers that cannot do their work print why and abort(): a test that cannot
 * be set up has failed.  They may be used from child processes and threads,
 * except where it says otherwise.
 */
#ifndef SPM_TEST_H
#define SPM_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS	64
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/superpmap.h>

#define SPM_NODE		"/dev/superpmap"
#define SPM_PAGE		4096UL
#define SPM_SLOT		(2UL << 20)
#define SPM_SLOT_PAGES		512UL
#define SPM_RW			(PROT_READ | PROT_WRITE)

/* Print where and why, then abort(). */
#define spm_die(fmt, ...) \
	__spm_die(__FILE__, __LINE__, fmt, ##__VA_ARGS__)
void __spm_die(const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
#define spm_note(fmt, ...) \
	fprintf(stderr, "# %s:%d: " fmt "\n", __FILE__, __LINE__, ##__VA_ARGS__)

/* -- regions and mappings ------------------------------------------------ */

int spm_open(void);			/* a new, empty region, read-write */
int spm_open_persistent(unsigned int n);/* /dev/superpmapN, read-write */

/*
 * Address space only: PROT_NONE, not backed; the address is congruent to @off
 * modulo 2 MB and at least 2 MB of more PROT_NONE lie on either side.
 */
char *spm_reserve(size_t len, uint64_t off);
/* MAP_SHARED | MAP_FIXED at @addr. */
char *spm_map_at(void *addr, int fd, size_t len, uint64_t off, int prot);
/* The same on a reserved place: aligned for superpages, nothing adjacent. */
char *spm_map(int fd, size_t len, uint64_t off, int prot);
/* The same with MAP_PRIVATE. */
char *spm_private_at(void *addr, int fd, size_t len, uint64_t off, int prot);
char *spm_private(int fd, size_t len, uint64_t off, int prot);
int spm_snapshot(int fd);		/* a new descriptor */
int spm_try_snapshot(int fd, uint32_t flags);	/* or -errno */
void spm_unmap(void *addr, size_t len);

/* 0 or -errno */
int spm_ioctl_advise(int fd, uint32_t flags, uint64_t start, uint64_t len,
		     uint32_t advice);
int spm_advise(int fd, void *addr, size_t len, uint32_t advice);
int spm_advise_off(int fd, uint64_t off, uint64_t len, uint32_t advice);
int spm_set_size(int fd, uint64_t size);
void spm_info(int fd, struct spm_info *info);
/* Fills argsz in; 0 or -errno. */
int spm_scan(int fd, unsigned long cmd, struct spm_scan *s);
/* How many pages GET_DIRTY or GET_REFERENCED tells, or -errno. */
long spm_dirty(int fd, uint32_t flags, uint64_t start, uint64_t len);
long spm_referenced(int fd, uint32_t flags, uint64_t start, uint64_t len);
/* The same by offset; @set[i] is whether page i of [0, @npages) is told. */
long spm_dirty_set(int fd, uint32_t flags, size_t npages, bool *set);
/* One tunable of the region, by the name of the module parameter; 0 or -errno. */
int spm_policy_set(int fd, const char *name, uint32_t value);
uint32_t spm_policy_get(int fd, uint32_t flags, const char *name);

/*
 * Touch every page of [addr, addr + len) in ascending order: a byte is
 * written or read.
 */
void spm_touch_write(void *addr, size_t len);
void spm_touch_read(const void *addr, size_t len);
/*
 * Bring [addr, addr + len), whole slots of a writable mapping, to writable 2 MB
 * entries by request (quicker than a fault for each page) and write the pattern
 * of @seed (see below).
 */
void spm_promoted(int fd, void *addr, size_t len, uint64_t pgoff,
		  unsigned int seed);

/* -- counters ------------------------------------------------------------ */

void spm_stats(int fd, struct spm_stats *s);
void spm_stats_global(int fd, struct spm_stats *s);
/* How far @field came in the region of @fd since @before was taken. */
#define spm_delta(fd, before, field) ({					\
	struct spm_stats __now;						\
	spm_stats(fd, &__now);						\
	(long long)(__now.field - (before)->field); })
/* The same of all regions together; for what happens in several. */
#define spm_delta_global(fd, before, field) ({				\
	struct spm_stats __now;						\
	spm_stats_global(fd, &__now);					\
	(long long)(__now.field - (before)->field); })
/*
 * The laws that hold between counters at every quiet moment.  Prints each
 * breach and returns how many there were.
 */
int spm_balance(const struct spm_stats *s, const char *what);
/*
 * Walk the real page tables of every map (debugfs verify), then test the laws
 * for the region of @fd and for all.  Prints and counts what is wrong.
 */
int spm_consistent(int fd);
/* The same without the region: for whoever has several, or no descriptor. */
int spm_all_consistent(void);
/* Differences found by verify; prints them. Aborts without debugfs. */
long spm_verify(void);
long long spm_refcnt(void);		/* use count of the module */

/* -- per-page state ------------------------------------------------------ */

int spm_mincore(int fd, const void *addr, size_t len, unsigned char *vec);
unsigned char spm_state(int fd, const void *addr);
/* Pages of [addr, addr + len) whose state has (state & mask) == value. */
long spm_count(int fd, const void *addr, size_t len, unsigned int mask,
	       unsigned int value);
#define SPM_IS_2M	(SPM_MINCORE_MAPPED | SPM_MINCORE_PSIND_MASK)
#define SPM_2M		(SPM_MINCORE_MAPPED | \
			 (SPM_PSIND_2M << SPM_MINCORE_PSIND_SHIFT))
#define SPM_4K		(SPM_MINCORE_MAPPED | \
			 (SPM_PSIND_4K << SPM_MINCORE_PSIND_SHIFT))
/* Pages mapped by 2 MB entries, mapped by 4 KB entries, not mapped. */
#define spm_count_2m(fd, addr, len) \
	spm_count(fd, addr, len, SPM_IS_2M, SPM_2M)
#define spm_count_4k(fd, addr, len) \
	spm_count(fd, addr, len, SPM_IS_2M, SPM_4K)
#define spm_count_none(fd, addr, len) \
	spm_count(fd, addr, len, SPM_MINCORE_MAPPED, 0)
#define spm_count_dirty(fd, addr, len) \
	spm_count(fd, addr, len, SPM_MINCORE_MODIFIED, SPM_MINCORE_MODIFIED)
#define spm_count_writable(fd, addr, len) \
	spm_count(fd, addr, len, SPM_MINCORE_WRITABLE, SPM_MINCORE_WRITABLE)
/* Pages that break "writable implies recorded dirty": always 0. */
#define spm_count_clean_writable(fd, addr, len)				\
	spm_count(fd, addr, len,					\
		  SPM_MINCORE_WRITABLE | SPM_MINCORE_MODIFIED,		\
		  SPM_MINCORE_WRITABLE)

/* -- contents ------------------------------------------------------------ */

/*
 * Every word of a page is derived from the page's offset in the region, its
 * place in the page and @seed, so data that turns up in a wrong place, or of
 * a wrong time, is never mistaken for right.
 */
uint64_t spm_word(uint64_t pgoff, unsigned int seed, unsigned int word);
void spm_fill(void *addr, uint64_t pgoff, size_t npages, unsigned int seed);
/* The first wrong page (printed), or -1. */
long spm_wrong(const void *addr, uint64_t pgoff, size_t npages,
	       unsigned int seed);
long spm_nonzero(const void *addr, size_t npages);
/* The first and last word of the page only: for long loops. */
void spm_stamp(void *page, uint64_t pgoff, unsigned int seed);
bool spm_stamped(const void *page, uint64_t pgoff, unsigned int seed);

/* -- accesses that may be refused; thread safe --------------------------- */

/* 0, or the signal (SIGSEGV, SIGBUS) that the access raised. */
int spm_try_read(const void *addr);
int spm_try_write(void *addr, unsigned char value);
/* Run fn(arg); 0 or the signal. fn must not hold locks when it faults. */
int spm_try(void (*fn)(void *), void *arg);

/* -- the process --------------------------------------------------------- */

long spm_minflt(void);			/* minor faults of this process */
/*
 * Make what the process has of its own (code, data, stack, heap) resident, so
 * that minor faults and RSS change by what the test does and nothing else.
 */
void spm_settle(void);
/* Touch every page; how many minor faults that took. */
long spm_touch_faults(void *addr, size_t len, bool write);
long spm_rss(void);			/* resident pages, statm */
/* kB of @field of the mapping that holds @addr in smaps; -1: no such. */
long spm_smaps(const void *addr, const char *field);
/* The sum of @field over the mappings that begin in [addr, addr + len). */
long spm_smaps_range(const void *addr, size_t len, const char *field);
long spm_meminfo(const char *field);	/* kB */
/*
 * MemAvailable, and what lies free in the lists of each processor, where blocks
 * of 2 MB stay as well, and which MemAvailable leaves out, in kB.
 */
long spm_available(void);

/*
 * Run fn(arg) in a child that dies with its parent.  Its return value (0 to
 * 255) is the exit status.
 */
pid_t spm_fork(int (*fn)(void *), void *arg);
/* Exit status, or 256 + signal. */
int spm_wait(pid_t pid);
int spm_fork_run(int (*fn)(void *), void *arg);
/* For such children: print and return 1 when @cond does not hold. */
#define spm_child_check(cond, fmt, ...) do {				\
	if (!(cond)) {							\
		fprintf(stderr, "# %s:%d: child: %s: " fmt "\n",	\
			__FILE__, __LINE__, #cond, ##__VA_ARGS__);	\
		return 1;						\
	}								\
} while (0)

/* -- module parameters --------------------------------------------------- */

/* 0 or -errno.  The fixture puts parameters back when the test ends. */
int spm_param_set(const char *name, const char *value);
void spm_param_get(const char *name, char *value, size_t len);

/* -- the state of the whole module, before and after --------------------- */

#define SPM_PARAMS	9

struct spm_baseline {
	struct spm_stats stats;
	long long refcnt;
	char param[SPM_PARAMS][32];
};

bool spm_present(void);
void spm_baseline_take(struct spm_baseline *b);
/*
 * Put parameters back, empty persistent regions, wait until gauges and use
 * count are where they were, and test the laws.  Prints and counts failures.
 */
int spm_baseline_check(struct spm_baseline *b);

#ifndef SPM_TEST_NO_HARNESS
#include "kselftest_harness.h"

/* The harness' 30 s are too few for an emulated machine. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 300

/*
 * TEST_F(spm, name): after the process of the test is gone, the module must be
 * as it was before.
 */
FIXTURE(spm) {
	struct spm_baseline base;
};

FIXTURE_SETUP(spm)
{
	if (!spm_present())
		SKIP(return, "no " SPM_NODE);
	spm_baseline_take(&self->base);
	spm_settle();
}

FIXTURE_TEARDOWN_PARENT(spm)
{
	EXPECT_EQ(0, spm_baseline_check(&self->base));
}

static void __attribute__((unused)) spm_exit_status(void)
{
	if (ksft_plan && ksft_cnt.ksft_xskip == ksft_plan) {
		fflush(NULL);
		_exit(KSFT_SKIP);
	}
}

/* As TEST_HARNESS_MAIN, but a program that skipped everything says so. */
#define SPM_TEST_MAIN							\
	int main(int argc, char **argv)					\
	{								\
		atexit(spm_exit_status);				\
		return test_harness_run(argc, argv);			\
	}
#endif /* SPM_TEST_NO_HARNESS */

#endif /* SPM_TEST_H */
