// SPDX-License-Identifier: GPL-2.0
/*
 * Property: the ioctls follow the rules at the head of the user interface: on
 * sizes that are too small or too large, unknown flags and commands, padding,
 * and pointers that lead nowhere; and no byte is returned that was not meant.
 *
 * Kind of bug: layouts that differ for 32-bit callers, so that they get
 * ENOTTY; unknown flags that are ignored, so that they can never be used;
 * kernel memory in the padding of results; user memory touched under a lock
 * that a fault on this memory needs.
 */
#include "spm_test.h"
#include "abi_layout.h"

#define SEED	17

/* Every command, with arguments that succeed. */
struct command {
	const char *name;
	unsigned long nr;
	size_t size, min;		/* of now, of the first version */
	union {
		struct spm_info info;
		struct spm_set_size set_size;
		struct spm_advise advise;
		struct spm_mincore mincore;
		struct spm_stats stats;
		struct spm_snapshot snapshot;
		struct spm_policy policy;
		struct spm_scan scan;
		struct spm_nodes nodes;
		uint32_t argsz;
		struct {
			uint32_t argsz_, flags;
		};
		unsigned char bytes[8192];
	};
};

#define NR_COMMANDS	11

static unsigned char vec[SPM_SLOT_PAGES];
static struct spm_node_figures figures[8];

static void command_policy(struct command *c)
{
	c->size = sizeof(c->policy);
	memset(&c->policy, 0xff, c->size);
	c->flags = 0;
}

static void command_scan(struct command *c, char *map)
{
	static uint64_t bits[SPM_SLOT_PAGES];

	c->size = sizeof(c->scan);
	c->scan.start = (uintptr_t)map;
	c->scan.len = SPM_SLOT;
	c->scan.vec = (uintptr_t)bits;
	c->scan.vec_len = 256;
}

static void command(struct command *c, int i, char *map)
{
	memset(c, 0, sizeof(*c));
	switch (i) {
	case 0:
		c->name = "INFO";
		c->nr = SPM_IOC_INFO;
		c->size = sizeof(c->info);
		break;
	case 1:
		c->name = "SET_SIZE";
		c->nr = SPM_IOC_SET_SIZE;
		c->size = sizeof(c->set_size);
		c->set_size.size = SPM_SLOT;
		break;
	case 2:
		c->name = "ADVISE";
		c->nr = SPM_IOC_ADVISE;
		c->size = sizeof(c->advise);
		c->advise.start = (uintptr_t)map;
		c->advise.len = SPM_SLOT;
		c->advise.advice = SPM_ADV_DEMOTE;
		break;
	case 3:
		c->name = "MINCORE";
		c->nr = SPM_IOC_MINCORE;
		c->size = sizeof(c->mincore);
		c->mincore.start = (uintptr_t)map;
		c->mincore.len = SPM_SLOT;
		c->mincore.vec = (uintptr_t)vec;
		break;
	case 4:
		c->name = "STATS";
		c->nr = SPM_IOC_STATS;
		c->size = sizeof(c->stats);
		c->min = offsetof(struct spm_stats, cow_copied);
		break;
	case 5:
		c->name = "SET_POLICY";
		c->nr = SPM_IOC_SET_POLICY;
		command_policy(c);
		break;
	case 6:
		c->name = "GET_POLICY";
		c->nr = SPM_IOC_GET_POLICY;
		command_policy(c);
		break;
	case 7:
		c->name = "GET_DIRTY";
		c->nr = SPM_IOC_GET_DIRTY;
		command_scan(c, map);
		break;
	case 8:
		c->name = "GET_REFERENCED";
		c->nr = SPM_IOC_GET_REFERENCED;
		command_scan(c, map);
		break;
	case 9:
		c->name = "NODES";
		c->nr = SPM_IOC_NODES;
		c->size = sizeof(c->nodes);
		c->nodes.vec = (uintptr_t)figures;
		c->nodes.vec_len = 8;
		break;
	default:
		c->name = "SNAPSHOT";
		c->nr = SPM_IOC_SNAPSHOT;
		c->size = sizeof(c->snapshot);
		break;
	}
	c->argsz = c->size;
	if (!c->min)
		c->min = c->size;
}

/* The flags that there are. */
static bool known_flag(const struct command *c, int bit)
{
	switch (c->nr) {
	case SPM_IOC_SET_SIZE:
	case SPM_IOC_ADVISE:
	case SPM_IOC_STATS:
	case SPM_IOC_SNAPSHOT:
	case SPM_IOC_GET_POLICY:
		return bit == 0;
	case SPM_IOC_GET_DIRTY:
	case SPM_IOC_GET_REFERENCED:
		return bit <= 2;
	}
	return false;
}

/* 0 or -errno; a new descriptor is closed. */
static int call_at(int fd, unsigned long nr, void *arg)
{
	int ret = ioctl(fd, nr, arg);

	if (ret < 0)
		return -errno;
	if (nr != SPM_IOC_SNAPSHOT)
		return ret;
	return close(ret) ? -errno : 0;
}

static int call(int fd, struct command *c)
{
	return call_at(fd, c->nr, c->bytes);
}

TEST_F(spm, argument_size)
{
	int fd = spm_open(), i, err;
	struct command c;
	uint32_t s;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	map[0] = 1;
	for (i = 0; i < NR_COMMANDS; i++) {
		command(&c, i, map);
		ASSERT_EQ(0, call(fd, &c)) {
			TH_LOG("%s", c.name);
		}
		/* What was given as argsz stays. */
		ASSERT_EQ(c.size, c.argsz) {
			TH_LOG("%s", c.name);
		}
		for (s = 0; s < c.size; s++) {
			command(&c, i, map);
			c.argsz = s;
			ASSERT_EQ(s < c.min ? -EINVAL : 0, call(fd, &c)) {
				TH_LOG("%s, size %u", c.name, s);
			}
		}
		/* A later program, that does not use what is new. */
		for (s = c.size + 1; s <= 4096; s += 61) {
			command(&c, i, map);
			c.argsz = s;
			ASSERT_EQ(0, call(fd, &c)) {
				TH_LOG("%s, size %u", c.name, s);
			}
		}
		/* One that does: at every place. */
		for (s = c.size; s < c.size + 64; s++) {
			command(&c, i, map);
			c.argsz = c.size + 64;
			c.bytes[s] = 1;
			ASSERT_EQ(-E2BIG, call(fd, &c)) {
				TH_LOG("%s, byte %u", c.name, s);
			}
		}
		/* Absurd sizes are not believed. */
		command(&c, i, map);
		c.argsz = sizeof(c.bytes);
		err = call(fd, &c);
		ASSERT_TRUE(!err || err == -E2BIG) {
			TH_LOG("%s, size 8192: %d", c.name, err);
		}
		command(&c, i, map);
		c.argsz = ~0U;
		err = call(fd, &c);
		ASSERT_TRUE(err == -E2BIG || err == -EFAULT) {
			TH_LOG("%s, size 2^32-1: %d", c.name, err);
		}
	}
}

TEST_F(spm, unknown_flags)
{
	int fd = spm_open(), i, bit;
	struct command c;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	for (i = 0; i < NR_COMMANDS; i++) {
		for (bit = 0; bit < 32; bit++) {
			command(&c, i, map);
			if (known_flag(&c, bit))
				continue;
			c.flags = 1U << bit;
			ASSERT_EQ(-EINVAL, call(fd, &c)) {
				TH_LOG("%s, flags %#x", c.name, c.flags);
			}
		}
	}
}

TEST_F(spm, padding_and_unknown_values)
{
	struct spm_advise a;
	struct spm_info info;
	int fd = spm_open(), bit;
	uint32_t adv;
	char *map;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	for (bit = 0; bit < 32; bit++) {
		a = (struct spm_advise) {
			.argsz = sizeof(a), .start = (uintptr_t)map,
			.len = SPM_SLOT, .advice = SPM_ADV_DEMOTE,
			.pad = 1U << bit,
		};
		ASSERT_EQ(-1, ioctl(fd, SPM_IOC_ADVISE, &a));
		ASSERT_EQ(EINVAL, errno);
		info = (struct spm_info) {
			.argsz = sizeof(info), .pad = 1U << bit,
		};
		ASSERT_EQ(-1, ioctl(fd, SPM_IOC_INFO, &info));
		ASSERT_EQ(EINVAL, errno);
	}
	for (adv = 6; adv; adv <<= 1) {
		ASSERT_EQ(-EINVAL, spm_advise(fd, map, SPM_SLOT, adv));
		ASSERT_EQ(-EINVAL, spm_advise_off(fd, 0, SPM_SLOT, adv));
	}
	ASSERT_EQ(-EINVAL, spm_advise(fd, map, SPM_SLOT, 0));
	ASSERT_EQ(-EINVAL, spm_advise(fd, map, SPM_SLOT, ~0U));
	ASSERT_EQ(-EINVAL, spm_advise_off(fd, 0, SPM_SLOT, SPM_ADV_COLD));
}

TEST_F(spm, unknown_commands)
{
	static unsigned char buf[256];
	int fd = spm_open(), nr;

	for (nr = 0; nr < 256; nr++) {
		unsigned long cmds[] = {
			_IO(SPM_IOC_MAGIC, nr),
			_IOWR(SPM_IOC_MAGIC, nr, uint32_t),
			_IOW(SPM_IOC_MAGIC + 1, nr, struct spm_advise),
		};
		unsigned int i;

		for (i = 0; i < ARRAY_SIZE(cmds); i++) {
			if (cmds[i] == SPM_IOC_STATS)
				continue;
			ASSERT_EQ(-1, ioctl(fd, cmds[i], buf)) {
				TH_LOG("command %#lx", cmds[i]);
			}
			ASSERT_EQ(ENOTTY, errno) {
				TH_LOG("command %#lx", cmds[i]);
			}
		}
	}
}

TEST_F(spm, pointers_that_lead_nowhere)
{
	int fd = spm_open(), i;
	struct command c;
	char *map, *pages;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	pages = mmap(NULL, 2 * SPM_PAGE, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	ASSERT_TRUE(pages != MAP_FAILED);
	ASSERT_EQ(0, mprotect(pages + SPM_PAGE, SPM_PAGE, PROT_NONE));
	for (i = 0; i < NR_COMMANDS; i++) {
		command(&c, i, map);
		ASSERT_EQ(-1, ioctl(fd, c.nr, NULL));
		ASSERT_EQ(EFAULT, errno);
		ASSERT_EQ(-1, ioctl(fd, c.nr, pages + SPM_PAGE));
		ASSERT_EQ(EFAULT, errno);
		ASSERT_EQ(-1, ioctl(fd, c.nr, (void *)-SPM_PAGE));
		ASSERT_EQ(EFAULT, errno);
		/* argsz can be read, the rest cannot */
		memcpy(pages + SPM_PAGE - 4, &c.argsz, 4);
		ASSERT_EQ(-1, ioctl(fd, c.nr, pages + SPM_PAGE - 4)) {
			TH_LOG("%s", c.name);
		}
		ASSERT_EQ(EFAULT, errno) {
			TH_LOG("%s", c.name);
		}
		/* all but the last byte */
		memcpy(pages + SPM_PAGE - c.size + 1, c.bytes, c.size - 1);
		ASSERT_EQ(-1, ioctl(fd, c.nr, pages + SPM_PAGE - c.size + 1)) {
			TH_LOG("%s", c.name);
		}
		ASSERT_EQ(EFAULT, errno) {
			TH_LOG("%s", c.name);
		}
	}
	/* Results into memory that can only be read. */
	memset(pages, 0, SPM_PAGE);
	((struct spm_info *)pages)->argsz = sizeof(struct spm_info);
	ASSERT_EQ(0, mprotect(pages, SPM_PAGE, PROT_READ));
	ASSERT_EQ(-1, ioctl(fd, SPM_IOC_INFO, pages));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(-EFAULT, spm_mincore(fd, map, SPM_SLOT,
				       (unsigned char *)pages));
	ASSERT_EQ(-EFAULT, spm_mincore(fd, map, SPM_SLOT, NULL));
	ASSERT_EQ(-EFAULT, spm_mincore(fd, map, SPM_SLOT, (void *)-SPM_PAGE));
	/* vec runs out in the middle */
	ASSERT_EQ(0, mprotect(pages, SPM_PAGE, SPM_RW));
	ASSERT_EQ(-EFAULT, spm_mincore(fd, map, SPM_SLOT, (unsigned char *)
				       pages + SPM_PAGE - 511));
	ASSERT_EQ(0, spm_mincore(fd, map, SPM_SLOT, (unsigned char *)
				 pages + SPM_PAGE - 512));
}

/* Poison everything around and in a result; look at what changed. */
TEST_F(spm, results)
{
	struct {
		unsigned char front[64];
		struct spm_info info;
		unsigned char back[64];
	} i;
	struct {
		struct spm_stats stats;
		unsigned char more[64];
		unsigned char back[64];
	} s;
	unsigned char v[1024];
	unsigned int k;
	int fd = spm_open();
	char *map;

	map = spm_map(fd, SPM_SLOT + 3 * SPM_PAGE, 0, SPM_RW);
	memset(&i, 0xa5, sizeof(i));
	i.info.argsz = sizeof(i.info);
	i.info.flags = 0;
	i.info.pad = 0;
	ASSERT_EQ(0, ioctl(fd, SPM_IOC_INFO, &i.info));
	for (k = 0; k < 64; k++) {
		ASSERT_EQ(0xa5, i.front[k]);
		ASSERT_EQ(0xa5, i.back[k]);
	}
	ASSERT_EQ(sizeof(i.info), i.info.argsz);
	ASSERT_EQ(SPM_API_VERSION, i.info.version);
	ASSERT_EQ(0, i.info.flags & ~(SPM_INFO_SUPERPAGES |
				      SPM_INFO_PERSISTENT |
				      SPM_INFO_SIZE_FIXED));
	ASSERT_EQ(2, i.info.npagesizes);
	ASSERT_EQ(4096, i.info.pagesizes[SPM_PSIND_4K]);
	ASSERT_EQ(2097152, i.info.pagesizes[SPM_PSIND_2M]);
	ASSERT_EQ(0, i.info.pagesizes[2]);
	ASSERT_EQ(0, i.info.pagesizes[3]);
	ASSERT_EQ(SPM_SLOT + 3 * SPM_PAGE, i.info.size);
	ASSERT_EQ(0, i.info.pad);

	/* A caller that knows more: its part is left alone, or zero. */
	memset(&s, 0xa5, sizeof(s));
	memset(&s.stats, 0, sizeof(s.stats) + sizeof(s.more));
	s.stats.argsz = sizeof(s.stats) + sizeof(s.more);
	ASSERT_EQ(0, ioctl(fd, SPM_IOC_STATS, &s));
	for (k = 0; k < 64; k++) {
		ASSERT_EQ(0, s.more[k]);
		ASSERT_EQ(0xa5, s.back[k]);
	}
	ASSERT_EQ(1, s.stats.regions);
	ASSERT_EQ(1, s.stats.maps);

	/* One byte a page, no more, all bits known. */
	map[5 * SPM_PAGE] = 1;
	memset(v, 0xa5, sizeof(v));
	ASSERT_EQ(0, spm_mincore(fd, map, SPM_SLOT + 3 * SPM_PAGE, v + 100));
	for (k = 0; k < 1024; k++) {
		if (k >= 100 && k < 100 + 515) {
			ASSERT_EQ(0, v[k] & ~(SPM_MINCORE_INCORE |
					      SPM_MINCORE_REFERENCED |
					      SPM_MINCORE_MODIFIED |
					      SPM_MINCORE_MAPPED |
					      SPM_MINCORE_WRITABLE |
					      SPM_MINCORE_PSIND_MASK));
			ASSERT_EQ(k == 105, !!v[k]);
		} else {
			ASSERT_EQ(0xa5, v[k]);
		}
	}
	ASSERT_EQ(SPM_MINCORE_INCORE | SPM_MINCORE_REFERENCED |
		  SPM_MINCORE_MODIFIED | SPM_MINCORE_MAPPED |
		  SPM_MINCORE_WRITABLE, v[105]);
}

/*
 * Arguments and results in memory of the region itself that nobody touched
 * yet: the copy faults, and the fault needs what the call might hold.
 */
TEST_F(spm, arguments_inside_the_region)
{
	int fd = spm_open(), i, pass;
	struct command *c;
	char *map, *other;
	uint64_t off;

	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	other = spm_map(fd, 4 * SPM_SLOT, SPM_SLOT, SPM_RW);
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < NR_COMMANDS; i++) {
			struct command local;

			command(&local, i, map);
			if (local.nr == SPM_IOC_SET_SIZE)
				local.set_size.size = 8 * SPM_SLOT;
			/* across a border of pages, then of slots */
			off = pass ? SPM_SLOT : (i + 1) * 7 * SPM_PAGE;
			off -= local.size / 2 & ~7UL;
			c = (void *)(other + off);
			memcpy(c, local.bytes, local.size);
			ASSERT_EQ(0, call_at(fd, local.nr, c)) {
				TH_LOG("%s", local.name);
			}
		}
	}
	/* Results of a look at the very slot that they are written to. */
	ASSERT_EQ(0, spm_mincore(fd, other + 2 * SPM_SLOT, SPM_SLOT,
				 (unsigned char *)other + 3 * SPM_SLOT - 256));
	ASSERT_EQ(0, spm_mincore(fd, other + 2 * SPM_SLOT, 2 * SPM_SLOT,
				 (unsigned char *)other + 2 * SPM_SLOT + 4000));
	/* A request on a range that the request itself lies in. */
	c = (void *)(other + 3 * SPM_SLOT);
	*(struct spm_advise *)c = (struct spm_advise) {
		.argsz = sizeof(struct spm_advise),
		.start = (uintptr_t)other + 3 * SPM_SLOT,
		.len = SPM_SLOT,
		.advice = SPM_ADV_PROMOTE,
	};
	ASSERT_EQ(0, ioctl(fd, SPM_IOC_ADVISE, c));
	ASSERT_EQ(512, spm_count_2m(fd, other + 3 * SPM_SLOT, SPM_SLOT));
	((struct spm_advise *)c)->advice = SPM_ADV_DISCARD;
	ASSERT_EQ(0, ioctl(fd, SPM_IOC_ADVISE, c));
	ASSERT_EQ(-1, spm_nonzero(other + 3 * SPM_SLOT, 512));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Offsets that do not fit into 32 bits, also for callers that have only 32. */
TEST_F(spm, offsets_above_4g)
{
	uint64_t off = (5ULL << 30) + SPM_SLOT;
	struct spm_stats s;
	int fd = spm_open();
	char *map, *low;

	map = spm_map(fd, SPM_SLOT, off, SPM_RW);
	low = spm_map(fd, SPM_SLOT, off & 0xffffffff, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, off / SPM_PAGE, SEED);
	ASSERT_EQ(-1, spm_nonzero(low, 512));
	spm_fill(low, 0, 512, SEED);
	ASSERT_EQ(0, spm_advise_off(fd, off, SPM_PAGE, SPM_ADV_DISCARD));
	ASSERT_EQ(-1, spm_nonzero(map, 1));
	ASSERT_EQ(-1, spm_wrong(map + SPM_PAGE, off / SPM_PAGE + 1, 511,
				SEED));
	ASSERT_EQ(-1, spm_wrong(low, 0, 512, SEED));
	ASSERT_EQ(0, spm_set_size(fd, 5ULL << 30));
	spm_stats(fd, &s);
	ASSERT_EQ(512, s.pages);
	ASSERT_EQ(SIGBUS, spm_try_read(map));
	ASSERT_EQ(-1, spm_wrong(low, 0, 512, SEED));
	ASSERT_EQ(0, spm_consistent(fd));
}

/* Global counters include this region's and say so by flag only. */
TEST_F(spm, stats_scopes)
{
	struct spm_stats r, g0, g1;
	int fd = spm_open();
	char *map;

	spm_stats_global(fd, &g0);
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_stats(fd, &r);
	spm_stats_global(fd, &g1);
	ASSERT_EQ(1, r.promotions);
	ASSERT_EQ(512, r.pages);
	ASSERT_EQ(1, r.regions);
	ASSERT_EQ(g0.promotions + 1, g1.promotions);
	ASSERT_EQ(g0.pages + 512, g1.pages);
	ASSERT_EQ(g0.vm_faults + r.vm_faults, g1.vm_faults);
	/* What a region counted stays in the sum when it is gone. */
	spm_unmap(map, SPM_SLOT);
	close(fd);
	fd = spm_open();
	spm_stats(fd, &r);
	ASSERT_EQ(0, r.promotions);
	spm_stats_global(fd, &g1);
	ASSERT_EQ(g0.promotions + 1, g1.promotions);
	ASSERT_EQ(g0.pages, g1.pages);
}

SPM_TEST_MAIN
