/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions, on plain integers: which size of entry, how many pages at once.
 *
 * No kernel mm type enters here, so that a test can try every input.
 */
#ifndef SPM_POLICY_H
#define SPM_POLICY_H

#include <linux/types.h>

/* 4 KB pages in a 2 MB slot, 1 << SPM_SLOT_SHIFT. */
#define SPM_SLOT_SHIFT	9
#define SPM_SLOT_PAGES	512U

#define SPM_PREFAULT_MAX 64

/* How much is copied when a store finds its page in a backing object. */
enum spm_cow_size {
	SPM_COW_4K,	/* the page */
	SPM_COW_2M,	/* the slot, where it can then be mapped by 2 MB */
	SPM_COW_AUTO,	/* the slot once most of it, or all before it, is copied */
};

/* What the first store to a clean 2 MB entry makes dirty. */
enum spm_grain {
	SPM_GRAIN_4K,	/* the page, unless dirty_threshold says otherwise */
	SPM_GRAIN_2M,	/* the slot */
	SPM_GRAIN_AUTO,	/* the slot, but the page where stores are few */
};

/* Dirty pages at a clear above which SPM_GRAIN_AUTO takes a slot for dense. */
#define SPM_GRAIN_DENSE	(SPM_SLOT_PAGES / 8)
/* Clears for which it then does not look again, at most. */
#define SPM_GRAIN_PATIENCE 64U

/**
 * struct spm_grain_state - what SPM_GRAIN_AUTO knows of a slot
 * @coarse:	clears that find it dirty before stores make single pages dirty,
 *		in order to see how many they are; 0: they do so now
 * @patience:	what @coarse began with
 */
struct spm_grain_state {
	u8 coarse;
	u8 patience;
};

/* Empty pages for the sake of which a reservation is broken, at least. */
#define SPM_BREAK_GAIN	(SPM_SLOT_PAGES / 16)

/* What SPM_COW_AUTO takes for most of a slot, and for a sequence of stores. */
#define SPM_COW_MOSTLY	(SPM_SLOT_PAGES / 2)
#define SPM_COW_RUN	64U

/* In a region's tunables: what the module parameter says. */
#define SPM_TUNABLE_INHERIT (~0U)

/**
 * struct spm_tunables - what the administrator chose, or the user of a region
 * @superpages:		pg_ps_enabled: 2 MB entries may be made
 * @populate_threshold:	populated pages, 1..512, at which the rest of a slot is
 *			populated at once; 512 is FreeBSD's rule (never early)
 * @dirty_threshold:	dirty pages among the other 511, 0..511, at which a
 *			writable 2 MB entry is made by recording the rest dirty;
 *			511 is FreeBSD's rule (only if they are dirty anyway)
 * @prefault_pages:	populated neighbours, 0..64 on each side, that a 4 KB
 *			fault maps as well
 * @cow_size:		enum spm_cow_size
 * @dirty_grain:	enum spm_grain
 *
 * Each is a word that is read once per decision: a change takes effect with
 * the next fault.
 */
struct spm_tunables {
	unsigned int superpages;
	unsigned int populate_threshold;
	unsigned int dirty_threshold;
	unsigned int prefault_pages;
	unsigned int cow_size;
	unsigned int dirty_grain;
};

extern struct spm_tunables spm_tunables;

/*
 * The tunables that a region can have of its own, and their ranges:
 * X(field, name in the user interface, least, greatest).
 */
#define SPM_TUNABLES(X)							\
	X(superpages,		pg_ps_enabled,		0, 1)		\
	X(populate_threshold,	populate_threshold,	1, SPM_SLOT_PAGES) \
	X(dirty_threshold,	dirty_threshold,	0, SPM_SLOT_PAGES - 1) \
	X(prefault_pages,	prefault_pages,		0, SPM_PREFAULT_MAX) \
	X(cow_size,		cow_size,		0, SPM_COW_AUTO) \
	X(dirty_grain,		dirty_grain,		0, SPM_GRAIN_AUTO)

/* What a PMD holds, from nothing upward; the pmap shadow uses the same. */
enum spm_pmd_state {
	SPM_PMD_NONE,	/* nothing */
	SPM_PMD_TABLE,	/* a page-table page: 4 KB entries or none */
	SPM_PMD_2M_RO,	/* a read-only 2 MB entry */
	SPM_PMD_2M_RW,	/* a writable 2 MB entry */
};

static inline bool spm_pmd_is_2m(enum spm_pmd_state s)
{
	return s >= SPM_PMD_2M_RO;
}

/* What a fault is answered with. */
enum spm_entry {
	SPM_ENTRY_4K,
	SPM_ENTRY_2M_RO,
	SPM_ENTRY_2M_RW,
};

/* Why a full slot got 4 KB all the same. */
enum spm_refusal {
	SPM_REFUSE_NONE,
	SPM_REFUSE_NOT_DIRTY,	/* writable wanted, too few pages are dirty */
	SPM_REFUSE_LOOSE,	/* single pages: no 2 MB block */
	SPM_REFUSE_MM,		/* this mm's tables cannot be flushed from here */
	SPM_REFUSE_RACED,	/* the page table changed under us */
};

/**
 * struct spm_facts - what the decision on the size of an entry looks at
 * @write:		the access is a store
 * @may_write:		the mapping allows stores
 * @fits:		the slot lies inside mapping and region, and the virtual
 *			alignment is that of the slot
 * @superpages:		2 MB entries may be made
 * @block:		the slot's memory is one 2 MB block
 * @pmd:		what the PMD holds now
 * @popcnt:		populated pages, the faulting one included
 * @dirty_peers:	dirty pages among the other 511
 * @dirty_self:		the faulting page is recorded dirty already
 * @dirty_threshold:	see struct spm_tunables
 */
struct spm_facts {
	bool write;
	bool may_write;
	bool fits;
	bool superpages;
	bool block;
	enum spm_pmd_state pmd;
	unsigned int popcnt;
	unsigned int dirty_peers;
	bool dirty_self;
	unsigned int dirty_threshold;
};

/**
 * spm_policy_tunable() - which of two settings applies
 * @own:	the region's, or SPM_TUNABLE_INHERIT
 * @global:	the module's
 *
 * Return: the setting.
 */
static inline unsigned int spm_policy_tunable(unsigned int own,
					      unsigned int global)
{
	return own == SPM_TUNABLE_INHERIT ? global : own;
}

enum spm_entry spm_policy_entry(const struct spm_facts *f,
				enum spm_refusal *why);
bool spm_policy_fill(unsigned int popcnt, unsigned int threshold);
bool spm_policy_cow_slot(enum spm_cow_size size, bool mappable,
			 unsigned int popcnt, unsigned int run);
unsigned int spm_policy_dirty_threshold(enum spm_grain grain,
					struct spm_grain_state state,
					unsigned int threshold);
struct spm_grain_state spm_policy_grain(struct spm_grain_state state,
					unsigned int ndirty);
bool spm_policy_fill_idle(unsigned int popcnt, unsigned int threshold,
			  u32 idle, u32 recent);
bool spm_policy_break(unsigned int popcnt, u32 idle, u32 age);
unsigned int spm_policy_accessed_page(unsigned long slot);
void spm_policy_prefault(unsigned int page, unsigned int window,
			 unsigned int lo, unsigned int hi,
			 unsigned int *first, unsigned int *end);

#endif /* SPM_POLICY_H */
