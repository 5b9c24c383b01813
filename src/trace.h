/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One tracepoint for every decision.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM superpmap

#if !defined(SPM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SPM_TRACE_H

#include <linux/tracepoint.h>

#ifndef SPM_TRACE_ENUMS
#define SPM_TRACE_ENUMS
/* How a fault ended. */
enum spm_decision {
	SPM_DID_4K,		/* read-only 4 KB entry */
	SPM_DID_4K_WRITE,	/* writable 4 KB entry */
	SPM_DID_2M_RO,		/* 2 MB entries where nothing was */
	SPM_DID_2M_RW,
	SPM_DID_PROMOTE_RO,	/* 2 MB entries in place of 4 KB ones */
	SPM_DID_PROMOTE_RW,
	SPM_DID_UPGRADE,	/* read-only 2 MB entry became writable */
	SPM_DID_DEMOTE,		/* ... or 512 entries, one of them writable */
	SPM_DID_RETRY,		/* another thread had done it already */
	SPM_DID_SIGBUS,		/* beyond the region */
	SPM_DID_OOM,
};

enum spm_populate_cause {
	SPM_POPULATE_FAULT,
	SPM_POPULATE_THRESHOLD,
	SPM_POPULATE_ADVISE,
	SPM_POPULATE_COW,	/* copied for a store */
	SPM_POPULATE_EARLY,	/* copied at fork or snapshot: pinned */
	SPM_POPULATE_MERGE,	/* copied when objects merged */
	SPM_POPULATE_WORKER,	/* in idle time */
};

/* Why an object was frozen. */
enum spm_freeze_cause {
	SPM_FREEZE_SNAPSHOT,
	SPM_FREEZE_FORK,
};

enum spm_promote_kind {
	SPM_PROMOTE_INPLACE,	/* from a page table */
	SPM_PROMOTE_DIRECT,	/* where nothing was */
	SPM_PROMOTE_UPGRADE,	/* read-only to writable */
	SPM_PROMOTE_FAILED,
};

enum spm_promote_cause {
	SPM_PROMOTE_FAULT,
	SPM_PROMOTE_ADVISE,
};

enum spm_demote_cause {
	SPM_DEMOTE_WRITE,
	SPM_DEMOTE_SPLIT,
	SPM_DEMOTE_ADVISE,
	SPM_DEMOTE_COW,
	SPM_DEMOTE_RECLAIM,
};

/* Why the memory of a slot was moved. */
enum spm_evacuate_cause {
	SPM_EVACUATE_PRESSURE,	/* the shrinker */
	SPM_EVACUATE_WORKER,	/* in idle time */
	SPM_EVACUATE_FAULT,	/* full again: to a block */
	SPM_EVACUATE_ADVISE,	/* the same, on request */
};
#endif /* SPM_TRACE_ENUMS */

#define spm_show_decision(d) __print_symbolic(d,	\
	{ 0, "4k" },					\
	{ 1, "4k-write" },				\
	{ 2, "2m-ro" },					\
	{ 3, "2m-rw" },					\
	{ 4, "promote-ro" },				\
	{ 5, "promote-rw" },				\
	{ 6, "upgrade" },				\
	{ 7, "demote" },				\
	{ 8, "retry" },					\
	{ 9, "sigbus" },				\
	{ 10, "oom" })

/*
 * Every fault that reached the module, one event for each that v_vm_faults
 * counts.  nsecs: from entry to the end of the work, in nanoseconds; 0 for a
 * fault that began before the tracepoint was switched on.
 */
TRACE_EVENT(spm_fault,
	TP_PROTO(u32 region, unsigned long address, unsigned long pgoff,
		 bool write, u8 decision, int result, u64 nsecs),
	TP_ARGS(region, address, pgoff, write, decision, result, nsecs),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, address)
		__field(unsigned long, pgoff)
		__field(u8, write)
		__field(u8, decision)
		__field(int, result)
		__field(u64, nsecs)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->address = address;
		__entry->pgoff = pgoff;
		__entry->write = write;
		__entry->decision = decision;
		__entry->result = result;
		__entry->nsecs = nsecs;
	),
	TP_printk("region=%u address=0x%lx pgoff=%lu write=%u decision=%s result=0x%x nsecs=%llu",
		  __entry->region, __entry->address, __entry->pgoff,
		  __entry->write, spm_show_decision(__entry->decision),
		  __entry->result, __entry->nsecs)
);

/* Pages [pgoff, pgoff + nr) came to exist; zeroed: by us, not by the allocator. */
TRACE_EVENT(spm_populate,
	TP_PROTO(u32 region, unsigned long pgoff, u16 nr, bool zeroed, u8 cause),
	TP_ARGS(region, pgoff, nr, zeroed, cause),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, pgoff)
		__field(u16, nr)
		__field(u8, zeroed)
		__field(u8, cause)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->pgoff = pgoff;
		__entry->nr = nr;
		__entry->zeroed = zeroed;
		__entry->cause = cause;
	),
	TP_printk("region=%u pgoff=%lu nr=%u zeroed=%u cause=%s",
		  __entry->region, __entry->pgoff, __entry->nr, __entry->zeroed,
		  __print_symbolic(__entry->cause, { 0, "fault" },
				   { 1, "threshold" }, { 2, "advise" },
				   { 3, "cow" }, { 4, "early" }, { 5, "merge" },
				   { 6, "worker" }))
);

/* A 2 MB entry was made, made writable, or refused although the slot is full. */
TRACE_EVENT(spm_promote,
	TP_PROTO(u32 region, unsigned long slot, unsigned long address, u8 kind,
		 bool writable, u8 cause, u8 reason),
	TP_ARGS(region, slot, address, kind, writable, cause, reason),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, slot)
		__field(unsigned long, address)
		__field(u8, kind)
		__field(u8, writable)
		__field(u8, cause)
		__field(u8, reason)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->slot = slot;
		__entry->address = address;
		__entry->kind = kind;
		__entry->writable = writable;
		__entry->cause = cause;
		__entry->reason = reason;
	),
	TP_printk("region=%u slot=%lu address=0x%lx kind=%s writable=%u cause=%s reason=%s",
		  __entry->region, __entry->slot, __entry->address,
		  __print_symbolic(__entry->kind, { 0, "in-place" },
				   { 1, "direct" }, { 2, "upgrade" },
				   { 3, "failed" }),
		  __entry->writable,
		  __print_symbolic(__entry->cause, { 0, "fault" },
				   { 1, "advise" }),
		  __print_symbolic(__entry->reason, { 0, "-" },
				   { 1, "not-all-dirty" }, { 2, "loose" },
				   { 3, "unsuitable-mm" }, { 4, "raced" }))
);

/* A 2 MB entry was taken apart; kept: 4 KB entries made in its place. */
TRACE_EVENT(spm_demote,
	TP_PROTO(u32 region, unsigned long slot, unsigned long address, u8 cause,
		 bool aborted, u16 kept),
	TP_ARGS(region, slot, address, cause, aborted, kept),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, slot)
		__field(unsigned long, address)
		__field(u8, cause)
		__field(u8, aborted)
		__field(u16, kept)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->slot = slot;
		__entry->address = address;
		__entry->cause = cause;
		__entry->aborted = aborted;
		__entry->kept = kept;
	),
	TP_printk("region=%u slot=%lu address=0x%lx cause=%s aborted=%u kept=%u",
		  __entry->region, __entry->slot, __entry->address,
		  __print_symbolic(__entry->cause, { 0, "write" },
				   { 1, "split" }, { 2, "advise" },
				   { 3, "cow" }, { 4, "reclaim" }),
		  __entry->aborted, __entry->kept)
);

DECLARE_EVENT_CLASS(spm_reserv,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt),
	TP_ARGS(region, slot, nid, popcnt),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, slot)
		__field(int, nid)
		__field(u16, popcnt)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->slot = slot;
		__entry->nid = nid;
		__entry->popcnt = popcnt;
	),
	TP_printk("region=%u slot=%lu nid=%d popcnt=%u", __entry->region,
		  __entry->slot, __entry->nid, __entry->popcnt)
);

/* nid is -1 when no 2 MB block could be had and the slot goes by single pages. */
DEFINE_EVENT(spm_reserv, spm_reserv_alloc,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt),
	TP_ARGS(region, slot, nid, popcnt));
DEFINE_EVENT(spm_reserv, spm_reserv_full,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt),
	TP_ARGS(region, slot, nid, popcnt));
DEFINE_EVENT(spm_reserv, spm_reserv_free,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt),
	TP_ARGS(region, slot, nid, popcnt));

/*
 * The memory of a slot was to be moved: from the block on node nid to popcnt
 * single pages; or, reassembled, from these to a block on node nid (-1: none).
 */
DECLARE_EVENT_CLASS(spm_move,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt, u8 cause,
		 int result),
	TP_ARGS(region, slot, nid, popcnt, cause, result),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, slot)
		__field(int, nid)
		__field(u16, popcnt)
		__field(u8, cause)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->slot = slot;
		__entry->nid = nid;
		__entry->popcnt = popcnt;
		__entry->cause = cause;
		__entry->result = result;
	),
	TP_printk("region=%u slot=%lu nid=%d popcnt=%u cause=%s result=%d",
		  __entry->region, __entry->slot, __entry->nid, __entry->popcnt,
		  __print_symbolic(__entry->cause, { 0, "pressure" },
				   { 1, "worker" }, { 2, "fault" },
				   { 3, "advise" }),
		  __entry->result)
);
DEFINE_EVENT(spm_move, spm_evacuate,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt, u8 cause,
		 int result),
	TP_ARGS(region, slot, nid, popcnt, cause, result));
DEFINE_EVENT(spm_move, spm_reassemble,
	TP_PROTO(u32 region, unsigned long slot, int nid, u16 popcnt, u8 cause,
		 int result),
	TP_ARGS(region, slot, nid, popcnt, cause, result));

/* A store found its page in a backing object, of region from; nr pages copied. */
TRACE_EVENT(spm_cow,
	TP_PROTO(u32 region, unsigned long pgoff, u16 nr, u32 from, int result),
	TP_ARGS(region, pgoff, nr, from, result),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(unsigned long, pgoff)
		__field(u16, nr)
		__field(u32, from)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->pgoff = pgoff;
		__entry->nr = nr;
		__entry->from = from;
		__entry->result = result;
	),
	TP_printk("region=%u pgoff=%lu nr=%u from=%u result=%d",
		  __entry->region, __entry->pgoff, __entry->nr, __entry->from,
		  __entry->result)
);

/*
 * An object was frozen for another that shadows it from now on; reservs went
 * down with their entries write-protected, early pages were copied.
 */
TRACE_EVENT(spm_snapshot,
	TP_PROTO(u32 region, u32 side, u8 cause, unsigned long reservs,
		 unsigned long early, unsigned int depth, int result),
	TP_ARGS(region, side, cause, reservs, early, depth, result),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(u32, side)
		__field(u8, cause)
		__field(unsigned long, reservs)
		__field(unsigned long, early)
		__field(unsigned int, depth)
		__field(int, result)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->side = side;
		__entry->cause = cause;
		__entry->reservs = reservs;
		__entry->early = early;
		__entry->depth = depth;
		__entry->result = result;
	),
	TP_printk("region=%u side=%u cause=%s reservs=%lu early=%lu depth=%u result=%d",
		  __entry->region, __entry->side,
		  __print_symbolic(__entry->cause, { 0, "snapshot" },
				   { 1, "fork" }),
		  __entry->reservs, __entry->early, __entry->depth,
		  __entry->result)
);

/*
 * A frozen object merged into the last one that shadowed it: reservs changed
 * hands whole, copied pages of mixed slots.
 */
TRACE_EVENT(spm_collapse,
	TP_PROTO(u32 region, u32 into, unsigned long reservs,
		 unsigned long copied),
	TP_ARGS(region, into, reservs, copied),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(u32, into)
		__field(unsigned long, reservs)
		__field(unsigned long, copied)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->into = into;
		__entry->reservs = reservs;
		__entry->copied = copied;
	),
	TP_printk("region=%u into=%u reservs=%lu copied=%lu", __entry->region,
		  __entry->into, __entry->reservs, __entry->copied)
);

/* A clear found a slot dirty; pages @kept stay so. */
TRACE_EVENT(spm_clear,
	TP_PROTO(u32 region, pgoff_t slot, unsigned int dirty,
		 unsigned int kept, unsigned int coarse),
	TP_ARGS(region, slot, dirty, kept, coarse),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(pgoff_t, slot)
		__field(u16, dirty)
		__field(u16, kept)
		__field(u16, coarse)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->slot = slot;
		__entry->dirty = dirty;
		__entry->kept = kept;
		__entry->coarse = coarse;
	),
	TP_printk("region=%u slot=%lu dirty=%u kept=%u coarse=%u",
		  __entry->region, __entry->slot, __entry->dirty,
		  __entry->kept, __entry->coarse)
);

/* Accessed bits of a slot in one mapping were looked at. */
TRACE_EVENT(spm_age,
	TP_PROTO(u32 region, pgoff_t slot, unsigned long addr,
		 unsigned int accessed, unsigned int cleared),
	TP_ARGS(region, slot, addr, accessed, cleared),
	TP_STRUCT__entry(
		__field(u32, region)
		__field(pgoff_t, slot)
		__field(unsigned long, addr)
		__field(u16, accessed)
		__field(u16, cleared)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->slot = slot;
		__entry->addr = addr;
		__entry->accessed = accessed;
		__entry->cleared = cleared;
	),
	TP_printk("region=%u slot=%lu addr=0x%lx accessed=%u cleared=%u",
		  __entry->region, __entry->slot, __entry->addr,
		  __entry->accessed, __entry->cleared)
);

#endif /* SPM_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
