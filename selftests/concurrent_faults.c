// SPDX-License-Identifier: GPL-2.0
/*
 * Property: threads and processes that touch the same absent memory at the same
 * time all succeed, and each page is populated once.
 * Guards against: the loser of a race getting SIGBUS because the entry is there
 * already, a page that is populated twice (the first one's store is lost), and
 * a read that is recorded as a modification.
 *
 * spm-test: smp=4 timeout=240
 */
#include "spm_sync.h"

#define WORKERS		8
#define PROCESSES	4
#define PAGES		(4 * SPM_SLOT_PAGES)
#define LEN		(PAGES * SPM_PAGE)

struct work {
	struct spm_barrier barrier;
	char *p;
	size_t pages;
	int fd;
	atomic_uint next;		/* number of the next worker */
};

static unsigned char mark(unsigned int worker, size_t page)
{
	return 1 + (worker * 31 + page) % 255;
}

/* All touch one page at the same moment, each a byte of its own. */
static void touch_same_pages(struct work *w, char *p, unsigned int me)
{
	size_t i;

	for (i = 0; i < w->pages; i++) {
		spm_barrier_wait(&w->barrier);
		((volatile char *)p)[i * SPM_PAGE + me * 64] = mark(me, i);
	}
}

static long wrong_marks(const char *p, size_t pages, unsigned int workers)
{
	const unsigned char *u = (const unsigned char *)p;
	unsigned int k;
	long bad = 0;
	size_t i;

	for (i = 0; i < pages; i++)
		for (k = 0; k < workers; k++)
			bad += u[i * SPM_PAGE + k * 64] != mark(k, i);
	return bad;
}

static void *thread_same_pages(void *arg)
{
	struct work *w = arg;

	touch_same_pages(w, w->p, atomic_fetch_add(&w->next, 1));
	return NULL;
}

static void run_threads(struct work *w, void *(*fn)(void *))
{
	pthread_t t[WORKERS];
	int i;

	w->barrier.parties = WORKERS;
	for (i = 0; i < WORKERS; i++)
		spm_thread(&t[i], fn, w);
	for (i = 0; i < WORKERS; i++)
		pthread_join(t[i], NULL);
}

TEST_F(spm, threads_touch_same_fresh_page)
{
	struct work w = { .pages = PAGES };
	struct spm_stats before;

	w.fd = spm_open();
	w.p = spm_map(w.fd, LEN, 0, SPM_RW);
	spm_stats(w.fd, &before);
	run_threads(&w, thread_same_pages);

	EXPECT_EQ(PAGES, spm_delta(w.fd, &before, populated));
	EXPECT_EQ(0, wrong_marks(w.p, PAGES, WORKERS));
	EXPECT_EQ(PAGES, spm_count_dirty(w.fd, w.p, LEN));
	EXPECT_EQ(PAGES, spm_count_2m(w.fd, w.p, LEN));
	EXPECT_EQ(PAGES / SPM_SLOT_PAGES, spm_delta(w.fd, &before, promotions) +
					  spm_delta(w.fd, &before, mappings));
	EXPECT_EQ(0, spm_consistent(w.fd));
}

/* Pages of a fresh slot are dealt to the workers; even workers only read. */
static void *thread_deal_pages(void *arg)
{
	struct work *w = arg;
	unsigned int me = atomic_fetch_add(&w->next, 1);
	volatile char *p = w->p;
	size_t i;

	for (i = me; i < w->pages; i += WORKERS) {
		if (i % SPM_SLOT_PAGES < WORKERS)
			spm_barrier_wait(&w->barrier);
		if (me % 2)
			p[i * SPM_PAGE] = mark(me, i);
		else if (p[i * SPM_PAGE])
			spm_die("page %zu, never written, holds %d", i,
				p[i * SPM_PAGE]);
	}
	return NULL;
}

TEST_F(spm, threads_share_fresh_slots_half_read)
{
	static unsigned char state[PAGES];
	struct work w = { .pages = PAGES };
	struct spm_stats before;
	long wrong = 0;
	size_t i;

	w.fd = spm_open();
	w.p = spm_map(w.fd, LEN, 0, SPM_RW);
	spm_stats(w.fd, &before);
	run_threads(&w, thread_deal_pages);

	EXPECT_EQ(PAGES, spm_delta(w.fd, &before, populated));
	EXPECT_EQ(PAGES / 2, spm_count_dirty(w.fd, w.p, LEN));
	EXPECT_EQ(0, spm_count_clean_writable(w.fd, w.p, LEN));
	ASSERT_EQ(0, spm_mincore(w.fd, w.p, LEN, state));
	for (i = 0; i < PAGES; i++) {
		unsigned char want = i % 2 ? mark(i % WORKERS, i) : 0;

		wrong += (unsigned char)w.p[i * SPM_PAGE] != want;
		wrong += !!(state[i] & SPM_MINCORE_MODIFIED) != i % 2;
	}
	EXPECT_EQ(0, wrong);

	/* The clean half is written too: now nothing is in the way. */
	for (i = 0; i < PAGES; i += 2)
		w.p[i * SPM_PAGE] = 1;
	EXPECT_EQ(PAGES, spm_delta(w.fd, &before, populated));
	EXPECT_EQ(PAGES, spm_count_2m(w.fd, w.p, LEN));
	EXPECT_EQ(0, spm_consistent(w.fd));
}

/* With its own mapping, so that nothing but the region is shared. */
static int process_same_pages(void *arg)
{
	struct work *w = arg;
	unsigned int me = atomic_fetch_add(&w->next, 1);
	char *p = spm_map(w->fd, LEN, 0, SPM_RW);

	touch_same_pages(w, p, me);
	spm_barrier_wait(&w->barrier);
	spm_child_check(wrong_marks(p, w->pages, PROCESSES) == 0,
			"process %u", me);
	return 0;
}

TEST_F(spm, processes_touch_same_fresh_page)
{
	struct work *w = spm_shared(sizeof(*w));
	struct spm_stats before;
	pid_t pid[PROCESSES];
	int i;

	w->fd = spm_open();
	w->pages = PAGES;
	w->barrier.parties = PROCESSES;
	spm_stats(w->fd, &before);
	/* Fixes the size, and looks on. */
	w->p = spm_map(w->fd, LEN, 0, PROT_READ);
	for (i = 0; i < PROCESSES; i++)
		pid[i] = spm_fork(process_same_pages, w);
	for (i = 0; i < PROCESSES; i++)
		EXPECT_EQ(0, spm_wait(pid[i]));

	EXPECT_EQ(PAGES, spm_delta(w->fd, &before, populated));
	EXPECT_EQ(0, wrong_marks(w->p, PAGES, PROCESSES));
	EXPECT_EQ(PAGES, spm_count_dirty(w->fd, w->p, LEN));
	EXPECT_EQ(0, spm_consistent(w->fd));
}

SPM_TEST_MAIN
