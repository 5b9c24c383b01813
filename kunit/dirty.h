/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Dirty state of a family's objects, as sets of the pages in play; and the
 * operations that change it.
 */
#ifndef SPM_KUNIT_DIRTY_H
#define SPM_KUNIT_DIRTY_H

#include <kunit/static_stub.h>
#include <linux/mm.h>

#include "family.h"
#include "track.h"

#define FULL SPM_SLOT_PAGES
#define LAST (SPM_SLOT_PAGES - 1)
#define NPAGES SPM_TEST_PAGES

/* Sets of pages in play: bit k stands for spm_test_pages[k]. */
#define ALL 0xffU

static inline void set_mask(struct kunit *test, struct spm_test_image *img,
		     unsigned int s, unsigned int mask)
{
	unsigned int k;

	for (k = 0; k < NPAGES; k++)
		if (mask & BIT(k))
			KUNIT_ASSERT_EQ(test, spm_test_set(test, img, s, k), 0);
}

static inline void touch_mask(struct kunit *test, struct spm_test_image *img,
		       unsigned int s, unsigned int mask)
{
	unsigned int k;

	for (k = 0; k < NPAGES; k++)
		if (mask & BIT(k))
			KUNIT_ASSERT_EQ(test, spm_test_touch(img, s, k), 0);
}

static inline int clear_range(struct spm_test_image *img, unsigned int s,
		       unsigned int lo, unsigned int hi)
{
	struct spm_slot *slot = spm_object_slot(img->obj, s, 0);
	int err;

	if (!slot)
		return -ENOMEM;
	err = spm_slot_lock_write(img->obj, slot);
	if (err)
		return err;
	err = spm_track_clear(img->obj, slot, lo, hi, false);
	mutex_unlock(slot->lock);
	return err;
}

static inline void clear(struct kunit *test, struct spm_test_image *img, unsigned int s)
{
	KUNIT_ASSERT_EQ(test, clear_range(img, s, 0, FULL), 0);
}

static inline void discard_mask(struct kunit *test, struct spm_test_image *img,
			 unsigned int s, unsigned int mask)
{
	unsigned int k;

	for (k = 0; k < NPAGES; k++) {
		pgoff_t n = s * FULL + spm_test_pages[k];

		if (mask & BIT(k))
			KUNIT_ASSERT_EQ(test, spm_test_discard(img, n, n + 1),
					0);
	}
}

/* Pages in play of a bitmap; ~0 if there are others. */
static inline unsigned int mask_of(const unsigned long *bits)
{
	unsigned int k, mask = 0;

	for (k = 0; k < NPAGES; k++)
		if (test_bit(spm_test_pages[k], bits))
			mask |= BIT(k);
	return hweight32(mask) == bitmap_weight(bits, FULL) ? mask : ~0U;
}

static inline unsigned int dirty_mask(struct spm_object *obj, unsigned int s)
{
	struct mutex *lock = spm_object_find_lock(obj, s);
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES);

	if (!lock)
		return 0;
	mutex_lock(lock);
	spm_track_dirty(obj, s, bits);
	mutex_unlock(lock);
	return mask_of(bits);
}

static inline unsigned int since_mask(struct spm_object *obj, struct spm_object *since,
			       unsigned int s)
{
	struct mutex *lock = spm_object_find_lock(obj, s);
	DECLARE_BITMAP(bits, SPM_SLOT_PAGES);

	if (!lock)
		return 0;
	mutex_lock(&obj->family->lock);
	mutex_lock(lock);
	spm_track_since(obj, spm_track_parted(obj, since), s, bits);
	mutex_unlock(lock);
	mutex_unlock(&obj->family->lock);
	return mask_of(bits);
}

#define EXPECT_DIRTY(test, img, s, mask)				\
	KUNIT_EXPECT_EQ(test, dirty_mask((img)->obj, s), mask)

#define EXPECT_SINCE(test, img, since, s, mask)				\
	KUNIT_EXPECT_EQ(test, since_mask((img)->obj, (since)->obj, s), mask)

static inline struct spm_test_image *snapshot(struct kunit *test,
				       struct spm_test_image *of)
{
	int err;
	struct spm_test_image *img = spm_test_snapshot(test, of, &err);

	KUNIT_ASSERT_EQ(test, err, 0);
	return img;
}

static inline struct spm_test_image *fork_of(struct kunit *test,
				      struct spm_test_image *of)
{
	int err;
	struct spm_test_image *img = spm_test_fork(test, of, &err);

	KUNIT_ASSERT_EQ(test, err, 0);
	return img;
}

#endif /* SPM_KUNIT_DIRTY_H */
