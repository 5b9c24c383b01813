// SPDX-License-Identifier: GPL-2.0
/*
 * Property: when memory runs out at any step of a call or of a page fault, a
 * call fails with ENOMEM or does without, a fault is repeated, no data is lost
 * and the books still balance.
 * Guards against: error paths that nobody ever ran: memory or locks that are
 * kept, an entry that stays behind, SIGBUS for want of memory.
 *
 * Each operation is repeated, and the first, second, third ... step of the
 * kernel that can fail in it fails, until it gets through.
 *
 * spm-test: kernels=debug timeout=300
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define LEN	SPM_SLOT
#define PAGE	SPM_PAGE
#define K	300			/* the page that is acted upon */

struct env {
	int fd;
	char *p;			/* the mapping that is acted upon */
	char *other;			/* sees what the region holds */
	int new_fd;
	void *new_map;
	size_t gone;			/* pages from K on that p has not */
};

struct op {
	const char *name;
	void (*prepare)(struct env *e);
	int (*run)(struct env *e);	/* 0 or -errno */
	void (*check)(struct __test_metadata *_metadata, struct env *e, int ret);
	int errnos[4];			/* allowed, ended by 0 */
};

static void store(char *p, size_t page)
{
	*(volatile uint64_t *)(p + page * PAGE) = spm_word(page, 1, 0);
}

static bool stored(const char *p, size_t page)
{
	return *(volatile uint64_t *)(p + page * PAGE) == spm_word(page, 1, 0);
}

/* -- states ---------------------------------------------------------------- */

static void nothing(struct env *e)
{
}

static void full_and_promoted(struct env *e)
{
	spm_promoted(e->fd, e->p, LEN, 0, 1);
}

static void full_elsewhere(struct env *e)
{
	spm_promoted(e->fd, e->other, LEN, 0, 1);
}

static void full_demoted(struct env *e)
{
	spm_promoted(e->fd, e->p, LEN, 0, 1);
	if (spm_advise(e->fd, e->p, LEN, SPM_ADV_DEMOTE))
		spm_die("DEMOTE");
}

static void all_but_one(struct env *e)
{
	spm_fill(e->p, 0, K, 1);
	spm_fill(e->p + (K + 1) * PAGE, K + 1, SPM_SLOT_PAGES - K - 1, 1);
}

static void read_only_2m(struct env *e)
{
	spm_touch_read(e->p, LEN);
	if (spm_count_2m(e->fd, e->p, LEN) != SPM_SLOT_PAGES)
		spm_die("no 2 MB entry after every page was read");
}

/* -- what must hold afterwards ---------------------------------------------- */

static void check_full(struct __test_metadata *_metadata, struct env *e, int ret)
{
	size_t rest = K + e->gone;

	EXPECT_EQ(-1, spm_wrong(e->other, 0, SPM_SLOT_PAGES, 1));
	EXPECT_EQ(-1, spm_wrong(e->p, 0, K, 1));
	EXPECT_EQ(-1, spm_wrong(e->p + rest * PAGE, rest, SPM_SLOT_PAGES - rest,
				1));
	EXPECT_EQ(SPM_SLOT_PAGES, spm_count_dirty(e->fd, e->other, LEN));
}

static void check_stored(struct __test_metadata *_metadata, struct env *e, int ret)
{
	EXPECT_TRUE(stored(e->other, K));
	EXPECT_TRUE(stored(e->p, K));
	EXPECT_EQ(1, spm_count_dirty(e->fd, e->p, LEN));
	store(e->other, K - 1);
	EXPECT_TRUE(stored(e->p, K - 1));
	EXPECT_EQ(-1, spm_nonzero(e->p, K - 1));
	EXPECT_EQ(-1, spm_nonzero(e->p + (K + 1) * PAGE, SPM_SLOT_PAGES - K - 1));
}

static void check_last_stored(struct __test_metadata *_metadata, struct env *e,
			      int ret)
{
	EXPECT_TRUE(stored(e->other, K));
	spm_fill(e->p + K * PAGE, K, 1, 1);
	check_full(_metadata, e, ret);
}

static void check_zero(struct __test_metadata *_metadata, struct env *e, int ret)
{
	EXPECT_EQ(-1, spm_nonzero(e->p, SPM_SLOT_PAGES));
	EXPECT_EQ(-1, spm_nonzero(e->other, SPM_SLOT_PAGES));
}

/* Either nothing was discarded or all from page K on. */
static void check_discarded(struct __test_metadata *_metadata, struct env *e,
			    int ret)
{
	EXPECT_EQ(-1, spm_wrong(e->p, 0, K, 1));
	if (ret) {
		EXPECT_EQ(-1, spm_wrong(e->p, 0, SPM_SLOT_PAGES, 1));
	} else {
		EXPECT_EQ(-1, spm_nonzero(e->p + K * PAGE, SPM_SLOT_PAGES - K));
	}
}

static void check_shrunk(struct __test_metadata *_metadata, struct env *e,
			 int ret)
{
	/* So that the rest can be looked at. */
	EXPECT_EQ(0, spm_set_size(e->fd, LEN));
	check_discarded(_metadata, e, ret);
}

/* -- operations -------------------------------------------------------------- */

static int run_open(struct env *e)
{
	e->new_fd = open(SPM_NODE, O_RDWR | O_CLOEXEC);
	return e->new_fd < 0 ? -errno : 0;
}

static int run_mmap(struct env *e)
{
	void *p = mmap(NULL, LEN, SPM_RW, MAP_SHARED, e->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	e->new_map = p;
	return 0;
}

static int run_store(struct env *e)
{
	store(e->p, K);
	return 0;
}

static int run_load(struct env *e)
{
	*(volatile char *)(e->p + K * PAGE);
	return 0;
}

static int run_promote(struct env *e)
{
	return spm_advise(e->fd, e->p, LEN, SPM_ADV_PROMOTE);
}

static int run_demote(struct env *e)
{
	return spm_advise(e->fd, e->p, LEN, SPM_ADV_DEMOTE);
}

static int run_prefault(struct env *e)
{
	return spm_advise(e->fd, e->p, LEN, SPM_ADV_PREFAULT);
}

static int run_discard(struct env *e)
{
	return spm_advise(e->fd, e->p + K * PAGE, LEN - K * PAGE,
			  SPM_ADV_DISCARD);
}

static int run_shrink(struct env *e)
{
	return spm_set_size(e->fd, K * PAGE);
}

static int run_mincore(struct env *e)
{
	static unsigned char vec[SPM_SLOT_PAGES];

	return spm_mincore(e->fd, e->p, LEN, vec);
}

static int run_stats(struct env *e)
{
	struct spm_stats st = { .argsz = sizeof(st) };

	return ioctl(e->fd, SPM_IOC_STATS, &st) ? -errno : 0;
}

static int run_munmap_page(struct env *e)
{
	if (munmap(e->p + K * PAGE, PAGE))
		return -errno;
	e->gone = 1;
	return 0;
}

static int run_mprotect_page(struct env *e)
{
	return mprotect(e->p + K * PAGE, PAGE, PROT_READ) ? -errno : 0;
}

static int run_mremap_page(struct env *e)
{
	void *p = mremap(e->p + K * PAGE, PAGE, PAGE, MREMAP_MAYMOVE |
			 MREMAP_FIXED, e->p + LEN + PAGE);

	if (p == MAP_FAILED)
		return -errno;
	e->gone = 1;
	return 0;
}

static int run_map_over(struct env *e)
{
	void *p = mmap(e->p + K * PAGE, 2 * PAGE, SPM_RW, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	/* The kernel may have taken the pages out before it fails. */
	e->gone = 2;
	return p == MAP_FAILED ? -errno : 0;
}

static int run_dontneed(struct env *e)
{
	return madvise(e->p + K * PAGE, PAGE, MADV_DONTNEED) ? -errno : 0;
}

static int run_fork(struct env *e)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(stored(e->p, K) ? 0 : 1);
	if (waitpid(pid, &status, 0) != pid)
		return 0;	/* reaped below */
	return status ? -EPROTO : 0;
}

#define CALL { ENOMEM, EFAULT }

static const struct op ops[] = {
	{ "open",		nothing,		run_open,
	  check_zero,		{ ENOMEM, EFAULT, ENFILE } },
	{ "mmap",		full_and_promoted,	run_mmap,
	  check_full,		{ ENOMEM } },
	{ "first store",	nothing,		run_store,
	  check_stored,		{ } },
	{ "first load",		nothing,		run_load,
	  check_zero,		{ } },
	{ "store that completes the slot", all_but_one,	run_store,
	  check_last_stored,	{ } },
	{ "store that maps 2 MB", full_elsewhere,	run_store,
	  check_full,		{ } },
	{ "load that maps 2 MB", full_elsewhere,	run_load,
	  check_full,		{ } },
	{ "store to a read-only 2 MB entry", read_only_2m, run_store,
	  check_stored,		{ } },
	{ "PROMOTE of nothing",	nothing,		run_promote,
	  check_zero,		CALL },
	{ "PROMOTE of 4 KB entries", full_demoted,	run_promote,
	  check_full,		CALL },
	{ "DEMOTE",		full_and_promoted,	run_demote,
	  check_full,		CALL },
	{ "PREFAULT of nothing", nothing,		run_prefault,
	  check_zero,		CALL },
	{ "PREFAULT of what is there", full_elsewhere,	run_prefault,
	  check_full,		CALL },
	{ "DISCARD",		full_and_promoted,	run_discard,
	  check_discarded,	CALL },
	{ "SET_SIZE",		full_and_promoted,	run_shrink,
	  check_shrunk,		CALL },
	{ "MINCORE",		full_and_promoted,	run_mincore,
	  check_full,		CALL },
	{ "STATS",		full_and_promoted,	run_stats,
	  check_full,		CALL },
	{ "munmap of a page",	full_and_promoted,	run_munmap_page,
	  check_full,		{ ENOMEM } },
	{ "mprotect of a page",	full_and_promoted,	run_mprotect_page,
	  check_full,		{ ENOMEM } },
	{ "mremap of a page",	full_and_promoted,	run_mremap_page,
	  check_full,		{ ENOMEM } },
	{ "mmap over pages",	full_and_promoted,	run_map_over,
	  check_full,		{ ENOMEM } },
	{ "MADV_DONTNEED",	full_and_promoted,	run_dontneed,
	  check_full,		{ ENOMEM } },
	{ "fork",		full_and_promoted,	run_fork,
	  check_full,		{ ENOMEM, EAGAIN } },
};

static bool allowed(const struct op *op, int ret)
{
	int i;

	if (!ret)
		return true;
	for (i = 0; i < 4; i++)
		if (op->errnos[i] && op->errnos[i] == -ret)
			return true;
	return false;
}

static void env_open(struct env *e)
{
	memset(e, 0, sizeof(*e));
	e->new_fd = -1;
	e->fd = spm_open();
	if (spm_set_size(e->fd, LEN))
		spm_die("SPM_IOC_SET_SIZE");
	e->p = spm_map(e->fd, LEN, 0, SPM_RW);
	e->other = spm_map(e->fd, LEN, 0, SPM_RW);
}

static void env_close(struct env *e)
{
	if (e->new_fd >= 0)
		close(e->new_fd);
	if (e->new_map)
		spm_unmap(e->new_map, LEN);
	/* Behind the mapping is where mremap put its page. */
	spm_unmap(e->p, LEN + 2 * PAGE);
	spm_unmap(e->other, LEN);
	close(e->fd);
}

/* Let the n-th step fail; true if there were that many. */
static bool try_nth(struct __test_metadata *_metadata, const struct op *op,
		    int nth, unsigned int n)
{
	struct env e;
	bool hit;
	int ret;

	env_open(&e);
	op->prepare(&e);
	spm_fail_nth(nth, n);
	ret = op->run(&e);
	hit = !spm_fail_left(nth);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	EXPECT_TRUE(allowed(op, ret)) {
		TH_LOG("%s, step %u: %d", op->name, n, ret);
	}
	EXPECT_TRUE(hit || !ret) {
		TH_LOG("%s: %d although nothing failed", op->name, ret);
	}
	op->check(_metadata, &e, ret);
	EXPECT_EQ(0, spm_consistent(e.fd)) {
		TH_LOG("%s, step %u", op->name, n);
	}
	env_close(&e);
	return hit;
}

TEST_F(spm, each_step_of_each_operation)
{
	double start = spm_now(), t;
	unsigned int n;
	size_t i;
	int nth;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	spm_fail_setup();
	nth = spm_fail_open();
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		t = spm_now();
		for (n = 1; n < 1000; n++) {
			if (!try_nth(_metadata, &ops[i], nth, n))
				break;
			if (spm_now() - t > 25)
				break;
		}
		TH_LOG("%-32s %3u steps, %.1f s%s", ops[i].name, n - 1,
		       spm_now() - t, spm_now() - t > 25 ? ", not all" : "");
	}
	TH_LOG("%.1f s", spm_now() - start);
}

SPM_TEST_MAIN
