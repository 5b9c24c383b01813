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
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "fault.h"
#include "verify.h"

/* What a region has. */
struct spm_sums {
	long pages;
	long dirty;
	long live;
};

struct spm_verify {
	struct seq_file *m;
	unsigned long differences;
	/* Of the region at hand: what is there, and what its gauges say. */
	struct spm_sums there;
	struct spm_sums counted;
	struct spm_pte pte[SPM_SLOT_PAGES];
};

/*
 * Report so much at most that the buffer holds it: a buffer that overflows makes
 * the file ask again, when all has been resynchronised and nothing is found.
 */
#define SPM_VERIFY_LINES	1000

/* Looks at the sums of a region, and how many of them in a row must agree. */
#define SPM_VERIFY_TRIES	10
#define SPM_VERIFY_SURE		3

#define spm_differ(v, fmt, ...)						\
	do {								\
		if ((v)->differences++ < SPM_VERIFY_LINES)		\
			seq_printf((v)->m, fmt "\n", ##__VA_ARGS__);	\
	} while (0)

static void spm_verify_reserv(struct spm_verify *v,
			      const struct spm_reserv *rv)
{
	unsigned int pop = bitmap_weight(rv->popmap, SPM_SLOT_PAGES);
	unsigned int dirty = bitmap_weight(rv->dirty, SPM_SLOT_PAGES);
	bool queued = spm_reserv_queued(rv);
	u32 region = rv->owner->region;

	if (pop != spm_reserv_popcnt(rv) || dirty != rv->ndirty)
		spm_differ(v, "region %u slot %lu: counts %u populated %u dirty, maps say %u and %u",
			   region, rv->index, spm_reserv_popcnt(rv), rv->ndirty, pop, dirty);
	if (!bitmap_subset(rv->dirty, rv->popmap, SPM_SLOT_PAGES))
		spm_differ(v, "region %u slot %lu: a page is dirty but not populated",
			   region, rv->index);
	if (!bitmap_subset(rv->dirty, rv->used, SPM_SLOT_PAGES))
		spm_differ(v, "region %u slot %lu: a page is dirty but was never used",
			   region, rv->index);
	if (!pop)
		spm_differ(v, "region %u slot %lu: empty reservation kept",
			   region, rv->index);
	if (queued != (!spm_reserv_loose(rv) && pop < SPM_SLOT_PAGES))
		spm_differ(v, "region %u slot %lu: %squeued with %u pages",
			   region, rv->index, queued ? "" : "not ", pop);
}

/* One entry against the reservation.  Returns false once one was reported. */
static bool spm_verify_pte(struct spm_verify *v, struct spm_object *obj,
			   const struct spm_place *pl, unsigned int i,
			   const struct spm_pte *pte)
{
	struct spm_reserv *rv = spm_object_page(obj, pl->slot, i);
	const char *what = NULL;

	if (!rv)
		what = "maps a page that nobody holds";
	else if (pte->pfn != page_to_pfn(spm_reserv_page(rv, i)))
		what = "maps another page than shows through";
	else if (pte->writable && rv->owner != &obj->owner)
		what = "is writable, but the page is a backing object's";
	else if (pte->writable && !spm_reserv_dirty(rv, i))
		what = "is writable, but the page is not recorded dirty";
	else if (pte->huge && (!pl->fits || spm_reserv_loose(rv) ||
			       rv != spm_object_whole(obj, pl->slot)))
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
		unsigned int n = spm_place_run(pl, i, pl->hi);

		spm_pt_read(mm, spm_place_addr(pl, i), n, v->pte + i);
		i += n;
	}
}

static void spm_verify_slot(struct spm_verify *v, struct spm_map *map,
			    struct vm_area_struct *vma, pgoff_t slot)
{
	struct spm_pmap *pm = &map->pmap;
	enum spm_pmd_state was, is = SPM_PMD_NONE;
	struct spm_place pl;
	unsigned int i;
	bool ok = true;

	/*
	 * By what the VMA covers: the region may be shrinking, with the slot's
	 * turn still to come.
	 */
	spm_place_init(&pl, vma, slot, ULONG_MAX, NULL);
	spm_verify_read(v, pm->mm, &pl);
	for (i = pl.lo; i < pl.hi; i++) {
		const struct spm_pte *pte = &v->pte[i];

		if (!pte->present)
			continue;
		if (pte->huge)
			is = pte->writable ? SPM_PMD_2M_RW : SPM_PMD_2M_RO;
		else
			is = max(is, SPM_PMD_TABLE);
		ok = ok && spm_verify_pte(v, map->object, &pl, i, pte);
	}
	was = spm_pmap_shadow(pm, slot);
	if (is > was && !READ_ONCE(pm->inexact))
		spm_differ(v, "slot %lu at 0x%lx: page table says %d, shadow at most %d",
			   slot, pl.addr, is, was);
	if (pl.fits && !spm_pmap_prepare(pm, slot)) {
		pl.pmd = spm_pt_pmd(pm->mm, pl.addr);
		spm_pmap_observe(pm, &pl);
	}
}

static void spm_verify_map(struct spm_verify *v, struct spm_map *map)
{
	struct mm_struct *mm = map->pmap.mm;
	struct vm_area_struct *vma;
	unsigned long index;
	struct mutex *lock;

	VMA_ITERATOR(vmi, mm, 0);

	/* A dying mm takes its entries and this map with it. */
	if (!map->object || !mmget_not_zero(mm))
		return;
	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		pgoff_t last = vma->vm_pgoff + vma_pages(vma) - 1;

		if (!spm_vma_is_ours(vma) || spm_map_of(vma) != map)
			continue;
		xa_for_each_range(&map->object->family->locks, index, lock,
				  vma->vm_pgoff >> SPM_SLOT_SHIFT,
				  last >> SPM_SLOT_SHIFT) {
			mutex_lock(lock);
			spm_verify_slot(v, map, vma, index);
			mutex_unlock(lock);
			cond_resched();
		}
	}
	mmap_read_unlock(mm);
	mmput(mm);
}

/* What an object holds; with @check also whether that makes sense. */
static void spm_verify_object(struct spm_verify *v, struct spm_object *obj,
			      bool check)
{
	struct spm_slot *slot;
	unsigned long index;

	xa_for_each(&obj->slots, index, slot) {
		mutex_lock(slot->lock);
		if (slot->reserv) {
			v->there.pages += spm_reserv_popcnt(slot->reserv);
			v->there.dirty += slot->reserv->ndirty;
			if (check)
				spm_verify_reserv(v, slot->reserv);
			if (check && slot->reserv->owner != &obj->owner)
				spm_differ(v, "region %u slot %lu: reservation of another object",
					   obj->owner.region, index);
		}
		mutex_unlock(slot->lock);
		cond_resched();
	}
}

/*
 * The objects that count as the region's: its own, those of its private
 * mappings, and what was frozen of them.
 */
static void spm_verify_objects(struct spm_verify *v, struct spm_region *r,
			       bool check)
{
	struct spm_family *family = r->object->family;
	struct spm_object *o;

	mutex_lock(&family->lock);
	list_for_each_entry(o, &family->objects, link) {
		if (o->owner.counters != r->object->owner.counters)
			continue;
		spm_verify_object(v, o, check);
		if (check && !o->users && list_empty(&o->shadows))
			spm_differ(v, "region %u: an object that nobody uses",
				   r->id);
	}
	mutex_unlock(&family->lock);
}

static struct spm_sums spm_verify_gauges(struct spm_region *r)
{
	const struct spm_counters *c = spm_region_counters(r);

	return (struct spm_sums) {
		.pages = spm_stat_read(c, SPM_STAT_pages),
		.dirty = spm_stat_read(c, SPM_STAT_dirty),
		.live = spm_stat_read(c, SPM_STAT_live),
	};
}

static bool spm_sums_equal(const struct spm_sums *a, const struct spm_sums *b)
{
	return a->pages == b->pages && a->dirty == b->dirty &&
	       a->live == b->live;
}

/* Sum up what is there.  Return: false if the gauges moved meanwhile. */
static bool spm_verify_sums(struct spm_verify *v, struct spm_region *r)
{
	struct spm_sums before = spm_verify_gauges(r);
	struct spm_map *map = NULL;

	v->there = (struct spm_sums) { };
	spm_verify_objects(v, r, false);
	while ((map = spm_map_next(r, map)))
		v->there.live += spm_pmap_live(&map->pmap);
	v->counted = spm_verify_gauges(r);
	return spm_sums_equal(&before, &v->counted);
}

/*
 * No sum is a snapshot while others work: what is counted after the slot was
 * looked at makes a difference, and the next look may find the same one by
 * chance.  Books that are wrong stay wrong by the same amount, and are found as
 * soon as the region is at rest.
 */
static void spm_verify_books(struct spm_verify *v, struct spm_region *r)
{
	unsigned int tries, alike = 0;
	struct spm_sums off = { };

	for (tries = 0; tries < SPM_VERIFY_TRIES; tries++) {
		bool still = spm_verify_sums(v, r);
		struct spm_sums last = off;

		if (spm_sums_equal(&v->there, &v->counted))
			return;
		off.pages = v->there.pages - v->counted.pages;
		off.dirty = v->there.dirty - v->counted.dirty;
		off.live = v->there.live - v->counted.live;
		if (!still)
			alike = 0;
		else if (alike && spm_sums_equal(&off, &last))
			alike++;
		else
			alike = 1;
		if (alike == SPM_VERIFY_SURE)
			break;
		/* Whoever is between page and gauge gets on with it. */
		fsleep(1000);
	}
	if (alike == SPM_VERIFY_SURE)
		spm_differ(v, "region %u: counted %ld pages %ld dirty %ld live, there are %ld, %ld and %ld",
			   r->id, v->counted.pages, v->counted.dirty,
			   v->counted.live, v->there.pages, v->there.dirty,
			   v->there.live);
}

static void spm_verify_region(struct spm_verify *v, struct spm_region *r)
{
	struct spm_map *map = NULL;

	spm_verify_objects(v, r, true);
	/* Brings the shadows up to date, so that they can be summed. */
	while ((map = spm_map_next(r, map)))
		spm_verify_map(v, map);
	spm_verify_books(v, r);
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
