// SPDX-License-Identifier: GPL-2.0
/*
 * Property: when memory runs out at any step of a scan, a discard, a snapshot or
 * a smaller size of a region whose stores are watched, or the answer cannot be
 * written at any step, no dirty page is lost: what no answer has told, the next
 * one tells.
 *
 * Kind of bug: state that is cleared before a step that can fail, and not put
 * back; a bitmap that could not be had, and a discard that goes on without it.
 *
 * Each operation is repeated with the first, second, third ... step of the kernel
 * that can fail in it failing.
 *
 * spm-test: kernels=debug timeout=300
 */
#include "spm_test.h"
#include "spm_fail.h"

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define BITMAP	SPM_SCAN_BITMAP
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)
#define MANY	3000

static struct spm_page_range vec[PAGES];
static unsigned char bits[PAGES / 8];
static bool told[PAGES];

/* Stored to: every third page, and a run that goes on beyond mappings. */
static bool stored_to(int page)
{
	return page % 3 == 0 || (page >= 500 && page < 530);
}

/* Returns how many pages that were. */
static uint64_t tell(const struct spm_scan *s, uint64_t base)
{
	uint64_t i, page, n = 0;

	if (s->flags & BITMAP) {
		for (i = 0; i < s->count * 8; i++) {
			if (!(bits[i / 8] >> i % 8 & 1))
				continue;
			told[(s->start - base) / SPM_PAGE + i] = true;
			n++;
		}
		return n;
	}
	for (i = 0; i < s->count; i++)
		for (page = (vec[i].start - base) / SPM_PAGE;
		     page < (vec[i].end - base) / SPM_PAGE; page++, n++)
			told[page] = true;
	return n;
}

/*
 * The request is written to before anything is cleared, so its last write fails
 * only for who takes the memory away meanwhile; the answer is there by then.
 */
static uint64_t delivered_ranges(void)
{
	uint64_t n = 0;

	while (n < PAGES && vec[n].end != ~0ULL)
		n++;
	return n;
}

static uint64_t delivered_bits(void)
{
	uint64_t i;

	for (i = 0; i < sizeof(bits); i++)
		if (bits[i] != 0xff)
			return sizeof(bits);
	return 0;
}

/* One request for all of it; what it told is noted, how far it came returned. */
static int ask(int fd, uint32_t flags, uint64_t base, uint64_t *from)
{
	bool bitmap = flags & BITMAP;
	struct spm_scan s = {
		.flags = flags, .start = *from, .len = base + LEN - *from,
		.vec = bitmap ? (uintptr_t)bits : (uintptr_t)vec,
		.vec_len = bitmap ? sizeof(bits) : PAGES,
	};
	uint64_t n;
	int err;

	memset(vec, 0xff, sizeof(vec));
	memset(bits, 0xff, sizeof(bits));
	err = spm_scan(fd, SPM_IOC_GET_DIRTY, &s);
	if (err == -EFAULT)
		s.count = bitmap ? delivered_bits() : delivered_ranges();
	n = !err || err == -EFAULT ? tell(&s, base) : 0;
	if (err)
		return err;
	if (n != s.pages)
		spm_die("%llu pages were told, not %llu", (unsigned long long)n,
			(unsigned long long)s.pages);
	*from = s.next;
	return 0;
}

static void ask_rest(int fd, uint32_t flags, uint64_t base, uint64_t from)
{
	while (from < base + LEN)
		if (ask(fd, flags, base, &from))
			spm_die("GET_DIRTY without a failure");
}

/* A view in which some pages were stored to after a clear, see stored_to(). */
struct view {
	int fd, snap;
	char *map, *clear;	/* stored to; asked by address, or NULL */
};

/* The changes are tried on the first two. */
enum kind { PLAIN, SHADOW, PRIVATE, SPLIT, KINDS };

static void view_make(struct view *v, enum kind kind)
{
	int i;

	v->fd = spm_open();
	v->snap = -1;
	v->clear = NULL;
	v->map = spm_map(v->fd, LEN, 0, SPM_RW);
	if (spm_advise(v->fd, v->map, LEN, SPM_ADV_PROMOTE))
		spm_die("PROMOTE");
	if (kind == PRIVATE)
		v->map = spm_private_at(v->map, v->fd, LEN, 0, SPM_RW);
	else
		spm_dirty(v->fd, OFF | CLEAR, 0, LEN);
	if (kind == PRIVATE || kind == SPLIT)
		v->clear = v->map;
	for (i = 0; i < PAGES; i++) {
		if (stored_to(i))
			v->map[i * SPM_PAGE] = 1;
		if (kind == SHADOW && i == PAGES / 3)
			v->snap = spm_snapshot(v->fd);
	}
	for (i = 505; kind == SPLIT && i < 530; i += 7)
		if (mprotect(v->map + i * SPM_PAGE, SPM_PAGE, PROT_READ))
			spm_die("mprotect");
	memset(told, 0, sizeof(told));
}

static void view_drop(struct view *v)
{
	spm_unmap(v->map - SPM_SLOT, LEN + 2 * SPM_SLOT);
	if (v->snap >= 0)
		close(v->snap);
	close(v->fd);
}

static uint64_t view_base(const struct view *v)
{
	return (uintptr_t)v->clear;
}

static uint32_t view_flags(const struct view *v)
{
	return CLEAR | (v->clear ? 0 : OFF);
}

/* These and nothing else was told. */
static long view_wrong(void)
{
	long n = 0;
	int i;

	for (i = 0; i < PAGES; i++) {
		if (told[i] == stored_to(i))
			continue;
		if (!n++)
			spm_note("page %d was %stold", i, told[i] ? "" : "not ");
	}
	return n;
}

static int prepare_failures(void)
{
	if (!spm_fail_available())
		return -1;
	spm_fail_setup();
	spm_fail_module_only(true);
	return spm_fail_open();
}

/*
 * One scan whose @n-th step fails, and another for what it did not tell.  Returns
 * whether there was such a step.
 */
static bool scan_failing(struct __test_metadata *_metadata, int fail,
			 enum kind kind, bool bitmap, int n)
{
	uint32_t more = bitmap ? BITMAP : 0;
	struct view v;
	uint64_t from;
	bool failed;
	int err;

	view_make(&v, kind);
	from = view_base(&v);
	spm_fail_nth(fail, n);
	err = ask(v.fd, view_flags(&v) | more, view_base(&v), &from);
	failed = !spm_fail_left(fail);
	ASSERT_TRUE(!err || err == -ENOMEM || err == -EFAULT) {
		TH_LOG("%d", err);
	}
	ask_rest(v.fd, view_flags(&v) | more, view_base(&v), from);
	ASSERT_EQ(0, view_wrong()) {
		TH_LOG("view %d, bitmap %d, step %d: %d", kind, bitmap, n, err);
	}
	ASSERT_EQ(0, spm_dirty(v.fd, view_flags(&v) & OFF, view_base(&v), LEN));
	ASSERT_EQ(0, spm_count_clean_writable(v.fd, v.map, LEN));
	view_drop(&v);
	return failed;
}

TEST_F(spm, scans)
{
	int fail = prepare_failures(), kind, bitmap, n;

	if (fail < 0)
		SKIP(return, "no fault injection");
	for (kind = 0; kind < KINDS; kind++)
		for (bitmap = 0; bitmap < 2; bitmap++) {
			for (n = 1; n < MANY; n++)
				if (!scan_failing(_metadata, fail, kind, bitmap,
						  n))
					break;
			ASSERT_LT(2, n);
			ASSERT_LT(n, MANY);
			TH_LOG("view %d, bitmap %d: %d steps", kind, bitmap, n);
		}
	spm_fail_module_only(false);
	ASSERT_EQ(0, spm_all_consistent());
}

/*
 * A bitmap that the kernel delivers in two parts, because most of the region was
 * never touched: the slot behind that gap fails.
 */
TEST_F(spm, failure_behind_a_gap_of_a_bitmap)
{
	const uint64_t gap = 70 * SPM_SLOT, len = gap + SPM_SLOT;
	const uint64_t room = len / SPM_PAGE / 8;
	int fail = prepare_failures(), n, fd, snap, err;
	unsigned char *map = malloc(room + SPM_PAGE);
	struct spm_scan s;
	char *p;

	if (fail < 0)
		SKIP(return, "no fault injection");
	for (n = 1; n < MANY; n++) {
		unsigned int left, i, set = 0;
		uint64_t pages;

		fd = spm_open();
		p = spm_map(fd, len, 0, SPM_RW);
		p[0] = 1;
		p[gap + 5 * SPM_PAGE] = 1;
		/* A clear of this needs slots. */
		snap = spm_snapshot(fd);
		memset(map, 0, room);
		memset(map + room, 0xa5, SPM_PAGE);
		s = (struct spm_scan){
			.flags = OFF | CLEAR | BITMAP, .len = len,
			.vec = (uintptr_t)map, .vec_len = room,
		};
		spm_fail_nth(fail, n);
		err = spm_scan(snap, SPM_IOC_GET_DIRTY, &s);
		left = spm_fail_left(fail);
		if (!err) {
			ASSERT_LE(s.count, room);
			ASSERT_LE(s.next, len);
			ASSERT_LE(s.next, s.count * 8 * SPM_PAGE);
			for (i = 0; i < s.count; i++)
				set += __builtin_popcount(map[i]);
			ASSERT_EQ(s.pages, set);
			pages = s.pages;
			ASSERT_EQ(2 - pages, spm_dirty(snap, OFF, 0, len));
			ASSERT_EQ(2 - pages, spm_dirty(snap, OFF, s.next,
						       len - s.next));
		}
		for (i = 0; i < SPM_PAGE; i++)
			ASSERT_EQ(0xa5, map[room + i]);
		spm_unmap(p, len);
		close(snap);
		close(fd);
		if (left)
			break;
	}
	ASSERT_LT(3, n);
	ASSERT_LT(n, MANY);
	TH_LOG("%d steps", n);
	free(map);
	spm_fail_module_only(false);
	ASSERT_EQ(0, spm_all_consistent());
}

/* The operations that change what is dirty by other means. */
static int operate(struct view *v, int op)
{
	int ret;

	switch (op) {
	case 0:
		if (v->clear)
			return spm_advise(v->fd, v->clear + 3 * SPM_PAGE,
					  SPM_SLOT, SPM_ADV_DISCARD);
		return spm_advise_off(v->fd, 3 * SPM_PAGE, SPM_SLOT,
				      SPM_ADV_DISCARD);
	case 1:
		ret = spm_try_snapshot(v->fd, 0);
		if (ret < 0)
			return ret;
		close(ret);
		return 0;
	case 2:
		ret = spm_set_size(v->fd, 300 * SPM_PAGE);
		/* Not to disturb the look at it. */
		spm_set_size(v->fd, LEN);
		return ret;
	default:
		return spm_advise(v->fd, v->map, SPM_SLOT, SPM_ADV_DEMOTE);
	}
}

/* What was dirty is told; and what reads as zeros now. */
static long operation_wrong(int op, int err)
{
	long n = 0;
	int i;

	for (i = 0; i < PAGES; i++) {
		bool must = stored_to(i);

		if (!err && op == 0 && i >= 3 && i < 3 + 512)
			must = true;
		if (!err && op == 2 && i >= 300)
			must = true;
		if (told[i] || !must)
			continue;
		if (!n++)
			spm_note("page %d was not told", i);
	}
	return n;
}

TEST_F(spm, changes)
{
	int fail = prepare_failures(), kind, op, n, err;
	unsigned int left;
	struct view v;

	if (fail < 0)
		SKIP(return, "no fault injection");
	for (kind = 0; kind <= SHADOW; kind++)
		for (op = 0; op < 4; op++) {
			for (n = 1; n < MANY; n++) {
				view_make(&v, kind);
				spm_fail_nth(fail, n);
				err = operate(&v, op);
				left = spm_fail_left(fail);
				if (op == 2)
					ASSERT_EQ(0, spm_set_size(v.fd, LEN));
				ask_rest(v.fd, view_flags(&v), view_base(&v),
					 view_base(&v));
				ASSERT_EQ(0, operation_wrong(op, err)) {
					TH_LOG("view %d, operation %d, step %d: %d",
					       kind, op, n, err);
				}
				ASSERT_EQ(0, spm_count_clean_writable(v.fd,
								      v.map,
								      LEN));
				view_drop(&v);
				if (left)
					break;
			}
			ASSERT_LT(n, MANY);
			TH_LOG("view %d, operation %d: %d steps", kind, op, n);
		}
	spm_fail_module_only(false);
	ASSERT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
