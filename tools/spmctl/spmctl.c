// SPDX-License-Identifier: GPL-2.0
/*
 * spmctl - look at superpmap from the command line
 *
 * Exit status: 0 all well, 1 "verify" found differences, 2 wrong usage or
 * something could not be done; the message then names cause and remedy.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/superpmap.h>

#ifndef SPMCTL_VERSION
#define SPMCTL_VERSION	"unknown"
#endif

#define NODE		"/dev/superpmap"
#define MODULE_DIR	"/sys/module/superpmap"
#define PARAM_DIR	MODULE_DIR "/parameters"
#define DEBUGFS		"/sys/kernel/debug"
#define VERIFY_FILE	DEBUGFS "/superpmap/verify"

enum { EXIT_OK, EXIT_DIFFERENCES, EXIT_TROUBLE };

static const struct {
	const char *name;
	size_t offset;
} counters[] = {
#define COUNTER(field, name, kind) { name, offsetof(struct spm_stats, field) },
	SPM_STATS_LIST(COUNTER)
#undef COUNTER
};

#define NR_COUNTERS	(sizeof(counters) / sizeof(counters[0]))

static const char usage_text[] =
"Usage: spmctl COMMAND [OPTION]...\n"
"Show counters, state and tunables of the superpmap module and its regions.\n"
"\n"
"Commands:\n"
"  stat [--json] [--all | --region PATH]\n"
"                 counters, one \"name: value\" a line; --all (the default)\n"
"                 sums up all regions that there are and were, --region takes\n"
"                 the persistent region that PATH stands for\n"
"  verify [--quiet]\n"
"                 compare the module's books with the page tables of every\n"
"                 mapping; exit status 1 if they differ (root only)\n"
"  dirty [--offset N] [--len N] [--clear | --since FD] [--referenced]\n"
"        [--json] PATH | --fd N\n"
"                 which pages of a region were stored to since they were last\n"
"                 cleared: ranges, then totals; --clear clears what is told,\n"
"                 in the same step\n"
"  policy [--effective] [--json] PATH | --fd N [NAME[=VALUE]]...\n"
"                 show tunables of one region, or set them; \"inherit\" follows\n"
"                 the module's\n"
"  info [--json] PATH\n"
"                 what the node PATH stands for: size, page sizes, flags\n"
"  params [NAME[=VALUE]]...\n"
"                 show tunables, or set them (root only)\n"
"\n"
"Options:\n"
"  -a, --all      all regions\n"
"  -c, --clear    what is told is clean from then on; for every user of the\n"
"                 region\n"
"  -e, --effective\n"
"                 what applies now, instead of what was set\n"
"  -f, --fd N     a descriptor that was inherited, instead of PATH\n"
"  -h, --help     this text\n"
"  -j, --json     one JSON object instead of lines\n"
"  -l, --len N    bytes to look at (default: up to the end); K, M, G are taken\n"
"  -o, --offset N\n"
"                 where to begin (default 0)\n"
"  -q, --quiet    print nothing, the exit status tells\n"
"  -r, --region PATH\n"
"                 a node of a persistent region, such as " NODE "0\n"
"  -R, --referenced\n"
"                 pages that were touched, by accessed bits, and not those that\n"
"                 were stored to\n"
"  -s, --since FD\n"
"                 what changed since this snapshot, an inherited descriptor\n"
"  -V, --version  version of this program and of the interface\n"
"\n"
"Exit status:\n"
"  0  success\n"
"  1  verify found differences\n"
"  2  wrong usage, or the module could not be asked\n"
"\n"
"Examples:\n"
"  spmctl stat | grep pde\n"
"  spmctl stat --json --region " NODE "0\n"
"  spmctl params pg_ps_enabled=0\n"
"  spmctl dirty --clear " NODE "0\n"
"  spmctl policy " NODE "0 dirty_grain=auto\n"
"\n"
"The nodes belong to root and group superpmap.  Of " NODE " each open is\n"
"a region of its own; programs see the counters of such a region through\n"
"SPM_IOC_STATS, root sees it in " DEBUGFS "/superpmap/regions.\n";

struct options {
	bool json;
	bool all;
	bool quiet;
	bool clear;
	bool effective;
	bool referenced;
	const char *region;
	const char *fd;
	const char *since;
	const char *offset;
	const char *len;
};

__attribute__((format(printf, 1, 2)))
static void complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("spmctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

static bool module_loaded(void)
{
	return access(MODULE_DIR, F_OK) == 0;
}

/* Say why @path could not be used, and what to do about it. */
static void explain(const char *path, int err)
{
	struct statfs fs;

	if (!module_loaded())
		complain("%s: the module is not loaded; load it with \"modprobe superpmap\"",
			 path);
	else if ((err == EACCES || err == EPERM) && !strncmp(path, "/dev/", 5))
		complain("%s: %s; run as root or as a member of the node's group (superpmap)",
			 path, strerror(err));
	else if (err == EACCES || err == EPERM)
		complain("%s: %s; run as root", path, strerror(err));
	else if (err == ENOENT && !strncmp(path, DEBUGFS "/", sizeof(DEBUGFS)) &&
		 (statfs(DEBUGFS, &fs) || fs.f_type != DEBUGFS_MAGIC))
		complain("%s: debugfs is not mounted; \"mount -t debugfs debugfs " DEBUGFS "\"",
			 path);
	else if (err == ENOTTY || err == EINVAL)
		complain("%s: %s; it is not a node of superpmap, or the module is older than this program",
			 path, strerror(err));
	else
		complain("%s: %s", path, strerror(err));
}

static int open_node(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		explain(path, errno);
	return fd;
}

/*
 * Any descriptor can tell the counters of all regions.  One of a persistent
 * region is better: opening @NODE makes a region with its object, and *@own is
 * then 1.
 */
static int open_any_node(const char **path, uint64_t *own)
{
	static char name[sizeof(NODE) + 16];
	int fd = -1;
	unsigned int n;

	*own = 0;
	for (n = 0; n < 64 && fd < 0; n++) {
		snprintf(name, sizeof(name), NODE "%u", n);
		if (access(name, F_OK))
			break;
		fd = open(name, O_RDONLY | O_CLOEXEC);
	}
	*path = name;
	if (fd < 0) {
		*path = NODE;
		fd = open_node(NODE);
		*own = 1;
	}
	return fd;
}

static int read_stats(const struct options *opt, struct spm_stats *st)
{
	const char *path = opt->region;
	uint64_t own = 0;
	int fd, ret;

	memset(st, 0, sizeof(*st));
	st->argsz = sizeof(*st);
	if (path)
		fd = open_node(path);
	else
		fd = open_any_node(&path, &own);
	if (fd < 0)
		return -1;
	if (!opt->region)
		st->flags = SPM_STATS_GLOBAL;
	ret = ioctl(fd, SPM_IOC_STATS, st);
	if (ret) {
		explain(path, errno);
	} else {
		st->regions -= own;
		st->objects -= own;
	}
	close(fd);
	return ret;
}

static int cmd_stat(const struct options *opt, int argc, char **argv)
{
	struct spm_stats st;
	size_t i;

	if (argc) {
		complain("stat: \"%s\" is too much; see \"spmctl --help\"", argv[0]);
		return EXIT_TROUBLE;
	}
	if (opt->all && opt->region) {
		complain("stat: --all and --region exclude each other");
		return EXIT_TROUBLE;
	}
	if (read_stats(opt, &st))
		return EXIT_TROUBLE;

	if (opt->json)
		printf("{\n");
	for (i = 0; i < NR_COUNTERS; i++) {
		uint64_t v;

		memcpy(&v, (char *)&st + counters[i].offset, sizeof(v));
		if (opt->json)
			printf("  \"%s\": %" PRIu64 "%s\n", counters[i].name, v,
			       i + 1 < NR_COUNTERS ? "," : "");
		else
			printf("%s: %" PRIu64 "\n", counters[i].name, v);
	}
	if (opt->json)
		printf("}\n");
	return EXIT_OK;
}

static int cmd_verify(const struct options *opt, int argc, char **argv)
{
	static const char last[] = "differences: ";
	unsigned long long n = 0;
	bool seen = false;
	char line[512];
	FILE *f;

	if (argc) {
		complain("verify: \"%s\" is too much; see \"spmctl --help\"", argv[0]);
		return EXIT_TROUBLE;
	}
	f = fopen(VERIFY_FILE, "re");
	if (!f) {
		explain(VERIFY_FILE, errno);
		return EXIT_TROUBLE;
	}
	while (fgets(line, sizeof(line), f)) {
		if (!opt->quiet)
			fputs(line, stdout);
		if (!strncmp(line, last, sizeof(last) - 1)) {
			n = strtoull(line + sizeof(last) - 1, NULL, 10);
			seen = true;
		}
	}
	if (ferror(f) || !seen) {
		complain(VERIFY_FILE ": %s", ferror(f) ? strerror(errno) :
			 "ends without the number of differences");
		fclose(f);
		return EXIT_TROUBLE;
	}
	fclose(f);
	return n ? EXIT_DIFFERENCES : EXIT_OK;
}

static int cmd_info(const struct options *opt, int argc, char **argv)
{
	struct spm_info in = { .argsz = sizeof(in) };
	const char *path = argv[0];
	bool super, fixed, persistent;
	int fd, ret;
	uint32_t i;

	if (argc != 1) {
		complain("info: takes the path of one node, such as " NODE "0");
		return EXIT_TROUBLE;
	}
	fd = open_node(path);
	if (fd < 0)
		return EXIT_TROUBLE;
	ret = ioctl(fd, SPM_IOC_INFO, &in);
	if (ret)
		explain(path, errno);
	close(fd);
	if (ret)
		return EXIT_TROUBLE;

	super = in.flags & SPM_INFO_SUPERPAGES;
	persistent = in.flags & SPM_INFO_PERSISTENT;
	fixed = in.flags & SPM_INFO_SIZE_FIXED;
	if (opt->json)
		printf("{\n"
		       "  \"version\": %u,\n"
		       "  \"region\": %u,\n"
		       "  \"size\": %llu,\n"
		       "  \"superpages\": %s,\n"
		       "  \"persistent\": %s,\n"
		       "  \"size_fixed\": %s,\n"
		       "  \"pagesizes\": [",
		       in.version, in.region, (unsigned long long)in.size,
		       super ? "true" : "false", persistent ? "true" : "false",
		       fixed ? "true" : "false");
	else
		printf("interface version: %u\n"
		       "region: %u (%s)\n"
		       "size: %llu (%s)\n"
		       "superpages: %s\n"
		       "page sizes:",
		       in.version, in.region,
		       persistent ? "persistent" : "a new one at each open",
		       (unsigned long long)in.size,
		       fixed ? "fixed" : "grows with what is mapped",
		       super ? "on" : "off (pg_ps_enabled=0)");
	for (i = 0; i < in.npagesizes && i < 4; i++)
		printf("%s%llu", opt->json && !i ? "" : opt->json ? ", " : " ",
		       (unsigned long long)in.pagesizes[i]);
	printf(opt->json ? "]\n}\n" : "\n");
	return EXIT_OK;
}

/* A number with nothing behind it but, if @units, K, M or G. */
static bool parse_number(const char *text, bool units, uint64_t max, uint64_t *n)
{
	static const char unit[] = "KMG";
	unsigned int shift = 0;
	const char *u;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*n = strtoull(text, &end, 0);
	if (units && *end) {
		u = strchr(unit, *end);
		if (!u)
			return false;
		shift = 10 * (u - unit + 1);
		end++;
	}
	if (errno || *end || *n > max >> shift)
		return false;
	*n <<= shift;
	return true;
}

/* A descriptor that this program was started with, or -1. */
static int parse_fd(const char *option, const char *text)
{
	uint64_t n;

	if (!parse_number(text, false, INT32_MAX, &n) || fcntl((int)n, F_GETFD) < 0) {
		complain("%s: \"%s\" is not an open descriptor; a shell opens one with \"exec 3<>" NODE "0\"",
			 option, text);
		return -1;
	}
	return n;
}

/**
 * struct target - the region that a command is about
 * @fd:		descriptor
 * @name:	for messages
 * @opened:	@fd is to be closed
 */
struct target {
	int fd;
	const char *name;
	bool opened;
};

/* Takes PATH from the arguments, if there is no --fd.  0 or -1, explained. */
static int target_open(struct target *t, const struct options *opt, bool write,
		       const char *command, int *argc, char ***argv)
{
	static char name[32];

	t->opened = false;
	if (opt->fd) {
		t->fd = parse_fd("--fd", opt->fd);
		snprintf(name, sizeof(name), "descriptor %d", t->fd);
		t->name = name;
		return t->fd < 0 ? -1 : 0;
	}
	if (!*argc) {
		complain("%s: takes the path of one node, such as " NODE "0, or --fd N",
			 command);
		return -1;
	}
	t->name = **argv;
	++*argv;
	--*argc;
	if (!strcmp(t->name, NODE)) {
		complain("%s: %s is a new region each time it is opened; take one like " NODE "0, or --fd N with a descriptor of the region",
			 command, t->name);
		return -1;
	}
	t->fd = open(t->name, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	t->opened = true;
	if (t->fd < 0)
		explain(t->name, errno);
	return t->fd < 0 ? -1 : 0;
}

static void target_close(const struct target *t)
{
	if (t->opened)
		close(t->fd);
}

/* Ranges as they are printed: one that goes on in the next answer is not cut. */
struct ranges {
	const struct options *opt;
	bool begun;
	struct spm_page_range last;
	uint64_t n, pages;
};

static void print_last(struct ranges *r)
{
	unsigned long long start = r->last.start, end = r->last.end;

	if (start == end)
		return;
	if (r->opt->json)
		printf("%s[%llu, %llu]", r->n ? ", " : "", start, end);
	else
		printf("%#14llx %#14llx %10llu\n", start, end, (end - start) / 4096);
	r->n++;
}

static void print_head(struct ranges *r)
{
	if (r->opt->json)
		printf("{\n  \"ranges\": [");
	else
		printf("%14s %14s %10s\n", "from", "to", "pages");
	r->begun = true;
}

static void print_ranges(struct ranges *r, const struct spm_page_range *vec,
			 uint64_t count)
{
	uint64_t i;

	if (!r->begun)
		print_head(r);
	for (i = 0; i < count; i++) {
		if (vec[i].start == r->last.end && r->last.start != r->last.end) {
			r->last.end = vec[i].end;
			continue;
		}
		print_last(r);
		r->last = vec[i];
	}
}

static void print_totals(struct ranges *r, uint64_t start, uint64_t next)
{
	static const char text[] =
		"looked at: %#llx to %#llx\nranges: %llu\npages: %llu\n";
	static const char json[] =
		"],\n  \"start\": %llu,\n  \"next\": %llu,\n  \"nranges\": %llu,\n  \"pages\": %llu\n}\n";

	print_last(r);
	printf(r->opt->json ? json : text, (unsigned long long)start,
	       (unsigned long long)next, (unsigned long long)r->n,
	       (unsigned long long)r->pages);
	fflush(stdout);
}

static void explain_scan(const struct target *t, const struct options *opt, int err)
{
	if (err == EBADF && opt->clear)
		complain("dirty: %s is not open for writing, which --clear needs", t->name);
	else if (err == EINVAL && opt->since)
		complain("dirty: --since %s: that and %s are not a region and its snapshot, or two of one region",
			 opt->since, t->name);
	else
		explain(t->name, err);
}

/* One request after the other until the range is at its end; 0 or -1. */
static int scan_all(const struct target *t, struct spm_scan *s,
		    const struct options *opt)
{
	static struct spm_page_range vec[4096];
	struct ranges r = { .opt = opt };
	uint64_t end = s->start + s->len, start = s->start;
	int ret = 0, err = 0;

	s->vec = (uintptr_t)vec;
	s->vec_len = sizeof(vec) / sizeof(vec[0]);
	while (s->start < end) {
		s->len = end - s->start;
		ret = ioctl(t->fd, opt->referenced ? SPM_IOC_GET_REFERENCED :
			    SPM_IOC_GET_DIRTY, s);
		err = errno;
		if (ret)
			break;
		print_ranges(&r, vec, s->count);
		r.pages += s->pages;
		s->start = s->next;
	}
	if (!ret && !r.begun)
		print_head(&r);
	/* Also after an error: what was told so far may have been cleared. */
	if (r.begun)
		print_totals(&r, start, s->start);
	if (ret)
		explain_scan(t, opt, err);
	return ret;
}

static bool parse_bytes(const char *option, const char *text, __u64 *bytes)
{
	uint64_t n;

	if (parse_number(text, true, INT64_MAX, &n) && !(n % 4096)) {
		*bytes = n;
		return true;
	}
	complain("dirty: %s: \"%s\" is not a multiple of 4096, such as 8192, 0x2000 or 8K",
		 option, text);
	return false;
}

static int cmd_dirty(const struct options *opt, int argc, char **argv)
{
	struct spm_info in = { .argsz = sizeof(in) };
	struct spm_scan s = {
		.argsz = sizeof(s),
		.flags = SPM_SCAN_BY_OFFSET | (opt->clear ? SPM_SCAN_CLEAR : 0),
	};
	struct target t;
	int ret = -1;

	if (opt->since && (opt->clear || opt->referenced)) {
		complain("dirty: --since goes with neither --clear nor --referenced");
		return EXIT_TROUBLE;
	}
	if (opt->offset && !parse_bytes("--offset", opt->offset, &s.start))
		return EXIT_TROUBLE;
	if (opt->len && !parse_bytes("--len", opt->len, &s.len))
		return EXIT_TROUBLE;
	if (opt->since) {
		s.since = parse_fd("--since", opt->since);
		s.flags |= SPM_SCAN_SINCE;
		if (s.since < 0)
			return EXIT_TROUBLE;
	}
	if (target_open(&t, opt, opt->clear, "dirty", &argc, &argv))
		return EXIT_TROUBLE;
	if (argc)
		complain("dirty: \"%s\" is too much; see \"spmctl --help\"", argv[0]);
	else if (ioctl(t.fd, SPM_IOC_INFO, &in))
		explain(t.name, errno);
	else if (s.start > in.size)
		complain("dirty: --offset %s is beyond the region, which has %llu bytes",
			 opt->offset, (unsigned long long)in.size);
	else
		ret = 0;
	if (!ret) {
		if (!opt->len || s.len > in.size - s.start)
			s.len = in.size - s.start;
		ret = scan_all(&t, &s, opt);
	}
	target_close(&t);
	return ret ? EXIT_TROUBLE : EXIT_OK;
}

static const char * const cow_sizes[] = {
	[SPM_COW_SIZE_4K] = "4K", [SPM_COW_SIZE_2M] = "2M",
	[SPM_COW_SIZE_AUTO] = "auto", NULL
};

static const char * const grains[] = {
	[SPM_DIRTY_GRAIN_4K] = "4K", [SPM_DIRTY_GRAIN_2M] = "2M",
	[SPM_DIRTY_GRAIN_AUTO] = "auto", NULL
};

static const struct tunable {
	const char *name;
	size_t offset;
	uint32_t min, max;
	const char * const *words;	/* or NULL: a number */
} tunables[] = {
#define TUNABLE(field, min, max, words) \
	{ #field, offsetof(struct spm_policy, field), min, max, words }
	TUNABLE(pg_ps_enabled, 0, 1, NULL),
	TUNABLE(populate_threshold, 1, 512, NULL),
	TUNABLE(dirty_threshold, 0, 511, NULL),
	TUNABLE(prefault_pages, 0, 64, NULL),
	TUNABLE(cow_size, 0, 2, cow_sizes),
	TUNABLE(dirty_grain, 0, 2, grains),
#undef TUNABLE
};

#define NR_TUNABLES	(sizeof(tunables) / sizeof(tunables[0]))

static uint32_t *policy_field(struct spm_policy *p, const struct tunable *t)
{
	return (uint32_t *)((char *)p + t->offset);
}

/* The tunable whose name is the first @len bytes of @name. */
static const struct tunable *find_tunable(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < NR_TUNABLES; i++)
		if (strlen(tunables[i].name) == len &&
		    !strncmp(tunables[i].name, name, len))
			return &tunables[i];
	complain("policy: \"%.*s\" is not a tunable of a region; \"spmctl policy " NODE "0\" lists them",
		 (int)len, name);
	return NULL;
}

static bool parse_value(const struct tunable *t, const char *text, uint32_t *value)
{
	uint32_t i;
	uint64_t n;

	if (!strcmp(text, "inherit")) {
		*value = SPM_POLICY_INHERIT;
		return true;
	}
	for (i = 0; t->words && t->words[i]; i++) {
		if (!strcmp(text, t->words[i])) {
			*value = i;
			return true;
		}
	}
	if (!t->words && parse_number(text, false, t->max, &n) && n >= t->min) {
		*value = n;
		return true;
	}
	if (t->words)
		complain("policy: %s takes %s, %s, %s or inherit, and not \"%s\"", t->name,
			 t->words[0], t->words[1], t->words[2], text);
	else
		complain("policy: %s takes %u to %u or inherit, and not \"%s\"", t->name,
			 t->min, t->max, text);
	return false;
}

static void print_tunable(const struct options *opt, struct spm_policy *p,
			  const struct tunable *t, bool more)
{
	uint32_t v = *policy_field(p, t);
	const char *quote = opt->json ? "\"" : "";
	const char *word = NULL;

	if (v == SPM_POLICY_INHERIT)
		word = "inherit";
	else if (t->words && v <= t->max)
		word = t->words[v];
	printf("%s%s%s%s: ", opt->json ? "  " : "", quote, t->name, quote);
	if (word)
		printf("%s%s%s", quote, word, quote);
	else
		printf("%u", v);
	printf("%s\n", opt->json && more ? "," : "");
}

/* Show what the arguments name, or all. */
static int show_policy(const struct options *opt, const struct target *t,
		       int argc, char **argv)
{
	struct spm_policy p = {
		.argsz = sizeof(p),
		.flags = opt->effective ? SPM_POLICY_EFFECTIVE : 0,
	};
	const struct tunable *tun;
	int i, n = argc ? argc : (int)NR_TUNABLES;

	for (i = 0; i < argc; i++)
		if (!find_tunable(argv[i], strlen(argv[i])))
			return -1;
	if (ioctl(t->fd, SPM_IOC_GET_POLICY, &p)) {
		explain(t->name, errno);
		return -1;
	}
	if (opt->json)
		printf("{\n");
	for (i = 0; i < n; i++) {
		tun = argc ? find_tunable(argv[i], strlen(argv[i])) : &tunables[i];
		print_tunable(opt, &p, tun, i + 1 < n);
	}
	if (opt->json)
		printf("}\n");
	return 0;
}

/* All of them or, if one is wrong, none. */
static int set_policy(const struct target *t, int argc, char **argv)
{
	struct spm_policy p = { .argsz = sizeof(p) };
	const struct tunable *tun;
	size_t i;
	int k;

	for (i = 0; i < NR_TUNABLES; i++)
		*policy_field(&p, &tunables[i]) = SPM_POLICY_KEEP;
	for (k = 0; k < argc; k++) {
		size_t len = strcspn(argv[k], "=");

		if (!argv[k][len]) {
			complain("policy: \"%s\" has no value; either set tunables or show them",
				 argv[k]);
			return -1;
		}
		tun = find_tunable(argv[k], len);
		if (!tun || !parse_value(tun, argv[k] + len + 1, policy_field(&p, tun)))
			return -1;
	}
	if (!ioctl(t->fd, SPM_IOC_SET_POLICY, &p))
		return 0;
	if (errno == EBADF)
		complain("policy: %s is not open for writing", t->name);
	else
		explain(t->name, errno);
	return -1;
}

static int cmd_policy(const struct options *opt, int argc, char **argv)
{
	bool set = false;
	struct target t;
	int i, ret;

	for (i = opt->fd ? 0 : 1; i < argc; i++)
		set |= !!strchr(argv[i], '=');
	if (set && (opt->effective || opt->json)) {
		complain("policy: --effective and --json are for showing, and not for setting");
		return EXIT_TROUBLE;
	}
	if (target_open(&t, opt, set, "policy", &argc, &argv))
		return EXIT_TROUBLE;
	ret = set ? set_policy(&t, argc, argv) : show_policy(opt, &t, argc, argv);
	target_close(&t);
	return ret ? EXIT_TROUBLE : EXIT_OK;
}

static int show_param(const char *name)
{
	char path[sizeof(PARAM_DIR) + 256], value[4096];
	FILE *f;

	snprintf(path, sizeof(path), PARAM_DIR "/%s", name);
	f = fopen(path, "re");
	if (!f || !fgets(value, sizeof(value), f)) {
		explain(path, errno);
		if (f)
			fclose(f);
		return -1;
	}
	fclose(f);
	value[strcspn(value, "\n")] = '\0';
	printf("%s: %s\n", name, value);
	return 0;
}

static int set_param(const char *name, const char *value)
{
	char path[sizeof(PARAM_DIR) + 256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), PARAM_DIR "/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		int err = errno;
		struct stat sb;

		if (err == EACCES && !stat(path, &sb) && !(sb.st_mode & 0222))
			complain("%s: can only be given when the module is loaded", name);
		else
			explain(path, err);
		return -1;
	}
	n = write(fd, value, strlen(value));
	if (n < 0) {
		if (errno == EINVAL || errno == ERANGE)
			complain("%s: the module does not take \"%s\"; \"dmesg\" says why, \"modinfo superpmap\" which values it takes",
				 name, value);
		else
			explain(path, errno);
	}
	close(fd);
	return n < 0 ? -1 : 0;
}

static int not_hidden(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static int show_all_params(void)
{
	struct dirent **list;
	int i, n, ret = EXIT_OK;

	n = scandir(PARAM_DIR, &list, not_hidden, alphasort);
	if (n < 0) {
		explain(PARAM_DIR, errno);
		return EXIT_TROUBLE;
	}
	for (i = 0; i < n; i++) {
		if (show_param(list[i]->d_name))
			ret = EXIT_TROUBLE;
		free(list[i]);
	}
	free(list);
	return ret;
}

static int cmd_params(const struct options *opt, int argc, char **argv)
{
	int i, ret = EXIT_OK;

	(void)opt;
	if (!argc)
		return show_all_params();
	for (i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value)
			*value++ = '\0';
		if (!argv[i][0] || strchr(argv[i], '/')) {
			complain("params: \"%s\" is not the name of a tunable", argv[i]);
			ret = EXIT_TROUBLE;
		} else if (value ? set_param(argv[i], value) : show_param(argv[i])) {
			ret = EXIT_TROUBLE;
		}
	}
	return ret;
}

static const struct command {
	const char *name;
	const char *options;	/* the short options that it takes */
	int (*run)(const struct options *opt, int argc, char **argv);
} commands[] = {
	{ "stat",	"jar",	cmd_stat },
	{ "verify",	"q",	cmd_verify },
	{ "dirty",	"cfjlosR",	cmd_dirty },
	{ "policy",	"efj",	cmd_policy },
	{ "info",	"j",	cmd_info },
	{ "params",	"",	cmd_params },
};

static const struct option long_options[] = {
	{ "all",	no_argument,		NULL, 'a' },
	{ "clear",	no_argument,		NULL, 'c' },
	{ "effective",	no_argument,		NULL, 'e' },
	{ "fd",		required_argument,	NULL, 'f' },
	{ "help",	no_argument,		NULL, 'h' },
	{ "json",	no_argument,		NULL, 'j' },
	{ "len",	required_argument,	NULL, 'l' },
	{ "offset",	required_argument,	NULL, 'o' },
	{ "quiet",	no_argument,		NULL, 'q' },
	{ "referenced",	no_argument,		NULL, 'R' },
	{ "region",	required_argument,	NULL, 'r' },
	{ "since",	required_argument,	NULL, 's' },
	{ "version",	no_argument,		NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

static const struct command *find_command(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	char used[16] = "";
	struct options opt = { 0 };
	const struct command *cmd;
	const char *p;
	int c;

	while ((c = getopt_long(argc, argv, "acef:hjl:o:qRr:s:V", long_options, NULL)) != -1) {
		if (strlen(used) + 1 < sizeof(used) && c != '?' && !strchr(used, c))
			used[strlen(used)] = c;
		switch (c) {
		case 'a':
			opt.all = true;
			break;
		case 'c':
			opt.clear = true;
			break;
		case 'e':
			opt.effective = true;
			break;
		case 'f':
			opt.fd = optarg;
			break;
		case 'j':
			opt.json = true;
			break;
		case 'l':
			opt.len = optarg;
			break;
		case 'o':
			opt.offset = optarg;
			break;
		case 'q':
			opt.quiet = true;
			break;
		case 'R':
			opt.referenced = true;
			break;
		case 's':
			opt.since = optarg;
			break;
		case 'r':
			opt.region = optarg;
			break;
		case 'h':
			fputs(usage_text, stdout);
			return EXIT_OK;
		case 'V':
			printf("spmctl %s (interface version %d)\n", SPMCTL_VERSION,
			       SPM_API_VERSION);
			return EXIT_OK;
		default:
			fputs("Try \"spmctl --help\".\n", stderr);
			return EXIT_TROUBLE;
		}
	}
	if (optind == argc) {
		fputs(usage_text, stderr);
		return EXIT_TROUBLE;
	}
	cmd = find_command(argv[optind]);
	if (!cmd) {
		complain("\"%s\" is not a command; see \"spmctl --help\"", argv[optind]);
		return EXIT_TROUBLE;
	}
	for (p = used; *p; p++) {
		if (!strchr(cmd->options, *p)) {
			complain("%s: takes no option -%c; see \"spmctl --help\"",
				 cmd->name, *p);
			return EXIT_TROUBLE;
		}
	}
	return cmd->run(&opt, argc - optind - 1, argv + optind + 1);
}
