// SPDX-License-Identifier: GPL-2.0
/*
 * Property: whatever is done to regions, their snapshots, and their shared and
 * private mappings, by processes that fork each other, every page of every
 * mapping holds what a byte array would hold:
 *  - a region is an array of pages; a snapshot is a copy of the array;
 *  - a page of a private mapping is its own once it was stored to or discarded,
 *    until then it is the region's page of now; fork copies what is its own.
 *
 * Kind of bug: a store that is seen by the wrong side, old data that comes back
 * from a backing object, pages that are lost or mixed up when objects merge:
 * the ones that need four steps nobody thought of.
 *
 * Random sequences of operations are compared with that model.  A sequence that
 * fails is repeated with operations left out, as long as it still fails, and
 * what remains is printed as a script.
 *
 *   SPM_MODEL_SECONDS=n   how long (default: see below)
 *   SPM_MODEL_SEED=n      the first sequence; the next has n + 1
 *   SPM_MODEL_SCRIPT=file run this script instead
 *   SPM_MODEL_VERBOSE=1   print each operation before it is done
 * (also on the kernel's command line, which makes them init's environment)
 *
 * spm-test: timeout=900 smp=4 full=debug,7.3
 */
#include <sys/prctl.h>

#include "spm_model_ops.h"

#define TIMEOUT		850
#define SHRINK_SECONDS	150
#define SEQUENCE	48		/* operations, on average */

/* -- one sequence from nothing to nothing --------------------------------------------- */

struct script {
	struct op *op;
	int n, room;
};

static void script_add(struct script *s, const struct op *op)
{
	if (s->n == s->room) {
		s->room = s->room * 2 + 64;
		s->op = realloc(s->op, s->room * sizeof(*op));
		if (!s->op)
			spm_die("no memory");
	}
	s->op[s->n++] = *op;
}

static void world_begin(const struct op *first)
{
	static const struct op empty = { .kind = OP_CONFIG };
	const struct op *c = first && first->kind == OP_CONFIG ? first : &empty;
	unsigned int i;
	char junk[64];

	memset(region, 0, sizeof(region));
	memset(proc, 0, sizeof(proc));
	failure[0] = 0;
	/* A worker that was killed may have answered. */
	for (i = 0; i < PROCS; i++) {
		while (read(world.to[i][0], junk, sizeof(junk)) > 0)
			;
		while (read(world.from[i][0], junk, sizeof(junk)) > 0)
			;
	}
	do_config(c);
	if (F(c, 'o'))
		spm_fail_huge_for_me(true);
	fflush(NULL);
	proc[0].pid = fork();
	if (proc[0].pid < 0)
		spm_die("fork");
	if (!proc[0].pid)
		worker(0);
	if (F(c, 'o'))
		spm_fail_huge_for_me(false);
}

/* False if a process cannot even be killed. */
static bool world_end(void)
{
	unsigned int p;
	bool ok = true;

	for (p = 0; p < PROCS; p++)
		if (proc[p].pid)
			kill(proc[p].pid, SIGKILL);
	for (p = 0; p < PROCS; p++) {
		if (proc[p].pid && !wait_gone(proc[p].pid))
			ok = false;
		proc[p].pid = 0;
	}
	return ok;
}

static bool stuck;

/* After the last operation: compare everything, and want all memory back. */
static enum verdict finish(enum verdict v, struct spm_baseline *base)
{
	if (v != FAILED)
		v = compare_all(true);
	if (v != FAILED && spm_verify())
		v = fail("verify finds differences");
	if (!world_end()) {
		stuck = true;
		return v == FAILED ? v : fail("a process cannot be killed");
	}
	if (spm_baseline_check(base) && v != FAILED)
		v = fail("the gauges are not back, or the books are wrong");
	return v == FAILED ? FAILED : DONE;
}

static enum verdict replay(const struct script *s, struct spm_baseline *base)
{
	enum verdict v = DONE;
	int i;

	world_begin(s->n ? &s->op[0] : NULL);
	for (i = 0; i < s->n && v != FAILED; i++)
		v = carry_out(&s->op[i]);
	return finish(v, base);
}

/* -- making operations up ---------------------------------------------------------------- */

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 20) % n;
}

static bool some_region(unsigned int p, uint32_t *r)
{
	int i;

	for (i = 0; i < 20; i++) {
		*r = rnd(REGIONS);
		if (has_fd(p, *r))
			return true;
	}
	for (*r = 0; *r < REGIONS; ++*r)
		if (has_fd(p, *r))
			return true;
	return false;
}

static bool unused_region(uint32_t *r)
{
	for (*r = 0; *r < REGIONS; ++*r)
		if (!region[*r].used)
			return true;
	return false;
}

/* A mapped page, more often than not a hot one. */
static bool some_page(unsigned int p, uint32_t *at)
{
	const struct vpage *v = proc[p].v;
	int32_t other;
	int i;

	for (i = 0; i < 40; i++) {
		*at = rnd(ARENA);
		if (v[*at].kind != NOTHING)
			break;
	}
	if (i == 40)
		return false;
	if (rnd(4)) {
		other = *at - v[*at].pgoff % 512 + hot[rnd(HOT)];
		if (other >= 0 && other < ARENA && v[other].kind != NOTHING)
			*at = other;
	}
	return true;
}

/* How many pages from there on; often to the end of the slot or the piece. */
static uint32_t some_pages(unsigned int p, uint32_t at)
{
	uint32_t n = 1;

	while (at + n < ARENA && one_piece(p, at + n - 1, 2) && n < 1024)
		n++;
	switch (rnd(10)) {
	case 0 ... 5:
		return 1;
	case 6 ... 7:
		return 1 + rnd(n < 9 ? n : 9);
	case 8:
		return 1 + rnd(n);
	default:
		return n;
	}
}

/* A whole slot of the region, if it is mapped in one piece. */
static void whole_slot(unsigned int p, uint32_t *at, uint32_t *n)
{
	uint32_t in = proc[p].v[*at].pgoff % 512;

	if (*at < in || !one_piece(p, *at - in, 512))
		return;
	*at -= in;
	*n = rnd(4) && one_piece(p, *at, 1024) ? 1024 : 512;
}

static void make_map(struct op *op, unsigned int p)
{
	uint32_t n = rnd(3) ? 512 * (1 + rnd(2)) : 1 + rnd(REGION_PAGES);
	uint32_t o = n < REGION_PAGES ? rnd(2) ? 0 : rnd(REGION_PAGES - n + 1) : 0;
	uint32_t v = rnd(ARENA / 512) * 512;

	if (rnd(3) && n <= 512)
		o = o / 512 * 512;
	/* Congruent with the offset, or, not often, not. */
	v += rnd(10) ? o % 512 : rnd(512);
	if (n > ARENA - v)
		n = ARENA - v;
	F(op, 'v') = v;
	F(op, 'o') = o;
	F(op, 'n') = n;
	F(op, 'x') = rnd(8) ? 2 : rnd(3);
	F(op, 'k') = rnd(5) > 1;
}

static const struct {
	enum op_kind kind;
	unsigned int weight;
} weights[] = {
	{ OP_OPEN, 3 }, { OP_CLOSE, 3 }, { OP_SNAP, 10 }, { OP_MAP, 14 },
	{ OP_WRITE, 40 }, { OP_REMOTE, 3 }, { OP_FORK, 9 }, { OP_EXIT, 6 },
	{ OP_DISCARD, 4 }, { OP_FILL, 1 }, { OP_ADVISE, 18 }, { OP_SIZE, 2 },
	{ OP_UNMAP, 5 }, { OP_PROTECT, 5 }, { OP_MOVE, 4 }, { OP_MADVISE, 5 },
	{ OP_READ, 8 }, { OP_CHECK, 14 }, { OP_VERIFY, 2 }, { OP_FAIL, 3 },
};

static enum op_kind some_kind(void)
{
	unsigned int i, sum = 0, at;

	for (i = 0; i < ARRAY_SIZE(weights); i++)
		sum += weights[i].weight;
	at = rnd(sum);
	for (i = 0; at >= weights[i].weight; i++)
		at -= weights[i].weight;
	return weights[i].kind;
}

static bool make_page_op(struct op *op, unsigned int p)
{
	uint32_t at, n, i;

	if (!some_page(p, &at))
		return false;
	n = some_pages(p, at);
	if (op->kind == OP_ADVISE ? rnd(4) : !rnd(12))
		whole_slot(p, &at, &n);
	F(op, 'v') = at;
	F(op, 'n') = n;
	F(op, 'r') = proc[p].v[at].r;
	switch (op->kind) {
	case OP_WRITE:
		F(op, 'x') = rnd(3) ? 1 + rnd(15) :
			     16 + rnd(WORDS) + 32 * rnd(8);
		break;
	case OP_REMOTE:
		F(op, 'x') = 1 + rnd(15);
		F(op, 'n') = n > 4 ? 4 : n;
		break;
	case OP_ADVISE:
		F(op, 'x') = rnd(3) ? SPM_ADV_PROMOTE : 1 + rnd(4);
		break;
	case OP_PROTECT:
		F(op, 'x') = rnd(2) ? 2 : rnd(3);
		break;
	case OP_MADVISE:
		F(op, 'x') = rnd(ADVICES);
		break;
	case OP_MOVE:
		for (i = 1; i < F(op, 'n'); i++)
			if (proc[p].v[at + i].head)
				F(op, 'n') = i;
		F(op, 't') = rnd(ARENA / 512) * 512 + (rnd(4) ? at % 512 :
						       rnd(512));
		break;
	default:
		break;
	}
	return true;
}

static uint32_t some_size(void)
{
	return rnd(3) ? 512 * (1 + rnd(2)) : 1 + rnd(REGION_PAGES);
}

/* A random operation; whether it can be done is seen when it is tried. */
static bool make_op(struct op *op, uint32_t mark)
{
	unsigned int p = rnd(PROCS);
	uint32_t r = 0;

	memset(op, 0, sizeof(*op));
	op->kind = some_kind();
	if (!proc[p].pid)
		return false;
	F(op, 'p') = p;
	F(op, 'k') = mark;
	switch (op->kind) {
	case OP_OPEN:
		F(op, 'n') = some_size();
		return unused_region(&F(op, 'r'));
	case OP_FORK:
		F(op, 'q') = rnd(PROCS);
		return true;
	case OP_EXIT:
		F(op, 'x') = rnd(2);
		return true;
	case OP_FAIL:
		F(op, 'n') = 1 + rnd(12);
		return true;
	case OP_CHECK:
	case OP_VERIFY:
		F(op, 'p') = 0;
		return true;
	case OP_CLOSE:
	case OP_SNAP:
	case OP_MAP:
	case OP_DISCARD:
	case OP_FILL:
	case OP_SIZE:
		if (!some_region(p, &r))
			return false;
		F(op, 'r') = r;
		if (op->kind == OP_SNAP && !unused_region(&F(op, 's')))
			return false;
		F(op, 'o') = rnd(2) ? 0 : rnd(REGION_PAGES);
		F(op, 'n') = some_size();
		if (op->kind == OP_MAP)
			make_map(op, p);
		return true;
	default:
		return make_page_op(op, p);
	}
}

static void make_config(struct op *op, bool can_fail)
{
	memset(op, 0, sizeof(*op));
	op->kind = OP_CONFIG;
	F(op, 'x') = rnd(3) ? 0 : rnd(3);
	F(op, 'p') = !rnd(8);
	F(op, 'q') = 0;
	F(op, 'r') = !rnd(8);
	F(op, 's') = rnd(3) ? 0 : rnd(3);
	F(op, 'n') = rnd(3);
	F(op, 'o') = can_fail && !rnd(8);
	F(op, 'k') = rnd(1U << 30);
}

/* The beginning of every sequence: a region that is mapped twice, and filled. */
static int make_start(struct op *op, uint32_t size)
{
	static const struct op start[] = {
		{ .kind = OP_OPEN },
		{ .kind = OP_MAP },
		{ .kind = OP_ADVISE },
		{ .kind = OP_MAP },
	};
	uint32_t k;

	memcpy(op, start, sizeof(start));
	F(&op[0], 'n') = size;
	for (k = 1; k < 4; k++)
		F(&op[k], 'n') = size;
	F(&op[1], 'x') = 2;
	F(&op[2], 'x') = SPM_ADV_PROMOTE;
	F(&op[3], 'x') = 2;
	F(&op[3], 'v') = REGION_PAGES;
	F(&op[3], 'k') = 1;
	return 4;
}

static bool nobody_left(void)
{
	unsigned int p;

	for (p = 0; p < PROCS; p++)
		if (proc[p].pid)
			return false;
	return true;
}

static enum verdict random_sequence(uint64_t seed, bool can_fail,
				    struct spm_baseline *base,
				    struct script *s, unsigned long *done)
{
	enum verdict v = DONE;
	struct op op, start[4];
	int i, n, length;
	uint32_t mark = 1;

	rng = seed * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < 8; i++)
		rnd(2);
	s->n = 0;
	length = SEQUENCE / 2 + rnd(SEQUENCE);
	make_config(&op, can_fail);
	script_add(s, &op);
	world_begin(&op);
	n = make_start(start, some_size());
	for (i = 0; i < n + length && v != FAILED && !nobody_left();) {
		if (i < n)
			op = start[i];
		else if (!make_op(&op, mark))
			continue;
		script_add(s, &op);
		v = carry_out(&op);
		if (v == SKIPPED && i >= n) {
			s->n--;
			continue;
		}
		i++;
		mark++;
		++*done;
	}
	return finish(v, base);
}

/* -- the shortest script that still fails -------------------------------------------------- */

/* Leave out one part of @parts after the other. */
static bool leave_out(struct script *s, int parts, struct spm_baseline *base,
		      double end)
{
	int size = (s->n + parts - 1) / parts, at, i;
	struct script less = { };
	bool progress = false;

	for (at = 0; at < s->n && !stuck && spm_now() < end;) {
		less.n = 0;
		for (i = 0; i < s->n; i++)
			if (i < at || i >= at + size || !i)
				script_add(&less, &s->op[i]);
		if (less.n < s->n && replay(&less, base) == FAILED) {
			s->n = 0;
			for (i = 0; i < less.n; i++)
				script_add(s, &less.op[i]);
			progress = true;
		} else {
			at += size;
		}
	}
	free(less.op);
	return progress;
}

/* Smaller ranges are easier to think about. */
static void make_smaller(struct script *s, struct spm_baseline *base, double end)
{
	struct op old;
	int i;

	for (i = 1; i < s->n && !stuck && spm_now() < end; i++) {
		if (F(&s->op[i], 'n') < 2 || s->op[i].kind == OP_OPEN)
			continue;
		old = s->op[i];
		F(&s->op[i], 'n') = s->op[i].kind == OP_MAP ? 512 : 1;
		if (F(&old, 'n') > F(&s->op[i], 'n') &&
		    replay(s, base) == FAILED)
			continue;
		s->op[i] = old;
	}
}

static void print_script(const struct script *s)
{
	int i;

	for (i = 0; i < s->n; i++)
		op_print(&s->op[i]);
}

static void explain(struct script *s, uint64_t seed, struct spm_baseline *base)
{
	double end = spm_now() + SHRINK_SECONDS;
	int parts;

	fprintf(stderr, "# SPM_MODEL_SEED=%llu, after %d operations: %s\n",
		(unsigned long long)seed, s->n, failure);
	print_script(s);
	if (stuck)
		return;
	if (replay(s, base) != FAILED) {
		fprintf(stderr, "# it does not fail again\n");
		return;
	}
	for (parts = 2; parts < 2 * s->n && spm_now() < end;) {
		if (!leave_out(s, parts < s->n ? parts : s->n, base, end))
			parts *= 2;
	}
	make_smaller(s, base, end);
	/* Once more, for what it says. */
	replay(s, base);
	fprintf(stderr, "# %d operations suffice: %s\n", s->n, failure);
	print_script(s);
}

/* -- tests ----------------------------------------------------------------------------------- */

static void prepare(void)
{
	unsigned int i;

	/* Workers whose parents end are ours; nobody waits for them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGCHLD, SIG_IGN);
	verbose = getenv("SPM_MODEL_VERBOSE");
	world_init();
	for (i = 0; i < PROCS; i++) {
		fcntl(world.to[i][0], F_SETFL, O_NONBLOCK);
		fcntl(world.from[i][0], F_SETFL, O_NONBLOCK);
	}
}

static unsigned int seconds(void)
{
	const char *s = getenv("SPM_MODEL_SECONDS");

	/* Ten minutes in a full run, which has it on two kernels. */
	return s ? atoi(s) : 300;
}

/* Scripts that failed once. */
static const char * const regressions[] = {
	/* A page of each side, a child that ends first. */
	"config x0\n"
	"open p0 r0 n1024\n"
	"map p0 r0 v0 o0 n1024 x2 k0\n"
	"advise p0 r0 v0 n1024 x2\n"
	"write p0 v0 n1024 x15 k1\n"
	"map p0 r0 v1024 o0 n1024 x2 k1\n"
	"write p0 v1031 n1 x15 k2\n"
	"fork p0 q1\n"
	"write p1 v1032 n1 x15 k3\n"
	"write p0 v1033 n1 x15 k4\n"
	"snapshot p0 r0 s1\n"
	"write p0 v5 n1 x15 k5\n"
	"check\n"
	"exit p1\n"
	"check\n"
	"advise p0 r0 v1024 n512 x4\n"
	"write p0 v7 n1 x15 k6\n",
};

static void parse(struct script *s, const char *text)
{
	const char *end;
	char line[256];
	struct op op;

	s->n = 0;
	for (; *text; text = *end ? end + 1 : end) {
		end = text + strcspn(text, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)(end - text), text);
		if (op_parse(line, &op))
			script_add(s, &op);
	}
}

static char *read_file(const char *path)
{
	size_t room = 1 << 20, n;
	char *text = malloc(room);
	FILE *f = fopen(path, "r");

	if (!f || !text)
		spm_die("%s", path);
	n = fread(text, 1, room - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

TEST_F_TIMEOUT(spm, scripts, 120)
{
	const char *path = getenv("SPM_MODEL_SCRIPT");
	struct script s = { };
	size_t i;

	prepare();
	for (i = 0; i < (path ? 1 : ARRAY_SIZE(regressions)); i++) {
		parse(&s, path ? read_file(path) : regressions[i]);
		EXPECT_NE(FAILED, replay(&s, &self->base)) {
			TH_LOG("script %zu: %s", i, failure);
		}
	}
}

TEST_F_TIMEOUT(spm, random_sequences, TIMEOUT)
{
	const char *given = getenv("SPM_MODEL_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) :
				(uint64_t)time(NULL) * 1000;
	double start = spm_now(), last = start;
	unsigned long done = 0, n = 0;
	struct script s = { };
	bool can_fail;

	if (getenv("SPM_MODEL_SCRIPT"))
		SKIP(return, "a script is given");
	prepare();
	can_fail = spm_fail_available();
	if (can_fail)
		spm_fail_huge_setup();
	TH_LOG("SPM_MODEL_SEED=%llu", (unsigned long long)seed);
	for (; spm_now() - start < seconds(); n++, seed++) {
		ASSERT_NE(FAILED, random_sequence(seed, can_fail, &self->base,
						  &s, &done)) {
			explain(&s, seed, &self->base);
		}
		if (spm_now() - last < 20)
			continue;
		last = spm_now();
		TH_LOG("%lu sequences, %lu operations; next SPM_MODEL_SEED=%llu",
		       n + 1, done, (unsigned long long)seed + 1);
	}
	if (can_fail)
		spm_fail_huge_off();
	TH_LOG("%lu sequences, %lu operations", n, done);
}

SPM_TEST_MAIN
