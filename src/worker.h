/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is done to reservations in idle time.
 */
#ifndef SPM_WORKER_H
#define SPM_WORKER_H

/**
 * struct spm_worker_tunables - what the worker does, if anything
 * @rate:	MB to clear or to copy in a second, at most; 0: it sleeps
 * @fill:	populated pages, 1..512, at which the rest of a reservation that
 *		changes is populated; 512: never
 * @age:	seconds without a change after which a partly filled reservation
 *		is broken
 */
struct spm_worker_tunables {
	unsigned int rate;
	unsigned int fill;
	unsigned int age;
};

#define SPM_WORKER_RATE_MAX	65536
#define SPM_WORKER_AGE_MAX	86400

extern struct spm_worker_tunables spm_worker_tunables;

int spm_worker_init(void);
void spm_worker_exit(void);
void spm_worker_wake(void);
unsigned long spm_worker_pass(unsigned long budget);

#endif /* SPM_WORKER_H */
