// SPDX-License-Identifier: GPL-2.0
/*
 * What more than one suite needs.
 */
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

#include "support.h"

/**
 * spm_test_base_init() - what a region gives to its objects
 * @test:	the case
 * @base:	to be set up
 * @region:	number of the region
 */
void spm_test_base_init(struct kunit *test, struct spm_test_base *base,
			u32 region)
{
	struct inode *inode = &base->inode;

	base->counters = spm_counters_create();
	KUNIT_ASSERT_NOT_NULL(test, base->counters);
	base->region = region;
	inode_init_once(inode);
	spin_lock_init(&inode->i_lock);
	/* Ours; so no iput() is the last one, which would need a superblock. */
	atomic_set(&inode->i_count, 1);
	inode->i_mapping = &inode->i_data;
	inode->i_data.host = inode;
	spm_rmap_init(&base->rmap, inode->i_mapping);
}

/**
 * spm_test_base_exit() - undo spm_test_base_init()
 * @test:	the case
 * @base:	of objects that are gone
 *
 * Nothing may be left of them in the counters.
 */
void spm_test_base_exit(struct kunit *test, struct spm_test_base *base)
{
	if (!base->counters)
		return;
	spm_test_gauges_zero(test, base->counters);
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&base->inode.i_count), 1,
			    "references to the inode");
	KUNIT_EXPECT_EQ_MSG(test, refcount_read(&base->counters->ref), 1,
			    "references to the counters");
	spm_counters_put(base->counters);
	base->counters = NULL;
	spm_rmap_destroy(&base->rmap);
}

/**
 * spm_test_base_object() - an object with one user
 * @base:	of its region
 * @family:	to join, or NULL to found one
 * @mm:		of a private mapping, or NULL
 *
 * Return: the object, or NULL.
 */
struct spm_object *spm_test_base_object(struct spm_test_base *base,
					struct spm_family *family,
					const struct mm_struct *mm)
{
	const struct spm_object_spec spec = {
		.family = family,
		.counters = base->counters,
		.region = base->region,
		.inode = &base->inode,
		.rmap = &base->rmap,
		.mm = mm,
	};

	return spm_object_create(&spec);
}

/**
 * spm_test_object_init() - an empty object for each case, in test->priv
 * @test: the case
 */
int spm_test_object_init(struct kunit *test)
{
	struct spm_test_object *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	spm_test_base_init(test, &t->base, 4711);
	test->priv = t;
	t->obj = spm_test_base_object(&t->base, NULL, NULL);
	KUNIT_ASSERT_NOT_NULL(test, t->obj);
	return 0;
}

/**
 * spm_test_object_exit() - everything must have been given back
 * @test: the case
 */
void spm_test_object_exit(struct kunit *test)
{
	struct spm_test_object *t = test->priv;

	if (!t)
		return;
	if (t->obj) {
		EXPECT_STAT(test, t->base.counters, pages, 0);
		EXPECT_STAT(test, t->base.counters, reserv_live, 0);
		spm_object_put(t->obj);
	}
	spm_test_base_exit(test, &t->base);
}

static const struct {
	const char *name;
	bool gauge;
} stats[SPM_NR_STATS] = {
#define SPM_KIND_C false
#define SPM_KIND_G true
#define SPM_STAT_DESC(field, text, kind) \
	[SPM_STAT_##field] = { .name = text, .gauge = SPM_KIND_##kind },
	SPM_STATS_LIST(SPM_STAT_DESC)
};

/**
 * spm_test_gauges_zero() - expect that nothing is left
 * @test:	the case
 * @c:		counters of a region, or NULL for the module's
 */
void spm_test_gauges_zero(struct kunit *test, const struct spm_counters *c)
{
	enum spm_stat s;

	for (s = 0; s < SPM_NR_STATS; s++)
		if (stats[s].gauge)
			KUNIT_EXPECT_EQ_MSG(test, spm_stat_read(c, s), 0,
					    "gauge %s", stats[s].name);
}

/**
 * spm_test_page_is() - does a page hold one byte all over?
 * @page: page
 * @byte: the byte
 */
bool spm_test_page_is(struct page *page, u8 byte)
{
	void *p = kmap_local_page(page);
	bool is = !memchr_inv(p, byte, PAGE_SIZE);

	kunmap_local(p);
	return is;
}

/**
 * spm_test_page_fill() - write one byte all over a page
 * @page: page
 * @byte: the byte
 */
void spm_test_page_fill(struct page *page, u8 byte)
{
	void *p = kmap_local_page(page);

	memset(p, byte, PAGE_SIZE);
	kunmap_local(p);
}

/**
 * spm_test_no_block() - stub of spm_folio_alloc(): memory is fragmented
 * @gfp:	as there
 * @order:	as there; blocks fail, single pages do not
 * @vma:	as there
 * @addr:	as there
 */
struct folio *spm_test_no_block(gfp_t gfp, int order,
				struct vm_area_struct *vma, unsigned long addr)
{
	return order ? NULL : folio_alloc(gfp, order);
}

/**
 * spm_test_no_page() - stub of spm_folio_alloc(): there is no memory at all
 * @gfp:	as there
 * @order:	as there
 * @vma:	as there
 * @addr:	as there
 */
struct folio *spm_test_no_page(gfp_t gfp, int order,
			       struct vm_area_struct *vma, unsigned long addr)
{
	return NULL;
}

/**
 * spm_test_thread_end() - the end of a thread that kthread_stop() waits for
 *
 * Return: 0, for the thread to return.
 */
int spm_test_thread_end(void)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

MODULE_DESCRIPTION("KUnit tests of superpmap");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
