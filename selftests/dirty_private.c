// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a private mapping's own stores are told, by address, while its threads
 * store, its process forks, the region behind it is stored to, and snapshots of
 * that come and go; by ranges, by bitmaps, and when the answer cannot be written.
 * What others store to the region is never told.  A forked child begins with the
 * state of its parent, however deep, and the two do not meet again.
 *
 * Kind of bug: a fork freezes what is being cleared; an answer that fails puts the
 * state back where a fork has moved it on; stores of the region taken for stores
 * of the mapping.
 *
 * The seed is printed; SPM_ORACLE_SEED sets it, SPM_PRIVATE_SECONDS the time.
 *
 * spm-test: timeout=300 smp=4 full=7.3
 */
#include "spm_sync.h"

#define CLEAR		SPM_SCAN_CLEAR
#define BITMAP		SPM_SCAN_BITMAP
#define SLOTS		4
#define LEN		(SLOTS * SPM_SLOT)
#define PAGES		(SLOTS * SPM_SLOT_PAGES)
#define OWN		((SLOTS - 1) * SPM_SLOT_PAGES)	/* the rest: others store */
#define WRITERS		3

struct oracle {
	struct spm_barrier barrier;
	atomic_ulong clock, stores, forks;
	atomic_uint stop, over;
	atomic_ulong began[WRITERS][PAGES];
	unsigned long answered[PAGES];
	unsigned long failed;		/* answers */
};

static struct oracle *o;
static int region;
static char *shared, *priv;
static uint64_t seed;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 20;
}

static uint64_t dirty_of(uint32_t flags)
{
	return spm_dirty(region, flags, (uintptr_t)priv, LEN);
}

static void *writer(void *arg)
{
	unsigned int me = (uintptr_t)arg, page, n;
	uint64_t rnd = seed * 977 + me * 31 + 1;

	while (!atomic_load(&o->over)) {
		while (!atomic_load(&o->stop)) {
			page = next(&rnd) % OWN;
			n = next(&rnd) % 16 ? 1 : next(&rnd) % 300;
			for (; n && page < OWN; n--, page++) {
				atomic_store(&o->began[me][page],
					     atomic_fetch_add(&o->clock, 1));
				*(volatile uint64_t *)(priv + page * SPM_PAGE +
						       me * 8) += 1;
				atomic_fetch_add(&o->stores, 1);
			}
		}
		spm_barrier_sleep(&o->barrier);
		spm_barrier_sleep(&o->barrier);
	}
	return NULL;
}

/* Alone from here on: what it finds, clears and stores is its own. */
static int child(void *arg)
{
	uint64_t rnd = (uintptr_t)arg, dirty = dirty_of(CLEAR);
	unsigned int i, n = 1 + next(&rnd) % 20;

	spm_child_check(dirty <= OWN, "%llu", (unsigned long long)dirty);
	spm_child_check(!dirty_of(0), "%llu", (unsigned long long)dirty_of(0));
	for (i = 0; i < n; i++)
		priv[(next(&rnd) % 100 * 20 + i) % OWN * SPM_PAGE + 4000]++;
	dirty = dirty_of(CLEAR);
	spm_child_check(dirty && dirty <= n, "%llu", (unsigned long long)dirty);
	spm_child_check(!dirty_of(0), "again");
	return 0;
}

static void disturb_once(uint64_t *rnd)
{
	char *p = priv + next(rnd) % SLOTS * SPM_SLOT;

	switch (next(rnd) % 8) {
	case 0:
	case 1:
		if (spm_fork_run(child, (void *)(next(rnd) | 1)))
			spm_die("a child has failed");
		atomic_fetch_add(&o->forks, 1);
		break;
	case 2:
		close(spm_snapshot(region));
		break;
	case 3:
		spm_touch_read(p, SPM_SLOT);
		break;
	case 4:
		spm_advise(region, p, SPM_SLOT, SPM_ADV_DEMOTE);
		break;
	case 5:
		madvise(p, next(rnd) % 2 ? SPM_SLOT : SPM_PAGE, MADV_DONTNEED);
		break;
	case 6:
		/* Pages that the mapping has of its own, and others. */
		shared[next(rnd) % PAGES * SPM_PAGE]++;
		spm_touch_write(shared + OWN * SPM_PAGE, 64 * SPM_PAGE);
		break;
	default:
		spm_dirty(region, SPM_SCAN_BY_OFFSET | CLEAR, 0, LEN);
	}
}

static void *disturb(void *arg)
{
	uint64_t rnd = seed * 7919 + 3;

	while (!atomic_load(&o->over)) {
		while (!atomic_load(&o->stop))
			disturb_once(&rnd);
		spm_barrier_sleep(&o->barrier);
		spm_barrier_sleep(&o->barrier);
	}
	return NULL;
}

static void told(const struct spm_scan *s, bool bitmap, unsigned long now)
{
	const struct spm_page_range *vec = (void *)(uintptr_t)s->vec;
	const unsigned char *bits = (void *)(uintptr_t)s->vec;
	uint64_t i, page, base = (uintptr_t)priv;

	for (i = 0; bitmap && i < s->count * 8; i++)
		if (bits[i / 8] >> i % 8 & 1)
			o->answered[(s->start - base) / SPM_PAGE + i] = now;
	for (i = 0; !bitmap && i < s->count; i++)
		for (page = (vec[i].start - base) / SPM_PAGE;
		     page < (vec[i].end - base) / SPM_PAGE; page++)
			o->answered[page] = now;
}

/* The end of @buf's second page cannot be written to. */
static void collect(char *buf, uint64_t *rnd)
{
	uint64_t end = (uintptr_t)priv + LEN, from = (uintptr_t)priv;

	while (from < end) {
		bool bitmap = next(rnd) % 2, fails = next(rnd) % 3 == 0;
		struct spm_scan s = {
			.flags = CLEAR | (bitmap ? BITMAP : 0),
			.start = from, .len = end - from,
			.vec = (uintptr_t)buf,
			.vec_len = bitmap ? 256 : 2 * SPM_PAGE / 16,
		};
		int err;

		if (fails) {
			s.vec += 2 * SPM_PAGE - 16 * (next(rnd) % 12);
			s.vec_len = bitmap ? 256 : 600;
		}
		err = spm_scan(region, SPM_IOC_GET_DIRTY, &s);
		if (err == -EFAULT && fails) {
			o->failed++;
			continue;
		}
		if (err)
			spm_die("GET_DIRTY gave %d", err);
		told(&s, bitmap, atomic_fetch_add(&o->clock, 1));
		from = s.next;
	}
}

static long lost(void)
{
	long n = 0;
	unsigned int w, page;

	for (page = 0; page < PAGES; page++) {
		if (page >= OWN && o->answered[page] && !n++)
			spm_note("page %u is the region's, and was told", page);
		for (w = 0; w < WRITERS; w++)
			if (atomic_load(&o->began[w][page]) >
			    o->answered[page] && !n++)
				spm_note("page %u: writer %u began at %lu, the last answer with it ended at %lu",
					 page, w, o->began[w][page],
					 o->answered[page]);
	}
	return n;
}

TEST_F(spm, every_store_is_in_an_answer)
{
	const char *t = getenv("SPM_PRIVATE_SECONDS");
	const char *given = getenv("SPM_ORACLE_SEED");
	double end = spm_now() + (t ? atof(t) : 20);
	unsigned long rounds = 0;
	pthread_t thread[WRITERS + 1];
	uint64_t rnd;
	char *buf;
	long i;

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	TH_LOG("SPM_ORACLE_SEED=%llu", (unsigned long long)seed);
	rnd = seed * 104729 + 1;
	o = spm_shared(sizeof(*o));
	o->barrier.parties = WRITERS + 2;
	atomic_store(&o->clock, 1);
	region = spm_open();
	shared = spm_map(region, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(region, shared, LEN, SPM_ADV_PROMOTE));
	priv = spm_private(region, LEN, 0, SPM_RW);
	buf = mmap(NULL, 3 * SPM_PAGE, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	ASSERT_TRUE(buf != MAP_FAILED);
	spm_unmap(buf + 2 * SPM_PAGE, SPM_PAGE);
	for (i = 0; i < WRITERS; i++)
		spm_thread(&thread[i], writer, (void *)i);
	spm_thread(&thread[i], disturb, NULL);
	while (!atomic_load(&o->over)) {
		double until = spm_now() + (next(&rnd) % 50) / 100.0;

		do {
			collect(buf, &rnd);
		} while (spm_now() < until);
		atomic_store(&o->stop, 1);
		spm_barrier_sleep(&o->barrier);
		collect(buf, &rnd);
		rounds++;
		if (lost() || spm_now() > end)
			atomic_store(&o->over, 1);
		ASSERT_EQ(0, dirty_of(0));
		ASSERT_EQ(0, spm_count_clean_writable(region, priv, LEN));
		atomic_store(&o->stop, 0);
		spm_barrier_sleep(&o->barrier);
	}
	for (i = 0; i <= WRITERS; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%lu rounds, %lu stores, %lu forks, %lu answers failed", rounds,
	       o->stores, o->forks, o->failed);
	EXPECT_EQ(0, lost());
	EXPECT_EQ(0, spm_all_consistent());
}

/* Beyond SPM_DEPTH_MAX generations, a fork copies: state and all. */
static int generation(void *arg)
{
	long depth = (long)arg;
	uint64_t dirty = dirty_of(0);

	/* Every tenth one clears: its descendants begin from there. */
	spm_child_check(dirty == (depth - 1) % 10 + 1, "%llu at %ld",
			(unsigned long long)dirty, depth);
	if (depth % 10 == 0)
		spm_child_check(dirty_of(CLEAR) == dirty, "at %ld", depth);
	priv[depth * 5 * SPM_PAGE]++;
	spm_child_check(dirty_of(0) == depth % 10 + 1, "%llu at %ld",
			(unsigned long long)dirty_of(0), depth);
	if (depth == SPM_DEPTH_MAX + 10)
		return 0;
	return spm_fork_run(generation, (void *)(depth + 1));
}

TEST_F(spm, generations)
{
	region = spm_open();
	shared = spm_map(region, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(region, shared, SPM_SLOT, SPM_ADV_PROMOTE));
	priv = spm_private(region, LEN, 0, SPM_RW);
	priv[0] = 1;
	ASSERT_EQ(0, spm_fork_run(generation, (void *)1L));
	ASSERT_EQ(1, dirty_of(CLEAR));
	ASSERT_EQ(0, dirty_of(0));
	ASSERT_EQ(0, spm_all_consistent());
}

/* Two that store to the same pages, then are asked in either order. */
static int grandchild(void *arg)
{
	priv[1 * SPM_PAGE] = 3;
	priv[9 * SPM_PAGE] = 3;
	spm_child_check(dirty_of(CLEAR) == 4, "%llu",
			(unsigned long long)dirty_of(0));
	return 0;
}

static int sibling(void *arg)
{
	spm_child_check(dirty_of(0) == 2, "%llu",
			(unsigned long long)dirty_of(0));
	priv[2 * SPM_PAGE] = 2;
	if (arg)
		spm_child_check(dirty_of(CLEAR) == 3, "clear");
	else
		spm_child_check(!spm_fork_run(grandchild, NULL), "grandchild");
	spm_child_check(dirty_of(0) == (arg ? 0 : 3), "%llu",
			(unsigned long long)dirty_of(0));
	return 0;
}

TEST_F(spm, siblings)
{
	int k;

	region = spm_open();
	shared = spm_map(region, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(region, shared, LEN, SPM_ADV_PROMOTE));
	for (k = 0; k < 2; k++) {
		priv = spm_private(region, LEN, 0, SPM_RW);
		ASSERT_EQ(0, dirty_of(k ? CLEAR : 0));
		priv[0] = 1;
		priv[SPM_PAGE] = 1;
		ASSERT_EQ(0, spm_fork_run(sibling, NULL));
		ASSERT_EQ(2, dirty_of(0));
		ASSERT_EQ(0, spm_fork_run(sibling, priv));
		ASSERT_EQ(2, dirty_of(CLEAR));
		ASSERT_EQ(0, dirty_of(0));
		priv[SPM_PAGE] = 2;
		ASSERT_EQ(1, dirty_of(CLEAR));
		/* The region has its own. */
		ASSERT_EQ(PAGES, spm_dirty(region, SPM_SCAN_BY_OFFSET, 0, LEN));
		spm_unmap(priv, LEN);
	}
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
