// SPDX-License-Identifier: GPL-2.0
/*
 * Property: a slot becomes a superpage exactly when it is full and the rules
 * on dirty pages allow the kind of entry that the access needs; a writable
 * entry is never made, by any path, for a page that is not recorded dirty.
 *
 * Kind of bug: promotion with a hole at the first or last page, which nobody
 * looks at; promotion that never happens again after something was undone;
 * clean pages under a writable large entry, so that stores go unnoticed.
 *
 * spm-test: timeout=240
 */
#include "spm_test.h"

#define SEED	13

static void check_invariant(struct __test_metadata *_metadata, int fd,
			    char *map, size_t len)
{
	ASSERT_EQ(0, spm_count_clean_writable(fd, map, len));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* One order each: ascending, descending, scattered. */
static unsigned int in_order(int how, unsigned int i)
{
	switch (how) {
	case 0: return i;
	case 1: return 511 - i;
	default: return i * 181 % 512;
	}
}

TEST_F(spm, filled_by_writes)
{
	struct spm_stats before, s;
	unsigned int i, page;
	char *map;
	int fd, how;
	long faults;

	for (how = 0; how < 3; how++) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		spm_stats(fd, &before);
		faults = spm_minflt();
		for (i = 0; i < 511; i++) {
			page = in_order(how, i);
			map[page * SPM_PAGE] = 1;
		}
		ASSERT_EQ(511, spm_minflt() - faults);
		ASSERT_EQ(511, spm_count_4k(fd, map, SPM_SLOT));
		ASSERT_EQ(0, spm_delta(fd, &before, promotions));
		page = in_order(how, 511);
		map[page * SPM_PAGE] = 1;
		spm_stats(fd, &s);
		ASSERT_EQ(1, s.promotions - before.promotions);
		ASSERT_EQ(0, s.p_failures - before.p_failures);
		ASSERT_EQ(0, s.mappings - before.mappings);
		ASSERT_EQ(512, s.vm_faults - before.vm_faults);
		ASSERT_EQ(511, s.enter_4k - before.enter_4k);
		ASSERT_EQ(512, s.populated - before.populated);
		ASSERT_EQ(512, s.dirty);
		ASSERT_EQ(1, s.reserv_fullpop);
		ASSERT_EQ(0, s.reserv_partpopq);
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
		ASSERT_EQ(0, spm_touch_faults(map, SPM_SLOT, true));
		check_invariant(_metadata, fd, map, SPM_SLOT);
		close(fd);
		spm_unmap(map, SPM_SLOT);
	}
}

TEST_F(spm, filled_by_reads_then_written)
{
	int fd = spm_open();
	struct spm_stats before;
	unsigned int i;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_stats(fd, &before);
	ASSERT_EQ(512, spm_touch_faults(map, SPM_SLOT, false));
	ASSERT_EQ(1, spm_delta(fd, &before, promotions));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_count_writable(fd, map, SPM_SLOT));
	ASSERT_EQ(0, spm_count_dirty(fd, map, SPM_SLOT));
	check_invariant(_metadata, fd, map, SPM_SLOT);

	/* One write: demoted in place, one page dirty, all stay mapped. */
	spm_stamp(map + 77 * SPM_PAGE, 77, SEED);
	ASSERT_EQ(1, spm_delta(fd, &before, demotions_write));
	ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
	ASSERT_EQ(1, spm_count_writable(fd, map, SPM_SLOT));
	ASSERT_EQ(1, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(1, spm_delta(fd, &before, dirty));
	ASSERT_EQ(0, spm_touch_faults(map, SPM_SLOT, false));
	check_invariant(_metadata, fd, map, SPM_SLOT);

	/* All others but one: still 4 KB. */
	for (i = 0; i < 512; i++) {
		if (i != 77 && i != 500)
			spm_stamp(map + i * SPM_PAGE, i, SEED);
	}
	ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
	ASSERT_EQ(511, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(1, spm_delta(fd, &before, promotions));
	/* The last clean page: promoted again, writable. */
	spm_stamp(map + 500 * SPM_PAGE, 500, SEED);
	ASSERT_EQ(2, spm_delta(fd, &before, promotions));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
	/* 512 reads, 512 writes, nothing else took a fault. */
	ASSERT_EQ(1024, spm_delta(fd, &before, vm_faults));
	for (i = 0; i < 512; i++) {
		ASSERT_TRUE(spm_stamped(map + i * SPM_PAGE, i, SEED));
	}
	check_invariant(_metadata, fd, map, SPM_SLOT);
}

TEST_F(spm, holes_prevent)
{
	static const unsigned int holes[] = { 0, 511, 255, 1, 510 };
	struct spm_stats before;
	unsigned int h, i;
	char *map, *other;
	int fd, wr;

	for (wr = 0; wr < 2; wr++) {
		for (h = 0; h < ARRAY_SIZE(holes); h++) {
			fd = spm_open();
			map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
			spm_stats(fd, &before);
			for (i = 0; i < 512; i++) {
				if (i == holes[h])
					continue;
				if (wr)
					map[i * SPM_PAGE] = 1;
				else
					spm_touch_read(map + i * SPM_PAGE, 1);
			}
			/* Another mapping is not taken in either. */
			other = spm_map(fd, SPM_SLOT, 0, PROT_READ);
			spm_touch_read(other + (holes[h] ? 0 : SPM_PAGE), 1);
			ASSERT_EQ(0, spm_count_2m(fd, map, SPM_SLOT));
			ASSERT_EQ(0, spm_count_2m(fd, other, SPM_SLOT));
			ASSERT_EQ(1, spm_count_none(fd, map, SPM_SLOT));
			ASSERT_EQ(0, spm_delta(fd, &before, promotions));
			ASSERT_EQ(0, spm_delta(fd, &before, mappings));
			/* Not full, so there was nothing to refuse. */
			ASSERT_EQ(0, spm_delta(fd, &before, p_failures));
			ASSERT_EQ(-1, spm_nonzero(map + holes[h] * SPM_PAGE, 1));
			if (wr)
				map[holes[h] * SPM_PAGE] = 1;
			ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT)) {
				TH_LOG("hole at %u, write %d", holes[h], wr);
			}
			ASSERT_EQ(wr ? 512 : 0,
				  spm_count_writable(fd, map, SPM_SLOT));
			check_invariant(_metadata, fd, map, SPM_SLOT);
			close(fd);
			spm_unmap(map, SPM_SLOT);
			spm_unmap(other, SPM_SLOT);
		}
	}
}

/* Full, but neither all dirty nor all clean: small pages, and counted. */
TEST_F(spm, mixed_slot_stays_small)
{
	struct spm_stats before;
	int fd, wr, i;
	char *map;

	for (wr = 0; wr < 2; wr++) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		spm_stats(fd, &before);
		spm_touch_read(map, SPM_SLOT / 2);
		spm_touch_write(map + SPM_SLOT / 2, SPM_SLOT / 2 - SPM_PAGE);
		if (wr)
			map[SPM_SLOT - SPM_PAGE] = 1;
		else
			spm_touch_read(map + SPM_SLOT - SPM_PAGE, 1);
		ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
		ASSERT_EQ(0, spm_delta(fd, &before, promotions));
		ASSERT_EQ(1, spm_delta(fd, &before, p_failures));
		ASSERT_EQ(255 + wr, spm_delta(fd, &before, dirty));
		check_invariant(_metadata, fd, map, SPM_SLOT);
		/* Write what is clean: the last of it promotes. */
		for (i = wr ? 254 : 255; i >= 0; i--)
			map[i * SPM_PAGE] = 1;
		if (wr)
			map[255 * SPM_PAGE] = 1;
		else
			map[SPM_SLOT - SPM_PAGE] = 1;
		ASSERT_EQ(1, spm_delta(fd, &before, promotions));
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		check_invariant(_metadata, fd, map, SPM_SLOT);
		close(fd);
	}
}

/* All dirty but one, and that one is read: it is dirtied, all is writable. */
TEST_F(spm, read_completes_a_dirty_slot)
{
	int fd = spm_open();
	struct spm_stats before;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_stats(fd, &before);
	spm_touch_write(map, SPM_SLOT - SPM_PAGE);
	spm_touch_read(map + SPM_SLOT - SPM_PAGE, 1);
	ASSERT_EQ(1, spm_delta(fd, &before, promotions));
	ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_dirty(fd, map, SPM_SLOT));
	check_invariant(_metadata, fd, map, SPM_SLOT);
}

/*
 * A read-only mapping whose entries were made ahead of any access: accessed
 * bits must not be asked for.
 */
TEST_F(spm, read_only_map_filled_ahead_promotes)
{
	int fd = spm_open();
	struct spm_stats before;
	char *rw, *ro;
	unsigned int i;

	ASSERT_EQ(0, spm_param_set("prefault_pages", "64"));
	rw = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	ro = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	spm_touch_write(rw, SPM_SLOT - SPM_PAGE);
	spm_stats(fd, &before);
	for (i = 0; i < 511; i += 100)
		spm_touch_read(ro + i * SPM_PAGE, 1);
	ASSERT_EQ(511, spm_count_4k(fd, ro, SPM_SLOT));
	ASSERT_LT(0, spm_delta(fd, &before, prefaulted));
	ASSERT_GE(8, spm_delta(fd, &before, vm_faults));
	spm_touch_read(ro + SPM_SLOT - SPM_PAGE, 1);
	ASSERT_EQ(1, spm_delta(fd, &before, promotions));
	ASSERT_EQ(512, spm_count_2m(fd, ro, SPM_SLOT));
	ASSERT_EQ(0, spm_count_writable(fd, ro, SPM_SLOT));
	/* The page that was only read is not dirty; rw is still 4 KB. */
	ASSERT_EQ(511, spm_count_dirty(fd, ro, SPM_SLOT));
	ASSERT_EQ(511, spm_count_4k(fd, rw, SPM_SLOT));
	check_invariant(_metadata, fd, ro, SPM_SLOT);
	check_invariant(_metadata, fd, rw, SPM_SLOT);
}

TEST_F(spm, prefault_window)
{
	struct spm_stats before;
	int fd = spm_open();
	char *a, *b;

	a = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_touch_write(a, SPM_SLOT - SPM_PAGE);
	b = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	ASSERT_EQ(0, spm_param_set("prefault_pages", "0"));
	spm_stats(fd, &before);
	spm_touch_read(b + 16 * SPM_PAGE, 1);
	ASSERT_EQ(0, spm_delta(fd, &before, prefaulted));
	ASSERT_EQ(1, spm_count_4k(fd, b, SPM_SLOT));

	ASSERT_EQ(0, spm_param_set("prefault_pages", "4"));
	spm_touch_read(b + 104 * SPM_PAGE, 1);
	ASSERT_EQ(8, spm_delta(fd, &before, prefaulted));
	ASSERT_EQ(9, spm_count_4k(fd, b + 100 * SPM_PAGE, 9 * SPM_PAGE));
	ASSERT_EQ(10, spm_count_4k(fd, b, SPM_SLOT));
	/* Never populates. */
	ASSERT_EQ(511, spm_delta(fd, &before, pages) + (long)before.pages);
	check_invariant(_metadata, fd, b, SPM_SLOT);
}

TEST_F(spm, dirty_threshold)
{
	static const struct {
		const char *value;
		unsigned int peers;	/* dirty before the last write */
		bool promoted;
	} cases[] = {
		{ "128", 128, true }, { "128", 127, false },
		{ "0", 0, true }, { "1", 0, false }, { "1", 1, true },
		{ "511", 510, false }, { "511", 511, true },
	};
	struct spm_stats before;
	unsigned int c;
	char *map;
	int fd;

	for (c = 0; c < ARRAY_SIZE(cases); c++) {
		ASSERT_EQ(0, spm_param_set("dirty_threshold", cases[c].value));
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		spm_stats(fd, &before);
		spm_touch_write(map, cases[c].peers * SPM_PAGE);
		spm_touch_read(map + cases[c].peers * SPM_PAGE,
			       (511 - cases[c].peers) * SPM_PAGE);
		ASSERT_EQ(cases[c].peers, spm_delta(fd, &before, dirty));
		map[511 * SPM_PAGE] = 1;
		ASSERT_EQ(cases[c].promoted, spm_delta(fd, &before, promotions)) {
			TH_LOG("threshold %s, %u dirty peers", cases[c].value,
			       cases[c].peers);
		}
		ASSERT_EQ(!cases[c].promoted,
			  spm_delta(fd, &before, p_failures));
		if (cases[c].promoted) {
			/* The rest was marked dirty with it. */
			ASSERT_EQ(512, spm_delta(fd, &before, dirty));
			ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		} else {
			ASSERT_EQ(cases[c].peers + 1,
				  spm_delta(fd, &before, dirty));
			ASSERT_EQ(512, spm_count_4k(fd, map, SPM_SLOT));
		}
		check_invariant(_metadata, fd, map, SPM_SLOT);
		close(fd);
	}
}

TEST_F(spm, populate_threshold)
{
	struct spm_stats before;
	unsigned int i;
	int fd, wr;
	char *map;

	ASSERT_EQ(0, spm_param_set("populate_threshold", "64"));
	ASSERT_EQ(0, spm_param_set("dirty_threshold", "63"));
	for (wr = 0; wr < 2; wr++) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		spm_stats(fd, &before);
		for (i = 0; i < 63; i++) {
			if (wr)
				map[i * 8 * SPM_PAGE] = 1;
			else
				spm_touch_read(map + i * 8 * SPM_PAGE, 1);
		}
		ASSERT_EQ(63, spm_delta(fd, &before, populated));
		ASSERT_EQ(63, spm_count_4k(fd, map, SPM_SLOT));
		/* The 64th page fills the rest. */
		if (wr)
			map[SPM_SLOT - 1] = 1;
		else
			spm_touch_read(map + SPM_SLOT - 1, 1);
		ASSERT_EQ(512, spm_delta(fd, &before, populated));
		ASSERT_EQ(64, spm_delta(fd, &before, vm_faults));
		ASSERT_EQ(1, spm_delta(fd, &before, promotions));
		ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
		ASSERT_EQ(wr ? 512 : 0, spm_count_writable(fd, map, SPM_SLOT));
		ASSERT_EQ(wr ? 512 : 0, spm_count_dirty(fd, map, SPM_SLOT));
		for (i = 0; i < 511; i++) {
			ASSERT_EQ(wr && i % 8 == 0 && i / 8 < 63,
				  map[i * SPM_PAGE]);
		}
		check_invariant(_metadata, fd, map, SPM_SLOT);
		close(fd);
	}
	/* 1: the first touch takes it all. */
	ASSERT_EQ(0, spm_param_set("populate_threshold", "1"));
	ASSERT_EQ(0, spm_param_set("dirty_threshold", "0"));
	fd = spm_open();
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_stats(fd, &before);
	ASSERT_EQ(1, spm_touch_faults(map, SPM_SLOT, true));
	ASSERT_EQ(1, spm_delta(fd, &before, mappings) +
		     spm_delta(fd, &before, promotions));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	check_invariant(_metadata, fd, map, SPM_SLOT);
}

/* The rest that is filled ends where the region ends. */
TEST_F(spm, populate_threshold_at_the_end_of_the_region)
{
	size_t size = SPM_SLOT + 100 * SPM_PAGE;
	struct spm_stats s;
	int fd = spm_open();
	char *map;

	ASSERT_EQ(0, spm_param_set("populate_threshold", "1"));
	ASSERT_EQ(0, spm_set_size(fd, size));
	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	map[SPM_SLOT] = 1;
	spm_stats(fd, &s);
	ASSERT_GE(100, s.pages);
	ASSERT_LE(1, s.pages);
	ASSERT_EQ(0, spm_count_2m(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(SIGBUS, spm_try_read(map + size));
	ASSERT_EQ(-1, spm_nonzero(map + SPM_SLOT + SPM_PAGE, 99));
	check_invariant(_metadata, fd, map, 2 * SPM_SLOT);
}

TEST_F(spm, thresholds_refuse_bad_values)
{
	static const struct {
		const char *name, *value;
	} bad[] = {
		{ "populate_threshold", "0" }, { "populate_threshold", "513" },
		{ "populate_threshold", "-1" }, { "populate_threshold", "x" },
		{ "populate_threshold", "4294967297" },
		{ "dirty_threshold", "512" }, { "dirty_threshold", "-1" },
		{ "prefault_pages", "65" }, { "prefault_pages", "-1" }, { "pg_ps_enabled", "2" },
		{ "pg_ps_enabled", "maybe" },
	};
	static const struct {
		const char *name, *value;
	} good[] = {
		{ "populate_threshold", "1" }, { "populate_threshold", "512" },
		{ "dirty_threshold", "0" }, { "dirty_threshold", "511" },
		{ "prefault_pages", "0" }, { "prefault_pages", "64" },
	};
	char before[32], after[32];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		int err;

		spm_param_get(bad[i].name, before, sizeof(before));
		err = spm_param_set(bad[i].name, bad[i].value);
		/* -ERANGE is what the kernel's parsers say of overflow. */
		ASSERT_TRUE(err == -EINVAL || err == -ERANGE) {
			TH_LOG("%s=%s gave %d", bad[i].name, bad[i].value, err);
		}
		spm_param_get(bad[i].name, after, sizeof(after));
		ASSERT_STREQ(before, after);
	}
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		ASSERT_EQ(0, spm_param_set(good[i].name, good[i].value));
		spm_param_get(good[i].name, after, sizeof(after));
		ASSERT_STREQ(good[i].value, after);
	}
}

TEST_F(spm, switched_off)
{
	struct spm_stats before, s;
	int fd = spm_open();
	struct spm_info info;
	char *map, *two;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_info(fd, &info);
	ASSERT_EQ(SPM_INFO_SUPERPAGES, info.flags & SPM_INFO_SUPERPAGES);
	ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "0"));
	spm_info(fd, &info);
	ASSERT_EQ(0, info.flags & SPM_INFO_SUPERPAGES);
	/* What is there stays until it goes. */
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	spm_stats(fd, &before);
	spm_fill(map + SPM_SLOT, 512, 512, SEED);
	two = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(-1, spm_wrong(two, 0, 1024, SEED));
	ASSERT_EQ(0, spm_advise(fd, two, 2 * SPM_SLOT, SPM_ADV_PROMOTE));
	spm_stats(fd, &s);
	ASSERT_EQ(0, s.promotions - before.promotions);
	ASSERT_EQ(0, s.mappings - before.mappings);
	ASSERT_EQ(0, s.upgrades - before.upgrades);
	/* Reservations fill all the same. */
	ASSERT_EQ(2, s.reserv_fullpop);
	ASSERT_EQ(1024, spm_count_4k(fd, two, 2 * SPM_SLOT));
	ASSERT_EQ(512, spm_count_4k(fd, map + SPM_SLOT, SPM_SLOT));
	/* And what was broken up stays so. */
	spm_unmap(map, SPM_PAGE);
	ASSERT_EQ(511, spm_count_4k(fd, map + SPM_PAGE, SPM_SLOT - SPM_PAGE));
	check_invariant(_metadata, fd, two, 2 * SPM_SLOT);

	ASSERT_EQ(0, spm_param_set("pg_ps_enabled", "1"));
	spm_map_at(two, fd, 2 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(2, spm_touch_faults(two, 2 * SPM_SLOT, true));
	ASSERT_EQ(1024, spm_count_2m(fd, two, 2 * SPM_SLOT));
	check_invariant(_metadata, fd, two, 2 * SPM_SLOT);
}

static int map_directly(void *arg)
{
	int fd = *(int *)arg;
	struct spm_stats before;
	char *map;

	/* Fault counts must be of this and nothing else. */
	spm_settle();
	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	spm_stats(fd, &before);
	spm_child_check(spm_touch_faults(map, 4 * SPM_SLOT, true) == 4,
			"faults");
	spm_child_check(spm_delta(fd, &before, mappings) == 4, "%lld",
			spm_delta(fd, &before, mappings));
	spm_child_check(spm_delta(fd, &before, vm_faults) == 4, "%lld",
			spm_delta(fd, &before, vm_faults));
	spm_child_check(spm_count_2m(fd, map, 4 * SPM_SLOT) == 2048, "2 MB");
	spm_child_check(spm_count_writable(fd, map, 4 * SPM_SLOT) == 2048,
			"writable");

	/* By reads: writable at once as well, all is dirty. */
	spm_map_at(map, fd, 4 * SPM_SLOT, 0, SPM_RW);
	spm_child_check(spm_touch_faults(map, 4 * SPM_SLOT, false) == 4,
			"faults");
	spm_child_check(spm_touch_faults(map, 4 * SPM_SLOT, true) == 0,
			"faults");
	return 0;
}

TEST_F(spm, second_process_maps_directly)
{
	int fd = spm_open();
	char *map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);

	spm_promoted(fd, map, 4 * SPM_SLOT, 0, SEED);
	ASSERT_EQ(0, spm_fork_run(map_directly, &fd));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Read-only 2 MB entry, every other page dirty: made writable in place. */
TEST_F(spm, upgrade_in_place)
{
	struct spm_stats before;
	int fd = spm_open();
	char *rw, *ro;

	rw = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	ro = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	spm_touch_write(rw, SPM_SLOT - SPM_PAGE);
	spm_touch_read(ro + SPM_SLOT - SPM_PAGE, 1);
	ASSERT_EQ(512, spm_count_2m(fd, ro, SPM_SLOT));
	ASSERT_EQ(511, spm_count_dirty(fd, ro, SPM_SLOT));
	ASSERT_EQ(0, mprotect(ro, SPM_SLOT, SPM_RW));
	spm_stats(fd, &before);
	ASSERT_EQ(0, spm_try_write(ro + SPM_SLOT - SPM_PAGE, 1));
	ASSERT_EQ(1, spm_delta(fd, &before, upgrades));
	ASSERT_EQ(0, spm_delta(fd, &before, demotions));
	ASSERT_EQ(1, spm_delta(fd, &before, vm_faults));
	ASSERT_EQ(1, spm_delta(fd, &before, dirty));
	ASSERT_EQ(512, spm_count_2m(fd, ro, SPM_SLOT));
	ASSERT_EQ(512, spm_count_writable(fd, ro, SPM_SLOT));
	check_invariant(_metadata, fd, ro, SPM_SLOT);
}

/* ... and with a clean page among the others: demoted instead. */
TEST_F(spm, no_upgrade_over_a_clean_page)
{
	struct spm_stats before;
	int fd = spm_open();
	char *rw, *ro;

	rw = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	ro = spm_map(fd, SPM_SLOT, 0, PROT_READ);
	spm_touch_write(rw, SPM_SLOT - SPM_PAGE);
	spm_touch_read(ro + SPM_SLOT - SPM_PAGE, 1);
	ASSERT_EQ(0, mprotect(ro, SPM_SLOT, SPM_RW));
	spm_stats(fd, &before);
	ASSERT_EQ(0, spm_try_write(ro + 5 * SPM_PAGE, 1));
	ASSERT_EQ(0, spm_delta(fd, &before, upgrades));
	ASSERT_EQ(1, spm_delta(fd, &before, demotions_write));
	ASSERT_EQ(511, spm_count_dirty(fd, ro, SPM_SLOT));
	ASSERT_EQ(512, spm_count_4k(fd, ro, SPM_SLOT));
	check_invariant(_metadata, fd, ro, SPM_SLOT);
}

/* All ways in which entries come to be. */
TEST_F(spm, writable_implies_dirty_on_every_path)
{
	int fd = spm_open();
	char *map, *ro;

	/* PROMOTE on an empty slot, then on one of each kind */
	map = spm_map(fd, 4 * SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_dirty(fd, map, SPM_SLOT));
	ASSERT_EQ(512, spm_count_writable(fd, map, SPM_SLOT));
	check_invariant(_metadata, fd, map, 4 * SPM_SLOT);
	spm_touch_read(map + SPM_SLOT, 10 * SPM_PAGE);
	spm_touch_write(map + SPM_SLOT + 20 * SPM_PAGE, 10 * SPM_PAGE);
	ASSERT_EQ(0, spm_advise(fd, map + SPM_SLOT, SPM_SLOT,
				SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_dirty(fd, map + SPM_SLOT, SPM_SLOT));
	ASSERT_EQ(512, spm_count_2m(fd, map + SPM_SLOT, SPM_SLOT));
	check_invariant(_metadata, fd, map, 4 * SPM_SLOT);

	/* a read-only 2 MB entry, PROMOTE makes it writable */
	spm_touch_read(map + 2 * SPM_SLOT, SPM_SLOT);
	ASSERT_EQ(0, spm_count_dirty(fd, map + 2 * SPM_SLOT, SPM_SLOT));
	check_invariant(_metadata, fd, map, 4 * SPM_SLOT);
	ASSERT_EQ(0, spm_advise(fd, map + 2 * SPM_SLOT, SPM_SLOT,
				SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_writable(fd, map + 2 * SPM_SLOT, SPM_SLOT));
	check_invariant(_metadata, fd, map, 4 * SPM_SLOT);

	/* PROMOTE through a read-only mapping dirties nothing */
	ro = spm_map(fd, SPM_SLOT, 3 * SPM_SLOT, PROT_READ);
	ASSERT_EQ(0, spm_advise(fd, ro, SPM_SLOT, SPM_ADV_PROMOTE));
	ASSERT_EQ(512, spm_count_2m(fd, ro, SPM_SLOT));
	ASSERT_EQ(0, spm_count_writable(fd, ro, SPM_SLOT));
	ASSERT_EQ(0, spm_count_dirty(fd, ro, SPM_SLOT));
	check_invariant(_metadata, fd, ro, SPM_SLOT);

	/* PREFAULT, on what is empty and what is not */
	ASSERT_EQ(0, spm_advise(fd, map, 4 * SPM_SLOT, SPM_ADV_PREFAULT));
	check_invariant(_metadata, fd, map, 4 * SPM_SLOT);
	ASSERT_EQ(0, spm_count_none(fd, map, 4 * SPM_SLOT));

	/* demoted by request, by a cut, thrown away by the kernel */
	ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT, SPM_ADV_DEMOTE));
	check_invariant(_metadata, fd, map, 4 * SPM_SLOT);
	spm_unmap(map + SPM_SLOT, SPM_PAGE);
	check_invariant(_metadata, fd, map + 2 * SPM_SLOT, 2 * SPM_SLOT);
	ASSERT_EQ(0, madvise(map + 2 * SPM_SLOT, SPM_PAGE, MADV_DONTNEED));
	spm_touch_read(map + 2 * SPM_SLOT, SPM_SLOT);
	check_invariant(_metadata, fd, map + 2 * SPM_SLOT, SPM_SLOT);
	ASSERT_EQ(0, madvise(map + 2 * SPM_SLOT, SPM_SLOT, MADV_DONTNEED));
	spm_touch_write(map + 2 * SPM_SLOT, SPM_SLOT);
	ASSERT_EQ(512, spm_count_2m(fd, map + 2 * SPM_SLOT, SPM_SLOT));
	check_invariant(_metadata, fd, map + 2 * SPM_SLOT, SPM_SLOT);
}

/* PREFAULT: afterwards no touch faults, also where it may be written. */
TEST_F(spm, prefault_spares_every_fault)
{
	struct spm_stats before;
	int fd = spm_open();
	char *map;

	map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	map[5 * SPM_PAGE] = 1;
	ASSERT_EQ(0, spm_advise(fd, map + SPM_PAGE, SPM_SLOT,
				SPM_ADV_PREFAULT));
	spm_stats(fd, &before);
	ASSERT_EQ(512, spm_delta(fd, &before, pages) + (long)before.pages);
	ASSERT_EQ(512, spm_count_none(fd, map, 2 * SPM_SLOT));
	ASSERT_EQ(0, spm_touch_faults(map + SPM_PAGE, SPM_SLOT, false));
	ASSERT_EQ(0, spm_touch_faults(map + SPM_PAGE, SPM_SLOT, true));
	ASSERT_EQ(0, spm_delta(fd, &before, vm_faults));
	check_invariant(_metadata, fd, map, 2 * SPM_SLOT);
}

SPM_TEST_MAIN
