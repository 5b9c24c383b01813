/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cow_model.c's model: what each page of each process must hold, and the
 * comparison with what the workers see.
 */
#ifndef SPM_MODEL_STATE_H
#define SPM_MODEL_STATE_H

#include "spm_model.h"

#define HOT		6		/* pages of a slot that most is done to */

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
	bool failing;			/* its next store is to find no memory */
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

/* Of the pages that little is done to, all or one in eight. */
static bool is_looked_at(uint32_t pgoff)
{
	uint32_t k = F(&config, 'k');

	return !(k % 4) || (pgoff ^ k) % 8 == 0;
}

static enum verdict compare_all(bool at_the_end)
{
	const struct vpage *v;
	unsigned int p;
	uint32_t i;

	for (p = 0; p < PROCS; p++) {
		if (!proc[p].pid)
			continue;
		world.ch[p].n = 0;
		for (i = 0; i < ARENA; i++) {
			v = &proc[p].v[i];
			if (v->kind != NOTHING &&
			    (is_hot(v->pgoff) ||
			     (at_the_end && is_looked_at(v->pgoff))))
				list_add(p, i);
		}
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

#endif /* SPM_MODEL_STATE_H */
