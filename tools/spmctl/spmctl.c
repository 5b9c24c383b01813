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

#include "spmctl.h"

#ifndef SPMCTL_VERSION
#define SPMCTL_VERSION	"unknown"
#endif

#define MODULE_DIR	"/sys/module/superpmap"
#define PARAM_DIR	MODULE_DIR "/parameters"
#define DEBUGFS		"/sys/kernel/debug"
#define VERIFY_FILE	DEBUGFS "/superpmap/verify"

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
"  nodes [--json] PATH | --fd N\n"
"                 on which NUMA nodes the memory of a region lies: pages that\n"
"                 are held, of these single ones, reservations, of these full\n"
"                 and partly filled ones, and pages of them that hold nothing\n"
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

void complain(const char *fmt, ...)
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
void explain(const char *path, int err)
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
	{ "nodes",	"fj",	cmd_nodes },
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
