// SPDX-License-Identifier: GPL-2.0
/*
 * Property: promotion and demotion move nothing: a page keeps its frame, its
 * content and its dirty state through any number of them, and whoever looks a
 * page up meanwhile finds that frame or nothing.
 * Guards against: a look-up that reads an entry twice while it changes and
 * takes a wrong frame; state that wears off a little with each demotion; and
 * slots that can be promoted only once.
 *
 * spm-test: smp=4
 */
#include "spm_sync.h"

#define LEN		SPM_SLOT
#define PM_PRESENT	(1ULL << 63)
#define PM_PFN		((1ULL << 55) - 1)

static int pagemap_open(void)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		spm_die("pagemap");
	return fd;
}

static void pagemap_read(int fd, const void *p, uint64_t *entry, size_t pages)
{
	ssize_t n = pages * sizeof(*entry);

	if (pread(fd, entry, n, (uintptr_t)p / SPM_PAGE * 8) != n)
		spm_die("read of pagemap");
}

/* Frames of a slot whose pages are all mapped. */
static uint64_t frame_of(const void *p)
{
	static uint64_t entry[SPM_SLOT_PAGES];
	int fd = pagemap_open();
	size_t i;

	pagemap_read(fd, p, entry, SPM_SLOT_PAGES);
	close(fd);
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (!(entry[i] & PM_PRESENT) ||
		    (entry[i] & PM_PFN) != (entry[0] & PM_PFN) + i)
			spm_die("page %zu: entry %#llx, that of page 0 %#llx", i,
				(unsigned long long)entry[i],
				(unsigned long long)entry[0]);
	if (entry[0] & PM_PFN & (SPM_SLOT_PAGES - 1))
		spm_die("frame %#llx is not aligned",
			(unsigned long long)(entry[0] & PM_PFN));
	return entry[0] & PM_PFN;
}

struct look {
	int fd;
	char *p;
	uint64_t frame;
	atomic_uint stop;
	unsigned long rounds, absent;
};

static void *look_up(void *arg)
{
	static uint64_t entry[SPM_SLOT_PAGES];
	struct look *l = arg;
	int fd = pagemap_open();
	size_t i;

	while (!atomic_load(&l->stop)) {
		pagemap_read(fd, l->p, entry, SPM_SLOT_PAGES);
		for (i = 0; i < SPM_SLOT_PAGES; i++) {
			if (!(entry[i] & PM_PRESENT))
				l->absent++;
			else if ((entry[i] & PM_PFN) != l->frame + i)
				spm_die("page %zu seen at frame %#llx, is at %#llx",
					i, (unsigned long long)(entry[i] & PM_PFN),
					(unsigned long long)(l->frame + i));
		}
		l->rounds++;
	}
	close(fd);
	return NULL;
}

static void *read_content(void *arg)
{
	struct look *l = arg;
	unsigned int seed = 1;
	size_t page;

	while (!atomic_load(&l->stop)) {
		page = rand_r(&seed) % SPM_SLOT_PAGES;
		if (!spm_stamped(l->p + page * SPM_PAGE, page, 1))
			spm_die("wrong content");
	}
	return NULL;
}

static int read_from_outside(void *arg)
{
	struct look *l = arg;
	double end = spm_now() + 5;
	static char copy[SPM_PAGE];
	char path[64];
	size_t page = 0;
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	mem = open(path, O_RDONLY);
	spm_child_check(mem >= 0, "%s", path);
	while (spm_now() < end) {
		page = (page + 37) % SPM_SLOT_PAGES;
		spm_child_check(pread(mem, copy, SPM_PAGE, (uintptr_t)l->p +
				      page * SPM_PAGE) == (ssize_t)SPM_PAGE,
				"page %zu: %s", page, strerror(errno));
		spm_child_check(spm_wrong(copy, page, 1, 1) == -1,
				"page %zu", page);
	}
	return 0;
}

TEST_F(spm, frames_seen_from_all_sides)
{
	struct look l = { };
	pthread_t t[2];
	unsigned long n = 0;
	double end;
	pid_t pid;

	l.fd = spm_open();
	l.p = spm_map(l.fd, LEN, 0, SPM_RW);
	spm_promoted(l.fd, l.p, LEN, 0, 1);
	l.frame = frame_of(l.p);
	if (!l.frame)
		SKIP(return, "pagemap shows no frames: not root");
	pid = spm_fork(read_from_outside, &l);
	spm_thread(&t[0], look_up, &l);
	spm_thread(&t[1], read_content, &l);
	for (end = spm_now() + 5; spm_now() < end; n++) {
		ASSERT_EQ(0, spm_advise(l.fd, l.p, LEN, n % 2 ? SPM_ADV_PROMOTE :
					SPM_ADV_DEMOTE));
		if (n % 16 == 7)
			ASSERT_EQ(0, madvise(l.p + n % 512 * SPM_PAGE, SPM_PAGE,
					     MADV_DONTNEED));
	}
	atomic_store(&l.stop, 1);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	EXPECT_EQ(0, spm_wait(pid));
	TH_LOG("%lu changes, %lu look-ups, %lu pages seen without an entry",
	       n, l.rounds, l.absent);
	spm_touch_read(l.p, LEN);
	EXPECT_EQ(l.frame, frame_of(l.p));
	EXPECT_EQ(0, spm_consistent(l.fd));
}

TEST_F(spm, nothing_wears_off)
{
	struct spm_stats before;
	uint64_t frame;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	const int rounds = 50;
	int i;

	spm_promoted(fd, p, LEN, 0, 1);
	frame = frame_of(p);
	spm_stats(fd, &before);
	for (i = 0; i < rounds; i++) {
		ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_DEMOTE));
		/* All stay mapped, writable and dirty. */
		ASSERT_EQ(SPM_SLOT_PAGES, spm_count_4k(fd, p, LEN));
		ASSERT_EQ(SPM_SLOT_PAGES, spm_count_writable(fd, p, LEN));
		ASSERT_EQ(SPM_SLOT_PAGES, spm_count_dirty(fd, p, LEN));
		ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
		ASSERT_EQ(SPM_SLOT_PAGES, spm_count_2m(fd, p, LEN));
		ASSERT_EQ(SPM_SLOT_PAGES, spm_count_writable(fd, p, LEN));
	}
	EXPECT_EQ(rounds, spm_delta(fd, &before, demotions));
	EXPECT_EQ(rounds, spm_delta(fd, &before, demotions_advise));
	EXPECT_EQ(rounds, spm_delta(fd, &before, promotions));
	EXPECT_EQ(0, spm_delta(fd, &before, vm_faults));
	EXPECT_EQ(0, spm_delta(fd, &before, populated));
	EXPECT_EQ(0, spm_delta(fd, &before, demote_aborts));
	EXPECT_EQ(frame, frame_of(p));
	EXPECT_EQ(-1, spm_wrong(p, 0, SPM_SLOT_PAGES, 1));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* By writing to read-only 2 MB entries, which demotes them page by page. */
TEST_F(spm, demoted_by_each_page_and_promoted_by_the_last)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);
	size_t i, page;

	for (i = 0; i < 3; i++) {
		spm_touch_read(p, LEN);
		ASSERT_EQ(SPM_SLOT_PAGES, spm_count_2m(fd, p, LEN));
		ASSERT_EQ(0, spm_count_dirty(fd, p, LEN));
		spm_stats(fd, &before);
		for (page = 0; page < SPM_SLOT_PAGES; page++) {
			size_t k = (page * 5 + i * 100) % SPM_SLOT_PAGES;

			spm_stamp(p + k * SPM_PAGE, k, 1);
			if (page == 0 || page == 255 || page == 510) {
				EXPECT_EQ(page + 1, spm_count_dirty(fd, p, LEN));
				EXPECT_EQ(SPM_SLOT_PAGES, spm_count_4k(fd, p, LEN));
			}
		}
		EXPECT_EQ(SPM_SLOT_PAGES, spm_count_2m(fd, p, LEN));
		EXPECT_EQ(SPM_SLOT_PAGES, spm_count_dirty(fd, p, LEN));
		EXPECT_EQ(1, spm_delta(fd, &before, demotions_write));
		EXPECT_EQ(1, spm_delta(fd, &before, promotions));
		for (page = 0; page < SPM_SLOT_PAGES; page++)
			EXPECT_TRUE(spm_stamped(p + page * SPM_PAGE, page, 1));
		EXPECT_EQ(0, spm_consistent(fd));
		ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_DISCARD));
	}
}

SPM_TEST_MAIN
