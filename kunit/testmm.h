/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process for a test: an mm of its own, mappings of a new region in it, real
 * faults, and a look at what the page tables say of it all.
 */
#ifndef SPM_KUNIT_TESTMM_H
#define SPM_KUNIT_TESTMM_H

#include <linux/mman.h>

#include "map.h"
#include "support.h"

#define SPM_TEST_MAPPINGS 4

/**
 * struct spm_test_mm - what a case has to play with; test->priv
 * @file:	a new region, open for reading and writing
 * @region:	that region
 * @args:	address of an anonymous page, for arguments of ioctls
 * @pgtables:	bytes of page tables before anything of ours was mapped
 * @saved:	tunables to be restored
 * @addr:	mappings; 0 where unused
 * @len:	their lengths
 * @faults:	what the counter of faults was at the last look
 * @pte:	what spm_test_look() has read
 */
struct spm_test_mm {
	struct file *file;
	struct spm_region *region;
	unsigned long args;
	unsigned long pgtables;
	struct spm_tunables saved;
	unsigned long addr[SPM_TEST_MAPPINGS];
	unsigned long len[SPM_TEST_MAPPINGS];
	long faults;
	struct spm_pte pte[SPM_SLOT_PAGES];
};

/**
 * struct spm_test_view - how a slot is mapped
 * @state:	by its entries: SPM_PMD_NONE if there are none
 * @shadow:	what the pmap believes
 * @pmd:	what the PMD holds: SPM_PMD_TABLE for an empty page table
 * @present:	entries
 * @writable:	of these, writable ones
 */
struct spm_test_view {
	enum spm_pmd_state state;
	enum spm_pmd_state shadow;
	enum spm_pmd_state pmd;
	unsigned int present;
	unsigned int writable;
};

/**
 * struct spm_test_bits - what FreeBSD's operations on a slot are about
 * @huge:	one entry of 2 MB
 * @present:	pages that are mapped
 * @a:		of these, accessed ones
 * @d:		pages that are recorded dirty, for who looks through the mapping
 * @w:		mapped pages that can be stored to
 */
struct spm_test_bits {
	bool huge;
	unsigned int present;
	unsigned int a;
	unsigned int d;
	unsigned int w;
};

/**
 * struct spm_test_at - a slot of a mapping, locked for a pmap operation
 * @slot:	the slot
 * @pm:		pmap of the mapping
 * @pl:		where it lies
 */
struct spm_test_at {
	struct spm_slot *slot;
	struct spm_pmap *pm;
	struct spm_place pl;
};

int spm_test_node_init(struct kunit_suite *suite);
void spm_test_node_exit(struct kunit_suite *suite);
int spm_test_mm_init(struct kunit *test);
void spm_test_mm_exit(struct kunit *test);
void spm_test_mm_finish(struct kunit *test);
const struct spm_counters *spm_test_counters(struct kunit *test);

unsigned long spm_test_map(struct kunit *test, unsigned int slots, int prot);
unsigned long spm_test_map_private(struct kunit *test, unsigned int slots);
void spm_test_map_at(struct kunit *test, unsigned long addr, unsigned long len,
		     int prot, unsigned long offset);
void spm_test_unmap(struct kunit *test, unsigned long addr, unsigned long len);

int spm_test_store(unsigned long addr, unsigned int i);
int spm_test_load(unsigned long addr, unsigned int i);
void spm_test_write(struct kunit *test, unsigned long addr, unsigned int first,
		    unsigned int end);
void spm_test_read(struct kunit *test, unsigned long addr, unsigned int first,
		   unsigned int end);
void spm_test_check_data(struct kunit *test, unsigned long addr,
			 unsigned int first, unsigned int end);
long spm_test_ioctl(struct kunit *test, unsigned int cmd, const void *arg,
		    size_t size);
long spm_test_advise(struct kunit *test, unsigned long addr, unsigned long len,
		     u32 advice);
void spm_test_mincore(struct kunit *test, unsigned long addr, u8 *vec,
		      unsigned int n);

struct spm_test_view spm_test_look(struct kunit *test, int line,
				   unsigned long addr);
void spm_test_expect_slot(struct kunit *test, int line, unsigned long addr,
			  enum spm_pmd_state state, unsigned int present,
			  unsigned int writable);
void spm_test_expect_bits(struct kunit *test, int line, unsigned long addr,
			  struct spm_test_bits want);
bool spm_test_lock(struct spm_test_at *at, struct kunit *test,
		   unsigned long addr);
void spm_test_unlock(struct spm_test_at *at);
unsigned long spm_test_rss(void);

/*
 * The slot at @addr has @present entries of the size that @state says, of which
 * @writable are writable; and all books agree.
 */
#define EXPECT_SLOT(test, addr, state, present, writable)		\
	spm_test_expect_slot(test, __LINE__, addr, state, present, writable)

#define EXPECT_NOTHING(test, addr) EXPECT_SLOT(test, addr, SPM_PMD_NONE, 0, 0)

/* Accessed, recorded dirty and writable pages of a slot with 4 KB entries. */
#define EXPECT_4K(test, addr, n, a, d, w)				\
	spm_test_expect_bits(test, __LINE__, addr,			\
			     (struct spm_test_bits){ false, n, a, d, w })

/* The same for a 2 MB entry: accessed and writable or not, as a whole. */
#define EXPECT_2M(test, addr, a, d, w)					\
	spm_test_expect_bits(test, __LINE__, addr,			\
			     (struct spm_test_bits){ true, SPM_SLOT_PAGES, \
						     (a) * SPM_SLOT_PAGES, d, \
						     (w) * SPM_SLOT_PAGES })

#define SPM_TEST_RW (PROT_READ | PROT_WRITE)

#endif /* SPM_KUNIT_TESTMM_H */
