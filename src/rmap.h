/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pmap operations on all mappings of a region.
 */
#ifndef SPM_RMAP_H
#define SPM_RMAP_H

#include "pmap.h"

void spm_rmap_init(struct spm_rmap *rmap, struct address_space *mapping);
void spm_rmap_destroy(struct spm_rmap *rmap);
void spm_rmap_remove_all(struct spm_rmap *rmap, pgoff_t slot,
			 unsigned int first, unsigned int end);
void spm_rmap_remove_write(struct spm_rmap *rmap, const struct spm_reserv *rv);
unsigned int spm_rmap_clear_modify(struct spm_rmap *rmap, struct spm_reserv *rv,
				   unsigned int first, unsigned int end);

#endif /* SPM_RMAP_H */
