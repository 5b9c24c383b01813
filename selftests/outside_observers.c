// SPDX-License-Identifier: GPL-2.0
/*
 * Property: those who look at a process from outside (clear_refs, pagemap,
 * smaps, numa_maps, process_madvise) see the truth and take nothing away: no
 * data, no dirty state, no superpage.
 *
 * Kind of bug: entries changed by the kernel behind the driver's back, so that
 * a later store is not seen; pages whose physical place changes when the size
 * of their entry changes.
 */
#include "spm_test.h"

#define SEED	16

static void clear_refs(pid_t pid, const char *how)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/clear_refs", pid);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, how, 1) != 1)
		spm_die("%s", path);
	close(fd);
}

static uint64_t pagemap(const void *addr)
{
	uint64_t entry;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0 || pread(fd, &entry, 8, (uintptr_t)addr / SPM_PAGE * 8) != 8)
		spm_die("/proc/self/pagemap");
	close(fd);
	return entry;
}

#define PM_PFN(e)	((e) & ((1ULL << 55) - 1))
#define PM_FILE		(1ULL << 61)
#define PM_PRESENT	(1ULL << 63)

TEST_F(spm, clear_refs_of_all_kinds)
{
	static const char * const kinds[] = { "1", "3", "4" };
	int fd = spm_open();
	struct spm_stats before;
	unsigned int i;
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		spm_map_at(map, fd, 2 * SPM_SLOT, 0, SPM_RW);
		spm_fill(map, 0, 512, SEED);
		spm_fill(map + SPM_SLOT, 512, 100, SEED);
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		spm_stats(fd, &before);
		clear_refs(getpid(), kinds[i]);
		ASSERT_EQ(612, spm_count_dirty(fd, map, 2 * SPM_SLOT));
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		if (*kinds[i] != '4') {
			ASSERT_EQ(0, spm_count(fd, map, 2 * SPM_SLOT,
					       SPM_MINCORE_REFERENCED,
					       SPM_MINCORE_REFERENCED));
		}
		ASSERT_EQ(0, spm_consistent(fd));
		ASSERT_EQ(-1, spm_wrong(map, 0, 612, SEED));
		/* Stores still arrive, and the superpage is still one. */
		spm_fill(map, 0, 612, SEED + 1);
		ASSERT_EQ(-1, spm_wrong(map, 0, 612, SEED + 1));
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		ASSERT_EQ(0, spm_delta(fd, &before, demotions));
		ASSERT_EQ(0, spm_delta(fd, &before, dirty));
		ASSERT_EQ(0, spm_count_clean_writable(fd, map, 2 * SPM_SLOT));
		ASSERT_EQ(0, spm_consistent(fd));
	}
}

/* A clean superpage must not become writable by way of soft-dirty. */
TEST_F(spm, clear_refs_of_clean_pages)
{
	int fd = spm_open();
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_touch_read(map, SPM_SLOT);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	clear_refs(getpid(), "4");
	ASSERT_EQ(0, spm_count_dirty(fd, map, SPM_SLOT));
	map[9 * SPM_PAGE] = 1;
	ASSERT_EQ(1, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(1, spm_count_writable(fd, map, SPM_SLOT));
	clear_refs(getpid(), "4");
	map[10 * SPM_PAGE] = 1;
	map[9 * SPM_PAGE] = 2;
	ASSERT_EQ(2, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

static long referenced(int fd, const char *map)
{
	return spm_count(fd, map, SPM_SLOT, SPM_MINCORE_REFERENCED,
			 SPM_MINCORE_REFERENCED);
}

/*
 * The kernel clears accessed bits without a flush, so a processor that holds the
 * translation does not set them again; a change of protection and back flushes.
 */
static void clear_referenced(char *map)
{
	clear_refs(getpid(), "1");
	if (mprotect(map, SPM_SLOT, PROT_READ) || mprotect(map, SPM_SLOT, SPM_RW))
		spm_die("mprotect");
}

/*
 * One accessed bit stands for 512 pages: who clears it and looks again sees all
 * of a superpage or none of it, and neither costs the superpage.
 */
TEST_F(spm, one_accessed_bit_for_a_superpage)
{
	struct spm_stats before;
	int fd = spm_open(), i;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_stats(fd, &before);
	for (i = 0; i < 3; i++) {
		clear_referenced(map);
		ASSERT_EQ(0, referenced(fd, map));
		spm_touch_read(map + 300 * SPM_PAGE, 1);
		ASSERT_EQ(512, referenced(fd, map));
	}
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	/* By 4 KB entries, each page has a bit of its own. */
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
	clear_referenced(map);
	ASSERT_EQ(0, referenced(fd, map));
	spm_touch_read(map + 300 * SPM_PAGE, 1);
	ASSERT_EQ(1, referenced(fd, map));
}

/* Physical place is virtual place, before and after promotion. */
TEST_F(spm, promotion_does_not_move_pages)
{
	int fd = spm_open();
	uint64_t pfn[512], e;
	unsigned int i;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	for (i = 0; i < 511; i++) {
		spm_stamp(map + i * SPM_PAGE, i, SEED);
		e = pagemap(map + i * SPM_PAGE);
		ASSERT_EQ(PM_PRESENT | PM_FILE, e & (PM_PRESENT | PM_FILE));
		pfn[i] = PM_PFN(e);
		ASSERT_EQ(pfn[0] + i, pfn[i]);
	}
	ASSERT_NE(0, pfn[0]);
	ASSERT_EQ(0, pfn[0] % 512);
	ASSERT_EQ(0, pagemap(map + 511 * SPM_PAGE) & PM_PRESENT);
	spm_stamp(map + 511 * SPM_PAGE, 511, SEED);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	for (i = 0; i < 512; i++) {
		e = pagemap(map + i * SPM_PAGE);
		ASSERT_EQ(PM_PRESENT | PM_FILE, e & (PM_PRESENT | PM_FILE));
		ASSERT_EQ(pfn[0] + i, PM_PFN(e));
	}
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
	for (i = 0; i < 512; i++) {
		ASSERT_EQ(pfn[0] + i, PM_PFN(pagemap(map + i * SPM_PAGE)));
	}
}

static bool read_all(const char *name)
{
	char buf[4096];
	int fd = open(name, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return false;
	do {
		n = read(fd, buf, sizeof(buf));
	} while (n > 0);
	close(fd);
	return !n;
}

TEST_F(spm, proc_files)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;

	map = spm_map(fd, 3 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_fill(map + SPM_SLOT, 512, 10, SEED);
	spm_stats(fd, &before);
	ASSERT_EQ(2048, spm_smaps(map, "FilePmdMapped"));
	ASSERT_EQ(2048 + 40, spm_smaps(map, "Rss"));
	ASSERT_EQ(2048 + 40, spm_smaps(map, "Pss"));
	ASSERT_EQ(0, spm_smaps(map, "Anonymous"));
	ASSERT_EQ(0, spm_smaps(map, "Swap"));
	ASSERT_TRUE(read_all("/proc/self/smaps"));
	ASSERT_TRUE(read_all("/proc/self/smaps_rollup"));
	ASSERT_TRUE(read_all("/proc/self/maps"));
	read_all("/proc/self/numa_maps");
	ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

struct target {
	int fd;
	char *map;
	int ready, go;
};

static int target(void *arg)
{
	struct target *t = arg;
	char c = 0;

	spm_touch_read(t->map, 2 * SPM_SLOT);
	if (write(t->ready, &c, 1) != 1 || read(t->go, &c, 1) != 1)
		return 1;
	spm_child_check(spm_wrong(t->map, 0, 1024, SEED) == -1, "data");
	spm_child_check(spm_count_2m(t->fd, t->map, 2 * SPM_SLOT) == 1024,
			"%ld", spm_count_2m(t->fd, t->map, 2 * SPM_SLOT));
	spm_fill(t->map, 0, 1024, SEED + 1);
	return 0;
}

/* process_madvise() returns the number of bytes advised. */
TEST_F(spm, advice_from_another_process)
{
	static const struct {
		const char *name;
		int advice;
		int err;
	} advices[] = {
		{ "COLD", MADV_COLD, 0 },
		{ "PAGEOUT", MADV_PAGEOUT, 0 },
		{ "WILLNEED", MADV_WILLNEED, 0 },
		{ "COLLAPSE", 25, EINVAL },
	};
	struct target t = { .fd = spm_open() };
	int ready[2], go[2], pidfd;
	unsigned int i, k;
	pid_t pid;
	char c = 0;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	t.map = spm_map(t.fd, 2 * SPM_SLOT, 0, SPM_RW);
	t.ready = ready[1];
	t.go = go[0];
	spm_promoted(t.fd, t.map, 2 * SPM_SLOT, 0, SEED);
	pid = spm_fork(target, &t);
	ASSERT_EQ(1, read(ready[0], &c, 1));
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	ASSERT_LE(0, pidfd);
	for (i = 0; i < ARRAY_SIZE(advices); i++) {
		const struct {
			size_t from, len;
		} ranges[] = {
			{ 0, 2 * SPM_SLOT }, { 0, SPM_SLOT },
			{ 17 * SPM_PAGE, SPM_PAGE },
			{ SPM_SLOT - SPM_PAGE, 2 * SPM_PAGE },
		};

		for (k = 0; k < ARRAY_SIZE(ranges); k++) {
			struct iovec {
				void *base;
				size_t len;
			} iov = { t.map + ranges[k].from, ranges[k].len };
			long ret = syscall(SYS_process_madvise, pidfd, &iov, 1,
					   advices[i].advice, 0);

			ASSERT_EQ(advices[i].err ? -1 : (long)iov.len, ret) {
				TH_LOG("%s, range %u: errno %d",
				       advices[i].name, k, errno);
			}
			if (advices[i].err) {
				ASSERT_EQ(advices[i].err, errno);
			}
		}
	}
	clear_refs(pid, "1");
	clear_refs(pid, "3");
	clear_refs(pid, "4");
	ASSERT_EQ(0, spm_consistent(t.fd));
	ASSERT_EQ(1, write(go[1], &c, 1));
	ASSERT_EQ(0, spm_wait(pid));
	ASSERT_EQ(-1, spm_wrong(t.map, 0, 1024, SEED + 1));
	ASSERT_EQ(1024, spm_count_2m(t.fd, t.map, 2 * SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(t.fd));
}

/* Shared by nobody: there the advice may go further (split, page out). */
TEST_F(spm, cold_and_pageout_of_an_exclusive_mapping)
{
	static const int advices[] = { MADV_COLD, MADV_PAGEOUT };
	struct spm_stats before;
	int fd = spm_open();
	unsigned int i, k;
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_fill(map + SPM_SLOT, 512, 512, SEED);
	ASSERT_EQ(0, spm_advise(fd, map + SPM_SLOT, SPM_SLOT, SPM_ADV_DEMOTE));
	spm_stats(fd, &before);
	for (i = 0; i < ARRAY_SIZE(advices); i++) {
		for (k = 0; k < 1024; k += 37) {
			ASSERT_EQ(0, madvise(map + k * SPM_PAGE, SPM_PAGE,
					     advices[i]));
		}
		ASSERT_EQ(0, madvise(map, 2 * SPM_SLOT, advices[i]));
	}
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_4k(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));
	ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
