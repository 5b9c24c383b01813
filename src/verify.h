/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Checking the module's books against the page tables.
 */
#ifndef SPM_VERIFY_H
#define SPM_VERIFY_H

struct seq_file;

unsigned long spm_verify(struct seq_file *m);

#endif /* SPM_VERIFY_H */
