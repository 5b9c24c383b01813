// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory comes from the node that the policy of the mapping, else that
 * of the task, or its cpuset, names: for reservations, for single pages where no
 * block can be had, and for copies.  All pages of a reservation lie on one node.
 * A request to move what is there leaves all of it where and as it is.
 * Guards against: policies that are lost on the way to the allocator, and pages
 * that are lost or moved away under 2 MB entries by the migration code.
 *
 * spm-test: kernels=debug
 */
#include "spm_cgroup.h"
#include "spm_fail.h"
#include "spm_numa.h"

#define SLOTS	4
#define LEN	(SLOTS * SPM_SLOT)
#define PAGES	(SLOTS * SPM_SLOT_PAGES)
#define CGROUP	SPM_CGROUP_ROOT "superpmap-numa"

/* A region of its own, bound to @nodes before anything is touched. */
static char *bound(int *fd, int mode, unsigned long nodes)
{
	char *p;

	*fd = spm_open();
	p = spm_map(*fd, LEN, 0, SPM_RW);
	if (spm_bind_vma(p, LEN, mode, nodes, 0))
		spm_die("mbind");
	return p;
}

TEST_F(spm, policy_of_the_mapping)
{
	static const int modes[] = { MPOL_BIND, MPOL_PREFERRED };
	struct spm_node_figures f[2];
	unsigned int m;
	int node, fd;
	char *p;

	spm_need_nodes();
	for (m = 0; m < ARRAY_SIZE(modes); m++) {
		for (node = 0; node < 2; node++) {
			p = bound(&fd, modes[m], 1UL << node);
			/* The task's policy is another one, and does not count. */
			spm_bind_task(MPOL_BIND, 2 - node);
			spm_fill(p, 0, SPM_SLOT_PAGES, 1);
			p[SPM_SLOT + 7 * SPM_PAGE] = 1;
			EXPECT_EQ(0, p[2 * SPM_SLOT + 9 * SPM_PAGE]);
			spm_bind_task(MPOL_DEFAULT, 0);
			EXPECT_EQ(SPM_SLOT_PAGES, spm_count_2m(fd, p, SPM_SLOT));
			EXPECT_TRUE(spm_all_on(p, SPM_SLOT_PAGES, node));
			EXPECT_TRUE(spm_all_on(p + SPM_SLOT + 7 * SPM_PAGE, 1, node));
			EXPECT_TRUE(spm_all_on(p + 2 * SPM_SLOT + 9 * SPM_PAGE, 1,
					       node));
			EXPECT_EQ(1, spm_nodes(fd, f, 2));
			EXPECT_EQ(node, f[0].node);
			EXPECT_EQ(SPM_SLOT_PAGES + 2, f[0].pages);
			EXPECT_EQ(0, f[0].loose);
			EXPECT_EQ(3, f[0].reserv_live);
			EXPECT_EQ(1, f[0].reserv_full);
			EXPECT_EQ(2, f[0].reserv_part);
			EXPECT_EQ(2 * SPM_SLOT_PAGES - 2, f[0].reserv_empty);
			EXPECT_EQ(0, spm_consistent(fd));
			spm_unmap(p, LEN);
			close(fd);
		}
	}
}

TEST_F(spm, interleave_slot_by_slot)
{
	struct spm_node_figures f[2];
	long mapped, n, k, first = -1;
	int fd;
	char *p;

	spm_need_nodes();
	p = bound(&fd, MPOL_INTERLEAVE, 3);
	spm_fill(p, 0, PAGES, 1);
	for (k = 0; k < SLOTS; k++) {
		n = spm_on_node1(p + k * SPM_SLOT, SPM_SLOT_PAGES, &mapped);
		EXPECT_EQ(SPM_SLOT_PAGES, mapped);
		EXPECT_TRUE(n == 0 || n == SPM_SLOT_PAGES);
		if (first < 0)
			first = n;
		EXPECT_EQ(k % 2 ? SPM_SLOT_PAGES - first : first, n);
	}
	EXPECT_EQ(PAGES, spm_count_2m(fd, p, LEN));
	EXPECT_EQ(2, spm_nodes(fd, f, 2));
	for (k = 0; k < 2; k++) {
		EXPECT_EQ(k, f[k].node);
		EXPECT_EQ(SLOTS / 2, f[k].reserv_full);
		EXPECT_EQ(PAGES / 2, f[k].pages);
	}
	/* Less room than there are nodes: the count is right, the rest is not touched. */
	memset(f, 0xa5, sizeof(f));
	EXPECT_EQ(2, spm_nodes(fd, f, 1));
	EXPECT_EQ(0, f[0].node);
	EXPECT_EQ(0xa5a5a5a5, f[1].node);
	EXPECT_EQ(2, spm_nodes(fd, NULL, 0));
}

TEST_F(spm, where_the_answer_goes)
{
	struct spm_nodes a = { .argsz = sizeof(a), .vec_len = 2 };
	struct spm_node_figures *f;
	int fd = spm_open();
	char *p = spm_map(fd, LEN, 0, SPM_RW);

	/* Nothing to tell, so nothing is written. */
	EXPECT_EQ(0, ioctl(fd, SPM_IOC_NODES, &a));
	EXPECT_EQ(0, a.count);
	spm_touch_write(p, 3 * SPM_PAGE);
	EXPECT_EQ(-1, ioctl(fd, SPM_IOC_NODES, &a));
	EXPECT_EQ(EFAULT, errno);
	/* A page of the very slot that is looked at, which nobody has touched. */
	f = (void *)(p + 9 * SPM_PAGE);
	a.vec = (uintptr_t)f;
	EXPECT_EQ(0, ioctl(fd, SPM_IOC_NODES, &a));
	EXPECT_EQ(1, a.count);
	EXPECT_EQ(3, f->pages);
	EXPECT_EQ(SPM_SLOT_PAGES - 3, f->reserv_empty);
	EXPECT_EQ(1, spm_nodes(fd, NULL, 0));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* Two policies in one slot: who touches it first decides for all of it. */
TEST_F(spm, reservation_never_mixes_nodes)
{
	int fd, node;
	char *p;

	spm_need_nodes();
	for (node = 0; node < 2; node++) {
		p = bound(&fd, MPOL_BIND, 1);
		ASSERT_EQ(0, spm_bind_vma(p + SPM_SLOT / 2, SPM_SLOT / 2, MPOL_BIND,
					  2, 0));
		p[node ? SPM_SLOT - 1 : 0] = 1;
		spm_touch_write(p, SPM_SLOT);
		EXPECT_TRUE(spm_all_on(p, SPM_SLOT_PAGES, node));
		EXPECT_TRUE(spm_only_node(fd, node));
		EXPECT_EQ(0, spm_consistent(fd));
		spm_unmap(p, LEN);
		close(fd);
	}
}

TEST_F(spm, single_pages_instead)
{
	struct spm_node_figures f[2];
	long mapped;
	int fd, node;
	char *p;

	spm_need_nodes();
	ASSERT_TRUE(spm_fail_available());
	spm_fail_huge_setup();
	for (node = 0; node < 2; node++) {
		p = bound(&fd, MPOL_BIND, 1UL << node);
		spm_fail_huge_for_me(true);
		spm_fill(p, 0, 2 * SPM_SLOT_PAGES, 1);
		/* By offset, there is no mapping whose policy could count. */
		spm_bind_task(MPOL_BIND, 1UL << node);
		EXPECT_EQ(0, spm_advise_off(fd, 2 * SPM_SLOT, SPM_SLOT,
					    SPM_ADV_PREFAULT));
		spm_bind_task(MPOL_DEFAULT, 0);
		/* It is full, and would get a block otherwise. */
		spm_touch_read(p + 2 * SPM_SLOT, SPM_SLOT);
		spm_fail_huge_for_me(false);
		EXPECT_TRUE(spm_all_on(p, 3 * SPM_SLOT_PAGES, node));
		EXPECT_EQ(1, spm_nodes(fd, f, 2));
		EXPECT_EQ(node, f[0].node);
		EXPECT_EQ(3 * SPM_SLOT_PAGES, f[0].pages);
		EXPECT_EQ(3 * SPM_SLOT_PAGES, f[0].loose);
		EXPECT_EQ(0, f[0].reserv_live);
		EXPECT_EQ(0, spm_consistent(fd));
		spm_unmap(p, LEN);
		close(fd);
	}
	p = bound(&fd, MPOL_INTERLEAVE, 3);
	spm_fail_huge_for_me(true);
	spm_touch_write(p, SPM_SLOT);
	spm_fail_huge_off();
	EXPECT_EQ(SPM_SLOT_PAGES / 2, spm_on_node1(p, SPM_SLOT_PAGES, &mapped));
	EXPECT_EQ(2, spm_nodes(fd, f, 2));
	EXPECT_EQ(SPM_SLOT_PAGES / 2, f[1].loose);
}

TEST_F(spm, policy_of_the_task_and_prefault)
{
	int fd, node;
	char *p;

	spm_need_nodes();
	for (node = 0; node < 2; node++) {
		fd = spm_open();
		p = spm_map(fd, LEN, 0, SPM_RW);
		spm_bind_task(MPOL_BIND, 1UL << node);
		p[0] = 1;
		EXPECT_EQ(0, spm_advise(fd, p + SPM_SLOT, SPM_SLOT,
					SPM_ADV_PREFAULT));
		EXPECT_EQ(0, spm_advise_off(fd, 2 * SPM_SLOT, SPM_SLOT,
					    SPM_ADV_PREFAULT));
		EXPECT_EQ(0, spm_advise(fd, p + 3 * SPM_SLOT, SPM_SLOT,
					SPM_ADV_PROMOTE));
		spm_bind_task(MPOL_DEFAULT, 0);
		EXPECT_TRUE(spm_only_node(fd, node));
		spm_touch_read(p, LEN);
		EXPECT_TRUE(spm_all_on(p, PAGES, node));
		spm_unmap(p, LEN);
		close(fd);

		/* By address the mapping's policy counts, by offset the task's. */
		p = bound(&fd, MPOL_BIND, 1UL << node);
		spm_bind_task(MPOL_BIND, 2 - node);
		EXPECT_EQ(0, spm_advise(fd, p, SPM_SLOT, SPM_ADV_PREFAULT));
		EXPECT_EQ(0, spm_advise(fd, p + SPM_SLOT, SPM_SLOT,
					SPM_ADV_PROMOTE));
		EXPECT_TRUE(spm_only_node(fd, node));
		EXPECT_EQ(0, spm_advise_off(fd, 2 * SPM_SLOT, SPM_SLOT,
					    SPM_ADV_PREFAULT));
		spm_bind_task(MPOL_DEFAULT, 0);
		spm_touch_read(p, 3 * SPM_SLOT);
		EXPECT_TRUE(spm_all_on(p, 2 * SPM_SLOT_PAGES, node));
		EXPECT_TRUE(spm_all_on(p + 2 * SPM_SLOT, SPM_SLOT_PAGES, 1 - node));
		EXPECT_EQ(0, spm_consistent(fd));
		spm_unmap(p, LEN);
		close(fd);
	}
}

TEST_F(spm, copy_on_write)
{
	struct spm_node_figures f[2];
	int fd, image, node;
	char *p, *q;

	spm_need_nodes();
	for (node = 0; node < 2; node++) {
		p = bound(&fd, MPOL_BIND, 1UL << node);
		spm_fill(p, 0, PAGES, 1);
		q = spm_private(fd, LEN, 0, SPM_RW);
		ASSERT_EQ(0, spm_bind_vma(q, LEN, MPOL_BIND, 2 - node, 0));
		spm_touch_read(q, LEN);
		EXPECT_TRUE(spm_all_on(q, PAGES, node));
		spm_stamp(q + 5 * SPM_PAGE, 5, 2);
		EXPECT_TRUE(spm_all_on(q + 5 * SPM_PAGE, 1, 1 - node));
		EXPECT_EQ(2, spm_nodes(fd, f, 2));
		EXPECT_EQ(PAGES, f[node].pages);
		EXPECT_EQ(1, f[1 - node].pages);
		spm_touch_read(q, LEN);
		EXPECT_TRUE(spm_all_on(q, 5, node));
		EXPECT_TRUE(spm_all_on(q + 6 * SPM_PAGE, PAGES - 6, node));
		spm_unmap(q, LEN);

		/* Of a snapshot: what is stored after it is copied; it counts here. */
		image = spm_snapshot(fd);
		EXPECT_TRUE(spm_only_node(fd, node));
		EXPECT_EQ(0, spm_nodes(image, f, 2));
		ASSERT_EQ(0, spm_bind_vma(p, LEN, MPOL_BIND, 2 - node, 0));
		spm_stamp(p + SPM_SLOT, SPM_SLOT_PAGES, 3);
		EXPECT_TRUE(spm_all_on(p + SPM_SLOT, 1, 1 - node));
		EXPECT_EQ(2, spm_nodes(fd, f, 2));
		EXPECT_EQ(1, f[1 - node].pages);
		q = spm_map(image, LEN, 0, PROT_READ);
		EXPECT_EQ(-1, spm_wrong(q, 0, PAGES, 1));
		EXPECT_TRUE(spm_all_on(q, PAGES, node));
		EXPECT_EQ(0, spm_all_consistent());
		spm_unmap(q, LEN);
		spm_unmap(p, LEN);
		close(image);
		close(fd);
	}
}

struct in_cpuset {
	int fd, node;
};

static int touch_in_cpuset(void *arg)
{
	struct in_cpuset *c = arg;
	char *p = spm_map(c->fd, LEN, 0, SPM_RW);

	spm_cgroup_enter(CGROUP);
	spm_fill(p, 0, SPM_SLOT_PAGES, 1);
	spm_child_check(!spm_advise_off(c->fd, SPM_SLOT, SPM_SLOT,
					SPM_ADV_PREFAULT), "by offset");
	spm_fail_huge_for_me(true);
	spm_touch_write(p + 2 * SPM_SLOT, SPM_SLOT);
	spm_fail_huge_for_me(false);
	spm_touch_read(p, 3 * SPM_SLOT);
	spm_child_check(spm_all_on(p, 3 * SPM_SLOT_PAGES, c->node), "node %d",
			c->node);
	spm_child_check(spm_only_node(c->fd, c->node), "figures");
	return 0;
}

TEST_F(spm, cpuset)
{
	struct in_cpuset c;
	struct spm_stats s;

	spm_need_nodes();
	ASSERT_TRUE(spm_fail_available());
	spm_fail_huge_setup();
	for (c.node = 0; c.node < 2; c.node++) {
		spm_cgroup_make(CGROUP, "cpuset.mems", c.node ? "1" : "0");
		c.fd = spm_open();
		EXPECT_EQ(0, spm_fork_run(touch_in_cpuset, &c));
		spm_stats(c.fd, &s);
		EXPECT_EQ(SPM_SLOT_PAGES, s.loose);
		EXPECT_EQ(0, spm_consistent(c.fd));
		close(c.fd);
		spm_cgroup_remove(CGROUP);
	}
	spm_fail_huge_off();
}

/*
 * The kernel finds nothing of ours on its lists of pages that can move: it says
 * so where it is asked to be strict, and goes on else.
 */
TEST_F(spm, nothing_is_migrated)
{
	unsigned long from = 1, to = 2;
	void *where[2];
	int nodes[2] = { 1, 1 }, status[2] = { 0, 0 }, fd;
	long ret;
	char *p;

	spm_need_nodes();
	p = bound(&fd, MPOL_BIND, 1);
	spm_fill(p, 0, SPM_SLOT_PAGES, 1);
	spm_fill(p + SPM_SLOT, SPM_SLOT_PAGES, 10, 1);

	EXPECT_EQ(-EIO, spm_bind_vma(p, LEN, MPOL_BIND, 2,
				     MPOL_MF_MOVE | MPOL_MF_STRICT));
	EXPECT_EQ(0, spm_bind_vma(p, LEN, MPOL_BIND, 2, MPOL_MF_MOVE));
	EXPECT_EQ(0, spm_bind_vma(p, LEN, MPOL_BIND, 2, MPOL_MF_MOVE_ALL));
	where[0] = p;
	where[1] = p + SPM_SLOT;
	ret = syscall(SYS_move_pages, 0, 2, where, nodes, status, MPOL_MF_MOVE);
	EXPECT_LE(0, ret);
	EXPECT_EQ(-EBUSY, status[0]);
	EXPECT_EQ(-EBUSY, status[1]);
	EXPECT_LE(0, syscall(SYS_migrate_pages, 0, 64, &from, &to));

	EXPECT_TRUE(spm_all_on(p, SPM_SLOT_PAGES, 0));
	EXPECT_TRUE(spm_all_on(p + SPM_SLOT, 10, 0));
	EXPECT_EQ(SPM_SLOT_PAGES, spm_count_2m(fd, p, SPM_SLOT));
	EXPECT_EQ(-1, spm_wrong(p, 0, SPM_SLOT_PAGES + 10, 1));
	/* The policy is the new one for slots that nobody has touched. */
	p[2 * SPM_SLOT] = 1;
	EXPECT_TRUE(spm_all_on(p + 2 * SPM_SLOT, 1, 1));
	/* A slot that has a reservation gets its other pages from there. */
	p[SPM_SLOT + 20 * SPM_PAGE] = 1;
	EXPECT_TRUE(spm_all_on(p + SPM_SLOT + 20 * SPM_PAGE, 1, 0));
	EXPECT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
