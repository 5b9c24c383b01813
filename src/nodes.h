/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SPM_IOC_NODES: on which NUMA nodes the memory of a region lies.
 */
#ifndef SPM_NODES_H
#define SPM_NODES_H

#include "region.h"

int spm_get_nodes(struct spm_region *r, struct spm_nodes *a);

#endif /* SPM_NODES_H */
