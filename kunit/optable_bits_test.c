// SPDX-License-Identifier: GPL-2.0
/*
 * FreeBSD's pmap operations, second part: those that change or read the bits of
 * entries.
 */
#include "optable.h"

/* protect: mprotect() changes entries itself, after it asked before a split */

static void may_split(struct kunit *test, unsigned long addr)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;

	mmap_write_lock(mm);
	vma = vma_lookup(mm, addr);
	KUNIT_EXPECT_NOT_NULL(test, vma);
	if (vma)
		KUNIT_EXPECT_EQ(test, vma->vm_ops->may_split(vma, addr), 0);
	mmap_write_unlock(mm);
}

static void optable_protect_4k(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_write(test, addr, 0, 8);
	may_split(test, at_page(addr, 4));
	EXPECT_4K(test, addr, 8, 8, 8, 8);
	spm_test_mm_finish(test);
}

/* The whole entry is covered: nothing to do. */
static void optable_protect_2m(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	may_split(test, addr);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

static void optable_protect_2m_partial(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	forget(test, addr, 0, FULL);
	may_split(test, at_page(addr, 77));
	EXPECT_4K(test, addr, FULL, 0, FULL, FULL);
	EXPECT_STAT(test, spm_test_counters(test), demotions_split, 1);
	spm_test_mm_finish(test);
}

static void optable_protect_2m_partial_failure(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	kunit_activate_static_stub(test, spm_pt_insert_4k, no_memory_4k);
	may_split(test, at_page(addr, 77));
	kunit_deactivate_static_stub(test, spm_pt_insert_4k);
	EXPECT_4K(test, addr, 0, 0, FULL, 0);
	spm_test_check_data(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

/* copy: what a fork does to the parent's private mapping; the child is empty */

static struct spm_object *fork_of(struct kunit *test, unsigned long addr)
{
	struct spm_test_mm *t = test->priv;
	struct spm_object *parent, *side;
	const struct spm_object_spec spec = {
		.family = t->region->object->family,
		.counters = t->region->object->owner.counters,
		.region = t->region->object->owner.region,
		.inode = t->region->inode,
		.rmap = &t->region->rmap,
		.mm = (const struct mm_struct *)t,
	};

	side = spm_object_create(&spec);
	KUNIT_ASSERT_NOT_NULL(test, side);
	mmap_read_lock(current->mm);
	parent = spm_map_of(vma_lookup(current->mm, addr))->object;
	KUNIT_EXPECT_EQ(test, spm_cow_shadow(parent, side, SPM_FREEZE_FORK), 0);
	mmap_read_unlock(current->mm);
	return side;
}

static unsigned int dirty_of(struct spm_object *obj, pgoff_t index)
{
	struct mutex *lock = spm_object_find_lock(obj, index);
	DECLARE_BITMAP(dirty, SPM_SLOT_PAGES);

	mutex_lock(lock);
	spm_track_dirty(obj, index, dirty);
	mutex_unlock(lock);
	return bitmap_weight(dirty, SPM_SLOT_PAGES);
}

/* W goes from the parent's entries; A stays; D is the child's as well. */
static void optable_copy_4k(struct kunit *test)
{
	unsigned long addr = spm_test_map_private(test, 2) + PMD_SIZE;
	struct spm_object *side;

	spm_test_write(test, addr, 0, 8);
	forget(test, addr, 0, 3);
	side = fork_of(test, addr);
	EXPECT_4K(test, addr, 8, 5, 8, 0);
	KUNIT_EXPECT_EQ(test, dirty_of(side, 1), 8);
	/* A store copies the one page. */
	spm_test_write(test, addr, 7, 8);
	EXPECT_4K(test, addr, 8, 5, 8, 1);
	KUNIT_EXPECT_EQ(test, dirty_of(side, 1), 8);
	spm_object_put(side);
	spm_test_mm_finish(test);
}

static void optable_copy_2m(struct kunit *test)
{
	unsigned long addr = spm_test_map_private(test, 2) + PMD_SIZE;
	struct spm_object *side;

	spm_test_write(test, addr, 0, FULL);
	EXPECT_2M(test, addr, 1, FULL, 1);
	side = fork_of(test, addr);
	EXPECT_2M(test, addr, 1, FULL, 0);
	KUNIT_EXPECT_EQ(test, dirty_of(side, 1), FULL);
	EXPECT_STAT(test, spm_test_counters(test), demotions, 0);
	/* Pages of the other are not this one's to store to: demoted. */
	spm_test_write(test, addr, 9, 10);
	EXPECT_4K(test, addr, FULL, FULL, FULL, 1);
	EXPECT_STAT(test, spm_test_counters(test), demotions_cow, 1);
	spm_object_put(side);
	spm_test_mm_finish(test);
}

/* remove_write */

static void remove_write(struct kunit *test, unsigned long addr)
{
	struct spm_test_mm *t = test->priv;
	struct spm_test_at at;

	if (!spm_test_lock(&at, test, addr))
		return;
	spm_rmap_remove_write(&t->region->rmap, at.slot->reserv);
	spm_test_unlock(&at);
}

static void optable_remove_write_4k(struct kunit *test)
{
	unsigned long a = map_second(test), b = map_second(test);

	spm_test_write(test, a, 0, 8);
	spm_test_check_data(test, b, 0, 8);
	forget(test, a, 0, 2);
	remove_write(test, a);
	EXPECT_4K(test, a, 8, 6, 8, 0);
	EXPECT_4K(test, b, 8, 8, 8, 0);
	/* Flushed: each store faults, and finds its page dirty already. */
	faults(test);
	spm_test_write(test, a, 0, 8);
	KUNIT_EXPECT_EQ(test, faults(test), 8);
	EXPECT_4K(test, a, 8, 8, 8, 8);
	spm_test_mm_finish(test);
}

/* All 512 translations of the processor go, not only that of the first page. */
static void optable_remove_write_2m(struct kunit *test)
{
	unsigned long a = map_2m_rw(test), b = map_second(test);

	spm_test_read(test, b, 0, FULL);
	forget(test, b, 0, FULL);
	remove_write(test, a);
	EXPECT_2M(test, a, 1, FULL, 0);
	EXPECT_2M(test, b, 0, FULL, 0);
	faults(test);
	spm_test_write(test, a, LAST, FULL);
	KUNIT_EXPECT_EQ(test, faults(test), 1);
	EXPECT_2M(test, a, 1, FULL, 1);
	EXPECT_STAT(test, spm_test_counters(test), demotions, 0);
	spm_test_mm_finish(test);
}

/* clear_modify */

static unsigned int clear_modify(struct kunit *test, unsigned long addr,
				 unsigned int first, unsigned int end)
{
	struct spm_test_mm *t = test->priv;
	struct spm_test_at at;
	unsigned int kept;

	if (!spm_test_lock(&at, test, addr))
		return ~0U;
	kept = spm_rmap_clear_modify(&t->region->rmap, at.slot->reserv, first,
				     end);
	spm_test_unlock(&at);
	return kept;
}

static void optable_clear_modify_4k(struct kunit *test)
{
	unsigned long a = map_second(test), b = map_second(test);

	spm_test_write(test, a, 0, 8);
	spm_test_check_data(test, b, 0, 8);
	forget(test, a, 0, 2);
	KUNIT_EXPECT_EQ(test, clear_modify(test, a, 2, 4), 0);
	/* W goes from all of the slot, D from the range alone. */
	EXPECT_4K(test, a, 8, 6, 6, 0);
	EXPECT_4K(test, b, 8, 8, 6, 0);
	faults(test);
	spm_test_write(test, a, 2, 3);
	spm_test_write(test, b, 3, 5);
	KUNIT_EXPECT_EQ(test, faults(test), 3);
	EXPECT_4K(test, a, 8, 6, 8, 1);
	EXPECT_4K(test, b, 8, 8, 8, 2);
	/* Nothing dirty in the range: nothing is done. */
	KUNIT_EXPECT_EQ(test, clear_modify(test, a, 8, FULL), 0);
	EXPECT_4K(test, a, 8, 6, 8, 1);
	spm_test_mm_finish(test);
}

/* The entry stays; the next store decides, page by page if so wanted. */
static void optable_clear_modify_2m(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_2m_rw(test);
	unsigned int i;

	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 0, FULL), 0);
	EXPECT_2M(test, addr, 1, 0, 0);
	EXPECT_STAT(test, c, demotions, 0);
	/* Every page that is stored to is told: no translation is left. */
	faults(test);
	for (i = 0; i < LAST; i++) {
		KUNIT_ASSERT_EQ(test, spm_test_store(addr, LAST - i), 0);
		EXPECT_STAT(test, c, dirty, i + 1);
	}
	KUNIT_EXPECT_EQ(test, faults(test), LAST);
	EXPECT_4K(test, addr, FULL, FULL, LAST, LAST);
	EXPECT_STAT(test, c, demotions_write, 1);
	spm_test_write(test, addr, 0, 1);
	EXPECT_2M(test, addr, 1, FULL, 1);
	spm_test_mm_finish(test);
}

/* One page: the others keep what they have, and the entry its size. */
static void optable_clear_modify_2m_partial(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	forget(test, addr, 0, FULL);
	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 100, 101), 0);
	EXPECT_2M(test, addr, 0, LAST, 0);
	/* The one clean page is stored to: all dirty, writable in place. */
	spm_test_write(test, addr, 100, 101);
	EXPECT_2M(test, addr, 1, FULL, 1);
	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 100, 101), 0);
	/* Another: it demotes. */
	spm_test_write(test, addr, 101, 102);
	EXPECT_4K(test, addr, FULL, FULL, LAST, LAST);
	spm_test_mm_finish(test);
}

/* dirty_grain=2M: the first store makes all dirty, and nothing is demoted. */
static void optable_clear_modify_2m_coarse(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_2m_rw(test);
	unsigned int i;

	WRITE_ONCE(spm_tunables.dirty_grain, SPM_GRAIN_2M);
	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 0, FULL), 0);
		EXPECT_2M(test, addr, 1, 0, 0);
		spm_test_write(test, addr, 100 * i, 100 * i + 1);
		EXPECT_2M(test, addr, 1, FULL, 1);
	}
	EXPECT_STAT(test, c, demotions, 0);
	EXPECT_STAT(test, c, upgrades, 5);
	spm_test_mm_finish(test);
}

/* Somebody may store without a fault: D stays.  W goes all the same. */
static void optable_clear_modify_held(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);
	struct spm_test_at at;
	struct folio *folio;

	if (!spm_test_lock(&at, test, addr))
		return;
	folio = at.slot->reserv->folio;
	spm_test_unlock(&at);
	folio_get(folio);
	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 0, FULL), FULL);
	EXPECT_2M(test, addr, 1, FULL, 0);
	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 7, 9), 2);
	folio_put(folio);
	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 7, 9), 0);
	EXPECT_2M(test, addr, 1, FULL - 2, 0);
	spm_test_mm_finish(test);
}

/* ts_referenced, is_referenced */

static void optable_ts_referenced_4k(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned long addr = map_second(test);
	DECLARE_BITMAP(out, SPM_SLOT_PAGES);

	spm_test_write(test, addr, 0, 8);
	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 2, 5, true, out), 3);
	KUNIT_EXPECT_EQ(test, bitmap_weight(out, FULL), 3);
	KUNIT_EXPECT_EQ(test, find_first_bit(out, FULL), 2);
	EXPECT_STAT(test, c, accessed, 3);
	EXPECT_STAT(test, c, accessed_cleared, 3);
	/* Nothing is lost with the bit. */
	EXPECT_4K(test, addr, 8, 5, 8, 8);
	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 0, FULL, true, out), 5);
	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 0, FULL, true, out), 0);
	EXPECT_4K(test, addr, 8, 0, 8, 8);
	/* Another mapping has its own bits. */
	addr = map_second(test);
	spm_test_read(test, addr, 1, 2);
	EXPECT_4K(test, addr, 1, 1, 8, 1);
	spm_test_mm_finish(test);
}

/* One bit for 512 pages: it goes when the slot's own page is in the range. */
static void optable_ts_referenced_2m(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	unsigned int one = spm_policy_accessed_page(1), i, cleared = 0;
	unsigned long addr = map_2m_rw(test);
	DECLARE_BITMAP(out, SPM_SLOT_PAGES);

	for (i = 0; i < FULL; i++) {
		if (i == one)
			continue;
		KUNIT_ASSERT_EQ(test, ts_referenced(test, addr, i, i + 1, true,
						    out), 1);
		KUNIT_ASSERT_TRUE(test, test_bit(i, out));
		KUNIT_ASSERT_EQ(test, bitmap_weight(out, FULL), 1);
	}
	EXPECT_2M(test, addr, 1, FULL, 1);
	EXPECT_STAT(test, c, accessed_cleared, cleared);
	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, one, one + 1, true, out),
			1);
	EXPECT_2M(test, addr, 0, FULL, 1);
	EXPECT_STAT(test, c, accessed_cleared, 1);
	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 0, FULL, true, out), 0);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(out, FULL));
	spm_test_mm_finish(test);
}

/* A scan of the whole slot clears it in any case. */
static void optable_ts_referenced_2m_whole(struct kunit *test)
{
	unsigned long addr = map_2m_ro(test);
	DECLARE_BITMAP(out, SPM_SLOT_PAGES);

	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 0, FULL, true, out), 1);
	KUNIT_EXPECT_TRUE(test, bitmap_full(out, FULL));
	EXPECT_2M(test, addr, 0, 0, 0);
	spm_test_mm_finish(test);
}

static void optable_is_referenced_4k(struct kunit *test)
{
	unsigned long addr = map_second(test);
	DECLARE_BITMAP(out, SPM_SLOT_PAGES);

	spm_test_write(test, addr, 0, 8);
	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 0, FULL, false, out), 8);
	KUNIT_EXPECT_EQ(test, bitmap_weight(out, FULL), 8);
	EXPECT_4K(test, addr, 8, 8, 8, 8);
	EXPECT_STAT(test, spm_test_counters(test), accessed_cleared, 0);
	spm_test_mm_finish(test);
}

static void optable_is_referenced_2m(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);
	DECLARE_BITMAP(out, SPM_SLOT_PAGES);

	KUNIT_EXPECT_EQ(test, ts_referenced(test, addr, 5, 9, false, out), 1);
	KUNIT_EXPECT_EQ(test, bitmap_weight(out, FULL), 4);
	EXPECT_2M(test, addr, 1, FULL, 1);
	EXPECT_STAT(test, spm_test_counters(test), accessed_cleared, 0);
	spm_test_mm_finish(test);
}

/* advise: SPM_ADV_COLD clears A and nothing else, in one mapping */

static void optable_advise_4k(struct kunit *test)
{
	unsigned long a = map_second(test), b = map_second(test);

	spm_test_write(test, a, 0, 8);
	spm_test_check_data(test, b, 0, 8);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, a, 3 * PAGE_SIZE,
					      SPM_ADV_COLD), 0);
	EXPECT_4K(test, a, 8, 5, 8, 8);
	EXPECT_4K(test, b, 8, 8, 8, 8);
	spm_test_mm_finish(test);
}

static void optable_advise_2m(struct kunit *test)
{
	unsigned int one = spm_policy_accessed_page(1);
	unsigned long addr = map_2m_rw(test);

	/* FreeBSD would demote, and take a page out. */
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, at_page(addr, one + 1),
					      PAGE_SIZE, SPM_ADV_COLD), 0);
	EXPECT_2M(test, addr, 1, FULL, 1);
	KUNIT_EXPECT_EQ(test, spm_test_advise(test, addr, PMD_SIZE,
					      SPM_ADV_COLD), 0);
	EXPECT_2M(test, addr, 0, FULL, 1);
	EXPECT_STAT(test, spm_test_counters(test), demotions, 0);
	spm_test_mm_finish(test);
}

/* mincore, is_modified */

static void expect_mincore(struct kunit *test, unsigned long addr,
			   unsigned int first, unsigned int end, u8 want)
{
	u8 *vec = kunit_kzalloc(test, FULL, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, vec);
	spm_test_mincore(test, addr, vec, FULL);
	for (; first < end; first++)
		KUNIT_EXPECT_EQ_MSG(test, vec[first], want, "page %u", first);
}

#define IN	SPM_MINCORE_INCORE
#define MAPPED	(IN | SPM_MINCORE_MAPPED)
#define A	SPM_MINCORE_REFERENCED
#define D	SPM_MINCORE_MODIFIED
#define W	SPM_MINCORE_WRITABLE
#define HUGE_2M	(SPM_PSIND_2M << SPM_MINCORE_PSIND_SHIFT)

static void optable_mincore_4k(struct kunit *test)
{
	unsigned long addr = map_second(test);

	spm_test_write(test, addr, 0, 2);
	spm_test_read(test, addr, 2, 4);
	forget(test, addr, 1, 3);
	expect_mincore(test, addr, 0, 1, MAPPED | A | D | W);
	expect_mincore(test, addr, 1, 2, MAPPED | D | W);
	expect_mincore(test, addr, 2, 3, MAPPED);
	expect_mincore(test, addr, 3, 4, MAPPED | A);
	expect_mincore(test, addr, 4, FULL, 0);
	spm_test_mm_finish(test);
}

static void optable_mincore_2m(struct kunit *test)
{
	unsigned long addr = map_2m_rw(test);

	expect_mincore(test, addr, 0, FULL, MAPPED | A | D | W | HUGE_2M);
	forget(test, addr, 0, FULL);
	expect_mincore(test, addr, 0, FULL, MAPPED | D | W | HUGE_2M);
	KUNIT_EXPECT_EQ(test, clear_modify(test, addr, 0, 100), 0);
	/* D is each page's own, W is that of the entry. */
	expect_mincore(test, addr, 0, 100, MAPPED | HUGE_2M);
	expect_mincore(test, addr, 100, FULL, MAPPED | D | HUGE_2M);
	spm_test_mm_finish(test);
}

/* Of the page, not of the entry: also where none is, and in other mappings. */
static void optable_is_modified(struct kunit *test)
{
	unsigned long a = map_second(test), b = map_second(test);

	spm_test_write(test, a, 0, 3);
	EXPECT_4K(test, b, 0, 0, 3, 0);
	expect_mincore(test, b, 0, 3, IN | D);
	expect_mincore(test, b, 3, FULL, 0);
	spm_test_write(test, a, 3, FULL);
	EXPECT_2M(test, a, 1, FULL, 1);
	EXPECT_4K(test, b, 0, 0, FULL, 0);
	expect_mincore(test, b, 0, FULL, IN | D);
	spm_test_mm_finish(test);
}

static struct kunit_case optable_bits_cases[] = {
	KUNIT_CASE(optable_protect_4k),
	KUNIT_CASE(optable_protect_2m),
	KUNIT_CASE(optable_protect_2m_partial),
	KUNIT_CASE(optable_protect_2m_partial_failure),
	KUNIT_CASE(optable_copy_4k),
	KUNIT_CASE(optable_copy_2m),
	KUNIT_CASE(optable_remove_write_4k),
	KUNIT_CASE(optable_remove_write_2m),
	KUNIT_CASE(optable_clear_modify_4k),
	KUNIT_CASE(optable_clear_modify_2m),
	KUNIT_CASE(optable_clear_modify_2m_partial),
	KUNIT_CASE(optable_clear_modify_2m_coarse),
	KUNIT_CASE(optable_clear_modify_held),
	KUNIT_CASE(optable_ts_referenced_4k),
	KUNIT_CASE(optable_ts_referenced_2m),
	KUNIT_CASE(optable_ts_referenced_2m_whole),
	KUNIT_CASE(optable_is_referenced_4k),
	KUNIT_CASE(optable_is_referenced_2m),
	KUNIT_CASE(optable_advise_4k),
	KUNIT_CASE(optable_advise_2m),
	KUNIT_CASE(optable_mincore_4k),
	KUNIT_CASE(optable_mincore_2m),
	KUNIT_CASE(optable_is_modified),
	{}
};

static struct kunit_suite optable_bits_suite = {
	.name = "superpmap_optable_bits",
	.suite_init = spm_test_node_init,
	.suite_exit = spm_test_node_exit,
	.init = spm_test_mm_init,
	.exit = spm_test_mm_exit,
	.test_cases = optable_bits_cases,
};

kunit_test_suite(optable_bits_suite);
