// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory that was filled once is mapped again with one fault for each
 * 2 MB, writable at once; without superpages it still works.
 * Guards against: superpages that come back read-only, so that the first store
 * demotes each of them and the second user pays 512 faults again.
 *
 * A process maps a persistent region of 8 MB, adds one to every byte, sums them
 * up and goes.  A second process does the same.  This is done with the module's
 * defaults, without prefault, and without superpages; the region is made
 * empty in between.  Everything that is printed was read from the kernel.
 *
 * spm-test: params="regions=8M"
 */
#define SPM_TEST_NO_HARNESS
#include "spm_test.h"

#include <getopt.h>
#include <stdarg.h>

#define SEGMENT		(8UL << 20)
#define RUNS		2

struct run {
	/* filled by the process that does the work */
	long faults;
	long long promotions, mappings, demotions, vm_faults;
	long pmdmapped_kb;
	unsigned long long sum;
};

struct mode {
	const char *param, *value;	/* NULL: nothing is set */
	bool superpages;
	char name[48];
};

static struct mode modes[] = {
	{ NULL,			NULL,	true,	"" },
	{ "prefault_pages",	"0",	true,	"" },
	{ "pg_ps_enabled",	"0",	false,	"" },
};

#define MODES	(sizeof(modes) / sizeof(modes[0]))

struct shared {
	unsigned int region;
	size_t len;
	struct run run[MODES][RUNS];
};

static struct shared *shared;
static char failures[32][160];
static unsigned int nfailures;

static const char usage_text[] =
"Usage: demo_shm [--json] [--region N]\n"
"Two processes, one after the other, add one to every byte of a region of\n"
"superpmap and sum them up; prints what that cost.\n"
"\n"
"  -h, --help      this text\n"
"  -j, --json      the table as JSON\n"
"  -r, --region N  use " SPM_NODE "N (default 0); its content is lost\n"
"\n"
"Exit status: 0 all expectations met, 1 not (each is named), 2 wrong usage,\n"
"4 nothing to show: no module.  Tunables are set back at the end.\n";

/*
 * One is added to every byte.  A page that the region does not hold reads as
 * zeros, so the sum is stored without a load: the load would be a fault of its
 * own where the processor does not ask for writing at once (QEMU emulates even
 * an atomic add as a load and a store, while it runs one processor at a time).
 */
static void add_to_every_byte(char *p, size_t len, const unsigned char *state)
{
	size_t i, end;

	for (i = 0; i < len; state++) {
		end = i + SPM_PAGE;
		if (*state & SPM_MINCORE_INCORE)
			for (; i < end; i++)
				__atomic_fetch_add(&p[i], 1, __ATOMIC_RELAXED);
		else
			for (; i < end; i++)
				*(volatile char *)&p[i] = 1;
	}
}

static unsigned long long sum_of(const char *p, size_t len)
{
	const volatile unsigned char *u = (const volatile unsigned char *)p;
	unsigned long long sum = 0;
	size_t i;

	for (i = 0; i < len; i++)
		sum += u[i];
	return sum;
}

/* A process's whole life with the segment. */
static int attach_add_detach(void *arg)
{
	static unsigned char state[SEGMENT / SPM_PAGE];
	static char warm[2 * SPM_PAGE];
	struct spm_stats before, after;
	struct run *r = arg;
	long faults;
	char *p;
	int fd;

	fd = spm_open_persistent(shared->region);
	p = spm_map(fd, shared->len, 0, SPM_RW);

	/* So that only faults of the segment are counted below. */
	state[0] = SPM_MINCORE_INCORE;
	add_to_every_byte(warm, sizeof(warm), state);
	if (spm_mincore(fd, p, shared->len, state))
		spm_die("SPM_IOC_MINCORE");
	r->sum = sum_of(warm, sizeof(warm));
	spm_stats(fd, &after);
	spm_minflt();

	spm_stats(fd, &before);
	faults = spm_minflt();
	add_to_every_byte(p, shared->len, state);
	r->sum = sum_of(p, shared->len);
	r->faults = spm_minflt() - faults;
	spm_stats(fd, &after);

	r->promotions = after.promotions - before.promotions;
	r->mappings = after.mappings - before.mappings;
	r->demotions = after.demotions - before.demotions;
	r->vm_faults = after.vm_faults - before.vm_faults;
	r->pmdmapped_kb = spm_smaps(p, "FilePmdMapped");
	spm_unmap(p, shared->len);
	close(fd);
	return 0;
}

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

static void expect(const struct mode *m, int run, const char *what,
		   long long got, long long want)
{
	if (got != want)
		fail("%s, run %d: %s is %lld, expected %lld", m->name, run + 1,
		     what, got, want);
}

static void judge(const struct mode *m, int run, const struct run *r)
{
	long long pages = shared->len / SPM_PAGE;
	long long slots = shared->len / SPM_SLOT;

	expect(m, run, "sum", r->sum, (run + 1) * (long long)shared->len);
	expect(m, run, "demotions", r->demotions, 0);
	expect(m, run, "vm_faults minus page faults",
	       r->vm_faults - r->faults, 0);
	if (m->superpages) {
		expect(m, run, "page faults", r->faults, run ? slots : pages);
		expect(m, run, "promotions", r->promotions, run ? 0 : slots);
		expect(m, run, "direct mappings", r->mappings, run ? slots : 0);
		expect(m, run, "kB mapped by 2 MB entries", r->pmdmapped_kb,
		       shared->len / 1024);
	} else {
		if (!run)
			expect(m, run, "page faults", r->faults, pages);
		expect(m, run, "promotions", r->promotions, 0);
		expect(m, run, "direct mappings", r->mappings, 0);
		expect(m, run, "kB mapped by 2 MB entries", r->pmdmapped_kb, 0);
	}
}

static void run_mode(int fd, unsigned int n)
{
	struct mode *m = &modes[n];
	char old[32] = "";
	struct run *r;
	int run, status;

	if (m->param) {
		spm_param_get(m->param, old, sizeof(old));
		if (spm_param_set(m->param, m->value))
			spm_die("cannot set %s to %s", m->param, m->value);
		snprintf(m->name, sizeof(m->name), "%s=%s", m->param, m->value);
	} else {
		spm_param_get("prefault_pages", old, sizeof(old));
		snprintf(m->name, sizeof(m->name), "defaults (prefault_pages=%s)",
			 old);
	}

	for (run = 0; run < RUNS; run++) {
		r = &shared->run[n][run];
		status = spm_fork_run(attach_add_detach, r);
		if (status)
			fail("%s, run %d: the process ended with status %d",
			     m->name, run + 1, status);
		else
			judge(m, run, r);
	}

	if (m->param && spm_param_set(m->param, old))
		spm_die("cannot set %s back to %s", m->param, old);
	if (spm_advise_off(fd, 0, shared->len, SPM_ADV_DISCARD))
		spm_die("cannot discard the content of the region");
}

static void print_table(void)
{
	unsigned int n, run;
	const struct run *r;

	printf("A segment of %lu kB: map it, add 1 to every byte, sum up, unmap; then the same in a second process.\n\n",
	       shared->len / 1024);
	printf("%-28s %3s %7s %9s %10s %8s %9s %14s %9s\n", "", "", "page",
	       "module's", "", "mapped", "", "FilePmdMapped", "");
	printf("%-28s %3s %7s %9s %10s %8s %9s %14s %9s\n", "mode", "run",
	       "faults", "vm_faults", "promotions", "directly", "demotions",
	       "kB", "sum");
	for (n = 0; n < MODES; n++) {
		for (run = 0; run < RUNS; run++) {
			r = &shared->run[n][run];
			printf("%-28s %3u %7ld %9lld %10lld %8lld %9lld %14ld %9llu\n",
			       run ? "" : modes[n].name, run + 1, r->faults,
			       r->vm_faults, r->promotions, r->mappings,
			       r->demotions, r->pmdmapped_kb, r->sum);
		}
	}
	printf("\n");
	for (n = 0; n < nfailures; n++)
		printf("FAILED: %s\n", failures[n]);
	if (!nfailures)
		printf("As expected: the first run faults for each 4 KB and fills the 2 MB slots, which are\n"
		       "promoted; the second is given each slot by one fault, writable at once.\n");
}

static void print_json(void)
{
	unsigned int n, run;
	const struct run *r;

	printf("{\n  \"bytes\": %lu,\n  \"runs\": [\n", shared->len);
	for (n = 0; n < MODES; n++) {
		for (run = 0; run < RUNS; run++) {
			r = &shared->run[n][run];
			printf("    {\"mode\": \"%s\", \"run\": %u, \"page_faults\": %ld, \"vm_faults\": %lld, \"promotions\": %lld, \"mappings\": %lld, \"demotions\": %lld, \"file_pmd_mapped_kb\": %ld, \"sum\": %llu}%s\n",
			       modes[n].name, run + 1, r->faults, r->vm_faults,
			       r->promotions, r->mappings, r->demotions,
			       r->pmdmapped_kb, r->sum,
			       n + 1 < MODES || run + 1 < RUNS ? "," : "");
		}
	}
	printf("  ],\n  \"failures\": [");
	for (n = 0; n < nfailures; n++)
		printf("%s\n    \"%s\"", n ? "," : "", failures[n]);
	printf("%s]\n}\n", nfailures ? "\n  " : "");
}

static unsigned int parse_region(const char *arg)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (!*arg || *end || n >= 64) {
		fprintf(stderr, "demo_shm: \"%s\" is not the number of a region\n",
			arg);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help",	no_argument,		NULL, 'h' },
		{ "json",	no_argument,		NULL, 'j' },
		{ "region",	required_argument,	NULL, 'r' },
		{ NULL, 0, NULL, 0 }
	};
	struct spm_info info;
	unsigned int region = 0, n;
	bool json = false;
	int c, fd;

	while ((c = getopt_long(argc, argv, "hjr:", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		case 'j':
			json = true;
			break;
		case 'r':
			region = parse_region(optarg);
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
	shared = mmap(NULL, sizeof(*shared), SPM_RW, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		spm_die("mmap");
	fd = spm_open_persistent(region);
	spm_info(fd, &info);
	shared->region = region;
	shared->len = info.size < SEGMENT ? info.size & ~(SPM_SLOT - 1) : SEGMENT;
	if (!shared->len) {
		fprintf(stderr, "demo_shm: region %u has less than 2 MB\n", region);
		return 1;
	}
	if (spm_advise_off(fd, 0, shared->len, SPM_ADV_DISCARD))
		spm_die("cannot discard the content of the region");
	for (n = 0; n < MODES; n++)
		run_mode(fd, n);
	close(fd);

	if (json)
		print_json();
	else
		print_table();
	return nfailures ? 1 : 0;
}
