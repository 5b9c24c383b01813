// SPDX-License-Identifier: GPL-2.0
/*
 * Property: what the kernel's own advice, aging and tracking do to a mapping,
 * from inside or from outside, loses no data, no dirty state and, without need,
 * no superpage; and msync and fsync succeed and change nothing.
 *
 * Kind of bug: entries made writable behind the driver's back, by mprotect, by
 * NUMA hinting, by soft-dirty; a folio that the kernel splits or throws away
 * because it takes it for page cache.
 *
 * spm-test: timeout=200 full=debug,7.3
 */
#include "spm_test.h"

#include <linux/fs.h>
#include <time.h>

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define LEN	(4 * SPM_SLOT)
#define PAGES	(4 * SPM_SLOT_PAGES)
#define SEED	95

#ifndef MADV_COLD
#define MADV_COLD	20
#define MADV_PAGEOUT	21
#endif

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		spm_die("cannot write %s to %s", text, path);
	close(fd);
}

/* Three superpages, and a slot of 4 KB entries; all cleared, two pages dirty. */
static char *prepared(int fd)
{
	char *map = spm_map(fd, LEN, 0, SPM_RW);

	spm_promoted(fd, map, LEN, 0, SEED);
	if (spm_advise(fd, map + 3 * SPM_SLOT, SPM_SLOT, SPM_ADV_DEMOTE))
		spm_die("DEMOTE");
	if (spm_dirty(fd, OFF | CLEAR, 0, LEN) != PAGES)
		spm_die("not all were dirty");
	*(volatile char *)(map + 3 * SPM_SLOT) = map[3 * SPM_SLOT];
	*(volatile char *)(map + LEN - SPM_PAGE) = map[LEN - SPM_PAGE];
	return map;
}

/* Nothing was lost, and stores are seen as before. */
static long damage(int fd, char *map, const char *what)
{
	bool set[PAGES];
	long n = 0;

	n += spm_wrong(map, 0, PAGES, SEED) != -1;
	n += spm_dirty_set(fd, 0, PAGES, set) != 2 || !set[3 * 512] ||
	     !set[PAGES - 1];
	n += spm_count_clean_writable(fd, map, LEN) != 0;
	n += spm_verify() != 0;
	*(volatile char *)(map + 5 * SPM_PAGE) = map[5 * SPM_PAGE];
	n += spm_dirty_set(fd, 0, PAGES, set) != 3 || !set[5];
	n += spm_wrong(map, 0, PAGES, SEED) != -1;
	if (n)
		spm_note("%s: %ld things are wrong", what, n);
	return n;
}

static int advise_from_outside(pid_t pid, void *addr, size_t len, int advice)
{
	struct iovec v = { addr, len };
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	long ret;

	if (pidfd < 0)
		return -errno;
	ret = syscall(SYS_process_madvise, pidfd, &v, 1, advice, 0);
	close(pidfd);
	return ret < 0 ? -errno : 0;
}

TEST_F(spm, advice_of_the_kernel)
{
	static const struct {
		const char *name;
		int advice, err;
		bool keeps;		/* the superpages */
	} t[] = {
		{ "MADV_COLD",		MADV_COLD,	0,	true },
		{ "MADV_PAGEOUT",	MADV_PAGEOUT,	0,	true },
		{ "MADV_WILLNEED",	MADV_WILLNEED,	0,	true },
		{ "MADV_FREE",		MADV_FREE,	-EINVAL, true },
		{ "MADV_SEQUENTIAL",	MADV_SEQUENTIAL, 0,	true },
		{ "MADV_DONTNEED",	MADV_DONTNEED,	0,	false },
	};
	unsigned int i, part;
	struct spm_stats before;
	char *map;
	int fd;

	for (i = 0; i < ARRAY_SIZE(t); i++)
		for (part = 0; part < 3; part++) {
			size_t from = part ? 7 * SPM_PAGE : 0;
			size_t len = part ? 9 * SPM_PAGE : LEN;
			int err;

			fd = spm_open();
			map = prepared(fd);
			spm_stats(fd, &before);
			if (part < 2)
				err = madvise(map + from, len, t[i].advice) ?
					-errno : 0;
			else
				err = advise_from_outside(getpid(), map + from,
							  len, t[i].advice);
			if (part < 2) {
				ASSERT_EQ(t[i].err, err) {
					TH_LOG("%s", t[i].name);
				}
			}
			if (t[i].keeps && part == 0) {
				ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN)) {
					TH_LOG("%s", t[i].name);
				}
			}
			ASSERT_EQ(0, spm_delta(fd, &before, dirty));
			ASSERT_EQ(0, damage(fd, map, t[i].name));
			spm_unmap(map, LEN);
			close(fd);
		}
}

TEST_F(spm, clear_refs)
{
	static const char * const kinds[] = { "1", "3", "4" };
	unsigned int i;
	char *map;
	int fd;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		fd = spm_open();
		map = prepared(fd);
		write_text("/proc/self/clear_refs", kinds[i]);
		ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN));
		ASSERT_EQ(2, spm_dirty(fd, OFF, 0, LEN));
		ASSERT_EQ(0, damage(fd, map, kinds[i]));
		/* And the other way round: soft-dirty bits live beside ours. */
		ASSERT_EQ(3, spm_dirty(fd, OFF | CLEAR, 0, LEN));
		map[3 * SPM_SLOT + 9 * SPM_PAGE]++;
		ASSERT_EQ(1, spm_dirty(fd, OFF | CLEAR, 0, LEN));
		ASSERT_EQ(0, spm_consistent(fd));
		spm_unmap(map, LEN);
		close(fd);
	}
}

/* It may look; its write protection needs userfaultfd, which we refuse. */
TEST_F(spm, pagemap_scan)
{
	struct page_region vec[16];
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.vec = (uintptr_t)vec, .vec_len = 16,
		.category_anyof_mask = PAGE_IS_PRESENT | PAGE_IS_WRITTEN,
		.return_mask = PAGE_IS_PRESENT | PAGE_IS_WRITTEN,
	};
	int fd = spm_open(), pm = open("/proc/self/pagemap", O_RDONLY);
	char *map;
	long ret;

	map = prepared(fd);
	arg.start = (uintptr_t)map;
	arg.end = arg.start + LEN;
	ASSERT_LE(0, pm);
	ret = ioctl(pm, PAGEMAP_SCAN, &arg);
	if (ret < 0 && errno == ENOTTY)
		SKIP(return, "no PAGEMAP_SCAN");
	ASSERT_LT(0, ret);
	ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN));
	arg.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC;
	ASSERT_EQ(-1, ioctl(pm, PAGEMAP_SCAN, &arg));
	ASSERT_EQ(EPERM, errno);
	ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, damage(fd, map, "PAGEMAP_SCAN"));
}

/* No backing store: nothing to write back, and nothing gets clean by it. */
TEST_F(spm, msync_and_fsync)
{
	static const int kinds[] = { MS_ASYNC, MS_SYNC, MS_INVALIDATE | MS_SYNC };
	int fd = spm_open();
	unsigned int i;
	char *map;

	map = prepared(fd);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		ASSERT_EQ(0, msync(map, LEN, kinds[i]));
	ASSERT_EQ(0, fsync(fd));
	ASSERT_EQ(0, fdatasync(fd));
	ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(2, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(0, damage(fd, map, "msync"));
}

/*
 * NUMA hinting takes the access rights of entries away for a while, and gives
 * them back in the fault that follows.
 */
static long long hint_faults(void)
{
	char name[64];
	long long n, found = -1;
	FILE *f = fopen("/proc/vmstat", "r");

	while (f && fscanf(f, "%63s %lld", name, &n) == 2)
		if (!strcmp(name, "numa_hint_faults"))
			found = n;
	if (f)
		fclose(f);
	return found;
}

TEST_F(spm, numa_hinting)
{
	const char *sysctl = "/proc/sys/kernel/numa_balancing";
	int fd = spm_open();
	long long before;
	time_t end;
	char *map;

	/* The debug kernel has two nodes. */
	if (access(sysctl, W_OK) ||
	    access("/sys/devices/system/node/node1", F_OK))
		SKIP(return, "no NUMA balancing, or one node");
	map = prepared(fd);
	before = hint_faults();
	write_text(sysctl, "1");
	for (end = time(NULL) + 60; time(NULL) < end;) {
		ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));
		*(volatile char *)(map + 3 * SPM_SLOT) = map[3 * SPM_SLOT];
		if (hint_faults() > before + 8)
			break;
	}
	write_text(sysctl, "0");
	EXPECT_LT(before + 8, hint_faults());
	ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, damage(fd, map, "NUMA hinting"));
}

/* -- referenced -------------------------------------------------------------- */

/*
 * Accessed bits are cleared without a flush, so a processor that holds the
 * translation does not set them again; a change of protection and back flushes.
 */
static void forget(char *map)
{
	if (mprotect(map, LEN, PROT_READ) || mprotect(map, LEN, SPM_RW))
		spm_die("mprotect");
}

TEST_F(spm, referenced_pages)
{
	int fd = spm_open();
	char *map;

	ASSERT_EQ(0, spm_policy_set(fd, "prefault_pages", 0));
	map = prepared(fd);
	ASSERT_LT(0, spm_referenced(fd, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_referenced(fd, OFF, 0, LEN));
	forget(map);
	spm_touch_read(map + SPM_SLOT, SPM_PAGE);
	spm_touch_read(map + 3 * SPM_SLOT, 5 * SPM_PAGE);
	/* One bit for 512 pages. */
	ASSERT_EQ(517, spm_referenced(fd, OFF, 0, LEN));
	ASSERT_EQ(517, spm_referenced(fd, CLEAR, (uintptr_t)map, LEN));
	ASSERT_EQ(0, spm_referenced(fd, OFF, 0, LEN));
	/* Nothing else has changed. */
	ASSERT_EQ(2, spm_dirty(fd, OFF, 0, LEN));
	ASSERT_EQ(3 * 512, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Neither always hot nor always cold, page by page. */
TEST_F(spm, one_bit_for_512_pages)
{
	int fd = spm_open(), i, hot = 0, cleared = 0;
	struct spm_stats before;
	char *map;

	map = prepared(fd);
	for (i = 0; i < 512; i++) {
		spm_touch_read(map, SPM_PAGE);
		spm_stats(fd, &before);
		hot += spm_referenced(fd, OFF | CLEAR, i * SPM_PAGE, SPM_PAGE);
		cleared += spm_delta(fd, &before, accessed_cleared);
		if (spm_delta(fd, &before, accessed_cleared))
			forget(map);
	}
	/* Hot in every look, cleared in one of 512. */
	ASSERT_EQ(512, hot);
	ASSERT_EQ(1, cleared);
	/* Nobody touches it: after one round of looks it is cold. */
	forget(map);
	for (i = 0; i < 512; i++)
		spm_referenced(fd, OFF | CLEAR, i * SPM_PAGE, SPM_PAGE);
	for (i = 0, hot = 0; i < 512; i++)
		hot += spm_referenced(fd, OFF | CLEAR, i * SPM_PAGE, SPM_PAGE);
	ASSERT_EQ(0, hot);
}

TEST_F(spm, cold)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;

	map = prepared(fd);
	spm_touch_read(map, LEN);
	ASSERT_EQ(PAGES, spm_referenced(fd, OFF, 0, LEN));
	spm_stats(fd, &before);
	ASSERT_EQ(0, spm_advise(fd, map, LEN, SPM_ADV_COLD));
	ASSERT_EQ(0, spm_referenced(fd, OFF, 0, LEN));
	ASSERT_EQ(3 + 512, spm_delta(fd, &before, accessed_cleared));
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, damage(fd, map, "COLD"));
	/* Rewritten, the slots are superpages again. */
	spm_fill(map, 0, PAGES, SEED);
	ASSERT_EQ(PAGES, spm_count_2m(fd, map, LEN));
	ASSERT_EQ(0, spm_consistent(fd));
}

static int region;

static int touch_and_leave(void *arg)
{
	char *map = spm_map(region, LEN, 0, SPM_RW);

	spm_touch_read(map, SPM_SLOT);
	return spm_referenced(region, 0, (uintptr_t)map, SPM_SLOT) != 512;
}

/* Of another process; and after it is gone. */
TEST_F(spm, referenced_elsewhere)
{
	int i, seen = 0;
	char *map;

	region = spm_open();
	map = prepared(region);
	spm_unmap(map, LEN);
	ASSERT_LE(0, spm_referenced(region, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_referenced(region, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_fork_run(touch_and_leave, NULL));
	/* One bit for 512 pages here as well: one look in 512 clears it. */
	for (i = 0; i < 512; i++) {
		seen += spm_referenced(region, OFF | CLEAR, i * SPM_PAGE,
				       SPM_PAGE);
		if (!spm_referenced(region, OFF, 0, SPM_SLOT))
			break;
	}
	ASSERT_GT(512, i);
	ASSERT_EQ(i + 1, seen);
	spm_referenced(region, OFF | CLEAR, 0, LEN);
	ASSERT_EQ(0, spm_referenced(region, OFF, 0, LEN));
	ASSERT_EQ(0, spm_fork_run(touch_and_leave, NULL));
	ASSERT_EQ(512, spm_referenced(region, OFF | CLEAR, 0, LEN));
	ASSERT_EQ(0, spm_referenced(region, OFF, 0, LEN));
}

SPM_TEST_MAIN
