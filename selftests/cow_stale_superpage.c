// SPDX-License-Identifier: GPL-2.0
/*
 * Property: where a page of a slot was copied, no 2 MB entry over the block
 * that holds the old page is ever made again, whatever brings entries back.
 *
 * Kind of bug: the block looks full, belongs to the right object, is aligned,
 * and yet one of its pages is not what this mapping should see.  Four ways in:
 *  1. an entry for the whole block of the backing object is made again;
 *  2. the block changes hands although one of its pages was copied before;
 *  3. the entry is made while another thread copies one of the pages;
 *  4. a demotion that ends with nothing mapped is taken for one that succeeded.
 *
 * spm-test: timeout=200 smp=4
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define SEED	51

static const unsigned int places[] = { 0, 1, 255, 511 };

struct view {
	int fd;
	char *map;
};

/*
 * Something whose pages are in a backing object, and that is stored to: a
 * snapshot, the source of one, a private mapping, and one after a fork.
 */
#define KINDS	4

struct env {
	int fd, snap;
	pid_t pid;			/* who shares the pages after a fork */
	char *shared;
	struct view v;			/* what is stored to */
	struct view w;			/* a second one of the same, or none */
	struct view other;		/* must hold SEED for ever */
};

static int sleeping_child(void *arg)
{
	pause();
	return 0;
}

static void env_open(struct env *e, int kind)
{
	memset(e, 0, sizeof(*e));
	e->fd = spm_open();
	e->snap = -1;
	e->shared = spm_map(e->fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(e->fd, e->shared, SPM_SLOT, 0, SEED);
	e->other = (struct view){ e->fd, e->shared };
	if (kind < 2) {
		e->snap = spm_snapshot(e->fd);
		e->v = (struct view){ kind ? e->fd : e->snap };
		e->v.map = spm_map(e->v.fd, SPM_SLOT, 0, SPM_RW);
		e->w = (struct view){ e->v.fd };
		e->w.map = spm_map(e->v.fd, SPM_SLOT, 0, PROT_READ);
		if (kind) {
			e->other.fd = e->snap;
			e->other.map = spm_map(e->snap, SPM_SLOT, 0, SPM_RW);
		}
	} else {
		e->v = (struct view){ e->fd };
		e->v.map = spm_private(e->fd, SPM_SLOT, 0, SPM_RW);
		if (kind == 3) {
			spm_fill(e->v.map, 0, SPM_SLOT_PAGES, SEED);
			e->pid = spm_fork(sleeping_child, NULL);
		}
	}
}

static void env_close(struct env *e)
{
	if (e->pid) {
		kill(e->pid, SIGKILL);
		spm_wait(e->pid);
	}
	spm_unmap(e->shared, SPM_SLOT);
	spm_unmap(e->v.map, SPM_SLOT);
	if (e->w.map)
		spm_unmap(e->w.map, SPM_SLOT);
	if (e->other.map != e->shared)
		spm_unmap(e->other.map, SPM_SLOT);
	close(e->fd);
	if (e->snap >= 0)
		close(e->snap);
}

/* Page k holds SEED + 1, all others SEED. */
static bool right(const char *map, unsigned int k)
{
	return spm_wrong(map, 0, k, SEED) == -1 &&
	       spm_wrong(map + k * SPM_PAGE, k, 1, SEED + 1) == -1 &&
	       spm_wrong(map + (k + 1) * SPM_PAGE, k + 1,
			 SPM_SLOT_PAGES - 1 - k, SEED) == -1;
}

/* Everything that may bring entries back. */
static const char *bring_back(struct view *v, int how)
{
	char *to;

	switch (how) {
	case 0:
		spm_touch_read(v->map, SPM_SLOT);
		return "loads";
	case 1:
		madvise(v->map, SPM_SLOT, MADV_DONTNEED);
		return "MADV_DONTNEED";
	case 2:
		madvise(v->map, SPM_SLOT, MADV_WILLNEED);
		return "MADV_WILLNEED";
	case 3:
		madvise(v->map, SPM_SLOT, MADV_POPULATE_READ);
		return "MADV_POPULATE_READ";
	case 4:
		spm_advise(v->fd, v->map, SPM_SLOT, SPM_ADV_PREFAULT);
		return "PREFAULT";
	case 5:
		spm_advise(v->fd, v->map, SPM_SLOT, SPM_ADV_DEMOTE);
		return "DEMOTE";
	case 6:
		mprotect(v->map, SPM_SLOT, PROT_NONE);
		mprotect(v->map, SPM_SLOT, SPM_RW);
		return "mprotect";
	case 7:
		mlock(v->map, SPM_SLOT);
		munlock(v->map, SPM_SLOT);
		return "mlock";
	case 8:
		to = spm_reserve(SPM_SLOT, 0);
		if (mremap(v->map, SPM_SLOT, SPM_SLOT, MREMAP_MAYMOVE |
			   MREMAP_FIXED, to) != to)
			spm_die("mremap");
		v->map = to;
		return "mremap";
	case 9:
		madvise(v->map, SPM_SLOT, MADV_DONTNEED);
		spm_advise(v->fd, v->map, SPM_SLOT, SPM_ADV_PROMOTE);
		return "PROMOTE";
	default:
		return NULL;
	}
}

static int look_child(void *arg)
{
	struct env *e = arg;
	unsigned int k;

	for (k = 0; k < SPM_SLOT_PAGES; k++)
		if (*(uint64_t *)(e->v.map + k * SPM_PAGE) !=
		    spm_word(k, SEED, 0))
			return !right(e->v.map, k);
	return 1;
}

/* 1 */
TEST_F(spm, made_again_from_the_backing)
{
	const char *name;
	unsigned int p, k;
	struct env e;
	int kind, how;

	for (kind = 0; kind < KINDS; kind++) {
		for (p = 0; p < ARRAY_SIZE(places); p++) {
			k = places[p];
			env_open(&e, kind);
			spm_touch_read(e.v.map, SPM_SLOT);
			if (e.w.map)
				spm_touch_read(e.w.map, SPM_SLOT);
			spm_fill(e.v.map + k * SPM_PAGE, k, 1, SEED + 1);
			for (how = 0; (name = bring_back(&e.v, how)); how++) {
				ASSERT_TRUE(right(e.v.map, k)) {
					TH_LOG("kind %d, page %u: %s", kind, k,
					       name);
				}
				if (e.w.map) {
					ASSERT_TRUE(right(e.w.map, k));
					madvise(e.w.map, SPM_SLOT,
						MADV_DONTNEED);
				}
				ASSERT_EQ(0, spm_fork_run(look_child, &e)) {
					TH_LOG("kind %d, page %u: %s", kind, k,
					       name);
				}
			}
			ASSERT_EQ(-1, spm_wrong(e.other.map, 0, SPM_SLOT_PAGES,
						SEED));
			ASSERT_EQ(0, spm_all_consistent());
			env_close(&e);
		}
	}
}

/* 2: pages k were copied while the block was shared; then it changes hands. */
TEST_F(spm, handed_over_with_a_page_that_was_copied)
{
	static const unsigned int many[] = { 1, 200, 255, 256, 300, 511, 512 };
	unsigned int i, n, first;
	struct env e;
	int kind;
	char *map;

	for (kind = 0; kind < 2; kind++) {
		for (i = 0; i < ARRAY_SIZE(many); i++) {
			n = many[i];
			first = i % 2 ? 0 : 512 - n;
			env_open(&e, kind);
			map = e.v.map;
			spm_fill(map + first * SPM_PAGE, first, n, SEED + 1);
			spm_touch_read(map, SPM_SLOT);
			/* The other side goes. */
			if (kind) {
				spm_unmap(e.other.map, SPM_SLOT);
				close(e.snap);
			} else {
				spm_unmap(e.shared, SPM_SLOT);
				close(e.fd);
			}
			/* A store to a page that migrated, then all entries. */
			if (n < 512)
				spm_stamp(map + (first ? 0 : 511) * SPM_PAGE,
					  first ? 0 : 511, SEED);
			spm_advise(e.v.fd, map, SPM_SLOT, SPM_ADV_PROMOTE);
			ASSERT_EQ(-1, spm_wrong(map, 0, first, SEED));
			ASSERT_EQ(-1, spm_wrong(map + first * SPM_PAGE, first, n,
						SEED + 1));
			ASSERT_EQ(-1, spm_wrong(map + (first + n) * SPM_PAGE,
						first + n, 512 - first - n,
						SEED));
			ASSERT_EQ(512, spm_count_2m(e.v.fd, map, SPM_SLOT));
			ASSERT_EQ(-1, spm_wrong(e.w.map + first * SPM_PAGE, first,
						n, SEED + 1));
			ASSERT_EQ(0, spm_all_consistent());
			spm_unmap(map, SPM_SLOT);
			spm_unmap(e.w.map, SPM_SLOT);
			if (kind) {
				spm_unmap(e.shared, SPM_SLOT);
				close(e.fd);
			} else {
				close(e.snap);
			}
		}
	}
}

/* 3: one thread has the 2 MB entry made, another copies a page. */
struct race {
	/* Waited for asleep: what is prepared between rounds takes long. */
	pthread_barrier_t start, end;
	struct env *e;
	unsigned int k;
	volatile bool stop;
	unsigned long bad;
};

static void *loads(void *arg)
{
	struct race *r = arg;
	unsigned int i;

	for (;;) {
		pthread_barrier_wait(&r->start);
		if (r->stop)
			return NULL;
		for (i = 0; i < 20; i++) {
			spm_touch_read(r->e->v.map + (r->k + 13) % 512 *
				       SPM_PAGE, 1);
			if (r->e->w.map)
				spm_touch_read(r->e->w.map + i * 20 * SPM_PAGE,
					       1);
			if (i % 4 == 3)
				madvise(r->e->v.map, SPM_SLOT, MADV_DONTNEED);
		}
		pthread_barrier_wait(&r->end);
	}
}

TEST_F(spm, made_while_a_page_is_copied)
{
	double end = spm_now() + 6;
	struct race r = { };
	unsigned long n;
	pthread_t t[2];
	struct env e;
	int i;

	r.e = &e;
	pthread_barrier_init(&r.start, NULL, 3);
	pthread_barrier_init(&r.end, NULL, 3);
	for (i = 0; i < 2; i++)
		spm_thread(&t[i], loads, &r);
	for (n = 0; spm_now() < end; n++) {
		env_open(&e, n % KINDS);
		r.k = n * 37 % 512;
		pthread_barrier_wait(&r.start);
		for (i = n % 7; i; i--)
			sched_yield();
		spm_fill(e.v.map + r.k * SPM_PAGE, r.k, 1, SEED + 1);
		if (spm_wrong(e.v.map + r.k * SPM_PAGE, r.k, 1, SEED + 1) != -1)
			r.bad++;
		pthread_barrier_wait(&r.end);
		ASSERT_TRUE(right(e.v.map, r.k));
		if (e.w.map) {
			ASSERT_TRUE(right(e.w.map, r.k));
		}
		if (n % 16 == 0) {
			ASSERT_EQ(0, spm_all_consistent());
		}
		env_close(&e);
	}
	r.stop = true;
	pthread_barrier_wait(&r.start);
	for (i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	TH_LOG("%lu rounds", n);
	ASSERT_EQ(0, r.bad);
}

/* 4: the demotion that makes room for the copy finds no memory. */
TEST_F(spm, demotion_that_was_aborted)
{
	unsigned int n, kind, left;
	struct spm_stats before;
	long long aborts = 0;
	struct env e;
	int nth;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	spm_fail_setup();
	nth = spm_fail_open();
	for (kind = 0; kind < KINDS; kind++) {
		for (n = 1; n < 100; n++) {
			env_open(&e, kind);
			spm_touch_read(e.v.map, SPM_SLOT);
			if (e.w.map)
				spm_touch_read(e.w.map, SPM_SLOT);
			spm_stats_global(e.v.fd, &before);
			spm_fail_nth(nth, n);
			spm_fill(e.v.map + 77 * SPM_PAGE, 77, 1, SEED + 1);
			left = spm_fail_left(nth);
			ASSERT_TRUE(right(e.v.map, 77)) {
				TH_LOG("kind %u, step %u", kind, n);
			}
			if (e.w.map) {
				ASSERT_TRUE(right(e.w.map, 77));
			}
			ASSERT_EQ(-1, spm_wrong(e.other.map, 0, SPM_SLOT_PAGES,
						SEED));
			aborts += spm_delta_global(e.v.fd, &before,
						   demote_aborts);
			ASSERT_EQ(0, spm_all_consistent());
			env_close(&e);
			if (left)
				break;
		}
		TH_LOG("kind %u: %u steps", kind, n - 1);
	}
	TH_LOG("%lld demotions were aborted", aborts);
}

SPM_TEST_MAIN
