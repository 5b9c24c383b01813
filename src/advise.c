// SPDX-License-Identifier: GPL-2.0
/*
 * SPM_IOC_ADVISE: populate, promote, demote, discard on request.
 *
 * By address: one VMA at a time, and of it one slot at a time, with mmap_lock
 * of the caller's mm held for reading.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>

#include "advise.h"
#include "cow.h"
#include "evacuate.h"
#include "fault.h"

/**
 * struct spm_range - the part of a range that lies in one slot of one VMA
 * @map:	of the VMA
 * @slot:	its slot, not locked
 * @pl:		where that is
 * @first:	first page of the range in the slot
 * @end:	one past the last
 */
struct spm_range {
	struct spm_map *map;
	struct spm_slot *slot;
	struct spm_place pl;
	unsigned int first;
	unsigned int end;
};

static bool spm_range_whole(const struct spm_range *g)
{
	return !g->first && g->end == SPM_SLOT_PAGES && g->pl.fits;
}

/* EFAULT is for pointers: a region that shrinks under us is out of range. */
static int spm_fault_errno(vm_fault_t ret)
{
	if (ret & VM_FAULT_SIGBUS)
		return -ENOMEM;
	if (ret & VM_FAULT_SIGSEGV)
		return -EACCES;
	return vm_fault_to_errno(ret, 0);
}

/*
 * Fault pages of a slot in, as a touch would.  handle_mm_fault() builds the
 * upper page-table levels, which a module cannot.
 */
static int spm_touch(struct spm_range *g, unsigned int first, unsigned int end,
		     bool write)
{
	struct vm_area_struct *vma = g->pl.vma;
	unsigned int flags = write ? FAULT_FLAG_WRITE : 0;
	unsigned int i;

	for (i = first; i < end; i++) {
		vm_fault_t ret;

		if (fatal_signal_pending(current))
			return -EINTR;
		ret = handle_mm_fault(vma, spm_place_addr(&g->pl, i), flags,
				      NULL);
		if (ret & VM_FAULT_ERROR)
			return spm_fault_errno(ret);
		/* A 2 MB entry that serves: the rest is done. */
		if (g->pl.fits &&
		    spm_pt_state(spm_pt_pmd(vma->vm_mm, g->pl.addr)) ==
		    (write ? SPM_PMD_2M_RW : SPM_PMD_2M_RO))
			break;
	}
	return 0;
}

/*
 * Lock the slot, and find the place again: only now does the size of the region
 * stand still for it.
 */
static int spm_range_lock(struct spm_range *g)
{
	struct vm_area_struct *vma = g->pl.vma;
	int err;

	if (spm_pmap_prepare(&g->map->pmap, g->slot->index))
		return -ENOMEM;
	err = spm_slot_lock_write(g->map->object, g->slot);
	if (err)
		return err;
	spm_place_init(&g->pl, vma, g->slot->index,
		       spm_region_pages(g->map->region),
		       spm_pt_pmd(vma->vm_mm, g->pl.addr));
	return 0;
}

static int spm_adv_prefault(struct spm_range *g)
{
	return spm_touch(g, g->first, g->end, g->pl.vma->vm_flags & VM_WRITE);
}

/*
 * See that one reservation holds the whole slot.  What shows whole from below
 * may stay there; of a mixed slot, the object gets copies.
 */
static struct spm_reserv *spm_promote_fill(struct spm_range *g)
{
	struct spm_object *obj = g->map->object;
	pgoff_t index = g->slot->index;
	struct spm_reserv *rv = spm_object_whole(obj, index);

	if (rv)
		return rv;
	if (spm_cow_slot(obj, g->slot, &g->pl))
		spm_fault_uncover(g->map, &g->pl, NULL, 0, SPM_SLOT_PAGES,
				  spm_pmap_observe(&g->map->pmap, &g->pl));
	if (spm_slot_reserve(obj, g->slot, g->pl.vma, g->pl.addr))
		return NULL;
	spm_fault_fill(obj, &g->pl, g->slot->reserv, SPM_POPULATE_ADVISE);
	spm_slot_depopulate(g->slot, 0, 0);
	return spm_object_whole(obj, index);
}

/* With the slot locked: fill it, and map it by 2 MB whatever maps it now. */
static vm_fault_t spm_promote_locked(struct spm_range *g)
{
	struct spm_pmap *pm = &g->map->pmap;
	struct spm_reserv *rv;
	enum spm_pmd_state pmd;
	bool write;

	if (!g->pl.fits)
		return VM_FAULT_SIGBUS;
	rv = spm_promote_fill(g);
	if (!rv)
		return VM_FAULT_OOM;
	write = g->pl.vma->vm_flags & VM_WRITE && rv == g->slot->reserv;
	pmd = spm_pmap_observe(pm, &g->pl);
	if (pmd == SPM_PMD_2M_RW || (pmd == SPM_PMD_2M_RO && !write))
		return VM_FAULT_NOPAGE;
	if (spm_reserv_loose(rv) && rv == g->slot->reserv &&
	    !spm_reassemble(g->map->object, rv, g->pl.vma, g->pl.addr,
			    SPM_EVACUATE_ADVISE))
		pmd = spm_pmap_observe(pm, &g->pl);
	if (spm_reserv_loose(rv)) {
		spm_pmap_refuse(pm, &g->pl, SPM_REFUSE_LOOSE,
				SPM_PROMOTE_ADVISE);
		return VM_FAULT_NOPAGE;
	}
	if (write)
		spm_reserv_set_all_dirty(rv);
	if (pmd == SPM_PMD_2M_RO)
		return spm_pmap_upgrade(pm, &g->pl, rv, SPM_PROMOTE_ADVISE);
	if (pmd == SPM_PMD_TABLE)
		return spm_pmap_promote(pm, &g->pl, rv, write,
					SPM_PROMOTE_ADVISE);
	return spm_pmap_enter_2m(pm, &g->pl, rv, write, SPM_PROMOTE_ADVISE);
}

static int spm_adv_promote(struct spm_range *g)
{
	vm_fault_t ret;
	int err;

	if (!spm_range_whole(g) || !spm_region_superpages(g->map->region))
		return 0;
	/* The first page by a fault, for the PMD page to exist. */
	err = spm_touch(g, 0, 1, false);
	if (err)
		return err;
	err = spm_range_lock(g);
	if (err)
		return err;
	ret = spm_promote_locked(g);
	mutex_unlock(g->slot->lock);
	/* The table had to stay: the pages fault back one by one. */
	if (ret & VM_FAULT_FALLBACK)
		return 0;
	return ret & VM_FAULT_ERROR ? spm_fault_errno(ret) : 0;
}

static int spm_adv_demote(struct spm_range *g)
{
	struct spm_reserv *rv;
	int err;

	if (!spm_range_whole(g) || !vma_is_accessible(g->pl.vma))
		return 0;
	err = spm_range_lock(g);
	if (err)
		return err;
	rv = spm_object_whole(g->map->object, g->slot->index);
	if (rv && g->pl.fits &&
	    spm_pmd_is_2m(spm_pmap_observe(&g->map->pmap, &g->pl)))
		spm_pmap_demote(&g->map->pmap, &g->pl, rv, SPM_DEMOTE_ADVISE);
	mutex_unlock(g->slot->lock);
	return 0;
}

static int spm_adv_cold(struct spm_range *g)
{
	unsigned int first = max(g->first, g->pl.lo);
	unsigned int end = min(g->end, g->pl.hi);
	DECLARE_BITMAP(unused, SPM_SLOT_PAGES);

	if (mutex_lock_killable(g->slot->lock))
		return -EINTR;
	if (first < end)
		spm_pmap_ts_referenced(&g->map->pmap, &g->pl, first, end, true,
				       unused);
	mutex_unlock(g->slot->lock);
	return 0;
}

static int spm_adv_discard(struct spm_range *g)
{
	pgoff_t start = g->pl.slot << SPM_SLOT_SHIFT;

	return spm_cow_discard(g->map->object, start + g->first,
			       start + g->end, &g->map->pmap, &g->pl);
}

/**
 * struct spm_advice - what is particular to one request
 * @fn:		acts on one slot of one VMA
 * @touches:	as a touch would: pages must be inside the region, mappings
 *		accessible
 * @write:	changes the region: needs a descriptor open for writing
 */
struct spm_advice {
	int (*fn)(struct spm_range *g);
	bool touches;
	bool write;
};

/*
 * The slot at or after *@index that a request has to do with.  A touch makes
 * slots, inside the region; others have nothing to do where nobody in the
 * object's family has one.
 */
static struct spm_slot *spm_range_slot(struct spm_map *map, bool touches,
				       unsigned long *index, pgoff_t last)
{
	struct spm_slot *slot;

	if (!touches && !xa_find(&map->object->family->locks, index, last,
				 XA_PRESENT))
		return NULL;
	if (touches && *index << SPM_SLOT_SHIFT >= spm_region_pages(map->region))
		return ERR_PTR(-ENOMEM);
	slot = spm_object_slot(map->object, *index, 0);
	return slot ?: ERR_PTR(-ENOMEM);
}

/* The slots of [start, end) in one VMA. */
static int spm_range_vma(struct spm_region *r, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end,
			 const struct spm_advice *advice)
{
	pgoff_t pgoff = linear_page_index(vma, start);
	pgoff_t last = linear_page_index(vma, end - 1);
	unsigned long index = pgoff >> SPM_SLOT_SHIFT;
	struct spm_range g = { .map = spm_map_of(vma) };
	int err;

	for (; index <= last >> SPM_SLOT_SHIFT; index++) {
		pgoff_t first;

		g.slot = spm_range_slot(g.map, advice->touches, &index,
					last >> SPM_SLOT_SHIFT);
		if (IS_ERR_OR_NULL(g.slot))
			return PTR_ERR_OR_ZERO(g.slot);
		first = index << SPM_SLOT_SHIFT;
		g.first = max(pgoff, first) - first;
		g.end = min(last - first + 1, (pgoff_t)SPM_SLOT_PAGES);
		spm_place_init(&g.pl, vma, index, spm_region_pages(r), NULL);
		err = advice->fn(&g);
		if (err)
			return err;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Nothing of a request is done when a part of it cannot be. */
static int spm_check_vma(struct spm_region *r, struct vm_area_struct *vma,
			 unsigned long end, const struct spm_advice *advice,
			 bool write)
{
	if (!spm_vma_maps(vma, r) || !spm_map_of(vma)->object)
		return -ENOMEM;
	/* What is done to a private mapping does not change the region. */
	if (advice->write && !write && !spm_vma_private(vma))
		return -EBADF;
	if (!advice->touches)
		return 0;
	if (!vma_is_accessible(vma))
		return -EACCES;
	end = min(end, vma->vm_end);
	if (linear_page_index(vma, end - 1) >= spm_region_pages(r))
		return -ENOMEM;
	return 0;
}

/* All of [start, end), which must be mapped from this region throughout. */
static int spm_range_mm(struct spm_region *r, unsigned long start,
			unsigned long end, const struct spm_advice *advice,
			bool write)
{
	struct mm_struct *mm = current->mm;
	unsigned long addr;
	int err = 0;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	for (addr = start; addr < end && !err;) {
		struct vm_area_struct *vma = vma_lookup(mm, addr);

		err = spm_check_vma(r, vma, end, advice, write);
		if (!err)
			addr = vma->vm_end;
	}
	for (addr = start; addr < end && !err;) {
		struct vm_area_struct *vma = vma_lookup(mm, addr);
		unsigned long stop = min(vma->vm_end, end);

		err = spm_range_vma(r, vma, addr, stop, advice);
		addr = stop;
	}
	mmap_read_unlock(mm);
	return err;
}

/**
 * spm_check_range() - may [@start, @start + @len) be a range of a request?
 * @start:	bytes
 * @len:	bytes
 *
 * Return: 0, or -EINVAL if it is not made of whole pages or wraps around.
 */
int spm_check_range(u64 start, u64 len)
{
	if (!IS_ALIGNED(start | len, PAGE_SIZE) || start + len < start)
		return -EINVAL;
	return 0;
}

static int spm_populate_slot(struct spm_region *r, struct spm_slot *slot,
			     unsigned int first, unsigned int end)
{
	struct spm_object *obj = r->object;
	unsigned int i;
	int err = 0;

	lockdep_assert_held(slot->lock);
	if ((slot->index << SPM_SLOT_SHIFT) + end > spm_region_pages(r))
		return -ENOMEM;
	if (spm_slot_reserve(obj, slot, NULL, 0))
		return -ENOMEM;
	for (i = first; i < end && !err; i++) {
		if (spm_object_page(obj, slot->index, i))
			continue;
		err = spm_reserv_populate(slot->reserv, i, NULL, 0,
					  SPM_POPULATE_ADVISE);
		if (!err && fatal_signal_pending(current))
			err = -EINTR;
	}
	/* An empty reservation goes back. */
	spm_slot_depopulate(slot, 0, 0);
	return err;
}

/* Populate pages without a mapping. */
static int spm_populate_offset(struct spm_region *r, pgoff_t first, pgoff_t end)
{
	while (first < end) {
		pgoff_t start = round_down(first, SPM_SLOT_PAGES);
		unsigned int stop = min(end - start, (pgoff_t)SPM_SLOT_PAGES);
		struct spm_slot *slot;
		int err;

		if (end > spm_region_pages(r))
			return -ENOMEM;
		slot = spm_object_slot(r->object, start >> SPM_SLOT_SHIFT, 0);
		if (!slot)
			return -ENOMEM;
		err = spm_slot_lock_write(r->object, slot);
		if (err)
			return err;
		err = spm_populate_slot(r, slot, first - start, stop);
		mutex_unlock(slot->lock);
		if (err)
			return err;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		first = start + stop;
	}
	return 0;
}

static int spm_advise_offset(struct spm_region *r, const struct spm_advise *a)
{
	pgoff_t first = a->start >> PAGE_SHIFT;
	pgoff_t end = (a->start + a->len) >> PAGE_SHIFT;

	switch (a->advice) {
	case SPM_ADV_PREFAULT:
		return spm_populate_offset(r, first, end);
	case SPM_ADV_DISCARD:
		return spm_cow_discard(r->object, first, end, NULL, NULL);
	default:
		return -EINVAL;
	}
}

static const struct spm_advice spm_advices[] = {
	[SPM_ADV_PREFAULT] = { spm_adv_prefault, .touches = true, .write = true },
	[SPM_ADV_PROMOTE] = { spm_adv_promote, .touches = true, .write = true },
	[SPM_ADV_DEMOTE] = { spm_adv_demote },
	[SPM_ADV_DISCARD] = { spm_adv_discard, .write = true },
	[SPM_ADV_COLD] = { spm_adv_cold },
};

/**
 * spm_advise() - SPM_IOC_ADVISE
 * @r:		region of the descriptor
 * @a:		arguments, flags and padding checked
 * @write:	the descriptor is open for writing
 *
 * Context: process context, may sleep, no lock held.
 * Return: 0 or a negative errno as the user interface documents it.
 */
int spm_advise(struct spm_region *r, const struct spm_advise *a, bool write)
{
	const struct spm_advice *advice;
	int err;

	if (a->advice >= ARRAY_SIZE(spm_advices) || !spm_advices[a->advice].fn)
		return -EINVAL;
	advice = &spm_advices[a->advice];
	if (advice->write && !write &&
	    (a->flags & SPM_ADVISE_BY_OFFSET || !a->len))
		return -EBADF;
	err = spm_check_range(a->start, a->len);
	if (err || !a->len)
		return err;
	if (a->flags & SPM_ADVISE_BY_OFFSET)
		return spm_advise_offset(r, a);
	return spm_range_mm(r, a->start, a->start + a->len, advice, write);
}
