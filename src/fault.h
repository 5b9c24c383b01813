/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Faults: how a page comes to be, and which entry maps it.
 */
#ifndef SPM_FAULT_H
#define SPM_FAULT_H

#include "map.h"

extern const struct vm_operations_struct spm_vm_ops;

void spm_fault_fill(const struct spm_place *pl, struct spm_reserv *rv,
		    enum spm_populate_cause cause);

#endif /* SPM_FAULT_H */
