/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The answer to "which pages?": ranges or a bitmap, in the caller's memory.
 *
 * No user memory is touched while a page is being asked for, because the answer
 * may lie in a mapping of ours, and its fault wait for the lock held.  So pages
 * are added to a buffer, which is delivered between two slots; and when that
 * fails, whoever added them can take back what it did to them.
 *
 * Pages are numbered as the caller counts: address or offset / 4096.
 */
#ifndef SPM_ANSWER_H
#define SPM_ANSWER_H

#include <linux/superpmap.h>
#include <linux/types.h>

/**
 * struct spm_answer - an answer that grows, pages in ascending order
 * @bitmap:	a bitmap, else ranges
 * @vec:	where it goes
 * @room:	ranges, or pages of a bitmap, that fit there; 0 if pages are only
 *		counted
 * @first:	page of bit 0
 * @count:	ranges, or whole words of the bitmap in bytes, that were delivered
 * @pages:	pages that were added
 * @fresh:	pages below were delivered
 * @ranges:	those not delivered yet
 * @n:		how many
 * @last:	the last range, delivered or not, if there is one
 * @bits:	those not delivered yet, beginning with page @window
 * @window:	see @bits
 */
struct spm_answer {
	bool bitmap;
	void __user *vec;
	u64 room;
	u64 first;
	u64 count;
	u64 pages;
	u64 fresh;
	struct spm_page_range *ranges;
	unsigned int n;
	struct spm_page_range last;
	unsigned long *bits;
	u64 window;
};

int spm_answer_init(struct spm_answer *ans, const struct spm_scan *a);
u64 spm_answer_end(const struct spm_answer *ans);
u64 spm_answer_delivered(const struct spm_answer *ans);
void spm_answer_free(struct spm_answer *ans);
unsigned int spm_answer_fits(const struct spm_answer *ans, u64 page,
			     const unsigned long *bits, unsigned int lo,
			     unsigned int hi);
bool spm_answer_roomy(const struct spm_answer *ans);
int spm_answer_ready(struct spm_answer *ans, u64 page);
void spm_answer_add(struct spm_answer *ans, u64 page, const unsigned long *bits,
		    unsigned int lo, unsigned int hi);
int spm_answer_deliver(struct spm_answer *ans, u64 end);
u64 spm_answer_count(const struct spm_answer *ans);
bool spm_answer_undelivered(const struct spm_answer *ans, u64 *page, u64 *end);
void spm_answer_retract(struct spm_answer *ans);

#endif /* SPM_ANSWER_H */
