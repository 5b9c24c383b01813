/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /proc/lock_stat: who waited for which locks.
 */
#ifndef SPM_LOCKSTAT_H
#define SPM_LOCKSTAT_H

#include "spm_test.h"

#define SPM_LOCK_STAT	"/proc/lock_stat"
#define SPM_LOCK_MAX	512

/* One lock class; readers and writers of an rwsem are two. */
struct spm_lock {
	char name[48];			/* as the kernel prints it */
	unsigned long acquired;
	unsigned long contended;	/* of these, after waiting */
	double waited;			/* us, all together */
};

struct spm_lockstat {
	unsigned int n;
	struct spm_lock lock[SPM_LOCK_MAX];
};

static inline bool spm_lockstat_present(void)
{
	return !access(SPM_LOCK_STAT, R_OK | W_OK);
}

/* Forget what was counted until now. */
static inline void spm_lockstat_reset(void)
{
	int fd = open(SPM_LOCK_STAT, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		spm_die(SPM_LOCK_STAT);
	close(fd);
}

static inline struct spm_lock *spm_lockstat_find(struct spm_lockstat *s,
						 const char *name)
{
	struct spm_lock *l;

	for (l = s->lock; l < s->lock + s->n; l++)
		if (!strcmp(l->name, name))
			return l;
	if (s->n == SPM_LOCK_MAX)
		spm_die("more than %d lock classes", SPM_LOCK_MAX);
	s->n++;
	snprintf(l->name, sizeof(l->name), "%s", name);
	return l;
}

/* Add what the kernel counted since the reset. */
static inline void spm_lockstat_add(struct spm_lockstat *s)
{
	unsigned long contended, acquired;
	char line[512], *name, *end;
	struct spm_lock *l;
	double waited;
	FILE *f = fopen(SPM_LOCK_STAT, "r");

	if (!f)
		spm_die(SPM_LOCK_STAT);
	while (fgets(line, sizeof(line), f)) {
		/* name: con-bounces contentions min max total avg acq-bounces acquisitions ... */
		name = line + strspn(line, " ");
		end = strrchr(name, ':');
		if (!end || sscanf(end + 1, "%*u %lu %*f %*f %lf %*f %*u %lu",
				   &contended, &waited, &acquired) != 3)
			continue;
		*end = '\0';
		l = spm_lockstat_find(s, name);
		l->contended += contended;
		l->acquired += acquired;
		l->waited += waited;
	}
	fclose(f);
}

/* Is the lock of this module? See src/locks.h. */
static inline bool spm_lock_ours(const struct spm_lock *l)
{
	return !strncmp(l->name, "spm_", 4);
}

#endif /* SPM_LOCKSTAT_H */
