// SPDX-License-Identifier: GPL-2.0
/*
 * Moving the memory of a slot: from a block to single pages, so that the block
 * goes back whole (FreeBSD's vm_reserv_break() leaves the populated pages where
 * they are, and the block in pieces); and from single pages to a block again.
 *
 * Both ways go the same way: have the new memory; take every entry away, so
 * that nobody can reach the old by an address; freeze the references to it, so
 * that nobody else does; copy; put the new in its place.  Up to the copy, giving
 * up costs no more than faults that bring the entries back.
 *
 * The caller holds the lock of the slot: no entry is made meanwhile, and who
 * faults waits, and finds the new memory.
 */
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "collapse.h"
#include "evacuate.h"
#include "rmap.h"

/*
 * Never waits: whoever evacuates is in the middle of finding memory.  On the
 * node of the block, for which a memory policy or a cpuset chose it.
 */
#define SPM_GFP_EVACUATE ((GFP_HIGHUSER & ~__GFP_RECLAIM) | __GFP_ACCOUNT | \
			  __GFP_THISNODE | __GFP_NOWARN)

/*
 * Reclaim may use what the kernel keeps for it, as when it writes pages to swap:
 * soon there is more.  But no more than this many pages at a time.
 */
#define SPM_EVACUATE_RESERVE 64U

/*
 * Take every entry of the slot away.  What is in a live object is mapped by its
 * own region only: whatever shadows it, or the like of it, is a private mapping
 * of the same region.  @users can become 0 meanwhile, but whoever drops the
 * last one waits for the slot's lock before it frees what we use here.
 *
 * What is frozen shows in any region of the family.  Its lock comes before the
 * slot's, so it can only be tried.
 */
static int spm_unmap_slot(struct spm_object *obj, pgoff_t index)
{
	if (READ_ONCE(obj->users)) {
		spm_rmap_remove_all(obj->rmap, index, 0, SPM_SLOT_PAGES);
		return 0;
	}
	if (!mutex_trylock(&obj->family->lock))
		return -EAGAIN;
	spm_family_remove_all(obj->family, index);
	mutex_unlock(&obj->family->lock);
	return 0;
}

/* A look before the work.  The answer that counts is spm_reserv_freeze()'s. */
static bool spm_reserv_any_held(const struct spm_reserv *rv)
{
	unsigned int i;

	if (!spm_reserv_loose(rv))
		return spm_reserv_held(rv, 0);
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES)
		if (spm_reserv_held(rv, i))
			return true;
	return false;
}

/* The references to the old memory, ours alone, become none: see folio_try_get(). */
static bool spm_reserv_freeze(struct spm_reserv *rv)
{
	unsigned int i, k;

	if (!spm_reserv_loose(rv))
		return folio_ref_freeze(rv->folio, 1);
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES)
		if (!folio_ref_freeze(page_folio(rv->pages[i]), 1))
			goto undo;
	return true;

undo:
	for_each_set_bit(k, rv->popmap, i)
		folio_ref_unfreeze(page_folio(rv->pages[k]), 1);
	return false;
}

static void spm_reserv_unfreeze(struct spm_reserv *rv)
{
	unsigned int i;

	if (!spm_reserv_loose(rv)) {
		folio_ref_unfreeze(rv->folio, 1);
		return;
	}
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES)
		folio_ref_unfreeze(page_folio(rv->pages[i]), 1);
}

static void spm_pages_free(struct page **pages)
{
	unsigned int i;

	for (i = 0; i < SPM_SLOT_PAGES; i++)
		if (pages[i])
			__free_page(pages[i]);
	kfree(pages);
}

/* Single pages for what a block holds, charged to whom the block is. */
VISIBLE_IF_KUNIT struct page **spm_pages_alloc(const struct spm_reserv *rv)
{
	gfp_t gfp = SPM_GFP_EVACUATE;
	struct mem_cgroup *memcg, *old;
	struct page **pages;
	unsigned int i;

	KUNIT_STATIC_STUB_REDIRECT(spm_pages_alloc, rv);
	if (spm_reserv_popcnt(rv) > SPM_EVACUATE_RESERVE)
		gfp |= __GFP_NOMEMALLOC;
	memcg = spm_folio_memcg_get(rv->folio);
	old = set_active_memcg(memcg);
	pages = kzalloc_objs(*pages, SPM_SLOT_PAGES,
			     GFP_NOWAIT | __GFP_ACCOUNT);
	if (!pages)
		goto out;
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		pages[i] = alloc_pages_node(rv->nid, gfp, 0);
		if (!pages[i]) {
			spm_pages_free(pages);
			pages = NULL;
			break;
		}
	}
out:
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return pages;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pages_alloc);

/* Entries away, references frozen.  Returns a negative errno if that fails. */
static int spm_seize(struct spm_object *obj, struct spm_reserv *rv)
{
	int err;

	err = spm_unmap_slot(obj, rv->index);
	if (err)
		return err;
	/*
	 * A reference more than ours: somebody pinned the memory, or takes an
	 * entry of it away at this moment and has not flushed the TLB yet.
	 */
	return spm_reserv_freeze(rv) ? 0 : -EBUSY;
}

static int spm_evacuate_to(struct spm_object *obj, struct spm_reserv *rv,
			   struct page **pages)
{
	unsigned int i;
	int err;

	err = spm_seize(obj, rv);
	if (err)
		return err;
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		if (copy_mc_highpage(pages[i], spm_reserv_page(rv, i))) {
			spm_reserv_unfreeze(rv);
			return -EHWPOISON;
		}
	}
	spm_reserv_break(rv, pages);
	return 0;
}

/**
 * spm_evacuate() - break a reservation: its pages become single ones
 * @obj:	that it belongs to, live or frozen
 * @rv:		reservation with a block
 * @cause:	why
 *
 * Every mapping follows by its next fault.  The block goes back to the page
 * allocator whole.
 *
 * Context: process context, reclaim included: waits for nothing that allocates
 * memory.  Slot lock held.
 * Return: 0; -EBUSY when somebody holds the memory otherwise than by an entry;
 * -EAGAIN when the family is busy; -ENOMEM; -EHWPOISON when a page cannot be
 * read.  On failure the reservation is as before, its entries perhaps gone.
 */
int spm_evacuate(struct spm_object *obj, struct spm_reserv *rv,
		 enum spm_evacuate_cause cause)
{
	const struct spm_counters *c = rv->owner->counters;
	unsigned int popcnt = spm_reserv_popcnt(rv);
	int nid = rv->nid, err = -ENOMEM;
	struct page **pages;

	lockdep_assert_held(rv->lock);
	if (spm_reserv_any_held(rv)) {
		err = -EBUSY;
		goto out;
	}
	/* The mark of a bad page must not get lost. */
	if (folio_contain_hwpoisoned_page(rv->folio)) {
		err = -EHWPOISON;
		goto out;
	}
	pages = spm_pages_alloc(rv);
	if (!pages)
		goto out;
	err = spm_evacuate_to(obj, rv, pages);
	if (err) {
		spm_pages_free(pages);
		goto out;
	}
	spm_count(c, reserv_broken);
	spm_count_n(c, reserv_reclaimed, cause == SPM_EVACUATE_PRESSURE);
	spm_count_n(c, evacuated, popcnt);
out:
	spm_count_n(c, evacuate_held, err == -EBUSY);
	spm_count_n(c, evacuate_nomem, err == -ENOMEM);
	trace_spm_evacuate(rv->owner->region, rv->index, nid, popcnt, cause,
			   err);
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(spm_evacuate);

/**
 * spm_reassemble_due() - is it time to look for a block?
 * @rv: reservation
 *
 * When the last page of single ones was populated, and if that fails, by faults a
 * second apart: so that a slot for which no block can be had costs little.
 *
 * Context: slot lock held.
 * Return: true if spm_reassemble() may be called.
 */
bool spm_reassemble_due(const struct spm_reserv *rv)
{
	union spm_reserv_state s = spm_reserv_state(rv);

	return s.flags & SPM_RV_LOOSE && s.popcnt == SPM_SLOT_PAGES &&
	       (!(s.flags & SPM_RV_DEFERRED) ||
		(u32)jiffies - s.tick >= HZ);
}
EXPORT_SYMBOL_IF_KUNIT(spm_reassemble_due);

static int spm_reassemble_to(struct spm_object *obj, struct spm_reserv *rv,
			     struct folio *folio)
{
	unsigned int i;
	int err;

	err = spm_seize(obj, rv);
	if (err)
		return err;
	for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		if (PageHWPoison(rv->pages[i]) ||
		    copy_mc_highpage(folio_page(folio, i), rv->pages[i])) {
			spm_reserv_unfreeze(rv);
			return -EHWPOISON;
		}
		cond_resched();
	}
	spm_reserv_mend(rv, folio);
	return 0;
}

/**
 * spm_reassemble() - single pages of a full slot become one block again
 * @obj:	that it belongs to, live
 * @rv:		full reservation of single pages
 * @vma:	mapping whose memory policy counts, or NULL for the task's
 * @addr:	address of the slot in @vma
 * @cause:	why
 *
 * Copies once; after that, 2 MB entries can be made.  Only if there is a free
 * block now: nothing is reclaimed or compacted for it.
 *
 * Context: process context, may sleep; slot lock held, and if there is a @vma,
 * its lock.
 * Return: 0 with all entries gone, or as spm_evacuate().
 */
int spm_reassemble(struct spm_object *obj, struct spm_reserv *rv,
		   struct vm_area_struct *vma, unsigned long addr,
		   enum spm_evacuate_cause cause)
{
	struct folio *folio = NULL;
	int err = -EBUSY;

	lockdep_assert_held(rv->lock);
	if (!spm_reserv_any_held(rv)) {
		folio = spm_reserv_block(rv, vma, addr);
		err = folio ? spm_reassemble_to(obj, rv, folio) : -ENOMEM;
	}
	if (err && folio)
		folio_put(folio);
	if (err)
		spm_reserv_defer(rv);
	else
		spm_count(rv->owner->counters, reassembled);
	trace_spm_reassemble(rv->owner->region, rv->index, rv->nid,
			     SPM_SLOT_PAGES, cause, err);
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(spm_reassemble);
