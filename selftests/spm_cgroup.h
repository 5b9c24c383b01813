/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control groups, version 2.  A kernel of ours without a controller is a failure
 * and not a reason to skip.
 */
#ifndef SPM_CGROUP_H
#define SPM_CGROUP_H

#include "spm_test.h"

#define SPM_CGROUP_ROOT	"/sys/fs/cgroup/"

static inline void spm_file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		spm_die("cannot write %s to %s", text, path);
	close(fd);
}

static inline void spm_cgroup_write(const char *dir, const char *file,
				    const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	spm_file_write(path, text);
}

/* The number behind @key, or the one on the first line without one. */
static inline long long spm_cgroup_read(const char *dir, const char *file,
					const char *key)
{
	char path[256], line[256];
	long long v = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "r");
	if (!f)
		spm_die("open %s", path);
	while (fgets(line, sizeof(line), f)) {
		if (!key) {
			v = atoll(line);
			break;
		}
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ')
			v = atoll(line + strlen(key));
	}
	fclose(f);
	return v;
}

/* A new group below the root; @file is of the controller that it is made for. */
static inline void spm_cgroup_make(const char *dir, const char *file,
				   const char *value)
{
	char control[32];

	snprintf(control, sizeof(control), "+%.*s", (int)strcspn(file, "."),
		 file);
	spm_file_write(SPM_CGROUP_ROOT "cgroup.subtree_control", control);
	rmdir(dir);
	if (mkdir(dir, 0755))
		spm_die("mkdir %s", dir);
	spm_cgroup_write(dir, file, value);
}

static inline void spm_cgroup_enter(const char *dir)
{
	spm_cgroup_write(dir, "cgroup.procs", "0");
}

/* Who was in it may be on the way out. */
static inline void spm_cgroup_remove(const char *dir)
{
	int i;

	for (i = 0; i < 50 && rmdir(dir); i++)
		usleep(100000);
	if (!access(dir, F_OK))
		spm_die("rmdir %s", dir);
}

/*
 * Is it charged for @bytes now?  The kernel keeps a charge of 64 pages at hand on
 * each processor, and a little for its own; one slot is more than that.
 */
static inline bool spm_cgroup_holds(const char *dir, long long bytes)
{
	long long some = sysconf(_SC_NPROCESSORS_ONLN) * 64 * 4096 + (256 << 10);
	long long n = 0;
	int i;

	for (i = 0; i < 100; i++) {
		n = spm_cgroup_read(dir, "memory.current", NULL);
		if (n >= bytes && n < bytes + some)
			return true;
		usleep(100000);
	}
	spm_note("%s is charged for %lld bytes, and not %lld", dir, n, bytes);
	return false;
}

#endif /* SPM_CGROUP_H */
