/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The two ends of cow_model.c: operations, as a readable script, and the worker
 * processes that carry them out.  The model itself is in cow_model.c.
 *
 * A worker does one operation at a time, from memory that it shares with the
 * model, and forks other workers; all live at the same addresses, in an arena
 * that is reserved before the first of them.
 */
#ifndef SPM_MODEL_H
#define SPM_MODEL_H

#include "spm_fail.h"
#include "spm_sync.h"

#include <poll.h>
#include <sys/uio.h>

#define PROCS		5
#define REGIONS		24
#define REGION_PAGES	1024U		/* at most */
#define ARENA		3072U		/* pages that a process can map */
#define WORDS		4		/* of each page that are looked at */
#define FD_BASE		200		/* region r is descriptor FD_BASE + r */

/*
 * X(kind, name, fields, what the fields mean).  A field is a letter:
 * p process, q another, r region, s another, v page of the arena, t another,
 * o page of the region, n pages, x and k as told.
 */
#define OPS(X)								\
	X(CONFIG, "config", "xpqrsonk", "x cow_size p superpages "	\
	  "q prefault r populate s dirty n prefault_pages "		\
	  "o no-huge-blocks k seed of hot pages")			\
	X(OPEN, "open", "prn", "region r of n pages")			\
	X(CLOSE, "close", "pr", "")					\
	X(SNAP, "snapshot", "prs", "s is r")				\
	X(MAP, "map", "prvonxk", "x protection, k private")		\
	X(WRITE, "write", "pvnxk", "x words, k mark")			\
	X(REMOTE, "remote", "pvnxk", "the same from outside")		\
	X(FORK, "fork", "pq", "p makes q")				\
	X(EXIT, "exit", "px", "x killed")				\
	X(DISCARD, "discard", "pron", "by offset")			\
	X(FILL, "fill", "pron", "PREFAULT by offset")			\
	X(ADVISE, "advise", "prvnx", "by address, x advice")		\
	X(SIZE, "size", "prn", "")					\
	X(UNMAP, "unmap", "pvn", "")					\
	X(PROTECT, "protect", "pvnx", "")				\
	X(MOVE, "move", "pvnt", "to t")					\
	X(MADVISE, "madvise", "pvnx", "x advice")			\
	X(READ, "read", "pvn", "and compare")				\
	X(FAIL, "fail", "pn", "no memory at step n of the next store")	\
	X(CHECK, "check", "", "hot pages, everybody")			\
	X(VERIFY, "verify", "", "books against page tables")

enum op_kind {
#define X(kind, name, fields, what) OP_##kind,
	OPS(X)
#undef X
	OP_KINDS
};

struct op {
	uint32_t kind;
	uint32_t f[26];			/* by letter */
};

#define F(op, letter)	((op)->f[(letter) - 'a'])

static const struct {
	const char *name, *fields, *what;
} op_names[] = {
#define X(kind, name, fields, what) { name, fields, what },
	OPS(X)
#undef X
};

static inline void op_print(const struct op *op)
{
	const char *f = op_names[op->kind].fields;

	fprintf(stderr, "#   %s", op_names[op->kind].name);
	for (; *f; f++)
		fprintf(stderr, " %c%u", *f, F(op, *f));
	fprintf(stderr, "\n");
}

/* One line of a script; false for those that hold no operation. */
static inline bool op_parse(const char *line, struct op *op)
{
	char name[16], letter;
	uint32_t value;
	int at, k;

	line += strspn(line, "# \t");
	if (sscanf(line, "%15s%n", name, &at) != 1)
		return false;
	memset(op, 0, sizeof(*op));
	for (k = 0; k < OP_KINDS; k++)
		if (!strcmp(op_names[k].name, name))
			break;
	if (k == OP_KINDS)
		return false;
	op->kind = k;
	for (line += at; sscanf(line, " %c%u%n", &letter, &value, &at) == 2;
	     line += at)
		if (letter >= 'a' && letter <= 'z')
			F(op, letter) = value;
	return true;
}

/* Which words of a page are used: the ends, and two that depend on the page. */
static inline unsigned int word_at(uint32_t pgoff, unsigned int i)
{
	static const unsigned int mul[WORDS] = { 0, 0, 37, 181 };
	unsigned int last = SPM_PAGE / 8 - 1;

	if (i < 2)
		return i ? last : 0;
	/* Odd ones and even ones, so that they differ. */
	return 1 + pgoff * mul[i] % 254 * 2 + (i & 1);
}

/* What is stored: who, where, which word; never 0. */
static inline uint64_t word_value(uint32_t mark, uint32_t pgoff, unsigned int i)
{
	return (uint64_t)mark << 32 | pgoff << 8 | i << 4 | 1;
}

/*
 * The store of WRITE and REMOTE: x is a mask of words, or 16 + word + 32 * byte
 * for one byte.
 */
static inline uint64_t store_value(const struct op *op, uint32_t pgoff,
				   unsigned int i, uint64_t old)
{
	uint32_t x = F(op, 'x');
	uint64_t v = word_value(F(op, 'k'), pgoff, i);
	unsigned int shift = (x >> 5) % 8 * 8;

	if (!(x & 16))
		return x >> i & 1 ? v : old;
	if ((x & 3) != i)
		return old;
	v = 0x80 | (F(op, 'k') & 0x7f);
	return (old & ~(0xffULL << shift)) | v << shift;
}

struct seen {
	uint64_t w[WORDS];
	int sig;
};

/* What the model and worker p share. */
struct channel {
	struct op op;
	int ret;			/* 0 or -errno; of fork: the pid */
	uint32_t n;			/* pages of READ and WRITE: */
	struct {
		uint32_t v, pgoff;
	} page[ARENA];
	struct seen seen[ARENA];
};

static struct world {
	char *arena;
	struct channel *ch;		/* [PROCS] */
	int to[PROCS][2], from[PROCS][2];
} world;

static inline char *arena_at(uint32_t v)
{
	return world.arena + v * SPM_PAGE;
}

static inline void world_init(void)
{
	unsigned int i;

	world.arena = spm_reserve(ARENA * SPM_PAGE, 0);
	world.ch = spm_shared(PROCS * sizeof(*world.ch));
	for (i = 0; i < PROCS; i++)
		if (pipe(world.to[i]) || pipe(world.from[i]))
			spm_die("pipe");
}

/* -- worker ---------------------------------------------------------------- */

/* The page at which an access faults is left out, the rest goes on. */
struct walk {
	struct channel *ch;
	volatile uint32_t i;
};

static void walk_pages(void *arg)
{
	struct walk *w = arg;
	struct channel *ch = w->ch;
	const struct op *op = &ch->op;
	volatile uint64_t *page;
	unsigned int k, at;
	uint32_t pgoff;

	for (; w->i < ch->n; w->i++) {
		page = (uint64_t *)arena_at(ch->page[w->i].v);
		pgoff = ch->page[w->i].pgoff;
		ch->seen[w->i].sig = 0;
		for (k = 0; k < WORDS; k++) {
			at = word_at(pgoff, k);
			if (op->kind == OP_READ) {
				ch->seen[w->i].w[k] = page[at];
			} else if (F(op, 'x') & 16) {
				if ((F(op, 'x') & 3) == k)
					((volatile uint8_t *)&page[at])
						[(F(op, 'x') >> 5) % 8] =
						0x80 | (F(op, 'k') & 0x7f);
			} else if (F(op, 'x') >> k & 1) {
				page[at] = word_value(F(op, 'k'), pgoff, k);
			}
		}
	}
}

static unsigned int fail_at;		/* of this worker */

static void work_pages(struct channel *ch)
{
	struct walk w = { .ch = ch };
	int sig, fd = -1;

	if (fail_at && ch->op.kind == OP_WRITE) {
		fd = spm_fail_open();
		spm_fail_nth(fd, fail_at);
		fail_at = 0;
	}
	while (w.i < ch->n) {
		sig = spm_try(walk_pages, &w);
		if (!sig)
			break;
		ch->seen[w.i].sig = sig;
		w.i++;
	}
	if (fd < 0)
		return;
	/* A fault that finds no memory is repeated: nothing to be seen. */
	spm_fail_left(fd);
	close(fd);
}

/* Nothing else may come to lie where something was unmapped. */
static int reserve_again(uint32_t v, uint32_t n)
{
	void *p = mmap(arena_at(v), n * SPM_PAGE, PROT_NONE, MAP_PRIVATE |
		       MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	return p == MAP_FAILED ? -errno : 0;
}

static inline int to_region(int fd, uint32_t r)
{
	if (fd < 0)
		return -errno;
	if (dup3(fd, FD_BASE + r, O_CLOEXEC) < 0)
		return -errno;
	close(fd);
	return 0;
}

static int work_snapshot(const struct op *op)
{
	struct spm_snapshot s = { .argsz = sizeof(s) };

	return to_region(ioctl(FD_BASE + F(op, 'r'), SPM_IOC_SNAPSHOT, &s),
			 F(op, 's'));
}

static int work_open(const struct op *op)
{
	int err = to_region(open(SPM_NODE, O_RDWR | O_CLOEXEC), F(op, 'r'));

	return err ?: spm_set_size(FD_BASE + F(op, 'r'), F(op, 'n') * SPM_PAGE);
}

static const int protections[] = { PROT_NONE, PROT_READ, SPM_RW };

static int work_map(const struct op *op)
{
	char *at = arena_at(F(op, 'v'));
	void *p = mmap(at, F(op, 'n') * SPM_PAGE, protections[F(op, 'x')],
		       (F(op, 'k') ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED,
		       FD_BASE + F(op, 'r'), F(op, 'o') * SPM_PAGE);

	return p == at ? 0 : -errno;
}

static int work_move(const struct op *op)
{
	size_t len = F(op, 'n') * SPM_PAGE;
	void *p = mremap(arena_at(F(op, 'v')), len, len,
			 MREMAP_MAYMOVE | MREMAP_FIXED, arena_at(F(op, 't')));

	if (p == MAP_FAILED)
		return -errno;
	return reserve_again(F(op, 'v'), F(op, 'n'));
}

/* The first few change no content; POPULATE_WRITE may copy. */
static const int advices[] = {
	MADV_DONTNEED, MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED,
	MADV_NOHUGEPAGE, MADV_HUGEPAGE, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
};

#define ADVICES	(sizeof(advices) / sizeof(advices[0]))

static void worker(unsigned int me);

static int work_fork(const struct op *op)
{
	unsigned int q = F(op, 'q');
	pid_t pid = fork();

	/* By now the channel may hold the next operation. */
	if (!pid)
		worker(q);
	return pid < 0 ? -errno : pid;
}

static int work(struct channel *ch)
{
	const struct op *op = &ch->op;
	int fd = FD_BASE + F(op, 'r');
	char *at = arena_at(F(op, 'v'));
	size_t off = F(op, 'o') * SPM_PAGE, len = F(op, 'n') * SPM_PAGE;

	switch (op->kind) {
	case OP_OPEN:
		return work_open(op);
	case OP_CLOSE:
		return close(fd) ? -errno : 0;
	case OP_SNAP:
		return work_snapshot(op);
	case OP_MAP:
		return work_map(op);
	case OP_READ:
	case OP_WRITE:
		work_pages(ch);
		return 0;
	case OP_FAIL:
		fail_at = F(op, 'n');
		return 0;
	case OP_FORK:
		return work_fork(op);
	case OP_DISCARD:
		return spm_advise_off(fd, off, len, SPM_ADV_DISCARD);
	case OP_FILL:
		return spm_advise_off(fd, off, len, SPM_ADV_PREFAULT);
	case OP_ADVISE:
		return spm_advise(fd, at, len, F(op, 'x'));
	case OP_SIZE:
		return spm_set_size(fd, len);
	case OP_UNMAP:
		if (munmap(at, len))
			return -errno;
		return reserve_again(F(op, 'v'), F(op, 'n'));
	case OP_PROTECT:
		return mprotect(at, len, protections[F(op, 'x')]) ? -errno : 0;
	case OP_MOVE:
		return work_move(op);
	case OP_MADVISE:
		/* Some are refused for some mappings; that is no matter here. */
		madvise(at, len, advices[F(op, 'x')]);
		return 0;
	default:
		return -EINVAL;
	}
}

/* Never returns; ends when nothing comes for long, the model being dead. */
static void worker(unsigned int me)
{
	struct pollfd p = { .fd = world.to[me][0], .events = POLLIN };
	struct channel *ch = &world.ch[me];
	char c;

	while (poll(&p, 1, 300000) == 1 && read(p.fd, &c, 1) == 1) {
		if (ch->op.kind == OP_EXIT)
			_exit(0);
		ch->ret = work(ch);
		if (write(world.from[me][1], &c, 1) != 1)
			break;
	}
	_exit(1);
}

#endif /* SPM_MODEL_H */
