// SPDX-License-Identifier: GPL-2.0
/*
 * SPM_IOC_NODES: on which NUMA nodes the memory of a region lies.
 *
 * Found by a walk, and not counted: a counter for each node would cost every
 * fault, and hardly anybody asks.
 */
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "nodes.h"

static void spm_nodes_add(struct spm_node_figures *f, const struct spm_reserv *rv)
{
	unsigned int n = spm_reserv_popcnt(rv), i;

	if (spm_reserv_loose(rv)) {
		for_each_set_bit(i, rv->popmap, SPM_SLOT_PAGES) {
			int nid = page_to_nid(spm_reserv_page(rv, i));

			f[nid].pages++;
			f[nid].loose++;
		}
		return;
	}
	f += rv->nid;
	f->pages += n;
	f->reserv_live++;
	f->reserv_full += spm_reserv_full(rv);
	f->reserv_part += n && !spm_reserv_full(rv);
	f->reserv_empty += SPM_SLOT_PAGES - n;
}

static int spm_nodes_object(struct spm_node_figures *f, struct spm_object *obj)
{
	struct spm_slot *slot;
	unsigned long index;

	xa_for_each(&obj->slots, index, slot) {
		if (mutex_lock_killable(slot->lock))
			return -EINTR;
		if (slot->reserv)
			spm_nodes_add(f, slot->reserv);
		mutex_unlock(slot->lock);
		cond_resched();
	}
	return 0;
}

/*
 * All objects that count for the region.  The family's lock keeps them there, and
 * keeps reservations from moving between them during the walk.
 */
static int spm_nodes_family(struct spm_node_figures *f, struct spm_region *r)
{
	struct spm_family *family = r->object->family;
	struct spm_object *obj;
	int err = 0;

	if (mutex_lock_killable(&family->lock))
		return -EINTR;
	list_for_each_entry(obj, &family->objects, link) {
		if (obj->owner.counters != spm_region_counters(r))
			continue;
		err = spm_nodes_object(f, obj);
		if (err)
			break;
	}
	mutex_unlock(&family->lock);
	return err;
}

/* Nodes that have something, to the front; how many. */
static unsigned int spm_nodes_pack(struct spm_node_figures *f)
{
	unsigned int n = 0;
	int nid;

	for (nid = 0; nid < nr_node_ids; nid++) {
		if (!f[nid].pages && !f[nid].reserv_live)
			continue;
		f[n] = f[nid];
		f[n++].node = nid;
	}
	return n;
}

/**
 * spm_get_nodes() - SPM_IOC_NODES
 * @r:	region of the descriptor
 * @a:	arguments, flags checked; the answer
 *
 * A snapshot slot by slot; faults and requests go on meanwhile, snapshots and
 * forks of the family wait.
 *
 * Context: process context, may sleep, no lock held.
 * Return: 0 or a negative errno as the user interface documents it.
 */
int spm_get_nodes(struct spm_region *r, struct spm_nodes *a)
{
	struct spm_node_figures *f;
	size_t len;
	int err;

	f = kvcalloc(nr_node_ids, sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	err = spm_nodes_family(f, r);
	if (!err) {
		a->count = spm_nodes_pack(f);
		len = min(a->count, a->vec_len) * sizeof(*f);
		if (len && copy_to_user(u64_to_user_ptr(a->vec), f, len))
			err = -EFAULT;
	}
	kvfree(f);
	return err;
}
