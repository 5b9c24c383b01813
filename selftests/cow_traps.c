// SPDX-License-Identifier: GPL-2.0
/*
 * Property: what went wrong in FreeBSD when superpages met copy on write does
 * not go wrong here.  Each test says what it corresponds to.
 *
 * Kind of bug: known ones, of another kernel; the mechanisms are alike.  Which
 * of them have no counterpart here, and which have tests of their own:
 *  - entries over outdated blocks: cow_stale_superpage.c;
 *  - memory that runs out in each step: cow_failing_steps.c;
 *  - a shortage of reverse-map entries, and the lock that is dropped to get
 *    some: there are none, the kernel's reverse map has one per mapping.
 *
 * spm-test: timeout=200 smp=4
 */
#include "spm_sync.h"

#define SEED	61
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)

static double seconds(void)
{
	return spm_slow_kernel() ? 3 : 1;
}

static volatile bool stop;

struct target {
	int fd;
	char *map;
	unsigned long bad;
};

/*
 * "Wired superpage without a page table" (D19670): a locked private mapping
 * that is forked, made inaccessible and accessible, and half unmapped.
 */
static int locked_child(void *arg)
{
	spm_child_check(spm_wrong(arg, 0, PAGES, SEED) == -1, "data");
	spm_fill(arg, 0, 10, SEED + 1);
	return 0;
}

TEST_F(spm, locked)
{
	int fd = spm_open();
	char *map;

	map = spm_private(fd, LEN, 0, SPM_RW);
	spm_fill(map, 0, PAGES, SEED);
	ASSERT_EQ(0, mlock(map, LEN));
	ASSERT_EQ(0, spm_fork_run(locked_child, map));
	ASSERT_EQ(0, mprotect(map, LEN, PROT_NONE));
	ASSERT_EQ(0, mprotect(map, LEN, PROT_READ));
	ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
	ASSERT_EQ(0, mprotect(map, LEN, SPM_RW));
	spm_unmap(map + SPM_SLOT / 2, SPM_SLOT);
	spm_fill(map, 0, 256, SEED + 1);
	ASSERT_EQ(-1, spm_wrong(map, 0, 256, SEED + 1));
	ASSERT_EQ(-1, spm_wrong(map + 768 * SPM_PAGE, 768, 256, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * "No-replace fallback made phantom entries" (D36563): 2 MB and seven pages,
 * mapped ahead twice, unmapped; here each page would stay in RSS.
 */
TEST_F(spm, mapped_ahead_twice)
{
	const size_t len = SPM_SLOT + 7 * SPM_PAGE;
	int fd = spm_open(), snap, i;
	char *map, *copy;
	long rss;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, SEED);
	snap = spm_snapshot(fd);
	copy = spm_reserve(len, 0);
	spm_rss();
	for (i = 0; i < 2; i++) {
		rss = spm_rss();
		if (i)
			spm_map_at(copy, snap, len, 0, SPM_RW);
		else
			spm_private_at(copy, snap, len, 0, SPM_RW);
		spm_touch_read(copy, len);
		copy[3 * SPM_PAGE] ^= 1;
		ASSERT_EQ(0, spm_advise(snap, copy, len, SPM_ADV_PREFAULT));
		ASSERT_EQ(0, spm_advise(snap, copy, len, SPM_ADV_PREFAULT));
		ASSERT_EQ(0, spm_count_none(snap, copy, len));
		ASSERT_EQ(rss + 519, spm_rss());
		spm_unmap(copy, len);
		ASSERT_EQ(rss, spm_rss());
		ASSERT_EQ(0, spm_all_consistent());
	}
	ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
}

/*
 * "Clean writable promotion" (D30644) and "fork made clean writable superpages"
 * (D30643): a writable entry over a page that is not recorded modified, made by
 * promotion under writers, by fork, or by demotion afterwards.
 */
static void *store_scattered(void *arg)
{
	char *map = arg;
	unsigned int i;

	for (i = 0; i < 512; i++)
		*(volatile char *)(map + i * 181 % 512 * SPM_PAGE + 8) = 1;
	return NULL;
}

static int demoting_child(void *arg)
{
	struct target *e = arg;

	spm_touch_read(e->map, SPM_SLOT);
	spm_child_check(!spm_count_clean_writable(e->fd, e->map, SPM_SLOT), "1");
	e->map[7 * SPM_PAGE] = 1;
	spm_child_check(!spm_count_clean_writable(e->fd, e->map, SPM_SLOT), "2");
	spm_child_check(!spm_advise(e->fd, e->map, SPM_SLOT, SPM_ADV_PROMOTE) &&
			!spm_advise(e->fd, e->map, SPM_SLOT, SPM_ADV_DEMOTE),
			"advice");
	spm_child_check(!spm_count_clean_writable(e->fd, e->map, SPM_SLOT), "3");
	return 0;
}

TEST_F(spm, writable_means_modified)
{
	struct target e = { spm_open() };
	double end = spm_now() + seconds();
	pthread_t t[2];
	char *region;
	int i;

	region = spm_map(e.fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(e.fd, region, SPM_SLOT, 0, SEED);
	do {
		e.map = spm_private(e.fd, SPM_SLOT, 0, SPM_RW);
		for (i = 0; i < 2; i++)
			spm_thread(&t[i], store_scattered, e.map + i * 64);
		for (i = 0; i < 4; i++) {
			spm_advise(e.fd, e.map, SPM_SLOT, i % 2 ?
				   SPM_ADV_DEMOTE : SPM_ADV_PROMOTE);
			ASSERT_EQ(0, spm_count_clean_writable(e.fd, e.map,
							      SPM_SLOT));
		}
		for (i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		for (i = 0; i < 512; i++) {
			ASSERT_EQ(1, e.map[i * SPM_PAGE + 8]);
			ASSERT_EQ(1, e.map[i * SPM_PAGE + 64 + 8]);
		}
		ASSERT_EQ(512, spm_count_dirty(e.fd, e.map, SPM_SLOT));
		ASSERT_EQ(0, spm_fork_run(demoting_child, &e));
		ASSERT_EQ(0, spm_count_clean_writable(e.fd, e.map, SPM_SLOT));
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(e.map, SPM_SLOT);
	} while (spm_now() < end);
	ASSERT_EQ(-1, spm_wrong(region, 0, 512, SEED));
}

/*
 * "Futile promotion" (D45431): slots of which a page was copied are not full;
 * mapping their neighbours must not try, and fail, to promote each time.
 */
TEST_F(spm, mixed_slots_are_not_tried)
{
	struct spm_stats before;
	int fd = spm_open(), i;
	char *map, *priv;

	ASSERT_EQ(0, spm_param_set("prefault_pages", "64"));
	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, map, LEN, 0, SEED);
	priv = spm_private(fd, LEN, 0, SPM_RW);
	spm_touch_read(priv, LEN);
	spm_stats_global(fd, &before);
	for (i = 0; i < 2; i++)
		spm_stamp(priv + (i * 512 + 77) * SPM_PAGE, i * 512 + 77, SEED);
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, madvise(priv, LEN, MADV_DONTNEED));
		spm_touch_read(priv, LEN);
	}
	ASSERT_EQ(0, spm_delta_global(fd, &before, p_failures));
	ASSERT_EQ(0, spm_delta_global(fd, &before, promotions));
	ASSERT_LT(0, spm_delta_global(fd, &before, prefaulted));
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * "Stale private mapping" (SA-21:08, shared_shadow_inval): two mappings share
 * one object and both show a page of its backing; one stores, and the other
 * must not go on to show the old page.  Also one level up: a private mapping
 * that looks through.
 */
struct shadow {
	int fd, to[2], from[2];
	char *map, *priv;
};

static int shadow_child(void *arg)
{
	struct shadow *s = arg;
	char c;

	spm_touch_read(s->map, SPM_SLOT);
	spm_touch_read(s->priv, SPM_SLOT);
	while (write(s->from[1], "", 1) == 1 && read(s->to[0], &c, 1) == 1) {
		if (c == 'q')
			return 0;
		spm_child_check(s->map[9 * SPM_PAGE] == c, "%c, not %c",
				s->map[9 * SPM_PAGE], c);
		spm_child_check(s->priv[9 * SPM_PAGE] == c, "%c, not %c",
				s->priv[9 * SPM_PAGE], c);
	}
	return 1;
}

TEST_F(spm, shared_shadow)
{
	int fd, side;
	char *map, *priv, c, answer, *ro;
	struct shadow s;
	pid_t pid;

	for (side = 0; side < 2; side++) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		spm_promoted(fd, map, SPM_SLOT, 0, SEED);
		s.fd = spm_snapshot(fd);
		/* The snapshot, then its source. */
		if (side) {
			close(s.fd);
			s.fd = fd;
			fd = spm_snapshot(s.fd);
		}
		spm_unmap(map, SPM_SLOT);
		s.map = spm_map(s.fd, SPM_SLOT, 0, SPM_RW);
		s.priv = spm_private(s.fd, SPM_SLOT, 0, SPM_RW);
		ro = spm_map(s.fd, SPM_SLOT, 0, PROT_READ);
		priv = spm_private(s.fd, SPM_SLOT, 0, PROT_READ);
		ASSERT_EQ(0, pipe(s.to) | pipe(s.from));
		pid = spm_fork(shadow_child, &s);
		close(s.from[1]);
		ASSERT_EQ(1, read(s.from[0], &answer, 1));
		spm_touch_read(s.map, SPM_SLOT);
		spm_touch_read(ro, SPM_SLOT);
		spm_touch_read(priv, SPM_SLOT);
		for (c = 'a'; c < 'e'; c++) {
			s.map[9 * SPM_PAGE] = c;
			ASSERT_EQ(c, ro[9 * SPM_PAGE]);
			ASSERT_EQ(c, priv[9 * SPM_PAGE]);
			ASSERT_EQ(1, write(s.to[1], &c, 1));
			/* It ends when it sees another byte. */
			ASSERT_EQ(1, read(s.from[0], &answer, 1));
		}
		ASSERT_EQ(1, write(s.to[1], "q", 1));
		ASSERT_EQ(0, spm_wait(pid));
		/* What the snapshot's other side has is the old page. */
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
		ASSERT_EQ(0, spm_all_consistent());
		close(fd);
		close(s.fd);
		spm_unmap(map, SPM_SLOT);
		spm_unmap(s.map, SPM_SLOT);
		spm_unmap(s.priv, SPM_SLOT);
		spm_unmap(ro, SPM_SLOT);
		spm_unmap(priv, SPM_SLOT);
	}
}

/*
 * "Copy valid too early" (D49758), "split/fork race" (r335171), "object freed
 * while busy" (D38527): stores by one thread, while another changes the map
 * around them, forks, lets siblings end, unmaps what others are faulting on.
 */
static void *store_and_check(void *arg)
{
	volatile uint64_t *map = arg;
	static unsigned long bad;
	uint64_t n;

	for (n = 1; !stop; n++) {
		size_t at = n * 37 % 512 * SPM_PAGE / 8;

		map[at] = n;
		if (map[at] != n)
			bad++;
	}
	return &bad;
}

static void touch_slot(void *arg)
{
	spm_touch_read(arg, SPM_SLOT);
	spm_touch_write(arg, SPM_SLOT);
}

static void *touch_what_may_go(void *arg)
{
	while (!stop)
		spm_try(touch_slot, arg);
	return NULL;
}

static int short_child(void *arg)
{
	volatile uint64_t *map = arg;
	size_t i;

	for (i = 0; i < 512; i += 50)
		map[i * SPM_PAGE / 8] = ~0ULL;
	for (i = 0; i < 512; i += 50)
		spm_child_check(map[i * SPM_PAGE / 8] == ~0ULL, "own store");
	return 0;
}

TEST_F(spm, map_changes_around_stores)
{
	double end = spm_now() + 2 * seconds();
	int fd = spm_open(), snap, n;
	pthread_t stores, touches;
	char *region, *map, *gone;
	void *bad;

	region = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, region, LEN, 0, SEED);
	map = spm_private(fd, LEN, 0, SPM_RW);
	gone = spm_reserve(SPM_SLOT, 0);
	spm_thread(&stores, store_and_check, map);
	spm_thread(&touches, touch_what_may_go, gone);
	for (n = 0; spm_now() < end; n++) {
		snap = spm_snapshot(fd);
		if (n % 2)
			spm_map_at(gone, snap, SPM_SLOT, 0, SPM_RW);
		else
			spm_private_at(gone, snap, SPM_SLOT, 0, SPM_RW);
		close(snap);
		mprotect(map + SPM_SLOT, SPM_PAGE, n % 2 ? PROT_READ : SPM_RW);
		ASSERT_EQ(0, spm_fork_run(short_child, map));
		mprotect(map, SPM_SLOT, SPM_RW);
		madvise(map, SPM_SLOT, n % 3 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
		if (n % 4 == 3)
			spm_map_at(gone, fd, SPM_SLOT, SPM_SLOT, PROT_READ);
	}
	stop = true;
	pthread_join(stores, &bad);
	pthread_join(touches, NULL);
	TH_LOG("%d rounds", n);
	ASSERT_EQ(0, *(unsigned long *)bad);
	ASSERT_EQ(-1, spm_wrong(region, 0, PAGES, SEED));
	ASSERT_EQ(-1, spm_wrong(map + SPM_SLOT, 512, 512, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * "Rename left a bit set" and "two reservations, one index": a block changes
 * hands again and again, its pages are given back and populated anew.
 */
static int owning_child(void *arg)
{
	spm_fill(arg, 0, 3, SEED + 2);
	return 0;
}

TEST_F(spm, blocks_that_change_hands_again_and_again)
{
	int fd = spm_open(), n, i;
	struct spm_stats before;
	char *map;

	spm_stats_global(fd, &before);
	map = spm_private(fd, SPM_SLOT, 0, SPM_RW);
	spm_fill(map, 0, 512, SEED);
	for (n = 0; n < 20; n++) {
		ASSERT_EQ(0, spm_fork_run(owning_child, map));
		/* Vacate indices of the block that came back, fill them. */
		for (i = n; i < 512; i += 100) {
			ASSERT_EQ(0, spm_advise(fd, map + i * SPM_PAGE, SPM_PAGE,
						SPM_ADV_DISCARD));
			ASSERT_EQ(-1, spm_nonzero(map + i * SPM_PAGE, 1));
			spm_fill(map + i * SPM_PAGE, i, 1, SEED);
		}
		ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
		ASSERT_EQ(1, spm_delta_global(fd, &before, reserv_live));
		ASSERT_EQ(512, spm_delta_global(fd, &before, pages));
		ASSERT_EQ(0, spm_all_consistent());
	}
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
}

/*
 * "A list walked while the lock was dropped" (remove_all during demotion): the
 * region's pages go, by offset, while private mappings demote over them.
 */
static void *discard_region(void *arg)
{
	int fd = *(int *)arg;
	unsigned int n = 0;

	while (!stop) {
		spm_advise_off(fd, n % 512 * SPM_PAGE, (1 + n % 64) * SPM_PAGE,
			       SPM_ADV_DISCARD);
		spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_PREFAULT);
		n += 17;
	}
	return NULL;
}

/* "mincore identity race" (D21823): asked while pages are being replaced. */
static void *ask_state(void *arg)
{
	struct target *e = arg;
	unsigned char vec[512];
	int i;

	while (!stop) {
		if (spm_mincore(e->fd, e->map, SPM_SLOT, vec)) {
			e->bad++;
			continue;
		}
		for (i = 0; i < 512; i++)
			if ((vec[i] & (SPM_MINCORE_WRITABLE |
				       SPM_MINCORE_MAPPED |
				       SPM_MINCORE_MODIFIED |
				       SPM_MINCORE_INCORE)) ==
			    (SPM_MINCORE_WRITABLE | SPM_MINCORE_MAPPED |
			     SPM_MINCORE_INCORE))
				e->bad++;
	}
	return NULL;
}

TEST_F(spm, demotion_against_removal)
{
	struct target e = { spm_open() };
	double end = spm_now() + seconds();
	pthread_t t[2];
	char *region;
	int n, k;

	region = spm_map(e.fd, SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(e.fd, region, SPM_SLOT, SPM_ADV_PROMOTE));
	e.map = spm_private(e.fd, SPM_SLOT, 0, SPM_RW);
	spm_thread(&t[0], discard_region, &e.fd);
	spm_thread(&t[1], ask_state, &e);
	for (n = 0; spm_now() < end; n++) {
		spm_private_at(e.map, e.fd, SPM_SLOT, 0, SPM_RW);
		spm_touch_read(e.map, SPM_SLOT);
		k = n * 37 % 512;
		spm_stamp(e.map + k * SPM_PAGE, k, SEED);
		spm_touch_read(e.map, SPM_SLOT);
		ASSERT_TRUE(spm_stamped(e.map + k * SPM_PAGE, k, SEED));
	}
	stop = true;
	for (k = 0; k < 2; k++)
		pthread_join(t[k], NULL);
	TH_LOG("%d rounds", n);
	ASSERT_EQ(0, e.bad);
	ASSERT_EQ(-1, spm_nonzero(region, 512));
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * "A protection key for part of a superpage": a VMA has one key, so that part
 * becomes a VMA of its own, and the entry is demoted.
 */
/* A signal handler that is left by a jump leaves all keys closed. */
static void allow_all_keys(void)
{
	asm volatile(".byte 0x0f, 0x01, 0xef" : : "a" (0), "c" (0), "d" (0));
}

TEST_F(spm, protection_key)
{
	int fd = spm_open(), key;
	char *map;

	map = spm_private(fd, SPM_SLOT, 0, SPM_RW);
	spm_fill(map, 0, 512, SEED);
	key = syscall(__NR_pkey_alloc, 0, 2 /* PKEY_DISABLE_WRITE */);
	if (key < 0)
		SKIP(return, "no protection keys");
	ASSERT_EQ(0, syscall(__NR_pkey_mprotect, map + 100 * SPM_PAGE,
			     10 * SPM_PAGE, SPM_RW, key));
	ASSERT_EQ(0, spm_try_write(map + 99 * SPM_PAGE, 1));
	ASSERT_EQ(SIGSEGV, spm_try_write(map + 100 * SPM_PAGE, 1));
	ASSERT_EQ(SIGSEGV, spm_try_write(map + 109 * SPM_PAGE, 1));
	ASSERT_EQ(0, spm_try_write(map + 110 * SPM_PAGE, 1));
	allow_all_keys();
	ASSERT_EQ(-1, spm_wrong(map + 100 * SPM_PAGE, 100, 10, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * "Time goes backwards after MADV_FREE" (PR 240061): what a child throws away
 * is zero for it from then on, and never the parent's page again.
 */
static int rewinding_child(void *arg)
{
	struct target *e = arg;

	spm_fill(e->map, 0, 100, SEED + 1);
	spm_child_check(!spm_advise(e->fd, e->map, 50 * SPM_PAGE,
				    SPM_ADV_DISCARD), "DISCARD");
	spm_child_check(spm_nonzero(e->map, 50) == -1, "rewound");
	madvise(e->map, SPM_SLOT, MADV_DONTNEED);
	spm_child_check(spm_nonzero(e->map, 50) == -1, "rewound");
	spm_child_check(madvise(e->map, SPM_SLOT, MADV_FREE) == -1, "FREE");
	spm_child_check(spm_wrong(e->map + 50 * SPM_PAGE, 50, 50, SEED + 1) == -1,
			"lost");
	return 0;
}

TEST_F(spm, no_time_travel)
{
	struct target e = { spm_open() };

	e.map = spm_private(e.fd, SPM_SLOT, 0, SPM_RW);
	spm_fill(e.map, 0, 512, SEED);
	ASSERT_EQ(0, spm_fork_run(rewinding_child, &e));
	ASSERT_EQ(-1, spm_wrong(e.map, 0, 512, SEED));
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
