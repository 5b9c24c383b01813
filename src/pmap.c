// SPDX-License-Identifier: GPL-2.0
/*
 * The pmap operations.
 *
 * Invariant (FreeBSD's "managed, writable superpage => modified", for both
 * sizes): an entry is writable only if the page, for a 2 MB entry all 512 of
 * them, is recorded dirty in the reservation.  The kernel throws hardware dirty
 * bits away or moves them whenever it splits or zaps an entry; with this rule
 * nothing is lost.
 */
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <kunit/visibility.h>

#include "locks.h"
#include "pmap.h"

/**
 * spm_pmap_init() - a pmap without entries, on its region's list
 * @pm:		to be set up
 * @owner:	of the object
 * @rmap:	of the region
 * @mm:		whose page tables
 *
 * Context: process context, may sleep; no slot lock needed.
 */
void spm_pmap_init(struct spm_pmap *pm, const struct spm_owner *owner,
		   struct spm_rmap *rmap, struct mm_struct *mm)
{
	pm->owner = owner;
	pm->rmap = rmap;
	pm->mm = mm;
	pm->inexact = false;
	mmgrab(mm);
	spm_xa_init(&pm->shadow, "shadow_xa");
	mutex_lock(&rmap->lock);
	list_add_tail(&pm->link, &rmap->pmaps);
	WRITE_ONCE(rmap->npmaps, rmap->npmaps + 1);
	mutex_unlock(&rmap->lock);
	spm_count(owner->counters, maps);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_init);

/*
 * The one place that changes the shadow, so that the gauge of live superpages
 * always is the number of 2 MB states.  An element that is not there stands for
 * SPM_PMD_NONE, and nothing else is ever stored then: replacing takes no memory.
 */
static void spm_pmap_set(struct spm_pmap *pm, pgoff_t slot,
			 enum spm_pmd_state new)
{
	XA_STATE(xas, &pm->shadow, slot);
	enum spm_pmd_state old;
	void *entry;

	xas_lock(&xas);
	entry = xas_load(&xas);
	old = entry ? xa_to_value(entry) : SPM_PMD_NONE;
	if (old != new)
		xas_store(&xas, xa_mk_value(new));
	xas_unlock(&xas);
	if (spm_pmd_is_2m(new) != spm_pmd_is_2m(old))
		spm_count_n(pm->owner->counters, live,
			    spm_pmd_is_2m(new) - spm_pmd_is_2m(old));
}

/**
 * spm_pmap_destroy() - take a pmap off its region's list
 * @pm:	none of its VMAs is left
 *
 * Context: process context, may sleep; no slot lock needed: @pm can be reached
 * by nobody once it is off the list.
 */
void spm_pmap_destroy(struct spm_pmap *pm)
{
	unsigned long slot;
	void *entry;

	mutex_lock(&pm->rmap->lock);
	list_del(&pm->link);
	WRITE_ONCE(pm->rmap->npmaps, pm->rmap->npmaps - 1);
	mutex_unlock(&pm->rmap->lock);
	xa_for_each(&pm->shadow, slot, entry)
		spm_pmap_forget(pm, slot);
	xa_destroy(&pm->shadow);
	spm_count_n(pm->owner->counters, maps, -1);
	mmdrop(pm->mm);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_destroy);

/**
 * spm_pmap_prepare() - make room in the shadow for a slot
 * @pm:		pmap
 * @slot:	index
 *
 * All that follows for this slot then works without memory.
 *
 * Context: process context, may sleep; no lock needed.
 * Return: 0 or -ENOMEM.
 */
int spm_pmap_prepare(struct spm_pmap *pm, pgoff_t slot)
{
	int err;

	if (likely(xa_load(&pm->shadow, slot)))
		return 0;
	err = xa_insert(&pm->shadow, slot, xa_mk_value(SPM_PMD_NONE),
			GFP_KERNEL_ACCOUNT);
	/* Another thread of this mapping was first. */
	return err == -EBUSY ? 0 : err;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_prepare);

/**
 * spm_pmap_shadow() - at which size a slot is mapped, at most
 * @pm:		pmap
 * @slot:	index
 *
 * Return: the state, SPM_PMD_NONE for a slot that was never prepared.
 */
enum spm_pmd_state spm_pmap_shadow(struct spm_pmap *pm, pgoff_t slot)
{
	void *entry = xa_load(&pm->shadow, slot);

	return entry ? xa_to_value(entry) : SPM_PMD_NONE;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_shadow);

/**
 * spm_pmap_live() - how many slots are mapped by a 2 MB entry, at most
 * @pm: pmap
 *
 * Context: process context; no lock needed.
 * Return: their number.
 */
unsigned long spm_pmap_live(struct spm_pmap *pm)
{
	unsigned long slot, n = 0;
	void *entry;

	xa_for_each(&pm->shadow, slot, entry)
		n += spm_pmd_is_2m(xa_to_value(entry));
	return n;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_live);

/**
 * spm_pmap_observe() - read the PMD, and correct the shadow by what it says
 * @pm:	pmap, prepared for the slot
 * @pl:	place
 *
 * In a place that does not fit no 2 MB entry of ours can be; the PMD may then
 * belong to two slots, and the shadow knows 4 KB entries at most.
 *
 * Return: what the PMD holds.
 */
enum spm_pmd_state spm_pmap_observe(struct spm_pmap *pm,
				    const struct spm_place *pl)
{
	const struct spm_counters *c = pm->owner->counters;
	enum spm_pmd_state is = spm_pt_state(pl->pmd);
	enum spm_pmd_state was = spm_pmap_shadow(pm, pl->slot);

	if (spm_pmd_is_2m(was) && !spm_pmd_is_2m(is)) {
		/* The kernel threw the entry away. */
		spm_count(c, removals);
		spm_pmap_set(pm, pl->slot, is);
	} else if (spm_pmd_is_2m(is) && !spm_pmd_is_2m(was)) {
		/* Only where a copy or move of the mapping ran out of memory. */
		VM_WARN_ONCE(!READ_ONCE(pm->inexact),
			     "superpmap: unknown 2 MB entry\n");
		spm_count(c, mappings);
		spm_pmap_set(pm, pl->slot, is);
	}
	return is;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_observe);

/**
 * spm_pmap_forget() - the entries of a slot are gone from a mapping
 * @pm:		pmap
 * @slot:	index
 */
void spm_pmap_forget(struct spm_pmap *pm, pgoff_t slot)
{
	if (spm_pmd_is_2m(spm_pmap_shadow(pm, slot)))
		spm_count(pm->owner->counters, removals);
	spm_pmap_set(pm, slot, SPM_PMD_NONE);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_forget);

/**
 * spm_pmap_move() - mremap moved the entries of a slot to another mapping
 * @to:		where they are now
 * @from:	where they were
 * @slot:	index
 * @whole:	the slot moved whole; else some of its 4 KB entries stayed
 *
 * Context: slot lock held; mmap_lock held for writing.
 * Return: 0, or -ENOMEM when @to could not take the knowledge over.
 */
int spm_pmap_move(struct spm_pmap *to, struct spm_pmap *from, pgoff_t slot,
		  bool whole)
{
	enum spm_pmd_state state = spm_pmap_shadow(from, slot);
	int err;

	if (state == SPM_PMD_NONE)
		return 0;
	err = spm_pmap_prepare(to, slot);
	if (err) {
		spm_pmap_forget(from, slot);
		return err;
	}
	spm_pmap_set(to, slot, state);
	if (whole || spm_pmd_is_2m(state))
		spm_pmap_set(from, slot, SPM_PMD_NONE);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_move);

static bool spm_place_may_write(const struct spm_place *pl)
{
	return pl->vma->vm_flags & VM_WRITE;
}

/* A page of a backing object is not this mapping's to write to. */
static bool spm_pmap_owns(const struct spm_pmap *pm,
			  const struct spm_reserv *rv)
{
	return rv->owner == pm->owner;
}

/**
 * spm_pmap_write_protected() - the entries of a reservation are read-only now
 * @pm:		pmap
 * @rv:		reservation
 *
 * Only maps of the object that owns it could write to it.
 *
 * Context: slot lock held; no VMA lock needed.
 */
void spm_pmap_write_protected(struct spm_pmap *pm, const struct spm_reserv *rv)
{
	if (spm_pmap_owns(pm, rv) &&
	    spm_pmap_shadow(pm, rv->index) == SPM_PMD_2M_RW)
		spm_pmap_set(pm, rv->index, SPM_PMD_2M_RO);
}

/**
 * spm_pmap_enter_4k() - map one page
 * @pm:	pmap, prepared
 * @pl:	place, whose PMD is no 2 MB entry
 * @rv:	reservation, of the object or of one that shows through
 * @i:	index of a populated page inside the place
 *
 * The entry is writable if the mapping allows it, the page is the object's own,
 * and it is recorded dirty already; so a store marks the page dirty before it
 * comes here.
 *
 * Return: VM_FAULT_NOPAGE, VM_FAULT_OOM or VM_FAULT_SIGBUS.
 */
vm_fault_t spm_pmap_enter_4k(struct spm_pmap *pm, const struct spm_place *pl,
			     struct spm_reserv *rv, unsigned int i)
{
	bool write = spm_reserv_dirty(rv, i) && spm_pmap_owns(pm, rv) &&
		     spm_place_may_write(pl);

	if (spm_pmap_shadow(pm, pl->slot) == SPM_PMD_NONE)
		spm_pmap_set(pm, pl->slot, SPM_PMD_TABLE);
	return spm_pt_insert_4k(pl, i, spm_reserv_page(rv, i), write);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_enter_4k);

static void spm_pmap_trace_promote(struct spm_pmap *pm,
				   const struct spm_place *pl,
				   enum spm_promote_kind kind, bool write,
				   enum spm_promote_cause cause,
				   enum spm_refusal why)
{
	trace_spm_promote(pm->owner->region, pl->slot, pl->addr, kind, write,
			  cause, why);
}

/**
 * spm_pmap_refuse() - count that a full slot was not promoted
 * @pm:		pmap
 * @pl:		place
 * @why:	the reason
 * @cause:	who asked
 */
void spm_pmap_refuse(struct spm_pmap *pm, const struct spm_place *pl,
		     enum spm_refusal why, enum spm_promote_cause cause)
{
	spm_count(pm->owner->counters, p_failures);
	spm_pmap_trace_promote(pm, pl, SPM_PROMOTE_FAILED, false, cause, why);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_refuse);

static bool spm_pmap_may_map_2m(const struct spm_pmap *pm,
				const struct spm_reserv *rv, bool write)
{
	return spm_reserv_full(rv) && !spm_reserv_loose(rv) &&
	       (!write ||
		(spm_pmap_owns(pm, rv) && rv->ndirty == SPM_SLOT_PAGES));
}

static vm_fault_t spm_pmap_insert_2m(struct spm_pmap *pm,
				     const struct spm_place *pl,
				     struct spm_reserv *rv, bool write)
{
	vm_fault_t ret;

	if (WARN_ONCE(!spm_pmap_may_map_2m(pm, rv, write) || !pl->fits,
		      "superpmap: slot %lu may not be mapped by 2 MB: %u populated, %u dirty, write %d\n",
		      rv->index, spm_reserv_popcnt(rv), rv->ndirty, write))
		return VM_FAULT_SIGBUS;
	ret = spm_pt_insert_2m(pl, rv->folio, write);
	if (ret == VM_FAULT_NOPAGE)
		spm_pmap_set(pm, pl->slot,
			     write ? SPM_PMD_2M_RW : SPM_PMD_2M_RO);
	return ret;
}

/**
 * spm_pmap_enter_2m() - map a slot by one entry where nothing is mapped
 * @pm:		pmap, prepared
 * @pl:		place that fits, whose PMD is none
 * @rv:		full reservation with a block
 * @write:	writable; all pages are recorded dirty
 * @cause:	who asked
 *
 * FreeBSD's pmap_enter(psind = 1), counted as a mapping.
 *
 * Return: VM_FAULT_NOPAGE, or an error with nothing mapped.
 */
vm_fault_t spm_pmap_enter_2m(struct spm_pmap *pm, const struct spm_place *pl,
			     struct spm_reserv *rv, bool write,
			     enum spm_promote_cause cause)
{
	vm_fault_t ret = spm_pmap_insert_2m(pm, pl, rv, write);

	if (ret == VM_FAULT_NOPAGE) {
		spm_count(pm->owner->counters, mappings);
		spm_pmap_trace_promote(pm, pl, SPM_PROMOTE_DIRECT, write, cause,
				       SPM_REFUSE_NONE);
	}
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_enter_2m);

/* How many entries of a slot have their accessed bit set; and clear them. */
static unsigned int spm_pmap_accessed(struct spm_pmap *pm,
				      const struct spm_place *pl, bool clear)
{
	DECLARE_BITMAP(unused, SPM_SLOT_PAGES);

	return spm_pt_accessed(pm->mm, pl->addr, SPM_SLOT_PAGES, clear, clear,
			       unused).found;
}

/**
 * spm_pmap_promote() - replace a slot's 4 KB entries by one of 2 MB, in place
 * @pm:		pmap, prepared
 * @pl:		place that fits, whose PMD is a page table
 * @rv:		full reservation with a block
 * @write:	writable; all pages are recorded dirty
 * @cause:	who asked
 *
 * Linux never overwrites a populated PMD, so this is break before make: zap the
 * 512 entries, take the empty table out, enter 2 MB.  Between the steps the
 * range is unmapped; whoever touches it waits for the slot lock in its fault.
 *
 * The new entry counts as accessed only if all 512 were, else a slot of which a
 * few pages are touched would look hot as a whole.
 *
 * Return: VM_FAULT_NOPAGE; VM_FAULT_FALLBACK if the table had to stay: the
 * caller maps 4 KB; VM_FAULT_OOM with nothing mapped.
 */
vm_fault_t spm_pmap_promote(struct spm_pmap *pm, const struct spm_place *pl,
			    struct spm_reserv *rv, bool write,
			    enum spm_promote_cause cause)
{
	unsigned int accessed;
	vm_fault_t ret;

	if (!spm_pt_mm_suitable(pm->mm)) {
		spm_pmap_refuse(pm, pl, SPM_REFUSE_MM, cause);
		return VM_FAULT_FALLBACK;
	}
	accessed = spm_pmap_accessed(pm, pl, false);
	spm_pt_zap(pl, 0, SPM_SLOT_PAGES);
	if (!spm_pt_retract(pl)) {
		spm_pmap_refuse(pm, pl, SPM_REFUSE_RACED, cause);
		return VM_FAULT_FALLBACK;
	}
	spm_pmap_set(pm, pl->slot, SPM_PMD_NONE);
	ret = spm_pmap_insert_2m(pm, pl, rv, write);
	if (ret == VM_FAULT_NOPAGE) {
		spm_count(pm->owner->counters, promotions);
		spm_pmap_trace_promote(pm, pl, SPM_PROMOTE_INPLACE, write,
				       cause, SPM_REFUSE_NONE);
		if (accessed < SPM_SLOT_PAGES)
			spm_pmap_accessed(pm, pl, true);
	}
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_promote);

/**
 * spm_pmap_upgrade() - make a read-only 2 MB entry writable in place
 * @pm:		pmap, prepared
 * @pl:		place that fits, whose PMD is a read-only 2 MB entry
 * @rv:		its reservation, all pages recorded dirty
 * @cause:	who asked
 *
 * Return: VM_FAULT_NOPAGE or an error.
 */
vm_fault_t spm_pmap_upgrade(struct spm_pmap *pm, const struct spm_place *pl,
			    struct spm_reserv *rv,
			    enum spm_promote_cause cause)
{
	vm_fault_t ret = spm_pmap_insert_2m(pm, pl, rv, true);

	if (ret == VM_FAULT_NOPAGE) {
		spm_count(pm->owner->counters, upgrades);
		spm_pmap_trace_promote(pm, pl, SPM_PROMOTE_UPGRADE, true, cause,
				       SPM_REFUSE_NONE);
	}
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_upgrade);

static void spm_count_demotion(const struct spm_counters *c,
			       enum spm_demote_cause cause)
{
	static const enum spm_stat by_cause[] = {
		[SPM_DEMOTE_WRITE] = SPM_STAT_demotions_write,
		[SPM_DEMOTE_SPLIT] = SPM_STAT_demotions_split,
		[SPM_DEMOTE_ADVISE] = SPM_STAT_demotions_advise,
		[SPM_DEMOTE_COW] = SPM_STAT_demotions_cow,
		[SPM_DEMOTE_RECLAIM] = SPM_STAT_demotions_reclaim,
	};

	spm_count(c, demotions);
	spm_stat_add(c, by_cause[cause], 1);
}

/**
 * spm_pmap_demote() - replace a 2 MB entry by 512 entries of 4 KB, in place
 * @pm:		pmap, prepared
 * @pl:		place that fits, whose PMD is a 2 MB entry
 * @rv:		its reservation
 * @cause:	why
 *
 * Every page keeps its mapping; an entry is writable where the page is recorded
 * dirty, and accessed if the 2 MB entry was.  When that fails (memory for the page table), the demotion is aborted:
 * the 2 MB entry is gone and flushed, and what is not mapped faults back.  As
 * with FreeBSD's pmap_demote_pde(), the caller then carries on with the PMD as
 * it finds it.
 *
 * Return: true if all 512 pages are mapped.
 */
bool spm_pmap_demote(struct spm_pmap *pm, const struct spm_place *pl,
		     struct spm_reserv *rv, enum spm_demote_cause cause)
{
	const struct spm_counters *c = pm->owner->counters;
	bool accessed = spm_pmap_accessed(pm, pl, false);
	unsigned int i;

	spm_pt_zap(pl, 0, SPM_SLOT_PAGES);
	spm_pmap_set(pm, pl->slot, SPM_PMD_NONE);
	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (spm_pmap_enter_4k(pm, pl, rv, i) != VM_FAULT_NOPAGE)
			break;
	if (!accessed)
		spm_pmap_accessed(pm, pl, true);
	if (i == SPM_SLOT_PAGES)
		spm_count_demotion(c, cause);
	else
		spm_count(c, demote_aborts);
	trace_spm_demote(pm->owner->region, pl->slot, pl->addr, cause,
			 i < SPM_SLOT_PAGES, i);
	return i == SPM_SLOT_PAGES;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_demote);

/**
 * spm_pmap_remove() - take pages of a slot out of one mapping
 * @pm:		pmap
 * @pl:		place
 * @first:	first page, inside [lo, hi)
 * @end:	one past the last
 *
 * A 2 MB entry goes as a whole; see spm_rmap_remove_all().
 */
void spm_pmap_remove(struct spm_pmap *pm, const struct spm_place *pl,
		     unsigned int first, unsigned int end)
{
	spm_pt_zap(pl, first, end);
	if (spm_pmd_is_2m(spm_pmap_shadow(pm, pl->slot)) ||
	    end - first == SPM_SLOT_PAGES)
		spm_pmap_forget(pm, pl->slot);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_remove);

/**
 * spm_pmap_ts_referenced() - which pages were accessed through this mapping?
 * @pm:		pmap
 * @pl:		place
 * @first:	first page, inside [lo, hi)
 * @end:	one past the last
 * @clear:	and forget it
 * @out:	SPM_SLOT_PAGES bits; those of accessed pages are set
 *
 * FreeBSD's pmap_ts_referenced(), for a range of pages and one mapping.  The bit
 * of a 2 MB entry answers for all its pages, see spm_policy_accessed_page().  What
 * is dirty is recorded elsewhere, so nothing is lost with the accessed bit.
 *
 * Context: common rules; mmap_lock will do.
 * Return: how many accessed bits were set.
 */
unsigned int spm_pmap_ts_referenced(struct spm_pmap *pm,
				    const struct spm_place *pl,
				    unsigned int first, unsigned int end,
				    bool clear, unsigned long *out)
{
	unsigned int one = spm_policy_accessed_page(pl->slot);
	bool clear_2m = clear && one >= first && one < end;
	struct spm_accessed did, sum = { };
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES);
	unsigned int n, k;

	for (; first < end; first += n) {
		n = spm_place_run(pl, first, end);
		bitmap_zero(bits, n);
		did = spm_pt_accessed(pm->mm, spm_place_addr(pl, first), n,
				      clear, clear_2m, bits);
		for_each_set_bit(k, bits, n)
			__set_bit(first + k, out);
		sum.found += did.found;
		sum.cleared += did.cleared;
	}
	spm_count_n(pm->owner->counters, accessed, sum.found);
	spm_count_n(pm->owner->counters, accessed_cleared, sum.cleared);
	trace_spm_age(pm->owner->region, pl->slot, pl->addr, sum.found,
		      sum.cleared);
	return sum.found;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pmap_ts_referenced);
