// SPDX-License-Identifier: GPL-2.0
/*
 * Property: when memory runs out at any step of a copy, a snapshot, a fork of a
 * private mapping or a merge, the call fails with ENOMEM or does without, a
 * fault is repeated, and nobody's data is lost: the sides that were not
 * involved do not notice at all, and the books still balance.
 * Guards against: error paths that nobody ever ran: a page that was moved on
 * one side only, an object that stays frozen, or connected, a bitmap without
 * its page, SIGBUS in the parent for what the child could not get.
 *
 * Each operation is repeated, and the first, second, third ... step of the
 * kernel that can fail in it fails, from the last one on, for some seconds.
 *
 * spm-test: kernels=debug timeout=300
 * spm-test: log="Call Trace:"
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define LEN	SPM_SLOT
#define PAGE	SPM_PAGE
#define K	300U			/* the page that is acted upon */
#define SEED	1
#define LIMIT	4			/* seconds for each operation */
#define MANY	100000			/* more steps than there are */

enum { SRC, COPY, PRIV, VIEWS };

/*
 * A region, its snapshot, and a private mapping of that, each mapped once.
 * @holds: the seed of each page, 0 for zeros
 */
struct env {
	int fd, snap, made;
	char *view[VIEWS];
	unsigned char holds[VIEWS][SPM_SLOT_PAGES];
	size_t gone;			/* pages from K on that PRIV has not */
};

struct op {
	const char *name;
	void (*prepare)(struct env *e);
	int (*run)(struct env *e);	/* 0 or -errno */
	void (*done)(struct env *e, int ret);	/* what it changed */
	int errnos[5];			/* allowed, ended by 0 */
};

static int fd_of(const struct env *e, int view)
{
	return view == SRC ? e->fd : e->snap;
}

static void store(struct env *e, int view, unsigned int page)
{
	spm_stamp(e->view[view] + page * PAGE, page, SEED + 1);
	e->holds[view][page] = SEED + 1;
}

/* -- states ---------------------------------------------------------------- */

/* Nothing is mapped; all shows through, in the copy and the private mapping. */
static void nothing(struct env *e)
{
}

static void mapped_2m(struct env *e)
{
	int v;

	for (v = 0; v < VIEWS; v++)
		spm_touch_read(e->view[v], LEN);
}

static void mapped_4k(struct env *e)
{
	int v;

	mapped_2m(e);
	for (v = 0; v < VIEWS; v++)
		if (spm_advise(fd_of(e, v), e->view[v], LEN, SPM_ADV_DEMOTE))
			spm_die("DEMOTE");
}

/* Each side has some pages of its own. */
static void mixed(struct env *e)
{
	unsigned int i;
	int v;

	mapped_2m(e);
	for (v = 0; v < VIEWS; v++)
		for (i = 0; i < 8; i++)
			store(e, v, 10 * v + i);
	/* The private mapping sees what the copy has stored. */
	for (i = 0; i < 8; i++)
		e->holds[PRIV][10 * COPY + i] = SEED + 1;
}

static void all_but_one(struct env *e)
{
	unsigned int i;

	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (i != K)
			store(e, PRIV, i);
}

static void whole_slots(struct env *e)
{
	mapped_2m(e);
	if (spm_param_set("cow_size", "2M"))
		spm_die("cow_size");
}

/* -- operations -------------------------------------------------------------- */

static int run_snapshot(struct env *e)
{
	int ret = spm_try_snapshot(e->snap, 0);

	if (ret < 0)
		return ret;
	e->made = ret;
	return 0;
}

static void done_snapshot(struct env *e, int ret)
{
	char *map;
	unsigned int i;

	if (ret)
		return;
	map = spm_map(e->made, LEN, 0, SPM_RW);
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (!spm_stamped(map + i * PAGE, i, e->holds[COPY][i]))
			spm_die("the new snapshot is wrong");
	spm_unmap(map, LEN);
}

static int run_store_src(struct env *e)
{
	store(e, SRC, K);
	return 0;
}

static int run_store_copy(struct env *e)
{
	store(e, COPY, K);
	return 0;
}

static void done_store_copy(struct env *e, int ret)
{
	e->holds[PRIV][K] = SEED + 1;
}

static int run_store_priv(struct env *e)
{
	store(e, PRIV, K);
	return 0;
}

static int run_load(struct env *e)
{
	*(volatile char *)(e->view[PRIV] + K * PAGE);
	return 0;
}

static int run_mmap(struct env *e)
{
	void *p = mmap(NULL, LEN, SPM_RW, MAP_PRIVATE, e->snap, 0);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, LEN);
	return 0;
}

static int fork_child(struct env *e)
{
	unsigned int i;

	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (!spm_stamped(e->view[PRIV] + i * PAGE, i, e->holds[PRIV][i]))
			return 1;
	store(e, PRIV, K);
	store(e, PRIV, 1);
	return 0;
}

static int run_fork(struct env *e)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(fork_child(e));
	/* The wait may be the step that fails. */
	while (waitpid(pid, &status, 0) != pid)
		;
	/* A child for which there was no memory is told so by SIGBUS. */
	if (!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS))
		return 0;
	return -EPROTO;
}

static int run_discard_copy(struct env *e)
{
	return spm_advise_off(e->snap, K * PAGE, LEN - K * PAGE,
			      SPM_ADV_DISCARD);
}

static void discarded(struct env *e, int view)
{
	memset(e->holds[view] + K, 0, SPM_SLOT_PAGES - K);
}

static void done_discard_copy(struct env *e, int ret)
{
	/* One slot: all or nothing. */
	if (ret)
		return;
	discarded(e, COPY);
	discarded(e, PRIV);
}

static int run_discard_priv(struct env *e)
{
	return spm_advise(e->snap, e->view[PRIV] + K * PAGE, LEN - K * PAGE,
			  SPM_ADV_DISCARD);
}

static void done_discard_priv(struct env *e, int ret)
{
	if (!ret)
		discarded(e, PRIV);
}

static int run_promote_copy(struct env *e)
{
	return spm_advise(e->snap, e->view[COPY], LEN, SPM_ADV_PROMOTE);
}

static int run_promote_priv(struct env *e)
{
	return spm_advise(e->snap, e->view[PRIV], LEN, SPM_ADV_PROMOTE);
}

static int run_prefault_priv(struct env *e)
{
	return spm_advise(e->snap, e->view[PRIV], LEN, SPM_ADV_PREFAULT);
}

static int run_prefault_offset(struct env *e)
{
	return spm_advise_off(e->snap, 0, LEN, SPM_ADV_PREFAULT);
}

/* The source goes: its snapshot gets the frozen pages. */
static int run_close(struct env *e)
{
	if (munmap(e->view[SRC], LEN))
		return -errno;
	e->view[SRC] = NULL;
	if (close(e->fd))
		return -errno;
	e->fd = -1;
	return 0;
}

static int run_shrink(struct env *e)
{
	return spm_set_size(e->snap, K * PAGE);
}

static void done_shrink(struct env *e, int ret)
{
	if (spm_set_size(e->snap, LEN))
		spm_die("SET_SIZE");
	if (ret)
		return;
	discarded(e, COPY);
	discarded(e, PRIV);
}

static int run_munmap_page(struct env *e)
{
	if (munmap(e->view[PRIV] + K * PAGE, PAGE))
		return -errno;
	e->gone = 1;
	return 0;
}

static int run_mprotect_page(struct env *e)
{
	return mprotect(e->view[PRIV] + K * PAGE, PAGE, PROT_READ) ? -errno : 0;
}

static int run_mremap_page(struct env *e)
{
	void *p = mremap(e->view[PRIV] + K * PAGE, PAGE, PAGE, MREMAP_MAYMOVE |
			 MREMAP_FIXED, e->view[PRIV] + LEN + PAGE);

	if (p == MAP_FAILED)
		return -errno;
	e->gone = 1;
	return 0;
}

static void done_mremap(struct env *e, int ret)
{
	if (!ret && !spm_stamped(e->view[PRIV] + LEN + PAGE, K,
				 e->holds[PRIV][K]))
		spm_die("the page that was moved is wrong");
}

#define CALL { ENOMEM, EFAULT }

static const struct op ops[] = {
	{ "snapshot",			mapped_2m,	run_snapshot,
	  done_snapshot,		{ ENOMEM, EFAULT, ENFILE, EMFILE } },
	{ "snapshot of a mixed slot",	mixed,		run_snapshot,
	  done_snapshot,		{ ENOMEM, EFAULT, ENFILE, EMFILE } },
	{ "store to the source, 2 MB",	mapped_2m,	run_store_src },
	{ "store to the source, 4 KB",	mapped_4k,	run_store_src },
	{ "store to the copy, nothing",	nothing,	run_store_copy,
	  done_store_copy },
	{ "store to the copy, 2 MB",	mapped_2m,	run_store_copy,
	  done_store_copy },
	{ "private store, nothing",	nothing,	run_store_priv },
	{ "private store, 2 MB",	mapped_2m,	run_store_priv },
	{ "private store, 4 KB",	mapped_4k,	run_store_priv },
	{ "private store, the last",	all_but_one,	run_store_priv },
	{ "private store, all of it",	whole_slots,	run_store_priv },
	{ "load of what shows through",	nothing,	run_load },
	{ "private mmap",		mixed,		run_mmap,
	  NULL,				{ ENOMEM } },
	{ "fork, nothing copied",	mapped_2m,	run_fork,
	  NULL,				{ ENOMEM, EAGAIN } },
	{ "fork, mixed",		mixed,		run_fork,
	  NULL,				{ ENOMEM, EAGAIN } },
	{ "fork, all copied",		all_but_one,	run_fork,
	  NULL,				{ ENOMEM, EAGAIN } },
	{ "DISCARD in a snapshot",	mixed,		run_discard_copy,
	  done_discard_copy,		CALL },
	{ "DISCARD in private",		mixed,		run_discard_priv,
	  done_discard_priv,		CALL },
	{ "PROMOTE of what shows through", nothing,	run_promote_copy,
	  NULL,				CALL },
	{ "PROMOTE of a mixed slot",	mixed,		run_promote_copy,
	  NULL,				CALL },
	{ "PROMOTE in private",		mixed,		run_promote_priv,
	  NULL,				CALL },
	{ "PREFAULT in private",	mixed,		run_prefault_priv,
	  NULL,				CALL },
	{ "PREFAULT by offset",		mixed,		run_prefault_offset,
	  NULL,				CALL },
	{ "merge",			mapped_2m,	run_close,
	  NULL,				{ ENOMEM } },
	{ "merge of a mixed slot",	mixed,		run_close,
	  NULL,				{ ENOMEM } },
	{ "SET_SIZE",			mixed,		run_shrink,
	  done_shrink,			CALL },
	{ "munmap of a page",		mixed,		run_munmap_page,
	  NULL,				{ ENOMEM } },
	{ "mprotect of a page",		mixed,		run_mprotect_page,
	  NULL,				{ ENOMEM } },
	{ "mremap of a page",		mixed,		run_mremap_page,
	  done_mremap,			{ ENOMEM } },
};

static bool allowed(const struct op *op, int ret)
{
	int i;

	if (!ret)
		return true;
	for (i = 0; i < 5; i++)
		if (op->errnos[i] && op->errnos[i] == -ret)
			return true;
	return false;
}

static void env_open(struct env *e)
{
	unsigned int i;

	memset(e, 0, sizeof(*e));
	e->made = -1;
	e->fd = spm_open();
	e->view[SRC] = spm_map(e->fd, LEN, 0, SPM_RW);
	if (spm_advise(e->fd, e->view[SRC], LEN, SPM_ADV_PROMOTE))
		spm_die("PROMOTE");
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		spm_stamp(e->view[SRC] + i * PAGE, i, SEED);
	memset(e->holds, SEED, sizeof(e->holds));
	e->snap = spm_snapshot(e->fd);
	e->view[COPY] = spm_map(e->snap, LEN, 0, SPM_RW);
	e->view[PRIV] = spm_private(e->snap, LEN, 0, SPM_RW);
}

static void env_close(struct env *e)
{
	if (spm_param_set("cow_size", "4K"))
		spm_die("cow_size");
	if (e->made >= 0)
		close(e->made);
	if (e->view[SRC])
		spm_unmap(e->view[SRC], LEN);
	spm_unmap(e->view[COPY], LEN);
	/* Behind the mapping is where mremap put its page. */
	spm_unmap(e->view[PRIV], LEN + 2 * PAGE);
	if (e->fd >= 0)
		close(e->fd);
	close(e->snap);
}

/* Does every view hold what it should? Prints what does not. */
static bool views_are_right(struct env *e)
{
	static const char * const names[] = { "source", "copy", "private" };
	unsigned int i, v;
	const char *page;

	for (v = 0; v < VIEWS; v++) {
		for (i = 0; e->view[v] && i < SPM_SLOT_PAGES; i++) {
			if (v == PRIV && i >= K && i < K + e->gone)
				continue;
			page = e->view[v] + i * PAGE;
			if (e->holds[v][i] ?
			    spm_stamped(page, i, e->holds[v][i]) :
			    spm_nonzero(page, 1) == -1)
				continue;
			spm_note("page %u of the %s", i, names[v]);
			return false;
		}
	}
	return true;
}

/* Let the n-th step fail; returns how many were left until then. */
static unsigned int try_nth(struct __test_metadata *_metadata,
			    const struct op *op, int nth, unsigned int n)
{
	unsigned int left;
	struct env e;
	int ret;

	env_open(&e);
	op->prepare(&e);
	spm_fail_nth(nth, n);
	ret = op->run(&e);
	left = spm_fail_left(nth);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	EXPECT_TRUE(allowed(op, ret)) {
		TH_LOG("%s, step %u: %d", op->name, n, ret);
	}
	EXPECT_TRUE(!left || !ret) {
		TH_LOG("%s: %d although nothing failed", op->name, ret);
	}
	if (op->done)
		op->done(&e, ret);
	EXPECT_TRUE(views_are_right(&e)) {
		TH_LOG("%s, step %u: %d", op->name, n, ret);
	}
	EXPECT_EQ(0, spm_all_consistent()) {
		TH_LOG("%s, step %u: %d", op->name, n, ret);
	}
	/* With memory there again, everything goes on. */
	if (e.view[SRC])
		store(&e, SRC, 200);
	store(&e, COPY, 201);
	e.holds[PRIV][201] = e.holds[PRIV][201] == SEED ? SEED + 1 :
			     e.holds[PRIV][201];
	store(&e, PRIV, 202);
	store(&e, PRIV, 201);
	EXPECT_TRUE(views_are_right(&e)) {
		TH_LOG("%s, step %u: %d, later", op->name, n, ret);
	}
	env_close(&e);
	return left;
}

/*
 * The steps of one operation: those that come to pass in the module, and then
 * all, where there are hundreds not each of them.
 */
static void try_steps(struct __test_metadata *_metadata, const struct op *op,
		      int nth, bool module)
{
	unsigned int n, steps, stride, tried = 0;
	double t = spm_now();

	if (module && !spm_fail_module_only(true))
		return;
	steps = MANY - try_nth(_metadata, op, nth, MANY);
	stride = steps > 100 ? steps / 16 : 1;
	for (n = steps + 1; n <= steps + 1 && spm_now() - t < LIMIT;
	     n -= stride, tried++)
		if (n)
			try_nth(_metadata, op, nth, n);
	TH_LOG("%-32s %3u of %3u steps%s, %.1f s", op->name, tried, steps + 1,
	       module ? " in the module" : "", spm_now() - t);
	if (module)
		spm_fail_module_only(false);
}

TEST_F(spm, each_step_of_each_operation)
{
	double start = spm_now();
	size_t i;
	int nth;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	spm_fail_setup();
	nth = spm_fail_open();
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		try_steps(_metadata, &ops[i], nth, true);
		/* The core's own, around ours; where there are any. */
		if (ops[i].errnos[0] == ENOMEM)
			try_steps(_metadata, &ops[i], nth, false);
	}
	TH_LOG("%.1f s", spm_now() - start);
}

/*
 * Not step by step: copies for which there is no memory at all in the child's
 * memory cgroup are the OOM killer's business; nobody else notices.
 */
static int greedy_child(void *arg)
{
	struct env *e = arg;
	char group[64];
	FILE *f;

	f = fopen("/sys/fs/cgroup/spm-cow/cgroup.procs", "w");
	snprintf(group, sizeof(group), "%d", getpid());
	if (!f || fputs(group, f) < 0 || fclose(f))
		return 1;
	spm_touch_write(e->view[PRIV], 8 * LEN);
	return 0;
}

TEST_F(spm, no_memory_for_copies)
{
	struct env e = { .fd = spm_open() };
	char *region;
	FILE *f;

	/* 16 MB to copy, 8 MB to have. */
	if (mkdir("/sys/fs/cgroup/spm-cow", 0755) && errno != EEXIST)
		SKIP(return, "no memory cgroup");
	f = fopen("/sys/fs/cgroup/spm-cow/memory.max", "w");
	if (!f || fputs("8M", f) < 0 || fclose(f))
		SKIP(return, "no limit of memory");
	region = spm_map(e.fd, 8 * LEN, 0, SPM_RW);
	spm_promoted(e.fd, region, 8 * LEN, 0, SEED);
	e.view[PRIV] = spm_private(e.fd, 8 * LEN, 0, SPM_RW);
	EXPECT_EQ(256 + SIGKILL, spm_fork_run(greedy_child, &e));
	EXPECT_EQ(-1, spm_wrong(region, 0, 8 * SPM_SLOT_PAGES, SEED));
	EXPECT_EQ(-1, spm_wrong(e.view[PRIV], 0, 8 * SPM_SLOT_PAGES, SEED));
	EXPECT_EQ(0, spm_all_consistent());
	rmdir("/sys/fs/cgroup/spm-cow");
}

SPM_TEST_MAIN
