// SPDX-License-Identifier: GPL-2.0
/*
 * Property: the protection of a mapping holds for every page of a superpage,
 * at every moment; a descriptor open for reading never leads to a store; one
 * open of the node never sees memory of another.
 *
 * Kind of bug: protection bits of 2 MB entries forgotten or remembered too
 * long (in the entry, or in a TLB that was not flushed); the right to write
 * checked at mmap() and not at mprotect(); objects found by guessable offsets.
 */
#include "spm_test.h"

#define SEED	10

static const unsigned int places[] = { 0, 1, 255, 256, 510, 511 };

static void check_access(struct __test_metadata *_metadata, char *map,
			 int prot)
{
	int rd = prot & PROT_READ ? 0 : SIGSEGV;
	int wr = prot & PROT_WRITE ? 0 : SIGSEGV;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(places); i++) {
		char *page = map + places[i] * SPM_PAGE;

		ASSERT_EQ(rd, spm_try_read(page + 8)) {
			TH_LOG("page %u, protection %d", places[i], prot);
		}
		if (wr) {
			ASSERT_EQ(wr, spm_try_write(page + 8, 0xee)) {
				TH_LOG("page %u, protection %d", places[i],
				       prot);
			}
		} else {
			spm_fill(page, places[i], 1, SEED);
		}
	}
	if (!rd) {
		ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	}
}

TEST_F(spm, whole_superpage)
{
	static const int prots[] = {
		PROT_READ, PROT_NONE, SPM_RW, PROT_NONE, PROT_READ, SPM_RW,
	};
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	struct spm_stats before;
	unsigned int i;

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_stats(fd, &before);
	for (i = 0; i < ARRAY_SIZE(prots); i++) {
		ASSERT_EQ(0, mprotect(map, SPM_SLOT, prots[i]));
		check_access(_metadata, map, prots[i]);
		ASSERT_EQ(0, spm_consistent(fd));
		ASSERT_EQ(512, spm_count_dirty(fd, map, SPM_SLOT));
	}
	/*
	 * The change covers the whole entry, so it was never broken up; at
	 * the end it is writable again, in place.
	 */
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
}

/* The same on 4 KB entries, and on a slot that is filled while read-only. */
TEST_F(spm, small_pages)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
	ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
	ASSERT_EQ(0, mprotect(map, SPM_SLOT, PROT_READ));
	check_access(_metadata, map, PROT_READ);
	ASSERT_EQ(0, mprotect(map, SPM_SLOT, PROT_NONE));
	check_access(_metadata, map, PROT_NONE);
	ASSERT_EQ(0, mprotect(map, SPM_SLOT, SPM_RW));
	check_access(_metadata, map, SPM_RW);
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* A second mapping of the same slot, read-only from the start. */
TEST_F(spm, read_only_mapping_of_a_dirty_superpage)
{
	int fd = spm_open();
	char *rw = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	char *ro = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	char *none = spm_map(fd, SPM_SLOT, 0, PROT_NONE);

	spm_promoted(fd, rw, SPM_SLOT, 0, SEED);
	check_access(_metadata, ro, PROT_READ);
	ASSERT_EQ(512, spm_count_2m(fd, ro, SPM_SLOT));
	ASSERT_EQ(0, spm_count_writable(fd, ro, SPM_SLOT));
	check_access(_metadata, none, PROT_NONE);
	check_access(_metadata, rw, SPM_RW);
	ASSERT_EQ(512, spm_count_writable(fd, rw, SPM_SLOT));
	/* Opened for writing, so this may become writable: in place. */
	ASSERT_EQ(0, mprotect(ro, SPM_SLOT, SPM_RW));
	ASSERT_EQ(1, spm_touch_faults(ro, SPM_SLOT, true));
	ASSERT_EQ(512, spm_count_2m(fd, ro, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, one_page_of_a_superpage)
{
	static const int prots[] = { PROT_READ, PROT_NONE };
	int fd = spm_open();
	struct spm_stats before;
	unsigned int i, k, j;
	char *map;

	for (k = 0; k < ARRAY_SIZE(prots); k++) {
		for (i = 0; i < ARRAY_SIZE(places); i++) {
			char *page;

			map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
			spm_promoted(fd, map, SPM_SLOT, 0, SEED);
			page = map + places[i] * SPM_PAGE;
			spm_stats(fd, &before);
			ASSERT_EQ(0, mprotect(page, SPM_PAGE, prots[k]));
			ASSERT_EQ(1, spm_delta(fd, &before, demotions_split));
			ASSERT_EQ(SIGSEGV, spm_try_write(page, 1));
			ASSERT_EQ(prots[k] ? 0 : SIGSEGV, spm_try_read(page));
			/* The others are as writable as before. */
			for (j = 0; j < 512; j++) {
				if (j == places[i])
					continue;
				spm_stamp(map + j * SPM_PAGE, j, SEED);
			}
			ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
			ASSERT_EQ(0, mprotect(page, SPM_PAGE, SPM_RW));
			ASSERT_EQ(0, spm_try_write(page + 8, *(page + 8)));
			ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
			ASSERT_EQ(0, spm_consistent(fd));
			spm_unmap(map, SPM_SLOT);
		}
	}
}

TEST_F(spm, read_only_descriptor)
{
	int rw, ro, other;
	char path[64];
	char *map;

	other = open(SPM_NODE, O_RDONLY);
	ASSERT_LE(0, other);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, SPM_SLOT, SPM_RW, MAP_SHARED, other,
				   0));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, SPM_SLOT, PROT_WRITE, MAP_SHARED,
				   other, 0));
	ASSERT_EQ(EACCES, errno);
	map = spm_map(other, SPM_SLOT, 0, PROT_READ);
	ASSERT_EQ(-1, spm_nonzero(map, 512));
	ASSERT_EQ(-1, mprotect(map, SPM_SLOT, SPM_RW));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(-1, mprotect(map + SPM_PAGE, SPM_PAGE, PROT_WRITE));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(SIGSEGV, spm_try_write(map, 1));

	/* Nor by way of the calls that change memory. */
	ASSERT_EQ(-EBADF, spm_advise(other, map, SPM_SLOT, SPM_ADV_PREFAULT));
	ASSERT_EQ(-EBADF, spm_advise(other, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(-EBADF, spm_advise(other, map, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(-EBADF, spm_advise_off(other, 0, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(-EBADF, spm_advise_off(other, 0, SPM_SLOT, SPM_ADV_PREFAULT));
	ASSERT_EQ(-EBADF, spm_set_size(other, SPM_SLOT));
	/* Looking is allowed. */
	ASSERT_NE(0, spm_state(other, map) & SPM_MINCORE_INCORE);
	ASSERT_EQ(0, spm_advise(other, map, SPM_SLOT, SPM_ADV_DEMOTE));

	if (access(SPM_NODE "0", F_OK))
		SKIP(return, "no persistent region");
	snprintf(path, sizeof(path), SPM_NODE "0");
	rw = open(path, O_RDWR);
	ro = open(path, O_RDONLY);
	ASSERT_LE(0, rw);
	ASSERT_LE(0, ro);
	map = spm_map(rw, SPM_SLOT, 0, SPM_RW);
	spm_promoted(rw, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(MAP_FAILED, mmap(NULL, SPM_SLOT, SPM_RW, MAP_SHARED, ro, 0));
	ASSERT_EQ(EACCES, errno);
	map = spm_map(ro, SPM_SLOT, 0, PROT_READ);
	check_access(_metadata, map, PROT_READ);
	/* The slot is full and dirty, but this mapping must not write. */
	ASSERT_EQ(512, spm_count_2m(ro, map, SPM_SLOT));
	ASSERT_EQ(0, spm_count_writable(ro, map, SPM_SLOT));
	ASSERT_EQ(-1, mprotect(map, SPM_SLOT, SPM_RW));
	ASSERT_EQ(EACCES, errno);
	ASSERT_EQ(-EBADF, spm_advise_off(ro, 0, SPM_SLOT, SPM_ADV_DISCARD));
	check_access(_metadata, map, PROT_READ);
	ASSERT_EQ(0, spm_consistent(ro));
}

/* Every open of the node is an island, whatever offset is tried. */
TEST_F(spm, opens_are_isolated)
{
	static const uint64_t offs[] = {
		0, SPM_SLOT, 64 * SPM_SLOT, 1ULL << 32, 1ULL << 44,
	};
	int a = spm_open(), b = spm_open();
	struct spm_info ia, ib;
	struct spm_stats s;
	unsigned int i;
	char *ma, *mb;

	spm_info(a, &ia);
	spm_info(b, &ib);
	ASSERT_NE(ia.region, ib.region);
	for (i = 0; i < ARRAY_SIZE(offs); i++) {
		ma = spm_map(a, SPM_SLOT, offs[i], SPM_RW);
		spm_fill(ma, offs[i] / SPM_PAGE, 512, SEED);
		mb = spm_map(b, SPM_SLOT, offs[i], SPM_RW);
		ASSERT_EQ(-1, spm_nonzero(mb, 512));
		spm_fill(mb, offs[i] / SPM_PAGE, 2, SEED + 1);
		ASSERT_EQ(-1, spm_wrong(ma, offs[i] / SPM_PAGE, 512, SEED));
		/* Nor can one descriptor act on a mapping of the other. */
		ASSERT_EQ(-ENOMEM, spm_advise(b, ma, SPM_SLOT,
					      SPM_ADV_DISCARD));
		ASSERT_EQ(-ENOMEM, spm_advise(b, ma, SPM_SLOT, SPM_ADV_DEMOTE));
		ASSERT_EQ(512, spm_count_2m(a, ma, SPM_SLOT));
	}
	spm_info(b, &ib);
	ASSERT_EQ(0, spm_advise_off(b, 0, ib.size, SPM_ADV_DISCARD));
	spm_stats(a, &s);
	ASSERT_EQ(ARRAY_SIZE(offs) * 512, s.pages);
	close(b);
	for (i = 0; i < ARRAY_SIZE(offs); i++) {
		ma = spm_map(a, SPM_SLOT, offs[i], PROT_READ);
		ASSERT_EQ(-1, spm_wrong(ma, offs[i] / SPM_PAGE, 512, SEED));
	}
}

/* Memory of a region that is gone never shows in a new one. */
TEST_F(spm, new_region_is_empty)
{
	int fd, i;
	char *map;

	for (i = 0; i < 20; i++) {
		fd = spm_open();
		map = mmap(NULL, SPM_SLOT, SPM_RW, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, map);
		ASSERT_EQ(0, lseek(fd, 0, SEEK_SET));
		if (i % 2) {
			ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT,
						SPM_ADV_PROMOTE));
		}
		ASSERT_EQ(-1, spm_nonzero(map, 512));
		spm_fill(map, 0, 512, SEED + i);
		spm_unmap(map, SPM_SLOT);
		close(fd);
	}
}

SPM_TEST_MAIN
