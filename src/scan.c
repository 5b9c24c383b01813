// SPDX-License-Identifier: GPL-2.0
/*
 * Scans: walk a range slot by slot, by offset or by address, and answer which of
 * its pages are dirty, or were referenced.
 *
 * What is particular to each is one function that looks at one slot; see struct
 * spm_scan_ops.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "advise.h"
#include "answer.h"
#include "fault.h"
#include "scan.h"
#include "track.h"

struct spm_scanner;

/**
 * struct spm_piece - pages of one object that follow each other
 * @obj:	object
 * @map:	by address: whose mapping it is, referenced; else NULL
 * @first:	first page, by index in the object
 * @end:	one past the last
 * @page:	number of page @first in the answer
 */
struct spm_piece {
	struct spm_object *obj;
	struct spm_map *map;
	pgoff_t first;
	pgoff_t end;
	u64 page;
};

/**
 * struct spm_part - the part of a piece that lies in one slot
 * @index:	of the slot
 * @slot:	of the piece's object, or NULL
 * @lo:		first page, by index in the slot
 * @hi:		one past the last
 * @page:	number of page @lo in the answer
 */
struct spm_part {
	pgoff_t index;
	struct spm_slot *slot;
	unsigned int lo;
	unsigned int hi;
	u64 page;
};

/**
 * struct spm_scan_ops - one kind of scan
 * @begin:	what is in the answer is going to be cleared; or NULL
 * @slot:	look at the pages of a part, and add them to the answer and clear
 *		them up to where that is full; returns a negative errno, or
 *		where it stopped
 * @undo:	pages [@lo, @hi) were cleared, but nobody was told; or NULL
 */
struct spm_scan_ops {
	void (*begin)(const struct spm_piece *p);
	int (*slot)(struct spm_scanner *s, const struct spm_piece *p,
		    const struct spm_part *part);
	void (*undo)(const struct spm_piece *p, pgoff_t index, unsigned int lo,
		     unsigned int hi);
};

/**
 * struct spm_scanner - a scan that is under way
 * @ops:	which kind
 * @region:	of the descriptor
 * @since:	parted from which region, or NULL
 * @clear:	forget what is in the answer
 * @learn:	see spm_track_clear()
 * @write:	the descriptor is open for writing
 * @next:	number of the page where the answer ends
 * @ans:	the answer
 */
struct spm_scanner {
	const struct spm_scan_ops *ops;
	struct spm_region *region;
	struct spm_region *since;
	bool clear;
	bool learn;
	bool write;
	u64 next;
	struct spm_answer ans;
};

/* -- dirty ----------------------------------------------------------------- */

/* What is dirty, or changed, of a slot whose lock is held. */
static void spm_dirty_bits(struct spm_scanner *s, const struct spm_piece *p,
			   pgoff_t index, unsigned long *bits)
{
	if (s->since)
		spm_track_since(p->obj,
				spm_track_parted(p->obj, s->since->object),
				index, bits);
	else
		spm_track_dirty(p->obj, index, bits);
}

/* Lock a slot, of which @slot, if there is one, is the object's own. */
static int spm_dirty_lock(struct spm_scanner *s, const struct spm_piece *p,
			  struct spm_slot *slot, struct mutex *lock)
{
	int err;

	if (s->clear)
		return spm_slot_lock_write(p->obj, slot);
	/* Keeps the chain as it is while the place is found where it parts. */
	if (s->since && mutex_lock_killable(&p->obj->family->lock))
		return -EINTR;
	err = mutex_lock_killable(lock);
	if (err && s->since)
		mutex_unlock(&p->obj->family->lock);
	return err;
}

static int spm_dirty_slot(struct spm_scanner *s, const struct spm_piece *p,
			  const struct spm_part *part)
{
	unsigned int lo = part->lo, hi = part->hi;
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES);
	struct spm_slot *slot = part->slot;
	pgoff_t index = part->index;
	struct mutex *lock;
	bool clean;
	int err;

	if (!slot && !spm_object_may_show(p->obj, index))
		return hi;
	if (s->clear && !slot)
		slot = spm_object_slot(p->obj, index, 0);
	if (s->clear && !slot)
		return -ENOMEM;
	lock = slot ? slot->lock : spm_object_find_lock(p->obj, index);
	err = spm_dirty_lock(s, p, slot, lock);
	if (err)
		return err;
	clean = slot && !s->since && spm_track_clean(slot);
	if (!clean) {
		spm_dirty_bits(s, p, index, bits);
		if (!spm_answer_roomy(&s->ans))
			hi = spm_answer_fits(&s->ans, part->page, bits, lo, hi);
		if (s->clear && lo < hi)
			err = spm_track_clear(p->obj, slot, lo, hi, s->learn);
	}
	mutex_unlock(lock);
	if (s->since)
		mutex_unlock(&p->obj->family->lock);
	if (err)
		return err;
	if (!clean)
		spm_answer_add(&s->ans, part->page, bits, lo, hi);
	return hi;
}

static void spm_dirty_undo(const struct spm_piece *p, pgoff_t index,
			   unsigned int lo, unsigned int hi)
{
	struct spm_slot *slot = spm_object_find_slot(p->obj, index);

	/* There is one: it was cleared. */
	mutex_lock(slot->lock);
	spm_track_restore(p->obj, slot, lo, hi);
	mutex_unlock(slot->lock);
}

static void spm_dirty_begin(const struct spm_piece *p)
{
	spm_track_arm(p->obj);
}

static const struct spm_scan_ops spm_dirty_ops = {
	.begin = spm_dirty_begin,
	.slot = spm_dirty_slot,
	.undo = spm_dirty_undo,
};

/* -- referenced ------------------------------------------------------------ */

/* Accessed bits of one VMA, whose mm is locked. */
static void spm_age_vma(struct spm_map *map, struct vm_area_struct *vma,
			pgoff_t index, unsigned int lo, unsigned int hi,
			bool clear, unsigned long *bits)
{
	struct spm_place pl;

	spm_place_init(&pl, vma, index, ULONG_MAX, NULL);
	lo = max(lo, pl.lo);
	hi = min(hi, pl.hi);
	if (lo < hi)
		spm_pmap_ts_referenced(&map->pmap, &pl, lo, hi, clear, bits);
}

/*
 * Accessed bits of one mapping.  Its mm may be another's: whoever holds its
 * mmap_lock for writing is waited for, faults are not.
 */
static int spm_age_map(struct spm_map *map, pgoff_t index, unsigned int lo,
		       unsigned int hi, bool clear, unsigned long *bits)
{
	unsigned long addr = map->base + (index << PMD_SHIFT);
	struct mutex *lock = map->object ?
		spm_object_find_lock(map->object, index) : NULL;
	struct mm_struct *mm = map->pmap.mm;
	struct vm_area_struct *vma;
	int err = 0;

	VMA_ITERATOR(vmi, mm, addr + ((unsigned long)lo << PAGE_SHIFT));

	if (!lock || !mmget_not_zero(mm))
		return 0;
	if (mmap_read_lock_killable(mm)) {
		mmput(mm);
		return -EINTR;
	}
	for_each_vma_range(vmi, vma, addr + ((unsigned long)hi << PAGE_SHIFT)) {
		if (!spm_vma_is_ours(vma) || spm_map_of(vma) != map)
			continue;
		err = mutex_lock_killable(lock);
		if (err)
			break;
		spm_age_vma(map, vma, index, lo, hi, clear, bits);
		mutex_unlock(lock);
	}
	mmap_read_unlock(mm);
	mmput(mm);
	return err;
}

/*
 * Entries that are gone speak for the reservation as a whole: the kernel noted
 * in the folio that some of them had been accessed.  One bit for 512 pages, too:
 * see spm_policy_accessed_page().
 */
static void spm_age_unmapped(struct spm_region *r, pgoff_t index,
			     unsigned int lo, unsigned int hi, bool clear,
			     unsigned long *bits)
{
	struct spm_slot *slot = spm_object_find_slot(r->object, index);
	unsigned int one = spm_policy_accessed_page(index);
	struct spm_reserv *rv;

	if (!slot)
		return;
	mutex_lock(slot->lock);
	rv = slot->reserv;
	if (rv && !spm_reserv_loose(rv) && folio_test_referenced(rv->folio)) {
		if (!folio_mapped(rv->folio))
			bitmap_or(bits, bits, rv->popmap, SPM_SLOT_PAGES);
		if (clear && one >= lo && one < hi)
			folio_clear_referenced(rv->folio);
	}
	mutex_unlock(slot->lock);
}

/* All mappings that share the region, or the one of the piece. */
static int spm_age_slot_once(struct spm_scanner *s, const struct spm_piece *p,
			     pgoff_t index, unsigned int lo, unsigned int hi,
			     bool clear, unsigned long *bits)
{
	struct spm_map *map = NULL;
	int err = 0;

	if (p->map)
		return spm_age_map(p->map, index, lo, hi, clear, bits);
	while ((map = spm_map_next(s->region, map))) {
		if (map->object != p->obj)
			continue;
		err = spm_age_map(map, index, lo, hi, clear, bits);
		if (err)
			break;
	}
	if (map)
		spm_map_put(map);
	if (!err)
		spm_age_unmapped(s->region, index, lo, hi, clear, bits);
	return err;
}

/*
 * If it is not certain that the slot fits into the answer, look twice: what is
 * touched in between may be missing from the answer, and look cold.
 */
static int spm_age_slot(struct spm_scanner *s, const struct spm_piece *p,
			const struct spm_part *part)
{
	unsigned int lo = part->lo, hi = part->hi;
	bool once = spm_answer_roomy(&s->ans);
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES) = { };
	int err;

	err = spm_age_slot_once(s, p, part->index, lo, hi, s->clear && once,
				bits);
	if (err)
		return err;
	hi = spm_answer_fits(&s->ans, part->page, bits, lo, hi);
	spm_answer_add(&s->ans, part->page, bits, lo, hi);
	if (s->clear && !once && lo < hi)
		err = spm_age_slot_once(s, p, part->index, lo, hi, true, bits);
	return err ?: hi;
}

static const struct spm_scan_ops spm_age_ops = {
	.slot = spm_age_slot,
};

/* -- the walk -------------------------------------------------------------- */

/* What could not be told is not cleared after all. */
static void spm_scan_undo(struct spm_scanner *s, const struct spm_piece *p)
{
	u64 page = 0, end;

	s->next = min(s->next, spm_answer_delivered(&s->ans));
	for (; spm_answer_undelivered(&s->ans, &page, &end); page = end) {
		pgoff_t first = p->first + (page - p->page);
		pgoff_t last = first + (end - page) - 1;
		pgoff_t index = first >> SPM_SLOT_SHIFT;

		if (!s->clear || !s->ops->undo)
			continue;
		for (; index <= last >> SPM_SLOT_SHIFT; index++) {
			pgoff_t start = index << SPM_SLOT_SHIFT;

			s->ops->undo(p, index,
				     first > start ? first - start : 0,
				     min(last - start + 1,
					 (pgoff_t)SPM_SLOT_PAGES));
			cond_resched();
		}
	}
	spm_answer_retract(&s->ans);
}

/*
 * Slots that nobody ever had are passed over at once.  Without a backing, those
 * of the object are all; it has them all still if it gets one meanwhile.
 */
static int spm_scan_slots(struct spm_scanner *s, const struct spm_piece *p)
{
	bool own = !READ_ONCE(p->obj->backing);
	struct xarray *xa = own ? &p->obj->slots : &p->obj->family->locks;
	unsigned long index;
	void *entry;
	int stop, err;

	if (p->first >= p->end)
		return 0;
	xa_for_each_range(xa, index, entry, p->first >> SPM_SLOT_SHIFT,
			  (p->end - 1) >> SPM_SLOT_SHIFT) {
		pgoff_t start = index << SPM_SLOT_SHIFT;
		struct spm_part part = { .index = index };

		part.slot = own ? entry : spm_object_find_slot(p->obj, index);
		part.lo = p->first > start ? p->first - start : 0;
		part.hi = min(p->end - start, (pgoff_t)SPM_SLOT_PAGES);
		part.page = p->page + (start + part.lo - p->first);
		err = spm_answer_ready(&s->ans, part.page);
		if (err)
			return err;
		/* Nobody had those between; some may be delivered already. */
		s->next = part.page;
		stop = s->ops->slot(s, p, &part);
		if (stop < 0)
			return stop;
		s->next = part.page + (stop - part.lo);
		if (stop < part.hi)
			return 1;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/*
 * One piece, and deliver what it gave: undoing needs its object.  Returns 1 when
 * the answer is full.
 */
static int spm_scan_piece(struct spm_scanner *s, struct spm_piece *p, u64 end)
{
	u64 room = spm_answer_end(&s->ans);
	int err;

	if (end > room)
		p->end = min(p->end, p->first + (room - p->page));
	if (s->clear && s->ops->begin)
		s->ops->begin(p);
	err = spm_scan_slots(s, p);
	if (!err)
		s->next = min(end, room);
	if (!err && end > room)
		err = 1;
	/* Of a task that is being killed nobody learns what was delivered. */
	if (err != -EFAULT && err != -EINTR)
		err = spm_answer_deliver(&s->ans, s->next) ?: err;
	if (err < 0)
		spm_scan_undo(s, p);
	return err;
}

static int spm_scan_offset(struct spm_scanner *s, const struct spm_scan *a)
{
	u64 end = (a->start + a->len) >> PAGE_SHIFT;
	struct spm_piece p = {
		.obj = s->region->object,
		.first = a->start >> PAGE_SHIFT,
		.end = min(end, (u64)spm_region_pages(s->region)),
		.page = a->start >> PAGE_SHIFT,
	};

	return spm_scan_piece(s, &p, end);
}

/* May the VMA at @addr be part of the range?  With mmap_lock held. */
static int spm_scan_vma(struct spm_scanner *s, unsigned long addr,
			struct vm_area_struct **vma)
{
	*vma = vma_lookup(current->mm, addr);
	if (!spm_vma_maps(*vma, s->region) || !spm_map_of(*vma)->object)
		return -ENOMEM;
	if (s->clear && !s->write && !spm_vma_private(*vma))
		return -EBADF;
	return 0;
}

/* Nothing of a range is looked at when a part of it cannot be. */
static int spm_scan_check(struct spm_scanner *s, unsigned long addr,
			  unsigned long end)
{
	struct vm_area_struct *vma;
	int err = 0;

	if (mmap_read_lock_killable(current->mm))
		return -EINTR;
	for (; addr < end && !err; addr = err ? addr : vma->vm_end)
		err = spm_scan_vma(s, addr, &vma);
	mmap_read_unlock(current->mm);
	return err;
}

/* The piece that begins at @addr, in one VMA.  Returns a map to be put. */
static struct spm_map *spm_scan_find(struct spm_scanner *s, unsigned long addr,
				     unsigned long *end, struct spm_piece *p)
{
	struct vm_area_struct *vma;
	struct spm_map *map;
	int err;

	if (mmap_read_lock_killable(current->mm))
		return ERR_PTR(-EINTR);
	err = spm_scan_vma(s, addr, &vma);
	if (err) {
		mmap_read_unlock(current->mm);
		return ERR_PTR(err);
	}
	map = spm_map_of(vma);
	/* The VMA has a reference, too. */
	refcount_inc(&map->ref);
	*end = min(*end, vma->vm_end);
	p->obj = map->object;
	p->map = map;
	p->first = linear_page_index(vma, addr);
	p->end = min(linear_page_index(vma, *end),
		     spm_region_pages(s->region));
	p->page = addr >> PAGE_SHIFT;
	mmap_read_unlock(current->mm);
	return map;
}

static int spm_scan_address(struct spm_scanner *s, const struct spm_scan *a)
{
	unsigned long addr = a->start, end = a->start + a->len, stop;
	int err = spm_scan_check(s, addr, end);

	for (; !err && addr < end; addr = stop) {
		struct spm_piece p;
		struct spm_map *map;

		stop = end;
		map = spm_scan_find(s, addr, &stop, &p);
		if (IS_ERR(map))
			return PTR_ERR(map);
		err = spm_scan_piece(s, &p, stop >> PAGE_SHIFT);
		spm_map_put(map);
	}
	return err;
}

/*
 * As read() does: an error comes back only if there is no answer at all; else
 * the next request, which begins where this one ended, meets it again.
 */
static int spm_scan(struct spm_scanner *s, struct spm_scan *a)
{
	int err;

	a->next = a->start;
	a->count = 0;
	a->pages = 0;
	err = spm_check_range(a->start, a->len);
	if (err || !a->len)
		return err;
	if (s->clear && !s->write && a->flags & SPM_SCAN_BY_OFFSET)
		return -EBADF;
	err = spm_answer_init(&s->ans, a);
	if (err)
		return err;
	s->next = a->start >> PAGE_SHIFT;
	if (a->flags & SPM_SCAN_BY_OFFSET)
		err = spm_scan_offset(s, a);
	else
		err = spm_scan_address(s, a);
	a->next = s->next << PAGE_SHIFT;
	a->count = spm_answer_count(&s->ans);
	a->pages = s->ans.pages;
	spm_answer_free(&s->ans);
	if (err == -EINTR || (err < 0 && !a->count && !a->pages))
		return err;
	return 0;
}

/**
 * spm_get_dirty() - SPM_IOC_GET_DIRTY
 * @r:		region of the descriptor
 * @a:		arguments, flags and padding checked; the answer is filled in
 * @since:	region of the same family, for SPM_SCAN_SINCE, or NULL
 * @write:	the descriptor is open for writing
 *
 * Context: process context, may sleep and fault, no lock held.
 * Return: 0 or a negative errno as the user interface documents it.
 */
int spm_get_dirty(struct spm_region *r, struct spm_scan *a,
		  struct spm_region *since, bool write)
{
	struct spm_scanner s = {
		.ops = &spm_dirty_ops,
		.region = r,
		.since = since,
		.clear = a->flags & SPM_SCAN_CLEAR,
		.learn = spm_region_tunable(r, dirty_grain) == SPM_GRAIN_AUTO,
		.write = write,
	};

	return spm_scan(&s, a);
}

/**
 * spm_get_referenced() - SPM_IOC_GET_REFERENCED
 * @r:		region of the descriptor
 * @a:		arguments, flags and padding checked; the answer is filled in
 * @write:	the descriptor is open for writing
 *
 * Context: process context, may sleep and fault, no lock held.
 * Return: 0 or a negative errno as the user interface documents it.
 */
int spm_get_referenced(struct spm_region *r, struct spm_scan *a, bool write)
{
	struct spm_scanner s = {
		.ops = &spm_age_ops,
		.region = r,
		.clear = a->flags & SPM_SCAN_CLEAR,
		.write = write,
	};

	return spm_scan(&s, a);
}
