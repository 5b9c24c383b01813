/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What more than one suite needs.
 */
#ifndef SPM_KUNIT_SUPPORT_H
#define SPM_KUNIT_SUPPORT_H

#include <kunit/test.h>
#include <linux/fs.h>

#include "collapse.h"
#include "cow.h"
#include "freeze.h"
#include "rmap.h"

/**
 * struct spm_test_base - what a region gives to its objects
 * @inode:	stands for the region's, without a file system
 * @rmap:	without maps
 * @counters:	the region's; one reference
 * @region:	its number
 */
struct spm_test_base {
	struct inode inode;
	struct spm_rmap rmap;
	struct spm_counters *counters;
	u32 region;
};

/**
 * struct spm_test_object - an object without a region; test->priv
 * @base:	what a region would give it
 * @obj:	the object, or NULL for a case that put it itself
 */
struct spm_test_object {
	struct spm_test_base base;
	struct spm_object *obj;
};

void spm_test_base_init(struct kunit *test, struct spm_test_base *base,
			u32 region);
void spm_test_base_exit(struct kunit *test, struct spm_test_base *base);
struct spm_object *spm_test_base_object(struct spm_test_base *base,
					struct spm_family *family,
					const struct mm_struct *mm);
int spm_test_object_init(struct kunit *test);
void spm_test_object_exit(struct kunit *test);
void spm_test_gauges_zero(struct kunit *test, const struct spm_counters *c);
bool spm_test_page_is(struct page *page, u8 byte);
void spm_test_page_fill(struct page *page, u8 byte);
int spm_test_thread_end(void);
struct folio *spm_test_no_block(gfp_t gfp, int order,
				struct vm_area_struct *vma, unsigned long addr);
struct folio *spm_test_no_page(gfp_t gfp, int order,
			       struct vm_area_struct *vma, unsigned long addr);

/* The value of a region's counter. */
#define EXPECT_STAT(test, c, field, value)				\
	KUNIT_EXPECT_EQ_MSG(test, spm_stat_read(c, SPM_STAT_##field),	\
			    (long)(value), "counter %s", #field)

#endif /* SPM_KUNIT_SUPPORT_H */
