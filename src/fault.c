// SPDX-License-Identifier: GPL-2.0
/*
 * The fault handlers.
 *
 * All of the core's entrances lead to one function, spm_fault(): a fault where
 * nothing is mapped (->huge_fault if the PMD is none, else ->fault), a store to
 * a read-only 4 KB entry (->page_mkwrite) and to a read-only 2 MB entry
 * (->huge_fault).  The work is done under the lock of the one slot, so the
 * steps need no order among themselves to be seen whole; and the entry is made
 * here, never by the core, so every entry obeys the rules of pmap.c.
 *
 * The VMA is locked for reading by the caller (its own lock, or mmap_lock).
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "fault.h"

static int spm_fault_populate(const struct spm_place *pl,
			      struct spm_reserv *rv, unsigned int i,
			      enum spm_populate_cause cause)
{
	if (spm_reserv_populated(rv, i))
		return 0;
	return spm_reserv_populate(rv, i, pl->vma, spm_place_addr(pl, i),
				   cause);
}

/**
 * spm_fault_fill() - make the rest of a slot exist
 * @pl:		place that fits
 * @rv:		reservation
 * @cause:	for the tracepoint
 *
 * Stops early, with the slot partly filled, when single pages run out or the
 * task is being killed.
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_fault_fill(const struct spm_place *pl, struct spm_reserv *rv,
		    enum spm_populate_cause cause)
{
	unsigned int i;

	for_each_clear_bit(i, rv->popmap, SPM_SLOT_PAGES)
		if (spm_fault_populate(pl, rv, i, cause) ||
		    fatal_signal_pending(current))
			break;
}

static void spm_facts_init(struct spm_facts *f, const struct spm_place *pl,
			   const struct spm_reserv *rv, unsigned int i,
			   bool write, enum spm_pmd_state pmd)
{
	f->write = write;
	f->may_write = pl->vma->vm_flags & VM_WRITE;
	f->fits = pl->fits;
	/* MADV_NOHUGEPAGE and prctl(PR_SET_THP_DISABLE) are a no to ours, too. */
	f->superpages = READ_ONCE(spm_tunables.superpages) &&
			!vma_thp_disabled(pl->vma, pl->vma->vm_flags, false);
	f->block = !spm_reserv_loose(rv);
	f->pmd = pmd;
	f->popcnt = rv->popcnt;
	f->dirty_self = spm_reserv_dirty(rv, i);
	f->dirty_peers = rv->ndirty - f->dirty_self;
	f->dirty_threshold = READ_ONCE(spm_tunables.dirty_threshold);
}

/* A 2 MB entry, by whichever way leads to it from what the PMD holds. */
static vm_fault_t spm_fault_map_2m(struct spm_pmap *pm,
				   const struct spm_place *pl,
				   struct spm_reserv *rv, bool write,
				   enum spm_pmd_state pmd,
				   enum spm_decision *did)
{
	if (write)
		spm_reserv_set_all_dirty(rv);
	if (spm_pmd_is_2m(pmd)) {
		*did = SPM_DID_UPGRADE;
		return spm_pmap_upgrade(pm, pl, rv, SPM_PROMOTE_FAULT);
	}
	if (pmd == SPM_PMD_TABLE) {
		*did = write ? SPM_DID_PROMOTE_RW : SPM_DID_PROMOTE_RO;
		return spm_pmap_promote(pm, pl, rv, write, SPM_PROMOTE_FAULT);
	}
	*did = write ? SPM_DID_2M_RW : SPM_DID_2M_RO;
	return spm_pmap_enter_2m(pm, pl, rv, write, SPM_PROMOTE_FAULT);
}

/* One 4 KB entry and its populated neighbours; demotes what is in the way. */
static vm_fault_t spm_fault_map_4k(struct spm_pmap *pm,
				   const struct spm_place *pl,
				   struct spm_reserv *rv, unsigned int i,
				   bool write, enum spm_pmd_state pmd,
				   enum spm_decision *did)
{
	unsigned int window = READ_ONCE(spm_tunables.prefault_pages);
	vm_fault_t ret;

	if (write)
		spm_reserv_set_dirty(rv, i);
	if (spm_pmd_is_2m(pmd)) {
		*did = SPM_DID_DEMOTE;
		/* Makes page i writable: it is dirty now. */
		if (spm_pmap_demote(pm, pl, rv, SPM_DEMOTE_WRITE))
			return VM_FAULT_NOPAGE;
		/* Aborted: nothing is mapped, carry on from there. */
	} else {
		*did = write ? SPM_DID_4K_WRITE : SPM_DID_4K;
		if (write)
			spm_pt_renew(pl, i);
	}
	ret = spm_pmap_enter_4k(pm, pl, rv, i);
	if (ret == VM_FAULT_NOPAGE) {
		spm_count(&pm->owner->counters, enter_4k);
		if (window)
			spm_pmap_prefault(pm, pl, rv, i, window);
	}
	return ret;
}

/* The page exists: choose its entry and make it. */
static vm_fault_t spm_fault_map(struct spm_pmap *pm, const struct spm_place *pl,
				struct spm_reserv *rv, unsigned int i,
				bool write, enum spm_pmd_state pmd,
				enum spm_decision *did)
{
	enum spm_refusal why;
	struct spm_facts f;
	enum spm_entry e;
	vm_fault_t ret;

	spm_facts_init(&f, pl, rv, i, write, pmd);
	e = spm_policy_entry(&f, &why);
	if (e != SPM_ENTRY_4K) {
		ret = spm_fault_map_2m(pm, pl, rv, e == SPM_ENTRY_2M_RW, pmd,
				       did);
		if (ret != VM_FAULT_FALLBACK)
			return ret;
		pmd = SPM_PMD_TABLE;
	} else if (why != SPM_REFUSE_NONE && !spm_pmd_is_2m(pmd)) {
		spm_pmap_refuse(pm, pl, why, SPM_PROMOTE_FAULT);
	}
	return spm_fault_map_4k(pm, pl, rv, i, write, pmd, did);
}

static vm_fault_t spm_fault_slot(struct spm_map *map, struct spm_slot *slot,
				 struct vm_fault *vmf, enum spm_decision *did)
{
	bool write = vmf->flags & FAULT_FLAG_WRITE;
	unsigned int i = vmf->pgoff & (SPM_SLOT_PAGES - 1);
	struct spm_region *r = map->region;
	struct spm_pmap *pm = &map->pmap;
	enum spm_pmd_state pmd;
	struct spm_reserv *rv;
	struct spm_place pl;

	lockdep_assert_held(&slot->lock);
	spm_place_init(&pl, vmf->vma, slot->index, spm_region_pages(r),
		       vmf->pmd);
	/* The size cannot shrink below a page of ours while we hold the slot. */
	if (i >= pl.hi) {
		*did = SPM_DID_SIGBUS;
		return VM_FAULT_SIGBUS;
	}
	pmd = spm_pmap_observe(pm, &pl);
	if (pmd == SPM_PMD_2M_RW || (pmd == SPM_PMD_2M_RO && !write)) {
		*did = SPM_DID_RETRY;
		return VM_FAULT_NOPAGE;
	}
	*did = SPM_DID_OOM;
	if (spm_slot_reserve(&r->object, slot, vmf->vma, vmf->address))
		return VM_FAULT_OOM;
	rv = slot->reserv;
	if (spm_fault_populate(&pl, rv, i, SPM_POPULATE_FAULT)) {
		spm_slot_depopulate(slot, i, i + 1);
		return VM_FAULT_OOM;
	}
	if (pl.fits && spm_policy_fill(rv->popcnt,
				       READ_ONCE(spm_tunables.populate_threshold)))
		spm_fault_fill(&pl, rv, SPM_POPULATE_THRESHOLD);
	return spm_fault_map(pm, &pl, rv, i, write, pmd, did);
}

static vm_fault_t spm_fault(struct vm_fault *vmf)
{
	struct spm_region *r = spm_vma_region(vmf->vma);
	u64 t0 = trace_spm_fault_enabled() ? ktime_get_ns() : 0;
	enum spm_decision did = SPM_DID_OOM;
	vm_fault_t ret = VM_FAULT_OOM;
	struct spm_slot *slot;
	struct spm_map *map;

	spm_count(&r->object.owner.counters, vm_faults);
	/* Checked again under the slot lock; saves a slot beyond the end. */
	if (vmf->pgoff >= spm_region_pages(r)) {
		did = SPM_DID_SIGBUS;
		ret = VM_FAULT_SIGBUS;
		goto out;
	}
	map = spm_map_of(vmf->vma);
	if (!map || spm_pmap_prepare(&map->pmap, vmf->pgoff >> SPM_SLOT_SHIFT))
		goto out;
	slot = spm_object_slot(&r->object, vmf->pgoff >> SPM_SLOT_SHIFT);
	if (!slot)
		goto out;
	/*
	 * The holder may be throttled by its memory cgroup for seconds.  Who is
	 * killed meanwhile need not wait; no other signal can reach it any more,
	 * and a copy by the kernel on its behalf ends with EFAULT.
	 */
	if (mutex_lock_killable(&slot->lock)) {
		did = SPM_DID_RETRY;
		ret = VM_FAULT_SIGBUS;
		goto out;
	}
	ret = spm_fault_slot(map, slot, vmf, &did);
	mutex_unlock(&slot->lock);
	if (ret & VM_FAULT_OOM)
		did = SPM_DID_OOM;
out:
	if (trace_spm_fault_enabled())
		trace_spm_fault(r->id, vmf->real_address, vmf->pgoff,
				vmf->flags & FAULT_FLAG_WRITE, did, ret,
				t0 ? ktime_get_ns() - t0 : 0);
	return ret;
}

/*
 * The core asks for the whole PMD first when it is none.  Everything is done
 * there and then, 4 KB entries too: falling back would only bring the same
 * fault here again by way of ->fault.
 */
static vm_fault_t spm_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	if (order != PMD_ORDER)
		return VM_FAULT_FALLBACK;
	return spm_fault(vmf);
}

/*
 * Its presence is what counts: with ->map_pages the core calls ->fault under
 * the VMA's lock alone.  Without, it would take mmap_lock for every fault.
 * Neighbours are mapped by spm_pmap_prefault(), for stores as well.
 */
static vm_fault_t spm_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t end)
{
	return 0;
}

const struct vm_operations_struct spm_vm_ops = {
	.open = spm_vma_open,
	.close = spm_vma_close,
	.mremap = spm_vma_mremap,
	.may_split = spm_vma_may_split,
	.fault = spm_fault,
	.huge_fault = spm_huge_fault,
	.map_pages = spm_map_pages,
	.page_mkwrite = spm_fault,
};
