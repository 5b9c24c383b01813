// SPDX-License-Identifier: GPL-2.0
/*
 * Property: whatever a scan is asked for, and whatever happens to its range, its
 * answer's place and its caller meanwhile, it writes nothing beyond the answer,
 * ends soon, and leaves the books right.
 *
 * Kind of bug: arithmetic on ranges and rooms that nobody would choose; an answer
 * that goes back behind what was delivered; a loop that does not look at signals.
 *
 * The seed is printed; SPM_FUZZ_SEED sets it, SPM_FUZZ_SECONDS the time.
 *
 * spm-test: kernels=debug,7.3 timeout=400 smp=4 full=debug
 */
#include "spm_sync.h"

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define BITMAP	SPM_SCAN_BITMAP
#define SINCE	SPM_SCAN_SINCE
#define SLOTS	4
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)

/* Beyond what the kernel buffers of a bitmap at once. */
#define GAP	(70 * SPM_SLOT)
#define FAR	(GAP + SPM_SLOT)
#define ROOM	(FAR / SPM_PAGE / 8)

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x >> 11;
}

static double seconds(double otherwise)
{
	const char *s = getenv("SPM_FUZZ_SECONDS");

	return s ? atof(s) : otherwise;
}

static uint64_t first_seed(void)
{
	const char *given = getenv("SPM_FUZZ_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	spm_note("SPM_FUZZ_SEED=%llu", (unsigned long long)seed);
	return seed * 7919 + 1;
}

static const unsigned long cmds[] = {
	SPM_IOC_GET_DIRTY, SPM_IOC_GET_REFERENCED,
};

/* 0, or what is wrong with the answer. */
static int odd_answer(const struct spm_scan *s, const struct spm_scan *was, int err)
{
	uint64_t room = was->flags & BITMAP ? was->vec_len & ~7ULL : was->vec_len;

	switch (err) {
	case 0:
		break;
	case -EINVAL:
	case -ENOMEM:
	case -EFAULT:
	case -EBADF:
		return 0;
	default:
		return 1;
	}
	if (s->next < was->start || s->next > was->start + was->len)
		return 2;
	if (s->count > room)
		return 3;
	if (s->pages > was->len / SPM_PAGE)
		return 4;
	/* No progress would be an endless loop for whoever goes on at @next. */
	if (was->len && was->vec_len && s->next == was->start)
		return 5;
	return 0;
}

TEST_F(spm, extreme_arguments)
{
	char *map, *half;
	int fd = spm_open(), snap, foreign = spm_open(), copy, shut;
	unsigned long good = 0;
	unsigned int n;

	map = spm_map(fd, LEN, 0, SPM_RW);
	spm_touch_write(map, LEN);
	snap = spm_snapshot(fd);
	copy = dup(snap);
	shut = dup(snap);
	close(shut);
	half = mmap(NULL, 2 * SPM_PAGE, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(half != MAP_FAILED);
	ASSERT_EQ(0, munmap(half + SPM_PAGE, SPM_PAGE));

	const uint64_t base = (uintptr_t)map;
	const uint64_t starts[] = { 0, SPM_PAGE, LEN - SPM_PAGE, base,
		base + LEN - SPM_PAGE, base + 1, 1ULL << 47, 1ULL << 63,
		-SPM_PAGE };
	const uint64_t lens[] = { SPM_PAGE, LEN, LEN + SPM_PAGE, 1ULL << 50,
		1ULL << 63, -SPM_PAGE, -base };
	const uint64_t vecs[] = { 0, base, base + LEN - 24, base + 4, 1ULL << 47,
		0xffff888000000000ULL, -8ULL, (uintptr_t)half + SPM_PAGE - 24 };
	const uint64_t rooms[] = { 0, 1, 8, 4096, 1ULL << 60, 1ULL << 61, -1ULL,
		-8ULL };
	const int sinces[] = { snap, copy, fd, foreign, shut, -1, 0, 0x7fffffff };

	/* Each with each, but for the stride, which leaves some of them out. */
	for (n = 0; n < 4096 * ARRAY_SIZE(lens) * ARRAY_SIZE(starts); n += 17) {
		unsigned int k = n % 2, flags = n / 2 % 32;
		struct spm_scan s = {
			.start = starts[n / 4096 / ARRAY_SIZE(lens)],
			.len = lens[n / 4096 % ARRAY_SIZE(lens)],
			.vec = vecs[n / 512 % 8], .vec_len = rooms[n / 64 % 8],
			.flags = flags,
			.since = flags & SINCE ? sinces[n / 3 % 8] : 0,
		}, was = s;
		int err = spm_scan(fd, cmds[k], &s);

		good += !err;
		ASSERT_EQ(0, odd_answer(&s, &was, err)) {
			TH_LOG("cmd %u flags %x start %llx len %llx vec %llx/%llx: %d, next %llx, count %llx",
			       k, flags, was.start, was.len, was.vec,
			       was.vec_len, err, s.next, s.count);
		}
	}
	TH_LOG("%u requests, %lu of them possible", n / 17, good);
	ASSERT_LT(100, good);
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, LEN));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- a scan that is killed ------------------------------------------------- */

struct filler {
	atomic_uint state;
	bool scans;
};

/* A bitmap of gigabytes, for a region that has nothing. */
static int fill_bitmap(void *arg)
{
	struct filler *f = arg;
	const uint64_t size = 1ULL << 30, piece = 64 << 20;
	int mem = memfd_create("bitmap", 0), fd = spm_open();
	struct spm_scan s = { .flags = OFF | BITMAP, .len = 1ULL << 50,
			      .vec_len = size };
	uint64_t at;
	char *to;

	to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		  MAP_NORESERVE, -1, 0);
	if (mem < 0 || ftruncate(mem, piece) || to == MAP_FAILED)
		spm_die("memory for the bitmap");
	for (at = 0; at < size; at += piece)
		if (mmap(to + at, piece, SPM_RW, MAP_SHARED | MAP_FIXED |
			 MAP_POPULATE, mem, 0) == MAP_FAILED)
			spm_die("mmap");
	s.vec = (uintptr_t)to;
	atomic_store(&f->state, 1);
	while (!f->scans)
		pause();
	spm_scan(fd, SPM_IOC_GET_DIRTY, &s);
	atomic_store(&f->state, 2);
	pause();
	return 0;
}

/* How long it takes until it is gone, with all that it has mapped. */
static double killed_after(struct filler *f, bool scans)
{
	double start;
	pid_t pid;

	atomic_store(&f->state, 0);
	f->scans = scans;
	pid = spm_fork(fill_bitmap, f);
	spm_wait_for(&f->state, 1);
	usleep(100000);
	if (atomic_load(&f->state) != 1)
		spm_die("the scan was over before it could be killed");
	start = spm_now();
	kill(pid, SIGKILL);
	if (spm_wait(pid) != 256 + SIGKILL)
		spm_die("not killed");
	return spm_now() - start;
}

/* No longer, by much, than if it did nothing. */
TEST_F(spm, killed_while_a_bitmap_fills)
{
	struct filler *f = spm_shared(sizeof(*f));
	double idle = killed_after(f, false), scanning = killed_after(f, true);

	TH_LOG("killed after %.3f s, if it does nothing %.3f s", scanning, idle);
	ASSERT_GT(2 * idle + 3, scanning);
}

struct far {
	int fd;
	unsigned char *bits;
	atomic_uint over;
};

static int scan_far(void *arg)
{
	struct far *f = arg;

	while (1) {
		struct spm_scan s = {
			.flags = OFF | BITMAP | CLEAR, .len = FAR,
			.vec = (uintptr_t)f->bits, .vec_len = ROOM,
		};

		spm_scan(f->fd, SPM_IOC_GET_DIRTY, &s);
	}
	return 0;
}

/* Keeps the lock of the last slot busy. */
static void *busy_slot(void *arg)
{
	struct far *f = arg;
	char *map = spm_map(f->fd, FAR, 0, SPM_RW);

	while (!atomic_load(&f->over)) {
		spm_advise(f->fd, map + GAP, SPM_SLOT, SPM_ADV_PROMOTE);
		spm_advise(f->fd, map + GAP, SPM_SLOT, SPM_ADV_DEMOTE);
		map[0] = 1;
	}
	return NULL;
}

/*
 * The first slot is told and the lock of a slot far behind it waited for: the end
 * of what is told lies before what was delivered already.
 */
TEST_F(spm, killed_behind_a_gap_of_a_bitmap)
{
	double end = spm_now() + seconds(20);
	unsigned long rounds = 0, i;
	uint64_t x = first_seed();
	struct far f = { .fd = spm_open() };
	pthread_t busy[2];

	ASSERT_EQ(0, spm_set_size(f.fd, FAR));
	f.bits = mmap(NULL, ROOM + (1 << 20), SPM_RW, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	ASSERT_TRUE(f.bits != MAP_FAILED);
	memset(f.bits + ROOM, 0xa5, 1 << 20);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&busy[i], NULL, busy_slot, &f));
	while (spm_now() < end) {
		pid_t pid = spm_fork(scan_far, &f);

		usleep(2000 + next(&x) % 30000);
		kill(pid, SIGKILL);
		ASSERT_EQ(256 + SIGKILL, spm_wait(pid));
		for (i = 0; i < 1 << 20; i++)
			ASSERT_EQ(0xa5, f.bits[ROOM + i]);
		rounds++;
	}
	atomic_store(&f.over, 1);
	for (i = 0; i < 2; i++)
		pthread_join(busy[i], NULL);
	TH_LOG("%lu rounds", rounds);
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- what others do meanwhile ---------------------------------------------- */

static void *snapshots(void *arg)
{
	struct far *f = arg;

	while (!atomic_load(&f->over))
		close(spm_snapshot(f->fd));
	return NULL;
}

/* Contents that come up from a snapshot that is closed are in every answer. */
TEST_F(spm, counted_while_snapshots_close)
{
	double end = spm_now() + seconds(20);
	struct far f = { .fd = spm_open() };
	unsigned long asked = 0, wrong = 0;
	pthread_t thread;
	char *map;

	map = spm_map(f.fd, FAR, 0, SPM_RW);
	f.bits = mmap(NULL, ROOM, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(f.bits != MAP_FAILED);
	map[0] = 1;
	map[GAP] = 1;
	ASSERT_EQ(0, pthread_create(&thread, NULL, snapshots, &f));
	for (; spm_now() < end; asked++) {
		struct spm_scan s = {
			.flags = OFF | BITMAP, .len = FAR,
			.vec = (uintptr_t)f.bits, .vec_len = ROOM,
		};

		/* Its writing takes a while, between the two slots. */
		madvise(f.bits, ROOM, MADV_DONTNEED);
		ASSERT_EQ(0, spm_scan(f.fd, SPM_IOC_GET_DIRTY, &s));
		wrong += s.pages != 2;
	}
	atomic_store(&f.over, 1);
	pthread_join(thread, NULL);
	TH_LOG("%lu answers", asked);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, spm_all_consistent());
}

struct mess {
	int fd;
	char *area;
	uint64_t seed;
	atomic_uint over;
	atomic_ulong asked;
	atomic_ulong odd;
};

struct messer {
	struct mess *m;
	unsigned int me;
};

static void scan_anything(struct mess *m, uint64_t *x)
{
	static const uint64_t rooms[] = { 0, 8, 64, 4096, 1ULL << 40 };
	uint64_t from = next(x) % PAGES * SPM_PAGE;
	struct spm_scan s = {
		.flags = next(x) % 8, .vec_len = rooms[next(x) % 5],
		.len = next(x) % 4 ? LEN - from : next(x) % PAGES * SPM_PAGE,
		.vec = (uintptr_t)m->area + next(x) % LEN / 8 * 8,
	}, was;
	int snap = -1, err;

	s.start = s.flags & OFF ? from : (uintptr_t)m->area + from;
	if (s.flags == OFF && next(x) % 2) {
		snap = spm_try_snapshot(m->fd, 0);
		s.flags |= SINCE;
		s.since = snap;
	}
	was = s;
	err = spm_scan(m->fd, cmds[next(x) % 2], &s);
	if (odd_answer(&s, &was, err) % 5) {
		spm_note("flags %x: %d, next %llx, count %llx", was.flags, err,
			 s.next, s.count);
		atomic_fetch_add(&m->odd, 1);
	}
	atomic_fetch_add(&m->asked, 1);
	if (snap >= 0)
		close(snap);
}

static void mess_up(struct mess *m, uint64_t *x)
{
	uint64_t at = next(x) % PAGES, n = 1 + next(x) % (PAGES - at);
	char *p = m->area + at * SPM_PAGE;
	static const char * const names[] = {
		"dirty_grain", "cow_size", "pg_ps_enabled",
	};
	pid_t pid;

	switch (next(x) % 9) {
	case 0:
		munmap(p, n * SPM_PAGE);
		break;
	case 1:
	case 2:
		mmap(m->area, LEN, SPM_RW, MAP_FIXED |
		     (next(x) % 2 ? MAP_SHARED : MAP_PRIVATE), m->fd, 0);
		break;
	case 3:
		spm_set_size(m->fd, at * SPM_PAGE);
		spm_set_size(m->fd, LEN);
		break;
	case 4:
		pid = fork();
		if (!pid) {
			struct mess own = { .fd = m->fd, .area = m->area };

			if (next(x) % 2)
				scan_anything(&own, x);
			_exit(0);
		}
		if (next(x) % 2)
			kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		break;
	case 5:
		close(spm_snapshot(m->fd));
		break;
	case 6:
		spm_policy_set(m->fd, names[next(x) % 3], next(x) % 2);
		break;
	case 7:
		madvise(p, n * SPM_PAGE, next(x) % 2 ? MADV_DONTNEED :
			MADV_POPULATE_WRITE);
		break;
	default:
		spm_advise(m->fd, p, n * SPM_PAGE, 1 + next(x) % 5);
	}
}

static void *mess_thread(void *arg)
{
	struct messer *w = arg;
	uint64_t x = w->m->seed + w->me * 977;

	while (!atomic_load(&w->m->over)) {
		if (w->me % 2)
			scan_anything(w->m, &x);
		else
			mess_up(w->m, &x);
	}
	return NULL;
}

TEST_F(spm, anything_at_any_time)
{
	struct mess m = { .fd = spm_open(), .seed = first_seed() };
	struct messer w[6];
	pthread_t thread[6];
	unsigned int i;

	m.area = spm_map(m.fd, LEN, 0, SPM_RW);
	spm_set_size(m.fd, LEN);
	for (i = 0; i < 6; i++) {
		w[i] = (struct messer){ &m, i };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, mess_thread, &w[i]));
	}
	usleep(seconds(30) * 1e6);
	atomic_store(&m.over, 1);
	for (i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
	TH_LOG("%lu scans", atomic_load(&m.asked));
	ASSERT_EQ(0, atomic_load(&m.odd));
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
