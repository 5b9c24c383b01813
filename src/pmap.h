/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FreeBSD's pmap operations for one mapping, and the shadow that remembers at
 * which size each slot is mapped.
 *
 * The shadow is an upper bound: the kernel takes entries away without asking
 * (munmap, mprotect, MADV_DONTNEED, exit), and spm_pmap_observe() corrects the
 * shadow where the truth is seen anyway.
 *
 * Locks, unless a function says otherwise: the caller holds the slot's lock,
 * and the VMA's lock or mmap_lock for reading.
 */
#ifndef SPM_PMAP_H
#define SPM_PMAP_H

#include <linux/mutex.h>
#include <linux/xarray.h>

#include "ptable.h"
#include "reserv.h"

struct mm_struct;

/**
 * struct spm_rmap - where a region is mapped, shared and private
 * @mapping:	of the region's inode: the core links all its VMAs here
 * @pmaps:	pmaps of the same VMAs
 * @npmaps:	how many; changed under @lock
 * @lock:	protects @pmaps; taken inside slot locks, nothing but the
 *		shadows' own locks is taken inside it
 */
struct spm_rmap {
	struct address_space *mapping;
	struct list_head pmaps;
	unsigned int npmaps;
	struct mutex lock; /* the list of pmaps */
};

/**
 * struct spm_pmap - what one mapping has entered
 * @owner:	of the object that is mapped; constant
 * @rmap:	of its region; constant
 * @mm:		whose page tables; held by mmgrab(); constant
 * @link:	in rmap->pmaps, under its lock
 * @shadow:	enum spm_pmd_state by slot; an element is added by
 *		spm_pmap_prepare() and changed under the lock of its slot
 * @inexact:	entries may exist that @shadow does not know of, because memory
 *		ran out while the mapping was copied or moved; then
 *		spm_pmap_observe() learns of them.  Set under the lock of one
 *		slot, and only ever set; spm_verify() may read it at the same
 *		time under that of another
 */
struct spm_pmap {
	const struct spm_owner *owner;
	struct spm_rmap *rmap;
	struct mm_struct *mm;
	struct list_head link;
	struct xarray shadow;
	bool inexact;
};

void spm_pmap_init(struct spm_pmap *pm, const struct spm_owner *owner,
		   struct spm_rmap *rmap, struct mm_struct *mm);
void spm_pmap_destroy(struct spm_pmap *pm);
int spm_pmap_prepare(struct spm_pmap *pm, pgoff_t slot);
enum spm_pmd_state spm_pmap_shadow(struct spm_pmap *pm, pgoff_t slot);
unsigned long spm_pmap_live(struct spm_pmap *pm);
enum spm_pmd_state spm_pmap_observe(struct spm_pmap *pm,
				    const struct spm_place *pl);
void spm_pmap_forget(struct spm_pmap *pm, pgoff_t slot);
int spm_pmap_move(struct spm_pmap *to, struct spm_pmap *from, pgoff_t slot,
		  bool whole);

void spm_pmap_write_protected(struct spm_pmap *pm, const struct spm_reserv *rv);
vm_fault_t spm_pmap_enter_4k(struct spm_pmap *pm, const struct spm_place *pl,
			     struct spm_reserv *rv, unsigned int i);
vm_fault_t spm_pmap_enter_2m(struct spm_pmap *pm, const struct spm_place *pl,
			     struct spm_reserv *rv, bool write,
			     enum spm_promote_cause cause);
vm_fault_t spm_pmap_promote(struct spm_pmap *pm, const struct spm_place *pl,
			    struct spm_reserv *rv, bool write,
			    enum spm_promote_cause cause);
vm_fault_t spm_pmap_upgrade(struct spm_pmap *pm, const struct spm_place *pl,
			    struct spm_reserv *rv,
			    enum spm_promote_cause cause);
void spm_pmap_refuse(struct spm_pmap *pm, const struct spm_place *pl,
		     enum spm_refusal why, enum spm_promote_cause cause);
bool spm_pmap_demote(struct spm_pmap *pm, const struct spm_place *pl,
		     struct spm_reserv *rv, enum spm_demote_cause cause);
void spm_pmap_remove(struct spm_pmap *pm, const struct spm_place *pl,
		     unsigned int first, unsigned int end);
unsigned int spm_pmap_ts_referenced(struct spm_pmap *pm,
				    const struct spm_place *pl,
				    unsigned int first, unsigned int end,
				    bool clear, unsigned long *out);

#endif /* SPM_PMAP_H */
