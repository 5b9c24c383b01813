// SPDX-License-Identifier: GPL-2.0
/*
 * Property: while four threads of two processes store, and others promote,
 * demote, change protections, map and unmap, take snapshots and drop them, every
 * store is in an answer of GET_DIRTY that came after it.  A collector clears and
 * collects in a tight loop.  From time to time all stand still for a last answer,
 * and every page that was stored to since the answer before it must be in one.
 *
 * Kind of bug: a store between reading what is dirty and clearing it; an entry
 * that stays writable after a clear; dirty bits that the kernel throws away when
 * it splits, moves or zaps an entry.
 *
 * The seed is printed; SPM_ORACLE_SEED sets it, SPM_ORACLE_SECONDS the time.
 *
 * spm-test: timeout=900 smp=4 full=debug
 */
#include "spm_sync.h"

#define SLOTS		6
#define LEN		(SLOTS * SPM_SLOT)
#define PAGES		(SLOTS * SPM_SLOT_PAGES)
#define WRITERS		4
#define WORKERS		8	/* with those who disturb */

/*
 * What all processes share, outside of any region: a clock that each event
 * moves, and for each page when the last store to it began, by writer.
 */
struct oracle {
	struct spm_barrier barrier;
	atomic_ulong clock;
	atomic_uint stop;
	atomic_uint over;
	atomic_ulong stores;
	atomic_ulong began[WRITERS][PAGES];
	unsigned long answered[PAGES];	/* end of the last answer that has it */
};

static struct oracle *o;
static int region;
static uint64_t seed;

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 20;
}

static void store(unsigned int me, char *map, unsigned int page)
{
	atomic_store(&o->began[me][page], atomic_fetch_add(&o->clock, 1));
	*(volatile uint64_t *)(map + page * SPM_PAGE + me * 8) += 1;
	atomic_fetch_add(&o->stores, 1);
}

/*
 * Now here, now there, now one page after the other; and half of the time some
 * stores to a page that the writer comes back to, because an entry that wrongly
 * stayed writable shows only in a store that finds it.
 */
static void write_some(unsigned int me, char *map, uint64_t *rnd)
{
	unsigned int page = next(rnd) % PAGES, n = 1, i;

	if (next(rnd) % 2) {
		page -= page % SPM_SLOT_PAGES;
		for (i = 0; i < 20 && !atomic_load(&o->stop); i++)
			store(me, map, page + 100 * me);
		return;
	}
	if (next(rnd) % 16 == 0)
		n = next(rnd) % 600;
	for (i = 0; i < n && !atomic_load(&o->stop); i++) {
		store(me, map, page);
		page = (page + 1) % PAGES;
	}
}

/*
 * One of: by advice, by mprotect, by a mapping, by a snapshot.  Half of the time
 * in the writers' mapping, but not where that would make a store fail.
 */
static void disturb(char *stores, char *other, uint64_t *rnd)
{
	size_t off = next(rnd) % SLOTS * SPM_SLOT;
	char *p = (next(rnd) % 2 ? stores : other) + off;
	int fd;

	switch (next(rnd) % 8) {
	case 0:
		spm_advise(region, p, SPM_SLOT, SPM_ADV_PROMOTE);
		break;
	case 1:
		spm_advise(region, p, SPM_SLOT, SPM_ADV_DEMOTE);
		break;
	case 2:
		p = other + off;
		if (mprotect(p + SPM_SLOT / 2, SPM_PAGE, PROT_READ) ||
		    mprotect(p + SPM_SLOT / 2, SPM_PAGE, SPM_RW))
			spm_die("mprotect");
		break;
	case 3:
		madvise(p, next(rnd) % 2 ? SPM_SLOT : SPM_PAGE, MADV_DONTNEED);
		break;
	case 4:
		spm_touch_read(p, SPM_SLOT);
		break;
	case 5:
		fd = spm_snapshot(region);
		if (next(rnd) % 2) {
			struct spm_scan s = {
				.argsz = sizeof(s), .len = LEN,
				.flags = SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR,
			};

			ioctl(fd, SPM_IOC_GET_DIRTY, &s);
		}
		close(fd);
		break;
	case 6:
		p = spm_map(region, LEN, 0, SPM_RW);
		spm_touch_read(p + next(rnd) % SLOTS * SPM_SLOT, SPM_SLOT);
		spm_unmap(p, LEN);
		break;
	default:
		spm_advise(region, p, SPM_SLOT, SPM_ADV_COLD);
	}
}

struct worker {
	unsigned int me;
	char *stores;	/* the writers' mapping */
	char *other;	/* where mprotect makes no store fail */
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t rnd = seed * 977 + w->me * 31 + 1;

	while (!atomic_load(&o->over)) {
		while (!atomic_load(&o->stop)) {
			if (w->me < WRITERS)
				write_some(w->me, w->stores, &rnd);
			else
				disturb(w->stores, w->other, &rnd);
		}
		spm_barrier_sleep(&o->barrier);	/* all stand still */
		spm_barrier_sleep(&o->barrier);	/* the collector has looked */
	}
	return NULL;
}

/* Half of the workers. */
static int process(void *arg)
{
	unsigned int first = *(unsigned int *)arg, i;
	pthread_t threads[WORKERS / 2];
	struct worker w[WORKERS / 2];
	char *stores = spm_map(region, LEN, 0, SPM_RW);
	char *other = spm_map(region, LEN, 0, SPM_RW);

	for (i = 0; i < WORKERS / 2; i++) {
		w[i].me = first + 2 * i;
		w[i].stores = stores;
		w[i].other = other;
		if (pthread_create(&threads[i], NULL, work, &w[i]))
			spm_die("pthread_create");
	}
	for (i = 0; i < WORKERS / 2; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

/* One answer, however many requests it takes. */
static unsigned long collect(uint64_t *rnd)
{
	static struct spm_page_range vec[2048];
	uint64_t from = 0, i, page, pages = 0;
	struct spm_scan s;

	while (from < LEN) {
		s = (struct spm_scan){
			.argsz = sizeof(s), .start = from, .len = LEN - from,
			.flags = SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR,
			.vec = (uintptr_t)vec,
			.vec_len = next(rnd) % 4 ? 2048 : 1 + next(rnd) % 8,
		};
		if (ioctl(region, SPM_IOC_GET_DIRTY, &s))
			spm_die("GET_DIRTY");
		unsigned long now = atomic_fetch_add(&o->clock, 1);

		for (i = 0; i < s.count; i++)
			for (page = vec[i].start / SPM_PAGE;
			     page < vec[i].end / SPM_PAGE; page++)
				o->answered[page] = now;
		pages += s.pages;
		from = s.next;
	}
	return pages;
}

static long lost(void)
{
	long n = 0;
	unsigned int w, page;

	for (page = 0; page < PAGES; page++)
		for (w = 0; w < WRITERS; w++) {
			unsigned long began = atomic_load(&o->began[w][page]);

			if (began <= o->answered[page])
				continue;
			if (!n++)
				spm_note("page %u: writer %u began at %lu, the last answer with it ended at %lu",
					 page, w, began, o->answered[page]);
		}
	return n;
}

static double seconds(void)
{
	const char *s = getenv("SPM_ORACLE_SECONDS");

	return s ? atof(s) : 60;
}

TEST_F_TIMEOUT(spm, every_store_is_in_an_answer, 100000)
{
	unsigned int first[2] = { 0, 1 }, rounds = 0, i;
	unsigned long answers = 0, pages = 0;
	long differences = 0;
	double end = spm_now() + seconds(), told = spm_now();
	const char *given = getenv("SPM_ORACLE_SEED");
	uint64_t rnd;
	pid_t pid[2];

	seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
	spm_note("SPM_ORACLE_SEED=%llu", (unsigned long long)seed);
	rnd = seed * 7919 + 1;
	o = spm_shared(sizeof(*o));
	o->barrier.parties = WORKERS + 1;
	atomic_store(&o->clock, 1);
	region = spm_open();
	ASSERT_EQ(0, spm_set_size(region, LEN));
	for (i = 0; i < 2; i++)
		pid[i] = spm_fork(process, &first[i]);
	while (!atomic_load(&o->over)) {
		double until = spm_now() + (next(&rnd) % 100) / 100.0;

		do {
			pages += collect(&rnd);
			answers++;
		} while (spm_now() < until);
		atomic_store(&o->stop, 1);
		spm_barrier_sleep(&o->barrier);
		pages += collect(&rnd);
		answers++;
		rounds++;
		/* With the writers' mappings there: writable only if dirty. */
		differences += spm_verify();
		if (lost() || differences || spm_now() > end)
			atomic_store(&o->over, 1);
		ASSERT_EQ(0, spm_policy_set(region, "dirty_grain", rounds % 3));
		if (spm_now() > told + 10) {
			told = spm_now();
			spm_note("%u rounds, %lu answers, %lu stores", rounds,
				 answers, atomic_load(&o->stores));
		}
		atomic_store(&o->stop, 0);
		spm_barrier_sleep(&o->barrier);
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, spm_wait(pid[i]));
	spm_note("%u rounds, %lu answers with %lu pages, %lu stores", rounds,
		 answers, pages, atomic_load(&o->stores));
	EXPECT_EQ(0, lost());
	EXPECT_EQ(0, differences);
	EXPECT_LT(1, rounds);
	EXPECT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
