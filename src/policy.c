// SPDX-License-Identifier: GPL-2.0
/*
 * Policy: pure functions, each a rule of FreeBSD's fault handler or an explicit
 * departure from it.
 */
#include <linux/export.h>
#include <linux/hash.h>
#include <linux/minmax.h>
#include <kunit/visibility.h>

#include "policy.h"

struct spm_tunables spm_tunables = {
	.superpages = 1,
	.populate_threshold = SPM_SLOT_PAGES,
	.dirty_threshold = SPM_SLOT_PAGES - 1,
	.prefault_pages = 4,
};
EXPORT_SYMBOL_IF_KUNIT(spm_tunables);

/**
 * spm_policy_entry() - which entry answers a fault
 * @f:		the facts
 * @why:	set to the reason when a full slot gets 4 KB, else to
 *		SPM_REFUSE_NONE
 *
 * FreeBSD's page test (vm_page_ps_test() as vm_fault_soft_fast() calls it):
 * every page populated; for a writable entry also every page dirty, the
 * faulting one exempt, because one entry cannot tell later which of its 512
 * pages was written.  With @dirty_threshold below 511, enough dirty pages do,
 * and the caller records the rest dirty before it makes the entry.
 *
 * A read in a writable mapping whose pages are not all dirty gets a read-only
 * 2 MB entry where that takes nothing away: no entry is there yet, or none of
 * those that are there is writable.  Where some pages are mapped writable
 * already, the read-only entry would cost them a fault each.
 *
 * For a store to a read-only 2 MB entry, SPM_ENTRY_2M_RW means upgrade in place
 * and SPM_ENTRY_4K means demote.
 *
 * Return: the entry to make.
 */
enum spm_entry spm_policy_entry(const struct spm_facts *f,
				enum spm_refusal *why)
{
	*why = SPM_REFUSE_NONE;
	if (!f->superpages || !f->fits || f->popcnt < SPM_SLOT_PAGES)
		return SPM_ENTRY_4K;
	if (!f->block) {
		*why = SPM_REFUSE_LOOSE;
		return SPM_ENTRY_4K;
	}
	if (!f->may_write)
		return SPM_ENTRY_2M_RO;
	if (f->dirty_peers >= f->dirty_threshold)
		return SPM_ENTRY_2M_RW;
	if (!f->write && (f->pmd != SPM_PMD_TABLE ||
			  !(f->dirty_peers || f->dirty_self)))
		return SPM_ENTRY_2M_RO;
	*why = SPM_REFUSE_NOT_DIRTY;
	return SPM_ENTRY_4K;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_entry);

/**
 * spm_policy_fill() - populate the rest of the slot now?
 * @popcnt:	populated pages, the faulting one included
 * @threshold:	spm_tunables.populate_threshold
 *
 * Quicksilver's relaxed threshold; with 512 the slot is
 * full when this could say yes, and there is no rest.
 *
 * Return: true if there is a rest and it is to be populated.
 */
bool spm_policy_fill(unsigned int popcnt, unsigned int threshold)
{
	return popcnt >= threshold && popcnt < SPM_SLOT_PAGES;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_fill);

/**
 * spm_policy_cow_slot() - copy the whole slot, or only the page stored to?
 * @size:	spm_tunables.cow_size
 * @mappable:	a full copy could be mapped by 2 MB
 * @popcnt:	pages of the slot that the object has already
 * @run:	how many of these lie next to the page on one side, without a gap
 *
 * FreeBSD copies the page.  The whole slot at once costs up to 512 copies for
 * one store and saves as many faults.
 *
 * Return: true for the slot.
 */
bool spm_policy_cow_slot(enum spm_cow_size size, bool mappable,
			 unsigned int popcnt, unsigned int run)
{
	if (!mappable || size == SPM_COW_4K)
		return false;
	return size == SPM_COW_2M || popcnt >= SPM_COW_MOSTLY ||
	       run >= SPM_COW_RUN;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_cow_slot);

/**
 * spm_policy_dirty_threshold() - dirty peers that a writable 2 MB entry takes
 * @grain:	the setting
 * @state:	what is known of the slot, for SPM_GRAIN_AUTO
 * @threshold:	spm_tunables.dirty_threshold
 *
 * Return: @threshold, or 0 where a store may make the whole slot dirty.
 */
unsigned int spm_policy_dirty_threshold(enum spm_grain grain,
					struct spm_grain_state state,
					unsigned int threshold)
{
	if (grain == SPM_GRAIN_2M || (grain == SPM_GRAIN_AUTO && state.coarse))
		return 0;
	return threshold;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_dirty_threshold);

/**
 * spm_policy_grain() - what a clear that found a slot dirty teaches
 * @state:	what was known
 * @ndirty:	pages that were dirty
 *
 * While whole slots are made dirty nothing can be learnt; so after some clears
 * the slot gets one interval in which single pages are.  If these were many, the
 * next look comes after twice as many clears.  If they were few, single pages
 * it is, as long as they stay few.  A look costs a demotion at most, so there is
 * at most one for each clear of a slot, and for a dense one, in the long run, one
 * in SPM_GRAIN_PATIENCE.
 *
 * Return: what is known now.
 */
struct spm_grain_state spm_policy_grain(struct spm_grain_state state,
					unsigned int ndirty)
{
	if (state.coarse) {
		state.coarse--;
	} else if (ndirty > SPM_GRAIN_DENSE) {
		state.patience = clamp(2U * state.patience, 1U,
				       SPM_GRAIN_PATIENCE);
		state.coarse = state.patience;
	} else {
		state.patience = 0;
	}
	return state;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_grain);

/**
 * spm_policy_accessed_page() - for which of its pages a slot's bit is cleared
 * @slot:	index of the slot
 *
 * The accessed bit of a 2 MB entry answers for 512 pages.  Were it cleared by a
 * look at any of them, whoever ages pages one by one would find 511 cold; were it
 * never, all hot for ever.  As FreeBSD's pmap_ts_referenced() does, one of them,
 * by a hash, so that regular scans do not meet it in the same order everywhere.
 *
 * Return: index of the page, 0..511.
 */
unsigned int spm_policy_accessed_page(unsigned long slot)
{
	return hash_long(slot, SPM_SLOT_SHIFT);
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_accessed_page);

/**
 * spm_policy_prefault() - the window around a faulting page
 * @page:	its index in the slot
 * @window:	pages on each side
 * @lo:		first index of the slot that the mapping covers
 * @hi:		one past the last
 * @first:	set to the first index of the window [@first, @end)
 * @end:	set to one past its last
 *
 * The window never leaves the slot: its lock is the only one that is held.
 */
void spm_policy_prefault(unsigned int page, unsigned int window,
			 unsigned int lo, unsigned int hi,
			 unsigned int *first, unsigned int *end)
{
	*first = max(page > window ? page - window : 0, lo);
	*end = min(page + window + 1, hi);
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_prefault);

/**
 * spm_policy_break() - is a partly filled reservation to be broken?
 * @popcnt:	populated pages, which have to be copied
 * @idle:	ticks since it changed
 * @age:	ticks that are asked for
 *
 * Whether it is read or written says nothing here: single pages are as fast as
 * a reservation that is not full.  What breaking it takes away is the hope that
 * it will be, and that is great where it is nearly full, or being filled.
 *
 * Return: true if so.
 */
bool spm_policy_break(unsigned int popcnt, u32 idle, u32 age)
{
	return popcnt + SPM_BREAK_GAIN <= SPM_SLOT_PAGES && idle >= age;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_break);

/**
 * spm_policy_fill_idle() - is the rest of a slot to be populated in idle time?
 * @popcnt:	populated pages
 * @threshold:	at which it is; 512: never
 * @idle:	ticks since it changed
 * @recent:	ticks for which it counts as hot
 *
 * Return: true if so.
 */
bool spm_policy_fill_idle(unsigned int popcnt, unsigned int threshold,
			  u32 idle, u32 recent)
{
	return popcnt < SPM_SLOT_PAGES && popcnt >= threshold && idle < recent;
}
EXPORT_SYMBOL_IF_KUNIT(spm_policy_fill_idle);
