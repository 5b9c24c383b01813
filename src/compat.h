/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels and configurations, and nowhere else.
 *
 * The Makefile checks that the kernel exports what the module cannot do
 * without.  Where two supported kernels spell the same thing differently,
 * Kbuild compiles a probe and sets SPM_HAVE_*, and this file turns the result
 * into one spelling for the rest of the module.
 */
#ifndef SPM_COMPAT_H
#define SPM_COMPAT_H

#include <linux/mm.h>
#include <linux/slab.h>

/*
 * With page-table locks that do not fit into struct ptdesc (lock debugging),
 * pagetable_dtor() calls ptlock_free(), which the kernel does not export.  The
 * lock is a slab object there; kfree() takes those.  One file defines it.
 */
#if defined(CONFIG_SPLIT_PTE_PTLOCKS) && ALLOC_SPLIT_PTLOCKS
#define SPM_DEFINE_PTLOCK_FREE						\
	void ptlock_free(struct ptdesc *ptdesc)				\
	{								\
		kfree(ptdesc->ptl);					\
	}
#else
#define SPM_DEFINE_PTLOCK_FREE
#endif

#endif /* SPM_COMPAT_H */
