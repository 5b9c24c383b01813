// SPDX-License-Identifier: GPL-2.0
/*
 * Property: in a program that uses all there is, one call after the other, any
 * step of the module that can fail may fail, at each call anew: the call says
 * so or does without, every page of every view holds what it held, the same
 * call works when it is repeated, and in the end nothing is left.
 * Guards against: a failure whose damage only a later operation of another kind
 * meets; what one call alone shows is in the tests of failing steps.
 *
 * In round n the n-th such step of each call fails; a call that fails is
 * repeated in peace.  The rounds end with the first in which nothing failed.
 * SPM_FAIL_VERBOSE=2 in the environment shows the call trace of each failure.
 *
 * spm-test: kernels=debug timeout=300
 * spm-test: log="Call Trace:|FAULT_INJECTION:"
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)
#define PAGE	SPM_PAGE
#define LAST	511U			/* its store completes a slot */
#define K	300U			/* pages that are stored to: K .. */
#define LIMIT	180			/* seconds */

/* A region; its snapshot; the snapshot of that; a private mapping of S. */
enum { R, S, N, P, VIEWS };

struct env {
	int fd[VIEWS];
	char *place[VIEWS];		/* reserved, for the mapping */
	char *map[VIEWS];		/* NULL: nothing is to be seen there */
	unsigned char holds[VIEWS][PAGES];	/* seeds; 0 for zeros */
	char *other;			/* another mapping of R, cut apart */
	unsigned char seed;
};

struct step {
	const char *name;
	int (*run)(struct env *e);	/* 0 or -errno */
	unsigned int hits;		/* failures so far */
	unsigned int errors;		/* ... that the caller was told */
};

static bool holds(const char *page, size_t i, unsigned char seed)
{
	return seed ? spm_stamped(page, i, seed) : spm_nonzero(page, 1) < 0;
}

static long wrong(const struct env *e)
{
	long bad = 0;
	size_t i;
	int v;

	for (v = 0; v < VIEWS; v++) {
		for (i = 0; e->map[v] && i < PAGES; i++) {
			if (holds(e->map[v] + i * PAGE, i, e->holds[v][i]))
				continue;
			if (!bad++)
				spm_note("view %d, page %zu", v, i);
		}
	}
	return bad;
}

static int store(struct env *e, int view, size_t page)
{
	spm_stamp(e->map[view] + page * PAGE, page, ++e->seed);
	e->holds[view][page] = e->seed;
	return 0;
}

static int load(struct env *e, int view, size_t page)
{
	*(volatile char *)(e->map[view] + page * PAGE);
	return 0;
}

static int map(struct env *e, int view, int flags)
{
	char *p = mmap(e->place[view], LEN, SPM_RW, flags | MAP_FIXED,
		       e->fd[view], 0);

	if (p == MAP_FAILED)
		return -errno;
	e->map[view] = p;
	return 0;
}

static int take_snapshot(struct env *e, int from, int to)
{
	int fd = spm_try_snapshot(e->fd[from], SPM_SNAPSHOT_CLOEXEC);

	if (fd < 0)
		return fd;
	e->fd[to] = fd;
	memcpy(e->holds[to], e->holds[from], PAGES);
	return 0;
}

/* Two calls of a step that is repeated: what was done is not done again. */
static int unmap_view(struct env *e, int view)
{
	if (e->map[view] && munmap(e->map[view], LEN))
		return -errno;
	e->map[view] = NULL;
	return 0;
}

static int drop(struct env *e, int view)
{
	int ret = unmap_view(e, view);

	if (ret)
		return ret;
	/* The descriptor is gone whatever close says. */
	if (e->fd[view] >= 0)
		close(e->fd[view]);
	e->fd[view] = -1;
	return 0;
}

/* -- the steps ------------------------------------------------------------- */

static int s_open(struct env *e)
{
	e->fd[R] = open(SPM_NODE, O_RDWR | O_CLOEXEC);
	return e->fd[R] < 0 ? -errno : 0;
}

static int s_size(struct env *e)
{
	return spm_set_size(e->fd[R], LEN);
}

static int s_info(struct env *e)
{
	struct spm_info info = { .argsz = sizeof(info) };

	return ioctl(e->fd[R], SPM_IOC_INFO, &info) ? -errno : 0;
}

static int s_stats(struct env *e)
{
	struct spm_stats st = { .argsz = sizeof(st) };

	return ioctl(e->fd[R], SPM_IOC_STATS, &st) ? -errno : 0;
}

static int s_set_policy(struct env *e)
{
	return spm_policy_set(e->fd[R], "prefault_pages", 2);
}

static int s_get_policy(struct env *e)
{
	struct spm_policy p = { .argsz = sizeof(p) };

	return ioctl(e->fd[R], SPM_IOC_GET_POLICY, &p) ? -errno : 0;
}

static int s_map(struct env *e)
{
	return map(e, R, MAP_SHARED);
}

static int s_first_store(struct env *e)
{
	return store(e, R, 0);
}

static int s_prefault(struct env *e)
{
	return spm_advise(e->fd[R], e->map[R], LAST * PAGE, SPM_ADV_PREFAULT);
}

static int s_last_store(struct env *e)
{
	return store(e, R, LAST);
}

static int s_promote(struct env *e)
{
	return spm_advise(e->fd[R], e->map[R] + SPM_SLOT, SPM_SLOT,
			  SPM_ADV_PROMOTE);
}

static int s_fill(struct env *e)
{
	size_t i;

	e->seed++;
	for (i = 0; i < PAGES; i++)
		spm_stamp(e->map[R] + i * PAGE, i, e->seed);
	memset(e->holds[R], e->seed, PAGES);
	return 0;
}

static int s_demote(struct env *e)
{
	return spm_advise(e->fd[R], e->map[R] + SPM_SLOT, SPM_SLOT,
			  SPM_ADV_DEMOTE);
}

static int s_cold(struct env *e)
{
	return spm_advise(e->fd[R], e->map[R], LEN, SPM_ADV_COLD);
}

static int s_mincore(struct env *e)
{
	static unsigned char vec[PAGES];

	return spm_mincore(e->fd[R], e->map[R], LEN, vec);
}

static int s_map_again(struct env *e)
{
	void *p = mmap(e->other, LEN, SPM_RW, MAP_SHARED | MAP_FIXED, e->fd[R],
		       0);

	return p == MAP_FAILED ? -errno : 0;
}

static int s_load_again(struct env *e)
{
	return holds(e->other, 0, e->holds[R][0]) ? 0 : -EPROTO;
}

static int s_mprotect(struct env *e)
{
	return mprotect(e->other + K * PAGE, PAGE, PROT_READ) ? -errno : 0;
}

static int s_munmap_page(struct env *e)
{
	return munmap(e->other + (K + 2) * PAGE, PAGE) ? -errno : 0;
}

/* Into the address space behind the mapping. */
static int s_mremap(struct env *e)
{
	char *to = e->other + LEN;
	void *p = mremap(e->other + SPM_SLOT, SPM_SLOT, SPM_SLOT,
			 MREMAP_MAYMOVE | MREMAP_FIXED, to);

	return p == MAP_FAILED ? -errno : 0;
}

static int s_load_moved(struct env *e)
{
	size_t i = SPM_SLOT_PAGES + K;

	return holds(e->other + LEN + K * PAGE, i, e->holds[R][i]) ? 0 : -EPROTO;
}

static int get_dirty(struct env *e, uint32_t flags)
{
	static struct spm_page_range vec[PAGES];
	struct spm_scan s = {
		.flags = SPM_SCAN_BY_OFFSET | flags, .len = LEN,
		.vec = (uintptr_t)vec,
		.vec_len = flags & SPM_SCAN_BITMAP ? PAGES / 8 : PAGES,
		.since = flags & SPM_SCAN_SINCE ? e->fd[R] : 0,
	};

	return spm_scan(flags & SPM_SCAN_SINCE ? e->fd[S] : e->fd[R],
			SPM_IOC_GET_DIRTY, &s);
}

static int s_dirty_clear(struct env *e)
{
	return get_dirty(e, SPM_SCAN_CLEAR);
}

static int s_dirty_bitmap(struct env *e)
{
	return get_dirty(e, SPM_SCAN_CLEAR | SPM_SCAN_BITMAP);
}

static int s_dirty_since(struct env *e)
{
	return get_dirty(e, SPM_SCAN_SINCE);
}

static int s_referenced(struct env *e)
{
	long n = spm_referenced(e->fd[R], SPM_SCAN_CLEAR, (uintptr_t)e->map[R],
				LEN);

	return n < 0 ? n : 0;
}

static int s_store_clean(struct env *e)
{
	return store(e, R, K);
}

static int s_snapshot(struct env *e)
{
	return take_snapshot(e, R, S);
}

static int s_map_snapshot(struct env *e)
{
	return map(e, S, MAP_SHARED);
}

static int s_load_snapshot(struct env *e)
{
	return load(e, S, 0);
}

static int s_store_source(struct env *e)
{
	return store(e, R, K + 1);
}

static int s_store_snapshot(struct env *e)
{
	return store(e, S, K + 2);
}

static int s_nested(struct env *e)
{
	return take_snapshot(e, S, N);
}

static int s_map_nested(struct env *e)
{
	return map(e, N, MAP_SHARED);
}

static int s_store_nested(struct env *e)
{
	return store(e, N, K + 3);
}

static int s_store_middle(struct env *e)
{
	return store(e, S, K + 4);
}

/* Of the snapshot; nothing is stored there after this. */
static int s_private(struct env *e)
{
	if (e->fd[P] < 0)
		e->fd[P] = dup(e->fd[S]);
	if (e->fd[P] < 0)
		return -errno;
	memcpy(e->holds[P], e->holds[S], PAGES);
	return map(e, P, MAP_PRIVATE);
}

static int s_load_private(struct env *e)
{
	return load(e, P, 0);
}

static int s_store_private(struct env *e)
{
	return store(e, P, K + 5);
}

static int child(struct env *e)
{
	if (wrong(e))
		return 1;
	store(e, P, K + 5);
	store(e, P, K + 6);
	return wrong(e) ? 1 : 0;
}

static int s_fork(struct env *e)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(child(e));
	while (waitpid(pid, &status, 0) != pid)
		;
	/* A child for which there was no memory is told so by SIGBUS. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS)
		return -ENOMEM;
	return status ? -EPROTO : 0;
}

static int s_store_forked(struct env *e)
{
	return store(e, P, K + 7);
}

static int s_prefault_private(struct env *e)
{
	return spm_advise(e->fd[P], e->map[P], SPM_SLOT, SPM_ADV_PREFAULT);
}

static int s_promote_private(struct env *e)
{
	return spm_advise(e->fd[P], e->map[P], SPM_SLOT, SPM_ADV_PROMOTE);
}

static int s_discard_private(struct env *e)
{
	int ret = spm_advise(e->fd[P], e->map[P] + 7 * PAGE, 9 * PAGE,
			     SPM_ADV_DISCARD);

	if (!ret)
		memset(e->holds[P] + 7, 0, 9);
	return ret;
}

static int s_discard(struct env *e)
{
	int ret = spm_advise_off(e->fd[R], 3 * PAGE, 9 * PAGE, SPM_ADV_DISCARD);

	if (!ret)
		memset(e->holds[R] + 3, 0, 9);
	return ret;
}

static int s_store_discarded(struct env *e)
{
	return store(e, R, 5);
}

static int s_prefault_offset(struct env *e)
{
	return spm_advise_off(e->fd[R], 0, SPM_SLOT, SPM_ADV_PREFAULT);
}

static int s_shrink(struct env *e)
{
	size_t rest = SPM_SLOT_PAGES + K;
	int ret = spm_set_size(e->fd[R], rest * PAGE);

	/* So that all can be looked at. */
	if (spm_set_size(e->fd[R], LEN) && spm_set_size(e->fd[R], LEN))
		spm_die("SET_SIZE");
	if (!ret)
		memset(e->holds[R] + rest, 0, PAGES - rest);
	return ret;
}

static int s_unmap_other(struct env *e)
{
	return munmap(e->other, LEN + SPM_SLOT) ? -errno : 0;
}

static int s_drop_source(struct env *e)
{
	return drop(e, R);
}

static int s_drop_snapshot(struct env *e)
{
	return drop(e, S);
}

static int s_drop_private(struct env *e)
{
	return drop(e, P);
}

static int s_store_merged(struct env *e)
{
	return store(e, N, K + 8);
}

static int s_drop_nested(struct env *e)
{
	return drop(e, N);
}

static struct step steps[] = {
	{ "open",				s_open },
	{ "SET_SIZE",				s_size },
	{ "INFO",				s_info },
	{ "STATS",				s_stats },
	{ "SET_POLICY",				s_set_policy },
	{ "GET_POLICY",				s_get_policy },
	{ "mmap",				s_map },
	{ "first store",			s_first_store },
	{ "PREFAULT",				s_prefault },
	{ "store that completes the slot",	s_last_store },
	{ "PROMOTE",				s_promote },
	{ "stores to all",			s_fill },
	{ "DEMOTE",				s_demote },
	{ "COLD",				s_cold },
	{ "MINCORE",				s_mincore },
	{ "second mmap",			s_map_again },
	{ "load there",				s_load_again },
	{ "mprotect of a page",			s_mprotect },
	{ "munmap of a page",			s_munmap_page },
	{ "mremap of a slot",			s_mremap },
	{ "load of what moved",			s_load_moved },
	{ "GET_DIRTY and clear",		s_dirty_clear },
	{ "store to what is clean",		s_store_clean },
	{ "GET_DIRTY as a bitmap",		s_dirty_bitmap },
	{ "GET_REFERENCED",			s_referenced },
	{ "SNAPSHOT",				s_snapshot },
	{ "mmap of the snapshot",		s_map_snapshot },
	{ "load from the snapshot",		s_load_snapshot },
	{ "store to the source",		s_store_source },
	{ "store to the snapshot",		s_store_snapshot },
	{ "SNAPSHOT of the snapshot",		s_nested },
	{ "mmap of that",			s_map_nested },
	{ "store to that",			s_store_nested },
	{ "store between the two",		s_store_middle },
	{ "GET_DIRTY since",			s_dirty_since },
	{ "private mmap",			s_private },
	{ "private load",			s_load_private },
	{ "private store",			s_store_private },
	{ "fork",				s_fork },
	{ "private store after the fork",	s_store_forked },
	{ "private PREFAULT",			s_prefault_private },
	{ "private PROMOTE",			s_promote_private },
	{ "private DISCARD",			s_discard_private },
	{ "DISCARD",				s_discard },
	{ "store to what was discarded",	s_store_discarded },
	{ "PREFAULT by offset",			s_prefault_offset },
	{ "SET_SIZE, smaller",			s_shrink },
	{ "munmap of what was cut apart",	s_unmap_other },
	{ "the source goes",			s_drop_source },
	{ "the snapshot goes",			s_drop_snapshot },
	{ "the private mapping goes",		s_drop_private },
	{ "store to what was merged",		s_store_merged },
	{ "the last one goes",			s_drop_nested },
};

/* EFAULT: the request or the answer; ENFILE: the core's word at open. */
static bool told(int err)
{
	return err == -ENOMEM || err == -EFAULT || err == -ENFILE;
}

/* The @n-th step that can fail in each call does; how many there were. */
static unsigned int round_of(struct __test_metadata *_metadata, int nth,
			     unsigned int n)
{
	static struct env e;
	unsigned int i, hits = 0;
	struct step *s;
	int ret, v;
	bool hit;

	memset(&e, 0, sizeof(e));
	for (v = 0; v < VIEWS; v++) {
		e.fd[v] = -1;
		e.place[v] = spm_reserve(LEN, 0);
	}
	e.other = spm_reserve(LEN, 0);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		s = &steps[i];
		spm_fail_nth(nth, n);
		ret = s->run(&e);
		hit = !spm_fail_left(nth);
		ASSERT_TRUE(!ret || (hit && told(ret))) {
			TH_LOG("%s, step %u: %d", s->name, n, ret);
		}
		if (!hit)
			continue;
		hits++;
		s->hits++;
		ASSERT_EQ(0, wrong(&e)) {
			TH_LOG("%s, step %u: %d", s->name, n, ret);
		}
		if (!ret)
			continue;
		s->errors++;
		ASSERT_EQ(0, spm_all_consistent()) {
			TH_LOG("%s, step %u: %d", s->name, n, ret);
		}
		ret = s->run(&e);
		ASSERT_EQ(0, ret) {
			TH_LOG("%s, repeated after step %u: %d", s->name, n, ret);
		}
		ASSERT_EQ(0, wrong(&e)) {
			TH_LOG("%s, repeated after step %u", s->name, n);
		}
	}
	for (v = 0; v < VIEWS; v++)
		spm_unmap(e.place[v] - SPM_SLOT, LEN + 2 * SPM_SLOT);
	spm_unmap(e.other - SPM_SLOT, LEN + 2 * SPM_SLOT);
	return hits;
}

TEST_F(spm, each_call_of_a_program)
{
	const char *verbose = getenv("SPM_FAIL_VERBOSE");
	unsigned int n, hits = 1, sum = 0, i;
	double start = spm_now();
	int nth;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	spm_fail_setup();
	if (verbose) {
		spm_fail_write(SPM_FAIL_SLAB "verbose", verbose);
		spm_fail_write(SPM_FAIL_PAGE "verbose", verbose);
	}
	ASSERT_TRUE(spm_fail_module_only(true));
	nth = spm_fail_open();
	for (n = 1; hits && spm_now() - start < LIMIT; n++) {
		hits = round_of(_metadata, nth, n);
		ASSERT_EQ(0, spm_baseline_check(&self->base));
		sum += hits;
		if (n < 10 || n % 10 == 0 || !hits)
			TH_LOG("round %u: %u failures, %.1f s", n, hits,
			       spm_now() - start);
	}
	spm_fail_module_only(false);
	spm_fail_setup();
	for (i = 0; i < ARRAY_SIZE(steps); i++)
		if (steps[i].hits)
			TH_LOG("%-32s %3u failures, %3u told", steps[i].name,
			       steps[i].hits, steps[i].errors);
	TH_LOG("%u failures in %u rounds, %.1f s", sum, n - 1,
	       spm_now() - start);
	EXPECT_EQ(0, hits) {
		TH_LOG("the time was too short for all");
	}
}

SPM_TEST_MAIN
