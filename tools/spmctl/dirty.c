// SPDX-License-Identifier: GPL-2.0
/*
 * spmctl dirty: which pages of a region were stored to, or touched.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/superpmap.h>

#include "spmctl.h"

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

int cmd_dirty(const struct options *opt, int argc, char **argv)
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
