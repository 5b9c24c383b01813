// SPDX-License-Identifier: GPL-2.0
/*
 * A process for a test.  KUnit runs each case in a kernel thread of its own; an
 * mm is lent to it, and its accesses to user addresses fault as those of a
 * process do.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/path.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>

#include "testmm.h"
#include "track.h"

/* The device node, by which every case gets a region of its own. */
static struct path node;

/**
 * spm_test_node_init() - look the device node up
 * @suite: the suite
 *
 * Here, not in the cases: kernel threads see no file system, whoever inserts the
 * module does.
 */
int spm_test_node_init(struct kunit_suite *suite)
{
	return kern_path("/dev/superpmap", LOOKUP_FOLLOW, &node);
}

/**
 * spm_test_node_exit() - undo spm_test_node_init()
 * @suite: the suite
 */
void spm_test_node_exit(struct kunit_suite *suite)
{
	path_put(&node);
	node = (struct path){};
}

/**
 * spm_test_mm_init() - a new region and an mm without mappings of it
 * @test: the case
 *
 * Prefault is off, so that one access makes one entry.
 */
int spm_test_mm_init(struct kunit *test)
{
	struct spm_test_mm *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->saved = spm_tunables;
	t->file = dentry_open(&node, O_RDWR, current_cred());
	KUNIT_ASSERT_FALSE(test, IS_ERR(t->file));
	test->priv = t;
	t->region = t->file->private_data;
	t->args = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, SPM_TEST_RW,
				MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !t->args || IS_ERR_VALUE(t->args));
	KUNIT_ASSERT_EQ(test, put_user(0, (u8 __user *)t->args), 0);
	t->pgtables = mm_pgtables_bytes(current->mm);
	spm_tunables.prefault_pages = 0;
	return 0;
}

/**
 * spm_test_mm_exit() - close the region
 * @test: the case
 *
 * Runs in another thread; the mm goes with the thread of the case.
 */
void spm_test_mm_exit(struct kunit *test)
{
	struct spm_test_mm *t = test->priv;

	if (!t)
		return;
	spm_tunables = t->saved;
	fput(t->file);
	flush_delayed_fput();
}

/**
 * spm_test_mm_finish() - unmap all; nothing may be left in the mm
 * @test: the case
 *
 * The last step of a case.
 */
void spm_test_mm_finish(struct kunit *test)
{
	const struct spm_counters *c = spm_test_counters(test);
	struct spm_test_mm *t = test->priv;
	long live;
	int i;

	for (i = 0; i < SPM_TEST_MAPPINGS; i++)
		if (t->len[i])
			spm_test_unmap(test, t->addr[i], t->len[i]);
	EXPECT_STAT(test, c, maps, 0);
	EXPECT_STAT(test, c, live, 0);
	/* FreeBSD's counters, and what must balance between them. */
	live = spm_stat_read(c, SPM_STAT_mappings) +
	       spm_stat_read(c, SPM_STAT_promotions) -
	       spm_stat_read(c, SPM_STAT_demotions) -
	       spm_stat_read(c, SPM_STAT_demote_aborts) -
	       spm_stat_read(c, SPM_STAT_removals);
	KUNIT_EXPECT_EQ_MSG(test, live, 0, "balance of 2 MB entries");
	KUNIT_EXPECT_EQ_MSG(test, spm_test_rss(), 0, "resident pages");
	KUNIT_EXPECT_EQ_MSG(test, mm_pgtables_bytes(current->mm), t->pgtables,
			    "page tables");
}

/**
 * spm_test_counters() - the region's counters
 * @test: the case
 */
const struct spm_counters *spm_test_counters(struct kunit *test)
{
	struct spm_test_mm *t = test->priv;

	return spm_region_counters(t->region);
}

static void remember(struct kunit *test, unsigned long addr, unsigned long len)
{
	struct spm_test_mm *t = test->priv;
	int i;

	for (i = 0; i < SPM_TEST_MAPPINGS; i++)
		if (!t->len[i]) {
			t->addr[i] = addr;
			t->len[i] = len;
			return;
		}
	KUNIT_FAIL_AND_ABORT(test, "more than %d mappings", SPM_TEST_MAPPINGS);
}

static unsigned long map_slots(struct kunit *test, unsigned int slots, int prot,
			       unsigned long flags)
{
	struct spm_test_mm *t = test->priv;
	unsigned long len = slots * PMD_SIZE;
	unsigned long addr = vm_mmap(t->file, 0, len, prot, flags, 0);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR_VALUE(addr), "mmap: %ld",
			       (long)addr);
	KUNIT_ASSERT_TRUE(test, IS_ALIGNED(addr, PMD_SIZE));
	remember(test, addr, len);
	return addr;
}

/**
 * spm_test_map() - map the region from its beginning
 * @test:	the case
 * @slots:	how many slots of it
 * @prot:	PROT_*
 *
 * Return: the address, aligned as the module chooses it: to a slot.
 */
unsigned long spm_test_map(struct kunit *test, unsigned int slots, int prot)
{
	return map_slots(test, slots, prot, MAP_SHARED);
}

/**
 * spm_test_map_private() - the same for a private, writable mapping
 * @test:	the case
 * @slots:	how many slots of the region
 *
 * Return: the address.
 */
unsigned long spm_test_map_private(struct kunit *test, unsigned int slots)
{
	return map_slots(test, slots, SPM_TEST_RW, MAP_PRIVATE);
}

/**
 * spm_test_map_at() - map a part of the region in place of what is there
 * @test:	the case
 * @addr:	where, inside what spm_test_map() returned
 * @len:	bytes
 * @prot:	PROT_*
 * @offset:	in the region, in bytes
 */
void spm_test_map_at(struct kunit *test, unsigned long addr, unsigned long len,
		     int prot, unsigned long offset)
{
	struct spm_test_mm *t = test->priv;

	KUNIT_ASSERT_EQ(test, vm_mmap(t->file, addr, len, prot,
				      MAP_SHARED | MAP_FIXED, offset), addr);
}

/**
 * spm_test_unmap() - munmap
 * @test:	the case
 * @addr:	where
 * @len:	bytes
 */
void spm_test_unmap(struct kunit *test, unsigned long addr, unsigned long len)
{
	KUNIT_ASSERT_EQ(test, vm_munmap(addr, len), 0);
}

static u8 __user *page_address_of(unsigned long addr, unsigned int i)
{
	return (u8 __user *)(addr + ((unsigned long)i << PAGE_SHIFT));
}

/* What spm_test_store() writes, never 0. */
static u8 byte_of(unsigned int i)
{
	return i % 251 + 1;
}

/**
 * spm_test_store() - a store to a page, as a process would do it
 * @addr:	of the slot
 * @i:		page
 *
 * Return: 0, or -EFAULT where a process would get a signal.
 */
int spm_test_store(unsigned long addr, unsigned int i)
{
	return put_user(byte_of(i), page_address_of(addr, i));
}

/**
 * spm_test_load() - a load from a page
 * @addr:	of the slot
 * @i:		page
 *
 * Return: the byte, or -EFAULT where a process would get a signal.
 */
int spm_test_load(unsigned long addr, unsigned int i)
{
	u8 byte;

	return get_user(byte, page_address_of(addr, i)) ? -EFAULT : byte;
}

/**
 * spm_test_write() - store to every page of a range
 * @test:	the case
 * @addr:	of the slot
 * @first:	first page
 * @end:	one past the last
 */
void spm_test_write(struct kunit *test, unsigned long addr, unsigned int first,
		    unsigned int end)
{
	for (; first < end; first++)
		KUNIT_ASSERT_EQ(test, spm_test_store(addr, first), 0);
}

/**
 * spm_test_read() - load from every page of a range
 * @test:	the case
 * @addr:	of the slot
 * @first:	first page
 * @end:	one past the last
 */
void spm_test_read(struct kunit *test, unsigned long addr, unsigned int first,
		   unsigned int end)
{
	for (; first < end; first++)
		KUNIT_ASSERT_GE(test, spm_test_load(addr, first), 0);
}

/**
 * spm_test_check_data() - the pages hold what spm_test_write() wrote
 * @test:	the case
 * @addr:	of the slot
 * @first:	first page
 * @end:	one past the last
 */
void spm_test_check_data(struct kunit *test, unsigned long addr,
			 unsigned int first, unsigned int end)
{
	for (; first < end; first++)
		KUNIT_ASSERT_EQ_MSG(test, spm_test_load(addr, first),
				    byte_of(first), "page %u", first);
}

/**
 * spm_test_ioctl() - an ioctl on the region's descriptor
 * @test:	the case
 * @cmd:	SPM_IOC_*
 * @arg:	argument
 * @size:	of the argument
 */
long spm_test_ioctl(struct kunit *test, unsigned int cmd, const void *arg,
		    size_t size)
{
	struct spm_test_mm *t = test->priv;

	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)t->args, arg, size),
			0);
	return t->file->f_op->unlocked_ioctl(t->file, cmd, t->args);
}

/**
 * spm_test_advise() - SPM_IOC_ADVISE by address
 * @test:	the case
 * @addr:	where
 * @len:	bytes
 * @advice:	SPM_ADV_*
 */
long spm_test_advise(struct kunit *test, unsigned long addr, unsigned long len,
		     u32 advice)
{
	struct spm_advise a = {
		.argsz = sizeof(a),
		.start = addr,
		.len = len,
		.advice = advice,
	};

	return spm_test_ioctl(test, SPM_IOC_ADVISE, &a, sizeof(a));
}

/**
 * spm_test_mincore() - SPM_IOC_MINCORE
 * @test:	the case
 * @addr:	where
 * @vec:	filled in
 * @n:		pages, at most 512
 */
void spm_test_mincore(struct kunit *test, unsigned long addr, u8 *vec,
		      unsigned int n)
{
	struct spm_test_mm *t = test->priv;
	struct spm_mincore m = {
		.argsz = sizeof(m),
		.start = addr,
		.len = (unsigned long)n << PAGE_SHIFT,
		.vec = t->args + sizeof(m),
	};

	KUNIT_ASSERT_EQ(test, spm_test_ioctl(test, SPM_IOC_MINCORE, &m,
					     sizeof(m)), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(vec, u64_to_user_ptr(m.vec), n), 0);
}

/* The first VMA of the region in the 2 MB at @addr, or NULL. */
static struct vm_area_struct *vma_at(struct spm_test_mm *t, unsigned long addr)
{
	struct vm_area_struct *vma = find_vma_intersection(current->mm, addr,
							   addr + PMD_SIZE);

	return vma && vma->vm_file == t->file ? vma : NULL;
}

static pgoff_t slot_at(const struct vm_area_struct *vma, unsigned long addr)
{
	unsigned long base = vma->vm_start - (vma->vm_pgoff << PAGE_SHIFT);

	return (addr - base) >> PMD_SHIFT;
}

/* What is wrong with one entry, or NULL.  Says all that an entry may be. */
static const char *wrong_entry(const struct spm_pte *pte,
			       struct spm_object *obj, pgoff_t slot,
			       unsigned int i, vm_flags_t flags)
{
	struct spm_reserv *rv = spm_object_page(obj, slot, i);

	if (!rv)
		return "page is not populated";
	if (pte->pfn != page_to_pfn(spm_reserv_page(rv, i)))
		return "another page than the reservation's";
	if (pte->writable && !spm_reserv_dirty(rv, i))
		return "writable, but not recorded dirty";
	if (pte->writable && !(flags & VM_WRITE))
		return "writable in a read-only mapping";
	if (pte->writable && rv->owner != &obj->owner)
		return "writable, but a page of a backing object";
	if (pte->huge && (spm_reserv_loose(rv) ||
			  spm_object_whole(obj, slot) != rv))
		return "2 MB entry of a slot that is not a full block";
	return NULL;
}

static void view_entries(struct kunit *test, int line,
			 struct spm_test_view *v, struct spm_object *obj,
			 pgoff_t slot, vm_flags_t flags)
{
	struct spm_test_mm *t = test->priv;
	unsigned int i;

	for (i = 0; i < SPM_SLOT_PAGES; i++) {
		const struct spm_pte *pte = &t->pte[i];
		enum spm_pmd_state s = SPM_PMD_TABLE;
		const char *wrong;

		if (!pte->present)
			continue;
		wrong = wrong_entry(pte, obj, slot, i, flags);
		if (wrong)
			KUNIT_FAIL(test, "line %d: page %u: %s", line, i,
				   wrong);
		if (pte->huge)
			s = pte->writable ? SPM_PMD_2M_RW : SPM_PMD_2M_RO;
		v->state = max(v->state, s);
		v->present++;
		v->writable += pte->writable;
	}
}

/**
 * spm_test_look() - see how a slot is mapped, and that it may be mapped so
 * @test:	the case
 * @line:	of the caller, for messages
 * @addr:	of the slot, aligned
 *
 * Fails the case if an entry is not what the reservation says, or the shadow is
 * below the truth.
 */
struct spm_test_view spm_test_look(struct kunit *test, int line,
				   unsigned long addr)
{
	struct spm_test_mm *t = test->priv;
	struct mm_struct *mm = current->mm;
	struct spm_test_view v = {};
	struct vm_area_struct *vma;
	struct mutex *lock;
	struct spm_map *map;
	pgoff_t slot;

	mmap_read_lock(mm);
	vma = vma_at(t, addr);
	v.pmd = spm_pt_state(spm_pt_pmd(mm, addr));
	spm_pt_read(mm, addr, SPM_SLOT_PAGES, t->pte);
	if (!vma) {
		view_entries(test, line, &v, NULL, 0, 0);
		goto out;
	}
	map = spm_map_of(vma);
	slot = slot_at(vma, addr);
	lock = spm_object_find_lock(map->object, slot);
	if (lock)
		mutex_lock(lock);
	view_entries(test, line, &v, map->object, slot, vma->vm_flags);
	v.shadow = spm_pmap_shadow(&map->pmap, slot);
	if (lock)
		mutex_unlock(lock);
	KUNIT_EXPECT_GE_MSG(test, v.shadow, v.state,
			    "line %d: shadow below the truth", line);
	if (spm_pmd_is_2m(v.state))
		KUNIT_EXPECT_EQ_MSG(test, v.pmd, v.state, "line %d", line);
out:
	mmap_read_unlock(mm);
	return v;
}

/* Entries of everything that is mapped but for one slot. */
static unsigned long present_elsewhere(struct kunit *test, int line,
				       unsigned long but)
{
	struct spm_test_mm *t = test->priv;
	unsigned long addr, n = 0;
	int i;

	for (i = 0; i < SPM_TEST_MAPPINGS; i++)
		for (addr = t->addr[i]; addr < t->addr[i] + t->len[i];
		     addr += PMD_SIZE)
			if (addr != but)
				n += spm_test_look(test, line, addr).present;
	return n;
}

/**
 * spm_test_expect_slot() - expect how a slot is mapped; see EXPECT_SLOT
 * @test:	the case
 * @line:	of the caller, for messages
 * @addr:	of the slot, aligned
 * @state:	size and protection of the entries
 * @present:	how many
 * @writable:	how many of them writable
 *
 * Resident pages must be those that have an entry, no more and no less.
 */
void spm_test_expect_slot(struct kunit *test, int line, unsigned long addr,
			  enum spm_pmd_state state, unsigned int present,
			  unsigned int writable)
{
	unsigned long elsewhere = present_elsewhere(test, line, addr);
	struct spm_test_view v = spm_test_look(test, line, addr);

	KUNIT_EXPECT_EQ_MSG(test, v.state, state, "line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, v.present, present, "line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, v.writable, writable, "line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, spm_pmd_is_2m(v.shadow), spm_pmd_is_2m(state),
			    "line %d: shadow %d", line, v.shadow);
	KUNIT_EXPECT_EQ_MSG(test, spm_test_rss(), elsewhere + v.present,
			    "line %d: resident pages", line);
}

/**
 * spm_test_lock() - lock a slot of a mapping, for a pmap operation
 * @at:		filled in
 * @test:	the case
 * @addr:	of the slot, aligned
 *
 * Return: true; false, with the case failed and nothing locked, on failure.
 */
bool spm_test_lock(struct spm_test_at *at, struct kunit *test,
		   unsigned long addr)
{
	struct spm_test_mm *t = test->priv;
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct spm_map *map;

	mmap_read_lock(mm);
	vma = vma_at(t, addr);
	if (!vma)
		goto fail;
	map = spm_map_of(vma);
	at->pm = &map->pmap;
	at->slot = spm_object_slot(map->object, slot_at(vma, addr), 0);
	if (!at->slot || spm_pmap_prepare(at->pm, at->slot->index))
		goto fail;
	spm_place_init(&at->pl, vma, at->slot->index,
		       spm_region_pages(t->region), spm_pt_pmd(mm, addr));
	mutex_lock(at->slot->lock);
	return true;
fail:
	mmap_read_unlock(mm);
	KUNIT_FAIL(test, "no slot at 0x%lx", addr);
	return false;
}

/**
 * spm_test_expect_bits() - expect how a slot is mapped; see EXPECT_4K, EXPECT_2M
 * @test:	the case
 * @line:	of the caller, for messages
 * @addr:	of the slot, aligned
 * @want:	entries and bits
 *
 * Whatever is wanted, no entry has its dirty bit set whose page is not recorded
 * dirty.
 */
void spm_test_expect_bits(struct kunit *test, int line, unsigned long addr,
			  struct spm_test_bits want)
{
	struct spm_test_mm *t = test->priv;
	DECLARE_BITMAP(dirty, SPM_SLOT_PAGES);
	struct spm_test_bits is = { };
	struct spm_test_at at;
	unsigned int i;

	spm_test_look(test, line, addr);
	if (!spm_test_lock(&at, test, addr))
		return;
	spm_track_dirty(spm_map_of(at.pl.vma)->object, at.slot->index, dirty);
	spm_test_unlock(&at);
	is.d = bitmap_weight(dirty, SPM_SLOT_PAGES);
	for (i = 0; i < SPM_SLOT_PAGES; i++) {
		const struct spm_pte *pte = &t->pte[i];

		is.huge |= pte->huge;
		is.present += pte->present;
		is.a += pte->young;
		is.w += pte->writable;
		if (pte->dirty && !test_bit(i, dirty))
			KUNIT_FAIL(test, "line %d: page %u: dirty, and not recorded",
				   line, i);
	}
	KUNIT_EXPECT_EQ_MSG(test, is.huge, want.huge, "line %d: 2 MB", line);
	KUNIT_EXPECT_EQ_MSG(test, is.present, want.present, "line %d", line);
	KUNIT_EXPECT_EQ_MSG(test, is.a, want.a, "line %d: A", line);
	KUNIT_EXPECT_EQ_MSG(test, is.d, want.d, "line %d: D", line);
	KUNIT_EXPECT_EQ_MSG(test, is.w, want.w, "line %d: W", line);
}

/**
 * spm_test_unlock() - undo spm_test_lock()
 * @at: what it filled in
 */
void spm_test_unlock(struct spm_test_at *at)
{
	mutex_unlock(at->slot->lock);
	mmap_read_unlock(current->mm);
}

/**
 * spm_test_rss() - resident pages of files
 */
unsigned long spm_test_rss(void)
{
	return get_mm_counter_sum(current->mm, MM_FILEPAGES) +
	       get_mm_counter_sum(current->mm, MM_SHMEMPAGES);
}
