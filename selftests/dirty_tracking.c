// SPDX-License-Identifier: GPL-2.0
/*
 * Property: what was stored to since the last clear is told, whatever happens to
 * the entries in between, exactly where the grain is 4 KB; superpages that were
 * not stored to stay; what was only read or populated is not told.
 *
 * Kind of bug: tracking that costs the superpages; "resident" taken for
 * "changed"; write protection of entries that are not there yet, so that a later
 * one is writable and nobody notices; hardware dirty bits that are thrown away
 * when the kernel splits, moves or zaps an entry.
 *
 * spm-test: timeout=200 full=debug,7.3
 */
#include "spm_sync.h"

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define SEED	91

static char *cleared(int fd, size_t len)
{
	char *map = spm_map(fd, len, 0, SPM_RW);

	spm_promoted(fd, map, len, 0, SEED);
	if (spm_dirty(fd, OFF | CLEAR, 0, len) != (long)(len / SPM_PAGE))
		spm_die("not all were dirty");
	return map;
}

/* One byte in 64 MB: one page is told, 31 superpages stay. */
TEST_F(spm, one_byte_in_many_superpages)
{
	size_t len = 32 * SPM_SLOT;
	int fd = spm_open(), k;
	struct spm_page_range r;
	struct spm_scan s;
	struct spm_stats before;
	char *map;

	map = cleared(fd, len);
	spm_stats(fd, &before);
	for (k = 0; k < 3; k++) {
		map[3 * SPM_SLOT + 123 * SPM_PAGE + 7] = k;
		s = (struct spm_scan){ .flags = OFF | CLEAR, .len = len,
				       .vec = (uintptr_t)&r, .vec_len = 1 };
		ASSERT_EQ(0, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
		ASSERT_EQ(1, s.pages);
		ASSERT_EQ(3 * SPM_SLOT + 123 * SPM_PAGE, r.start);
		ASSERT_EQ(r.start + SPM_PAGE, r.end);
		ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, len));
	}
	ASSERT_EQ(1, spm_delta(fd, &before, demotions));
	ASSERT_EQ(31 * 512, spm_count_2m(fd, map, len));
	ASSERT_EQ(3, spm_delta(fd, &before, wrprotects));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Read, stored to, only there: three different things. */
TEST_F(spm, referenced_dirty_and_populated)
{
	int fd = spm_open(), i;
	char *map;

	ASSERT_EQ(0, spm_policy_set(fd, "prefault_pages", 0));
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	/* 50 of before, which nobody has touched for long. */
	ASSERT_EQ(0, spm_advise_off(fd, 0, 50 * SPM_PAGE, SPM_ADV_PREFAULT));
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, SPM_SLOT));
	spm_referenced(fd, OFF | CLEAR, 0, SPM_SLOT);
	spm_touch_read(map + 100 * SPM_PAGE, 100 * SPM_PAGE);
	for (i = 0; i < 3; i++)
		map[(300 + i) * SPM_PAGE] = 1;
	ASSERT_EQ(3, spm_dirty(fd, OFF, 0, SPM_SLOT));
	ASSERT_EQ(103, spm_referenced(fd, OFF, 0, SPM_SLOT));
	ASSERT_EQ(153, spm_count(fd, map, SPM_SLOT, SPM_MINCORE_INCORE,
				 SPM_MINCORE_INCORE));
	/* Promotion loses none of them, and widens the answer: all is dirty. */
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_dirty(fd, OFF, 0, SPM_SLOT));
}

/* -- cleared before there is anything ---------------------------------------- */

#define THIRD	SPM_SLOT
#define ALL	(3 * THIRD)
#define NPAGES	(3 * SPM_SLOT_PAGES)

struct race {
	struct spm_barrier barrier;
	atomic_uint go, stop;
};

static struct race *race;
static int region;

/* Every second page, in a mapping of its own. */
static int write_odd(void *arg)
{
	char *map = spm_map(region, ALL, 0, SPM_RW);
	size_t i;

	spm_touch_read(map, THIRD);
	spm_barrier_wait(&race->barrier);
	for (i = 1; i < NPAGES; i += 2)
		map[i * SPM_PAGE] = 1;
	spm_barrier_wait(&race->barrier);
	return 0;
}

/* One third promoted, one mapped by 4 KB, one absent; two processes store. */
TEST_F(spm, clear_of_what_is_not_there_yet)
{
	bool told[NPAGES] = { }, now[NPAGES];
	char *map;
	size_t i, k;
	pid_t pid;

	race = spm_shared(sizeof(*race));
	for (k = 0; k < 4; k++) {
		race->barrier.parties = 2;
		region = spm_open();
		map = spm_map(region, ALL, 0, SPM_RW);
		spm_promoted(region, map, THIRD, 0, SEED);
		spm_touch_write(map + THIRD, 100 * SPM_PAGE);
		spm_touch_read(map + THIRD + 200 * SPM_PAGE, 100 * SPM_PAGE);
		spm_dirty(region, OFF | CLEAR, 0, ALL);
		memset(told, 0, sizeof(told));
		pid = spm_fork(write_odd, NULL);
		spm_barrier_wait(&race->barrier);
		for (i = 0; i < NPAGES; i += 2) {
			map[i * SPM_PAGE] = 1;
			if (i % 96)
				continue;
			spm_dirty_set(region, CLEAR, NPAGES, now);
			for (size_t j = 0; j < NPAGES; j++)
				told[j] |= now[j];
		}
		spm_barrier_wait(&race->barrier);
		ASSERT_EQ(0, spm_wait(pid));
		spm_dirty_set(region, CLEAR, NPAGES, now);
		for (i = 0; i < NPAGES; i++)
			ASSERT_TRUE(told[i] || now[i]) {
				TH_LOG("page %zu was never told", i);
			}
		ASSERT_EQ(0, spm_dirty(region, OFF, 0, ALL));
		ASSERT_EQ(0, spm_consistent(region));
		spm_unmap(map, ALL);
		close(region);
	}
}

/* -- the kernel takes a superpage apart ---------------------------------------- */

static int hold(void *arg)
{
	char *map = spm_map(region, SPM_SLOT, 0, SPM_RW);

	spm_touch_read(map, SPM_SLOT);
	spm_wait_for(&race->stop, 1);
	return map[100 * SPM_PAGE] == 77 ? 0 : 1;
}

static int store_and_exit(void *arg)
{
	*((char *)arg + 100 * SPM_PAGE) = 77;
	return 0;
}

static void take_apart(int how, char *map)
{
	char *place;

	switch (how) {
	case 0:
		spm_unmap(map, SPM_PAGE);
		break;
	case 1:
		if (mprotect(map + 7 * SPM_PAGE, SPM_PAGE, PROT_READ))
			spm_die("mprotect");
		break;
	case 2:
		place = spm_reserve(SPM_SLOT, 0);
		if (mremap(map + SPM_SLOT / 2, SPM_SLOT / 2, SPM_SLOT / 2,
			   MREMAP_MAYMOVE | MREMAP_FIXED,
			   place + SPM_SLOT / 2) == MAP_FAILED)
			spm_die("mremap");
		break;
	case 3:
		if (madvise(map + 9 * SPM_PAGE, SPM_PAGE, MADV_DONTFORK))
			spm_die("MADV_DONTFORK");
		break;
	case 4:
		spm_unmap(map, SPM_SLOT);
		break;
	case 5:
		if (madvise(map, SPM_PAGE, MADV_DONTNEED))
			spm_die("MADV_DONTNEED");
		break;
	default:
		if (mprotect(map, SPM_SLOT, PROT_READ) ||
		    mprotect(map, SPM_SLOT, SPM_RW))
			spm_die("mprotect");
	}
}

/*
 * A slot that was mapped by loads first, upgraded by a store, cleared, and stored
 * to, by this process or by a child that exits; while another has it mapped.
 */
TEST_F(spm, nothing_lost_when_entries_go)
{
	static const int grains[] = { SPM_DIRTY_GRAIN_4K, SPM_DIRTY_GRAIN_2M };
	bool set[512];
	char *map;
	int how, g;
	pid_t pid;

	race = spm_shared(sizeof(*race));
	for (g = 0; g < 2; g++)
		for (how = 0; how < 8; how++) {
			region = spm_open();
			map = spm_map(region, SPM_SLOT, 0, SPM_RW);
			spm_touch_read(map, SPM_SLOT);
			ASSERT_EQ(512, spm_count_2m(region, map, SPM_SLOT));
			spm_touch_write(map, SPM_SLOT);
			ASSERT_EQ(0, spm_policy_set(region, "dirty_grain",
						    grains[g]));
			ASSERT_EQ(512, spm_dirty(region, OFF | CLEAR, 0,
						 SPM_SLOT));
			ASSERT_EQ(0, spm_dirty(region, OFF, 0, SPM_SLOT));
			atomic_store(&race->stop, 0);
			pid = spm_fork(hold, NULL);
			if (how == 7) {
				ASSERT_EQ(0, spm_fork_run(store_and_exit, map));
			} else {
				map[100 * SPM_PAGE] = 77;
				take_apart(how, map);
			}
			ASSERT_EQ(g ? 512 : 1,
				  spm_dirty_set(region, CLEAR, 512, set)) {
				TH_LOG("way %d", how);
			}
			ASSERT_TRUE(set[100]);
			ASSERT_EQ(0, spm_dirty(region, OFF, 0, SPM_SLOT));
			atomic_store(&race->stop, 1);
			ASSERT_EQ(0, spm_wait(pid));
			ASSERT_EQ(0, spm_consistent(region));
			munmap(map, SPM_SLOT);
			close(region);
		}
}

/* The other way round: parts go first, and stores come after the clear. */
TEST_F(spm, stores_after_entries_went)
{
	bool set[512];
	char *map;
	int how;

	for (how = 0; how < 7; how++) {
		if (how == 2 || how == 4)
			continue;
		region = spm_open();
		map = cleared(region, SPM_SLOT);
		take_apart(how, map);
		ASSERT_EQ(0, spm_dirty(region, OFF, 0, SPM_SLOT));
		map[100 * SPM_PAGE] = 5;
		map[101 * SPM_PAGE] = 5;
		ASSERT_EQ(2, spm_dirty_set(region, CLEAR, 512, set)) {
			TH_LOG("way %d", how);
		}
		ASSERT_TRUE(set[100] && set[101]);
		ASSERT_EQ(0, spm_count_clean_writable(region, map + SPM_PAGE,
						      SPM_SLOT - SPM_PAGE));
		map[100 * SPM_PAGE] = 6;
		ASSERT_EQ(1, spm_dirty(region, OFF | CLEAR, 0, SPM_SLOT));
		ASSERT_EQ(0, spm_consistent(region));
		munmap(map, SPM_SLOT);
		close(region);
	}
}

/*
 * The kernel changes entries of a folio that follow each other as a batch, and
 * gives all of them the dirty bit that one has; then mprotect makes the clean ones
 * writable, too.
 */
TEST_F(spm, mprotect_of_dirty_and_clean_neighbours)
{
	bool set[512];
	char *map, *place;
	int k, i;

	for (k = 0; k < 4; k++) {
		region = spm_open();
		map = cleared(region, SPM_SLOT);
		map[100 * SPM_PAGE] = 5;
		ASSERT_EQ(0, mprotect(map, SPM_SLOT, PROT_READ));
		if (k == 1) {
			ASSERT_EQ(0, mprotect(map, SPM_SLOT,
					      PROT_READ | PROT_EXEC));
		}
		if (k == 2) {
			place = spm_reserve(SPM_SLOT, 0);
			ASSERT_EQ(place, mremap(map, SPM_SLOT, SPM_SLOT,
						MREMAP_MAYMOVE | MREMAP_FIXED,
						place));
			map = place;
		}
		ASSERT_EQ(0, mprotect(map, SPM_SLOT, SPM_RW));
		if (k == 3) {
			ASSERT_EQ(0, mprotect(map, SPM_SLOT,
					      SPM_RW | PROT_EXEC));
		}
		ASSERT_EQ(0, spm_count_clean_writable(region, map, SPM_SLOT)) {
			TH_LOG("way %d", k);
		}
		ASSERT_EQ(1, spm_dirty(region, OFF | CLEAR, 0, SPM_SLOT));
		for (i = 90; i < 110; i++)
			map[i * SPM_PAGE] = 6;
		ASSERT_EQ(20, spm_dirty_set(region, CLEAR, 512, set));
		for (i = 90; i < 110; i++)
			ASSERT_TRUE(set[i]);
		ASSERT_EQ(0, spm_consistent(region));
		spm_unmap(map, SPM_SLOT);
		close(region);
	}
}

/* Stores that race the promotion of their slot. */
struct writer {
	char *map;
	unsigned int first;
};

static void *store_quarter(void *arg)
{
	struct writer *w = arg;
	unsigned int i;

	spm_barrier_wait(&race->barrier);
	for (i = w->first; i < 512; i += 4)
		w->map[i * SPM_PAGE]++;
	return NULL;
}

TEST_F(spm, stores_race_promotion)
{
	struct writer w[4];
	pthread_t t[4];
	int k, i;
	char *map;

	race = spm_shared(sizeof(*race));
	race->barrier.parties = 5;
	region = spm_open();
	map = cleared(region, SPM_SLOT);
	for (k = 0; k < 30; k++) {
		for (i = 0; i < 4; i++) {
			w[i] = (struct writer){ map, i };
			ASSERT_EQ(0, pthread_create(&t[i], NULL, store_quarter,
						    &w[i]));
		}
		spm_barrier_wait(&race->barrier);
		spm_touch_read(map, SPM_SLOT);
		if (k % 2)
			madvise(map, SPM_SLOT, MADV_DONTNEED);
		for (i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		ASSERT_EQ(512, spm_dirty(region, OFF | CLEAR, 0, SPM_SLOT)) {
			TH_LOG("round %d", k);
		}
	}
	ASSERT_EQ(0, spm_consistent(region));
}

static int demote_in_child(void *arg)
{
	char *map = arg;

	spm_child_check(!spm_advise(region, map, SPM_SLOT, SPM_ADV_PROMOTE),
			"PROMOTE");
	spm_child_check(spm_count_2m(region, map, SPM_SLOT) == 512, "2 MB");
	spm_child_check(!spm_count_clean_writable(region, map, SPM_SLOT),
			"clean and writable");
	spm_child_check(!mprotect(map, SPM_PAGE, PROT_READ), "mprotect");
	spm_child_check(!spm_count_clean_writable(region, map, SPM_SLOT),
			"clean and writable");
	map[5 * SPM_PAGE] = 9;
	return 0;
}

/* A dirty superpage that is shared by fork, demoted there. */
TEST_F(spm, demotion_after_a_shared_fork)
{
	char *map;

	region = spm_open();
	map = spm_map(region, SPM_SLOT, 0, SPM_RW);
	spm_promoted(region, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_fork_run(demote_in_child, map));
	ASSERT_EQ(512, spm_dirty(region, OFF | CLEAR, 0, SPM_SLOT));
	map[6 * SPM_PAGE] = 9;
	ASSERT_EQ(1, spm_dirty(region, OFF | CLEAR, 0, SPM_SLOT));
	ASSERT_EQ(0, spm_count_clean_writable(region, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(region));
}

SPM_TEST_MAIN
