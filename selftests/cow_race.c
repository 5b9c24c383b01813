// SPDX-License-Identifier: GPL-2.0
/*
 * Property: while several threads and processes store, fork, take snapshots of
 * snapshots, eight deep, and drop them in any order, all on the same few slots,
 * every page of every view holds what its owner stored or inherited, nothing
 * deadlocks, and in the end nothing is left.
 *
 * Kind of bug: locks taken in the wrong order by chains of objects that are
 * frozen, merged and looked through at the same time; a look-up that follows a
 * chain which is being taken apart.
 *
 * The seed is printed; SPM_RACE_SEED sets it, SPM_RACE_SECONDS the time.
 *
 * spm-test: timeout=200 smp=4 full=debug
 */
#include "spm_sync.h"

#define SEED	81
#define DEPTH	8
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)
#define WORKERS	4

static atomic_ulong *wrong, *done;
static double end;
static int root;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 20;
}

/*
 * A page is stored to as a whole pair: owner in the first word, the same in the
 * last.  Pages that nobody of the line stored to hold the root's.
 */
static void store(char *page, uint64_t value)
{
	volatile uint64_t *w = (uint64_t *)page;

	w[0] = value;
	w[511] = value;
}

static uint64_t load(const char *page)
{
	const volatile uint64_t *w = (const uint64_t *)page;

	return w[0] == w[511] ? w[0] : ~0ULL;
}

/* What a worker's line of snapshots must hold; nobody else stores to it. */
struct level {
	int fd;
	bool priv;
	char *map;
	uint64_t value[PAGES];		/* seen through the mapping */
	uint64_t region[PAGES];		/* what the next snapshot holds */
};

struct worker {
	uint64_t x;
	struct level level[DEPTH];
	int depth;
};

static void check(const struct level *l, uint64_t *x, int n)
{
	size_t page;

	while (n--) {
		page = next(x) % PAGES;
		if (load(l->map + page * SPM_PAGE) == l->value[page])
			continue;
		spm_note("page %zu holds %#llx, not %#llx", page,
			 (unsigned long long)load(l->map + page * SPM_PAGE),
			 (unsigned long long)l->value[page]);
		++*wrong;
	}
}

static void push(struct worker *w)
{
	struct level *l = &w->level[w->depth];
	const struct level *of = l - 1;
	size_t i;

	if (w->depth == DEPTH)
		return;
	/* The root is never stored to again. */
	for (i = 0; i < PAGES; i++)
		l->region[i] = w->depth ? of->region[i] : i + 1;
	memcpy(l->value, l->region, sizeof(l->value));
	l->fd = spm_snapshot(w->depth ? of->fd : root);
	l->priv = next(&w->x) % 4 == 0;
	l->map = l->priv ? spm_private(l->fd, LEN, 0, SPM_RW) :
			   spm_map(l->fd, LEN, 0, SPM_RW);
	w->depth++;
}

/* Not always the last one that was made. */
static void pop(struct worker *w, int k)
{
	struct level *l = &w->level[k];

	spm_unmap(l->map - SPM_SLOT, LEN + 2 * SPM_SLOT);
	close(l->fd);
	memmove(l, l + 1, (--w->depth - k) * sizeof(*l));
}

static void store_some(struct worker *w, struct level *l)
{
	size_t page = next(&w->x) % PAGES, n = 1 + next(&w->x) % 4;
	uint64_t value = next(&w->x) | 1ULL << 62;

	if (next(&w->x) % 64 == 0)
		n = 300;
	for (; n && page < PAGES; n--, page++) {
		store(l->map + page * SPM_PAGE, value);
		l->value[page] = value;
		if (!l->priv)
			l->region[page] = value;
	}
}

static int child(void *arg)
{
	struct worker *w = arg;
	struct level *l = &w->level[next(&w->x) % w->depth];
	bool priv = l->priv || next(&w->x) % 2;
	int i;

	/* Not to disturb the parent's model, what is shared becomes private. */
	if (priv && !l->priv)
		spm_private_at(l->map, l->fd, LEN, 0, SPM_RW);
	l->priv = priv;
	for (i = 0; i < 10; i++) {
		if (priv)
			store_some(w, l);
		check(l, &w->x, 4);
	}
	if (next(&w->x) % 4 == 0)
		kill(getpid(), SIGKILL);
	return 0;
}

static void step(struct worker *w)
{
	struct level *l;

	if (!w->depth) {
		push(w);
		return;
	}
	l = &w->level[next(&w->x) % w->depth];
	switch (next(&w->x) % 16) {
	case 0 ... 1:
		push(w);
		break;
	case 2:
		pop(w, next(&w->x) % w->depth);
		break;
	case 3 ... 7:
		store_some(w, l);
		break;
	case 8:
		spm_advise(l->fd, l->map + next(&w->x) % 2 * SPM_SLOT, SPM_SLOT,
			   next(&w->x) % 4 ? SPM_ADV_DEMOTE : SPM_ADV_PROMOTE);
		break;
	case 9:
		madvise(l->map + next(&w->x) % 2 * SPM_SLOT, SPM_SLOT,
			MADV_DONTNEED);
		break;
	default:
		check(l, &w->x, 8);
	}
	++*done;
}

static void *worker_thread(void *arg)
{
	struct worker *w = arg;

	while (spm_now() < end)
		step(w);
	while (w->depth) {
		check(&w->level[w->depth - 1], &w->x, PAGES / 4);
		pop(w, next(&w->x) % w->depth);
	}
	return NULL;
}

static int worker_process(void *arg)
{
	struct worker *w = arg;
	int status;

	while (spm_now() < end) {
		step(w);
		if (!w->depth || next(&w->x) % 8)
			continue;
		status = spm_fork_run(child, w);
		spm_child_check(status == 0 || status == 256 + SIGKILL, "%d",
				status);
	}
	worker_thread(w);
	return 0;
}

TEST_F(spm, chains)
{
	const char *s = getenv("SPM_RACE_SEED"), *t = getenv("SPM_RACE_SECONDS");
	uint64_t seed = s ? strtoull(s, NULL, 0) :
			    time(NULL) * 2654435761ULL | 1;
	struct worker *w = calloc(WORKERS, sizeof(*w));
	pthread_t thread[WORKERS / 2];
	pid_t pid[WORKERS / 2];
	char *map;
	size_t i;

	ASSERT_TRUE(w);
	TH_LOG("SPM_RACE_SEED=%llu", (unsigned long long)seed);
	wrong = spm_shared(2 * sizeof(*wrong));
	done = wrong + 1;
	root = spm_open();
	map = spm_map(root, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(root, map, LEN, SPM_ADV_PROMOTE));
	for (i = 0; i < PAGES; i++)
		store(map + i * SPM_PAGE, i + 1);
	end = spm_now() + (t ? atoi(t) : 20);
	for (i = 0; i < WORKERS; i++)
		w[i].x = (seed + i) * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < WORKERS / 2; i++)
		pid[i] = spm_fork(worker_process, &w[i]);
	for (i = 0; i < WORKERS / 2; i++)
		spm_thread(&thread[i], worker_thread, &w[WORKERS / 2 + i]);
	for (i = 0; i < WORKERS / 2; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < WORKERS / 2; i++) {
		EXPECT_EQ(0, spm_wait(pid[i]));
	}
	TH_LOG("%lu operations", (unsigned long)*done);
	EXPECT_EQ(0, *wrong);
	for (i = 0; i < PAGES; i++) {
		ASSERT_EQ(i + 1, load(map + i * SPM_PAGE));
	}
	EXPECT_EQ(0, spm_all_consistent());
}

/*
 * One object from all sides: threads store to the source and to private maps of
 * it, while snapshots of it and of them are taken and dropped.
 */
static volatile bool stop;
static char *shared;

static void *store_to_source(void *arg)
{
	uint64_t x = (uintptr_t)arg, n;
	size_t page;

	for (n = 1; !stop; n++) {
		page = next(&x) % PAGES;
		/* Each thread has a word of its own in each page. */
		*(volatile uint64_t *)(shared + page * SPM_PAGE +
				       (uintptr_t)arg * 8) = n;
		if (*(volatile uint64_t *)(shared + page * SPM_PAGE +
					   (uintptr_t)arg * 8) != n)
			++*wrong;
	}
	return NULL;
}

static void *take_and_drop(void *arg)
{
	int fd[4] = { -1, -1, -1, -1 }, k;
	struct spm_nodes where = { .argsz = sizeof(where) };
	char *map = spm_reserve(LEN, 0);
	uint64_t x = (uintptr_t)arg;
	unsigned char sum;
	size_t i;

	while (!stop) {
		k = next(&x) % 4;
		if (fd[k] >= 0)
			close(fd[k]);
		fd[k] = spm_snapshot(fd[(k + 1) % 4] >= 0 && next(&x) % 2 ?
				     fd[(k + 1) % 4] : root);
		if (next(&x) % 2)
			spm_map_at(map, fd[k], LEN, 0, PROT_READ);
		else
			spm_private_at(map, fd[k], LEN, 0, SPM_RW);
		/* A walk over objects that come, merge and go. */
		if (ioctl(root, SPM_IOC_NODES, &where) || !where.count ||
		    ioctl(fd[k], SPM_IOC_NODES, &where))
			++*wrong;
		/* It stands still. */
		for (i = 0, sum = 0; i < PAGES; i += 7)
			sum += map[i * SPM_PAGE + 8] + map[i * SPM_PAGE + 16];
		for (i = 0; i < PAGES; i += 7)
			sum -= map[i * SPM_PAGE + 8] + map[i * SPM_PAGE + 16];
		if (sum)
			++*wrong;
		++*done;
	}
	for (k = 0; k < 4; k++)
		if (fd[k] >= 0)
			close(fd[k]);
	spm_unmap(map, LEN);
	return NULL;
}

TEST_F(spm, one_source)
{
	pthread_t t[WORKERS];
	size_t i;

	wrong = spm_shared(2 * sizeof(*wrong));
	done = wrong + 1;
	root = spm_open();
	shared = spm_map(root, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(root, shared, LEN, SPM_ADV_PROMOTE));
	for (i = 0; i < WORKERS; i++)
		spm_thread(&t[i], i < 2 ? store_to_source : take_and_drop,
			   (void *)(i + 1));
	for (i = 0; i < (spm_slow_kernel() ? 80 : 40); i++) {
		usleep(100000);
		if (i % 20 == 19) {
			ASSERT_EQ(0, spm_verify());
		}
	}
	stop = true;
	for (i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
	TH_LOG("%lu snapshots", (unsigned long)*done);
	EXPECT_EQ(0, *wrong);
	EXPECT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
