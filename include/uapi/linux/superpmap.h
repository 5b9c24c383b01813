/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * superpmap: memory set aside in 2 MB reservations, filled 4 KB at a time and
 * promoted in place to 2 MB page-table entries, as FreeBSD's VM does it.
 *
 * This file is all that a program needs.  Open /dev/superpmap for a new, empty
 * region of its own (shared by inheriting or passing the descriptor), or
 * /dev/superpmapN for a region that outlives its users, and mmap the
 * descriptor, with MAP_SHARED, or with MAP_PRIVATE for copy on write.
 *
 * Rules common to all ioctls:
 *  - argsz is sizeof() the structure as the caller knows it.  Smaller than the
 *    first published size: EINVAL.  Larger than the kernel's: accepted if the
 *    bytes the kernel does not know are zero, else E2BIG.
 *  - unknown flags and non-zero padding: EINVAL.  Unknown command: ENOTTY.
 *    A pointer that cannot be read or written: EFAULT.
 *  - ranges are half open, [start, start + len), in bytes, multiples of 4096.
 *  - the layouts are the same for 32-bit and 64-bit callers.
 */
#ifndef _UAPI_LINUX_SUPERPMAP_H
#define _UAPI_LINUX_SUPERPMAP_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define SPM_API_VERSION		1

/* Index into spm_info.pagesizes, FreeBSD's "psind". */
#define SPM_PSIND_4K		0
#define SPM_PSIND_2M		1

/**
 * struct spm_info - what a descriptor stands for (SPM_IOC_INFO)
 * @argsz:	size of this structure
 * @flags:	in: 0; out: SPM_INFO_*
 * @version:	SPM_API_VERSION of the running module
 * @region:	number of the region; N of /dev/superpmapN is @region - 1 for
 *		persistent regions; numbers of anonymous regions are reused
 * @pagesizes:	bytes by psind, unused ones 0
 * @size:	bytes that can be touched; SIGBUS beyond
 * @npagesizes:	how many of @pagesizes are in use
 * @pad:	0
 */
struct spm_info {
	__u32 argsz;
	__u32 flags;
	__u32 version;
	__u32 region;
	__u64 pagesizes[4];
	__u64 size;
	__u32 npagesizes;
	__u32 pad;
};

#define SPM_INFO_SUPERPAGES	(1U << 0)	/* 2 MB entries are made (pg_ps_enabled) */
#define SPM_INFO_PERSISTENT	(1U << 1)	/* /dev/superpmapN */
#define SPM_INFO_SIZE_FIXED	(1U << 2)	/* mmap does not grow the region */
#define SPM_INFO_RESERVED	(1U << 3)	/* SPM_SIZE_RESERVE is in force */

/**
 * struct spm_set_size - fix the size of a region (SPM_IOC_SET_SIZE)
 * @argsz:	size of this structure
 * @flags:	0 or SPM_SIZE_RESERVE
 * @size:	bytes, a multiple of 4096; pages beyond it are discarded, also
 *		from private mappings, and SIGBUS when touched; snapshots keep
 *		theirs
 *
 * Needs a descriptor open for writing (else EBADF).  The size of a persistent
 * region is the administrator's (EPERM).
 *
 * SPM_SIZE_RESERVE sets 2 MB of memory aside for each slot at once, charged to
 * the caller's memory cgroup; ENOMEM, with nothing changed, if that cannot be
 * had.  The region keeps it, also when pages are discarded, until it goes or
 * SET_SIZE is called without the flag.  What is stored after a snapshot, or to a
 * private mapping, takes memory beyond that.
 */
struct spm_set_size {
	__u32 argsz;
	__u32 flags;
	__u64 size;
};

#define SPM_SIZE_RESERVE	(1U << 0)

/**
 * struct spm_advise - act on a range (SPM_IOC_ADVISE)
 * @argsz:	size of this structure
 * @flags:	0 or SPM_ADVISE_BY_OFFSET
 * @start:	address in the caller's mapping of this region, or, with
 *		SPM_ADVISE_BY_OFFSET, offset in the region
 * @len:	bytes
 * @advice:	SPM_ADV_*
 * @pad:	0
 *
 * By address, every page of the range must belong to a mapping of this region
 * (else ENOMEM, as madvise).  PROMOTE and DEMOTE act on each 2 MB slot that
 * lies wholly inside the range and is mapped with matching alignment; others
 * in the range are left as they are.  By offset, only DISCARD and PREFAULT
 * (populate, no entries are made) are possible.
 * PREFAULT and PROMOTE give ENOMEM beyond the size of the region as well, and
 * EACCES for a mapping without access (PROT_NONE).
 * PREFAULT, PROMOTE and DISCARD need a descriptor open for writing (EBADF), but
 * for a private mapping by address, because only that mapping changes.
 * DISCARD frees what this region, or this private mapping, holds itself; pages
 * that snapshots or the other side of a fork hold as well stay with these, and
 * do not show here any more.  PROMOTE maps a slot that shows whole from there
 * read-only, without a copy; of a slot held in parts it copies the missing ones.
 */
struct spm_advise {
	__u32 argsz;
	__u32 flags;
	__u64 start;
	__u64 len;
	__u32 advice;
	__u32 pad;
};

#define SPM_ADVISE_BY_OFFSET	(1U << 0)

#define SPM_ADV_PREFAULT	1	/* populate and map, so that no touch faults */
#define SPM_ADV_PROMOTE		2	/* populate all and map 2 MB; writable maps: all dirty */
#define SPM_ADV_DEMOTE		3	/* back to 4 KB entries, all pages stay mapped */
#define SPM_ADV_DISCARD		4	/* back to zeros, memory freed, in all mappings */
#define SPM_ADV_COLD		5	/* not referenced: accessed bits of this mapping cleared */

/**
 * struct spm_mincore - per-page state in the caller's mapping (SPM_IOC_MINCORE)
 * @argsz:	size of this structure
 * @flags:	0
 * @start:	address
 * @len:	bytes
 * @vec:	address of len / 4096 bytes, each filled with SPM_MINCORE_*
 */
struct spm_mincore {
	__u32 argsz;
	__u32 flags;
	__u64 start;
	__u64 len;
	__u64 vec;
};

#define SPM_MINCORE_INCORE	0x01	/* held, here or by what shows through */
#define SPM_MINCORE_REFERENCED	0x02	/* accessed bit of this mapping's entry */
#define SPM_MINCORE_MODIFIED	0x04	/* recorded dirty */
#define SPM_MINCORE_MAPPED	0x08	/* this mapping has an entry for it */
#define SPM_MINCORE_WRITABLE	0x10	/* ... and the entry allows writing */
#define SPM_MINCORE_PSIND_SHIFT	5
#define SPM_MINCORE_PSIND_MASK	0x60	/* size of that entry, SPM_PSIND_* */

/*
 * The counters, in the order of struct spm_stats.
 * X(field, name, kind): kind C counts up for ever, G is a gauge that returns to
 * where it was when everything that was made is gone again.
 */
#define SPM_STATS_LIST(X)						\
	/* 4 KB entries replaced in place by one 2 MB entry */		\
	X(promotions,		"vm.pmap.pde.promotions",	C)	\
	/* promotions refused after the slot was found full */		\
	X(p_failures,		"vm.pmap.pde.p_failures",	C)	\
	/* 2 MB entries made directly, where no page table was */	\
	X(mappings,		"vm.pmap.pde.mappings",		C)	\
	/* 2 MB entries replaced in place by 4 KB entries, all causes */	\
	X(demotions,		"vm.pmap.pde.demotions",	C)	\
	X(demotions_write,	"vm.pmap.pde.demotions.write",	C)	\
	X(demotions_split,	"vm.pmap.pde.demotions.split",	C)	\
	X(demotions_advise,	"vm.pmap.pde.demotions.advise",	C)	\
	X(demotions_cow,	"vm.pmap.pde.demotions.cow",	C)	\
	X(demotions_reclaim,	"vm.pmap.pde.demotions.reclaim", C)	\
	/* demotions that ended with the entry gone (no memory) */	\
	X(demote_aborts,	"vm.pmap.pde.aborts",		C)	\
	/* 2 MB entries taken out whole, by us or by the kernel */	\
	X(removals,		"vm.pmap.pde.removals",		C)	\
	/* read-only 2 MB entries made writable in place */		\
	X(upgrades,		"vm.pmap.pde.upgrades",		C)	\
	/* 2 MB entries now: mappings + promotions			\
	 * - demotions - aborts - removals */				\
	X(live,			"vm.pmap.pde.live",		G)	\
	/* 2 MB reservations taken from the page allocator */		\
	X(reserv_allocated,	"vm.reserv.allocated",		C)	\
	/* slots that found no 2 MB block and hold single pages */	\
	X(reserv_unavailable,	"vm.reserv.unavailable",	C)	\
	X(reserv_broken,	"vm.reserv.broken",		C)	\
	X(reserv_freed,		"vm.reserv.freed",		C)	\
	X(reserv_reclaimed,	"vm.reserv.reclaimed",		C)	\
	/* reservations now, full ones, partly filled and queued ones */	\
	X(reserv_live,		"vm.reserv.live",		G)	\
	X(reserv_fullpop,	"vm.reserv.fullpop",		G)	\
	X(reserv_partpopq,	"vm.reserv.partpopq",		G)	\
	/* pages of reservations that hold nothing, in 4 KB pages */	\
	X(reserv_empty,		"vm.reserv.empty_pages",	G)	\
	X(vm_faults,		"vm.stats.vm.v_vm_faults",	C)	\
	/* stores that found the page in a backing object; reservations	\
	 * that changed hands without a copy when the others had gone */	\
	X(cow_faults,		"vm.stats.vm.v_cow_faults",	C)	\
	X(cow_optim,		"vm.stats.vm.v_cow_optim",	C)	\
	/* 4 KB entries made by faults, and by prefault besides */	\
	X(enter_4k,		"vm.pmap.pte.entered",		C)	\
	X(prefaulted,		"vm.pmap.pte.prefaulted",	C)	\
	/* pages ever populated; cleared by us (not by the allocator);	\
	 * given back by DISCARD or SET_SIZE */				\
	X(populated,		"vm.pages.populated",		C)	\
	X(zeroed,		"vm.pages.zeroed",		C)	\
	X(discarded,		"vm.pages.discarded",		C)	\
	/* pages now: held, of these dirty, of these single pages */	\
	X(pages,		"vm.pages.held",		G)	\
	X(dirty,		"vm.pages.dirty",		G)	\
	X(loose,		"vm.pages.loose",		G)	\
	X(maps,			"vm.maps",			G)	\
	X(regions,		"vm.regions",			G)	\
	/* pages copied by copy on write, by the first store to each */	\
	X(cow_copied,		"vm.cow.copied_pages",		C)	\
	/* pages copied early, at fork or snapshot: they were pinned */	\
	X(cow_early,		"vm.cow.early_pages",		C)	\
	/* pages copied to merge two objects, where each held some */	\
	X(cow_merged,		"vm.cow.merged_pages",		C)	\
	X(snapshots,		"vm.cow.snapshots",		C)	\
	X(forks,		"vm.cow.forks",			C)	\
	/* frozen objects merged into the last one that shadowed them */	\
	X(collapses,		"vm.cow.collapses",		C)	\
	/* objects now; those that shadow another, one link each */	\
	X(objects,		"vm.cow.objects",		G)	\
	X(links,		"vm.cow.links",			G)	\
	/* dirty pages reported and cleared; write protections for it, one	\
	 * for each slot that was dirty */				\
	X(cleared,		"vm.track.cleared_pages",	C)	\
	X(wrprotects,		"vm.track.wrprotects",		C)	\
	/* pages reported that stay dirty: somebody else holds the memory */	\
	X(kept_dirty,		"vm.track.kept_dirty_pages",	C)	\
	/* discarded pages noted as changed, where stores are watched */	\
	X(gone,			"vm.track.gone_pages",		C)	\
	/* reservations that dirty_grain=auto turned to 2M, to 4K */	\
	X(grain_2m,		"vm.track.grain_2m",		C)	\
	X(grain_4k,		"vm.track.grain_4k",		C)	\
	/* accessed bits found set by a scan; of these cleared */	\
	X(accessed,		"vm.track.accessed",		C)	\
	X(accessed_cleared,	"vm.track.accessed_cleared",	C)	\
	/* pages copied so that a block could go back; blocks that could	\
	 * not: somebody held the memory, no single pages were free */	\
	X(evacuated,		"vm.reserv.evacuated_pages",	C)	\
	X(evacuate_held,	"vm.reserv.evacuate_held",	C)	\
	X(evacuate_nomem,	"vm.reserv.evacuate_nomem",	C)	\
	/* slots of single pages that got a block again */		\
	X(reassembled,		"vm.reserv.reassembled",	C)	\
	/* reservations that the scan for memory looked at; of these changed	\
	 * since they were queued, or in use at that moment (all regions) */ \
	X(reclaim_looks,	"vm.reserv.scan.looks",		C)	\
	X(reclaim_active,	"vm.reserv.scan.active",	C)	\
	X(reclaim_busy,		"vm.reserv.scan.busy",		C)	\
	/* pages populated in idle time */				\
	X(worker_filled,	"vm.worker.filled_pages",	C)	\
	/* 2 MB blocks set aside by SPM_SIZE_RESERVE that no slot uses */	\
	X(reserv_pool,		"vm.reserv.pool",		G)

/**
 * struct spm_stats - counters of a region or of all (SPM_IOC_STATS)
 * @argsz:	size of this structure
 * @flags:	0: the region of this descriptor; SPM_STATS_GLOBAL: all regions
 *		that there are and were
 *
 * The fields that follow are those of SPM_STATS_LIST, a __u64 each.
 */
struct spm_stats {
	__u32 argsz;
	__u32 flags;
#define SPM_STATS_FIELD(field, name, kind) __u64 field;
	SPM_STATS_LIST(SPM_STATS_FIELD)
#undef SPM_STATS_FIELD
};

#define SPM_STATS_GLOBAL	(1U << 0)

/**
 * struct spm_snapshot - copy-on-write image of a region (SPM_IOC_SNAPSHOT)
 * @argsz:	size of this structure
 * @flags:	SPM_SNAPSHOT_*
 *
 * The ioctl returns a new descriptor, open for reading and writing.  It stands
 * for a new region of the same size, which holds what the region held at the
 * moment of the call, and is a region like any other: it can be mapped shared
 * or private, written, and snapshotted again.  Both sides go on; a store to
 * either is never seen by the other.
 *
 * Needs a descriptor open for reading (else EBADF).  EMLINK: the region has
 * SPM_DEPTH_MAX generations of snapshots behind it that are still in use.
 */
struct spm_snapshot {
	__u32 argsz;
	__u32 flags;
};

#define SPM_SNAPSHOT_CLOEXEC	(1U << 0)	/* close the new descriptor on exec */

#define SPM_DEPTH_MAX		64

/**
 * struct spm_policy - tunables of one region (SPM_IOC_SET_POLICY, GET_POLICY)
 * @argsz:		size of this structure
 * @flags:		0; of GET_POLICY also SPM_POLICY_EFFECTIVE
 * @pg_ps_enabled:	make 2 MB entries, 0 or 1; the module parameter's 0 wins
 * @populate_threshold:	1 to 512
 * @dirty_threshold:	0 to 511
 * @prefault_pages:	0 to 64
 * @cow_size:		SPM_COW_SIZE_*
 * @dirty_grain:	SPM_DIRTY_GRAIN_*
 *
 * The meaning of each is that of the module parameter of this name.
 * SPM_POLICY_INHERIT, which every region begins with, follows the module
 * parameter, now and when it changes.  SPM_POLICY_KEEP, of SET_POLICY, leaves
 * the value as it is.  Another value out of range: EINVAL, and nothing changes.
 *
 * SET_POLICY needs a descriptor open for writing (else EBADF).  It takes effect
 * with the next fault; entries that are there stay.  A snapshot begins with what
 * its source has.  GET_POLICY gives what was set, or, with
 * SPM_POLICY_EFFECTIVE, what applies.
 */
struct spm_policy {
	__u32 argsz;
	__u32 flags;
	__u32 pg_ps_enabled;
	__u32 populate_threshold;
	__u32 dirty_threshold;
	__u32 prefault_pages;
	__u32 cow_size;
	__u32 dirty_grain;
};

#define SPM_POLICY_EFFECTIVE	(1U << 0)

#define SPM_POLICY_INHERIT	0xffffffffU
#define SPM_POLICY_KEEP		0xfffffffeU

#define SPM_COW_SIZE_4K		0	/* a store to a shared page copies the page */
#define SPM_COW_SIZE_2M		1	/* ... the slot, where that can be mapped by 2 MB */
#define SPM_COW_SIZE_AUTO	2	/* ... the slot once most of it is copied */

/* What the first store to a clean 2 MB entry makes dirty. */
#define SPM_DIRTY_GRAIN_4K	0	/* the page, and dirty_threshold decides */
#define SPM_DIRTY_GRAIN_2M	1	/* the slot: the entry stays */
#define SPM_DIRTY_GRAIN_AUTO	2	/* the slot, but the page where few are written */

/**
 * struct spm_page_range - pages [start, end), in bytes
 * @start:	offset or address, as the request asks
 * @end:	one past the last byte
 */
struct spm_page_range {
	__u64 start;
	__u64 end;
};

/**
 * struct spm_scan - which pages were stored to, or touched (SPM_IOC_GET_DIRTY,
 *		     SPM_IOC_GET_REFERENCED)
 * @argsz:	size of this structure
 * @flags:	SPM_SCAN_*
 * @start:	address in the caller's mapping of this region, or, with
 *		SPM_SCAN_BY_OFFSET, offset in the region
 * @len:	bytes
 * @vec:	address of the answer
 * @vec_len:	struct spm_page_range that fit there; with SPM_SCAN_BITMAP, bytes,
 *		a multiple of 8.  0 to write no answer, and only count
 * @since:	with SPM_SCAN_SINCE: descriptor of a snapshot
 * @pad:	0
 * @next:	out: where the answer ends, and the next request goes on;
 *		@start + @len when it is complete
 * @count:	out: ranges, or bytes of the bitmap, that were written
 * @pages:	out: pages in the answer
 *
 * By address, every page of the range must belong to a mapping of this region
 * (else ENOMEM).  Pages beyond the size of the region are never in the answer.
 * Ranges come in order, adjacent ones are one.  In a bitmap, page k after @start
 * is bit k % 8 of byte k / 8.
 *
 * GET_DIRTY tells which pages were stored to since they were last cleared:
 * of the region, or, by address, what a private mapping stored to.  A page that
 * was discarded since then is in the answer, too.  With SPM_SCAN_CLEAR, each
 * page of the answer is clean from then on, in the same step: a store is in
 * this answer or in a later one, never in none.  What does not fit into the
 * answer is not cleared, and what cannot be written there is dirty again; EFAULT
 * comes back if that was nothing at all, else @next says where it stopped.
 * Superpages stay: a slot that is dirty costs one write protection a mapping, a
 * clean one nothing.  The first store to a 2 MB entry after that makes one page
 * dirty, or all 512: see dirty_grain in struct spm_policy.  Pages that somebody
 * holds for I/O stay dirty until a clear that comes after that.  Before anything
 * was cleared, the answer is what was ever stored to; what was dirty in the
 * source of a snapshot at that moment is dirty in the snapshot.
 *
 * With SPM_SCAN_SINCE, GET_DIRTY tells which pages changed since this region,
 * or what it is a snapshot of, and the region @since parted, by one being made as
 * a snapshot of the other.  It clears nothing and looks at no entry.  Needs
 * SPM_SCAN_BY_OFFSET.
 *
 * GET_REFERENCED tells which pages were touched, by accessed bits of page-table
 * entries: by address those of the caller's mapping, by offset those of all
 * shared mappings of the region, in any process.  With SPM_SCAN_CLEAR these are cleared, without a TLB
 * flush: a page that is touched all the time may be missing from the next
 * answer.  The one bit of a 2 MB entry stands for all its 512 pages; it is
 * cleared when one of them, which the slot's number chooses, is in the range.
 *
 * SPM_SCAN_CLEAR needs a descriptor open for writing (EBADF), but for a private
 * mapping by address.
 */
struct spm_scan {
	__u32 argsz;
	__u32 flags;
	__u64 start;
	__u64 len;
	__u64 vec;
	__u64 vec_len;
	__s32 since;
	__u32 pad;
	__u64 next;
	__u64 count;
	__u64 pages;
};

#define SPM_SCAN_BY_OFFSET	(1U << 0)
#define SPM_SCAN_CLEAR		(1U << 1)
#define SPM_SCAN_BITMAP		(1U << 2)
#define SPM_SCAN_SINCE		(1U << 3)

/**
 * struct spm_node_figures - what one NUMA node has of a region
 * @node:	number of the node
 * @pad:	0
 * @pages:	pages that are held
 * @loose:	of these, single pages
 * @reserv_live: reservations
 * @reserv_full: of these, full ones
 * @reserv_part: of these, partly filled ones
 * @reserv_empty: pages of reservations that hold nothing
 *
 * The memory that the node gave is @reserv_live * 512 + @loose pages, which is
 * @pages + @reserv_empty.
 */
struct spm_node_figures {
	__u32 node;
	__u32 pad;
	__u64 pages;
	__u64 loose;
	__u64 reserv_live;
	__u64 reserv_full;
	__u64 reserv_part;
	__u64 reserv_empty;
};

/**
 * struct spm_nodes - where the memory of a region lies (SPM_IOC_NODES)
 * @argsz:	size of this structure
 * @flags:	0
 * @vec:	address of an array of struct spm_node_figures
 * @vec_len:	how many fit there; 0 to only count
 * @count:	out: nodes that have memory of the region.  If these are more than
 *		@vec_len, the last ones are not told
 *
 * In ascending order, one for each node that has some.  Told is what STATS counts
 * for the region: what it holds itself, what it froze for its snapshots and
 * forks, and what was stored to its private mappings; not what it shows of a
 * region that it is a snapshot of.  So when nothing changes meanwhile, the sums
 * over all nodes are the gauges pages, loose, reserv_live, reserv_fullpop,
 * reserv_partpopq and reserv_empty.  It is found by a walk, slot by slot.
 */
struct spm_nodes {
	__u32 argsz;
	__u32 flags;
	__u64 vec;
	__u64 vec_len;
	__u64 count;
};

#define SPM_IOC_MAGIC		0xB9
#define SPM_IOC_INFO		_IOWR(SPM_IOC_MAGIC, 0x00, struct spm_info)
#define SPM_IOC_SET_SIZE	_IOW(SPM_IOC_MAGIC, 0x01, struct spm_set_size)
#define SPM_IOC_ADVISE		_IOW(SPM_IOC_MAGIC, 0x02, struct spm_advise)
#define SPM_IOC_MINCORE		_IOW(SPM_IOC_MAGIC, 0x03, struct spm_mincore)
/*
 * The size is left out of the number of STATS: the list grows, argsz tells.
 */
#define SPM_IOC_STATS		_IO(SPM_IOC_MAGIC, 0x04)
#define SPM_IOC_SNAPSHOT	_IOW(SPM_IOC_MAGIC, 0x05, struct spm_snapshot)
#define SPM_IOC_SET_POLICY	_IOW(SPM_IOC_MAGIC, 0x06, struct spm_policy)
#define SPM_IOC_GET_POLICY	_IOWR(SPM_IOC_MAGIC, 0x07, struct spm_policy)
#define SPM_IOC_GET_DIRTY	_IOWR(SPM_IOC_MAGIC, 0x08, struct spm_scan)
#define SPM_IOC_GET_REFERENCED	_IOWR(SPM_IOC_MAGIC, 0x09, struct spm_scan)
#define SPM_IOC_NODES		_IOWR(SPM_IOC_MAGIC, 0x0a, struct spm_nodes)

#endif /* _UAPI_LINUX_SUPERPMAP_H */
