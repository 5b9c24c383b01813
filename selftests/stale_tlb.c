// SPDX-License-Identifier: GPL-2.0
/*
 * Property: when a mapping loses a right or a page, no processor keeps using
 * what it had before, whether that was cached as 512 translations or as one.
 * Guards against: a promoted range that is flushed by a single invalidation,
 * so that a processor which had touched the pages one by one before the
 * promotion still stores to memory that was protected, discarded or unmapped.
 *
 * One thread stays on a processor of its own, in user mode, so that no context
 * switch flushes its translations; another changes the mapping.
 *
 * spm-test: smp=4
 */
#include "spm_sync.h"

#define LEN	SPM_SLOT

enum command { IDLE, TOUCH, WRITE, READ, QUIT };

struct user {
	char *p;
	atomic_uint command;	/* set by the test, IDLE when done */
	unsigned int seed;
	long faults;		/* accesses that raised a signal */
	long wrong;		/* reads that did not see @expect */
	uint64_t expect;
	pthread_t thread;
};

static volatile uint64_t *word(char *p, size_t page)
{
	return (volatile uint64_t *)(p + page * SPM_PAGE);
}

static void user_writes(struct user *u)
{
	size_t i;

	u->faults = 0;
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		u->faults += spm_try_write(u->p + i * SPM_PAGE, u->seed) == SIGSEGV;
}

static void user_reads(struct user *u)
{
	size_t i;

	u->wrong = 0;
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		u->wrong += *word(u->p, i) != u->expect;
}

static void *user_thread(void *arg)
{
	struct user *u = arg;
	unsigned int c;
	size_t i;

	spm_pin(1);
	for (;;) {
		/* No system call here: it must stay in user mode. */
		while ((c = atomic_load(&u->command)) == IDLE)
			asm volatile("pause");
		switch (c) {
		case TOUCH:
			for (i = 0; i < SPM_SLOT_PAGES; i++)
				*word(u->p, i) = u->seed;
			break;
		case WRITE:
			user_writes(u);
			break;
		case READ:
			user_reads(u);
			break;
		default:
			return NULL;
		}
		atomic_store(&u->command, IDLE);
	}
}

static void tell(struct user *u, enum command c)
{
	unsigned int spins = 0;

	atomic_store(&u->command, c);
	while (c != QUIT && atomic_load(&u->command) != IDLE)
		spm_relax(&spins);
}

struct env {
	int fd;
	char *p;		/* the mapping that is tested */
	char *other;		/* another one of the same slot */
	struct user u;
};

/*
 * With @before, the thread has touched each page through a 4 KB entry of its
 * own before the slot is promoted; and through the 2 MB entry afterwards.
 */
static void env_open(struct env *e, bool promote, bool before)
{
	memset(e, 0, sizeof(*e));
	spm_pin(0);
	e->fd = spm_open();
	e->p = spm_map(e->fd, LEN, 0, SPM_RW);
	e->other = spm_map(e->fd, LEN, 0, SPM_RW);
	e->u.p = e->p;
	e->u.seed = 1;
	spm_thread(&e->u.thread, user_thread, &e->u);
	if (before || !promote) {
		if (spm_param_set("pg_ps_enabled", "0"))
			spm_die("pg_ps_enabled");
		tell(&e->u, TOUCH);
		if (spm_param_set("pg_ps_enabled", "1"))
			spm_die("pg_ps_enabled");
		if (spm_count_4k(e->fd, e->p, LEN) != SPM_SLOT_PAGES)
			spm_die("not all pages have a 4 KB entry");
	}
	if (promote) {
		if (spm_advise(e->fd, e->p, LEN, SPM_ADV_PROMOTE))
			spm_die("PROMOTE");
		if (spm_count_2m(e->fd, e->p, LEN) != SPM_SLOT_PAGES)
			spm_die("not promoted");
	}
	if (!before)
		tell(&e->u, TOUCH);
}

static void env_close(struct env *e)
{
	if (spm_consistent(e->fd))
		spm_die("disorder");
	tell(&e->u, QUIT);
	pthread_join(e->u.thread, NULL);
	spm_unmap(e->p, LEN);
	spm_unmap(e->other, LEN);
	close(e->fd);
}

/* Mapped by 4 KB; by 2 MB; by 2 MB with translations of 4 KB from before. */
#define FOR_EACH_KIND(e)						\
	for (int __k = 0; __k < 3; __k++, env_close(e))			\
		if (env_open(e, __k > 0, __k == 2),			\
		    fprintf(stderr, "# kind %d\n", __k))

static bool enough_cpus(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

static long others_that_hold(struct env *e, uint64_t value)
{
	long n = 0;
	size_t i;

	for (i = 0; i < SPM_SLOT_PAGES; i++)
		n += *word(e->other, i) == value;
	return n;
}

TEST_F(spm, write_protected)
{
	struct env e;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		ASSERT_EQ(0, mprotect(e.p, LEN, PROT_READ));
		e.u.seed = 2;
		tell(&e.u, WRITE);
		EXPECT_EQ(SPM_SLOT_PAGES, e.u.faults);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 1));
	}
}

TEST_F(spm, one_page_write_protected)
{
	struct env e;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		ASSERT_EQ(0, mprotect(e.p + 77 * SPM_PAGE, SPM_PAGE, PROT_READ));
		e.u.seed = 2;
		tell(&e.u, WRITE);
		EXPECT_EQ(1, e.u.faults);
		EXPECT_EQ(1, *word(e.other, 77));
		EXPECT_EQ(SPM_SLOT_PAGES - 1, others_that_hold(&e, 2));
	}
}

TEST_F(spm, no_access)
{
	struct env e;
	size_t i;
	long faults;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		ASSERT_EQ(0, mprotect(e.p, LEN, PROT_NONE));
		e.u.seed = 2;
		tell(&e.u, WRITE);
		EXPECT_EQ(SPM_SLOT_PAGES, e.u.faults);
		for (faults = 0, i = 0; i < SPM_SLOT_PAGES; i++)
			faults += spm_try_read(e.p + i * SPM_PAGE) == SIGSEGV;
		EXPECT_EQ(SPM_SLOT_PAGES, faults);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 1));
	}
}

/* Stores after DISCARD must reach the region's new pages. */
TEST_F(spm, discarded)
{
	struct env e;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		ASSERT_EQ(0, spm_advise(e.fd, e.p, LEN, SPM_ADV_DISCARD));
		e.u.expect = 0;
		tell(&e.u, READ);
		EXPECT_EQ(0, e.u.wrong);
		e.u.seed = 3;
		tell(&e.u, TOUCH);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 3));
		ASSERT_EQ(0, spm_advise_off(e.fd, 0, LEN, SPM_ADV_DISCARD));
		e.u.seed = 4;
		tell(&e.u, WRITE);
		EXPECT_EQ(0, e.u.faults);
		EXPECT_EQ(0, others_that_hold(&e, 3));
	}
}

TEST_F(spm, taken_out_by_madvise)
{
	struct env e;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		ASSERT_EQ(0, madvise(e.p, LEN, MADV_DONTNEED));
		e.u.expect = 1;
		tell(&e.u, READ);
		EXPECT_EQ(0, e.u.wrong);
		e.u.seed = 5;
		tell(&e.u, TOUCH);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 5));
	}
}

/* Other memory at the same address. */
TEST_F(spm, mapped_over)
{
	struct env e;
	void *q;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		q = mmap(e.p, LEN, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS |
			 MAP_FIXED, -1, 0);
		ASSERT_EQ(e.p, q);
		e.u.expect = 0;
		tell(&e.u, READ);
		EXPECT_EQ(0, e.u.wrong);
		e.u.seed = 6;
		tell(&e.u, TOUCH);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 1));
		/* For the end. */
		spm_map_at(e.p, e.fd, LEN, 0, SPM_RW);
	}
}

/* A demotion changes nothing that can be seen. */
TEST_F(spm, demoted)
{
	struct env e;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	FOR_EACH_KIND(&e) {
		ASSERT_EQ(0, spm_advise(e.fd, e.p, LEN, SPM_ADV_DEMOTE));
		e.u.expect = 1;
		tell(&e.u, READ);
		EXPECT_EQ(0, e.u.wrong);
		e.u.seed = 7;
		tell(&e.u, TOUCH);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 7));
		ASSERT_EQ(0, mprotect(e.p, LEN, PROT_READ));
		e.u.seed = 8;
		tell(&e.u, WRITE);
		EXPECT_EQ(SPM_SLOT_PAGES, e.u.faults);
		EXPECT_EQ(SPM_SLOT_PAGES, others_that_hold(&e, 7));
	}
}

/* The same many times, with stores going on all the while. */
static void *write_on_and_on(void *arg)
{
	struct env *e = arg;
	unsigned int n = 0;
	size_t i;

	spm_pin(1);
	while (atomic_load(&e->u.command) == IDLE) {
		n++;
		for (i = 0; i < SPM_SLOT_PAGES; i += 16)
			*word(e->p, i) = n;
		/* Each was seen by the other mapping, or a store was lost. */
		for (i = 0; i < SPM_SLOT_PAGES; i += 16)
			e->u.wrong += *word(e->other, i) != n;
	}
	e->u.faults = n;
	return NULL;
}

TEST_F(spm, stores_during_promotion_and_demotion)
{
	struct env e = { };
	double end;
	long n = 0;

	if (!enough_cpus())
		SKIP(return, "needs two processors");
	e.fd = spm_open();
	e.p = spm_map(e.fd, LEN, 0, SPM_RW);
	e.other = spm_map(e.fd, LEN, 0, SPM_RW);
	spm_touch_write(e.p, LEN);
	spm_thread(&e.u.thread, write_on_and_on, &e);
	spm_pin(0);
	for (end = spm_now() + 5; spm_now() < end; n++)
		ASSERT_EQ(0, spm_advise(e.fd, n % 4 < 2 ? e.p : e.other, LEN,
					n % 2 ? SPM_ADV_DEMOTE : SPM_ADV_PROMOTE));
	atomic_store(&e.u.command, QUIT);
	pthread_join(e.u.thread, NULL);
	TH_LOG("%ld changes, %ld rounds of stores", n, e.u.faults);
	EXPECT_EQ(0, e.u.wrong);
	EXPECT_LT(10, n);
	EXPECT_EQ(0, spm_consistent(e.fd));
}

SPM_TEST_MAIN
