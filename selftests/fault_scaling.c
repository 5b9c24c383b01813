// SPDX-License-Identifier: GPL-2.0
/*
 * Property: faults of different slots do not wait for each other, be it in one
 * region or in several, in one process or in several: no lock of the module is
 * ever waited for, but a slot's own.  The locks of its arrays of slots are no
 * matter of faults: they are taken a few times for each slot.
 * Guards against: a lock that all slots of a region, or all regions, share on
 * the fault path.  In FreeBSD this was the global pv lock (2015) and the page
 * queue locks (2019).
 *
 * Prints a table of faults per second and, on kernels that have
 * /proc/lock_stat, which locks were taken and waited for.  The figures are no
 * part of the verdict.  With --json, or with JSON in the environment, each row
 * is an object.  SPM_SCALING_SECONDS is the time for each row, 2 by default.
 *
 * spm-test: timeout=900 smp=4 full=kcsan
 */
#define SPM_TEST_NO_HARNESS
#include "spm_sync.h"
#include "spm_lockstat.h"

#include <getopt.h>

#define WORKERS_MAX	4
#define SLOTS		2		/* of each worker */
#define LEN		(SLOTS * SPM_SLOT)
#define LOOP_LEN	(128UL << 20)	/* as will-it-scale has it */
#define LOOP_LEN_SLOW	(8UL << 20)	/* where a fault takes a millisecond */

enum memory { ONE_REGION, OWN_REGION, ANONYMOUS };

struct pattern {
	const char *name;
	const char *what;
	bool processes;
	bool loop;		/* map, touch, unmap; else touch only */
	enum memory memory;
};

static const struct pattern patterns[] = {
	{ "touch, one region", "threads", false, false, ONE_REGION },
	{ "touch, one region", "processes", true, false, ONE_REGION },
	{ "touch, a region each", "threads", false, false, OWN_REGION },
	{ "touch, a region each", "processes", true, false, OWN_REGION },
	{ "touch, anonymous", "threads", false, false, ANONYMOUS },
	{ "touch, anonymous", "processes", true, false, ANONYMOUS },
	{ "page_fault, a region each", "threads", false, true, OWN_REGION },
	{ "page_fault, a region each", "processes", true, true, OWN_REGION },
	{ "page_fault, anonymous", "threads", false, true, ANONYMOUS },
	{ "page_fault, anonymous", "processes", true, true, ANONYMOUS },
};

/* What a worker did in one round. */
struct score {
	double begin, end;
	unsigned long faults;
};

/* In memory of all processes. */
struct world {
	struct spm_barrier barrier;
	const struct pattern *pattern;
	unsigned int workers;
	atomic_uint next, stop;
	int fd;			/* of the one region */
	char *p;
	size_t loop_len;
	double seconds;
	struct score score[WORKERS_MAX];
};

/* Of the run at hand, all rounds together. */
struct sum {
	unsigned int rounds;
	unsigned long faults;
	double seconds;
	struct spm_lockstat locks;
};

static struct world *world;
static bool json;

static long minflt(void)
{
	struct rusage ru;

	if (getrusage(RUSAGE_THREAD, &ru))
		spm_die("getrusage");
	return ru.ru_minflt;
}

/* -- a worker ---------------------------------------------------------------- */

struct worker {
	unsigned int me;
	int fd;
	char *p;		/* LEN, or where to map loop_len */
};

static char *map_anonymous(void *at, size_t len)
{
	char *p = mmap(at, len, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		       -1, 0);

	/* Pages of 4 KB, as the other side has them when it begins. */
	if (p == MAP_FAILED || madvise(p, len, MADV_NOHUGEPAGE))
		spm_die("mmap of %zu bytes", len);
	return p;
}

static void worker_init(struct worker *w)
{
	enum memory memory = world->pattern->memory;

	w->me = atomic_fetch_add(&world->next, 1);
	spm_pin(w->me);
	w->fd = memory == OWN_REGION ? spm_open() : -1;
	if (world->pattern->loop)
		w->p = spm_reserve(world->loop_len, 0);
	else if (memory == ONE_REGION)
		w->p = world->p + w->me * LEN;
	else if (memory == OWN_REGION)
		w->p = spm_map(w->fd, LEN, 0, SPM_RW);
	else
		w->p = map_anonymous(spm_reserve(LEN, 0), LEN);
}

/* will-it-scale's page_fault: the memory is new in each turn, and given back. */
static void loop_once(struct worker *w)
{
	size_t len = world->loop_len;
	char *p = w->p;

	if (world->pattern->memory == ANONYMOUS)
		map_anonymous(p, len);
	else
		spm_map_at(p, w->fd, len, 0, SPM_RW);
	spm_touch_write(p, len);
	spm_unmap(p, len);
	if (w->fd >= 0 && spm_advise_off(w->fd, 0, len, SPM_ADV_DISCARD))
		spm_die("DISCARD");
}

static void measured(struct worker *w)
{
	struct score *s = &world->score[w->me];
	long before = minflt();

	s->begin = spm_now();
	if (!world->pattern->loop)
		spm_touch_write(w->p, LEN);
	else
		do
			loop_once(w);
		while (spm_now() - s->begin < world->seconds);
	s->end = spm_now();
	s->faults = minflt() - before;
}

/* Between rounds: the same pages are new once more. */
static void forget(struct worker *w)
{
	int fd = w->fd >= 0 ? w->fd : world->fd;

	if (world->pattern->loop)
		return;
	if (world->pattern->memory == ANONYMOUS ?
	    madvise(w->p, LEN, MADV_DONTNEED) :
	    spm_advise(fd, w->p, LEN, SPM_ADV_DISCARD))
		spm_die("discard");
}

/* In step with rounds(). */
static int work(void *arg)
{
	struct worker w;

	worker_init(&w);
	for (;;) {
		spm_barrier_sleep(&world->barrier);
		if (atomic_load(&world->stop))
			break;
		spm_barrier_wait(&world->barrier);
		measured(&w);
		spm_barrier_sleep(&world->barrier);
		spm_barrier_sleep(&world->barrier);
		forget(&w);
	}
	if (world->pattern->memory != ONE_REGION)
		spm_unmap(w.p, world->pattern->loop ? world->loop_len : LEN);
	if (w.fd >= 0)
		close(w.fd);
	return 0;
}

static void *thread(void *arg)
{
	work(arg);
	return NULL;
}

/* -- a run --------------------------------------------------------------------- */

static void add_scores(struct sum *sum)
{
	double begin = world->score[0].begin, end = world->score[0].end;
	unsigned int i;

	for (i = 0; i < world->workers; i++) {
		const struct score *s = &world->score[i];

		begin = s->begin < begin ? s->begin : begin;
		end = s->end > end ? s->end : end;
		sum->faults += s->faults;
	}
	sum->seconds += end - begin;
	sum->rounds++;
}

/*
 * The locks are looked at for the measured part only, while the workers wait for
 * this process before it and after it.
 */
static void rounds(struct sum *sum)
{
	bool profile = spm_lockstat_present();

	while (sum->seconds < world->seconds) {
		spm_barrier_sleep(&world->barrier);
		if (profile)
			spm_lockstat_reset();
		spm_barrier_sleep(&world->barrier);
		spm_barrier_sleep(&world->barrier);
		if (profile)
			spm_lockstat_add(&sum->locks);
		add_scores(sum);
		spm_barrier_sleep(&world->barrier);
	}
	atomic_store(&world->stop, 1);
	spm_barrier_sleep(&world->barrier);
}

static void run(const struct pattern *p, unsigned int workers, struct sum *sum)
{
	pthread_t t[WORKERS_MAX];
	pid_t pid[WORKERS_MAX];
	unsigned int i;

	world->pattern = p;
	world->workers = workers;
	world->barrier = (struct spm_barrier){ .parties = workers + 1 };
	atomic_store(&world->next, 0);
	atomic_store(&world->stop, 0);
	world->fd = -1;
	if (p->memory == ONE_REGION) {
		world->fd = spm_open();
		world->p = spm_map(world->fd, workers * LEN, 0, SPM_RW);
	}
	for (i = 0; i < workers; i++) {
		if (p->processes)
			pid[i] = spm_fork(work, NULL);
		else
			spm_thread(&t[i], thread, NULL);
	}
	rounds(sum);
	for (i = 0; i < workers; i++) {
		if (!p->processes)
			pthread_join(t[i], NULL);
		else if (spm_wait(pid[i]))
			spm_die("worker %u failed", i);
	}
	if (p->memory == ONE_REGION) {
		spm_unmap(world->p, workers * LEN);
		close(world->fd);
	}
}

/* -- what it says --------------------------------------------------------------- */

/*
 * Locks of the core on the way of a fault, by the beginnings of their names: the
 * queues of list_lru, i_mmap_rwsem of the reverse map, page tables, address
 * spaces, free pages and memory cgroups.
 */
static const char *const core_locks[] = {
	"&l->lock", "&mapping->i_mmap_rwsem", "ptlock_ptr", "&mm->page_table_lock",
	"&mm->mmap_lock", "vm_lock", "&zone->lock", "&pcp->lock",
};

static bool of_interest(const struct spm_lock *l)
{
	unsigned int i;

	if (spm_lock_ours(l))
		return l->acquired;
	for (i = 0; i < sizeof(core_locks) / sizeof(core_locks[0]); i++)
		if (!strncmp(l->name, core_locks[i], strlen(core_locks[i])))
			return l->acquired;
	return l->contended;
}

static int by_owner_and_name(const void *a, const void *b)
{
	const struct spm_lock *x = a, *y = b;

	if (spm_lock_ours(x) != spm_lock_ours(y))
		return spm_lock_ours(y) - spm_lock_ours(x);
	return strcmp(x->name, y->name);
}

static void print_locks(const struct pattern *p, unsigned int workers,
			struct sum *sum)
{
	struct spm_lock *l, *end = sum->locks.lock + sum->locks.n;

	if (!sum->locks.n)
		return;
	qsort(sum->locks.lock, sum->locks.n, sizeof(*l), by_owner_and_name);
	if (!json)
		printf("\nlocks of: %s, %u %s, %lu faults\n%-40s %12s %10s %12s\n",
		       p->name, workers, p->what, sum->faults, "class",
		       "acquired", "contended", "waited (us)");
	for (l = sum->locks.lock; l < end; l++) {
		if (!of_interest(l))
			continue;
		if (json)
			printf("{\"pattern\": \"%s\", \"workers\": \"%s\", \"n\": %u, \"lock\": \"%s\", \"acquired\": %lu, \"contended\": %lu, \"waited_us\": %.0f}\n",
			       p->name, p->what, workers, l->name, l->acquired,
			       l->contended, l->waited);
		else
			printf("%-40s %12lu %10lu %12.0f\n", l->name,
			       l->acquired, l->contended, l->waited);
	}
}

static void print_row(const struct pattern *p, unsigned int workers,
		      const struct sum *sum, double alone)
{
	double rate = sum->faults / sum->seconds;

	if (json)
		printf("{\"pattern\": \"%s\", \"workers\": \"%s\", \"n\": %u, \"faults\": %lu, \"seconds\": %.3f, \"faults_per_second\": %.0f, \"ratio\": %.2f}\n",
		       p->name, p->what, workers, sum->faults, sum->seconds,
		       rate, rate / alone);
	else
		printf("%-26s %d %-10s %9lu %9.2f %9.0f %6.2f\n", p->name, workers,
		       p->what, sum->faults, sum->seconds, rate, rate / alone);
	fflush(stdout);
}

/*
 * The spinlocks of the arrays that all slots of a family, an object or a mapping
 * are in.  Taken when a slot is new, and by the mapping's when the size of what
 * is mapped there changes: four times for a new slot that gets promoted, twice
 * when it goes.  So they may be waited for once in a while, but never be taken
 * for each fault.
 */
static bool of_an_array(const struct spm_lock *l)
{
	size_t len = strlen(l->name);

	return len > 3 && !strcmp(l->name + len - 3, "_xa");
}

#define ARRAY_LOCKS	8UL	/* for each slot, at most */

/* How many locks of ours are not as they should be, a slot's own left out. */
static int wrong_locks(const struct pattern *p, const struct sum *sum)
{
	unsigned long slots = sum->faults / SPM_SLOT_PAGES;
	const struct spm_lockstat *s = &sum->locks;
	const struct spm_lock *l;
	int bad = 0;

	for (l = s->lock; l < s->lock + s->n; l++) {
		if (!spm_lock_ours(l) || !strcmp(l->name, "spm_slot_lock") ||
		    (of_an_array(l) ? l->acquired <= ARRAY_LOCKS * slots :
				      !l->contended))
			continue;
		printf("# %s, %u %s: %s was taken %lu times and waited for %lu times, with %lu slots\n",
		       p->name, world->workers, p->what, l->name, l->acquired,
		       l->contended, slots);
		bad++;
	}
	return bad;
}

/* A profile without the module's locks would look just as good. */
static int locks_are_seen(const struct spm_lockstat *s)
{
	const struct spm_lock *l;

	for (l = s->lock; l < s->lock + s->n; l++)
		if (!strcmp(l->name, "spm_slot_lock") && l->acquired)
			return 1;
	printf("# the profile does not have spm_slot_lock\n");
	return 0;
}

static int run_pattern(const struct pattern *p, struct sum *most)
{
	static struct sum sum;
	double alone = 0;
	unsigned int n;
	int bad = 0;

	for (n = 1; n <= WORKERS_MAX; n *= 2) {
		memset(&sum, 0, sizeof(sum));
		run(p, n, &sum);
		if (n == 1)
			alone = sum.faults / sum.seconds;
		print_row(p, n, &sum, alone);
		bad += wrong_locks(p, &sum);
	}
	if (p->memory != ANONYMOUS && spm_lockstat_present())
		bad += !locks_are_seen(&sum.locks);
	*most = sum;
	return bad;
}

/*
 * The race detector delays whom it watches, with all the locks that he holds.  The
 * harness switches it on again for the next test.
 */
static void no_race_detector(void)
{
	int fd = open("/sys/kernel/debug/kcsan", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "off", 3) != 3)
		spm_die("/sys/kernel/debug/kcsan");
	close(fd);
}

static int measure(void)
{
	static struct sum most[sizeof(patterns) / sizeof(patterns[0])];
	unsigned int i;
	int bad = 0;

	if (!json)
		printf("%-26s %-12s %9s %9s %9s %6s\n", "new pages of 4 KB",
		       "workers", "faults", "seconds", "faults/s", "ratio");
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		bad += run_pattern(&patterns[i], &most[i]);
	for (i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		print_locks(&patterns[i], WORKERS_MAX, &most[i]);
	if (!spm_lockstat_present())
		printf("# SKIP of the lock profile: no " SPM_LOCK_STAT "\n");
	return bad;
}

static const char usage_text[] =
"Usage: fault_scaling [--json]\n"
"Faults per second of 1, 2 and 4 threads or processes, and the locks they took.\n"
"\n"
"  -h, --help  this text\n"
"  -j, --json  one JSON object a line\n"
"\n"
"Exit status: 0 done, 1 a lock of the module is in the way, 2 wrong usage, 4 no\n"
"module.\n";

static void set_up(void)
{
	const char *seconds = getenv("SPM_SCALING_SECONDS");
	size_t fits = spm_available() / (2 * WORKERS_MAX) * 1024;
	size_t len = spm_slow_kernel() ? LOOP_LEN_SLOW : LOOP_LEN;

	world = spm_shared(sizeof(*world));
	world->seconds = seconds ? atof(seconds) : 2;
	world->loop_len = (fits < len ? fits : len) & -SPM_SLOT;
	if (!world->loop_len)
		spm_die("too little memory");
	no_race_detector();
	if (!json)
		printf("page_fault maps %zu MB; %ld processors\n",
		       world->loop_len >> 20, sysconf(_SC_NPROCESSORS_ONLN));
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help",	no_argument,	NULL, 'h' },
		{ "json",	no_argument,	NULL, 'j' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	json = getenv("JSON");
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
	if (!spm_present()) {
		printf("SKIP: no " SPM_NODE ", the module is not loaded\n");
		return 4;
	}
	set_up();
	return measure() ? 1 : 0;
}
