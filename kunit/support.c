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
 * spm_test_object_init() - an empty object for each case, in test->priv
 * @test: the case
 */
int spm_test_object_init(struct kunit *test)
{
	struct spm_test_object *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	address_space_init_once(&t->mapping);
	KUNIT_ASSERT_EQ(test, spm_object_init(&t->obj, 4711, &t->mapping), 0);
	test->priv = t;
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
	spm_test_gauges_zero(test, &t->obj.owner.counters);
	spm_object_destroy(&t->obj);
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
