// SPDX-License-Identifier: GPL-2.0
/*
 * Linux page tables: insert, zap, retract, read.
 */
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <asm/cpufeature.h>
#include <asm/tlbflush.h>
#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "compat.h"
#include "ptable.h"

SPM_DEFINE_PTLOCK_FREE

/**
 * spm_place_init() - find where a slot lies in a VMA
 * @pl:		filled in
 * @vma:	VMA that covers at least one page of the slot
 * @slot:	index of the slot
 * @size:	pages of the region; pages beyond it are not covered
 * @pmd:	entry of the faulting address, or NULL to leave it for later
 */
void spm_place_init(struct spm_place *pl, struct vm_area_struct *vma,
		    pgoff_t slot, pgoff_t size, pmd_t *pmd)
{
	pgoff_t first = slot << SPM_SLOT_SHIFT;
	pgoff_t start = vma->vm_pgoff;
	pgoff_t end = min(start + vma_pages(vma), size);

	pl->vma = vma;
	pl->pmd = pmd;
	pl->slot = slot;
	/* Wraps below vm_start on purpose when the VMA begins inside the slot. */
	pl->addr = vma->vm_start + ((first - start) << PAGE_SHIFT);
	pl->lo = start > first ? start - first : 0;
	pl->hi = end > first ? min(end - first, (pgoff_t)SPM_SLOT_PAGES) : 0;
	pl->fits = !pl->lo && pl->hi == SPM_SLOT_PAGES &&
		   IS_ALIGNED(pl->addr, PMD_SIZE);
}
EXPORT_SYMBOL_IF_KUNIT(spm_place_init);

/**
 * spm_pt_pmd() - walk to the PMD entry of an address
 * @mm:		mm
 * @addr:	address
 *
 * Return: the entry, or NULL if there is no PMD page.
 */
pmd_t *spm_pt_pmd(struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;

	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return NULL;
	pud = pud_offset(p4d, addr);
	if (pud_none(*pud) || pud_leaf(*pud) || pud_bad(*pud))
		return NULL;
	return pmd_offset(pud, addr);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_pmd);

/**
 * spm_pt_state() - what a PMD entry holds
 * @pmd: the entry, or NULL
 *
 * A snapshot: the core may take the entry away at any moment; see above.
 *
 * Return: the state.
 */
enum spm_pmd_state spm_pt_state(pmd_t *pmd)
{
	pmd_t val;

	if (!pmd)
		return SPM_PMD_NONE;
	val = pmdp_get_lockless(pmd);
	if (pmd_none(val))
		return SPM_PMD_NONE;
	if (!pmd_trans_huge(val))
		return SPM_PMD_TABLE;
	return pmd_write(val) ? SPM_PMD_2M_RW : SPM_PMD_2M_RO;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_state);

/**
 * spm_pt_mm_suitable() - may page-table pages be taken out of this mm?
 * @mm: mm
 *
 * Not when an IOMMU walks the same tables (shared virtual addressing): its
 * paging-structure caches cannot be flushed from a module.  Not on Xen PV,
 * where the hypervisor pins page tables.
 *
 * Return: true if they may.
 */
bool spm_pt_mm_suitable(struct mm_struct *mm)
{
	KUNIT_STATIC_STUB_REDIRECT(spm_pt_mm_suitable, mm);
#ifdef CONFIG_IOMMU_MM_DATA
	if (READ_ONCE(mm->iommu_mm))
		return false;
#endif
	return !cpu_feature_enabled(X86_FEATURE_XENPV);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_mm_suitable);

/**
 * spm_pt_soft_dirty_tracked() - does somebody watch stores by the soft-dirty bit?
 * @vma: VMA
 *
 * Return: true after "echo 4 > /proc/PID/clear_refs".
 */
bool spm_pt_soft_dirty_tracked(const struct vm_area_struct *vma)
{
	return VM_SOFTDIRTY && !(vma->vm_flags & VM_SOFTDIRTY);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_soft_dirty_tracked);

/**
 * spm_pt_renew() - a store is about to get a writable 4 KB entry
 * @pl:	place whose PMD is not a 2 MB entry
 * @i:	index of the page
 *
 * Only a new entry gets the soft-dirty bit; one that is made writable does not.
 * So where the bit is watched, a present entry goes first.
 */
void spm_pt_renew(const struct spm_place *pl, unsigned int i)
{
	if (spm_pt_soft_dirty_tracked(pl->vma))
		spm_pt_zap(pl, i, i + 1);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_renew);

/**
 * spm_pt_insert_4k() - make or upgrade one 4 KB entry
 * @pl:		place whose PMD is not a 2 MB entry
 * @i:		index of the page, inside [lo, hi)
 * @page:	the page
 * @write:	writable, if the VMA allows it: the page is recorded dirty
 *
 * An entry that is there already is left as it is, or made writable.  A new one
 * has its accessed bit set (x86 protections include it).
 *
 * Context: common rules; may sleep (page-table page).
 * Return: VM_FAULT_NOPAGE, VM_FAULT_OOM or VM_FAULT_SIGBUS.
 */
vm_fault_t spm_pt_insert_4k(const struct spm_place *pl, unsigned int i,
			    struct page *page, bool write)
{
	struct vm_fault vmf = {
		.vma = pl->vma,
		.address = spm_place_addr(pl, i),
		.real_address = spm_place_addr(pl, i),
		.pgoff = (pl->slot << SPM_SLOT_SHIFT) + i,
		.flags = write ? FAULT_FLAG_WRITE : 0,
	};

	KUNIT_STATIC_STUB_REDIRECT(spm_pt_insert_4k, pl, i, page, write);
	return vmf_insert_page_mkwrite(&vmf, page, write);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_insert_4k);

/**
 * spm_pt_insert_2m() - make a 2 MB entry, or make one writable
 * @pl:		place that fits, whose PMD is none or a 2 MB entry of @folio
 * @folio:	the block
 * @write:	writable, if the VMA allows it: all pages are recorded dirty
 *
 * Context: common rules; may sleep.
 * Return: VM_FAULT_NOPAGE, VM_FAULT_OOM or VM_FAULT_SIGBUS.
 */
vm_fault_t spm_pt_insert_2m(const struct spm_place *pl, struct folio *folio,
			    bool write)
{
	struct vm_fault vmf = {
		.vma = pl->vma,
		.address = pl->addr,
		.real_address = pl->addr,
		.pgoff = pl->slot << SPM_SLOT_SHIFT,
		.pmd = pl->pmd,
		.flags = write ? FAULT_FLAG_WRITE : 0,
	};

	KUNIT_STATIC_STUB_REDIRECT(spm_pt_insert_2m, pl, folio, write);
	return vmf_insert_folio_pmd(&vmf, folio, write);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_insert_2m);

/**
 * spm_pt_zap() - take entries of a slot out of this VMA
 * @pl:		place
 * @first:	first page, inside [lo, hi)
 * @end:	one past the last
 *
 * Whether there are any or not.  A 2 MB entry goes as a whole.  Reverse map,
 * RSS, MMU notifiers and TLB are the core's business.
 */
void spm_pt_zap(const struct spm_place *pl, unsigned int first,
		unsigned int end)
{
	zap_vma_range(pl->vma, spm_place_addr(pl, first),
		      (unsigned long)(end - first) << PAGE_SHIFT);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_zap);

/*
 * The kernel exports its own function only for a test module.  What that adds,
 * the guard of pinned bits, is not needed: the value comes from the register,
 * and only PGE, which is not pinned, is changed.
 */
static void spm_write_cr4(unsigned long val)
{
	asm volatile("mov %0,%%cr4" : "+r" (val) : : "memory");
}

/*
 * Flush every non-global translation of this CPU, of all address spaces, and
 * with them what the CPU cached of upper page-table levels.
 */
static void spm_flush_nonglobal(void *unused)
{
	if (cpu_feature_enabled(X86_FEATURE_INVPCID)) {
		invpcid_flush_all_nonglobals();
	} else if (cpu_feature_enabled(X86_FEATURE_PCID)) {
		unsigned long cr4 = native_read_cr4();

		/* A CR3 load flushes one PCID; a change of PGE flushes all. */
		spm_write_cr4(cr4 ^ X86_CR4_PGE);
		spm_write_cr4(cr4);
	} else {
		native_write_cr3(__native_read_cr3());
	}
}

static void spm_free_table_rcu(struct rcu_head *head)
{
	struct ptdesc *pt = container_of(head, struct ptdesc, pt_rcu_head);

	pagetable_dtor(pt);
	__pagetable_free(pt);
}

static bool spm_table_empty(pmd_t *pmd, unsigned long addr)
{
	pte_t *pte = pte_offset_kernel(pmd, addr);
	unsigned int i;

	for (i = 0; i < PTRS_PER_PTE; i++)
		if (!pte_none(ptep_get(pte + i)))
			return false;
	return true;
}

/**
 * spm_pt_retract() - take an empty page-table page out of a PMD
 * @pl: place that fits, just zapped
 *
 * The same shape as retract_page_tables() of the kernel's khugepaged.c, whose
 * flush helper a module cannot call.  Why this is safe:
 *
 * - Nobody puts an entry into the table meanwhile: the faults of this VMA wait
 *   for the slot lock, and the VMA covers the whole table.  The core may free
 *   the empty table first (MADV_DONTNEED does): the PMD is read again under its
 *   lock.
 * - If the core freed the table first, its own flush may still be pending when
 *   this returns.  What a CPU may hold then is an empty table: an access through
 *   it faults, and the fault drops what the CPU holds.
 * - After pmd_clear(), a CPU may still hold the table in its paging-structure
 *   cache, also one that runs another address space or is lazy about this one,
 *   and AMD's broadcast ASIDs are on no mask at all.  So every CPU flushes
 *   everything that is not global.  Only then may the slot get a 2 MB entry,
 *   else an old walk of the table and the new entry would both be live.
 * - get_user_pages_fast() walks with interrupts off: it cannot be between
 *   reading the PMD and reading the table once all CPUs took the interrupt.
 * - Walkers under RCU (pte_offset_map()) may still look at the table: its page
 *   is freed after a grace period.
 *
 * Context: common rules; interrupts on; may sleep.
 * Return: true if the PMD is none now.
 */
bool spm_pt_retract(const struct spm_place *pl)
{
	struct mm_struct *mm = pl->vma->vm_mm;
	spinlock_t *pml, *ptl;
	pgtable_t table;
	pmd_t val;

	KUNIT_STATIC_STUB_REDIRECT(spm_pt_retract, pl);
	pml = pmd_lock(mm, pl->pmd);
	val = pmdp_get(pl->pmd);
	if (pmd_none(val) || pmd_trans_huge(val) || pmd_bad(val)) {
		spin_unlock(pml);
		return pmd_none(val);
	}
	ptl = pte_lockptr(mm, pl->pmd);
	if (ptl != pml)
		spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	if (!spm_table_empty(pl->pmd, pl->addr)) {
		if (ptl != pml)
			spin_unlock(ptl);
		spin_unlock(pml);
		return false;
	}
	table = pmd_pgtable(val);
	pmd_clear(pl->pmd);
	if (ptl != pml)
		spin_unlock(ptl);
	spin_unlock(pml);

	on_each_cpu(spm_flush_nonglobal, NULL, true);
	mm_dec_nr_ptes(mm);
	call_rcu(&page_ptdesc(table)->pt_rcu_head, spm_free_table_rcu);
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_retract);

static void spm_read_pmd(pmd_t val, unsigned long addr, unsigned int n,
			 struct spm_pte *out)
{
	unsigned long pfn = pmd_pfn(val) + ((addr & ~PMD_MASK) >> PAGE_SHIFT);
	unsigned int i;

	for (i = 0; i < n; i++) {
		out[i].present = true;
		out[i].huge = true;
		out[i].writable = pmd_write(val);
		out[i].young = pmd_young(val);
		out[i].dirty = pmd_dirty(val);
		out[i].pfn = pfn + i;
	}
}

static void spm_read_ptes(pmd_t *pmd, unsigned long addr, unsigned int n,
			  struct spm_pte *out)
{
	pte_t *pte = pte_offset_kernel(pmd, addr);
	unsigned int i;

	for (i = 0; i < n; i++) {
		pte_t val = ptep_get(pte + i);

		if (!pte_present(val))
			continue;
		out[i].present = true;
		out[i].writable = pte_write(val);
		out[i].young = pte_young(val);
		out[i].dirty = pte_dirty(val);
		out[i].pfn = pte_pfn(val);
	}
}

/**
 * spm_pt_read() - what the page tables say of a range
 * @mm:		mm, its mmap_lock held for reading
 * @addr:	first address
 * @n:		pages, the range not crossing a 2 MB boundary
 * @out:	@n descriptions
 *
 * The PMD lock keeps the table in place: whoever frees a page-table page holds
 * it while taking the page out.
 */
void spm_pt_read(struct mm_struct *mm, unsigned long addr, unsigned int n,
		 struct spm_pte *out)
{
	pmd_t *pmd = spm_pt_pmd(mm, addr);
	spinlock_t *pml, *ptl;
	pmd_t val;

	memset(out, 0, n * sizeof(*out));
	if (!pmd)
		return;
	pml = pmd_lock(mm, pmd);
	val = pmdp_get(pmd);
	if (pmd_trans_huge(val)) {
		spm_read_pmd(val, addr, n, out);
	} else if (!pmd_none(val) && !pmd_bad(val)) {
		ptl = pte_lockptr(mm, pmd);
		if (ptl != pml)
			spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
		spm_read_ptes(pmd, addr, n, out);
		if (ptl != pml)
			spin_unlock(ptl);
	}
	spin_unlock(pml);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_read);

/*
 * Hardware may set the dirty bit of the same word at the same time.  No flush: a
 * CPU that holds the translation does not set the bit again until it forgets it,
 * so a page may look cold too soon; as with the kernel's own aging on x86.
 */
static bool spm_test_accessed(unsigned long *word, bool clear)
{
	if (!test_bit(_PAGE_BIT_ACCESSED, word))
		return false;
	return !clear || test_and_clear_bit(_PAGE_BIT_ACCESSED, word);
}

static unsigned int spm_accessed_ptes(pmd_t *pmd, unsigned long addr,
				      unsigned int n, bool clear,
				      unsigned long *out)
{
	pte_t *pte = pte_offset_kernel(pmd, addr);
	unsigned int i, found = 0;

	for (i = 0; i < n; i++) {
		if (!pte_present(ptep_get(pte + i)) ||
		    !spm_test_accessed((unsigned long *)(pte + i), clear))
			continue;
		__set_bit(i, out);
		found++;
	}
	return found;
}

/**
 * spm_pt_accessed() - find accessed bits, and clear them
 * @mm:		mm, its mmap_lock or the lock of the VMA held for reading
 * @addr:	first address
 * @n:		pages, the range not crossing a 2 MB boundary
 * @clear:	clear those of 4 KB entries
 * @clear_2m:	clear that of a 2 MB entry
 * @out:	@n bits, those of pages whose entry was accessed are set
 *
 * Locks as in spm_pt_read().
 *
 * Return: how many accessed bits were set, one for a 2 MB entry, and how many of
 * these were cleared.
 */
struct spm_accessed spm_pt_accessed(struct mm_struct *mm, unsigned long addr,
				    unsigned int n, bool clear, bool clear_2m,
				    unsigned long *out)
{
	pmd_t *pmd = spm_pt_pmd(mm, addr);
	struct spm_accessed did = { };
	spinlock_t *pml, *ptl;
	pmd_t val;

	if (!pmd)
		return did;
	pml = pmd_lock(mm, pmd);
	val = pmdp_get(pmd);
	if (pmd_trans_huge(val)) {
		if (spm_test_accessed((unsigned long *)pmd, clear_2m)) {
			bitmap_set(out, 0, n);
			did.found = 1;
			did.cleared = clear_2m;
		}
	} else if (!pmd_none(val) && !pmd_bad(val)) {
		ptl = pte_lockptr(mm, pmd);
		if (ptl != pml)
			spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
		did.found = spm_accessed_ptes(pmd, addr, n, clear, out);
		did.cleared = clear ? did.found : 0;
		if (ptl != pml)
			spin_unlock(ptl);
	}
	spin_unlock(pml);
	return did;
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_accessed);

/**
 * spm_pt_clean_readonly() - take the dirty bit from read-only 4 KB entries
 * @mm:		mm, its mmap_lock held
 * @addr:	first address
 * @n:		pages, the range not crossing a 2 MB boundary
 *
 * No CPU sets the dirty bit of an entry that is read-only, and none has to forget
 * a translation for this: it decides only what mprotect makes writable by itself.
 * Accessed bits may come at any time.
 *
 * Locks as in spm_pt_read().
 */
void spm_pt_clean_readonly(struct mm_struct *mm, unsigned long addr,
			   unsigned int n)
{
	pmd_t *pmd = spm_pt_pmd(mm, addr);
	spinlock_t *pml, *ptl;
	pte_t *pte, old;
	unsigned int i;

	if (!pmd)
		return;
	pml = pmd_lock(mm, pmd);
	if (spm_pt_state(pmd) != SPM_PMD_TABLE) {
		spin_unlock(pml);
		return;
	}
	ptl = pte_lockptr(mm, pmd);
	if (ptl != pml)
		spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	pte = pte_offset_kernel(pmd, addr);
	for (i = 0; i < n; i++, pte++) {
		old = ptep_get(pte);
		while (pte_present(old) && !pte_write(old) && pte_dirty(old) &&
		       !try_cmpxchg(&pte->pte, &old.pte,
				    pte_mkclean(old).pte))
			;
	}
	if (ptl != pml)
		spin_unlock(ptl);
	spin_unlock(pml);
}
EXPORT_SYMBOL_IF_KUNIT(spm_pt_clean_readonly);
