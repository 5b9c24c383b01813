/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The published layout, in numbers.  Compiled into the tests of the ioctls for
 * 64 and for 32 bits: a member that moved, or has another size in one of them,
 * does not build.
 */
#ifndef SPM_ABI_LAYOUT_H
#define SPM_ABI_LAYOUT_H

#include <stddef.h>

#include <linux/superpmap.h>

#define SPM_AT(type, member, offset)					\
	_Static_assert(offsetof(struct type, member) == (offset),	\
		       #type "." #member " is not at " #offset)
#define SPM_SIZE(type, size)						\
	_Static_assert(sizeof(struct type) == (size),			\
		       #type " is not of " #size " bytes")

SPM_AT(spm_info, argsz, 0);
SPM_AT(spm_info, flags, 4);
SPM_AT(spm_info, version, 8);
SPM_AT(spm_info, region, 12);
SPM_AT(spm_info, pagesizes, 16);
SPM_AT(spm_info, size, 48);
SPM_AT(spm_info, npagesizes, 56);
SPM_AT(spm_info, pad, 60);
SPM_SIZE(spm_info, 64);

SPM_AT(spm_set_size, argsz, 0);
SPM_AT(spm_set_size, flags, 4);
SPM_AT(spm_set_size, size, 8);
SPM_SIZE(spm_set_size, 16);

SPM_AT(spm_advise, argsz, 0);
SPM_AT(spm_advise, flags, 4);
SPM_AT(spm_advise, start, 8);
SPM_AT(spm_advise, len, 16);
SPM_AT(spm_advise, advice, 24);
SPM_AT(spm_advise, pad, 28);
SPM_SIZE(spm_advise, 32);

SPM_AT(spm_mincore, argsz, 0);
SPM_AT(spm_mincore, flags, 4);
SPM_AT(spm_mincore, start, 8);
SPM_AT(spm_mincore, len, 16);
SPM_AT(spm_mincore, vec, 24);
SPM_SIZE(spm_mincore, 32);

/* The counters may become more, but none may move. */
SPM_AT(spm_stats, argsz, 0);
SPM_AT(spm_stats, flags, 4);
SPM_AT(spm_stats, promotions, 8);
SPM_AT(spm_stats, p_failures, 16);
SPM_AT(spm_stats, mappings, 24);
SPM_AT(spm_stats, demotions, 32);
SPM_AT(spm_stats, demotions_write, 40);
SPM_AT(spm_stats, demotions_split, 48);
SPM_AT(spm_stats, demotions_advise, 56);
SPM_AT(spm_stats, demotions_cow, 64);
SPM_AT(spm_stats, demotions_reclaim, 72);
SPM_AT(spm_stats, demote_aborts, 80);
SPM_AT(spm_stats, removals, 88);
SPM_AT(spm_stats, upgrades, 96);
SPM_AT(spm_stats, live, 104);
SPM_AT(spm_stats, reserv_allocated, 112);
SPM_AT(spm_stats, reserv_unavailable, 120);
SPM_AT(spm_stats, reserv_broken, 128);
SPM_AT(spm_stats, reserv_freed, 136);
SPM_AT(spm_stats, reserv_reclaimed, 144);
SPM_AT(spm_stats, reserv_live, 152);
SPM_AT(spm_stats, reserv_fullpop, 160);
SPM_AT(spm_stats, reserv_partpopq, 168);
SPM_AT(spm_stats, reserv_empty, 176);
SPM_AT(spm_stats, vm_faults, 184);
SPM_AT(spm_stats, cow_faults, 192);
SPM_AT(spm_stats, cow_optim, 200);
SPM_AT(spm_stats, enter_4k, 208);
SPM_AT(spm_stats, prefaulted, 216);
SPM_AT(spm_stats, populated, 224);
SPM_AT(spm_stats, zeroed, 232);
SPM_AT(spm_stats, discarded, 240);
SPM_AT(spm_stats, pages, 248);
SPM_AT(spm_stats, dirty, 256);
SPM_AT(spm_stats, loose, 264);
SPM_AT(spm_stats, maps, 272);
SPM_AT(spm_stats, regions, 280);
/* That far the first version went. */
SPM_AT(spm_stats, cow_copied, 288);
SPM_AT(spm_stats, cow_early, 296);
SPM_AT(spm_stats, cow_merged, 304);
SPM_AT(spm_stats, snapshots, 312);
SPM_AT(spm_stats, forks, 320);
SPM_AT(spm_stats, collapses, 328);
SPM_AT(spm_stats, objects, 336);
SPM_AT(spm_stats, links, 344);
SPM_AT(spm_stats, cleared, 352);
SPM_AT(spm_stats, wrprotects, 360);
SPM_AT(spm_stats, kept_dirty, 368);
SPM_AT(spm_stats, gone, 376);
SPM_AT(spm_stats, grain_2m, 384);
SPM_AT(spm_stats, grain_4k, 392);
SPM_AT(spm_stats, accessed, 400);
SPM_AT(spm_stats, accessed_cleared, 408);
SPM_SIZE(spm_stats, 488);

SPM_AT(spm_snapshot, argsz, 0);
SPM_AT(spm_snapshot, flags, 4);
SPM_SIZE(spm_snapshot, 8);

SPM_AT(spm_policy, argsz, 0);
SPM_AT(spm_policy, flags, 4);
SPM_AT(spm_policy, pg_ps_enabled, 8);
SPM_AT(spm_policy, populate_threshold, 12);
SPM_AT(spm_policy, dirty_threshold, 16);
SPM_AT(spm_policy, prefault_pages, 20);
SPM_AT(spm_policy, cow_size, 24);
SPM_AT(spm_policy, dirty_grain, 28);
SPM_SIZE(spm_policy, 32);

SPM_AT(spm_page_range, start, 0);
SPM_AT(spm_page_range, end, 8);
SPM_SIZE(spm_page_range, 16);

SPM_AT(spm_scan, argsz, 0);
SPM_AT(spm_scan, flags, 4);
SPM_AT(spm_scan, start, 8);
SPM_AT(spm_scan, len, 16);
SPM_AT(spm_scan, vec, 24);
SPM_AT(spm_scan, vec_len, 32);
SPM_AT(spm_scan, since, 40);
SPM_AT(spm_scan, pad, 44);
SPM_AT(spm_scan, next, 48);
SPM_AT(spm_scan, count, 56);
SPM_AT(spm_scan, pages, 64);
SPM_SIZE(spm_scan, 72);

SPM_AT(spm_node_figures, node, 0);
SPM_AT(spm_node_figures, pad, 4);
SPM_AT(spm_node_figures, pages, 8);
SPM_AT(spm_node_figures, loose, 16);
SPM_AT(spm_node_figures, reserv_live, 24);
SPM_AT(spm_node_figures, reserv_full, 32);
SPM_AT(spm_node_figures, reserv_part, 40);
SPM_AT(spm_node_figures, reserv_empty, 48);
SPM_SIZE(spm_node_figures, 56);

SPM_AT(spm_nodes, argsz, 0);
SPM_AT(spm_nodes, flags, 4);
SPM_AT(spm_nodes, vec, 8);
SPM_AT(spm_nodes, vec_len, 16);
SPM_AT(spm_nodes, count, 24);
SPM_SIZE(spm_nodes, 32);

/* Command numbers hold the size of what they were published with. */
_Static_assert(SPM_IOC_INFO == 0xc040b900, "number of INFO");
_Static_assert(SPM_IOC_SET_SIZE == 0x4010b901, "number of SET_SIZE");
_Static_assert(SPM_IOC_ADVISE == 0x4020b902, "number of ADVISE");
_Static_assert(SPM_IOC_MINCORE == 0x4020b903, "number of MINCORE");
_Static_assert(SPM_IOC_STATS == 0xb904, "number of STATS");
_Static_assert(SPM_IOC_SNAPSHOT == 0x4008b905, "number of SNAPSHOT");
_Static_assert(SPM_IOC_SET_POLICY == 0x4020b906, "number of SET_POLICY");
_Static_assert(SPM_IOC_GET_POLICY == 0xc020b907, "number of GET_POLICY");
_Static_assert(SPM_IOC_GET_DIRTY == 0xc048b908, "number of GET_DIRTY");
_Static_assert(SPM_IOC_GET_REFERENCED == 0xc048b909, "number of GET_REFERENCED");
_Static_assert(SPM_IOC_NODES == 0xc020b90a, "number of NODES");

#endif /* SPM_ABI_LAYOUT_H */
