// SPDX-License-Identifier: GPL-2.0
/*
 * Property: whatever way memory of a region is touched first, it reads as
 * zeros.
 * Guards against: old data of other processes or of the region itself shown in
 * pages that were populated without having been cleared: by a promotion, by
 * prefault, by a threshold, in the rest of a slot, or after DISCARD.
 *
 * Before each case another process fills a good part of memory with a marker
 * and goes, so that the allocator hands out dirty pages if it does not clear
 * them itself.  zero_first_touch_uninit.c is the same with that turned off.
 *
 * spm-test: full=debug,7.3
 */
#include "spm_sync.h"

#define MARKER	0xa5
#define SLOTS	3
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

static int leave_marker(void *arg)
{
	size_t len = *(size_t *)arg;
	char *p;

	p = mmap(NULL, len, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	spm_child_check(p != MAP_FAILED, "no memory");
	memset(p, MARKER, len);
	return 0;
}

/* More than a test takes, less than would need reclaim. */
static void dirty_memory(void)
{
	size_t len = (size_t)spm_meminfo("MemAvailable") * 1024 / 2;

	if (len > 128UL << 20)
		len = 128UL << 20;
	if (spm_fork_run(leave_marker, &len))
		spm_die("cannot leave a marker in memory");
}

static char *fresh(int *fd)
{
	dirty_memory();
	*fd = spm_open();
	return spm_map(*fd, LEN, 0, SPM_RW);
}

/* A store to the middle of each page; the rest must be zero. */
static long nonzero_around(char *p, size_t npages)
{
	volatile uint64_t *mid;
	long wrong;
	size_t i;

	for (i = 0; i < npages; i++) {
		mid = (volatile uint64_t *)(p + i * SPM_PAGE + SPM_PAGE / 2);
		*mid = ~0ULL;
		if (*mid != ~0ULL)
			return i;
		*mid = 0;
	}
	wrong = spm_nonzero(p, npages);
	return wrong;
}

TEST_F(spm, read_faults)
{
	int fd;
	char *p = fresh(&fd);

	EXPECT_EQ(-1, spm_nonzero(p, PAGES));
	EXPECT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, write_faults)
{
	int fd;
	char *p = fresh(&fd);

	EXPECT_EQ(-1, nonzero_around(p, PAGES));
	EXPECT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, promoted_at_once)
{
	int fd;
	char *p = fresh(&fd);

	ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
	EXPECT_EQ(PAGES, spm_count_2m(fd, p, LEN));
	EXPECT_EQ(-1, spm_nonzero(p, PAGES));
}

TEST_F(spm, promoted_when_partly_populated)
{
	static const size_t odd[] = { 0, 1, 63, 64, 65, 200, 510, 511 };
	size_t i, page;
	int fd;
	char *p = fresh(&fd);

	for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		spm_fill(p + odd[i] * SPM_PAGE, odd[i], 1, 1);
	ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
	for (page = 0, i = 0; page < SPM_SLOT_PAGES; page++) {
		if (i < sizeof(odd) / sizeof(odd[0]) && page == odd[i]) {
			EXPECT_EQ(-1, spm_wrong(p + page * SPM_PAGE, page, 1, 1));
			i++;
		} else {
			ASSERT_EQ(-1, spm_nonzero(p + page * SPM_PAGE, 1)) {
				TH_LOG("page %zu", page);
			}
		}
	}
	EXPECT_EQ(-1, spm_nonzero(p + SPM_SLOT, PAGES - SPM_SLOT_PAGES));
}

TEST_F(spm, prefaulted)
{
	static char warm[SPM_PAGE];
	int fd;
	char *p = fresh(&fd);
	long before;

	ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PREFAULT));
	/* Only faults of the region are to be counted. */
	spm_nonzero(warm, 1);
	spm_minflt();
	before = spm_minflt();
	EXPECT_EQ(-1, spm_nonzero(p, PAGES));
	EXPECT_EQ(before, spm_minflt());
}

TEST_F(spm, prefaulted_by_offset)
{
	int fd;
	char *p = fresh(&fd);

	/* Not whole slots. */
	ASSERT_EQ(0, spm_advise_off(fd, 17 * SPM_PAGE, LEN - 40 * SPM_PAGE,
				    SPM_ADV_PREFAULT));
	EXPECT_EQ(-1, spm_nonzero(p, PAGES));
}

static void threshold(struct __test_metadata *_metadata, const char *value,
		      size_t touches)
{
	int fd;
	char *p = fresh(&fd);
	size_t i;

	ASSERT_EQ(0, spm_param_set("populate_threshold", value));
	for (i = 0; i < touches; i++)
		p[i * 5 * SPM_PAGE] = 0;
	/* All of the slot is there now, and nothing else of it was written. */
	EXPECT_EQ(SPM_SLOT_PAGES, spm_count(fd, p, SPM_SLOT, SPM_MINCORE_INCORE,
					    SPM_MINCORE_INCORE));
	EXPECT_EQ(-1, spm_nonzero(p, SPM_SLOT_PAGES));
	EXPECT_EQ(-1, nonzero_around(p + SPM_SLOT, SPM_SLOT_PAGES));
	EXPECT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, filled_at_first_touch)
{
	threshold(_metadata, "1", 1);
}

TEST_F(spm, filled_at_threshold)
{
	threshold(_metadata, "64", 64);
}

/* Old data of the region itself must not come back either. */
TEST_F(spm, discarded_and_used_again)
{
	int fd;
	char *p = fresh(&fd);

	spm_fill(p, 0, PAGES, 1);
	/* one page, a run of pages, a whole slot */
	ASSERT_EQ(0, spm_advise(fd, p + 7 * SPM_PAGE, SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise(fd, p + 100 * SPM_PAGE, 50 * SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise(fd, p + SPM_SLOT, SPM_SLOT, SPM_ADV_DISCARD));
	EXPECT_EQ(-1, spm_nonzero(p + 7 * SPM_PAGE, 1));
	EXPECT_EQ(-1, nonzero_around(p + 100 * SPM_PAGE, 50));
	EXPECT_EQ(-1, spm_nonzero(p + SPM_SLOT, SPM_SLOT_PAGES));
	EXPECT_EQ(-1, spm_wrong(p, 0, 7, 1));
	EXPECT_EQ(-1, spm_wrong(p + 8 * SPM_PAGE, 8, 92, 1));
	EXPECT_EQ(-1, spm_wrong(p + 150 * SPM_PAGE, 150, 362, 1));
	EXPECT_EQ(-1, spm_wrong(p + 2 * SPM_SLOT, 2 * SPM_SLOT_PAGES,
				SPM_SLOT_PAGES, 1));
	EXPECT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, discarded_and_promoted)
{
	int fd;
	char *p = fresh(&fd);

	spm_fill(p, 0, PAGES, 1);
	ASSERT_EQ(0, spm_advise(fd, p + 3 * SPM_PAGE, 500 * SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise(fd, p + SPM_SLOT, SPM_SLOT, SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
	EXPECT_EQ(-1, spm_wrong(p, 0, 3, 1));
	EXPECT_EQ(-1, spm_nonzero(p + 3 * SPM_PAGE, 500));
	EXPECT_EQ(-1, spm_wrong(p + 503 * SPM_PAGE, 503, 9, 1));
	EXPECT_EQ(-1, spm_nonzero(p + SPM_SLOT, SPM_SLOT_PAGES));
	EXPECT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, discarded_and_filled_by_threshold)
{
	int fd;
	char *p = fresh(&fd);

	spm_fill(p, 0, SPM_SLOT_PAGES, 1);
	ASSERT_EQ(0, spm_advise(fd, p + 256 * SPM_PAGE, 256 * SPM_PAGE,
				SPM_ADV_DISCARD));
	ASSERT_EQ(0, spm_param_set("populate_threshold", "1"));
	p[300 * SPM_PAGE] = 0;
	EXPECT_EQ(-1, spm_wrong(p, 0, 256, 1));
	EXPECT_EQ(-1, spm_nonzero(p + 256 * SPM_PAGE, 256));
}

/* The last slot is only partly inside the region, and then wholly. */
TEST_F(spm, rest_of_a_partial_slot)
{
	size_t part = SPM_SLOT + 3 * SPM_PAGE;
	char *p;
	int fd;

	dirty_memory();
	fd = spm_open();
	ASSERT_EQ(0, spm_set_size(fd, part));
	p = spm_map(fd, LEN, 0, SPM_RW);
	EXPECT_EQ(-1, spm_nonzero(p, part / SPM_PAGE));
	EXPECT_EQ(SIGBUS, spm_try_read(p + part));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	EXPECT_EQ(-1, spm_nonzero(p, PAGES));

	/* Shrinking throws away, growing brings zeros. */
	spm_fill(p, 0, PAGES, 1);
	ASSERT_EQ(0, spm_set_size(fd, part));
	EXPECT_EQ(SIGBUS, spm_try_read(p + part));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	EXPECT_EQ(-1, spm_wrong(p, 0, part / SPM_PAGE, 1));
	EXPECT_EQ(-1, spm_nonzero(p + part, PAGES - part / SPM_PAGE));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* A region's memory goes back and comes again as another region's. */
TEST_F(spm, memory_of_a_closed_region)
{
	int fd, round;
	char *p;

	dirty_memory();
	for (round = 0; round < 5; round++) {
		fd = spm_open();
		p = spm_map(fd, LEN, 0, SPM_RW);
		ASSERT_EQ(-1, spm_nonzero(p, PAGES));
		spm_fill(p, 0, PAGES, round);
		spm_unmap(p, LEN);
		close(fd);
	}
}

SPM_TEST_MAIN
