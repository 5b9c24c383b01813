// SPDX-License-Identifier: GPL-2.0
/*
 * Property: an entry never covers an address outside the VMA or an offset
 * outside the region; a slot that is not wholly inside both stays 4 KB.
 *
 * Kind of bug: the unit in which the object is allocated (2 MB) is taken for
 * the length of the mapping, so that entries end up behind vm_end, over
 * whatever the program has there.
 */
#include "spm_test.h"

#define SEED	1
#define GUARD	99

static const size_t lengths[] = {
	SPM_PAGE, SPM_SLOT - SPM_PAGE, SPM_SLOT, SPM_SLOT + SPM_PAGE,
};

static const uint64_t offsets[] = { 0, SPM_PAGE };

/* Must the page at offset @off be under a 2 MB entry once all was written? */
static bool fits(uint64_t off, uint64_t start, uint64_t len, uint64_t size)
{
	uint64_t slot = off & ~(SPM_SLOT - 1);

	return slot >= start && slot + SPM_SLOT <= start + len &&
	       slot + SPM_SLOT <= size;
}

static char *guard_at(char *addr)
{
	char *p;

	spm_unmap(addr, SPM_PAGE);
	p = mmap(addr, SPM_PAGE, SPM_RW,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != addr)
		spm_die("guard page at %p gave %p", addr, p);
	spm_fill(p, 0, 1, GUARD);
	return p;
}

static void check_window(struct __test_metadata *_metadata, int fd,
			 uint64_t size, size_t len, uint64_t off, size_t skew)
{
	unsigned char vec[2 * SPM_SLOT_PAGES];
	size_t pages = len / SPM_PAGE, i;
	char *addr, *guard, *front;
	bool want, got;

	/* Both neighbours are pages of the program's own. */
	addr = spm_reserve(len + SPM_PAGE, off) + skew;
	front = guard_at(addr - SPM_PAGE);
	guard = guard_at(addr + len);
	spm_map_at(addr, fd, len, off, SPM_RW);

	/* The last byte first: what is behind it is the point. */
	addr[len - 1] = 1;
	addr[0] = 1;
	ASSERT_EQ(-1, spm_wrong(guard, 0, 1, GUARD));
	spm_fill(addr, off / SPM_PAGE, pages, SEED);
	ASSERT_EQ(-1, spm_wrong(guard, 0, 1, GUARD));
	ASSERT_EQ(-1, spm_wrong(front, 0, 1, GUARD));
	ASSERT_EQ(-1, spm_wrong(addr, off / SPM_PAGE, pages, SEED));

	ASSERT_EQ(0, spm_mincore(fd, addr, len, vec));
	for (i = 0; i < pages; i++) {
		want = !skew && fits(off + i * SPM_PAGE, off, len, size);
		got = (vec[i] & SPM_IS_2M) == SPM_2M;
		ASSERT_EQ(want, got) {
			TH_LOG("page %zu of %zu bytes at offset %llu, skew %zu, state %#x",
			       i, len, (unsigned long long)off, skew, vec[i]);
		}
		ASSERT_NE(0, vec[i] & SPM_MINCORE_MAPPED);
	}
	ASSERT_EQ((long)len / 1024, spm_smaps(addr, "Rss"));
	ASSERT_EQ(0, spm_consistent(fd));

	/* Write through the guards: the region must not see it. */
	spm_fill(guard, 5, 1, GUARD);
	spm_fill(front, 5, 1, GUARD);
	ASSERT_EQ(-1, spm_wrong(addr, off / SPM_PAGE, pages, SEED));
	spm_unmap(addr, len);
	ASSERT_EQ(-1, spm_wrong(guard, 5, 1, GUARD));
}

TEST_F(spm, region_as_large_as_the_mapping)
{
	unsigned int l, o;
	int fd;

	for (l = 0; l < ARRAY_SIZE(lengths); l++) {
		for (o = 0; o < ARRAY_SIZE(offsets); o++) {
			fd = spm_open();
			check_window(_metadata, fd, offsets[o] + lengths[l],
				     lengths[l], offsets[o], 0);
			close(fd);
		}
	}
}

TEST_F(spm, window_in_a_larger_region)
{
	unsigned int l, o;
	int fd = spm_open();

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	for (l = 0; l < ARRAY_SIZE(lengths); l++)
		for (o = 0; o < ARRAY_SIZE(offsets); o++)
			check_window(_metadata, fd, 2 * SPM_SLOT, lengths[l],
				     offsets[o], 0);
}

/* The slot is full from before: the window may be tempted to take all of it. */
TEST_F(spm, window_over_a_full_slot)
{
	int fd = spm_open();
	unsigned int l, o;
	char *all;

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	all = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, all, 2 * SPM_SLOT, 0, SEED);
	for (l = 0; l < ARRAY_SIZE(lengths); l++)
		for (o = 0; o < ARRAY_SIZE(offsets); o++)
			check_window(_metadata, fd, 2 * SPM_SLOT, lengths[l],
				     offsets[o], 0);
	ASSERT_EQ(1024, spm_count_2m(fd, all, 2 * SPM_SLOT));
}

/* Address and offset disagree modulo 2 MB: nothing but 4 KB entries. */
TEST_F(spm, misaligned_window)
{
	int fd = spm_open();
	unsigned int l;

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	for (l = 0; l < ARRAY_SIZE(lengths); l++)
		check_window(_metadata, fd, 2 * SPM_SLOT, lengths[l], 0,
			     SPM_PAGE);
}

TEST_F(spm, last_partial_slot_stays_4k)
{
	size_t size = SPM_SLOT + 3 * SPM_PAGE;
	int fd = spm_open();
	char *addr;

	ASSERT_EQ(0, spm_set_size(fd, size));
	addr = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_fill(addr, 0, size / SPM_PAGE, SEED);
	ASSERT_EQ(512, spm_count_2m(fd, addr, SPM_SLOT));
	ASSERT_EQ(3, spm_count_4k(fd, addr + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(509, spm_count_none(fd, addr + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(0, spm_try_read(addr + size - 1));
	ASSERT_EQ(SIGBUS, spm_try_read(addr + size));
	ASSERT_EQ(SIGBUS, spm_try_write(addr + size, 1));
	ASSERT_EQ(SIGBUS, spm_try_write(addr + 2 * SPM_SLOT - 1, 1));
	ASSERT_EQ(-1, spm_wrong(addr, 0, size / SPM_PAGE, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/*
 * Neighbours that are mapped ahead at a 4 KB fault end at the VMA's borders
 * and at the end of the region too.
 */
TEST_F(spm, prefault_stays_inside)
{
	int fd = spm_open();
	char *all, *one;

	ASSERT_EQ(0, spm_param_set("prefault_pages", "64"));
	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	all = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	/* One page short of full, so that faults stay 4 KB. */
	spm_fill(all, 0, 511, SEED);

	one = spm_reserve(3 * SPM_PAGE, 100 * SPM_PAGE);
	spm_map_at(one, fd, 3 * SPM_PAGE, 100 * SPM_PAGE, SPM_RW);
	ASSERT_EQ(0, spm_try_read(one + SPM_PAGE));
	ASSERT_EQ(3, spm_count_4k(fd, one, 3 * SPM_PAGE));
	ASSERT_EQ(12, spm_smaps(one, "Rss"));
	ASSERT_EQ(-1, spm_wrong(one, 100, 3, SEED));

	/* Beyond the last populated page there is nothing to map. */
	one = spm_map(fd, 8 * SPM_PAGE, 506 * SPM_PAGE, SPM_RW);
	ASSERT_EQ(0, spm_try_read(one));
	ASSERT_EQ(5, spm_count_4k(fd, one, 6 * SPM_PAGE));
	ASSERT_EQ(20, spm_smaps(one, "Rss"));
	ASSERT_EQ(-1, spm_wrong(one, 506, 5, SEED));
	ASSERT_EQ(SIGBUS, spm_try_read(one + 6 * SPM_PAGE));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
