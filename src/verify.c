// SPDX-License-Identifier: GPL-2.0
/*
 * Verify: walk the page tables of every map, compare them with shadow and
 * reservations, report what the rules do not explain, and resynchronise.
 *
 * The rules: an entry maps the page that the reservation holds there; it is
 * writable only if that page is recorded dirty; 2 MB entries map full blocks;
 * the shadow is not below the truth; counts equal what they count.
 *
 * May run beside everything else: each slot is looked at under its lock.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "fault.h"
#include "verify.h"

struct spm_verify {
	struct seq_file *m;
	unsigned long differences;
	/* Sums over the region at hand. */
	unsigned long pages;
	unsigned long dirty;
	unsigned long live;
	struct spm_pte pte[SPM_SLOT_PAGES];
};

#define spm_differ(v, fmt, ...)						\
	do {								\
		(v)->differences++;					\
		seq_printf((v)->m, fmt "\n", ##__VA_ARGS__);		\
	} while (0)

static void spm_verify_reserv(struct spm_verify *v,
			      const struct spm_reserv *rv)
{
	unsigned int pop = bitmap_weight(rv->popmap, SPM_SLOT_PAGES);
	unsigned int dirty = bitmap_weight(rv->dirty, SPM_SLOT_PAGES);
	bool queued = test_bit(SPM_RV_QUEUED, &rv->flags);
	u32 region = rv->owner->region;

	if (pop != rv->popcnt || dirty != rv->ndirty)
		spm_differ(v, "region %u slot %lu: counts %u populated %u dirty, maps say %u and %u",
			   region, rv->index, rv->popcnt, rv->ndirty, pop, dirty);
	if (!bitmap_subset(rv->dirty, rv->popmap, SPM_SLOT_PAGES))
		spm_differ(v, "region %u slot %lu: a page is dirty but not populated",
			   region, rv->index);
	if (!pop)
		spm_differ(v, "region %u slot %lu: empty reservation kept",
			   region, rv->index);
	if (queued != (!spm_reserv_loose(rv) && pop < SPM_SLOT_PAGES))
		spm_differ(v, "region %u slot %lu: %squeued with %u pages",
			   region, rv->index, queued ? "" : "not ", pop);
	v->pages += pop;
	v->dirty += dirty;
}

/* One entry against the reservation.  Returns false once one was reported. */
static bool spm_verify_pte(struct spm_verify *v, const struct spm_place *pl,
			   const struct spm_reserv *rv, unsigned int i,
			   const struct spm_pte *pte)
{
	const char *what = NULL;

	if (!rv || !spm_reserv_populated(rv, i))
		what = "maps a page that is not populated";
	else if (pte->pfn != page_to_pfn(spm_reserv_page(rv, i)))
		what = "maps another page than the reservation holds";
	else if (pte->writable && !spm_reserv_dirty(rv, i))
		what = "is writable, but the page is not recorded dirty";
	else if (pte->huge && (!pl->fits || !spm_reserv_full(rv) ||
			       spm_reserv_loose(rv)))
		what = "is a 2 MB entry where none may be";
	if (!what)
		return true;
	spm_differ(v, "slot %lu page %u: entry at 0x%lx %s", pl->slot, i,
		   spm_place_addr(pl, i), what);
	return false;
}

/* Read the part of the slot that the VMA covers; it may span two PMDs. */
static void spm_verify_read(struct spm_verify *v, struct mm_struct *mm,
			    const struct spm_place *pl)
{
	unsigned int i = pl->lo;

	while (i < pl->hi) {
		unsigned long addr = spm_place_addr(pl, i);
		unsigned int n = min((PMD_SIZE - (addr & ~PMD_MASK)) >> PAGE_SHIFT,
				     (unsigned long)pl->hi - i);

		spm_pt_read(mm, addr, n, v->pte + i);
		i += n;
	}
}

static void spm_verify_slot(struct spm_verify *v, struct spm_map *map,
			    struct vm_area_struct *vma, struct spm_slot *slot)
{
	struct spm_pmap *pm = &map->pmap;
	enum spm_pmd_state was, is = SPM_PMD_NONE;
	struct spm_place pl;
	unsigned int i;
	bool ok = true;

	spm_place_init(&pl, vma, slot->index, spm_region_pages(map->region),
		       NULL);
	spm_verify_read(v, pm->mm, &pl);
	for (i = pl.lo; i < pl.hi; i++) {
		const struct spm_pte *pte = &v->pte[i];

		if (!pte->present)
			continue;
		if (pte->huge)
			is = pte->writable ? SPM_PMD_2M_RW : SPM_PMD_2M_RO;
		else
			is = max(is, SPM_PMD_TABLE);
		ok = ok && spm_verify_pte(v, &pl, slot->reserv, i, pte);
	}
	was = spm_pmap_shadow(pm, slot->index);
	if (is > was && !pm->inexact)
		spm_differ(v, "slot %lu at 0x%lx: page table says %d, shadow at most %d",
			   slot->index, pl.addr, is, was);
	if (pl.fits && !spm_pmap_prepare(pm, slot->index)) {
		pl.pmd = spm_pt_pmd(pm->mm, pl.addr);
		spm_pmap_observe(pm, &pl);
	}
}

static void spm_verify_map(struct spm_verify *v, struct spm_map *map)
{
	struct mm_struct *mm = map->pmap.mm;
	struct vm_area_struct *vma;
	struct spm_slot *slot;
	unsigned long index;

	VMA_ITERATOR(vmi, mm, 0);

	/* A dying mm takes its entries and this map with it. */
	if (!mmget_not_zero(mm))
		return;
	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		pgoff_t last = vma->vm_pgoff + vma_pages(vma) - 1;

		if (vma->vm_ops != &spm_vm_ops || vma->vm_private_data != map)
			continue;
		xa_for_each_range(&map->region->object.slots, index, slot,
				  vma->vm_pgoff >> SPM_SLOT_SHIFT,
				  last >> SPM_SLOT_SHIFT) {
			mutex_lock(&slot->lock);
			spm_verify_slot(v, map, vma, slot);
			mutex_unlock(&slot->lock);
			cond_resched();
		}
	}
	mmap_read_unlock(mm);
	mmput(mm);
}

static void spm_verify_sum(struct spm_verify *v, const struct spm_region *r,
			   const char *what, unsigned long sum, long before,
			   long after)
{
	/* A counter that moved meanwhile proves nothing. */
	if (before == after && sum != before)
		spm_differ(v, "region %u: counter of %s is %ld, there are %lu",
			   r->id, what, before, sum);
}

static void spm_verify_region(struct spm_verify *v, struct spm_region *r)
{
	const struct spm_counters *c = &r->object.owner.counters;
	struct spm_map *map = NULL;
	long pages = spm_stat_read(c, SPM_STAT_pages);
	long dirty = spm_stat_read(c, SPM_STAT_dirty);
	struct spm_slot *slot;
	unsigned long index;
	long live;

	v->pages = 0;
	v->dirty = 0;
	xa_for_each(&r->object.slots, index, slot) {
		mutex_lock(&slot->lock);
		if (slot->reserv)
			spm_verify_reserv(v, slot->reserv);
		mutex_unlock(&slot->lock);
	}
	spm_verify_sum(v, r, "pages", v->pages, pages,
		       spm_stat_read(c, SPM_STAT_pages));
	spm_verify_sum(v, r, "dirty pages", v->dirty, dirty,
		       spm_stat_read(c, SPM_STAT_dirty));
	/* Brings the shadows up to date, so that they can be summed. */
	while ((map = spm_map_next(r, map)))
		spm_verify_map(v, map);
	v->live = 0;
	live = spm_stat_read(c, SPM_STAT_live);
	while ((map = spm_map_next(r, map)))
		v->live += spm_pmap_live(&map->pmap);
	spm_verify_sum(v, r, "2 MB entries", v->live, live,
		       spm_stat_read(c, SPM_STAT_live));
}

/**
 * spm_verify() - check everything, report differences, resynchronise shadows
 * @m: where to report
 *
 * Context: process context, may sleep, no lock held.
 * Return: number of differences.
 */
unsigned long spm_verify(struct seq_file *m)
{
	struct spm_verify *v = kvzalloc_obj(*v);
	struct spm_region *r = NULL;
	unsigned long n;

	if (!v) {
		seq_puts(m, "no memory to verify with\n");
		return 1;
	}
	v->m = m;
	while ((r = spm_region_next(r)))
		spm_verify_region(v, r);
	n = v->differences;
	kvfree(v);
	return n;
}
