/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dirty state: which pages of an object were stored to since they were last
 * cleared.
 *
 * It is looked up along the chain as contents are, and freezes, shadows and
 * collapses with them: see spm_track_dirty().
 *
 * Context of all functions, unless they say otherwise: process context, may
 * sleep; slot lock held.
 */
#ifndef SPM_TRACK_H
#define SPM_TRACK_H

#include "object.h"

void spm_track_dirty(struct spm_object *obj, pgoff_t index, unsigned long *out);
bool spm_track_clean(const struct spm_slot *slot);
bool spm_track_watched(struct spm_object *obj, pgoff_t index);
void spm_track_arm(struct spm_object *obj);
bool spm_track_armed(struct spm_object *obj, pgoff_t index);
int spm_track_clear(struct spm_object *obj, struct spm_slot *slot,
		    unsigned int lo, unsigned int hi, bool learn);
void spm_track_restore(struct spm_object *obj, struct spm_slot *slot,
		       unsigned int lo, unsigned int hi);
int spm_track_gone(struct spm_object *obj, struct spm_slot *slot,
		   unsigned int lo, unsigned int hi, gfp_t more);

bool spm_track_freezes(struct spm_object *obj, const struct spm_slot *slot);
void spm_track_move(struct spm_slot *below, struct spm_slot *slot);
void spm_track_overrule(const struct spm_slot *above, struct spm_slot *slot);
void spm_track_merge(struct spm_slot *above, struct spm_slot *slot);
int spm_track_copy(struct spm_slot *slot, struct spm_object *from);

struct spm_object *spm_track_parted(struct spm_object *a, struct spm_object *b);
void spm_track_since(struct spm_object *obj, struct spm_object *common,
		     pgoff_t index, unsigned long *out);

#if IS_ENABLED(CONFIG_KUNIT)
int spm_slot_need_changed(struct spm_slot *slot, gfp_t more);
#endif

#endif /* SPM_TRACK_H */
