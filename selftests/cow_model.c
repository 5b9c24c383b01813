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
 * spm-test: timeout=900
 */
#include <sys/prctl.h>

#include "spm_fail.h"
#include "spm_model.h"

#define TIMEOUT		850
#define SHRINK_SECONDS	150
#define SEQUENCE	48		/* operations, on average */
#define HOT		6		/* pages of a slot that most is done to */

/* -- the model ---------------------------------------------------------------- */

struct content {
	uint64_t w[WORDS];
};

enum kind { NOTHING, SHARED, PRIVATE };

/*
 * A request may copy pages ahead.  Then a page is the mapping's own, with the
 * content it had, or it is not: the next load that can tell decides.
 */
enum own { THEIRS, OWN, EITHER };

struct vpage {
	uint8_t kind, r, prot, own;
	bool head;			/* a VMA begins here */
	uint32_t pgoff;
	struct content c;		/* if OWN or EITHER */
};

struct region {
	bool used;
	unsigned int fds;		/* mask of processes */
	uint32_t pages;
	struct content c[REGION_PAGES];
};

struct proc {
	pid_t pid;			/* 0: none */
	struct vpage v[ARENA + 1];
};

static struct region region[REGIONS];
static struct proc proc[PROCS];
static struct op config;
static uint32_t hot[HOT];
static bool verbose;
static char failure[256];

#define fail(fmt, ...) \
	(snprintf(failure, sizeof(failure), fmt, ##__VA_ARGS__), FAILED)

enum verdict { DONE, SKIPPED, FAILED };

static struct content *live(const struct vpage *v)
{
	return &region[v->r].c[v->pgoff];
}

static bool same(const struct content *a, const struct content *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static int wanted_signal(const struct vpage *v, bool write)
{
	if (v->prot < (write ? 2 : 1))
		return SIGSEGV;
	return v->pgoff < region[v->r].pages ? 0 : SIGBUS;
}

/* -- talking to workers --------------------------------------------------------- */

static bool gone(pid_t pid)
{
	return kill(pid, 0) && errno == ESRCH;
}

static bool wait_gone(pid_t pid)
{
	int i;

	for (i = 0; i < 20000; i++) {
		if (gone(pid))
			return true;
		usleep(i < 100 ? 100 : 1000);
	}
	return false;
}

/* Where is it? */
static void print_file(pid_t pid, const char *name)
{
	char path[64], text[1024];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "r");
	while (f && fgets(text, sizeof(text), f))
		fprintf(stderr, "# %s: %s", path, text);
	fprintf(stderr, "\n");
	if (f)
		fclose(f);
}

static enum verdict tell(unsigned int p, const struct op *op)
{
	struct pollfd pfd = { .fd = world.from[p][0], .events = POLLIN };
	char c = 0;
	int i;

	world.ch[p].op = *op;
	if (write(world.to[p][1], &c, 1) != 1)
		spm_die("pipe");
	for (i = 0; i < 60; i++) {
		if (poll(&pfd, 1, 1000) == 1)
			return read(pfd.fd, &c, 1) == 1 ? DONE : FAILED;
		if (gone(proc[p].pid))
			return fail("p%u died in %s", p,
				    op_names[op->kind].name);
	}
	print_file(proc[p].pid, "stack");
	print_file(proc[p].pid, "stat");
	print_file(proc[p].pid, "syscall");
	return fail("p%u does not come back from %s", p,
		    op_names[op->kind].name);
}

/* ... and the result must be this. */
static enum verdict tell_want(const struct op *op, int want)
{
	unsigned int p = F(op, 'p');
	int ret;

	if (tell(p, op) == FAILED)
		return FAILED;
	ret = world.ch[p].ret;
	if (ret != want)
		return fail("%s by p%u gave %d, not %d",
			    op_names[op->kind].name, p, ret, want);
	return DONE;
}

/* -- comparing -------------------------------------------------------------------- */

static void list_add(unsigned int p, uint32_t at)
{
	struct channel *ch = &world.ch[p];

	ch->page[ch->n].v = at;
	ch->page[ch->n++].pgoff = proc[p].v[at].pgoff;
}

static enum verdict mismatch(unsigned int p, uint32_t at,
			     const struct content *got,
			     const struct content *want)
{
	static const char * const owns[] = { "not its own", "its own",
					     "perhaps its own" };
	const struct vpage *v = &proc[p].v[at];
	int i = 0;

	while (i < WORDS - 1 && got->w[i] == want->w[i])
		i++;
	return fail("p%u page %u (r%u page %u, %s%s): word %d is %#llx, not %#llx",
		    p, at, v->r, v->pgoff,
		    v->kind == PRIVATE ? "private, " : "shared",
		    v->kind == PRIVATE ? owns[v->own] : "", i,
		    (unsigned long long)got->w[i],
		    (unsigned long long)want->w[i]);
}

static enum verdict compare(unsigned int p, uint32_t at, const struct seen *s)
{
	struct vpage *v = &proc[p].v[at];
	int sig = wanted_signal(v, false);
	struct content got;

	if (s->sig != sig)
		return fail("p%u page %u (r%u page %u): a load raised %d, not %d",
			    p, at, v->r, v->pgoff, s->sig, sig);
	if (sig)
		return DONE;
	memcpy(got.w, s->w, sizeof(got));
	if (v->kind == SHARED || v->own == THEIRS)
		return same(&got, live(v)) ? DONE :
		       mismatch(p, at, &got, live(v));
	if (v->own == EITHER && !same(&v->c, live(v)) && same(&got, live(v))) {
		v->own = THEIRS;
		return DONE;
	}
	if (!same(&got, &v->c))
		return mismatch(p, at, &got, &v->c);
	if (v->own == EITHER && !same(&v->c, live(v)))
		v->own = OWN;
	return DONE;
}

/* Load the pages that are on the list, and compare. */
static enum verdict compare_list(unsigned int p)
{
	struct op op = { .kind = OP_READ };
	struct channel *ch = &world.ch[p];
	uint32_t i;

	if (!ch->n)
		return DONE;
	if (tell(p, &op) == FAILED)
		return FAILED;
	for (i = 0; i < ch->n; i++)
		if (compare(p, ch->page[i].v, &ch->seen[i]) == FAILED)
			return FAILED;
	return DONE;
}

static bool is_hot(uint32_t pgoff)
{
	int i;

	for (i = 0; i < HOT; i++)
		if (pgoff % 512 == hot[i])
			return true;
	return false;
}

static enum verdict compare_all(bool every_page)
{
	unsigned int p;
	uint32_t i;

	for (p = 0; p < PROCS; p++) {
		if (!proc[p].pid)
			continue;
		world.ch[p].n = 0;
		for (i = 0; i < ARENA; i++)
			if (proc[p].v[i].kind != NOTHING &&
			    (every_page || is_hot(proc[p].v[i].pgoff)))
				list_add(p, i);
		if (compare_list(p) == FAILED)
			return FAILED;
	}
	return DONE;
}

/*
 * Decide pages of private mappings of @r in the slots of [o, o + n) that may be
 * the mapping's own, so that they can get there again; false if that cannot be
 * done.
 */
static enum verdict decide(unsigned int p, uint32_t r, uint32_t o, uint32_t n)
{
	struct vpage *v = proc[p].v;
	uint32_t i;

	world.ch[p].n = 0;
	for (i = 0; i < ARENA; i++) {
		if (v[i].kind != PRIVATE || v[i].r != r || v[i].own != EITHER ||
		    v[i].pgoff / 512 < o / 512 ||
		    v[i].pgoff / 512 > (o + n - 1) / 512 ||
		    same(&v[i].c, live(&v[i])))
			continue;
		if (wanted_signal(&v[i], false))
			return SKIPPED;
		list_add(p, i);
	}
	return compare_list(p);
}

/* Pages there may be copied ahead from now on. */
static void copied_ahead(unsigned int p, uint32_t r, uint32_t o, uint32_t n)
{
	struct vpage *v = proc[p].v;
	uint32_t i;

	for (i = 0; i < ARENA; i++) {
		if (v[i].kind != PRIVATE || v[i].r != r || v[i].own == OWN ||
		    v[i].pgoff / 512 < o / 512 ||
		    v[i].pgoff / 512 > (o + n - 1) / 512)
			continue;
		/* What was undecided holds the same either way by now. */
		v[i].own = EITHER;
		v[i].c = *live(&v[i]);
	}
}

/* -- operations: carry one out, and do the same to the model ------------------------ */

static bool in_arena(uint32_t v, uint32_t n)
{
	return n && v < ARENA && n <= ARENA - v;
}

/* All pages of one region, in order, mapped alike. */
static bool one_piece(unsigned int p, uint32_t at, uint32_t n)
{
	const struct vpage *v = &proc[p].v[at];
	uint32_t i;

	if (!in_arena(at, n) || v->kind == NOTHING)
		return false;
	for (i = 1; i < n; i++)
		if (v[i].kind != v->kind || v[i].r != v->r ||
		    v[i].pgoff != v->pgoff + i)
			return false;
	return true;
}

static bool one_vma(unsigned int p, uint32_t at, uint32_t n)
{
	uint32_t i;

	if (!one_piece(p, at, n))
		return false;
	for (i = 1; i < n; i++)
		if (proc[p].v[at + i].head)
			return false;
	return true;
}

static bool all_mapped(unsigned int p, uint32_t at, uint32_t n)
{
	uint32_t i;

	if (!in_arena(at, n))
		return false;
	for (i = 0; i < n; i++)
		if (proc[p].v[at + i].kind == NOTHING)
			return false;
	return true;
}

static void split(unsigned int p, uint32_t at, uint32_t n)
{
	proc[p].v[at].head = true;
	proc[p].v[at + n].head = true;
}

static bool has_fd(unsigned int p, uint32_t r)
{
	return r < REGIONS && region[r].used && region[r].fds >> p & 1;
}

static bool within(uint32_t r, uint32_t o, uint32_t n)
{
	return n && o < region[r].pages && n <= region[r].pages - o;
}

static enum verdict do_open(const struct op *op, unsigned int p)
{
	uint32_t r = F(op, 'r');

	if (r >= REGIONS || region[r].used || !F(op, 'n') ||
	    F(op, 'n') > REGION_PAGES)
		return SKIPPED;
	if (tell_want(op, 0) == FAILED)
		return FAILED;
	memset(&region[r], 0, sizeof(region[r]));
	region[r].used = true;
	region[r].fds = 1U << p;
	region[r].pages = F(op, 'n');
	return DONE;
}

static enum verdict do_close(const struct op *op, unsigned int p)
{
	if (!has_fd(p, F(op, 'r')))
		return SKIPPED;
	region[F(op, 'r')].fds &= ~(1U << p);
	return tell_want(op, 0);
}

static enum verdict do_snapshot(const struct op *op, unsigned int p)
{
	uint32_t r = F(op, 'r'), s = F(op, 's');

	if (!has_fd(p, r) || s >= REGIONS || region[s].used)
		return SKIPPED;
	if (tell_want(op, 0) == FAILED)
		return FAILED;
	region[s] = region[r];
	region[s].fds = 1U << p;
	return DONE;
}

static enum verdict do_map(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), o = F(op, 'o'), i;

	if (!has_fd(p, F(op, 'r')) || !in_arena(at, n) ||
	    o + n > REGION_PAGES)
		return SKIPPED;
	if (tell_want(op, 0) == FAILED)
		return FAILED;
	for (i = 0; i < n; i++)
		proc[p].v[at + i] = (struct vpage){
			.kind = F(op, 'k') ? PRIVATE : SHARED,
			.r = F(op, 'r'),
			.prot = F(op, 'x'),
			.pgoff = o + i,
		};
	split(p, at, n);
	return DONE;
}

/* Does a store copy more than the page it is for? */
static bool copies_ahead(void)
{
	return F(&config, 'x') || F(&config, 'r');
}

static void stored(struct vpage *v, const struct op *op)
{
	struct content *c = live(v);
	int i;

	if (v->kind == PRIVATE) {
		if (v->own == THEIRS)
			v->c = *c;
		v->own = OWN;
		c = &v->c;
	}
	for (i = 0; i < WORDS; i++)
		c->w[i] = store_value(op, v->pgoff, i, c->w[i]);
}

/* By the model itself, into the memory of the worker. */
static enum verdict store_remotely(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), i;
	uint64_t word;
	ssize_t got;
	int k;

	for (i = 0; i < n; i++) {
		const struct vpage *v = &proc[p].v[at + i];
		int sig = wanted_signal(v, true);

		for (k = 0; k < WORDS; k++) {
			struct iovec from = { &word, 8 }, to = {
				arena_at(at + i) + 8 * word_at(v->pgoff, k), 8 };

			word = word_value(F(op, 'k'), v->pgoff, k);
			if (F(op, 'x') & 16 || !(F(op, 'x') >> k & 1))
				continue;
			got = process_vm_writev(proc[p].pid, &from, 1, &to, 1,
						0);
			if (got != (sig ? -1 : 8))
				return fail("remote store to p%u page %u gave %zd",
					    p, at + i, got);
		}
	}
	return DONE;
}

static enum verdict do_write(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), i;
	struct vpage *v = &proc[p].v[at];
	bool ahead;
	int sig;

	if (!one_piece(p, at, n) ||
	    (op->kind == OP_REMOTE && F(op, 'x') & 16))
		return SKIPPED;
	ahead = v->kind == PRIVATE && copies_ahead();
	if (v->kind == PRIVATE) {
		enum verdict d = decide(p, v->r, v->pgoff, n);

		if (d != DONE)
			return d;
	}
	world.ch[p].n = 0;
	for (i = 0; i < n; i++)
		list_add(p, at + i);
	if (op->kind == OP_REMOTE) {
		if (store_remotely(op, p) == FAILED)
			return FAILED;
	} else if (tell(p, op) == FAILED) {
		return FAILED;
	}
	if (ahead)
		copied_ahead(p, v->r, v->pgoff, n);
	for (i = 0; i < n; i++) {
		sig = wanted_signal(&v[i], true);
		if (op->kind == OP_WRITE && world.ch[p].seen[i].sig != sig)
			return fail("p%u page %u (r%u page %u): a store raised %d, not %d",
				    p, at + i, v[i].r, v[i].pgoff,
				    world.ch[p].seen[i].sig, sig);
		if (!sig)
			stored(&v[i], op);
	}
	return DONE;
}

static enum verdict do_fork(const struct op *op, unsigned int p)
{
	unsigned int q = F(op, 'q');
	int i;

	if (q >= PROCS || proc[q].pid)
		return SKIPPED;
	if (tell(p, op) == FAILED)
		return FAILED;
	if (world.ch[p].ret <= 0)
		return fail("fork by p%u gave %d", p, world.ch[p].ret);
	proc[q] = proc[p];
	proc[q].pid = world.ch[p].ret;
	for (i = 0; i < REGIONS; i++)
		region[i].fds |= (region[i].fds >> p & 1) << q;
	return DONE;
}

static enum verdict do_exit(const struct op *op, unsigned int p)
{
	pid_t pid = proc[p].pid;
	char c = 0;
	int i;

	world.ch[p].op = *op;
	if (F(op, 'x'))
		kill(pid, SIGKILL);
	else if (write(world.to[p][1], &c, 1) != 1)
		spm_die("pipe");
	proc[p].pid = 0;
	for (i = 0; i < REGIONS; i++)
		region[i].fds &= ~(1U << p);
	if (!wait_gone(pid))
		return fail("p%u does not end", p);
	return DONE;
}

static enum verdict do_discard(const struct op *op, unsigned int p)
{
	uint32_t r = F(op, 'r');

	if (!has_fd(p, r) || !within(r, F(op, 'o'), F(op, 'n')))
		return SKIPPED;
	if (op->kind == OP_DISCARD)
		memset(&region[r].c[F(op, 'o')], 0,
		       F(op, 'n') * sizeof(struct content));
	return tell_want(op, 0);
}

static void discarded(struct vpage *v)
{
	if (v->kind == PRIVATE) {
		v->own = OWN;
		memset(&v->c, 0, sizeof(v->c));
	} else {
		memset(live(v), 0, sizeof(v->c));
	}
}

/* All of the range must be mapped, accessible, and inside the region. */
static enum verdict do_advise(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), r = F(op, 'r'), i;
	struct vpage *v = &proc[p].v[at];
	enum verdict d;

	if (!has_fd(p, r) || !all_mapped(p, at, n) || !F(op, 'x') ||
	    F(op, 'x') > 4)
		return SKIPPED;
	for (i = 0; i < n; i++)
		if (v[i].r != r || wanted_signal(&v[i], false))
			return SKIPPED;
	if (F(op, 'x') == SPM_ADV_PREFAULT || F(op, 'x') == SPM_ADV_PROMOTE) {
		for (i = 0; i < n; i++) {
			d = v[i].kind == PRIVATE && (!i || v[i].head ||
						     !(v[i].pgoff % 512)) ?
			    decide(p, r, v[i].pgoff, 1) : DONE;
			if (d != DONE)
				return d;
		}
	}
	if (tell_want(op, 0) == FAILED)
		return FAILED;
	for (i = 0; i < n; i++) {
		if (F(op, 'x') == SPM_ADV_DISCARD)
			discarded(&v[i]);
		else if (F(op, 'x') != SPM_ADV_DEMOTE &&
			 v[i].kind == PRIVATE && (!i || v[i].head ||
						  !(v[i].pgoff % 512)))
			copied_ahead(p, r, v[i].pgoff, 1);
	}
	return DONE;
}

static enum verdict do_size(const struct op *op, unsigned int p)
{
	uint32_t r = F(op, 'r'), n = F(op, 'n'), i;
	struct vpage *v;
	unsigned int q;

	if (!has_fd(p, r) || n > REGION_PAGES)
		return SKIPPED;
	if (tell_want(op, 0) == FAILED)
		return FAILED;
	region[r].pages = n;
	memset(&region[r].c[n], 0, (REGION_PAGES - n) * sizeof(struct content));
	/* If it grows again, they are nobody's, or zeros of their own. */
	for (q = 0; q < PROCS; q++) {
		for (i = 0; i < ARENA; i++) {
			v = &proc[q].v[i];
			if (v->kind != PRIVATE || v->r != r || v->pgoff < n)
				continue;
			v->own = EITHER;
			memset(&v->c, 0, sizeof(v->c));
		}
	}
	return DONE;
}

static enum verdict do_unmap(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n');

	if (!in_arena(at, n))
		return SKIPPED;
	memset(&proc[p].v[at], 0, n * sizeof(struct vpage));
	split(p, at, n);
	return tell_want(op, 0);
}

static enum verdict do_protect(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), i;

	if (!all_mapped(p, at, n) || F(op, 'x') > 2)
		return SKIPPED;
	for (i = 0; i < n; i++)
		proc[p].v[at + i].prot = F(op, 'x');
	split(p, at, n);
	return tell_want(op, 0);
}

static enum verdict do_move(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), to = F(op, 't');
	struct vpage *v = proc[p].v;

	if (!one_vma(p, at, n) || !in_arena(to, n) ||
	    (at < to + n && to < at + n))
		return SKIPPED;
	if (tell_want(op, 0) == FAILED)
		return FAILED;
	memcpy(&v[to], &v[at], n * sizeof(*v));
	memset(&v[at], 0, n * sizeof(*v));
	split(p, at, n);
	split(p, to, n);
	return DONE;
}

static enum verdict do_madvise(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n');
	struct vpage *v = &proc[p].v[at];
	enum verdict d;

	if (!one_piece(p, at, n) || F(op, 'x') >= ADVICES)
		return SKIPPED;
	if (advices[F(op, 'x')] == MADV_POPULATE_WRITE && v->kind == PRIVATE) {
		d = decide(p, v->r, v->pgoff, n);
		if (d != DONE)
			return d;
		copied_ahead(p, v->r, v->pgoff, n);
	}
	split(p, at, n);
	return tell_want(op, 0);
}

static enum verdict do_read(const struct op *op, unsigned int p)
{
	uint32_t at = F(op, 'v'), n = F(op, 'n'), i;

	if (!in_arena(at, n))
		return SKIPPED;
	world.ch[p].n = 0;
	for (i = at; i < at + n; i++)
		if (proc[p].v[i].kind != NOTHING)
			list_add(p, i);
	return compare_list(p);
}

static void set(const char *name, uint32_t i, const char *const *values)
{
	if (spm_param_set(name, values[i]))
		spm_die("%s=%s", name, values[i]);
}

static enum verdict do_config(const struct op *op)
{
	static const char * const sizes[] = { "4K", "2M", "auto" };
	static const char * const yes[] = { "1", "0" };
	static const char * const populate[] = { "512", "64" };
	static const char * const dirty[] = { "511", "0", "8" };
	static const char * const prefault[] = { "4", "0", "64" };
	uint32_t k = F(op, 'k') | 1;
	int i;

	set("cow_size", F(op, 'x') % 3, sizes);
	set("pg_ps_enabled", F(op, 'p') % 2, yes);
	set("populate_threshold", F(op, 'r') % 2, populate);
	set("dirty_threshold", F(op, 's') % 3, dirty);
	set("prefault_pages", F(op, 'n') % 3, prefault);
	config = *op;
	hot[0] = 0;
	hot[1] = 511;
	for (i = 2; i < HOT; i++) {
		k = k * 1664525 + 1013904223;
		hot[i] = (k >> 16) % 512;
	}
	return DONE;
}

static enum verdict (* const doing[])(const struct op *op, unsigned int p) = {
	[OP_OPEN] = do_open,
	[OP_CLOSE] = do_close,
	[OP_SNAP] = do_snapshot,
	[OP_MAP] = do_map,
	[OP_WRITE] = do_write,
	[OP_REMOTE] = do_write,
	[OP_FORK] = do_fork,
	[OP_EXIT] = do_exit,
	[OP_DISCARD] = do_discard,
	[OP_FILL] = do_discard,
	[OP_ADVISE] = do_advise,
	[OP_SIZE] = do_size,
	[OP_UNMAP] = do_unmap,
	[OP_PROTECT] = do_protect,
	[OP_MOVE] = do_move,
	[OP_MADVISE] = do_madvise,
	[OP_READ] = do_read,
};

/* An operation that has no meaning here is skipped: others were left out. */
static enum verdict carry_out(const struct op *op)
{
	unsigned int p = F(op, 'p');

	if (verbose)
		op_print(op);
	switch (op->kind) {
	case OP_CONFIG:
		return do_config(op);
	case OP_CHECK:
		return compare_all(false);
	case OP_VERIFY:
		return spm_verify() ? fail("verify finds differences") : DONE;
	default:
		if (p >= PROCS || !proc[p].pid)
			return SKIPPED;
		return doing[op->kind](op, p);
	}
}

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
	{ OP_READ, 8 }, { OP_CHECK, 14 }, { OP_VERIFY, 2 },
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

	/* Ten minutes on all kernels together. */
	return s ? atoi(s) : spm_slow_kernel() ? 480 : 60;
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
