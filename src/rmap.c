// SPDX-License-Identifier: GPL-2.0
/*
 * All mappings of a region at once, found by the core's reverse map: no VMA and no
 * mm is locked here, and the pmaps' shadows follow.
 */
#include <linux/mm.h>
#include <linux/rmap.h>
#include <kunit/visibility.h>

#include "locks.h"
#include "rmap.h"

/**
 * spm_rmap_init() - a region that is not mapped
 * @rmap:	to be set up
 * @mapping:	of the region's inode
 */
void spm_rmap_init(struct spm_rmap *rmap, struct address_space *mapping)
{
	rmap->mapping = mapping;
	INIT_LIST_HEAD(&rmap->pmaps);
	rmap->npmaps = 0;
	spm_mutex_init(&rmap->lock, "rmap_lock");
}
EXPORT_SYMBOL_IF_KUNIT(spm_rmap_init);

/**
 * spm_rmap_destroy() - undo spm_rmap_init()
 * @rmap: without pmaps
 */
void spm_rmap_destroy(struct spm_rmap *rmap)
{
	mutex_destroy(&rmap->lock);
}
EXPORT_SYMBOL_IF_KUNIT(spm_rmap_destroy);

/**
 * spm_rmap_remove_all() - take pages of a slot out of every mapping of a region
 * @rmap:	region's
 * @slot:	index of the slot
 * @first:	first page
 * @end:	one past the last
 *
 * A 2 MB entry that covers part of the range goes as a whole: the core splits
 * it so; the pages outside the range fault back.
 *
 * Context: slot lock held, so no mapping of ours makes a new entry meanwhile; no
 * VMA lock needed, the core's reverse map finds the VMAs.
 */
void spm_rmap_remove_all(struct spm_rmap *rmap, pgoff_t slot,
			 unsigned int first, unsigned int end)
{
	struct spm_pmap *pm;

	unmap_mapping_pages(rmap->mapping, (slot << SPM_SLOT_SHIFT) + first,
			    end - first, false);
	mutex_lock(&rmap->lock);
	list_for_each_entry(pm, &rmap->pmaps, link)
		if (spm_pmd_is_2m(spm_pmap_shadow(pm, slot)) ||
		    end - first == SPM_SLOT_PAGES)
			spm_pmap_forget(pm, slot);
	mutex_unlock(&rmap->lock);
}
EXPORT_SYMBOL_IF_KUNIT(spm_rmap_remove_all);

/*
 * Clean pages between two dirty ones, up to which one walk of the reverse map
 * for both is cheaper than two.
 */
#define SPM_WRPROTECT_GAP 8U

/*
 * By the dirty rule, only entries of dirty pages can be writable: walk these, in
 * runs.  A 2 MB entry is writable only if all are dirty, and then the one run is
 * the slot.
 */
static void spm_wrprotect_block(struct spm_rmap *rmap,
				const struct spm_reserv *rv)
{
	pgoff_t start = rv->index << SPM_SLOT_SHIFT;
	unsigned int first, end, next;

	first = find_first_bit(rv->dirty, SPM_SLOT_PAGES);
	while (first < SPM_SLOT_PAGES) {
		next = first;
		do {
			end = find_next_zero_bit(rv->dirty, SPM_SLOT_PAGES, next);
			next = find_next_bit(rv->dirty, SPM_SLOT_PAGES, end);
		} while (next < SPM_SLOT_PAGES && next - end < SPM_WRPROTECT_GAP);
		mapping_wrprotect_range(rmap->mapping, start + first,
					folio_pfn(rv->folio) + first,
					end - first);
		first = next;
	}
}

/**
 * spm_rmap_remove_write() - make every entry of a reservation read-only
 * @rmap:	of the region whose mappings have the entries
 * @rv:		reservation
 *
 * FreeBSD's pmap_remove_write(), for 512 pages at once; 2 MB entries stay.  By
 * the dirty rule, there is nothing to do where no page is dirty.
 *
 * Context: slot lock held; no VMA lock needed.
 */
void spm_rmap_remove_write(struct spm_rmap *rmap, const struct spm_reserv *rv)
{
	pgoff_t start = rv->index << SPM_SLOT_SHIFT;
	struct spm_pmap *pm;
	unsigned int i;

	if (!rv->ndirty)
		return;
	if (!spm_reserv_loose(rv))
		spm_wrprotect_block(rmap, rv);
	else
		for_each_set_bit(i, rv->dirty, SPM_SLOT_PAGES)
			mapping_wrprotect_range(rmap->mapping, start + i,
						page_to_pfn(rv->pages[i]), 1);
	if (rv->ndirty < SPM_SLOT_PAGES)
		return;
	mutex_lock(&rmap->lock);
	list_for_each_entry(pm, &rmap->pmaps, link)
		spm_pmap_write_protected(pm, rv);
	mutex_unlock(&rmap->lock);
}
EXPORT_SYMBOL_IF_KUNIT(spm_rmap_remove_write);

/**
 * spm_rmap_clear_modify() - pages are clean from now on
 * @rmap:	of the region whose mappings have the entries
 * @rv:		reservation
 * @first:	first page
 * @end:	one past the last
 *
 * FreeBSD's pmap_clear_modify(), which demotes a 2 MB entry in order to
 * write-protect the one page.  Here the entry becomes read-only as a whole and
 * stays: what the other pages have is recorded, and the next store decides.
 *
 * A page whose memory somebody holds stays dirty: it may be stored to without
 * another fault.  The entries come first, then the look who holds it, because
 * whoever takes hold of a page by way of an entry looks at the entry once more
 * after that.
 *
 * Context: slot lock held; no VMA lock needed.
 * Return: how many pages stay dirty.
 */
unsigned int spm_rmap_clear_modify(struct spm_rmap *rmap, struct spm_reserv *rv,
				   unsigned int first, unsigned int end)
{
	unsigned int i = first, kept = 0;

	if (find_next_bit(rv->dirty, end, first) >= end)
		return 0;
	spm_rmap_remove_write(rmap, rv);
	smp_mb(); /* the write protection before the references */
	if (!spm_reserv_loose(rv)) {
		if (spm_reserv_held(rv, first))
			return bitmap_weight(rv->dirty, end) -
			       bitmap_weight(rv->dirty, first);
		spm_reserv_clear_dirty(rv, first, end);
		return 0;
	}
	for_each_set_bit_from(i, rv->dirty, end) {
		if (spm_reserv_held(rv, i))
			kept++;
		else
			spm_reserv_clear_dirty(rv, i, i + 1);
	}
	return kept;
}
EXPORT_SYMBOL_IF_KUNIT(spm_rmap_clear_modify);
