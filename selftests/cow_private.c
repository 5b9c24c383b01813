// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a private mapping shows the region, also what is stored there
 * later, except for the pages that were stored to through the mapping itself;
 * and nothing that is done to it is seen by anybody else, whatever entries map
 * it and whichever way the store takes.
 *
 * Kind of bug: a private store that reaches the region, because an entry was
 * left writable or a way in for the kernel (remote access, direct I/O) forgot
 * to copy; the region's data coming back where the mapping has its own; rights
 * that a private mapping does not have, or has not although it should.
 *
 * spm-test: smp=4
 */
#include "spm_sync.h"

#include <linux/futex.h>
#include <sys/uio.h>

#define SEED	21
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)

/* First, middle and last page of a slot. */
static const unsigned int corners[] = { 0, 255, 511 };

struct pair {
	int fd;
	char *shared, *map;
};

/* A region of two slots, full of SEED and promoted, mapped both ways. */
static void pair_open(struct pair *p, int prot)
{
	p->fd = spm_open();
	p->shared = spm_map(p->fd, LEN, 0, SPM_RW);
	spm_promoted(p->fd, p->shared, LEN, 0, SEED);
	p->map = spm_private(p->fd, LEN, 0, prot);
}

static void pair_close(struct pair *p)
{
	spm_unmap(p->shared, LEN);
	spm_unmap(p->map, LEN);
	close(p->fd);
}

#define HOLDS(addr, page, n, seed) \
	ASSERT_EQ(-1, spm_wrong(addr, page, n, seed))

TEST_F(spm, stores_stay_private)
{
	char *other, line[256], want[32], perms[8] = "";
	struct spm_stats before;
	struct pair p;
	unsigned int i;
	FILE *f;

	pair_open(&p, SPM_RW);
	other = spm_private(p.fd, LEN, 0, SPM_RW);
	spm_stats_global(p.fd, &before);
	/* Read-only 2 MB entries over the region's blocks. */
	ASSERT_EQ(2, spm_touch_faults(p.map, LEN, false));
	ASSERT_EQ(PAGES, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(0, spm_count_writable(p.fd, p.map, LEN));
	HOLDS(p.map, 0, PAGES, SEED);

	for (i = 0; i < ARRAY_SIZE(corners); i++)
		spm_fill(p.map + corners[i] * SPM_PAGE, corners[i], 1, SEED + 1);
	ASSERT_EQ(3, spm_delta_global(p.fd, &before, cow_faults));
	ASSERT_EQ(3, spm_delta_global(p.fd, &before, cow_copied));
	ASSERT_EQ(1, spm_delta_global(p.fd, &before, demotions_cow));
	for (i = 0; i < ARRAY_SIZE(corners); i++) {
		HOLDS(p.map + corners[i] * SPM_PAGE, corners[i], 1, SEED + 1);
	}
	HOLDS(p.map + SPM_PAGE, 1, 254, SEED);
	HOLDS(p.map + 256 * SPM_PAGE, 256, 255, SEED);
	HOLDS(p.map + SPM_SLOT, 512, 512, SEED);
	/* The others stayed mapped; the second slot is untouched. */
	ASSERT_EQ(0, spm_count_none(p.fd, p.map, LEN));
	ASSERT_EQ(512, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(3, spm_count_writable(p.fd, p.map, LEN));

	/* Nobody else noticed, and the shared entries are what they were. */
	HOLDS(p.shared, 0, PAGES, SEED);
	HOLDS(other, 0, PAGES, SEED);
	ASSERT_EQ(PAGES, spm_count_writable(p.fd, p.shared, LEN));
	ASSERT_EQ(0, spm_touch_faults(p.shared, LEN, true));

	f = fopen("/proc/self/maps", "r");
	ASSERT_TRUE(f);
	snprintf(want, sizeof(want), "%lx-", (long)p.map);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, want, strlen(want)))
			sscanf(line, "%*s %7s", perms);
	fclose(f);
	ASSERT_STREQ("rw-p", perms);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

TEST_F(spm, later_stores_to_the_region_are_seen)
{
	struct pair p;
	char *late;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	spm_fill(p.map + 5 * SPM_PAGE, 5, 1, SEED + 1);
	spm_fill(p.shared, 0, PAGES, SEED + 2);
	HOLDS(p.map, 0, 5, SEED + 2);
	HOLDS(p.map + 5 * SPM_PAGE, 5, 1, SEED + 1);
	HOLDS(p.map + 6 * SPM_PAGE, 6, PAGES - 6, SEED + 2);

	/* A page of the region that neither had. */
	ASSERT_EQ(0, spm_set_size(p.fd, 2 * LEN));
	late = spm_private(p.fd, SPM_SLOT, LEN, SPM_RW);
	ASSERT_EQ(-1, spm_nonzero(late, 512));
	spm_map_at(p.shared, p.fd, SPM_SLOT, LEN, SPM_RW);
	spm_fill(p.shared, PAGES, 512, SEED);
	HOLDS(late, PAGES, 512, SEED);
	late[3 * SPM_PAGE] ^= 1;
	HOLDS(p.shared, PAGES, 512, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	spm_unmap(late, SPM_SLOT);
	pair_close(&p);
}

/* A store to a page that nobody ever touched is private, too. */
TEST_F(spm, first_store_of_all)
{
	int fd = spm_open();
	char *map, *shared;

	map = spm_private(fd, SPM_SLOT, 0, SPM_RW);
	shared = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	map[100 * SPM_PAGE] = 1;
	ASSERT_EQ(-1, spm_nonzero(shared, 512));
	spm_fill(map, 0, 512, SEED);
	ASSERT_EQ(-1, spm_nonzero(shared, 512));
	/* Its own block is full and dirty: promoted as any other. */
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
	HOLDS(map, 0, 512, SEED);
	ASSERT_EQ(0, spm_all_consistent());
}

TEST_F(spm, own_block_fills_and_is_promoted)
{
	struct spm_stats before;
	struct pair p;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	spm_stats_global(p.fd, &before);
	spm_fill(p.map, 0, 512, SEED + 1);
	ASSERT_EQ(1, spm_delta_global(p.fd, &before, demotions_cow));
	ASSERT_EQ(1, spm_delta_global(p.fd, &before, promotions));
	ASSERT_EQ(512, spm_delta_global(p.fd, &before, cow_copied));
	ASSERT_EQ(512, spm_count_writable(p.fd, p.map, SPM_SLOT));
	ASSERT_EQ(PAGES, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(0, spm_touch_faults(p.map, SPM_SLOT, true));
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

/* Store through one kind of mapping, unmap it, look through another. */
TEST_F(spm, private_store_after_the_shared_mapping_is_gone)
{
	char *map, *keep = NULL;
	int fd, kept;

	for (kept = 0; kept < 2; kept++) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		memset(map, 's', SPM_SLOT);
		spm_unmap(map, SPM_SLOT);
		/* With and without another user of the same pages. */
		if (kept) {
			keep = spm_map(fd, SPM_SLOT, 0, PROT_READ);
			spm_touch_read(keep, SPM_SLOT);
		}
		map = spm_private(fd, SPM_SLOT, 0, SPM_RW);
		ASSERT_EQ('s', map[77]);
		memset(map, 'p', SPM_SLOT);
		spm_unmap(map, SPM_SLOT);
		map = spm_map(fd, SPM_SLOT, 0, PROT_READ);
		ASSERT_EQ('s', map[77]);
		ASSERT_EQ('s', map[SPM_SLOT - 1]);
		if (kept) {
			ASSERT_EQ('s', keep[SPM_SLOT / 2]);
			spm_unmap(keep, SPM_SLOT);
		}
		spm_unmap(map, SPM_SLOT);
		ASSERT_EQ(0, spm_all_consistent());
		close(fd);
	}
}

TEST_F(spm, protection_on_both_sizes)
{
	struct pair p;
	unsigned int i;
	int small;
	char *at;

	for (small = 0; small < 2; small++) {
		pair_open(&p, PROT_READ);
		spm_touch_read(p.map, LEN);
		if (small) {
			ASSERT_EQ(0, spm_advise(p.fd, p.map, LEN,
						SPM_ADV_DEMOTE));
		}
		for (i = 0; i < ARRAY_SIZE(corners); i++) {
			at = p.map + corners[i] * SPM_PAGE;
			ASSERT_EQ(SIGSEGV, spm_try_write(at, 1));
			ASSERT_EQ(0, spm_try_read(at));
		}
		ASSERT_EQ(0, mprotect(p.map, LEN, PROT_NONE));
		for (i = 0; i < ARRAY_SIZE(corners); i++) {
			at = p.map + corners[i] * SPM_PAGE;
			ASSERT_EQ(SIGSEGV, spm_try_read(at));
			ASSERT_EQ(SIGSEGV, spm_try_write(at, 1));
		}
		ASSERT_EQ(0, mprotect(p.map, LEN, SPM_RW));
		for (i = 0; i < ARRAY_SIZE(corners); i++)
			spm_fill(p.map + corners[i] * SPM_PAGE, corners[i], 1,
				 SEED + 1);
		for (i = 0; i < ARRAY_SIZE(corners); i++) {
			HOLDS(p.map + corners[i] * SPM_PAGE, corners[i], 1,
			      SEED + 1);
		}
		HOLDS(p.map + SPM_PAGE, 1, 254, SEED);
		HOLDS(p.shared, 0, PAGES, SEED);
		ASSERT_EQ(0, spm_all_consistent());
		pair_close(&p);
	}
}

/*
 * mprotect may make an entry writable by itself only if a store would be
 * private: dirty pages of the region, read through the private mapping, are not.
 */
TEST_F(spm, mprotect_there_and_back_does_not_share)
{
	struct pair p;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	ASSERT_EQ(0, spm_advise(p.fd, p.map, SPM_SLOT, SPM_ADV_DEMOTE));
	ASSERT_EQ(0, mprotect(p.map, LEN, PROT_READ));
	ASSERT_EQ(0, mprotect(p.map, LEN, SPM_RW));
	spm_fill(p.map, 0, PAGES, SEED + 1);
	HOLDS(p.shared, 0, PAGES, SEED);
	HOLDS(p.map, 0, PAGES, SEED + 1);
	/* And with what is the mapping's own: no store is lost. */
	ASSERT_EQ(0, mprotect(p.map, LEN, PROT_READ));
	ASSERT_EQ(0, mprotect(p.map, LEN, SPM_RW));
	spm_fill(p.map, 0, PAGES, SEED + 2);
	HOLDS(p.map, 0, PAGES, SEED + 2);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

TEST_F(spm, surgery)
{
	struct pair p;
	char *to;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	spm_fill(p.map, 0, 300, SEED + 1);
	/* A page from the middle, then its neighbours' places. */
	spm_unmap(p.map + 100 * SPM_PAGE, SPM_PAGE);
	ASSERT_EQ(SIGSEGV, spm_try_read(p.map + 100 * SPM_PAGE));
	HOLDS(p.map, 0, 100, SEED + 1);
	HOLDS(p.map + 101 * SPM_PAGE, 101, 199, SEED + 1);
	HOLDS(p.map + 300 * SPM_PAGE, 300, PAGES - 300, SEED);

	/* Moved: what is its own, and what is not, and both. */
	to = spm_reserve(LEN, 0);
	ASSERT_EQ(to + 250 * SPM_PAGE,
		  mremap(p.map + 250 * SPM_PAGE, 100 * SPM_PAGE, 100 * SPM_PAGE,
			 MREMAP_MAYMOVE | MREMAP_FIXED, to + 250 * SPM_PAGE));
	HOLDS(to + 250 * SPM_PAGE, 250, 50, SEED + 1);
	HOLDS(to + 300 * SPM_PAGE, 300, 50, SEED);
	ASSERT_EQ(to + SPM_SLOT + 7 * SPM_PAGE,
		  mremap(p.map + SPM_SLOT, SPM_SLOT - 7 * SPM_PAGE,
			 SPM_SLOT - 7 * SPM_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
			 to + SPM_SLOT + 7 * SPM_PAGE));
	HOLDS(to + SPM_SLOT + 7 * SPM_PAGE, 512, 505, SEED);
	/* They still are one object: stores go on, privately. */
	spm_fill(to + 250 * SPM_PAGE, 250, 100, SEED + 2);
	spm_fill(p.map + 200 * SPM_PAGE, 200, 50, SEED + 2);
	HOLDS(to + 250 * SPM_PAGE, 250, 100, SEED + 2);
	HOLDS(p.map, 0, 100, SEED + 1);
	HOLDS(p.shared, 0, PAGES, SEED);

	/* The old size 0 would make a second mapping of the same pages. */
	ASSERT_EQ(MAP_FAILED, mremap(p.map, 0, SPM_SLOT, MREMAP_MAYMOVE));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(MAP_FAILED, mremap(p.map, 100 * SPM_PAGE, LEN,
				     MREMAP_MAYMOVE));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(0, spm_all_consistent());
	spm_unmap(to, LEN);
	pair_close(&p);
}

/* No advice of the kernel's own drops what the mapping has copied. */
TEST_F(spm, kernel_advice)
{
	static const int advices[] = {
		MADV_DONTNEED, MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED,
		MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_POPULATE_READ,
		MADV_POPULATE_WRITE, MADV_SEQUENTIAL, MADV_FREE,
	};
	struct pair p;
	unsigned int i;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	spm_fill(p.map, 0, 1, SEED + 1);
	spm_fill(p.map + SPM_SLOT, 512, 512, SEED + 1);
	for (i = 0; i < ARRAY_SIZE(advices); i++) {
		/* A part that begins and ends within slots, then all. */
		madvise(p.map + 100 * SPM_PAGE, SPM_SLOT, advices[i]);
		madvise(p.map, LEN, advices[i]);
		ASSERT_EQ(-1, spm_wrong(p.map, 0, 1, SEED + 1)) {
			TH_LOG("advice %d", advices[i]);
		}
		HOLDS(p.map + SPM_PAGE, 1, 511, SEED);
		HOLDS(p.map + SPM_SLOT, 512, 512, SEED + 1);
	}
	ASSERT_EQ(0, mlock(p.map, LEN));
	ASSERT_EQ(0, spm_count_none(p.fd, p.map, LEN));
	ASSERT_EQ(0, munlock(p.map, LEN));
	HOLDS(p.map, 0, 1, SEED + 1);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, msync(p.map, LEN, MS_SYNC));
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

TEST_F(spm, promote_and_prefault)
{
	struct spm_stats before;
	struct pair p;

	pair_open(&p, SPM_RW);
	spm_stats_global(p.fd, &before);
	/* All of it is the region's: mapped, nothing copied. */
	ASSERT_EQ(0, spm_advise(p.fd, p.map, LEN, SPM_ADV_PROMOTE));
	ASSERT_EQ(PAGES, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(0, spm_count_writable(p.fd, p.map, LEN));
	ASSERT_EQ(0, spm_delta_global(p.fd, &before, cow_copied));
	ASSERT_EQ(0, spm_delta_global(p.fd, &before, pages));

	/* One page is its own: the rest is copied for the sake of 2 MB. */
	spm_fill(p.map + 9 * SPM_PAGE, 9, 1, SEED + 1);
	ASSERT_EQ(511, spm_count_4k(p.fd, p.map, SPM_SLOT) - 1);
	ASSERT_EQ(0, spm_advise(p.fd, p.map, LEN, SPM_ADV_PROMOTE));
	ASSERT_EQ(PAGES, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(512, spm_count_writable(p.fd, p.map, SPM_SLOT));
	HOLDS(p.map, 0, 9, SEED);
	HOLDS(p.map + 9 * SPM_PAGE, 9, 1, SEED + 1);
	HOLDS(p.map + 10 * SPM_PAGE, 10, PAGES - 10, SEED);
	spm_fill(p.map, 0, PAGES, SEED + 2);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());

	ASSERT_EQ(0, spm_advise(p.fd, p.map, LEN, SPM_ADV_DEMOTE));
	ASSERT_EQ(PAGES, spm_count_4k(p.fd, p.map, LEN));
	ASSERT_EQ(0, spm_advise(p.fd, p.map, LEN, SPM_ADV_PREFAULT));
	HOLDS(p.map, 0, PAGES, SEED + 2);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

/* The backing's data must not come back. */
TEST_F(spm, discard)
{
	struct pair p;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	spm_fill(p.map + 3 * SPM_PAGE, 3, 1, SEED + 1);
	/* By address: what it had copied, what not, and a whole slot. */
	ASSERT_EQ(0, spm_advise(p.fd, p.map + 2 * SPM_PAGE, 3 * SPM_PAGE,
				SPM_ADV_DISCARD));
	HOLDS(p.map, 0, 2, SEED);
	ASSERT_EQ(-1, spm_nonzero(p.map + 2 * SPM_PAGE, 3));
	HOLDS(p.map + 5 * SPM_PAGE, 5, PAGES - 5, SEED);
	ASSERT_EQ(0, spm_advise(p.fd, p.map + SPM_SLOT, SPM_SLOT,
				SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(p.map + SPM_SLOT, 512));
	HOLDS(p.shared, 0, PAGES, SEED);
	/* Stores begin from zeros. */
	p.map[4 * SPM_PAGE] = 0;
	ASSERT_EQ(-1, spm_nonzero(p.map + 2 * SPM_PAGE, 3));
	p.map[SPM_SLOT + 8 * SPM_PAGE] = 0;
	ASSERT_EQ(-1, spm_nonzero(p.map + SPM_SLOT, 512));
	ASSERT_EQ(0, spm_advise(p.fd, p.map + SPM_SLOT, SPM_SLOT,
				SPM_ADV_PROMOTE));
	ASSERT_EQ(-1, spm_nonzero(p.map + SPM_SLOT, 512));
	ASSERT_EQ(0, spm_all_consistent());

	/* By offset: the region's, which the mapping sees where it has none. */
	spm_fill(p.map + 7 * SPM_PAGE, 7, 1, SEED + 1);
	ASSERT_EQ(0, spm_advise_off(p.fd, 6 * SPM_PAGE, 3 * SPM_PAGE,
				    SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(p.map + 6 * SPM_PAGE, 1));
	HOLDS(p.map + 7 * SPM_PAGE, 7, 1, SEED + 1);
	ASSERT_EQ(-1, spm_nonzero(p.map + 8 * SPM_PAGE, 1));
	ASSERT_EQ(-1, spm_nonzero(p.shared + 6 * SPM_PAGE, 3));
	HOLDS(p.shared, 0, 6, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

TEST_F(spm, size)
{
	struct pair p;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	spm_fill(p.map + 90 * SPM_PAGE, 90, 20, SEED + 1);
	ASSERT_EQ(0, spm_set_size(p.fd, 100 * SPM_PAGE));
	HOLDS(p.map, 0, 90, SEED);
	HOLDS(p.map + 90 * SPM_PAGE, 90, 10, SEED + 1);
	ASSERT_EQ(SIGBUS, spm_try_read(p.map + 100 * SPM_PAGE));
	ASSERT_EQ(SIGBUS, spm_try_write(p.map + 105 * SPM_PAGE, 1));
	ASSERT_EQ(SIGBUS, spm_try_read(p.map + SPM_SLOT));
	ASSERT_EQ(0, spm_set_size(p.fd, LEN));
	ASSERT_EQ(-1, spm_nonzero(p.map + 100 * SPM_PAGE, PAGES - 100));
	ASSERT_EQ(-1, spm_nonzero(p.shared + 100 * SPM_PAGE, PAGES - 100));
	HOLDS(p.shared, 0, 100, SEED);
	spm_fill(p.map + 100 * SPM_PAGE, 100, 20, SEED + 2);
	ASSERT_EQ(-1, spm_nonzero(p.shared + 100 * SPM_PAGE, 20));
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

/*
 * A descriptor that may only read: private mappings may be stored to, the
 * region may not, neither directly nor by what a private mapping allows.
 */
TEST_F(spm, read_only_descriptor)
{
	int fd = spm_open_persistent(0), ro;
	char *shared, *map;

	ro = open(SPM_NODE "0", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, ro);
	shared = spm_map(fd, LEN, 0, SPM_RW);
	spm_promoted(fd, shared, LEN, 0, SEED);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, LEN, SPM_RW, MAP_SHARED, ro, 0));
	ASSERT_EQ(EACCES, errno);
	map = spm_map(ro, LEN, 0, PROT_READ);
	ASSERT_EQ(-1, mprotect(map, LEN, SPM_RW));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(-EBADF, spm_advise(ro, map, LEN, SPM_ADV_DISCARD));
	spm_unmap(map, LEN);

	map = spm_private(ro, LEN, 0, SPM_RW);
	HOLDS(map, 0, PAGES, SEED);
	spm_fill(map, 0, 600, SEED + 1);
	HOLDS(map, 0, 600, SEED + 1);
	HOLDS(shared, 0, PAGES, SEED);
	/* A private mapping made for reading may be made writable later. */
	spm_private_at(map, ro, LEN, 0, PROT_READ);
	HOLDS(map, 0, PAGES, SEED);
	ASSERT_EQ(0, mprotect(map, LEN, SPM_RW));
	spm_fill(map + 30 * SPM_PAGE, 30, 1, SEED + 1);
	/* What is asked of the private mapping is its owner's business. */
	ASSERT_EQ(0, spm_advise(ro, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(0, spm_advise(ro, map, LEN, SPM_ADV_PREFAULT));
	ASSERT_EQ(0, spm_advise(ro, map, 10 * SPM_PAGE, SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(map, 10));
	HOLDS(map + 30 * SPM_PAGE, 30, 1, SEED + 1);
	HOLDS(map + SPM_SLOT, 512, 512, SEED);
	HOLDS(shared, 0, PAGES, SEED);
	ASSERT_EQ(-EBADF, spm_advise_off(ro, 0, LEN, SPM_ADV_DISCARD));
	ASSERT_EQ(-EBADF, spm_set_size(ro, SPM_SLOT));
	ASSERT_EQ(0, spm_all_consistent());
}

/* The request by address takes mappings of both kinds, each in its way. */
TEST_F(spm, advice_across_both_kinds)
{
	int fd = spm_open();
	char *map, *look;

	map = spm_map(fd, LEN, 0, SPM_RW);
	look = spm_map(fd, LEN, 0, PROT_READ);
	spm_promoted(fd, map, LEN, 0, SEED);
	spm_private_at(map + SPM_SLOT, fd, SPM_SLOT, SPM_SLOT, SPM_RW);
	ASSERT_EQ(0, spm_advise(fd, map + 500 * SPM_PAGE, 20 * SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(map + 500 * SPM_PAGE, 20));
	ASSERT_EQ(-1, spm_nonzero(look + 500 * SPM_PAGE, 12));
	HOLDS(look + SPM_SLOT, 512, 512, SEED);
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- ways in for the kernel --------------------------------------------------- */

struct remote {
	char *map;
	int go[2], back[2];
};

static int remote_target(void *arg)
{
	struct remote *r = arg;
	char c = 0;

	if (write(r->back[1], &c, 1) != 1 || read(r->go[0], &c, 1) != 1)
		return 1;
	spm_child_check(spm_wrong(r->map + 20 * SPM_PAGE, 20, 2, SEED + 1) == -1,
			"what the parent wrote");
	spm_child_check(spm_wrong(r->map + 30 * SPM_PAGE, 30, 1, SEED + 1) == -1,
			"what the parent poked");
	spm_child_check(spm_wrong(r->map + 22 * SPM_PAGE, 22, 8, SEED) == -1,
			"others");
	return 0;
}

TEST_F(spm, written_by_another_process)
{
	static uint64_t buf[2 * SPM_PAGE / 8];
	struct iovec local, remote;
	struct pair p;
	struct remote r;
	char path[64], c;
	pid_t pid;
	int mem;

	pair_open(&p, SPM_RW);
	spm_touch_read(p.map, LEN);
	r.map = p.map;
	ASSERT_EQ(0, pipe(r.go) | pipe(r.back));
	pid = spm_fork(remote_target, &r);
	ASSERT_EQ(1, read(r.back[0], &c, 1));
	spm_fill(buf, 20, 2, SEED + 1);
	local = (struct iovec){ buf, sizeof(buf) };
	remote = (struct iovec){ p.map + 20 * SPM_PAGE, sizeof(buf) };
	EXPECT_EQ(sizeof(buf), process_vm_writev(pid, &local, 1, &remote, 1, 0));
	spm_fill(buf, 30, 1, SEED + 1);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	EXPECT_EQ(SPM_PAGE, pwrite(mem, buf, SPM_PAGE,
				   (uintptr_t)p.map + 30 * SPM_PAGE));
	close(mem);
	EXPECT_EQ(1, write(r.go[1], &c, 1));
	EXPECT_EQ(0, spm_wait(pid));
	/* Neither the region nor our side of the fork. */
	HOLDS(p.map, 0, PAGES, SEED);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

/*
 * A debugger's store to a mapping that its owner may only read: done in a copy
 * or refused, never in the region.
 */
TEST_F(spm, forced_store_to_a_read_only_mapping)
{
	static uint64_t word[SPM_PAGE / 8];
	struct pair p;
	ssize_t n;
	int mem, small;

	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem);
	spm_fill(word, 40, 1, SEED + 1);
	for (small = 0; small < 2; small++) {
		pair_open(&p, PROT_READ);
		spm_touch_read(p.map, LEN);
		if (small) {
			ASSERT_EQ(0, spm_advise(p.fd, p.map, LEN,
						SPM_ADV_DEMOTE));
		}
		n = pwrite(mem, word, SPM_PAGE,
			   (uintptr_t)p.map + 40 * SPM_PAGE);
		TH_LOG("a forced store: %zd", n);
		HOLDS(p.map + 40 * SPM_PAGE, 40, 1,
		      n == SPM_PAGE ? SEED + 1 : SEED);
		HOLDS(p.map, 0, 40, SEED);
		HOLDS(p.shared, 0, PAGES, SEED);
		ASSERT_EQ(SIGSEGV, spm_try_write(p.map + 40 * SPM_PAGE, 1));
		/* No way to the region through a read-only shared mapping. */
		spm_map_at(p.map, p.fd, LEN, 0, PROT_READ);
		n = pwrite(mem, word, SPM_PAGE,
			   (uintptr_t)p.map + 41 * SPM_PAGE);
		if (n != SPM_PAGE) {
			HOLDS(p.shared + 41 * SPM_PAGE, 41, 1, SEED);
		}
		ASSERT_EQ(0, spm_all_consistent());
		pair_close(&p);
	}
	close(mem);
}

/* Results of system calls, for pages in each state. */
TEST_F(spm, stored_to_by_system_calls)
{
	int pipes[2], i;
	struct pair p;
	char *at;

	pair_open(&p, SPM_RW);
	ASSERT_EQ(0, pipe(pipes));
	spm_touch_read(p.map, LEN);
	for (i = 0; i < 4; i++) {
		/* 2 MB entry, 4 KB entry, none, own. */
		at = p.map + (i < 3 ? 10 + i : 10) * SPM_PAGE;
		if (i == 2)
			madvise(p.map, SPM_SLOT, MADV_DONTNEED);
		ASSERT_EQ(8, write(pipes[1], "12345678", 8));
		ASSERT_EQ(8, read(pipes[0], at, 8));
		ASSERT_EQ(0, memcmp(at, "12345678", 8));
	}
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

/* -- futexes ------------------------------------------------------------------- */

static long futex(uint32_t *word, int op, uint32_t value, long ms)
{
	struct timespec limit = { ms / 1000, ms % 1000 * 1000000 };
	long n = syscall(__NR_futex, word, op, value, ms ? &limit : NULL,
			 NULL, 0);

	return n < 0 ? -errno : n;
}

static int futex_child(void *arg)
{
	uint32_t *word = arg;
	long n;

	/* Its own copy: the parent, waiting on its page, is not there. */
	*word = 7;
	usleep(200000);
	n = futex(word, FUTEX_WAKE, 100, 0);
	spm_child_check(n == 0, "woke %ld", n);
	return 0;
}

TEST_F(spm, futex_in_a_copy_is_not_shared_with_the_child)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t *mutex;
	struct pair p;
	uint32_t *word;
	long n;
	pid_t pid;

	pair_open(&p, SPM_RW);
	word = (uint32_t *)(p.map + 12 * SPM_PAGE + 64);
	*word = 1;
	mutex = (pthread_mutex_t *)(p.map + 13 * SPM_PAGE);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	ASSERT_EQ(0, pthread_mutex_init(mutex, &attr));
	ASSERT_EQ(0, pthread_mutex_lock(mutex));
	pid = spm_fork(futex_child, word);
	n = futex(word, FUTEX_WAIT, 1, 1000);
	EXPECT_EQ(-ETIMEDOUT, n);
	EXPECT_EQ(1, *word);
	ASSERT_EQ(0, spm_wait(pid));
	ASSERT_EQ(0, pthread_mutex_unlock(mutex));
	pair_close(&p);
}

static void *wake_soon(void *arg)
{
	usleep(200000);
	__atomic_store_n((uint32_t *)arg, 2, __ATOMIC_SEQ_CST);
	futex(arg, FUTEX_WAKE, 1, 0);
	return NULL;
}

/* Threads of one process do meet there. */
TEST_F(spm, futex_between_threads)
{
	uint32_t *word;
	struct pair p;
	pthread_t t;
	long n;

	pair_open(&p, SPM_RW);
	word = (uint32_t *)(p.map + 12 * SPM_PAGE + 64);
	*word = 1;
	spm_thread(&t, wake_soon, word);
	n = futex(word, FUTEX_WAIT, 1, 20000);
	EXPECT_TRUE(n == 0 || n == -EAGAIN) {
		TH_LOG("wait gave %ld", n);
	}
	pthread_join(t, NULL);
	EXPECT_EQ(2, *word);
	pair_close(&p);
}

/* -- without superpages ---------------------------------------------------------- */

TEST_F(spm, superpages_off)
{
	struct spm_stats before;
	struct pair p;

	pair_open(&p, SPM_RW);
	ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "0"));
	spm_stats_global(p.fd, &before);
	HOLDS(p.map, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_count_2m(p.fd, p.map, LEN));
	spm_fill(p.map, 0, 512, SEED + 1);
	ASSERT_EQ(0, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(512, spm_delta_global(p.fd, &before, cow_copied));
	HOLDS(p.shared, 0, PAGES, SEED);
	HOLDS(p.map, 0, 512, SEED + 1);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);
}

TEST_F(spm, copies_of_whole_slots)
{
	struct spm_stats before;
	struct pair p;

	pair_open(&p, SPM_RW);
	ASSERT_EQ(0, spm_param_set("cow_size", "2M"));
	spm_touch_read(p.map, LEN);
	spm_stats_global(p.fd, &before);
	spm_fill(p.map + 5 * SPM_PAGE, 5, 1, SEED + 1);
	ASSERT_EQ(512, spm_delta_global(p.fd, &before, cow_copied));
	ASSERT_EQ(1, spm_delta_global(p.fd, &before, cow_faults));
	ASSERT_EQ(PAGES, spm_count_2m(p.fd, p.map, LEN));
	ASSERT_EQ(512, spm_count_writable(p.fd, p.map, LEN));
	ASSERT_EQ(0, spm_touch_faults(p.map, SPM_SLOT, false));
	HOLDS(p.map, 0, 5, SEED);
	HOLDS(p.map + 6 * SPM_PAGE, 6, PAGES - 6, SEED);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);

	/* Which way is chosen shows in nothing but the counters. */
	pair_open(&p, SPM_RW);
	ASSERT_EQ(0, spm_param_set("cow_size", "auto"));
	spm_stats_global(p.fd, &before);
	spm_fill(p.map, 0, 512, SEED + 1);
	TH_LOG("auto: %lld faults for 512 stores in sequence",
	       spm_delta_global(p.fd, &before, cow_faults));
	ASSERT_GT(512, spm_delta_global(p.fd, &before, cow_faults));
	HOLDS(p.map, 0, 512, SEED + 1);
	HOLDS(p.shared, 0, PAGES, SEED);
	ASSERT_EQ(512, spm_count_writable(p.fd, p.map, SPM_SLOT));
	ASSERT_EQ(0, spm_all_consistent());
	pair_close(&p);

	ASSERT_NE(0, spm_param_set("cow_size", "8K"));
	ASSERT_NE(0, spm_param_set("cow_size", "\n"));
}

SPM_TEST_MAIN
