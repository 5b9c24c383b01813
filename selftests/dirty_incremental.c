// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a copy that is kept up to date by what GET_DIRTY tells equals the
 * region, after any sequence of stores, discards, changes of size, promotions,
 * demotions and snapshots: by clearing, and by asking what changed since a
 * snapshot.  And nothing is told that did not happen: a page that was only read,
 * or populated by reading, is in no answer.
 *
 * Kind of bug: a change that is no store (a discarded page reads as zeros); dirty
 * state lost, or come back, when objects freeze and merge; "resident" taken for
 * "changed".
 *
 * The seed is printed; SPM_INCREMENTAL_SEED sets it, SPM_INCREMENTAL_ROUNDS how
 * many rounds.
 *
 * spm-test: timeout=300 full=debug,7.3
 */
#include "spm_sync.h"

#define SLOTS	8
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	((int)(SLOTS * SPM_SLOT_PAGES))
#define KEPT	5

/* What a view must hold: a value for each page, and how often it may have changed. */
struct image {
	uint64_t value[PAGES];
	uint32_t changes[PAGES];
};

struct snapshot {
	int fd;
	unsigned long taken;	/* in which order */
	struct image img;
};

static int region, copy;
static char *map, *copied;
static struct image live;
static uint32_t cleared[PAGES];	/* changes at the last clear */
static uint64_t written[PAGES];	/* what the copy holds */
static struct snapshot kept[KEPT];
static unsigned long taken;
static uint64_t rnd, value;
static bool in[PAGES];		/* the answer */

static uint64_t next(void)
{
	rnd ^= rnd << 13;
	rnd ^= rnd >> 7;
	rnd ^= rnd << 17;
	return rnd >> 20;
}

static uint64_t *page_of(char *base, int page)
{
	return (uint64_t *)(base + page * SPM_PAGE);
}

static void store(int page)
{
	live.value[page] = ++value;
	live.changes[page]++;
	*page_of(map, page) = value;
}

static void gone(int first, int end)
{
	for (; first < end; first++) {
		live.value[first] = 0;
		live.changes[first]++;
	}
}

static void discard(int first, int end)
{
	if (spm_advise_off(region, first * SPM_PAGE,
			   (end - first) * SPM_PAGE, SPM_ADV_DISCARD))
		spm_die("DISCARD");
	gone(first, end);
}

/* Fills the slot with zeros where nothing was, and counts as stores. */
static void promote(int slot)
{
	int page;

	if (spm_advise(region, map + slot * SPM_SLOT, SPM_SLOT, SPM_ADV_PROMOTE))
		spm_die("PROMOTE");
	for (page = slot * 512; page < slot * 512 + 512; page++)
		live.changes[page]++;
}

static void snapshot(void)
{
	struct snapshot *s = &kept[next() % KEPT];

	if (s->fd >= 0)
		close(s->fd);
	s->fd = spm_snapshot(region);
	s->taken = ++taken;
	s->img = live;
}

/* Something happens to the region. */
static void act(void)
{
	int page = next() % PAGES, n = next() % 40, slot = page / 512;

	switch (next() % 20) {
	case 0:
		discard(page, page + n < PAGES ? page + n + 1 : PAGES);
		break;
	case 1:
		promote(slot);
		break;
	case 2:
		spm_advise(region, map + slot * SPM_SLOT, SPM_SLOT,
			   SPM_ADV_DEMOTE);
		break;
	case 3:
		madvise(map + slot * SPM_SLOT, SPM_SLOT, MADV_DONTNEED);
		break;
	case 4:
		spm_touch_read(map + slot * SPM_SLOT, (1 + n) * SPM_PAGE);
		break;
	case 5:
		snapshot();
		break;
	case 6:
		if (next() % 4)
			break;
		if (spm_set_size(region, page * SPM_PAGE) ||
		    spm_set_size(region, LEN))
			spm_die("SET_SIZE");
		gone(page, PAGES);
		break;
	case 7:
	case 8:
		for (; n >= 0 && page < PAGES; n--)
			store(page++);
		break;
	default:
		store(page);
	}
}

/* Ask, by ranges of which few fit, or by a bitmap. */
static long ask(int fd, uint32_t flags, int since)
{
	static struct spm_page_range vec[PAGES];
	static unsigned char bits[PAGES / 8];
	bool bitmap = next() % 2;
	uint64_t from = 0, i, page;
	long pages = 0;

	memset(in, 0, sizeof(in));
	while (from < LEN) {
		struct spm_scan s = {
			.argsz = sizeof(s),
			.flags = flags | SPM_SCAN_BY_OFFSET |
				 (bitmap ? SPM_SCAN_BITMAP : 0),
			.start = from, .len = LEN - from, .since = since,
			.vec = bitmap ? (uintptr_t)bits : (uintptr_t)vec,
			.vec_len = bitmap ? 8 + 8 * (next() % 64) :
					    1 + next() % PAGES,
		};

		if (ioctl(fd, SPM_IOC_GET_DIRTY, &s))
			spm_die("GET_DIRTY");
		for (i = 0; bitmap && i < s.count * 8; i++)
			if (bits[i / 8] >> i % 8 & 1)
				in[from / SPM_PAGE + i] = true;
		for (i = 0; !bitmap && i < s.count; i++)
			for (page = vec[i].start / SPM_PAGE;
			     page < vec[i].end / SPM_PAGE; page++)
				in[page] = true;
		pages += s.pages;
		from = s.next;
	}
	for (i = 0; i < PAGES; i++)
		pages -= in[i];
	return pages;
}

/* All that the answer has was changed, and all that differs is in it. */
static long wrong_answer(const char *what, const struct image *now,
			 const uint64_t *value_then, const uint32_t *then)
{
	long n = 0;
	int i;

	for (i = 0; i < PAGES; i++) {
		bool differs = now->value[i] != value_then[i];

		if (in[i] ? now->changes[i] != then[i] : !differs)
			continue;
		if (!n++)
			spm_note("%s: page %d (slot %d) is %sin the answer, it %s",
				 what, i, i / 512, in[i] ? "" : "not ",
				 differs ? "differs" : "was never changed");
	}
	return n;
}

/* Bring the copy up to date, and look whether it is. */
static long update(void)
{
	long n = ask(region, SPM_SCAN_CLEAR, 0);
	int i;

	n += wrong_answer("clear", &live, written, cleared);
	for (i = 0; i < PAGES; i++) {
		if (!in[i])
			continue;
		written[i] = *page_of(map, i);
		*page_of(copied, i) = written[i];
		cleared[i] = live.changes[i];
	}
	for (i = 0; i < PAGES; i++) {
		if (written[i] == live.value[i])
			continue;
		if (!n++)
			spm_note("page %d of the copy is not as in the region",
				 i);
	}
	return n;
}

/* What changed between two snapshots, or since one. */
static long compare(void)
{
	struct snapshot *old = &kept[next() % KEPT];
	struct snapshot *new = &kept[next() % KEPT];
	bool to_live = next() % 2;

	if (old->fd < 0 || (!to_live && (new->fd < 0 || new->taken < old->taken)))
		return 0;
	return ask(to_live ? region : new->fd, SPM_SCAN_SINCE, old->fd) +
	       wrong_answer("since", to_live ? &live : &new->img,
			    old->img.value, old->img.changes);
}

static long whole_copy_differs(void)
{
	long n = 0;
	int i;

	for (i = 0; i < PAGES; i++)
		n += *page_of(copied, i) != *page_of(map, i);
	return n;
}

TEST_F(spm, copies_follow_the_region)
{
	const char *r = getenv("SPM_INCREMENTAL_ROUNDS");
	const char *s = getenv("SPM_INCREMENTAL_SEED");
	int rounds = r ? atoi(r) : spm_slow_kernel() ? 300 : 1000, k, i;

	rnd = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL);
	spm_note("SPM_INCREMENTAL_SEED=%llu", (unsigned long long)rnd);
	rnd = rnd * 2654435761 + 1;
	region = spm_open();
	copy = spm_open();
	ASSERT_EQ(0, spm_set_size(region, LEN));
	map = spm_map(region, LEN, 0, SPM_RW);
	copied = spm_map(copy, LEN, 0, SPM_RW);
	for (i = 0; i < KEPT; i++)
		kept[i].fd = -1;
	/* Only what is cleared once is watched: from an empty region on. */
	for (i = 0; i < SLOTS; i++)
		store(i * 512);
	ASSERT_EQ(0, update());
	for (k = 0; k < rounds; k++) {
		for (i = next() % 12; i >= 0; i--)
			act();
		if (k % 3)
			ASSERT_EQ(0, update()) {
				TH_LOG("in round %d", k);
			}
		ASSERT_EQ(0, compare()) {
			TH_LOG("in round %d", k);
		}
		if (k % 100 == 99) {
			spm_note("%d rounds", k + 1);
			ASSERT_EQ(0, update());
			ASSERT_EQ(0, whole_copy_differs());
			ASSERT_EQ(0, spm_all_consistent());
		}
	}
	for (i = 0; i < KEPT; i++)
		if (kept[i].fd >= 0)
			close(kept[i].fd);
	ASSERT_EQ(0, update());
	ASSERT_EQ(0, whole_copy_differs());
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
