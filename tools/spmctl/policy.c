// SPDX-License-Identifier: GPL-2.0
/*
 * spmctl policy: the tunables of one region.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/superpmap.h>

#include "spmctl.h"

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

int cmd_policy(const struct options *opt, int argc, char **argv)
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
