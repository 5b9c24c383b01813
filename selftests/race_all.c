// SPDX-License-Identifier: GPL-2.0
/*
 * Property: whatever is done to a region at the same time, by several processes
 * with several threads each, a page reads as what was stored in it last, or as
 * zeros when it was discarded since; nobody gets a signal that is not due, and
 * afterwards the books balance.
 * Guards against: races of faults, promotion, demotion, discarding and of the
 * kernel's own changes to address spaces (mprotect, mremap, munmap, fork,
 * MADV_DONTNEED, page-table walkers) with each other.
 *
 * The race lasts 60 seconds, or as many as SPM_RACE_SECONDS says.
 *
 * spm-test: kernels=debug,7.3 timeout=300 smp=4 full=debug
 */
#include "spm_sync.h"

#define PROCESSES	3
#define SLOTS		6
#define PAGES		(SLOTS * SPM_SLOT_PAGES)
#define LEN		(SLOTS * SPM_SLOT)
#define BATCH		64

/* In memory of all processes. */
struct world {
	int fd;
	struct spm_barrier barrier;
	atomic_uint stop, failed;
	atomic_flag discarding;
	/* By page: discards begun and done, the newest generation stored. */
	atomic_uint begun[PAGES], done[PAGES], published[PAGES];
	atomic_ulong stores, loads, advice, surgery, moves, forks, walks,
		     discards, zeros;
};

static struct world *world;

/* Of this process. */
static unsigned int me;
static char *_Atomic slot_at[SLOTS];	/* where each slot is mapped */
static char *place[SLOTS][2];		/* the two places where it may be */

static bool stopped(void)
{
	return atomic_load_explicit(&world->stop, memory_order_relaxed);
}

/* Each page has one word in use; all others stay zero. */
static size_t word_of(size_t page)
{
	return page * 37 % (SPM_PAGE / 8);
}

static volatile uint64_t *page_at(size_t page)
{
	char *p = atomic_load(&slot_at[page / SPM_SLOT_PAGES]);

	return (volatile uint64_t *)(p + page % SPM_SLOT_PAGES * SPM_PAGE);
}

static uint64_t encode(size_t page, unsigned int generation)
{
	return (uint64_t)(page + 1) << 48 | (uint64_t)generation << 8 | 0xa5;
}

/* The generation; dies if it is no word of this page. */
static unsigned int decode(size_t page, uint64_t v)
{
	if (v >> 48 != page + 1 || (v & 0xff) != 0xa5)
		spm_die("page %zu holds %#llx", page, (unsigned long long)v);
	return v >> 8;
}

/* -- stores and loads; other threads take pages away meanwhile -------------- */

struct accessor {
	unsigned int seed;
	/* By page. A writer: what it stored last, and discards around that. */
	unsigned int generation[PAGES], done_before[PAGES], begun_after[PAGES];
	size_t next;			/* for the check at the end */
};

static void check_own(struct accessor *a, size_t page, unsigned int done,
		      uint64_t v, unsigned int begun)
{
	unsigned int g = a->generation[page];

	if (!v) {
		if (g && begun <= a->done_before[page])
			spm_die("page %zu lost generation %u, nothing was discarded",
				page, g);
		atomic_fetch_add_explicit(&world->zeros, 1, memory_order_relaxed);
	} else if (decode(page, v) != g) {
		spm_die("page %zu holds generation %u, not %u", page,
			decode(page, v), g);
	} else if (done > a->begun_after[page]) {
		spm_die("page %zu holds generation %u, discarded since", page, g);
	}
}

/* Every page has one writer, so that it knows what must be there. */
static void write_batch(void *arg)
{
	struct accessor *a = arg;
	unsigned int done, i, g;
	volatile uint64_t *p;
	size_t page;
	uint64_t v;

	for (i = 0; i < BATCH; i++) {
		page = rand_r(&a->seed) % (PAGES / PROCESSES) * PROCESSES + me;
		p = page_at(page) + word_of(page);
		done = atomic_load(&world->done[page]);
		v = *p;
		check_own(a, page, done, v, atomic_load(&world->begun[page]));

		g = a->generation[page] + 1;
		done = atomic_load(&world->done[page]);
		atomic_store(&world->published[page], g);
		*p = encode(page, g);
		a->generation[page] = g;
		a->done_before[page] = done;
		a->begun_after[page] = atomic_load(&world->begun[page]);
	}
	atomic_fetch_add(&world->stores, BATCH);
}

static void read_batch(void *arg)
{
	struct accessor *a = arg;
	unsigned int i, g;
	size_t page, word;
	uint64_t v;

	for (i = 0; i < BATCH; i++) {
		page = rand_r(&a->seed) % PAGES;
		v = page_at(page)[word_of(page)];
		if (v) {
			g = decode(page, v);
			if (g < a->generation[page] ||
			    g > atomic_load(&world->published[page]))
				spm_die("page %zu holds generation %u, %u was seen, %u is the newest",
					page, g, a->generation[page],
					atomic_load(&world->published[page]));
			a->generation[page] = g;
		}
		word = rand_r(&a->seed) % (SPM_PAGE / 8);
		if (word != word_of(page) && page_at(page)[word])
			spm_die("page %zu, word %zu, never stored, holds %#llx",
				page, word,
				(unsigned long long)page_at(page)[word]);
	}
	atomic_fetch_add(&world->loads, BATCH);
}

/* Pages may be protected or away for the moment; SIGBUS is never due. */
static void try_batch(void (*fn)(void *), struct accessor *a)
{
	int sig = spm_try(fn, a);

	if (sig && sig != SIGSEGV)
		spm_die("signal %d", sig);
}

static void check_rest(void *arg)
{
	struct accessor *a = arg;
	unsigned int done;
	uint64_t v;

	for (; a->next < PAGES; a->next += PROCESSES) {
		done = atomic_load(&world->done[a->next]);
		v = page_at(a->next)[word_of(a->next)];
		check_own(a, a->next, done, v,
			  atomic_load(&world->begun[a->next]));
	}
}

static struct accessor writer_state, reader_state;

static void *writer(void *arg)
{
	struct accessor *a = &writer_state;

	a->seed = me + 1;
	while (!stopped())
		try_batch(write_batch, a);
	return NULL;
}

static void *reader(void *arg)
{
	struct accessor *a = &reader_state;

	a->seed = me + 100;
	while (!stopped())
		try_batch(read_batch, a);
	return NULL;
}

/* -- changes of the address space -------------------------------------------- */

/* After surgery adjacent parts do not grow together: map the slot anew. */
static void map_slot(size_t slot, char *at)
{
	spm_map_at(at, world->fd, SPM_SLOT, slot * SPM_SLOT, SPM_RW);
	atomic_store(&slot_at[slot], at);
}

static void part_of_slot(unsigned int *seed, size_t *start, size_t *len)
{
	size_t first = rand_r(seed) % SPM_SLOT_PAGES;
	size_t n = 1 + rand_r(seed) % (rand_r(seed) % 2 ? 4 : SPM_SLOT_PAGES);

	if (first + n > SPM_SLOT_PAGES)
		n = SPM_SLOT_PAGES - first;
	*start = first * SPM_PAGE;
	*len = n * SPM_PAGE;
}

static void move_slot(size_t slot)
{
	char *from = atomic_load(&slot_at[slot]);
	char *to = place[slot][from == place[slot][0]];
	void *p = mremap(from, SPM_SLOT, SPM_SLOT, MREMAP_MAYMOVE | MREMAP_FIXED,
			 to);

	if (p == to) {
		atomic_store(&slot_at[slot], to);
		atomic_fetch_add(&world->moves, 1);
	} else {
		spm_die("mremap");
	}
}

static void *surgeon(void *arg)
{
	unsigned int seed = me + 200;
	size_t slot, start, len;
	char *at;
	int err = 0;

	while (!stopped()) {
		slot = rand_r(&seed) % SLOTS;
		at = atomic_load(&slot_at[slot]);
		part_of_slot(&seed, &start, &len);
		switch (rand_r(&seed) % 6) {
		case 0:
			err = mprotect(at + start, len, PROT_READ);
			usleep(rand_r(&seed) % 2000);
			map_slot(slot, at);
			break;
		case 1:
			err = mprotect(at + start, len, PROT_NONE);
			usleep(rand_r(&seed) % 2000);
			map_slot(slot, at);
			break;
		case 2:
			err = munmap(at + start, len);
			usleep(rand_r(&seed) % 2000);
			map_slot(slot, at);
			break;
		case 3:
			map_slot(slot, at);
			break;
		case 4:
			move_slot(slot);
			break;
		default:
			err = madvise(at + start, len, MADV_DONTNEED);
		}
		if (err)
			spm_die("surgery");
		atomic_fetch_add(&world->surgery, 1);
		usleep(rand_r(&seed) % 4000);
	}
	return NULL;
}

/* -- advice -------------------------------------------------------------------- */

static void discard(unsigned int *seed)
{
	size_t slot = rand_r(seed) % SLOTS, start, len, first, n, i;
	unsigned int spins = 0;

	part_of_slot(seed, &start, &len);
	if (rand_r(seed) % 8 == 0) {
		start = 0;
		len = SPM_SLOT;
	}
	first = (slot * SPM_SLOT + start) / SPM_PAGE;
	n = len / SPM_PAGE;
	/* One at a time, so that begun and done can be told apart. */
	while (atomic_flag_test_and_set(&world->discarding))
		spm_relax(&spins);
	for (i = 0; i < n; i++)
		atomic_fetch_add(&world->begun[first + i], 1);
	if (spm_advise_off(world->fd, first * SPM_PAGE, len, SPM_ADV_DISCARD))
		spm_die("DISCARD");
	for (i = 0; i < n; i++)
		atomic_fetch_add(&world->done[first + i], 1);
	atomic_flag_clear(&world->discarding);
	atomic_fetch_add(&world->discards, 1);
}

static void *adviser(void *arg)
{
	unsigned int seed = me + 300;
	uint32_t advice;
	size_t slot;
	int err;

	while (!stopped()) {
		slot = rand_r(&seed) % SLOTS;
		switch (rand_r(&seed) % 8) {
		case 0:
			discard(&seed);
			break;
		case 1:
			err = spm_advise_off(world->fd, slot * SPM_SLOT +
					     8 * SPM_PAGE, 16 * SPM_PAGE,
					     SPM_ADV_PREFAULT);
			if (err)
				spm_die("PREFAULT by offset gave %d", err);
			break;
		default:
			advice = 1 + rand_r(&seed) % 3;
			err = spm_advise(world->fd, atomic_load(&slot_at[slot]),
					 SPM_SLOT, advice);
			/* Parts may be away, or PROT_NONE, for the moment. */
			if (err && err != -ENOMEM && err != -EACCES)
				spm_die("advice %u gave %d", advice, err);
		}
		atomic_fetch_add(&world->advice, 1);
		usleep(rand_r(&seed) % 2000);
	}
	return NULL;
}

/* -- others who look at the page tables --------------------------------------- */

static int child_of_race(unsigned int seed)
{
	struct accessor *a = &reader_state;
	int i;

	a->seed = seed;
	for (i = 0; i < 4; i++)
		try_batch(read_batch, a);
	munmap(place[seed % SLOTS][0], SPM_SLOT / 2);
	munmap(place[seed % SLOTS][1] + SPM_SLOT / 2, SPM_SLOT / 2);
	for (i = 0; i < 4; i++)
		try_batch(read_batch, a);
	return 0;
}

static void *forker(void *arg)
{
	unsigned int seed = me + 400;
	int status;
	pid_t pid;

	while (!stopped()) {
		seed++;
		pid = fork();
		if (pid < 0)
			spm_die("fork");
		if (!pid)
			_exit(child_of_race(seed));
		if (seed % 4 == 0)
			kill(pid, SIGKILL);
		if (waitpid(pid, &status, 0) != pid)
			spm_die("waitpid");
		if (status && !(WIFSIGNALED(status) &&
				WTERMSIG(status) == SIGKILL))
			spm_die("child ended with %#x", status);
		atomic_fetch_add(&world->forks, 1);
		usleep(20000);
	}
	return NULL;
}

/* Read a file of /proc to its end, or write one. */
static void use_proc(const char *path, const char *text)
{
	static char buf[65536];
	int fd = open(path, text ? O_WRONLY : O_RDONLY);

	if (fd < 0)
		return;
	if (text) {
		if (write(fd, text, strlen(text)) < 0)
			buf[0] = 0;
	} else {
		while (read(fd, buf, sizeof(buf)) > 0)
			;
	}
	close(fd);
}

static void *walker(void *arg)
{
	static uint64_t entry[SPM_SLOT_PAGES];
	int pagemap = open("/proc/self/pagemap", O_RDONLY);
	unsigned int n = 0;
	uintptr_t at;

	if (pagemap < 0)
		spm_die("pagemap");
	while (!stopped()) {
		at = (uintptr_t)atomic_load(&slot_at[n % SLOTS]);
		if (pread(pagemap, entry, sizeof(entry), at / SPM_PAGE * 8) !=
		    sizeof(entry))
			spm_die("read of pagemap");
		switch (n++ % 50) {
		case 10:
			use_proc("/proc/self/smaps", NULL);
			break;
		case 20:
			use_proc("/proc/self/clear_refs", "1");
			break;
		case 30:
			use_proc("/proc/self/clear_refs", "4");
			break;
		case 40:
			if (me == 0)
				use_proc("/proc/sys/vm/compact_memory", "1");
			break;
		}
		atomic_fetch_add(&world->walks, 1);
		usleep(1000);
	}
	close(pagemap);
	return NULL;
}

/* -- all of it ------------------------------------------------------------------ */

static int process(void *arg)
{
	static void *(*const roles[])(void *) = {
		writer, reader, surgeon, adviser, forker, walker,
	};
	pthread_t t[sizeof(roles) / sizeof(roles[0])];
	unsigned int i, k;

	me = *(unsigned int *)arg;
	for (i = 0; i < SLOTS; i++) {
		for (k = 0; k < 2; k++)
			place[i][k] = spm_reserve(SPM_SLOT, 0);
		map_slot(i, place[i][0]);
	}
	spm_barrier_wait(&world->barrier);
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		spm_thread(&t[i], roles[i], NULL);
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		pthread_join(t[i], NULL);

	/* Nothing moves any more: the last stores are there. */
	spm_barrier_wait(&world->barrier);
	for (i = 0; i < SLOTS; i++)
		map_slot(i, place[i][0]);
	writer_state.next = me;
	if (spm_try(check_rest, &writer_state))
		spm_die("page %zu cannot be read", writer_state.next);
	return 0;
}

static int race_seconds(void)
{
	const char *s = getenv("SPM_RACE_SECONDS");

	return s && atoi(s) > 0 ? atoi(s) : 60;
}

TEST_F(spm, everything_at_once)
{
	unsigned int number[PROCESSES], i, ended = 0;
	pid_t pid[PROCESSES] = { };
	double end = spm_now() + race_seconds();
	siginfo_t info;
	char *p;

	world = spm_shared(sizeof(*world));
	world->fd = spm_open();
	world->barrier.parties = PROCESSES;
	ASSERT_EQ(0, spm_set_size(world->fd, LEN));
	for (i = 0; i < PROCESSES; i++) {
		number[i] = i;
		pid[i] = spm_fork(process, &number[i]);
	}
	while (spm_now() < end && !ended) {
		usleep(100000);
		/* If one has died, the others need not go on. */
		for (i = 0; i < PROCESSES; i++) {
			info.si_pid = 0;
			waitid(P_PID, pid[i], &info, WEXITED | WNOHANG | WNOWAIT);
			ended += info.si_pid != 0;
		}
	}
	atomic_store(&world->stop, 1);
	if (ended)
		for (i = 0; i < PROCESSES; i++)
			kill(pid[i], SIGKILL);
	for (i = 0; i < PROCESSES; i++)
		EXPECT_EQ(0, spm_wait(pid[i]));
	EXPECT_EQ(0, ended);
	TH_LOG("stores %lu, loads %lu, advice %lu, discards %lu, surgery %lu, moves %lu, forks %lu, walks %lu, zeros seen by owners %lu",
	       world->stores, world->loads, world->advice, world->discards,
	       world->surgery, world->moves, world->forks, world->walks,
	       world->zeros);
	EXPECT_LT(0, world->stores);
	EXPECT_LT(0, world->moves);
	EXPECT_LT(0, world->forks);
	EXPECT_EQ(0, spm_consistent(world->fd));

	/* And the region is as good as new. */
	p = spm_map(world->fd, LEN, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise_off(world->fd, 0, LEN, SPM_ADV_DISCARD));
	EXPECT_EQ(-1, spm_nonzero(p, PAGES));
	spm_promoted(world->fd, p, LEN, 0, 1);
	EXPECT_EQ(-1, spm_wrong(p, 0, PAGES, 1));
	EXPECT_EQ(0, spm_consistent(world->fd));
}

SPM_TEST_MAIN
