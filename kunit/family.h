/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A family of objects without processes, and what each live one must show.
 *
 * The model knows nothing of chains: a region has an array of values, a private
 * mapping an array of those that are its own, and the rest is the region's, as
 * Linux files have it.
 */
#ifndef SPM_KUNIT_FAMILY_H
#define SPM_KUNIT_FAMILY_H

#include "support.h"

#define SPM_TEST_SLOTS	3	/* slots in play */
#define SPM_TEST_PAGES	8	/* pages of each slot in play */
#define SPM_TEST_BASES	24	/* regions, at most, in the life of a family */
#define SPM_TEST_IMAGES	12	/* live objects at a time */

/* The pages of a slot that are in play: both ends, neighbours, the middle. */
extern const unsigned int spm_test_pages[SPM_TEST_PAGES];

/* How many allocations spm_test_folios_left() still allows. */
extern unsigned int spm_test_folios;

/**
 * struct spm_test_image - a live object and what it must show
 * @obj:	NULL if unused
 * @base:	its region's
 * @region:	of a private mapping: the image of its region, else NULL
 * @own:	of a private mapping: not the region's any more
 * @value:	of each page in play, 0 for zeros
 */
struct spm_test_image {
	struct spm_object *obj;
	struct spm_test_base *base;
	struct spm_test_image *region;
	bool own[SPM_TEST_SLOTS][SPM_TEST_PAGES];
	u32 value[SPM_TEST_SLOTS][SPM_TEST_PAGES];
};

/**
 * struct spm_test_family - test->priv
 * @bases:	of the regions that there are and were
 * @images:	the live objects; the first is the region that all began with
 * @next:	value that was stored last
 * @unmerged:	a merge ran out of memory: frozen objects with one shadow are
 *		allowed
 */
struct spm_test_family {
	struct spm_test_base bases[SPM_TEST_BASES];
	struct spm_test_image images[SPM_TEST_IMAGES];
	u32 next;
	bool unmerged;
};

int spm_test_family_init(struct kunit *test);
void spm_test_family_exit(struct kunit *test);
void spm_test_family_again(struct kunit *test);

struct spm_test_image *spm_test_family_region(struct kunit *test);
struct spm_test_image *spm_test_snapshot(struct kunit *test,
					 struct spm_test_image *of, int *err);
struct spm_test_image *spm_test_private(struct kunit *test,
					struct spm_test_image *of);
struct spm_test_image *spm_test_fork(struct kunit *test,
				     struct spm_test_image *of, int *err);
void spm_test_put(struct spm_test_image *img);
int spm_test_set(struct kunit *test, struct spm_test_image *img,
		 unsigned int s, unsigned int k);
int spm_test_touch(struct spm_test_image *img, unsigned int s, unsigned int k);
int spm_test_fill(struct spm_test_image *img, unsigned int s);
int spm_test_discard(struct spm_test_image *img, pgoff_t first, pgoff_t end);
void spm_test_truncate(struct kunit *test, struct spm_test_image *img,
		       pgoff_t end);
u32 spm_test_want(const struct spm_test_image *img, unsigned int s,
		  unsigned int k);

struct spm_reserv *spm_test_reserv(struct spm_object *obj, pgoff_t index);
int spm_test_store_page(struct spm_object *obj, pgoff_t index, unsigned int i,
			u32 value);
u32 spm_test_shown(struct spm_object *obj, pgoff_t index, unsigned int i);
u32 spm_test_page_value(struct page *page);
void spm_test_page_set(struct page *page, u32 value);
struct page *spm_test_pin(struct spm_reserv *rv);
unsigned int spm_test_depth(struct spm_object *obj);
struct folio *spm_test_folios_left(gfp_t gfp, int order,
				   struct vm_area_struct *vma,
				   unsigned long addr);

void spm_test_family_check(struct kunit *test, int line);

/* Every live object shows what it must, and all books agree. */
#define EXPECT_FAMILY(test) spm_test_family_check(test, __LINE__)

#endif /* SPM_KUNIT_FAMILY_H */
