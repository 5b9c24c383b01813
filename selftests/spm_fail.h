/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fault injection: make the kernel's N-th fallible step fail in this thread,
 * or all allocations of a size.  Needs a kernel with FAULT_INJECTION_DEBUG_FS.
 */
#ifndef SPM_FAIL_H
#define SPM_FAIL_H

#include "spm_test.h"

#define SPM_FAIL_SLAB	"/sys/kernel/debug/failslab/"
#define SPM_FAIL_PAGE	"/sys/kernel/debug/fail_page_alloc/"
#define SPM_FAIL_COPY	"/sys/kernel/debug/fail_usercopy/"

static inline bool spm_fail_available(void)
{
	return !access("/proc/self/fail-nth", F_OK) &&
	       !access(SPM_FAIL_SLAB, F_OK) && !access(SPM_FAIL_PAGE, F_OK);
}

static inline void spm_fail_write(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		spm_die("cannot write %s to %s", value, path);
	close(fd);
}

/* All allocations may fail, also those that may sleep; quietly. */
static inline void spm_fail_setup(void)
{
	spm_fail_write(SPM_FAIL_SLAB "verbose", "0");
	spm_fail_write(SPM_FAIL_SLAB "ignore-gfp-wait", "N");
	spm_fail_write(SPM_FAIL_PAGE "verbose", "0");
	spm_fail_write(SPM_FAIL_PAGE "ignore-gfp-wait", "N");
	spm_fail_write(SPM_FAIL_PAGE "ignore-gfp-highmem", "N");
	spm_fail_write(SPM_FAIL_PAGE "min-order", "0");
	if (!access(SPM_FAIL_COPY "verbose", F_OK))
		spm_fail_write(SPM_FAIL_COPY "verbose", "0");
}

/*
 * Only steps with the module among their callers count, if @on; false if this
 * kernel cannot tell.
 */
static inline bool spm_fail_module_only(bool on)
{
	static const char * const dirs[] = {
		SPM_FAIL_SLAB, SPM_FAIL_PAGE, SPM_FAIL_COPY,
	};
	unsigned long start = 0, end = ~0UL, size;
	char line[256], path[128], value[32];
	unsigned int i;
	FILE *f;

	if (access(SPM_FAIL_SLAB "require-start", F_OK))
		return false;
	f = fopen("/proc/modules", "r");
	while (on && f && fgets(line, sizeof(line), f))
		if (sscanf(line, "superpmap %lu %*s %*s %*s %lx", &size,
			   &start) == 2)
			end = start + size;
	if (!f || (on && !start))
		spm_die("/proc/modules");
	fclose(f);
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%srequire-start", dirs[i]);
		if (access(path, F_OK))
			continue;
		snprintf(value, sizeof(value), "%#lx", start);
		spm_fail_write(path, value);
		snprintf(path, sizeof(path), "%srequire-end", dirs[i]);
		snprintf(value, sizeof(value), "%#lx", end);
		spm_fail_write(path, value);
	}
	return true;
}

/* A descriptor for the calling thread. */
static inline int spm_fail_open(void)
{
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		spm_die("/proc/thread-self/fail-nth");
	return fd;
}

/* The @n-th step from now on fails; 0: none. */
static inline void spm_fail_nth(int fd, unsigned int n)
{
	char buf[16];
	int len = snprintf(buf, sizeof(buf), "%u", n);

	/* Writing is itself a step: it takes the failure that was left. */
	if (pwrite(fd, buf, len, 0) != len && pwrite(fd, buf, len, 0) != len)
		spm_die("fail-nth");
}

/*
 * Steps that were left until the failure; 0 if it has happened, in what this
 * thread did since spm_fail_nth().  Ends the injection.
 */
static inline unsigned int spm_fail_left(int fd)
{
	char buf[16] = "";
	unsigned int left;

	/* Reading is itself a step that can fail: then it had not happened. */
	if (pread(fd, buf, sizeof(buf) - 1, 0) < 0)
		left = 1;
	else
		left = atoi(buf);
	spm_fail_nth(fd, 0);
	return left;
}

/*
 * All allocations of 2 MB and more fail for processes which say so (and their
 * children): spm_fail_huge_for_me().
 */
static inline void spm_fail_huge_setup(void)
{
	spm_fail_setup();
	spm_fail_write(SPM_FAIL_PAGE "min-order", "9");
	spm_fail_write(SPM_FAIL_PAGE "probability", "100");
	spm_fail_write(SPM_FAIL_PAGE "interval", "1");
	spm_fail_write(SPM_FAIL_PAGE "times", "-1");
	spm_fail_write(SPM_FAIL_PAGE "task-filter", "Y");
}

static inline void spm_fail_huge_for_me(bool on)
{
	spm_fail_write("/proc/self/make-it-fail", on ? "1" : "0");
}

static inline void spm_fail_huge_off(void)
{
	spm_fail_huge_for_me(false);
	spm_fail_write(SPM_FAIL_PAGE "probability", "0");
	spm_fail_write(SPM_FAIL_PAGE "task-filter", "N");
}

#endif /* SPM_FAIL_H */
