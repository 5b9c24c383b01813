// SPDX-License-Identifier: GPL-2.0
/*
 * Property: nothing outside the region can be reached: not by offset, not by
 * length, not by growing or duplicating a mapping, not after the region has
 * shrunk; and offsets are never cut to fewer bits than they have.
 *
 * Kind of bug: the page offset is checked when the mapping is made and not
 * when it is touched; sums that overflow; 64-bit sizes held in 32 bits.
 */
#include "spm_test.h"

#define SEED	4

/* Without the C library's own checks of the offset. */
static void *raw_mmap(int fd, size_t len, uint64_t off)
{
	return (void *)syscall(SYS_mmap, NULL, len, SPM_RW, MAP_SHARED, fd,
			       off);
}

TEST_F(spm, offset_plus_length_overflows)
{
	int fd = spm_open();
	static const struct {
		uint64_t off;
		size_t len;
	} refused[] = {
		{ 1ULL << 63, SPM_PAGE },
		{ (1ULL << 63) - SPM_PAGE, SPM_PAGE },
		{ (1ULL << 63) - SPM_PAGE, 2 * SPM_PAGE },
		{ (1ULL << 63) - SPM_SLOT, 2 * SPM_SLOT },
		{ (1ULL << 63) + SPM_SLOT, SPM_SLOT },
		{ -SPM_PAGE, SPM_PAGE },
		{ -SPM_PAGE, 2 * SPM_PAGE },
		{ -SPM_SLOT, 2 * SPM_SLOT },
	};
	struct spm_info info;
	unsigned int i;
	void *p;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		p = raw_mmap(fd, refused[i].len, refused[i].off);
		ASSERT_EQ(MAP_FAILED, p) {
			TH_LOG("case %u", i);
		}
		ASSERT_EQ(EOVERFLOW, errno) {
			TH_LOG("case %u", i);
		}
	}
	/* What failed must not have grown the region. */
	spm_info(fd, &info);
	ASSERT_EQ(0, info.size);
	ASSERT_EQ(0, lseek(fd, 0, SEEK_END));
}

/* Every boundary at which a too narrow type would come back to page 0. */
TEST_F(spm, offsets_are_not_truncated)
{
	static const uint64_t offs[] = {
		0,
		(1ULL << 31) - SPM_PAGE,
		1ULL << 31,
		(1ULL << 32) - SPM_PAGE,
		1ULL << 32,
		1ULL << 33,
		1ULL << 41,		/* slot number 2^20 */
		1ULL << 43,		/* page number 2^31 */
		(1ULL << 44) - SPM_PAGE,
		1ULL << 44,		/* page number 2^32 */
		1ULL << 53,		/* slot number 2^32 */
		1ULL << 56,		/* page number 2^44 */
		1ULL << 62,
		(1ULL << 63) - 2 * SPM_PAGE,
	};
	char *map[ARRAY_SIZE(offs)];
	int fd = spm_open();
	struct spm_stats s;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(offs); i++) {
		map[i] = raw_mmap(fd, SPM_PAGE, offs[i]);
		ASSERT_NE(MAP_FAILED, map[i]) {
			TH_LOG("offset %#llx: errno %d",
			       (unsigned long long)offs[i], errno);
		}
		ASSERT_EQ(-1, spm_nonzero(map[i], 1)) {
			TH_LOG("offset %#llx", (unsigned long long)offs[i]);
		}
		spm_stamp(map[i], offs[i] / SPM_PAGE, SEED);
	}
	for (i = 0; i < ARRAY_SIZE(offs); i++) {
		ASSERT_TRUE(spm_stamped(map[i], offs[i] / SPM_PAGE, SEED)) {
			TH_LOG("offset %#llx", (unsigned long long)offs[i]);
		}
	}
	spm_stats(fd, &s);
	ASSERT_EQ(ARRAY_SIZE(offs), s.pages);
	ASSERT_EQ(INT64_MAX - (off_t)SPM_PAGE + 1, lseek(fd, 0, SEEK_END));

	/* One call over all of it must not take a step for each empty slot. */
	ASSERT_EQ(0, spm_advise_off(fd, 0, (1ULL << 63) - SPM_PAGE,
				    SPM_ADV_DISCARD));
	for (i = 0; i < ARRAY_SIZE(offs); i++) {
		ASSERT_EQ(-1, spm_nonzero(map[i], 1)) {
			TH_LOG("offset %#llx", (unsigned long long)offs[i]);
		}
	}
	ASSERT_EQ(0, spm_set_size(fd, SPM_PAGE));
	spm_stats(fd, &s);
	ASSERT_EQ(1, s.pages);
	ASSERT_EQ(SIGBUS, spm_try_read(map[1]));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, touch_beyond_a_fixed_size)
{
	int fd = spm_open();
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT + SPM_PAGE));
	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, spm_try_write(map + SPM_SLOT, 1));
	ASSERT_EQ(0, spm_try_write(map + SPM_SLOT + SPM_PAGE - 1, 1));
	ASSERT_EQ(SIGBUS, spm_try_write(map + SPM_SLOT + SPM_PAGE, 1));
	ASSERT_EQ(SIGBUS, spm_try_read(map + SPM_SLOT + SPM_PAGE));
	ASSERT_EQ(SIGBUS, spm_try_read(map + 2 * SPM_SLOT));
	ASSERT_EQ(SIGBUS, spm_try_write(map + 4 * SPM_SLOT - 1, 1));
	/* The last page works after all these refusals, and is the only one. */
	map[SPM_SLOT] = 2;
	ASSERT_EQ(1, spm_count(fd, map, 4 * SPM_SLOT, SPM_MINCORE_INCORE,
			       SPM_MINCORE_INCORE));
	/* A mapping wholly beyond is allowed and useless. */
	map = spm_map(fd, SPM_SLOT, 8 * SPM_SLOT, SPM_RW);
	ASSERT_EQ(SIGBUS, spm_try_read(map));
	ASSERT_EQ(SIGBUS, spm_try_write(map + SPM_SLOT - 1, 1));
	ASSERT_EQ((off_t)(SPM_SLOT + SPM_PAGE), lseek(fd, 0, SEEK_END));
}

TEST_F(spm, touch_beyond_a_persistent_region)
{
	struct spm_info info;
	char *map;
	int fd;

	if (access(SPM_NODE "0", F_OK))
		SKIP(return, "no persistent region");
	fd = spm_open_persistent(0);
	spm_info(fd, &info);
	map = spm_map(fd, 2 * SPM_SLOT, info.size - SPM_SLOT, SPM_RW);
	ASSERT_EQ(0, spm_try_write(map + SPM_SLOT - 1, 1));
	ASSERT_EQ(SIGBUS, spm_try_write(map + SPM_SLOT, 1));
	ASSERT_EQ(SIGBUS, spm_try_read(map + 2 * SPM_SLOT - 1));
	ASSERT_EQ((off_t)info.size, lseek(fd, 0, SEEK_END));
}

/* VM_DONTEXPAND: EFAULT (check_prep_vma() in mm/mremap.c). */
TEST_F(spm, mremap_neither_grows_nor_duplicates)
{
	int fd = spm_open();
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(MAP_FAILED, mremap(map, SPM_SLOT, 2 * SPM_SLOT,
				     MREMAP_MAYMOVE));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(MAP_FAILED, mremap(map, SPM_SLOT, SPM_SLOT + SPM_PAGE, 0));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(MAP_FAILED, mremap(map, 0, SPM_SLOT, MREMAP_MAYMOVE));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(MAP_FAILED, mremap(map + SPM_PAGE, 0, SPM_PAGE,
				     MREMAP_MAYMOVE));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(MAP_FAILED, mremap(map, SPM_SLOT, SPM_SLOT,
				     MREMAP_MAYMOVE | MREMAP_DONTUNMAP));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	ASSERT_EQ((off_t)SPM_SLOT, lseek(fd, 0, SEEK_END));
	ASSERT_EQ(0, spm_consistent(fd));
}

struct shrink {
	int fd;
	int to_child;
	int to_parent;
};

static int shrunk_child(void *arg)
{
	struct shrink *s = arg;
	size_t keep = SPM_SLOT + 3 * SPM_PAGE;
	char *map = spm_map(s->fd, 2 * SPM_SLOT, 0, SPM_RW);
	char c = 0;

	/* Two 2 MB entries of its own, one direct fault each. */
	spm_touch_read(map, 2 * SPM_SLOT);
	spm_child_check(spm_count_2m(s->fd, map, 2 * SPM_SLOT) == 1024, "%ld",
			spm_count_2m(s->fd, map, 2 * SPM_SLOT));
	if (write(s->to_parent, &c, 1) != 1 || read(s->to_child, &c, 1) != 1)
		return 1;
	/* Shrunk now. */
	spm_child_check(spm_try_read(map + keep) == SIGBUS, "page read");
	spm_child_check(spm_try_write(map + 2 * SPM_SLOT - 1, 1) == SIGBUS,
			"page written");
	spm_child_check(spm_wrong(map, 0, keep / SPM_PAGE, SEED) == -1,
			"data below the new end");
	if (write(s->to_parent, &c, 1) != 1 || read(s->to_child, &c, 1) != 1)
		return 1;
	/* Grown again. */
	spm_child_check(spm_nonzero(map + keep, 509) == -1, "old data");
	spm_child_check(spm_wrong(map, 0, keep / SPM_PAGE, SEED) == -1,
			"data below the old end");
	return 0;
}

TEST_F(spm, shrink_while_mapped)
{
	size_t keep = SPM_SLOT + 3 * SPM_PAGE;
	int down[2], up[2], fd = spm_open();
	struct shrink s = { .fd = fd };
	struct spm_stats st;
	pid_t pid;
	char *map, c = 0;

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, 2 * SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, pipe(down));
	ASSERT_EQ(0, pipe(up));
	s.to_child = down[0];
	s.to_parent = up[1];
	pid = spm_fork(shrunk_child, &s);
	close(up[1]);
	ASSERT_EQ(1, read(up[0], &c, 1));

	ASSERT_EQ(0, spm_set_size(fd, keep));
	ASSERT_EQ(SIGBUS, spm_try_read(map + keep));
	ASSERT_EQ(SIGBUS, spm_try_write(map + keep, 1));
	ASSERT_EQ(SIGBUS, spm_try_read(map + 2 * SPM_SLOT - 1));
	ASSERT_EQ(-1, spm_wrong(map, 0, keep / SPM_PAGE, SEED));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_count_2m(fd, map + SPM_SLOT, SPM_SLOT));
	spm_stats(fd, &st);
	ASSERT_EQ(keep / SPM_PAGE, st.pages);
	ASSERT_EQ(509, st.discarded);
	ASSERT_EQ(0, spm_consistent(fd));
	ASSERT_EQ(1, write(down[1], &c, 1));
	ASSERT_EQ(1, read(up[0], &c, 1));

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	ASSERT_EQ(-1, spm_nonzero(map + keep, 509));
	ASSERT_EQ(-1, spm_wrong(map, 0, keep / SPM_PAGE, SEED));
	ASSERT_EQ(1, write(down[1], &c, 1));
	ASSERT_EQ(0, spm_wait(pid));

	/* The slot that was cut is a good slot again. */
	spm_fill(map + keep, keep / SPM_PAGE, 509, SEED);
	ASSERT_EQ(-1, spm_wrong(map, 0, 1024, SEED));
	ASSERT_EQ(512, spm_count_2m(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, shrink_to_nothing)
{
	int fd = spm_open();
	struct spm_stats st;
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_set_size(fd, 0));
	ASSERT_EQ(SIGBUS, spm_try_read(map));
	ASSERT_EQ(SIGBUS, spm_try_write(map + SPM_SLOT - 1, 0));
	spm_stats(fd, &st);
	ASSERT_EQ(0, st.pages);
	ASSERT_EQ(0, st.reserv_live);
	ASSERT_EQ(0, lseek(fd, 0, SEEK_END));
	ASSERT_EQ(0, spm_set_size(fd, SPM_PAGE));
	ASSERT_EQ(-1, spm_nonzero(map, 1));
	ASSERT_EQ(SIGBUS, spm_try_read(map + SPM_PAGE));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, sizes_that_cannot_be)
{
	static const uint64_t bad[] = {
		1, SPM_PAGE - 1, SPM_PAGE + 1, SPM_SLOT + 512, ~0ULL,
		-SPM_PAGE, 1ULL << 63, (1ULL << 63) + SPM_SLOT,
	};
	int err, fd = spm_open();
	unsigned int i;

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		err = spm_set_size(fd, bad[i]);
		if (bad[i] % SPM_PAGE || err == -EINVAL) {
			ASSERT_EQ(-EINVAL, err) {
				TH_LOG("size %#llx", (unsigned long long)bad[i]);
			}
		} else {
			/* As ftruncate(2) and mmap(2) put it. */
			ASSERT_TRUE(err == -EFBIG || err == -EOVERFLOW) {
				TH_LOG("size %#llx gave %d",
				       (unsigned long long)bad[i], err);
			}
		}
		ASSERT_EQ((off_t)SPM_SLOT, lseek(fd, 0, SEEK_END));
	}
	/* Large, but possible. */
	ASSERT_EQ(0, spm_set_size(fd, 1ULL << 44));
	ASSERT_EQ(1LL << 44, lseek(fd, 0, SEEK_END));
}

TEST_F(spm, advise_ranges)
{
	static const uint32_t all[] = {
		SPM_ADV_PREFAULT, SPM_ADV_PROMOTE, SPM_ADV_DEMOTE,
		SPM_ADV_DISCARD,
	};
	int fd = spm_open();
	uintptr_t a;
	unsigned int i;
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, 2 * SPM_SLOT));
	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	a = (uintptr_t)map;
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		uint32_t adv = all[i];

		ASSERT_EQ(-EINVAL, spm_ioctl_advise(fd, 0, a + 1, SPM_PAGE, adv));
		ASSERT_EQ(-EINVAL, spm_ioctl_advise(fd, 0, a, SPM_PAGE + 1, adv));
		ASSERT_EQ(-EINVAL, spm_ioctl_advise(fd, 0, a, 1, adv));
		ASSERT_EQ(-EINVAL, spm_ioctl_advise(fd, 0, a, -SPM_PAGE, adv));
		ASSERT_EQ(-EINVAL, spm_ioctl_advise(fd, 0, -SPM_PAGE,
						    2 * SPM_PAGE, adv));
		ASSERT_EQ(0, spm_ioctl_advise(fd, 0, a, 0, adv));
		/* Not all of it is a mapping of this region. */
		ASSERT_EQ(-ENOMEM, spm_ioctl_advise(fd, 0, a - SPM_PAGE,
						    2 * SPM_PAGE, adv));
		ASSERT_EQ(-ENOMEM, spm_ioctl_advise(fd, 0, a + SPM_SLOT,
						    SPM_SLOT + SPM_PAGE, adv));
		ASSERT_EQ(-ENOMEM, spm_ioctl_advise(fd, 0, 0, SPM_PAGE, adv));
		ASSERT_EQ(-ENOMEM, spm_ioctl_advise(fd, 0, 1ULL << 62,
						    SPM_PAGE, adv));
		ASSERT_EQ(-ENOMEM, spm_ioctl_advise(fd, 0, (uintptr_t)&map &
						    -SPM_PAGE, SPM_PAGE, adv));
	}
	/*
	 * Page 0 was part of ranges that were refused, so its fate is not
	 * defined (madvise(2) too acts on the part that is mapped).
	 */
	ASSERT_EQ(-1, spm_wrong(map + SPM_PAGE, 1, 511, SEED));
	spm_fill(map, 0, 1, SEED);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));

	ASSERT_EQ(-EINVAL, spm_advise_off(fd, 1, SPM_PAGE, SPM_ADV_DISCARD));
	ASSERT_EQ(-EINVAL, spm_advise_off(fd, 0, 1, SPM_ADV_DISCARD));
	ASSERT_EQ(-EINVAL, spm_advise_off(fd, SPM_PAGE, -SPM_PAGE,
					  SPM_ADV_DISCARD));
	ASSERT_EQ(-EINVAL, spm_advise_off(fd, -SPM_PAGE, SPM_SLOT,
					  SPM_ADV_PREFAULT));
	ASSERT_EQ(0, spm_advise_off(fd, 0, 0, SPM_ADV_DISCARD));
	ASSERT_EQ(-ENOMEM, spm_advise_off(fd, SPM_SLOT, SPM_SLOT + SPM_PAGE,
					  SPM_ADV_PREFAULT));
	/* By offset only DISCARD and PREFAULT make sense. */
	ASSERT_EQ(-EINVAL, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(-EINVAL, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_DEMOTE));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Prefault of a mapping that reaches beyond the region. */
TEST_F(spm, prefault_beyond_the_region)
{
	int fd = spm_open();
	char *map;

	ASSERT_EQ(0, spm_set_size(fd, SPM_SLOT));
	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(-ENOMEM, spm_advise(fd, map, 2 * SPM_SLOT, SPM_ADV_PREFAULT));
	ASSERT_EQ(-ENOMEM, spm_advise(fd, map, 2 * SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_2m(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(0, spm_consistent(fd));
}

TEST_F(spm, mincore_ranges)
{
	unsigned char vec[1024];
	int err, fd = spm_open(), other = spm_open();
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	map[0] = 1;
	ASSERT_EQ(-EINVAL, spm_mincore(fd, map + 1, SPM_PAGE, vec));
	ASSERT_EQ(-EINVAL, spm_mincore(fd, map, SPM_PAGE + 1, vec));
	ASSERT_EQ(0, spm_mincore(fd, map, 0, vec));
	ASSERT_EQ(-ENOMEM, spm_mincore(fd, map, 2 * SPM_SLOT, vec));
	ASSERT_EQ(-ENOMEM, spm_mincore(fd, map - SPM_PAGE, SPM_PAGE, vec));
	/* More than there is address space; the size is not trusted. */
	err = spm_mincore(fd, map, -SPM_PAGE, vec);
	ASSERT_TRUE(err == -EINVAL || err == -ENOMEM) {
		TH_LOG("result %d", err);
	}
	err = spm_mincore(fd, map, 1ULL << 46, vec);
	ASSERT_TRUE(err == -EINVAL || err == -ENOMEM) {
		TH_LOG("result %d", err);
	}
	ASSERT_EQ(-ENOMEM, spm_mincore(other, map, SPM_PAGE, vec));
}

SPM_TEST_MAIN
