// SPDX-License-Identifier: GPL-2.0
/*
 * Property: an image of memory costs the pages that are written afterwards, not
 * its superpages; and the superpages come back when the image is gone.
 * Guards against: copies of 2 MB for one byte, images that lose their 2 MB
 * entries because the owner writes, and memory that stays in 4 KB pages for ever
 * once it has been copied.
 *
 * The same experiment with four kinds of memory: fill it, take an image of it
 * (SPM_IOC_SNAPSHOT, or fork and let the child hold it), store one byte in each
 * 2 MB, let the image go, and so on.  Everything that is printed was read from
 * the kernel: a page was copied if /proc/PID/pagemap gives another physical page
 * for it than before.
 *
 * spm-test: timeout=300
 */
#define SPM_TEST_NO_HARNESS
#include "spm_test.h"

#include <getopt.h>
#include <stdarg.h>
#include <sys/prctl.h>

#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"
#define POOL		"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define PFN_MASK	((1ULL << 55) - 1)
#define PRESENT		(1ULL << 63)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

enum kind { SNAPSHOT, PRIVATE, THP, HUGETLB, KINDS };

enum step {
	TAKEN,		/* the image is there, somebody else has read it all */
	ONE_BYTE,	/* the owner stored one byte in each 2 MB */
	ALONE,		/* the image is gone; one byte in each 2 MB */
	RESTORED,	/* what the kernel offers to get superpages back */
	ALL,		/* a second image; the owner stored into each page */
	UNUSED,		/* a third image, gone at once; one byte in each 2 MB */
	STEPS
};

static const char * const step_name[STEPS] = {
	"image taken, and read by its holder",
	"one byte stored in each 2 MB",
	"image gone, one byte in each 2 MB",
	"madvise(MADV_COLLAPSE)",
	"second image, every page stored",
	"third image gone unused, one byte",
};

struct row {
	bool done;
	long faults;		/* of the owner; TAKEN: of the image's holder */
	long copied_kb;		/* on both sides */
	long owner_kb, image_kb;/* mapped by superpages; image_kb -1: none */
	struct spm_stats stats;	/* how far the module's counters went */
};

static struct result {
	const char *name, *field;
	char missing[160];	/* why there is nothing to show */
	struct row row[STEPS];
	long pool_used;		/* pages of 2 MB that images took from the pool */
} results[KINDS] = {
	[SNAPSHOT]	= { "superpmap, SPM_IOC_SNAPSHOT", "FilePmdMapped" },
	[PRIVATE]	= { "superpmap, MAP_PRIVATE and fork", "FilePmdMapped" },
	[THP]		= { "anonymous, MADV_HUGEPAGE and fork", "AnonHugePages" },
	[HUGETLB]	= { "hugetlb, MAP_PRIVATE and fork", "Private_Hugetlb" },
};

struct image {
	pid_t pid;
	long faults;		/* that reading all of it took */
	char *addr;
	int fd;
	unsigned int gen;	/* what the owner had written when it was taken */
};

static size_t len = 64UL << 20;
static char failures[32][200];
static unsigned int nfailures;
static uint64_t *frames[2], *before[2];
static unsigned char *copy_of_slot;

static const char usage_text[] =
"Usage: demo_cow [--json] [--megabytes N]\n"
"Takes images of N MB (default 64) of four kinds of memory, and prints what\n"
"the stores that follow copy, and what stays mapped by superpages.\n"
"\n"
"  -h, --help         this text\n"
"  -j, --json         the table as JSON\n"
"  -m, --megabytes N  size, 2 to 1024, even\n"
"\n"
"Needs root: to see physical pages, and to fill the pool of hugetlb, which is\n"
"set back at the end.\n"
"Exit status: 0 all expectations met, 1 not (each is named), 2 wrong usage,\n"
"4 nothing to show: no module.\n";

__attribute__((format(printf, 1, 2)))
static void fail(const char *fmt, ...)
{
	va_list ap;

	if (nfailures == sizeof(failures) / sizeof(failures[0]))
		return;
	va_start(ap, fmt);
	vsnprintf(failures[nfailures++], sizeof(failures[0]), fmt, ap);
	va_end(ap);
}

/* -- what the kernel says ------------------------------------------------ */

/* kB of @field in the mappings of @pid that begin in [addr, addr + len). */
static long smaps_kb(pid_t pid, const char *addr, const char *field)
{
	unsigned long s, e, start = 0, want = (unsigned long)addr;
	size_t n = strlen(field);
	char path[64], line[512];
	long kb, sum = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	f = fopen(path, "r");
	if (!f)
		spm_die("%s", path);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &s, &e) == 2)
			start = s;
		else if (start >= want && start < want + len &&
			 !strncmp(line, field, n) && line[n] == ':' &&
			 sscanf(line + n + 1, "%ld", &kb) == 1)
			sum += kb;
	}
	fclose(f);
	return sum;
}

static long superpages_kb(enum kind kind, pid_t pid, const char *addr)
{
	long kb = smaps_kb(pid, addr, results[kind].field);

	/* A page of hugetlb is in one of two fields, by its users. */
	if (kind == HUGETLB)
		kb += smaps_kb(pid, addr, "Shared_Hugetlb");
	return kb;
}

/* The physical pages behind [addr, addr + len) of @pid. */
static void read_frames(pid_t pid, const char *addr, uint64_t *frame)
{
	size_t n = len / SPM_PAGE, i;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, frame, n * 8, (uintptr_t)addr / SPM_PAGE * 8) !=
	    (ssize_t)(n * 8))
		spm_die("%s", path);
	close(fd);
	for (i = 0; i < n; i++) {
		if (!(frame[i] & PRESENT))
			spm_die("page %zu of process %d is not mapped", i, pid);
		frame[i] &= PFN_MASK;
		if (!frame[i])
			spm_die("%s hides physical pages: root is needed", path);
	}
}

static long differ_kb(const uint64_t *a, const uint64_t *b)
{
	size_t i;
	long n = 0;

	for (i = 0; i < len / SPM_PAGE; i++)
		n += a[i] != b[i];
	return n * (SPM_PAGE / 1024);
}

static bool write_number(const char *path, long n)
{
	char text[32];
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good;

	snprintf(text, sizeof(text), "%ld", n);
	good = fd >= 0 && write(fd, text, strlen(text)) > 0;
	close(fd);
	return good;
}

static long read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = -1;
		fclose(f);
	}
	return n;
}

/* -- the memory ---------------------------------------------------------- */

/* Each slot has one page that was last written in each generation. */
static size_t marked(unsigned int gen)
{
	return (gen * 37 + 11) % SPM_SLOT_PAGES;
}

static void store_one_byte(char *p, unsigned int gen)
{
	size_t slot;

	for (slot = 0; slot < len; slot += SPM_SLOT)
		*(volatile char *)(p + slot + marked(gen) * SPM_PAGE) = gen;
}

static void store_every_page(char *p, unsigned int gen)
{
	size_t i;

	for (i = 0; i < len; i += SPM_PAGE)
		*(volatile char *)(p + i) = gen;
}

/* What byte 0 of page i of a slot is when generation @gen has been written. */
static unsigned char expected(size_t i, unsigned int gen, unsigned int all)
{
	unsigned char v = all <= gen ? all : 0;
	unsigned int g;

	for (g = v + 1; g <= gen; g++)
		if (marked(g) == i && g != all)
			v = g;
	return v;
}

/*
 * Is all as it was in generation @gen?  process_vm_readv() would not do: it pins
 * what it reads, and of anonymous memory the kernel makes a copy for that.
 */
static void check_content(enum kind kind, const char *who, pid_t pid,
			  char *addr, unsigned int gen, unsigned int all)
{
	unsigned char *page;
	char path[64];
	size_t at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		spm_die("%s", path);
	for (at = 0; at < len; at += SPM_PAGE) {
		page = copy_of_slot + at % SPM_SLOT;
		if (page == copy_of_slot &&
		    pread(fd, copy_of_slot, SPM_SLOT, (uintptr_t)addr + at) !=
		    (ssize_t)SPM_SLOT)
			spm_die("%s at %p", path, addr + at);
		if (page[0] == expected(at % SPM_SLOT / SPM_PAGE, gen, all) &&
		    page[SPM_PAGE - 1] == 0xa5)
			continue;
		fail("%s: the %s holds wrong data at %zu kB",
		     results[kind].name, who, at / 1024);
		break;
	}
	close(fd);
}

static char *map_memory(enum kind kind, int fd)
{
	int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
	struct result *res = &results[kind];
	char *p = spm_reserve(len, 0), *q;

	if (kind == SNAPSHOT)
		flags = MAP_FIXED | MAP_SHARED;
	if (kind == PRIVATE)
		flags = MAP_FIXED | MAP_PRIVATE;
	if (kind == HUGETLB)
		flags |= MAP_HUGETLB | 21 << 26;	/* of 2 MB */
	q = mmap(p, len, SPM_RW, flags, fd, 0);
	if (q == MAP_FAILED) {
		snprintf(res->missing, sizeof(res->missing), "mmap: %s",
			 strerror(errno));
		return NULL;
	}
	if (kind == THP && madvise(p, len, MADV_HUGEPAGE)) {
		snprintf(res->missing, sizeof(res->missing),
			 "madvise(MADV_HUGEPAGE): %s", strerror(errno));
		munmap(p, len);
		return NULL;
	}
	return p;
}

static void fill(char *p)
{
	size_t i;

	for (i = 0; i < len; i += SPM_PAGE) {
		*(volatile char *)(p + i + SPM_PAGE - 1) = 0xa5;
		*(volatile char *)(p + i) = 0;
	}
}

/* -- images -------------------------------------------------------------- */

/* Holds the image until the parent has seen enough. */
static pid_t hold_image(const char *addr, long *faults)
{
	int ready[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC))
		spm_die("pipe2");
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		spm_die("fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* What is its own of the stack. */
		spm_minflt();
		*faults = spm_touch_faults((char *)addr, len, false);
		if (write(ready[1], faults, sizeof(*faults)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], faults, sizeof(*faults)) != sizeof(*faults))
		spm_die("the process that holds the image died");
	close(ready[0]);
	return pid;
}

/* False, with the reason noted, when the module cannot do it. */
static bool image_take(enum kind kind, int fd, char *p, unsigned int gen,
		       struct image *im)
{
	struct spm_snapshot s = { .argsz = sizeof(s) };

	im->gen = gen;
	im->addr = p;
	im->fd = -1;
	if (kind == SNAPSHOT) {
		im->fd = ioctl(fd, SPM_IOC_SNAPSHOT, &s);
		if (im->fd < 0) {
			snprintf(results[kind].missing,
				 sizeof(results[kind].missing),
				 "SPM_IOC_SNAPSHOT: %s", strerror(errno));
			return false;
		}
		im->addr = spm_map(im->fd, len, 0, PROT_READ);
	}
	im->pid = hold_image(im->addr, &im->faults);
	return true;
}

static void image_drop(struct image *im, const char *p)
{
	kill(im->pid, SIGKILL);
	while (waitpid(im->pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (im->addr != p)
		spm_unmap(im->addr, len);
	if (im->fd >= 0)
		close(im->fd);
	im->pid = 0;
}

/* -- one kind ------------------------------------------------------------ */

struct experiment {
	enum kind kind;
	int fd;			/* of the region; for counters, any region */
	char *p;
	struct image im;
	unsigned int gen;	/* last generation that was written */
	unsigned int all;	/* the one that wrote every page */
	long faults;
	struct spm_stats stats;
};

static void begin(struct experiment *x)
{
	spm_stats_global(x->fd, &x->stats);
	x->faults = spm_minflt();
}

static void subtract(struct spm_stats *a, const struct spm_stats *b)
{
#define SUBTRACT(field, name, kind) a->field -= b->field;
	SPM_STATS_LIST(SUBTRACT)
#undef SUBTRACT
}

static void end(struct experiment *x, enum step step)
{
	struct row *r = &results[x->kind].row[step];
	pid_t self = getpid();

	r->faults = step == TAKEN ? x->im.faults : spm_minflt() - x->faults;
	r->owner_kb = superpages_kb(x->kind, self, x->p);
	r->image_kb = x->im.pid ?
		superpages_kb(x->kind, x->im.pid, x->im.addr) : -1;
	spm_stats_global(x->fd, &r->stats);
	subtract(&r->stats, &x->stats);

	/* From here on pages may be mapped that were not. */
	check_content(x->kind, "owner", self, x->p, x->gen, x->all);
	spm_touch_read(x->p, len);
	read_frames(self, x->p, frames[0]);
	r->copied_kb = differ_kb(frames[0], before[0]);
	memcpy(before[0], frames[0], len / SPM_PAGE * 8);
	if (x->im.pid) {
		check_content(x->kind, "image", x->im.pid, x->im.addr,
			      x->im.gen, x->all);
		read_frames(x->im.pid, x->im.addr, frames[1]);
		r->copied_kb += differ_kb(frames[1], before[1]);
		memcpy(before[1], frames[1], len / SPM_PAGE * 8);
	}
	r->done = true;
}

/* A new image; its pages are those of the owner, as long as nothing is copied. */
static bool take(struct experiment *x)
{
	memcpy(before[1], before[0], len / SPM_PAGE * 8);
	return image_take(x->kind, x->fd, x->p, x->gen, &x->im);
}

static void steps(struct experiment *x)
{
	struct result *res = &results[x->kind];
	long pool = spm_meminfo("HugePages_Free");

	read_frames(getpid(), x->p, before[0]);
	begin(x);
	if (!take(x))
		return;
	end(x, TAKEN);

	begin(x);
	store_one_byte(x->p, ++x->gen);
	end(x, ONE_BYTE);
	if (x->kind == HUGETLB)
		res->pool_used = pool - spm_meminfo("HugePages_Free");

	begin(x);
	image_drop(&x->im, x->p);
	store_one_byte(x->p, ++x->gen);
	end(x, ALONE);

	if (x->kind == THP) {
		begin(x);
		if (madvise(x->p, len, MADV_COLLAPSE))
			fail("madvise(MADV_COLLAPSE): %s", strerror(errno));
		end(x, RESTORED);
	}

	if (!take(x))
		return;
	begin(x);
	x->all = ++x->gen;
	store_every_page(x->p, x->gen);
	end(x, ALL);
	image_drop(&x->im, x->p);

	if (!take(x))
		return;
	begin(x);
	image_drop(&x->im, x->p);
	store_one_byte(x->p, ++x->gen);
	end(x, UNUSED);
}

/* Is there what this kind needs?  If not, the reason is noted. */
static bool possible(enum kind kind)
{
	struct result *res = &results[kind];
	char mode[64] = "";
	long want, n;
	FILE *f;

	if (kind == THP) {
		f = fopen(THP_DIR "/enabled", "r");
		if (f) {
			if (!fgets(mode, sizeof(mode), f))
				mode[0] = 0;
			fclose(f);
		}
		if (!mode[0] || strstr(mode, "[never]"))
			snprintf(res->missing, sizeof(res->missing), "%s",
				 mode[0] ? "switched off in " THP_DIR "/enabled" :
				 "this kernel has no transparent huge pages");
	}
	if (kind == HUGETLB) {
		want = 2 * (long)(len / SPM_SLOT);
		n = read_number(POOL);
		if (n < 0)
			snprintf(res->missing, sizeof(res->missing),
				 "this kernel has no pages of 2 MB for hugetlb");
		else if (!write_number(POOL, want + n) ||
			 read_number(POOL) != want + n)
			snprintf(res->missing, sizeof(res->missing),
				 "no %ld pages of 2 MB for the pool", want);
	}
	return !res->missing[0];
}

static void run_kind(enum kind kind)
{
	long pool = read_number(POOL);
	struct experiment x = {
		.kind = kind,
		.fd = spm_open(),
		.all = ~0U,
	};

	if (possible(kind)) {
		x.p = map_memory(kind, kind < THP ? x.fd : -1);
		if (x.p) {
			fill(x.p);
			steps(&x);
			spm_unmap(x.p, len);
		}
	}
	close(x.fd);
	if (kind == HUGETLB && pool >= 0 && !write_number(POOL, pool))
		fail("the pool of hugetlb is not set back to %ld pages", pool);
}

/* -- judgement ----------------------------------------------------------- */

static void expect(enum kind kind, enum step step, const char *what,
		   long long got, long long want)
{
	if (results[kind].row[step].done && got != want)
		fail("%s, %s: %s is %lld, expected %lld", results[kind].name,
		     step_name[step], what, got, want);
}

/* A page of the program's own may be among them. */
static void expect_faults(enum kind kind, enum step step, long want)
{
	const struct row *r = &results[kind].row[step];

	if (r->done && (r->faults < want || r->faults > want + 4))
		expect(kind, step, "page faults", r->faults, want);
}

/* What the project promises; the other kinds are shown as they are. */
static void judge(enum kind kind)
{
	const struct row *row = results[kind].row;
	long long slots = len / SPM_SLOT, kb = len / 1024;

	if (results[kind].missing[0])
		return;
	expect(kind, TAKEN, "kB copied", row[TAKEN].copied_kb, 0);
	expect_faults(kind, TAKEN, slots);
	expect(kind, TAKEN, "owner's superpages", row[TAKEN].owner_kb, kb);
	expect(kind, TAKEN, "image's superpages", row[TAKEN].image_kb, kb);
	expect(kind, ONE_BYTE, "kB copied", row[ONE_BYTE].copied_kb, 4 * slots);
	expect(kind, ONE_BYTE, "pages counted as copied",
	       row[ONE_BYTE].stats.cow_copied, slots);
	expect(kind, ONE_BYTE, "demotions by copy on write",
	       row[ONE_BYTE].stats.demotions_cow, slots);
	expect_faults(kind, ONE_BYTE, slots);
	expect_faults(kind, ALL, len / SPM_PAGE);
	expect_faults(kind, UNUSED, slots);
	expect(kind, ONE_BYTE, "image's superpages", row[ONE_BYTE].image_kb, kb);
	expect(kind, ALONE, "pages counted as copied",
	       row[ALONE].stats.cow_copied, 0);
	expect(kind, ALONE, "owner's superpages", row[ALONE].owner_kb, kb);
	expect(kind, ALL, "kB copied", row[ALL].copied_kb, kb);
	expect(kind, ALL, "owner's superpages", row[ALL].owner_kb, kb);
	expect(kind, ALL, "image's superpages", row[ALL].image_kb, kb);
	expect(kind, UNUSED, "kB copied", row[UNUSED].copied_kb, 0);
	expect(kind, UNUSED, "reservations that changed hands",
	       row[UNUSED].stats.cow_optim, slots);
	expect(kind, UNUSED, "owner's superpages", row[UNUSED].owner_kb, kb);
}

/* -- output -------------------------------------------------------------- */

static void print_row(enum kind kind, enum step step)
{
	const struct row *r = &results[kind].row[step];
	char image[24] = "-";

	if (r->image_kb >= 0)
		snprintf(image, sizeof(image), "%ld", r->image_kb);
	printf("  %-35s %7ld %9ld %9ld %9s", step_name[step], r->faults,
	       r->copied_kb, r->owner_kb, image);
	if (kind < THP)
		printf(" %8llu %9llu %10llu %8llu",
		       (unsigned long long)r->stats.cow_copied +
		       r->stats.cow_merged,
		       (unsigned long long)r->stats.demotions_cow,
		       (unsigned long long)r->stats.promotions +
		       r->stats.upgrades,
		       (unsigned long long)r->stats.cow_optim);
	printf("\n");
}

static void print_table(void)
{
	unsigned int kind, step, n;

	printf("Images of %zu kB. Somebody else holds the image while the owner stores.\n\n",
	       len / 1024);
	printf("  %-35s %7s %9s %19s %38s\n", "", "page", "kB",
	       "kB in superpages", "the module counts");
	printf("  %-35s %7s %9s %9s %9s %8s %9s %10s %8s\n", "", "faults",
	       "copied", "owner", "image", "copied", "demotions", "promoted",
	       "handed");
	for (kind = 0; kind < KINDS; kind++) {
		printf("%s\n", results[kind].name);
		if (results[kind].missing[0])
			printf("  not shown: %s\n", results[kind].missing);
		for (step = 0; step < STEPS; step++)
			if (results[kind].row[step].done)
				print_row(kind, step);
		if (results[kind].pool_used)
			printf("  %ld pages of 2 MB came from the pool of hugetlb, which must have them ready.\n",
			       results[kind].pool_used);
	}
	printf("\nkB copied: pages that have another physical page than before, from pagemap. Superpages: smaps.\n"
	       "copied: pages; promoted: 4 KB entries became one of 2 MB, or one became writable; handed: reservations\n"
	       "that the last owner took over without a copy.\n");
	for (n = 0; n < nfailures; n++)
		printf("FAILED: %s\n", failures[n]);
	if (!nfailures && results[SNAPSHOT].row[UNUSED].done)
		printf("\nAs expected: one byte costs 4 kB and not 2 MB, the image keeps its superpages, and the owner has its own\n"
		       "again when it is alone or has stored everything.\n");
}

static void json_row(const struct row *r, const char *kind, const char *step,
		     const char *comma)
{
	printf("%s\n    {\"memory\": \"%s\", \"step\": \"%s\", \"faults\": %ld, \"copied_kb\": %ld, \"owner_superpages_kb\": %ld, ",
	       comma, kind, step, r->faults, r->copied_kb, r->owner_kb);
	if (r->image_kb >= 0)
		printf("\"image_superpages_kb\": %ld, ", r->image_kb);
	printf("\"cow_faults\": %llu, \"cow_copied\": %llu, \"cow_merged\": %llu, \"cow_optim\": %llu, \"demotions_cow\": %llu, \"promotions\": %llu, \"upgrades\": %llu}",
	       (unsigned long long)r->stats.cow_faults,
	       (unsigned long long)r->stats.cow_copied,
	       (unsigned long long)r->stats.cow_merged,
	       (unsigned long long)r->stats.cow_optim,
	       (unsigned long long)r->stats.demotions_cow,
	       (unsigned long long)r->stats.promotions,
	       (unsigned long long)r->stats.upgrades);
}

static void print_json(void)
{
	const char *comma = "";
	unsigned int kind, step, n;

	printf("{\n  \"bytes\": %zu,\n  \"rows\": [", len);
	for (kind = 0; kind < KINDS; kind++) {
		for (step = 0; step < STEPS; step++) {
			if (!results[kind].row[step].done)
				continue;
			json_row(&results[kind].row[step], results[kind].name,
				 step_name[step], comma);
			comma = ",";
		}
	}
	printf("\n  ],\n  \"missing\": {");
	comma = "";
	for (kind = 0; kind < KINDS; kind++) {
		if (!results[kind].missing[0])
			continue;
		printf("%s\n    \"%s\": \"%s\"", comma, results[kind].name,
		       results[kind].missing);
		comma = ",";
	}
	printf("%s},\n  \"failures\": [", *comma ? "\n  " : "");
	for (n = 0; n < nfailures; n++)
		printf("%s\n    \"%s\"", n ? "," : "", failures[n]);
	printf("%s]\n}\n", nfailures ? "\n  " : "");
}

static void parse_size(const char *arg)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (!*arg || *end || n < 2 || n > 1024 || n % 2) {
		fprintf(stderr, "demo_cow: \"%s\" is not an even number from 2 to 1024\n",
			arg);
		exit(2);
	}
	len = n << 20;
}

static void *scratch(size_t bytes)
{
	void *p = mmap(NULL, bytes, SPM_RW,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		spm_die("mmap");
	return p;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help",	no_argument,		NULL, 'h' },
		{ "json",	no_argument,		NULL, 'j' },
		{ "megabytes",	required_argument,	NULL, 'm' },
		{ NULL, 0, NULL, 0 }
	};
	bool json = false;
	unsigned int n;
	int c;

	while ((c = getopt_long(argc, argv, "hjm:", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		case 'j':
			json = true;
			break;
		case 'm':
			parse_size(optarg);
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
	for (n = 0; n < 2; n++) {
		frames[n] = scratch(len / SPM_PAGE * 8);
		before[n] = scratch(len / SPM_PAGE * 8);
	}
	copy_of_slot = scratch(SPM_SLOT);
	spm_settle();
	for (n = 0; n < KINDS; n++)
		run_kind(n);
	judge(SNAPSHOT);
	judge(PRIVATE);

	if (json)
		print_json();
	else
		print_table();
	return nfailures ? 1 : 0;
}
