// SPDX-License-Identifier: GPL-2.0
/*
 * Property: arguments and results of system calls may lie in memory of the very
 * region that the call is about, touched or not, even across the border of
 * slots that are being promoted.
 * Guards against: a deadlock because the call holds a lock that the page fault
 * on its own argument needs; such a call must succeed, or fail with the error
 * that its content asks for, at once.
 *
 * spm-test: smp=4 full=debug,7.3
 */
#include "spm_sync.h"

#define SLOTS	4
#define LEN	(SLOTS * SPM_SLOT)
#define BORDER	SPM_SLOT

/* Where an argument is put, as an offset in the region. */
static const struct {
	const char *name;
	size_t off;
} places[] = {
	{ "in the first slot",		3 * SPM_PAGE + 64 },
	{ "across two pages",		9 * SPM_PAGE - 8 },
	{ "across two slots",		BORDER - 8 },
	{ "at the start of a slot",	BORDER },
	{ "at the end of the region",	LEN - 512 },
};

#define PLACES	(sizeof(places) / sizeof(places[0]))

struct env {
	int fd;
	char *view;		/* the view through which arguments are written */
};

static double limit(void)
{
	return spm_slow_kernel() ? 10 : 1;
}

static void env_open(struct env *e)
{
	e->fd = spm_open();
	e->view = spm_map(e->fd, LEN, 0, SPM_RW);
	if (spm_set_size(e->fd, LEN))
		spm_die("SPM_IOC_SET_SIZE");
}

/* A view without any entry, so that the kernel must fault on what lies there. */
static char *fresh_view(struct env *e)
{
	return spm_map(e->fd, LEN, 0, SPM_RW);
}

/*
 * The ioctl with an argument of @len bytes at @off of a fresh view of @in;
 * 0 or -errno.  Says so and returns 1 if it took too long.
 */
static int timed_ioctl(struct env *e, struct env *in, unsigned long cmd,
		       void *arg, size_t len, size_t off)
{
	char *v = fresh_view(in);
	double start, took;
	int ret;

	if (arg)
		memcpy(in->view + off, arg, len);
	start = spm_now();
	ret = ioctl(e->fd, cmd, v + off) ? -errno : 0;
	took = spm_now() - start;
	if (arg)
		memcpy(arg, in->view + off, len);
	spm_unmap(v, LEN);
	if (took < limit())
		return ret;
	spm_note("ioctl %#lx took %.1f s", cmd, took);
	return 1;
}

static void try_each_ioctl(struct __test_metadata *_metadata, struct env *e,
			   struct env *in, size_t off)
{
	struct spm_info info = { .argsz = sizeof(info) };
	struct spm_stats st = { .argsz = sizeof(st) };
	struct spm_set_size size = { .argsz = sizeof(size), .size = LEN };
	struct spm_mincore mc = { .argsz = sizeof(mc) };
	struct spm_advise adv = { .argsz = sizeof(adv), .len = LEN };
	static unsigned char vec[LEN / SPM_PAGE];
	unsigned int a;

	EXPECT_EQ(0, timed_ioctl(e, in, SPM_IOC_INFO, &info, sizeof(info), off));
	EXPECT_EQ(LEN, info.size);
	EXPECT_EQ(0, timed_ioctl(e, in, SPM_IOC_STATS, &st, sizeof(st), off));
	EXPECT_NE(0, st.maps);
	EXPECT_EQ(0, timed_ioctl(e, in, SPM_IOC_SET_SIZE, &size, sizeof(size),
				 off));
	mc.start = (uintptr_t)e->view;
	mc.len = LEN;
	mc.vec = (uintptr_t)vec;
	EXPECT_EQ(0, timed_ioctl(e, in, SPM_IOC_MINCORE, &mc, sizeof(mc), off));
	adv.start = (uintptr_t)e->view;
	/* DISCARD last: it takes the argument away. */
	for (a = SPM_ADV_PREFAULT; a <= SPM_ADV_DISCARD; a++) {
		adv.advice = a;
		EXPECT_EQ(0, timed_ioctl(e, in, SPM_IOC_ADVISE, &adv,
					 sizeof(adv), off)) {
			TH_LOG("advice %u", a);
		}
	}
	EXPECT_EQ(-ENOTTY, timed_ioctl(e, in, _IO(SPM_IOC_MAGIC, 0x7f), &adv,
				       sizeof(adv), off));
}

TEST_F(spm, argument_in_the_same_region)
{
	struct env e;
	size_t i;

	for (i = 0; i < PLACES; i++) {
		TH_LOG("argument %s", places[i].name);
		env_open(&e);
		try_each_ioctl(_metadata, &e, &e, places[i].off);
		EXPECT_EQ(0, spm_consistent(e.fd));
		spm_unmap(e.view, LEN);
		close(e.fd);
	}
}

TEST_F(spm, argument_in_another_region)
{
	struct env e, other;
	size_t i;

	env_open(&e);
	for (i = 0; i < PLACES; i++) {
		TH_LOG("argument %s", places[i].name);
		env_open(&other);
		try_each_ioctl(_metadata, &e, &other, places[i].off);
		EXPECT_EQ(0, spm_consistent(other.fd));
		spm_unmap(other.view, LEN);
		close(other.fd);
	}
	EXPECT_EQ(0, spm_consistent(e.fd));
}

/* Memory that nobody touched reads as zeros, and an argsz of 0 is too small. */
TEST_F(spm, argument_never_written)
{
	static const unsigned long cmds[] = {
		SPM_IOC_INFO, SPM_IOC_SET_SIZE, SPM_IOC_ADVISE,
		SPM_IOC_MINCORE, SPM_IOC_STATS,
	};
	struct env e;
	size_t i, k;

	for (i = 0; i < PLACES; i++) {
		env_open(&e);
		for (k = 0; k < sizeof(cmds) / sizeof(cmds[0]); k++)
			EXPECT_EQ(-EINVAL, timed_ioctl(&e, &e, cmds[k], NULL, 0,
						       places[i].off));
		EXPECT_EQ(0, spm_consistent(e.fd));
		spm_unmap(e.view, LEN);
		close(e.fd);
	}
}

/* What cannot be touched is EFAULT, not a signal. */
TEST_F(spm, argument_that_cannot_be_touched)
{
	struct spm_mincore mc = { .argsz = sizeof(mc), .len = LEN - SPM_SLOT };
	struct env e;
	char *p;

	env_open(&e);
	spm_promoted(e.fd, e.view, SPM_SLOT, 0, 1);
	ASSERT_EQ(0, spm_set_size(e.fd, LEN - SPM_SLOT));
	p = e.view + LEN - SPM_SLOT;
	EXPECT_EQ(-1, ioctl(e.fd, SPM_IOC_INFO, p));
	EXPECT_EQ(EFAULT, errno);
	/* The first bytes can be read, the others cannot. */
	*(uint32_t *)(p - 8) = sizeof(struct spm_info);
	EXPECT_EQ(-1, ioctl(e.fd, SPM_IOC_INFO, p - 8));
	EXPECT_EQ(EFAULT, errno);
	mc.start = (uintptr_t)e.view;
	mc.vec = (uintptr_t)(p - 16);
	EXPECT_EQ(-1, ioctl(e.fd, SPM_IOC_MINCORE, &mc));
	EXPECT_EQ(EFAULT, errno);

	/* A result may not be stored in memory that is read-only. */
	p = e.view + 5 * SPM_PAGE;
	*(struct spm_info *)p = (struct spm_info){ .argsz = sizeof(struct spm_info) };
	ASSERT_EQ(0, mprotect(p, SPM_PAGE, PROT_READ));
	EXPECT_EQ(-1, ioctl(e.fd, SPM_IOC_INFO, p));
	EXPECT_EQ(EFAULT, errno);
	mc.vec = (uintptr_t)p;
	EXPECT_EQ(-1, ioctl(e.fd, SPM_IOC_MINCORE, &mc));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, spm_consistent(e.fd));
}

/* The state vector lies in the range that it describes. */
TEST_F(spm, vector_in_the_range_it_describes)
{
	static const size_t offs[] = { 0, 100, SPM_SLOT - 700, 2 * SPM_SLOT + 1,
				       LEN - LEN / SPM_PAGE };
	struct spm_mincore mc = { .argsz = sizeof(mc), .len = LEN };
	unsigned char *vec;
	struct env e;
	char *v;
	size_t i, k, held;
	double start;

	for (i = 0; i < sizeof(offs) / sizeof(offs[0]); i++) {
		TH_LOG("vector at %zu", offs[i]);
		env_open(&e);
		spm_promoted(e.fd, e.view, SPM_SLOT, 0, 1);
		v = fresh_view(&e);
		mc.start = (uintptr_t)v;
		mc.vec = (uintptr_t)(v + offs[i]);
		start = spm_now();
		EXPECT_EQ(0, ioctl(e.fd, SPM_IOC_MINCORE, &mc));
		EXPECT_LT(spm_now() - start, limit());
		/*
		 * Slot 0 is held.  Elsewhere nothing was when the call began,
		 * save pages of the vector that were stored to early.
		 */
		vec = (unsigned char *)(e.view + offs[i]);
		for (held = 0, k = 0; k < LEN / SPM_PAGE; k++)
			held += !!(vec[k] & SPM_MINCORE_INCORE);
		EXPECT_LE(SPM_SLOT_PAGES, held);
		EXPECT_GE(SPM_SLOT_PAGES + 2, held);
		EXPECT_EQ(0, spm_consistent(e.fd));
		spm_unmap(v, LEN);
		spm_unmap(e.view, LEN);
		close(e.fd);
	}
}

/* -- while another thread promotes and demotes the slots ------------------ */

struct changer {
	struct env *e;
	char *target;		/* a view: changes two slots */
	atomic_uint stop;
	int err;
};

static void *change_entries(void *arg)
{
	struct changer *c = arg;
	unsigned int seed = 1;

	while (!atomic_load(&c->stop) && !c->err) {
		switch (rand_r(&seed) % 3) {
		case 0:
			c->err = spm_advise(c->e->fd, c->target, 2 * SPM_SLOT,
					    SPM_ADV_PROMOTE);
			break;
		case 1:
			c->err = spm_advise(c->e->fd, c->target, 2 * SPM_SLOT,
					    SPM_ADV_DEMOTE);
			break;
		default:
			if (madvise(c->target, 2 * SPM_SLOT, MADV_DONTNEED))
				c->err = -errno;
		}
	}
	return NULL;
}

TEST_F(spm, argument_across_slots_being_promoted)
{
	struct changer c = { };
	struct spm_info *info;
	struct spm_stats *st;
	struct spm_mincore *mc;
	struct env e;
	double start, longest = 0, end;
	unsigned long calls = 0;
	unsigned char *vec;
	pthread_t t;
	int ret;

	env_open(&e);
	c.e = &e;
	c.target = e.view;
	spm_thread(&t, change_entries, &c);
	/* All three lie across the border; they do not overlap. */
	mc = (struct spm_mincore *)(e.view + BORDER - 16);
	info = (struct spm_info *)(e.view + 2 * BORDER - 24);
	st = (struct spm_stats *)(e.view + BORDER + SPM_PAGE - 24);
	vec = (unsigned char *)(e.view + 2 * BORDER - 600);
	for (end = spm_now() + 4; spm_now() < end; calls++) {
		start = spm_now();
		switch (calls % 3) {
		case 0:
			memset(info, 0, sizeof(*info));
			info->argsz = sizeof(*info);
			ret = ioctl(e.fd, SPM_IOC_INFO, info);
			ASSERT_EQ(LEN, info->size);
			break;
		case 1:
			memset(st, 0, sizeof(*st));
			st->argsz = sizeof(*st);
			ret = ioctl(e.fd, SPM_IOC_STATS, st);
			ASSERT_EQ(1, st->maps);
			break;
		default:
			memset(mc, 0, sizeof(*mc));
			mc->argsz = sizeof(*mc);
			mc->start = (uintptr_t)e.view;
			mc->len = SPM_SLOT;
			mc->vec = (uintptr_t)vec;
			ret = ioctl(e.fd, SPM_IOC_MINCORE, mc);
		}
		ASSERT_EQ(0, ret);
		if (spm_now() - start > longest)
			longest = spm_now() - start;
	}
	atomic_store(&c.stop, 1);
	pthread_join(t, NULL);
	EXPECT_EQ(0, c.err);
	EXPECT_LT(longest, limit());
	EXPECT_LT(10, calls);
	EXPECT_EQ(0, spm_consistent(e.fd));
}

/* -- read and write -------------------------------------------------------- */

#define CHUNK	(32UL << 10)

/* Through the pipe from one place to another; 0 or -errno. */
static int through_pipe(int *ends, const char *from, char *to)
{
	ssize_t n = write(ends[1], from, CHUNK);

	if (n != (ssize_t)CHUNK)
		return n < 0 ? -errno : 1;
	n = read(ends[0], to, CHUNK);
	if (n != (ssize_t)CHUNK)
		return n < 0 ? -errno : 1;
	return 0;
}

TEST_F(spm, pipe_to_and_from_absent_memory)
{
	static char plain[CHUNK];
	struct env e;
	int ends[2];
	char *v;

	ASSERT_EQ(0, pipe(ends));
	env_open(&e);
	memset(plain, 0xee, CHUNK);
	EXPECT_EQ(0, through_pipe(ends, e.view + 2 * SPM_SLOT - CHUNK / 2, plain));
	EXPECT_EQ(-1, spm_nonzero(plain, CHUNK / SPM_PAGE));

	spm_fill(plain, 0, CHUNK / SPM_PAGE, 3);
	EXPECT_EQ(0, through_pipe(ends, plain, e.view + 3 * SPM_SLOT - CHUNK / 2));
	EXPECT_EQ(-1, spm_wrong(e.view + 3 * SPM_SLOT - CHUNK / 2, 0,
				CHUNK / SPM_PAGE, 3));
	EXPECT_EQ(CHUNK / SPM_PAGE,
		  spm_count_dirty(e.fd, e.view + 3 * SPM_SLOT - CHUNK / 2, CHUNK));

	/* From the region into the region, both unmapped here. */
	v = fresh_view(&e);
	EXPECT_EQ(0, through_pipe(ends, v + 3 * SPM_SLOT - CHUNK / 2,
				  v + SPM_SLOT - CHUNK / 2));
	EXPECT_EQ(-1, spm_wrong(e.view + SPM_SLOT - CHUNK / 2, 0,
				CHUNK / SPM_PAGE, 3));
	EXPECT_EQ(0, spm_consistent(e.fd));
}

TEST_F(spm, pipe_across_slots_being_promoted)
{
	static char plain[CHUNK];
	struct changer c = { };
	struct env e;
	unsigned int rounds = 0;
	int ends[2];
	double end;
	pthread_t t;
	char *buf;

	ASSERT_EQ(0, pipe(ends));
	env_open(&e);
	c.e = &e;
	c.target = e.view;
	buf = e.view + BORDER - CHUNK / 2;
	spm_thread(&t, change_entries, &c);
	for (end = spm_now() + 4; spm_now() < end; rounds++) {
		spm_fill(plain, 0, CHUNK / SPM_PAGE, rounds);
		ASSERT_EQ(0, through_pipe(ends, plain, buf));
		ASSERT_EQ(-1, spm_wrong(buf, 0, CHUNK / SPM_PAGE, rounds));
		memset(plain, 0, CHUNK);
		ASSERT_EQ(0, through_pipe(ends, buf, plain));
		ASSERT_EQ(-1, spm_wrong(plain, 0, CHUNK / SPM_PAGE, rounds));
	}
	atomic_store(&c.stop, 1);
	pthread_join(t, NULL);
	EXPECT_EQ(0, c.err);
	EXPECT_LT(5, rounds);
	EXPECT_EQ(0, spm_consistent(e.fd));
}

TEST_F(spm, file_to_and_from_absent_memory)
{
	FILE *tmp = tmpfile();
	struct env e;
	char *v;
	int file;

	ASSERT_NE(NULL, tmp);
	file = fileno(tmp);
	env_open(&e);
	EXPECT_EQ(CHUNK, pwrite(file, e.view + 2 * SPM_SLOT - CHUNK / 2, CHUNK, 0));
	spm_promoted(e.fd, e.view, SPM_SLOT, 0, 4);
	v = fresh_view(&e);
	EXPECT_EQ(SPM_SLOT, pwrite(file, v, SPM_SLOT, CHUNK));
	EXPECT_EQ(SPM_SLOT, pread(file, v + 2 * SPM_SLOT, SPM_SLOT, CHUNK));
	EXPECT_EQ(-1, spm_wrong(e.view + 2 * SPM_SLOT, 0, SPM_SLOT_PAGES, 4));
	EXPECT_EQ(CHUNK, pread(file, v + 4 * SPM_PAGE, CHUNK, 0));
	EXPECT_EQ(-1, spm_nonzero(e.view + 4 * SPM_PAGE, CHUNK / SPM_PAGE));
	EXPECT_EQ(0, spm_consistent(e.fd));
}

SPM_TEST_MAIN
