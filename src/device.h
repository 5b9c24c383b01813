/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device nodes.
 */
#ifndef SPM_DEVICE_H
#define SPM_DEVICE_H

#include <linux/types.h>

/* Persistent regions, at most; each has a device node. */
#define SPM_MAX_REGIONS	64

int spm_device_init(const loff_t *sizes, unsigned int n);
void spm_device_exit(void);

#endif /* SPM_DEVICE_H */
