// SPDX-License-Identifier: GPL-2.0
/*
 * Answers of pages, as ranges or as a bitmap.
 */
#include <linux/bitmap.h>
#include <linux/find.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "answer.h"
#include "policy.h"

/* Ranges and bits that are delivered at once; a slot more must fit. */
#define SPM_ANSWER_RANGES	1024U
#define SPM_ANSWER_BITS		(PAGE_SIZE * BITS_PER_BYTE)
#define SPM_SLOT_RANGES		(SPM_SLOT_PAGES / 2)

/**
 * spm_answer_init() - an empty answer
 * @ans:	to be set up
 * @a:		the request, checked
 *
 * Context: process context, may sleep.
 * Return: 0 or -ENOMEM.
 */
int spm_answer_init(struct spm_answer *ans, const struct spm_scan *a)
{
	*ans = (struct spm_answer){
		.bitmap = a->flags & SPM_SCAN_BITMAP,
		.vec = u64_to_user_ptr(a->vec),
		.first = a->start >> PAGE_SHIFT,
		.window = a->start >> PAGE_SHIFT,
	};
	if (!a->vec_len)
		return 0;
	if (ans->bitmap) {
		/* A longer one is not longer than all pages that there can be. */
		ans->room = min(a->vec_len, U64_MAX >> PAGE_SHIFT >> 3) << 3;
		ans->bits = bitmap_zalloc(SPM_ANSWER_BITS + SPM_SLOT_PAGES,
					  GFP_KERNEL_ACCOUNT);
		return ans->bits ? 0 : -ENOMEM;
	}
	ans->room = a->vec_len;
	ans->ranges = kvmalloc_objs(*ans->ranges, SPM_ANSWER_RANGES,
				    GFP_KERNEL_ACCOUNT);
	return ans->ranges ? 0 : -ENOMEM;
}

/**
 * spm_answer_end() - where the answer ends at the latest
 * @ans: answer
 *
 * Return: one past the last page that a bitmap has room for.
 */
u64 spm_answer_end(const struct spm_answer *ans)
{
	return ans->room && ans->bitmap ? ans->first + ans->room : U64_MAX;
}

/**
 * spm_answer_delivered() - up to where the caller has been told
 * @ans: answer, a delivery of which has failed
 *
 * Return: the first page that it was not told of.
 */
u64 spm_answer_delivered(const struct spm_answer *ans)
{
	u64 page = 0, end;

	if (ans->bitmap)
		return max(ans->fresh, ans->window);
	return spm_answer_undelivered(ans, &page, &end) ? page : U64_MAX;
}

/**
 * spm_answer_free() - undo spm_answer_init()
 * @ans: answer
 */
void spm_answer_free(struct spm_answer *ans)
{
	bitmap_free(ans->bits);
	kvfree(ans->ranges);
}

static bool spm_answer_joins(const struct spm_answer *ans, u64 page)
{
	return ans->count + ans->n && ans->last.end == page << PAGE_SHIFT;
}

/**
 * spm_answer_fits() - how many pages of a slot can still be added
 * @ans:	answer
 * @page:	number of page @lo
 * @bits:	by index in the slot: pages to be added
 * @lo:		first index
 * @hi:		one past the last
 *
 * For ranges; how far a bitmap reaches is known from the start.
 *
 * Return: the index at which the answer is full; @hi if all of [@lo, @hi) fits.
 */
unsigned int spm_answer_fits(const struct spm_answer *ans, u64 page,
			     const unsigned long *bits, unsigned int lo,
			     unsigned int hi)
{
	u64 left = ans->room - ans->count - ans->n;
	unsigned int b, e;

	if (!ans->room || ans->bitmap)
		return hi;
	for (b = find_next_bit(bits, hi, lo); b < hi;
	     b = find_next_bit(bits, hi, e)) {
		if (!spm_answer_joins(ans, page + b - lo) && !left--)
			return b;
		e = find_next_zero_bit(bits, hi, b);
	}
	return hi;
}

/**
 * spm_answer_roomy() - does any slot fit?
 * @ans: answer
 *
 * Return: true if spm_answer_fits() will say so of whatever slot is next.
 */
bool spm_answer_roomy(const struct spm_answer *ans)
{
	return !ans->room || ans->bitmap ||
	       ans->room - ans->count - ans->n >= SPM_SLOT_RANGES;
}

static int spm_deliver_ranges(struct spm_answer *ans)
{
	struct spm_page_range __user *to = ans->vec;

	if (!ans->n)
		return 0;
	if (copy_to_user(to + ans->count, ans->ranges,
			 ans->n * sizeof(*ans->ranges)))
		return -EFAULT;
	ans->count += ans->n;
	ans->n = 0;
	ans->fresh = ans->last.end >> PAGE_SHIFT;
	return 0;
}

/*
 * The bits of the pages below @end.  A word that @end cuts stays in the buffer,
 * too, for the pages that follow.
 */
static int spm_deliver_bits(struct spm_answer *ans, u64 end)
{
	unsigned int n = round_up(end - ans->window, BITS_PER_LONG);
	unsigned int done = round_down(end - ans->window, BITS_PER_LONG);

	if (copy_to_user(ans->vec + ans->count, ans->bits, n / BITS_PER_BYTE))
		return -EFAULT;
	ans->count += done / BITS_PER_BYTE;
	ans->window += done;
	ans->fresh = end;
	bitmap_shift_right(ans->bits, ans->bits, done,
			   SPM_ANSWER_BITS + SPM_SLOT_PAGES);
	return 0;
}

/**
 * spm_answer_ready() - see that a slot that begins with @page can be added
 * @ans:	answer
 * @page:	number of a page, not before those that were added
 *
 * Context: process context, may sleep and fault; no lock held.
 * Return: 0; -EFAULT if what is in the buffer cannot be delivered; -EINTR when
 * the task is being killed.
 */
int spm_answer_ready(struct spm_answer *ans, u64 page)
{
	if (!ans->room)
		return 0;
	if (!ans->bitmap)
		return ans->n + SPM_SLOT_RANGES > SPM_ANSWER_RANGES ?
			spm_deliver_ranges(ans) : 0;
	while (page >= ans->window + SPM_ANSWER_BITS) {
		int err = spm_deliver_bits(ans, ans->window + SPM_ANSWER_BITS);

		if (err)
			return err;
		/* There may be gigabytes of it for a gap. */
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static void spm_answer_range(struct spm_answer *ans, u64 page, u64 end)
{
	if (!spm_answer_joins(ans, page)) {
		ans->last.start = page << PAGE_SHIFT;
		ans->n++;
	} else if (!ans->n) {
		/* It grows after it was delivered: once more. */
		ans->count--;
		ans->n++;
	}
	ans->last.end = end << PAGE_SHIFT;
	ans->ranges[ans->n - 1] = ans->last;
}

/**
 * spm_answer_add() - add pages of a slot
 * @ans:	answer for which spm_answer_ready() was called with @page or one
 *		before it in the same slot, and with spm_answer_fits()
 * @page:	number of page @lo
 * @bits:	by index in the slot: pages to be added
 * @lo:		first index
 * @hi:		one past the last
 */
void spm_answer_add(struct spm_answer *ans, u64 page, const unsigned long *bits,
		    unsigned int lo, unsigned int hi)
{
	unsigned int b, e;

	for (b = find_next_bit(bits, hi, lo); b < hi;
	     b = find_next_bit(bits, hi, e)) {
		e = find_next_zero_bit(bits, hi, b);
		ans->pages += e - b;
		if (ans->bitmap && ans->room)
			bitmap_set(ans->bits, page + b - lo - ans->window, e - b);
		else if (ans->room)
			spm_answer_range(ans, page + b - lo, page + e - lo);
	}
}

/**
 * spm_answer_deliver() - deliver what is in the buffer
 * @ans:	answer
 * @end:	where the answer ends by now; not before the page that
 *		spm_answer_ready() was last called with
 *
 * More can be added, and delivered, after that.
 *
 * Context: process context, may sleep and fault; no lock held.
 * Return: 0, -EFAULT or -EINTR, as spm_answer_ready().
 */
int spm_answer_deliver(struct spm_answer *ans, u64 end)
{
	int err;

	if (!ans->room)
		return 0;
	if (!ans->bitmap)
		return spm_deliver_ranges(ans);
	err = spm_answer_ready(ans, end);
	return err ?: spm_deliver_bits(ans, end);
}

/**
 * spm_answer_count() - how much was delivered
 * @ans: answer
 *
 * Return: ranges, or bytes of the bitmap.
 */
u64 spm_answer_count(const struct spm_answer *ans)
{
	bool cut = ans->bits && ans->fresh > ans->window;

	return ans->count + (cut ? sizeof(long) : 0);
}

/**
 * spm_answer_undelivered() - step through what was added and not delivered
 * @ans:	answer
 * @page:	in: where to begin; out: first page of a run
 * @end:	out: one past its last
 *
 * Return: false if there is no more.
 */
bool spm_answer_undelivered(const struct spm_answer *ans, u64 *page, u64 *end)
{
	unsigned int i;

	if (ans->bits) {
		unsigned int size = SPM_ANSWER_BITS + SPM_SLOT_PAGES;
		unsigned int b = max3(*page, ans->fresh, ans->window) -
				 ans->window;

		b = find_next_bit(ans->bits, size, b);
		*page = ans->window + b;
		*end = ans->window + find_next_zero_bit(ans->bits, size, b);
		return b < size;
	}
	for (i = 0; i < ans->n; i++) {
		*end = ans->ranges[i].end >> PAGE_SHIFT;
		if (*end <= max(*page, ans->fresh))
			continue;
		*page = max3(*page, ans->fresh,
			     ans->ranges[i].start >> PAGE_SHIFT);
		return true;
	}
	return false;
}

/**
 * spm_answer_retract() - forget what was added and not delivered
 * @ans: answer
 */
void spm_answer_retract(struct spm_answer *ans)
{
	u64 page = 0, end;

	for (; spm_answer_undelivered(ans, &page, &end); page = end)
		ans->pages -= end - page;
	/* The last range was delivered before it grew. */
	if (ans->n && ans->ranges[0].start >> PAGE_SHIFT < ans->fresh)
		ans->count++;
	ans->n = 0;
	if (ans->bits)
		bitmap_zero(ans->bits, SPM_ANSWER_BITS + SPM_SLOT_PAGES);
}
