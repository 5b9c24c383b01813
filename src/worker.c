// SPDX-License-Identifier: GPL-2.0
/*
 * The worker: once a second, within a budget, it does in idle time what would
 * cost a fault or an allocation later.  After Quicksilver (Zhu, Cox and Rixner,
 * "A Comprehensive Analysis of Superpage Management Mechanisms and Policies",
 * USENIX ATC 2020): fill reservations at the hot end, so that the next fault
 * maps 2 MB; and move what is in those at the cold end elsewhere, so that whole
 * blocks are free when they are wanted.  Besides, it gives blocks back to slots
 * that had to do without.
 *
 * Faults are not waited for: a slot that is locked is left for the next second.
 */
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "evacuate.h"
#include "reclaim.h"
#include "region.h"
#include "worker.h"

struct spm_worker_tunables spm_worker_tunables = {
	.fill = 64,
	.age = 10,
};

static struct task_struct *spm_worker;
static DECLARE_WAIT_QUEUE_HEAD(spm_worker_wait);

/* Populate the rest of a slot.  Returns how many pages that were. */
static unsigned int spm_worker_fill(struct spm_object *obj,
				    struct spm_reserv *rv)
{
	unsigned int i, n = 0;

	for_each_clear_bit(i, rv->popmap, SPM_SLOT_PAGES) {
		/* What shows through is not ours to hide. */
		if (spm_object_page(obj, rv->index, i))
			continue;
		if (spm_reserv_populate(rv, i, NULL, 0, SPM_POPULATE_WORKER))
			break;
		n++;
	}
	spm_count_n(obj->owner.counters, worker_filled, n);
	return n;
}

/* A slot of a region, locked.  Returns how many pages were cleared or copied. */
static unsigned int spm_worker_slot(struct spm_region *r,
				    struct spm_reserv *rv)
{
	pgoff_t end = (rv->index + 1) << SPM_SLOT_SHIFT;
	union spm_reserv_state s = spm_reserv_state(rv);
	u32 idle = (u32)jiffies - s.tick;

	/* The size cannot shrink below a page of the slot while we hold it. */
	if (end > spm_region_pages(r) || !spm_region_superpages(r))
		return 0;
	if (s.flags & SPM_RV_LOOSE)
		return spm_reassemble_due(rv) &&
		       !spm_reassemble(r->object, rv, NULL, 0,
				       SPM_EVACUATE_WORKER) ?
		       SPM_SLOT_PAGES : 0;
	if (!spm_policy_fill_idle(s.popcnt, READ_ONCE(spm_worker_tunables.fill),
				  idle, 2 * HZ))
		return 0;
	return spm_worker_fill(r->object, rv);
}

/* Returns how many pages were cleared or copied. */
static unsigned long spm_worker_region(struct spm_region *r,
				       unsigned long budget)
{
	struct spm_slot *slot;
	unsigned long index, done = 0;

	xa_for_each(&r->object->slots, index, slot) {
		if (mutex_trylock(slot->lock)) {
			if (slot->reserv)
				done += spm_worker_slot(r, slot->reserv);
			mutex_unlock(slot->lock);
		}
		if (done >= budget || kthread_should_stop())
			break;
		cond_resched();
	}
	return done;
}

/**
 * spm_worker_pass() - one second's work
 * @budget: pages to clear or to copy, more or less
 *
 * Context: process context, may sleep.
 * Return: how many were.
 */
unsigned long spm_worker_pass(unsigned long budget)
{
	u32 age = READ_ONCE(spm_worker_tunables.age) * HZ;
	struct spm_region *r = NULL;
	unsigned long done = 0;
	int nid;

	for_each_node_state(nid, N_MEMORY)
		if (done < budget)
			done += spm_reclaim_cold(nid, budget - done, age);
	while ((r = spm_region_next(r))) {
		if (done >= budget) {
			spm_region_put(r);
			break;
		}
		done += spm_worker_region(r, budget - done);
	}
	return done;
}

static int spm_worker_thread(void *unused)
{
	set_user_nice(current, MAX_NICE);
	while (!kthread_should_stop()) {
		unsigned long rate = READ_ONCE(spm_worker_tunables.rate);

		if (!rate) {
			wait_event_idle(spm_worker_wait,
					READ_ONCE(spm_worker_tunables.rate) ||
					kthread_should_stop());
			continue;
		}
		spm_worker_pass(rate << (20 - PAGE_SHIFT));
		wait_event_idle_timeout(spm_worker_wait, kthread_should_stop(),
					HZ);
	}
	return 0;
}

/**
 * spm_worker_wake() - a tunable changed
 *
 * Context: any.
 */
void spm_worker_wake(void)
{
	wake_up(&spm_worker_wait);
}

/**
 * spm_worker_init() - start the worker, which sleeps as long as its rate is 0
 *
 * Context: module init, regions exist.
 * Return: 0 or a negative errno.
 */
int spm_worker_init(void)
{
	struct task_struct *t = kthread_run(spm_worker_thread, NULL,
					    "superpmap_worker");

	if (IS_ERR(t))
		return PTR_ERR(t);
	spm_worker = t;
	return 0;
}

/**
 * spm_worker_exit() - stop the worker
 *
 * Context: module exit, before regions go.
 */
void spm_worker_exit(void)
{
	kthread_stop(spm_worker);
}
