// SPDX-License-Identifier: GPL-2.0
/*
 * Property: any cut that the system calls allow at 4 KB borders works inside a
 * superpage.  The pages that the call was not about keep their data, their
 * protection, their dirty state and a (4 KB) entry; slots next to it keep
 * their 2 MB entry.
 *
 * Kind of bug: lengths and splits refused because they are not multiples of
 * the large page; the whole slot unmapped where one page was meant; dirty
 * state thrown away with the large entry; a process killed for a legal call.
 */
#include "spm_test.h"

#define SEED	11
#define SLOTS	3
#define SIZE	(SLOTS * SPM_SLOT)
#define PAGES	(SIZE / SPM_PAGE)

struct cut {
	const char *name;
	/* Does it; returns where the pages went, or NULL if they are gone. */
	char *(*fn)(char *at, size_t len);
	int prot;		/* of the range afterwards, -1: not mapped */
	bool keeps_entry;	/* an access to the range needs no fault */
};

static char *do_munmap(char *at, size_t len)
{
	spm_unmap(at, len);
	return NULL;
}

static char *do_mprotect_ro(char *at, size_t len)
{
	if (mprotect(at, len, PROT_READ))
		spm_die("mprotect");
	return at;
}

static char *do_mprotect_none(char *at, size_t len)
{
	if (mprotect(at, len, PROT_NONE))
		spm_die("mprotect");
	return at;
}

static char *do_dontfork(char *at, size_t len)
{
	if (madvise(at, len, MADV_DONTFORK))
		spm_die("MADV_DONTFORK");
	return at;
}

static char *do_dontdump(char *at, size_t len)
{
	if (madvise(at, len, MADV_DONTDUMP))
		spm_die("MADV_DONTDUMP");
	return at;
}

static char *do_mremap(char *at, size_t len)
{
	char *to = spm_reserve(len, (uintptr_t)at);

	if (mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		spm_die("mremap");
	return to;
}

static char *do_mremap_misaligned(char *at, size_t len)
{
	char *to = spm_reserve(len, (uintptr_t)at + 5 * SPM_PAGE);

	if (mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		spm_die("mremap");
	return to;
}

static char *do_map_over(char *at, size_t len)
{
	if (mmap(at, len, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0) != at)
		spm_die("mmap over");
	return NULL;
}

static const struct cut cuts[] = {
	{ "munmap", do_munmap, -1, false },
	{ "mprotect(PROT_READ)", do_mprotect_ro, PROT_READ, true },
	{ "mprotect(PROT_NONE)", do_mprotect_none, PROT_NONE, false },
	{ "MADV_DONTFORK", do_dontfork, SPM_RW, true },
	{ "MADV_DONTDUMP", do_dontdump, SPM_RW, true },
	{ "mremap", do_mremap, SPM_RW, false },
	{ "mremap misaligned", do_mremap_misaligned, SPM_RW, false },
	{ "mmap over", do_map_over, -1, false },
};

struct place {
	size_t from, len;
	int demotions;		/* slots that are cut */
};

static const struct place where[] = {
	{ 0, SPM_PAGE, 1 },
	{ SPM_SLOT / 2, SPM_PAGE, 1 },
	{ SPM_SLOT - SPM_PAGE, SPM_PAGE, 1 },
	{ 3 * SPM_SLOT / 2 + 2 * SPM_PAGE, SPM_PAGE, 1 },
	{ SIZE - SPM_PAGE, SPM_PAGE, 1 },
	/* across a border of slots */
	{ SPM_SLOT - 8 * SPM_PAGE, 16 * SPM_PAGE, 2 },
	/* a whole slot and a bit on either side */
	{ SPM_SLOT - SPM_PAGE, SPM_SLOT + 2 * SPM_PAGE, 2 },
	/* from a border on, whole slots */
	{ SPM_SLOT, SPM_SLOT, 0 },
};

static bool inside(size_t off, const struct place *p)
{
	return off >= p->from && off < p->from + p->len;
}

/* Is the slot of @off cut, so that its pages have 4 KB entries now? */
static bool cut_slot(size_t off, const struct place *p)
{
	size_t slot = off & ~(SPM_SLOT - 1);

	if (slot + SPM_SLOT <= p->from || slot >= p->from + p->len)
		return false;
	return !(slot >= p->from && slot + SPM_SLOT <= p->from + p->len);
}

static void check_rest(struct __test_metadata *_metadata, int fd, char *map,
		       const struct place *p, unsigned int seed)
{
	size_t tail = p->from + p->len;
	unsigned char vec[PAGES];
	unsigned int i, state, want;

	ASSERT_EQ(0, spm_mincore(fd, map, p->from, vec));
	ASSERT_EQ(0, spm_mincore(fd, map + tail, SIZE - tail,
				 vec + tail / SPM_PAGE));
	for (i = 0; i < PAGES; i++) {
		size_t off = i * SPM_PAGE;

		if (inside(off, p))
			continue;
		state = vec[i];
		want = cut_slot(off, p) ? SPM_4K : SPM_2M;
		ASSERT_EQ(want, state & SPM_IS_2M) {
			TH_LOG("page %u, state %#x", i, state);
		}
		ASSERT_EQ(SPM_MINCORE_WRITABLE | SPM_MINCORE_MODIFIED,
			  state & (SPM_MINCORE_WRITABLE |
				   SPM_MINCORE_MODIFIED)) {
			TH_LOG("page %u, state %#x", i, state);
		}
		ASSERT_TRUE(spm_stamped(map + off, i, seed));
	}
}

static void run(struct __test_metadata *_metadata, const struct cut *c,
		const struct place *p)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map, *to, *all;
	unsigned int i;
	size_t off;

	map = spm_map(fd, SIZE, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(fd, map, SIZE, SPM_ADV_PROMOTE));
	for (i = 0; i < PAGES; i++)
		spm_stamp(map + i * SPM_PAGE, i, SEED);
	ASSERT_EQ((long)PAGES, spm_count_2m(fd, map, SIZE));
	spm_stats(fd, &before);

	to = c->fn(map + p->from, p->len);
	ASSERT_EQ(p->demotions, spm_delta(fd, &before, demotions_split));
	ASSERT_EQ(p->demotions, spm_delta(fd, &before, demotions));
	ASSERT_EQ(0, spm_delta(fd, &before, demote_aborts));
	ASSERT_EQ(0, spm_consistent(fd));

	check_rest(_metadata, fd, map, p, SEED);
	/* The rest goes on being used, without a single fault. */
	for (i = 0; i < PAGES; i++) {
		if (!inside(i * SPM_PAGE, p))
			spm_stamp(map + i * SPM_PAGE, i, SEED + 1);
	}
	ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	check_rest(_metadata, fd, map, p, SEED + 1);

	/* What the call was about. */
	for (off = p->from; off < p->from + p->len; off += SPM_PAGE) {
		char *page = (to ? to : map + p->from) + (off - p->from);
		int rd = c->prot > 0 ? 0 : SIGSEGV;
		int wr = c->prot > 0 && c->prot & PROT_WRITE ? 0 : SIGSEGV;

		i = off / SPM_PAGE;
		ASSERT_EQ(rd, spm_try_read(page));
		if (!rd) {
			ASSERT_TRUE(spm_stamped(page, i, SEED));
		}
		if (!wr)
			spm_stamp(page, i, SEED + 1);
		else
			ASSERT_EQ(wr, spm_try_write(page, 1));
	}
	if (c->keeps_entry) {
		ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	}
	if (to && c->prot != SPM_RW) {
		ASSERT_EQ(0, mprotect(to, p->len, SPM_RW));
		for (off = p->from; off < p->from + p->len; off += SPM_PAGE)
			spm_stamp(to + (off - p->from), off / SPM_PAGE,
				  SEED + 1);
	}
	ASSERT_EQ(0, spm_consistent(fd));

	/* No data and no dirty page was lost to the region. */
	ASSERT_EQ(0, spm_delta(fd, &before, pages));
	ASSERT_EQ(0, spm_delta(fd, &before, dirty));
	all = spm_map(fd, SIZE, 0, PROT_READ);
	for (i = 0; i < PAGES; i++) {
		bool changed = to || !inside(i * SPM_PAGE, p);

		ASSERT_TRUE(spm_stamped(all + i * SPM_PAGE, i,
					SEED + changed)) {
			TH_LOG("page %u", i);
		}
	}
	ASSERT_EQ((long)PAGES, spm_count_2m(fd, all, SIZE));
	ASSERT_EQ(0, spm_consistent(fd));
	close(fd);
	spm_unmap(map, SIZE);
	spm_unmap(all, SIZE);
	if (to)
		spm_unmap(to, p->len);
}

static void run_cut(struct __test_metadata *_metadata, unsigned int c)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(where); i++) {
		TH_LOG("%s of %zu bytes at +%zu", cuts[c].name, where[i].len,
		       where[i].from);
		run(_metadata, &cuts[c], &where[i]);
	}
}

TEST_F(spm, munmap)		{ run_cut(_metadata, 0); }
TEST_F(spm, mprotect_read)	{ run_cut(_metadata, 1); }
TEST_F(spm, mprotect_none)	{ run_cut(_metadata, 2); }
TEST_F(spm, dontfork)		{ run_cut(_metadata, 3); }
TEST_F(spm, dontdump)		{ run_cut(_metadata, 4); }
TEST_F(spm, mremap)		{ run_cut(_metadata, 5); }
TEST_F(spm, mremap_misaligned)	{ run_cut(_metadata, 6); }
TEST_F(spm, map_over)		{ run_cut(_metadata, 7); }

/*
 * A clean, read-only superpage that is cut: its pages stay clean and stay
 * mapped read-only, and each first write is recorded.
 */
TEST_F(spm, clean_superpage)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_touch_read(map, SPM_SLOT);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_count_dirty(fd, map, SPM_SLOT));
	spm_stats(fd, &before);
	spm_unmap(map + 100 * SPM_PAGE, SPM_PAGE);
	ASSERT_EQ(1, spm_delta(fd, &before, demotions_split));
	ASSERT_EQ(100, spm_count_4k(fd, map, 100 * SPM_PAGE));
	ASSERT_EQ(411, spm_count_4k(fd, map + 101 * SPM_PAGE, 411 * SPM_PAGE));
	ASSERT_EQ(0, spm_touch_faults(map, 100 * SPM_PAGE, false));
	ASSERT_EQ(0, spm_delta(fd, &before, dirty));
	map[3 * SPM_PAGE] = 1;
	map[SPM_SLOT - 1] = 1;
	ASSERT_EQ(2, spm_delta(fd, &before, dirty));
	ASSERT_EQ(2, spm_delta(fd, &before, vm_faults));
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, 100 * SPM_PAGE));
	ASSERT_EQ(0, spm_consistent(fd));
}

/*
 * Written by the CPU through a 2 MB entry only, with no fault that could have
 * told anybody; then the entry is broken up in all ways at once.
 */
TEST_F(spm, dirty_survives_every_cut)
{
	int fd = spm_open();
	unsigned int c;
	char *map;

	for (c = 0; c < ARRAY_SIZE(cuts); c++) {
		map = spm_map(fd, SPM_SLOT, c * SPM_SLOT, SPM_RW);
		ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
		spm_stamp(map + 100 * SPM_PAGE, 100, SEED);
		cuts[c].fn(map + 5 * SPM_PAGE, SPM_PAGE);
		ASSERT_EQ(SPM_MINCORE_MODIFIED,
			  spm_state(fd, map + 100 * SPM_PAGE) &
			  SPM_MINCORE_MODIFIED);
		ASSERT_TRUE(spm_stamped(map + 100 * SPM_PAGE, 100, SEED));
		spm_unmap(map + 100 * SPM_PAGE, SPM_PAGE);
		map = spm_map(fd, SPM_SLOT, c * SPM_SLOT, PROT_READ);
		ASSERT_EQ(SPM_MINCORE_MODIFIED,
			  spm_state(fd, map + 100 * SPM_PAGE) &
			  SPM_MINCORE_MODIFIED);
		ASSERT_TRUE(spm_stamped(map + 100 * SPM_PAGE, 100, SEED));
	}
	ASSERT_EQ(0, spm_consistent(fd));
}

struct second {
	int fd;
	int ready, go;
};

/* Has the slot by a 2 MB entry of its own throughout. */
static int second_mapping(void *arg)
{
	struct second *s = arg;
	char *map = spm_map(s->fd, SPM_SLOT, 0, SPM_RW);
	char c = 0;

	spm_stamp(map + 200 * SPM_PAGE, 200, SEED + 1);
	spm_child_check(spm_count_2m(s->fd, map, SPM_SLOT) == 512, "2 MB");
	if (write(s->ready, &c, 1) != 1 || read(s->go, &c, 1) != 1)
		return 1;
	spm_child_check(spm_count_2m(s->fd, map, SPM_SLOT) == 512, "2 MB");
	spm_child_check(spm_count_dirty(s->fd, map, SPM_SLOT) == 512, "dirty");
	spm_child_check(spm_wrong(map, 0, 200, SEED) == -1, "data");
	spm_child_check(spm_wrong(map + 201 * SPM_PAGE, 201, 311, SEED) == -1,
			"data");
	return 0;
}

/* One process cuts, unmaps and moves; the entry of another is its own. */
TEST_F(spm, other_process_keeps_its_superpage)
{
	int ready[2], go[2], fd = spm_open();
	struct second s = { .fd = fd };
	unsigned int c;
	char *map, x = 0;
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	s.ready = ready[1];
	s.go = go[0];
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	pid = spm_fork(second_mapping, &s);
	ASSERT_EQ(1, read(ready[0], &x, 1));
	for (c = 0; c < ARRAY_SIZE(cuts); c++) {
		spm_map_at(map, fd, SPM_SLOT, 0, SPM_RW);
		spm_touch_read(map, SPM_SLOT);
		cuts[c].fn(map + (c + 1) * SPM_PAGE, SPM_PAGE);
		ASSERT_TRUE(spm_stamped(map + 200 * SPM_PAGE, 200, SEED + 1));
		ASSERT_EQ(0, spm_consistent(fd));
	}
	spm_unmap(map, SPM_SLOT);
	ASSERT_EQ(1, write(go[1], &x, 1));
	ASSERT_EQ(0, spm_wait(pid));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Cut into single pages one after the other, in a scattered order. */
TEST_F(spm, cut_to_pieces)
{
	int fd = spm_open();
	unsigned int i, n;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	for (n = 0; n < 512; n++) {
		i = n * 181 % 512;
		ASSERT_EQ(0, mprotect(map + i * SPM_PAGE, SPM_PAGE,
				      i % 3 ? PROT_READ : PROT_NONE));
	}
	for (i = 0; i < 512; i++) {
		ASSERT_EQ(i % 3 ? 0 : SIGSEGV, spm_try_read(map + i * SPM_PAGE));
		ASSERT_EQ(SIGSEGV, spm_try_write(map + i * SPM_PAGE, 1));
	}
	ASSERT_EQ(0, mprotect(map, SPM_SLOT, SPM_RW));
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	spm_fill(map, 0, 512, SEED + 1);
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED + 1));
	ASSERT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
