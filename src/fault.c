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

#include "cow.h"
#include "evacuate.h"
#include "fault.h"
#include "rmap.h"

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
 * @obj:	object that is mapped, or that takes zeros for it
 * @pl:		place that fits
 * @rv:		its reservation
 * @cause:	for the tracepoint
 *
 * Populates what nobody holds; pages that show through are left alone.  Stops
 * early, with the slot partly filled, when single pages run out or the task is
 * being killed.
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_fault_fill(struct spm_object *obj, const struct spm_place *pl,
		    struct spm_reserv *rv, enum spm_populate_cause cause)
{
	unsigned int i;

	for_each_clear_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		if (spm_object_page(obj, pl->slot, i))
			continue;
		if (spm_fault_populate(pl, rv, i, cause) ||
		    fatal_signal_pending(current))
			break;
	}
}

static void spm_facts_init(struct spm_facts *f, const struct spm_region *r,
			   const struct spm_place *pl,
			   const struct spm_reserv *rv, unsigned int i,
			   bool write, enum spm_pmd_state pmd)
{
	f->write = write;
	f->may_write = pl->vma->vm_flags & VM_WRITE;
	f->fits = pl->fits;
	/* MADV_NOHUGEPAGE and prctl(PR_SET_THP_DISABLE) are a no to ours, too. */
	f->superpages = spm_region_superpages(r) &&
			!vma_thp_disabled(pl->vma, pl->vma->vm_flags, false);
	f->block = !spm_reserv_loose(rv);
	f->pmd = pmd;
	f->popcnt = spm_reserv_popcnt(rv);
	f->dirty_self = spm_reserv_dirty(rv, i);
	f->dirty_peers = rv->ndirty - f->dirty_self;
	f->dirty_threshold = spm_region_tunable(r, dirty_threshold);
	/* A load makes nothing dirty for the sake of the grain. */
	if (write)
		f->dirty_threshold =
			spm_policy_dirty_threshold(spm_region_tunable(r, dirty_grain),
						   rv->grain,
						   f->dirty_threshold);
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

/*
 * FreeBSD's vm_fault_prefault(): a hint, it stops at the first failure and never
 * populates.  Pages already dirty are mapped writable (FreeBSD maps them
 * read-only): a later store would fault only to learn what is known.
 */
static void spm_fault_prefault(struct spm_map *map, const struct spm_place *pl,
			       unsigned int i)
{
	struct spm_slot *slot = spm_object_find_slot(map->object, pl->slot);
	bool shadows = READ_ONCE(map->object->backing);
	unsigned int window = spm_region_tunable(map->region, prefault_pages);
	unsigned int n, end, mapped = 0;

	/* A writable entry that no store asked for would hide the next one. */
	if (!window || spm_pt_soft_dirty_tracked(pl->vma))
		return;
	spm_policy_prefault(i, window, pl->lo, pl->hi, &n, &end);
	for (; n < end; n++) {
		struct spm_reserv *rv = NULL;

		if (n == i)
			continue;
		if (spm_slot_holds(slot, n))
			rv = slot->reserv;
		else if (shadows)
			rv = spm_object_page(map->object, pl->slot, n);
		if (!rv)
			continue;
		if (spm_pmap_enter_4k(&map->pmap, pl, rv, n) != VM_FAULT_NOPAGE)
			break;
		mapped++;
	}
	spm_count_n(map->pmap.owner->counters, prefaulted, mapped);
}

/* One 4 KB entry and its populated neighbours; demotes what is in the way. */
static vm_fault_t spm_fault_map_4k(struct spm_map *map,
				   const struct spm_place *pl,
				   struct spm_reserv *rv, unsigned int i,
				   bool write, enum spm_pmd_state pmd,
				   enum spm_decision *did)
{
	struct spm_pmap *pm = &map->pmap;
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
		spm_count(pm->owner->counters, enter_4k);
		spm_fault_prefault(map, pl, i);
	}
	return ret;
}

/* The page is the object's own: choose its entry and make it. */
static vm_fault_t spm_fault_map(struct spm_map *map, const struct spm_place *pl,
				struct spm_reserv *rv, unsigned int i,
				bool write, enum spm_pmd_state pmd,
				enum spm_decision *did)
{
	struct spm_pmap *pm = &map->pmap;
	enum spm_refusal why;
	struct spm_facts f;
	enum spm_entry e;
	vm_fault_t ret;

	spm_facts_init(&f, map->region, pl, rv, i, write, pmd);
	if (unlikely(!f.block) && spm_reassemble_due(rv) && f.fits &&
	    f.superpages &&
	    !spm_reassemble(map->object, rv, pl->vma, pl->addr,
			    SPM_EVACUATE_FAULT)) {
		f.block = true;
		pmd = spm_pmap_observe(pm, pl);
		f.pmd = pmd;
	}
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
	return spm_fault_map_4k(map, pl, rv, i, write, pmd, did);
}

/*
 * The page shows through from a backing object, and is only read: an entry that
 * allows no more, of 2 MB if the whole slot shows through from one reservation.
 * Never counted as a failed promotion: a slot of which pages were copied is not
 * full.
 */
static vm_fault_t spm_fault_map_backing(struct spm_map *map,
					const struct spm_place *pl,
					struct spm_reserv *src, unsigned int i,
					enum spm_pmd_state pmd,
					enum spm_decision *did)
{
	struct spm_pmap *pm = &map->pmap;
	enum spm_refusal why;
	struct spm_facts f;
	vm_fault_t ret;

	if (spm_object_whole(map->object, pl->slot) == src) {
		spm_facts_init(&f, map->region, pl, src, i, false, pmd);
		f.may_write = false;
		if (spm_policy_entry(&f, &why) == SPM_ENTRY_2M_RO) {
			ret = spm_fault_map_2m(pm, pl, src, false, pmd, did);
			if (ret != VM_FAULT_FALLBACK)
				return ret;
			pmd = SPM_PMD_TABLE;
		} else if (why != SPM_REFUSE_NONE) {
			spm_pmap_refuse(pm, pl, why, SPM_PROMOTE_FAULT);
		}
	}
	return spm_fault_map_4k(map, pl, src, i, false, pmd, did);
}

/* How many pages of the object's own lie next to a page, on the longer side. */
static unsigned int spm_fault_run(const struct spm_reserv *rv, unsigned int i)
{
	unsigned int before = 0, after = 0;

	if (!rv)
		return 0;
	while (before < min(i, SPM_COW_RUN) &&
	       spm_reserv_populated(rv, i - before - 1))
		before++;
	while (after < min(SPM_SLOT_PAGES - 1 - i, SPM_COW_RUN) &&
	       spm_reserv_populated(rv, i + after + 1))
		after++;
	return max(before, after);
}

static bool spm_fault_cow_slot(const struct spm_region *r,
			       const struct spm_place *pl,
			       const struct spm_reserv *rv, unsigned int i)
{
	bool mappable = pl->fits && spm_region_superpages(r) &&
			!(rv && spm_reserv_loose(rv)) &&
			!vma_thp_disabled(pl->vma, pl->vma->vm_flags, false);

	return spm_policy_cow_slot(spm_region_tunable(r, cow_size), mappable,
				   rv ? spm_reserv_popcnt(rv) : 0, spm_fault_run(rv, i));
}

/**
 * spm_fault_uncover() - take old entries away after pages were copied
 * @map:	whose object has the copies
 * @pl:		place in it
 * @src:	where they were copied from, if it is one page
 * @first:	first page
 * @end:	one past the last: one page, or the whole slot
 * @pmd:	what the PMD holds
 *
 * Out of all mappings that show the object.  In this one a 2 MB entry is
 * demoted, so that the other pages stay mapped; others lose theirs, for want of
 * a lock on their VMAs.
 *
 * Context: process context, may sleep; slot lock held.
 */
void spm_fault_uncover(struct spm_map *map, const struct spm_place *pl,
		       struct spm_reserv *src, unsigned int first,
		       unsigned int end, enum spm_pmd_state pmd)
{
	struct spm_pmap *pm = &map->pmap;

	if (pl->fits && end - first == SPM_SLOT_PAGES)
		spm_pmap_remove(pm, pl, first, end);
	else if (spm_pmd_is_2m(pmd))
		/* Aborted, it leaves nothing mapped: as good. */
		spm_pmap_demote(pm, pl, src, SPM_DEMOTE_COW);
	if (!spm_object_alone(map->object))
		spm_rmap_remove_all(pm->rmap, pl->slot, first, end);
	else if (end - first == 1)
		spm_pt_zap(pl, first, end);
}

/* A store to a page that shows through: copy it, or the slot, and map that. */
static vm_fault_t spm_fault_cow(struct spm_map *map, struct spm_slot *slot,
				const struct spm_place *pl,
				struct spm_reserv *src, unsigned int i,
				enum spm_pmd_state pmd, enum spm_decision *did)
{
	const struct spm_owner *owner = &map->object->owner;
	bool all = spm_fault_cow_slot(map->region, pl, slot->reserv, i);
	u32 from = src->owner->region;
	int err, n = 1;

	spm_count(owner->counters, cow_faults);
	err = spm_cow_page(map->object, slot, src, i, pl);
	if (!err && all) {
		n += spm_cow_slot(map->object, slot, pl);
		spm_fault_fill(map->object, pl, slot->reserv, SPM_POPULATE_COW);
	}
	trace_spm_cow(owner->region, (pl->slot << SPM_SLOT_SHIFT) + i,
		      err ? 0 : n, from, err);
	if (err)
		return err == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_SIGBUS;
	spm_fault_uncover(map, pl, src, all ? 0 : i,
			  all ? SPM_SLOT_PAGES : i + 1, pmd);
	return spm_fault_map(map, pl, slot->reserv, i, true,
			     spm_pmap_observe(&map->pmap, pl), did);
}

/*
 * Nobody holds the page: it is zeros from now on.  Where a load puts it: see
 * spm_object_home().
 */
static int spm_fault_zero(struct spm_map *map, const struct spm_place *pl,
			  struct spm_slot *slot, unsigned int i, bool write)
{
	struct spm_object *obj = map->object;
	int err;

	if (!write)
		obj = spm_object_home(obj, pl->slot, i);
	if (obj != map->object) {
		slot = spm_object_slot(obj, pl->slot, 0);
		if (!slot)
			return -ENOMEM;
	}
	if (spm_slot_reserve(obj, slot, pl->vma, spm_place_addr(pl, i)))
		return -ENOMEM;
	err = spm_fault_populate(pl, slot->reserv, i, SPM_POPULATE_FAULT);
	if (err) {
		spm_slot_depopulate(slot, i, i + 1);
		return err;
	}
	if (pl->fits &&
	    spm_policy_fill(spm_reserv_popcnt(slot->reserv),
			    spm_region_tunable(map->region, populate_threshold)))
		spm_fault_fill(obj, pl, slot->reserv, SPM_POPULATE_THRESHOLD);
	return 0;
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

	lockdep_assert_held(slot->lock);
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
	if (spm_slot_holds(slot, i))
		return spm_fault_map(map, &pl, slot->reserv, i, write, pmd,
				     did);
	rv = spm_object_page(map->object, slot->index, i);
	if (!rv) {
		if (spm_fault_zero(map, &pl, slot, i, write))
			return VM_FAULT_OOM;
		rv = spm_object_page(map->object, slot->index, i);
	}
	if (rv == slot->reserv)
		return spm_fault_map(map, &pl, rv, i, write, pmd, did);
	if (!write)
		return spm_fault_map_backing(map, &pl, rv, i, pmd, did);
	return spm_fault_cow(map, slot, &pl, rv, i, pmd, did);
}

/*
 * The holder may be throttled by its memory cgroup for seconds.  Who is killed
 * meanwhile need not wait; no other signal can reach it any more, and a copy by
 * the kernel on its behalf ends with EFAULT.
 */
static int spm_fault_lock(struct spm_map *map, struct spm_slot *slot,
			  bool write)
{
	if (write)
		return spm_slot_lock_write(map->object, slot);
	return mutex_lock_killable(slot->lock);
}

static vm_fault_t spm_fault(struct vm_fault *vmf)
{
	struct spm_region *r = spm_vma_region(vmf->vma);
	u64 t0 = trace_spm_fault_enabled() ? ktime_get_ns() : 0;
	enum spm_decision did = SPM_DID_OOM;
	vm_fault_t ret = VM_FAULT_OOM;
	struct spm_map *map = spm_map_of(vmf->vma);
	struct spm_slot *slot;

	spm_count(spm_region_counters(r), vm_faults);
	/* Checked again under the slot lock; saves a slot beyond the end. */
	if (vmf->pgoff >= spm_region_pages(r) || !map->object) {
		did = SPM_DID_SIGBUS;
		ret = VM_FAULT_SIGBUS;
		goto out;
	}
	if (spm_pmap_prepare(&map->pmap, vmf->pgoff >> SPM_SLOT_SHIFT))
		goto out;
	slot = spm_object_slot(map->object, vmf->pgoff >> SPM_SLOT_SHIFT, 0);
	if (!slot)
		goto out;
	if (spm_fault_lock(map, slot, vmf->flags & FAULT_FLAG_WRITE)) {
		did = SPM_DID_RETRY;
		ret = VM_FAULT_SIGBUS;
		goto out;
	}
	ret = spm_fault_slot(map, slot, vmf, &did);
	mutex_unlock(slot->lock);
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
	.mprotect = spm_vma_mprotect,
	.fault = spm_fault,
	.huge_fault = spm_huge_fault,
	.map_pages = spm_map_pages,
	.page_mkwrite = spm_fault,
};
