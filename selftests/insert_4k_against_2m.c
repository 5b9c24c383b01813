// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a 4 KB entry and a 2 MB entry for the same place are never made at
 * the same time, whoever asks for them.
 * Guards against: races between a fault that enters one page and a promotion of
 * its slot, in the same and in other processes: a kernel warning about a
 * different page in the way, a lost page-table page, or wrong data.
 *
 * Three processes map the same slots.  In each, one thread touches single pages
 * while another makes 2 MB entries and takes them away again in every way.
 * DISCARD of a few pages keeps the slots from being full, so that 4 KB entries
 * are needed again and again.
 *
 * spm-test: smp=4
 */
#include "spm_sync.h"

#define PROCESSES	3
#define SLOTS		2
#define LEN		(SLOTS * SPM_SLOT)
#define PAGES		(SLOTS * SPM_SLOT_PAGES)
#define SECONDS		8

struct race {
	int fd;
	char *p;
	unsigned int seed;
	atomic_uint stop;
	unsigned long touches, actions;
};

/* A page holds its word or, after DISCARD, zero. */
static void touch(struct race *r, unsigned int *seed)
{
	unsigned long page = rand_r(seed) % PAGES;
	volatile uint64_t *word = (volatile uint64_t *)(r->p + page * SPM_PAGE);
	uint64_t got;

	if (rand_r(seed) % 4) {
		*word = spm_word(page, 0, 0);
	} else {
		got = *word;
		if (got && got != spm_word(page, 0, 0))
			spm_die("page %lu holds %#llx", page,
				(unsigned long long)got);
	}
}

static void *touch_pages(void *arg)
{
	struct race *r = arg;
	unsigned int seed = r->seed + 1000;

	while (!atomic_load(&r->stop)) {
		touch(r, &seed);
		r->touches++;
	}
	return NULL;
}

static int act(struct race *r, unsigned int *seed)
{
	size_t slot = rand_r(seed) % SLOTS;
	char *start = r->p + slot * SPM_SLOT;
	size_t first = rand_r(seed) % SPM_SLOT_PAGES;
	size_t n = 1 + rand_r(seed) % 8;

	if (first + n > SPM_SLOT_PAGES)
		n = SPM_SLOT_PAGES - first;
	switch (rand_r(seed) % 5) {
	case 0:
		return spm_advise(r->fd, start, SPM_SLOT, SPM_ADV_PROMOTE);
	case 1:
		return spm_advise(r->fd, start, SPM_SLOT, SPM_ADV_DEMOTE);
	case 2:
		return spm_advise(r->fd, start + first * SPM_PAGE,
				  n * SPM_PAGE, SPM_ADV_DISCARD);
	case 3:
		return madvise(start + first * SPM_PAGE, n * SPM_PAGE,
			       MADV_DONTNEED) ? -errno : 0;
	default:
		return madvise(start, SPM_SLOT, MADV_DONTNEED) ? -errno : 0;
	}
}

static int racer(void *arg)
{
	struct race r = *(struct race *)arg;
	double end = spm_now() + SECONDS;
	unsigned int seed = getpid();
	pthread_t t;
	int err;

	r.seed = seed;
	r.p = spm_map(r.fd, LEN, 0, SPM_RW);
	spm_thread(&t, touch_pages, &r);
	while (spm_now() < end) {
		err = act(&r, &seed);
		spm_child_check(!err, "an action failed with %d", err);
		r.actions++;
	}
	atomic_store(&r.stop, 1);
	pthread_join(t, NULL);
	spm_note("process %d: %lu touches, %lu actions", getpid(), r.touches,
		 r.actions);
	return 0;
}

TEST_F(spm, faults_against_promotions)
{
	struct race r = { .fd = spm_open() };
	pid_t pid[PROCESSES];
	volatile uint64_t *word;
	size_t i;

	ASSERT_EQ(0, spm_set_size(r.fd, LEN));
	for (i = 0; i < PROCESSES; i++)
		pid[i] = spm_fork(racer, &r);
	for (i = 0; i < PROCESSES; i++)
		EXPECT_EQ(0, spm_wait(pid[i]));
	EXPECT_EQ(0, spm_consistent(r.fd));

	/* Afterwards the slots can be used as ever. */
	r.p = spm_map(r.fd, LEN, 0, SPM_RW);
	for (i = 0; i < PAGES; i++) {
		word = (volatile uint64_t *)(r.p + i * SPM_PAGE);
		if (*word) {
			EXPECT_EQ(spm_word(i, 0, 0), *word);
		}
	}
	spm_fill(r.p, 0, PAGES, 7);
	EXPECT_EQ(-1, spm_wrong(r.p, 0, PAGES, 7));
	EXPECT_EQ(PAGES, spm_count_2m(r.fd, r.p, LEN));
	EXPECT_EQ(0, spm_consistent(r.fd));
}

SPM_TEST_MAIN
