// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a region that asks for its memory in advance has it, or is told so
 * at once: charged to whoever asks, not to be reclaimed, there for every slot
 * however fragmented memory is by then, and back with the region.
 * Guards against: success that turns into a kill or SIGBUS at first touch; half
 * of a request that failed; old bytes in a block that is used again.
 *
 * spm-test: timeout=240
 */
#include "spm_sync.h"
#include "spm_fail.h"

#define SLOTS	6
#define LEN	(SLOTS * SPM_SLOT)
#define CGROUP	"/sys/fs/cgroup/superpmap-advance"

static int reserve(int fd, uint64_t size)
{
	struct spm_set_size a = { .argsz = sizeof(a),
				  .flags = SPM_SIZE_RESERVE, .size = size };

	return ioctl(fd, SPM_IOC_SET_SIZE, &a) ? -errno : 0;
}

static uint32_t info_flags(int fd)
{
	struct spm_info info;

	spm_info(fd, &info);
	return info.flags;
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		spm_die("cannot write %s to %s", text, path);
	close(fd);
}

TEST_F(spm, blocks_wait_for_their_slots)
{
	struct spm_stats before, now;
	int fd = spm_open();
	char *p;

	spm_stats(fd, &before);
	EXPECT_EQ(0, info_flags(fd) & SPM_INFO_RESERVED);
	ASSERT_EQ(0, reserve(fd, LEN));
	EXPECT_NE(0, info_flags(fd) & SPM_INFO_RESERVED);
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_allocated));
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_live));
	p = spm_map(fd, LEN, 0, SPM_RW);
	p[0] = 1;
	EXPECT_EQ(SLOTS - 1, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(1, spm_delta(fd, &before, reserv_live));
	EXPECT_EQ(-1, spm_nonzero(p + SPM_PAGE, SPM_SLOT_PAGES * SLOTS - 1));
	spm_fill(p, 0, SLOTS * SPM_SLOT_PAGES, 1);
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_allocated));
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(0, spm_consistent(fd));

	/* Discarded, they stay the region's; and read as zeros again. */
	ASSERT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_DISCARD));
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_freed));
	EXPECT_EQ(-1, spm_nonzero(p, SPM_SLOT_PAGES * SLOTS));
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_allocated));

	/* Smaller, and then without. */
	ASSERT_EQ(0, reserve(fd, 2 * SPM_SLOT));
	spm_stats(fd, &now);
	EXPECT_EQ(2, now.reserv_pool + now.reserv_live);
	ASSERT_EQ(0, spm_advise(fd, p, 2 * SPM_SLOT, SPM_ADV_DISCARD));
	EXPECT_EQ(2, spm_delta(fd, &before, reserv_pool));
	ASSERT_EQ(0, spm_set_size(fd, LEN));
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(0, info_flags(fd) & SPM_INFO_RESERVED);
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, reserv_freed));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* Reclaim has nothing to win here. */
TEST_F(spm, not_broken_for_others)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p;

	ASSERT_EQ(0, reserve(fd, LEN));
	p = spm_map(fd, LEN, 0, SPM_RW);
	spm_fill(p, 0, 10, 1);
	spm_stats(fd, &before);
	write_to("/proc/sys/vm/drop_caches", "2");
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_broken));
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(-1, spm_wrong(p, 0, 10, 1));
	EXPECT_EQ(0, spm_consistent(fd));
}

/* A snapshot takes them along; the other side goes on with ordinary memory. */
TEST_F(spm, snapshots)
{
	struct spm_stats before;
	int fd = spm_open(), snap;
	char *p, *s;

	ASSERT_EQ(0, reserve(fd, LEN));
	p = spm_map(fd, LEN, 0, SPM_RW);
	spm_fill(p, 0, 2 * SPM_SLOT_PAGES, 1);
	snap = spm_snapshot(fd);
	EXPECT_EQ(0, info_flags(snap) & SPM_INFO_RESERVED);
	s = spm_map(snap, LEN, 0, SPM_RW);
	EXPECT_EQ(-1, spm_wrong(s, 0, 2 * SPM_SLOT_PAGES, 1));
	spm_stats(fd, &before);
	spm_fill(p, 0, 2 * SPM_SLOT_PAGES, 2);
	EXPECT_EQ(-1, spm_wrong(s, 0, 2 * SPM_SLOT_PAGES, 1));
	/* What was left in the pool serves the source. */
	EXPECT_EQ(-2, spm_delta(fd, &before, reserv_pool));
	spm_unmap(s, LEN);
	close(snap);
	EXPECT_EQ(-1, spm_wrong(p, 0, 2 * SPM_SLOT_PAGES, 2));
	EXPECT_EQ(0, spm_all_consistent());
	ASSERT_EQ(0, spm_advise_off(fd, 0, LEN, SPM_ADV_DISCARD));
	/* What the snapshot took is gone with it; it can be had again. */
	spm_stats(fd, &before);
	EXPECT_EQ(SLOTS - 2, before.reserv_pool);
	ASSERT_EQ(0, reserve(fd, LEN));
	EXPECT_EQ(2, spm_delta(fd, &before, reserv_pool));
	EXPECT_EQ(0, spm_all_consistent());
}

/* All or nothing. */
TEST_F(spm, too_much_is_refused_at_once)
{
	int fd = spm_open(), other = spm_open();
	struct spm_stats before;
	long free = spm_available();
	struct spm_info info;

	spm_stats(fd, &before);
	ASSERT_EQ(0, reserve(fd, 2 * SPM_SLOT));
	EXPECT_EQ(-ENOMEM, reserve(fd, 1UL << 45));
	EXPECT_EQ(2, spm_delta(fd, &before, reserv_pool));
	spm_info(fd, &info);
	EXPECT_EQ(2 * SPM_SLOT, info.size);
	EXPECT_NE(0, info.flags & SPM_INFO_RESERVED);
	EXPECT_EQ(-ENOMEM, reserve(other, 1UL << 45));
	EXPECT_EQ(0, info_flags(other) & (SPM_INFO_RESERVED |
					  SPM_INFO_SIZE_FIXED));
	close(fd);
	close(other);
	EXPECT_LT(free * 9 / 10, spm_available());
}

static int in_cgroup(void *arg)
{
	int fd = *(int *)arg;

	write_to(CGROUP "/cgroup.procs", "0");
	spm_child_check(reserve(fd, 4 * SPM_SLOT) == 0, "four fit");
	spm_child_check(reserve(fd, 100 * SPM_SLOT) == -ENOMEM, "100 do not");
	return 0;
}

/* Against a limit: an errno, and nobody is killed. */
TEST_F(spm, a_limit_refuses_at_once)
{
	struct spm_stats before;
	int fd = spm_open(), i;

	rmdir(CGROUP);
	if (mkdir(CGROUP, 0755) || access(CGROUP "/memory.max", F_OK)) {
		rmdir(CGROUP);
		SKIP(return, "no memory cgroups");
	}
	write_to(CGROUP "/memory.max", "33554432");
	spm_stats(fd, &before);
	EXPECT_EQ(0, spm_fork_run(in_cgroup, &fd));
	EXPECT_EQ(4, spm_delta(fd, &before, reserv_pool));
	close(fd);
	for (i = 0; i < 100 && rmdir(CGROUP); i++)
		usleep(100000);
	EXPECT_GT(100, i);
}

/* Whatever the state of memory by then. */
TEST_F(spm, fragmentation_later_does_not_matter)
{
	struct spm_stats before;
	int fd = spm_open();
	char *p;

	if (!spm_fail_available())
		SKIP(return, "no fault injection in this kernel");
	ASSERT_EQ(0, reserve(fd, LEN));
	p = spm_map(fd, LEN, 0, SPM_RW);
	spm_stats(fd, &before);
	spm_fail_huge_setup();
	spm_fail_huge_for_me(true);
	spm_fill(p, 0, SLOTS * SPM_SLOT_PAGES, 1);
	spm_fail_huge_off();
	EXPECT_EQ(0, spm_delta(fd, &before, reserv_unavailable));
	EXPECT_EQ(SLOTS, spm_delta(fd, &before, promotions));
	EXPECT_EQ(0, spm_consistent(fd));
}

SPM_TEST_MAIN
