// SPDX-License-Identifier: GPL-2.0
/*
 * Property: the answers of GET_DIRTY and GET_REFERENCED are what was asked for, in
 * ranges and in bitmaps, by offset and by address; what does not fit is told by
 * the next request; and a request that fails has cleared nothing that it did not
 * tell.
 *
 * Kind of bug: state cleared before the answer is written, and lost when that
 * fails; a resume point that skips or repeats; a request that is half done before
 * it finds that its range has a hole.
 *
 * spm-test: full=debug,7.3
 */
#include "spm_test.h"

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define BITMAP	SPM_SCAN_BITMAP
#define SLOTS	4
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

static struct spm_page_range vec[PAGES];

static int ask(int fd, struct spm_scan *s, uint32_t flags, uint64_t start,
	       uint64_t len, void *to, uint64_t room)
{
	*s = (struct spm_scan){
		.flags = flags, .start = start, .len = len,
		.vec = (uintptr_t)to, .vec_len = room,
	};
	return spm_scan(fd, SPM_IOC_GET_DIRTY, s);
}

/* A region whose pages were all cleared, then every second one stored to. */
static char *checkered(int fd, size_t len)
{
	char *map = spm_map(fd, len, 0, SPM_RW);
	size_t i;

	spm_touch_write(map, len);
	if (spm_dirty(fd, OFF | CLEAR, 0, len) != (long)(len / SPM_PAGE))
		spm_die("not all were dirty");
	for (i = 0; i < len; i += 2 * SPM_PAGE)
		map[i] = 2;
	return map;
}

TEST_F(spm, ranges_join)
{
	int fd = spm_open();
	struct spm_scan s;
	char *map;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_touch_write(map + 5 * SPM_PAGE, LEN - 9 * SPM_PAGE);
	ASSERT_EQ(0, ask(fd, &s, OFF, 0, LEN, vec, PAGES));
	ASSERT_EQ(1, s.count);
	ASSERT_EQ(5 * SPM_PAGE, vec[0].start);
	ASSERT_EQ(LEN - 4 * SPM_PAGE, vec[0].end);
	ASSERT_EQ(PAGES - 9, s.pages);
	ASSERT_EQ(LEN, s.next);
	/* By address across mappings that the kernel split. */
	ASSERT_EQ(0, mprotect(map + SPM_SLOT + 7 * SPM_PAGE, SPM_PAGE, PROT_READ));
	ASSERT_EQ(0, ask(fd, &s, 0, (uintptr_t)map, LEN, vec, PAGES));
	ASSERT_EQ(1, s.count);
	ASSERT_EQ((uintptr_t)map + 5 * SPM_PAGE, vec[0].start);
	ASSERT_EQ((uintptr_t)map + LEN - 4 * SPM_PAGE, vec[0].end);
	/* A range that begins and ends inside. */
	ASSERT_EQ(0, ask(fd, &s, OFF, 700 * SPM_PAGE, SPM_SLOT, vec, 1));
	ASSERT_EQ(1, s.count);
	ASSERT_EQ(700 * SPM_PAGE, vec[0].start);
	ASSERT_EQ(1212 * SPM_PAGE, vec[0].end);
	ASSERT_EQ(vec[0].end, s.next);
}

/* Only what is told is cleared, however little room there is. */
TEST_F(spm, resume)
{
	static const unsigned int rooms[] = { 1, 2, 3, 100, 255, 256, 257, 1000 };
	int fd = spm_open();
	struct spm_scan s;
	unsigned int i;
	uint64_t from, told;

	checkered(fd, LEN);
	for (i = 0; i < ARRAY_SIZE(rooms); i++) {
		uint32_t flags = OFF | (i == ARRAY_SIZE(rooms) - 1 ? CLEAR : 0);

		for (from = 0, told = 0; from < LEN; from = s.next) {
			ASSERT_EQ(0, ask(fd, &s, flags, from, LEN - from, vec,
					 rooms[i]));
			ASSERT_LT(from, s.next);
			ASSERT_LE(s.count, rooms[i]);
			if (!s.count)
				continue;
			ASSERT_EQ(told * 2 * SPM_PAGE, vec[0].start);
			told += s.pages;
			ASSERT_EQ((told * 2 - 1) * SPM_PAGE, vec[s.count - 1].end);
		}
		ASSERT_EQ(PAGES / 2, told);
	}
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, LEN));
	checkered(fd, LEN);
	ASSERT_EQ(0, ask(fd, &s, OFF | CLEAR, 0, LEN, vec, 10));
	ASSERT_EQ(20 * SPM_PAGE, s.next);
	ASSERT_EQ(PAGES / 2 - 10, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, 20 * SPM_PAGE));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, bitmaps)
{
	static unsigned char bits[PAGES / 8 + 64];
	static const unsigned int starts[] = { 0, 1, 7, 8, 63, 64, 511, 513 };
	int fd = spm_open();
	struct spm_scan s;
	unsigned int i, k, n;

	checkered(fd, LEN);
	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		n = PAGES - starts[i];
		memset(bits, 0xa5, sizeof(bits));
		ASSERT_EQ(0, ask(fd, &s, OFF | BITMAP, starts[i] * SPM_PAGE,
				 n * SPM_PAGE, bits, PAGES / 8));
		ASSERT_EQ((n + 63) / 64 * 8, s.count);
		ASSERT_EQ(LEN, s.next);
		for (k = 0; k < n; k++)
			ASSERT_EQ((starts[i] + k) % 2 == 0,
				  bits[k / 8] >> k % 8 & 1);
		for (; k < s.count * 8; k++)
			ASSERT_EQ(0, bits[k / 8] >> k % 8 & 1);
		ASSERT_EQ(0xa5, bits[s.count]);
	}
	/* One that is too small says where it ends, and clears no more. */
	ASSERT_EQ(0, ask(fd, &s, OFF | BITMAP | CLEAR, SPM_PAGE, LEN - SPM_PAGE,
			 bits, 72));
	ASSERT_EQ(72, s.count);
	ASSERT_EQ(577 * SPM_PAGE, s.next);
	ASSERT_EQ(288, s.pages);
	ASSERT_EQ(PAGES / 2 - 288, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(-EINVAL, ask(fd, &s, OFF | BITMAP, 0, LEN, bits, 12));
}

/* More windows than the kernel buffers, most of it never touched. */
TEST_F(spm, sparse_bitmap)
{
	size_t len = 300 * SPM_SLOT, bytes = len / SPM_PAGE / 8, i, n = 0;
	unsigned char *bits = malloc(bytes);
	int fd = spm_open();
	struct spm_scan s;
	char *map;

	map = spm_map(fd, len, 0, SPM_RW);
	map[0] = 1;
	map[100 * SPM_SLOT + 9 * SPM_PAGE] = 1;
	map[len - 1] = 1;
	memset(bits, 0xff, bytes);
	ASSERT_EQ(0, ask(fd, &s, OFF | BITMAP | CLEAR, 0, len, bits, bytes));
	ASSERT_EQ(bytes, s.count);
	ASSERT_EQ(3, s.pages);
	for (i = 0; i < bytes; i++)
		n += __builtin_popcount(bits[i]);
	ASSERT_EQ(3, n);
	ASSERT_EQ(1, bits[0]);
	ASSERT_EQ(2, bits[100 * 64 + 1]);
	ASSERT_EQ(0x80, bits[bytes - 1]);
	free(bits);
}

TEST_F(spm, nothing_to_write_to_or_to_look_at)
{
	int fd = spm_open();
	struct spm_scan s;
	char *map;

	map = checkered(fd, LEN);
	ASSERT_EQ(0, ask(fd, &s, OFF, 0, LEN, NULL, 0));
	ASSERT_EQ(PAGES / 2, s.pages);
	ASSERT_EQ(0, s.count);
	ASSERT_EQ(LEN, s.next);
	ASSERT_EQ(0, ask(fd, &s, OFF | CLEAR, 4096, 0, vec, 1));
	ASSERT_EQ(4096, s.next);
	ASSERT_EQ(0, ask(fd, &s, 0, (uintptr_t)map, 0, vec, 1));
	/* Beyond the region there is nothing, whatever was there before. */
	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	ASSERT_EQ(0, ask(fd, &s, OFF, 0, 1ULL << 50, vec, PAGES));
	ASSERT_EQ(256, s.pages);
	ASSERT_EQ(1ULL << 50, s.next);
	ASSERT_EQ(0, ask(fd, &s, 0, (uintptr_t)map, LEN, vec, PAGES));
	ASSERT_EQ(256, s.pages);
	/* An empty region. */
	ASSERT_EQ(0, spm_dirty(spm_open(), OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_referenced(spm_open(), OFF | CLEAR, 0, LEN));
}

TEST_F(spm, requests_that_make_no_sense)
{
	int fd = spm_open(), other = open("/dev/null", O_RDONLY), bit;
	struct spm_scan s;
	char *map;

	map = checkered(fd, LEN);
	ASSERT_EQ(-EINVAL, ask(fd, &s, OFF | CLEAR, 1, LEN, vec, 1));
	ASSERT_EQ(-EINVAL, ask(fd, &s, OFF | CLEAR, 0, LEN + 1, vec, 1));
	ASSERT_EQ(-EINVAL, ask(fd, &s, OFF, -SPM_PAGE, 2 * SPM_PAGE, vec, 1));
	ASSERT_EQ(-EINVAL, ask(fd, &s, 16, 0, LEN, vec, 1));
	for (bit = 0; bit < 32; bit++) {
		s = (struct spm_scan){ .flags = OFF, .pad = 1U << bit };
		ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
		s = (struct spm_scan){ .flags = OFF, .since = 1 << bit };
		ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
		ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_REFERENCED, &s));
	}
	/* SINCE: a descriptor, of a region, of the same family, by offset. */
	s = (struct spm_scan){ .flags = OFF | SPM_SCAN_SINCE, .len = LEN,
			       .since = -1 };
	ASSERT_EQ(-EBADF, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
	s.since = other;
	ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
	s.since = spm_open();
	ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
	s.since = spm_snapshot(fd);
	ASSERT_EQ(0, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
	ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_REFERENCED, &s));
	s.flags |= CLEAR;
	ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
	s.flags = SPM_SCAN_SINCE;
	s.start = (uintptr_t)map;
	ASSERT_EQ(-EINVAL, spm_scan(fd, SPM_IOC_GET_DIRTY, &s));
	/* None of it has cleared anything. */
	ASSERT_EQ(PAGES / 2, spm_dirty(fd, OFF, 0, LEN));
}

/* Found before anything is done. */
TEST_F(spm, holes_and_strangers)
{
	int fd = spm_open(), other = spm_open();
	struct spm_scan s;
	char *map;

	map = checkered(fd, LEN);
	spm_map_at(map + SPM_SLOT, other, SPM_PAGE, 0, SPM_RW);
	ASSERT_EQ(-ENOMEM, ask(fd, &s, CLEAR, (uintptr_t)map, LEN, vec, PAGES));
	ASSERT_EQ(0, munmap(map + SPM_SLOT, SPM_PAGE));
	ASSERT_EQ(-ENOMEM, ask(fd, &s, CLEAR, (uintptr_t)map, LEN, vec, PAGES));
	ASSERT_EQ(-ENOMEM, ask(fd, &s, CLEAR, (uintptr_t)vec & ~4095UL, SPM_PAGE,
			       vec, PAGES));
	ASSERT_EQ(-ENOMEM, ask(fd, &s, CLEAR, 0, SPM_PAGE, vec, PAGES));
	ASSERT_EQ(PAGES / 2, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, ask(fd, &s, CLEAR, (uintptr_t)map, SPM_SLOT, vec, PAGES));
	ASSERT_EQ(256, s.pages);
}

/* Clearing changes what others are told: not for who may only read. */
TEST_F(spm, read_only_descriptors)
{
	int ro = open("/dev/superpmap0", O_RDONLY);
	int fd = spm_open();
	char *map, *priv;

	ASSERT_LE(0, ro);
	map = checkered(fd, LEN);
	ASSERT_EQ(0, spm_dirty(ro, OFF, 0, LEN));
	ASSERT_EQ(-EBADF, spm_dirty(ro, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(-EBADF, spm_referenced(ro, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(-EBADF, spm_policy_set(ro, "dirty_grain", 1));
	/* A private mapping is the caller's own. */
	priv = spm_private(ro, LEN, 0, SPM_RW);
	priv[0] = 1;
	ASSERT_EQ(1, spm_dirty(ro, CLEAR, (uintptr_t)priv, LEN));
	ASSERT_EQ(0, spm_dirty(ro, CLEAR, (uintptr_t)priv, LEN));
	ASSERT_EQ(PAGES / 2, spm_dirty(fd, OFF, 0, LEN));
	map[0] = 0;
}

/* What could not be told is dirty again. */
TEST_F(spm, answers_that_cannot_be_written)
{
	struct spm_page_range *v;
	uint64_t told = 0, from;
	int fd = spm_open();
	struct spm_scan s;
	char *pages, *map;

	map = checkered(fd, LEN);
	pages = mmap(NULL, 4 * SPM_PAGE, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	ASSERT_TRUE(pages != MAP_FAILED);
	ASSERT_EQ(0, munmap(pages + 2 * SPM_PAGE, 2 * SPM_PAGE));
	ASSERT_EQ(-EFAULT, ask(fd, &s, OFF | CLEAR, 0, LEN, NULL, PAGES));
	ASSERT_EQ(-EFAULT, ask(fd, &s, OFF | CLEAR | BITMAP, 0, LEN,
			       (void *)4096, 4096));
	ASSERT_EQ(-EFAULT, ask(fd, &s, CLEAR, (uintptr_t)map, LEN,
			       pages + 2 * SPM_PAGE, PAGES));
	ASSERT_EQ(0, mprotect(pages, SPM_PAGE, PROT_READ));
	ASSERT_EQ(-EFAULT, ask(fd, &s, OFF | CLEAR, 0, LEN, pages, PAGES));
	ASSERT_EQ(0, mprotect(pages, SPM_PAGE, SPM_RW));
	ASSERT_EQ(PAGES / 2, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, LEN));
	/* One that runs out in the middle: all is told sooner or later. */
	v = (struct spm_page_range *)pages;
	for (from = 0; from < LEN; from = s.next) {
		int err = ask(fd, &s, OFF | CLEAR, from, LEN - from, v, PAGES);

		if (err == -EFAULT) {
			ASSERT_EQ(0, ask(fd, &s, OFF | CLEAR, from, LEN - from,
					 v, 2 * SPM_PAGE / sizeof(*v)));
		} else {
			ASSERT_EQ(0, err);
		}
		told += s.pages;
	}
	ASSERT_EQ(PAGES / 2, told);
	ASSERT_EQ(0, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Writing the answer is a store to the region, and faults under its own locks. */
TEST_F(spm, answer_inside_the_region)
{
	int fd = spm_open();
	struct spm_scan s;
	char *map;

	map = checkered(fd, LEN);
	ASSERT_EQ(0, ask(fd, &s, OFF | CLEAR, 0, LEN, map, PAGES));
	ASSERT_EQ(PAGES / 2, s.pages);
	/* 1024 ranges are 4 pages, all of them stored to after their slot's turn. */
	ASSERT_EQ(4, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, ask(fd, &s, CLEAR | BITMAP, (uintptr_t)map, LEN,
			 map + LEN - SPM_SLOT, 4096));
	ASSERT_EQ(4, s.pages);
	ASSERT_EQ(1, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Mappings that are no multiple of 2 MB apart from the region. */
TEST_F(spm, misaligned_mappings)
{
	int fd = spm_open();
	struct spm_scan s;
	char *map, *odd;

	map = checkered(fd, LEN);
	odd = mmap(NULL, LEN, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(odd != MAP_FAILED);
	odd += (SPM_SLOT - (uintptr_t)odd % SPM_SLOT) % SPM_SLOT + 3 * SPM_PAGE;
	spm_map_at(odd, fd, SPM_SLOT, 5 * SPM_PAGE, SPM_RW);
	ASSERT_EQ(0, ask(fd, &s, 0, (uintptr_t)odd, SPM_SLOT, vec, PAGES));
	ASSERT_EQ(256, s.count);
	ASSERT_EQ((uintptr_t)odd + SPM_PAGE, vec[0].start);
	odd[0] = 1;
	ASSERT_EQ(257, spm_dirty(fd, CLEAR, (uintptr_t)odd, SPM_SLOT));
	ASSERT_EQ(PAGES / 2 - 256, spm_dirty(fd, OFF, 0, LEN));
	map[0] = 0;
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
