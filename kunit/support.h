/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What more than one suite needs.
 */
#ifndef SPM_KUNIT_SUPPORT_H
#define SPM_KUNIT_SUPPORT_H

#include <kunit/test.h>

#include "object.h"

/**
 * struct spm_test_object - an object without a region
 * @mapping:	stands for the mapping of a region's inode
 * @obj:	the object
 */
struct spm_test_object {
	struct address_space mapping;
	struct spm_object obj;
};

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
