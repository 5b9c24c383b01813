// SPDX-License-Identifier: GPL-2.0
/*
 * Property: the pages of a slot that holds 1, 2, 511 or 512 of them belong to
 * the region as long as it exists, mapped or not, and nobody else gets them;
 * what the region does not hold is not kept from others as data.
 *
 * Kind of bug: only the first page of a large allocation has a reference, so
 * that unmapping the others gives memory back that is still in use; backing
 * that goes with the last descriptor instead of the last mapping.
 *
 * spm-test: timeout=240
 */
#include "spm_test.h"

#define SEED	8
#define HOG	(96UL << 20)

/*
 * Takes memory, large pieces and small ones, writes a pattern of its own to
 * it, and says whether it is still there when told so.
 */
struct hog {
	int ready, go;
};

static int hog(void *arg)
{
	struct hog *h = arg;
	size_t i, pages = HOG / SPM_PAGE;
	char *p, c = 0;

	p = mmap(NULL, HOG, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 1;
	madvise(p, HOG / 2, MADV_NOHUGEPAGE);
	madvise(p + HOG / 2, HOG / 2, MADV_HUGEPAGE);
	for (i = 0; i < pages; i++)
		spm_stamp(p + i * SPM_PAGE, i, 1000);
	if (write(h->ready, &c, 1) != 1 || read(h->go, &c, 1) != 1)
		return 1;
	for (i = 0; i < pages; i++)
		spm_child_check(spm_stamped(p + i * SPM_PAGE, i, 1000),
				"page %zu of the hog", i);
	return 0;
}

struct running_hog {
	pid_t pid;
	int ready[2], go[2];
};

static void hog_start(struct running_hog *r)
{
	struct hog h;
	char c;

	if (pipe(r->ready) || pipe(r->go))
		spm_die("pipe");
	h.ready = r->ready[1];
	h.go = r->go[0];
	r->pid = spm_fork(hog, &h);
	if (read(r->ready[0], &c, 1) != 1)
		spm_die("hog did not start");
}

static int hog_end(struct running_hog *r)
{
	char c = 0;
	int ret;

	if (write(r->go[1], &c, 1) != 1)
		return -1;
	ret = spm_wait(r->pid);
	close(r->ready[0]);
	close(r->ready[1]);
	close(r->go[0]);
	close(r->go[1]);
	return ret;
}

static const unsigned int counts[] = { 1, 2, 511, 512 };

/* Page @i of those that a slot with @n pages holds: both ends first. */
static unsigned int nth(unsigned int i, unsigned int n)
{
	return i % 2 ? 511 - i / 2 : i / 2;
}

TEST_F(spm, unmapped_pages_stay)
{
	struct running_hog hog;
	struct spm_stats s;
	unsigned int k, i;
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	for (k = 0; k < 4; k++) {
		for (i = 0; i < counts[k]; i++) {
			unsigned int page = k * 512 + nth(i, counts[k]);

			spm_fill(map + page * SPM_PAGE, page, 1, SEED);
		}
	}
	spm_unmap(map, 4 * SPM_SLOT);
	spm_stats(fd, &s);
	ASSERT_EQ(1 + 2 + 511 + 512, s.pages);
	ASSERT_EQ(4, s.reserv_live);
	ASSERT_EQ(1, s.reserv_fullpop);

	hog_start(&hog);
	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	for (k = 0; k < 4; k++) {
		for (i = 0; i < counts[k]; i++) {
			unsigned int page = k * 512 + nth(i, counts[k]);

			ASSERT_EQ(-1, spm_wrong(map + page * SPM_PAGE, page, 1,
						SEED));
		}
	}
	spm_stats(fd, &s);
	ASSERT_EQ(1 + 2 + 511 + 512, s.pages);
	/* Fill the rest: it was nobody's, and it is zero. */
	for (k = 0; k < 4; k++) {
		for (i = counts[k]; i < 512; i++) {
			unsigned int page = k * 512 + nth(i, 512);

			ASSERT_EQ(-1, spm_nonzero(map + page * SPM_PAGE, 1));
			spm_fill(map + page * SPM_PAGE, page, 1, SEED);
		}
	}
	ASSERT_EQ(2048, spm_count_2m(fd, map, 4 * SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 2048, SEED));
	ASSERT_EQ(0, hog_end(&hog));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* No descriptor is left, only a mapping; memory is in demand. */
TEST_F(spm, mapping_alone_holds_the_pages)
{
	struct running_hog hog;
	int fd = spm_open();
	char *map, *four_k;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	four_k = spm_map(fd, SPM_SLOT, SPM_SLOT, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_fill(four_k, 512, 511, SEED);
	close(fd);
	hog_start(&hog);
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	ASSERT_EQ(-1, spm_wrong(four_k, 512, 511, SEED));
	ASSERT_EQ(0, hog_end(&hog));
	spm_unmap(map, SPM_SLOT);
	hog_start(&hog);
	ASSERT_EQ(-1, spm_wrong(four_k, 512, 511, SEED));
	ASSERT_EQ(0, hog_end(&hog));
}

/* And when the last one is gone, all of the memory is back. */
TEST_F(spm, memory_comes_back_after_the_last_unmap)
{
	long before, during, after = 0;
	size_t size = 32 * SPM_SLOT;
	int fd, i;
	char *map;

	before = spm_available();
	fd = spm_open();
	map = spm_map(fd, size, 0, SPM_RW);
	close(fd);
	for (i = 0; i < 32; i++)
		spm_touch_write(map + i * SPM_SLOT, SPM_PAGE);
	during = spm_meminfo("MemFree");
	spm_unmap(map, size);
	for (i = 0; i < 20; i++) {
		after = spm_available();
		if (after > before - 8192)
			break;
		usleep(100000);
	}
	/* 64 MB were taken, as whole reservations; 8 MB are noise. */
	ASSERT_LT(before - 8192, after) {
		TH_LOG("%ld kB available before, %ld kB after, MemFree %ld kB in between",
		       before, after, during);
	}
}

SPM_TEST_MAIN
