/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Locks with names, as lockdep and /proc/lock_stat show them.
 *
 * The kernel's own initialisers take the expression for a name: the slot locks
 * would all be called "lock", and those of our xarrays as everybody's.  With
 * these, the lock classes of the module are those that begin with "spm_".
 */
#ifndef SPM_LOCKS_H
#define SPM_LOCKS_H

#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/xarray.h>

#define spm_mutex_init(lock, name)					\
do {									\
	static struct lock_class_key __key;				\
									\
	__mutex_init(lock, "spm_" name, &__key);			\
} while (0)

#define spm_xa_init(xa, name)						\
do {									\
	static struct lock_class_key __key;				\
									\
	xa_init(xa);							\
	lockdep_set_class_and_name(&(xa)->xa_lock, &__key, "spm_" name); \
} while (0)

#endif /* SPM_LOCKS_H */
