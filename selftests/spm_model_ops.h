/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cow_model.c's operations: each is carried out by a worker, and done to the
 * model.
 */
#ifndef SPM_MODEL_OPS_H
#define SPM_MODEL_OPS_H

#include "spm_model_state.h"

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
	/* The step that fails could be that of delivering the signal. */
	for (i = 0; i < n && op->kind == OP_WRITE && proc[p].failing; i++)
		if (wanted_signal(&v[i], true))
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
	if ((op->kind == OP_REMOTE ? store_remotely(op, p) : tell(p, op)) == FAILED)
		return FAILED;
	if (op->kind != OP_REMOTE)
		proc[p].failing = false;
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

static enum verdict do_fail(const struct op *op, unsigned int p)
{
	if (!spm_fail_available())
		return SKIPPED;
	proc[p].failing = true;
	return tell_want(op, 0);
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
	[OP_FAIL] = do_fail,
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

#endif /* SPM_MODEL_OPS_H */
