// SPDX-License-Identifier: GPL-2.0
/*
 * What it costs to learn which pages of 256 MB were stored to, and to begin anew:
 * GET_DIRTY of superpmap next to PAGEMAP_SCAN with asynchronous write protection
 * and to soft-dirty, on other kinds of memory, in the same boot.
 *
 * Counts ticks of the processor's time stamp counter.  "make bench" runs this in a
 * machine where each is one instruction.
 */
#define SPM_TEST_NO_HARNESS
#include "spm_test.h"

#include <getopt.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <sched.h>

#define SLOTS	128
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

#define SHMEM_THP \
	"/sys/kernel/mm/transparent_hugepage/shmem_enabled"

static const char usage_text[] =
"Usage: demo_dirty [--json]\n"
"Prints what it costs to learn which pages of 256 MB were stored to, and to\n"
"begin anew, in ticks of the time stamp counter: of superpmap, PAGEMAP_SCAN and\n"
"soft-dirty, on several kinds of memory.\n"
"\n"
"  -h, --help  this text\n"
"  -j, --json  one JSON object a line\n"
"\n"
"Needs root: it runs before all other programs, and lets shared memory have huge\n"
"pages meanwhile.\n"
"Exit status: 0 done, 1 something failed, 2 wrong usage, 4 no module.\n";

static int pagemap, uffd, region;
static char *map;
static bool json;

/* -- ways to ask ----------------------------------------------------------- */

static long ask_superpmap(void)
{
	static struct spm_page_range vec[PAGES];
	struct spm_scan s = {
		.flags = SPM_SCAN_BY_OFFSET | SPM_SCAN_CLEAR, .len = LEN,
		.vec = (uintptr_t)vec, .vec_len = PAGES,
	};

	if (spm_scan(region, SPM_IOC_GET_DIRTY, &s))
		spm_die("GET_DIRTY");
	return s.pages;
}

static long ask_pagemap_scan(void)
{
	static struct page_region vec[PAGES];
	struct pm_scan_arg a = {
		.size = sizeof(a), .start = (uintptr_t)map,
		.end = (uintptr_t)map + LEN,
		.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
		.vec = (uintptr_t)vec, .vec_len = PAGES,
		.category_mask = PAGE_IS_WRITTEN, .return_mask = PAGE_IS_WRITTEN,
	};
	long n = ioctl(pagemap, PAGEMAP_SCAN, &a), i, pages = 0;

	if (n < 0)
		spm_die("PAGEMAP_SCAN");
	for (i = 0; i < n; i++)
		pages += (vec[i].end - vec[i].start) / SPM_PAGE;
	return pages;
}

static long ask_soft_dirty(void)
{
	static uint64_t entries[PAGES];
	int fd = open("/proc/self/clear_refs", O_WRONLY);
	long i, pages = 0;

	if (pread(pagemap, entries, sizeof(entries),
		  (uintptr_t)map / SPM_PAGE * 8) != sizeof(entries))
		spm_die("/proc/self/pagemap");
	for (i = 0; i < (long)PAGES; i++)
		pages += entries[i] >> 55 & 1;
	if (fd < 0 || write(fd, "4", 1) != 1)
		spm_die("/proc/self/clear_refs");
	close(fd);
	return pages;
}

/* -- kinds of memory ------------------------------------------------------- */

static void map_superpmap(void)
{
	region = spm_open();
	map = spm_map(region, LEN, 0, SPM_RW);
	spm_promoted(region, map, LEN, 0, 1);
}

static void map_superpmap_2m(void)
{
	map_superpmap();
	if (spm_policy_set(region, "dirty_grain", SPM_DIRTY_GRAIN_2M))
		spm_die("SET_POLICY");
}

static void map_other(int flags, int advice)
{
	map = spm_reserve(LEN, 0);
	if (mmap(map, LEN, SPM_RW, MAP_FIXED | MAP_ANONYMOUS | flags, -1, 0) ==
	    MAP_FAILED)
		spm_die("mmap");
	madvise(map, LEN, advice);
	spm_touch_write(map, LEN);
}

static void map_anonymous(void)
{
	map_other(MAP_PRIVATE, MADV_HUGEPAGE);
}

static void map_shmem(void)
{
	map_other(MAP_SHARED, MADV_NOHUGEPAGE);
}

/* The kernel must be asked to make huge pages of shared memory. */
static bool shmem_thp(const char *mode)
{
	int fd = open(SHMEM_THP, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, mode, strlen(mode)) > 0;

	close(fd);
	return good;
}

static void map_shmem_thp(void)
{
	char old[128] = "", *word;
	int fd = open(SHMEM_THP, O_RDONLY | O_CLOEXEC);

	/* "always [never] deny" */
	if (fd < 0 || read(fd, old, sizeof(old) - 1) < 0 ||
	    !shmem_thp("advise"))
		spm_die(SHMEM_THP);
	close(fd);
	map_other(MAP_SHARED, MADV_HUGEPAGE);
	word = strchr(old, '[');
	if (word)
		shmem_thp(strtok(word + 1, "]"));
}

static void watch_pagemap_scan(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
			    UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	struct uffdio_register r = {
		.range = { (uintptr_t)map, LEN },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) ||
	    ioctl(uffd, UFFDIO_REGISTER, &r))
		spm_die("userfaultfd with asynchronous write protection");
}

struct kind {
	const char *name;
	void (*map)(void);
	void (*watch)(void);
	long (*ask)(void);
	const char *field;		/* of smaps: kB in superpages */
};

static const struct kind kinds[] = {
	{ "superpmap, dirty_grain=4K", map_superpmap, NULL, ask_superpmap,
	  "FilePmdMapped" },
	{ "superpmap, dirty_grain=2M", map_superpmap_2m, NULL, ask_superpmap,
	  "FilePmdMapped" },
	{ "PAGEMAP_SCAN, anonymous THP", map_anonymous, watch_pagemap_scan,
	  ask_pagemap_scan, "AnonHugePages" },
	{ "PAGEMAP_SCAN, shmem THP", map_shmem_thp, watch_pagemap_scan,
	  ask_pagemap_scan, "ShmemPmdMapped" },
	{ "PAGEMAP_SCAN, shmem 4K", map_shmem, watch_pagemap_scan,
	  ask_pagemap_scan, "ShmemPmdMapped" },
	{ "soft-dirty, anonymous THP", map_anonymous, NULL, ask_soft_dirty,
	  "AnonHugePages" },
	{ "soft-dirty, shmem THP", map_shmem_thp, NULL, ask_soft_dirty,
	  "ShmemPmdMapped" },
	{ "soft-dirty, shmem 4K", map_shmem, NULL, ask_soft_dirty,
	  "ShmemPmdMapped" },
};

/* -- what is stored to ------------------------------------------------------- */

struct pattern {
	const char *name;
	unsigned long pages, step;	/* of the first @pages, each @step-th */
	unsigned int times;
};

static const struct pattern patterns[] = {
	{ "nothing",				0,	1,	2 },
	{ "1/64, two whole slots",		1024,	1,	2 },
	{ "1/64, every 64th, first time",	PAGES,	64,	1 },
	{ "1/64, every 64th, later",		PAGES,	64,	2 },
	{ "all",				PAGES,	1,	2 },
};

static uint64_t now(void)
{
	return __builtin_ia32_rdtsc();
}

static void measure(const struct kind *k, const struct pattern *p)
{
	uint64_t t0 = 0, t1 = 0, t2 = 0;
	unsigned long i, stored = 0;
	unsigned int n;
	long told = 0, kb;

	for (n = 0; n < p->times; n++) {
		t0 = now();
		for (i = 0; i < p->pages; i += p->step)
			map[i * SPM_PAGE]++;
		t1 = now();
		told = k->ask();
		t2 = now();
	}
	stored = p->pages / p->step;
	kb = spm_smaps_range(map, LEN, k->field);
	if (json)
		printf("{\"memory\": \"%s\", \"stored\": \"%s\", \"store_ticks\": %llu, \"ask_ticks\": %llu, \"pages_told\": %ld, \"pages_stored\": %lu, \"superpages_kb\": %ld}\n",
		       k->name, p->name, (unsigned long long)(t1 - t0),
		       (unsigned long long)(t2 - t1), told, stored, kb);
	else
		printf("%-28s %-30s %12llu %10llu %6ld %6lu %8ld\n", k->name,
		       p->name, (unsigned long long)(t1 - t0),
		       (unsigned long long)(t2 - t1), told, stored, kb);
	fflush(stdout);
}

static void run(const struct kind *k)
{
	unsigned int i;

	k->map();
	if (k->watch)
		k->watch();
	k->ask();
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		measure(k, &patterns[i]);
	spm_unmap(map, LEN);
	if (k->watch)
		close(uffd);
	if (k->ask == ask_superpmap)
		close(region);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help",	no_argument,	NULL, 'h' },
		{ "json",	no_argument,	NULL, 'j' },
		{ NULL, 0, NULL, 0 }
	};
	struct sched_param first = { .sched_priority = 50 };
	unsigned int i;
	int c;

	while ((c = getopt_long(argc, argv, "hj", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		case 'j':
			json = true;
			break;
		default:
			return 2;
		}
	}
	if (optind != argc) {
		fputs(usage_text, stderr);
		return 2;
	}
	if (!spm_present()) {
		printf("SKIP: no " SPM_NODE ", the module is not loaded\n");
		return 4;
	}
	/* Nobody else's time is to be counted. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		spm_die("SCHED_FIFO");
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	if (pagemap < 0)
		spm_die("/proc/self/pagemap");
	if (!json)
		printf("%-28s %-30s %12s %10s %13s %8s\n%-28s %-30s %12s %10s %6s %6s %8s\n",
		       "256 MB of memory, by way of", "stored to", "the stores",
		       "ask and", "pages", "kB in", "", "", "",
		       "clear", "told", "stored", "2M");
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		run(&kinds[i]);
	return 0;
}
