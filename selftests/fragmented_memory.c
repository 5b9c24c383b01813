// SPDX-License-Identifier: GPL-2.0
/*
 * Property: where memory is plenty but in pieces, everything works with single
 * pages, and one query says so; when the pieces are whole again, full slots get
 * their blocks, without being emptied before.
 * Guards against: ENOMEM, SIGBUS or minutes of compaction because no 2 MB of
 * memory are contiguous, and slots that stay without superpages for ever.
 *
 * spm-test: timeout=400 full=7.3
 */
#include "spm_sync.h"

#define SLOTS	48
#define LEN	(SLOTS * SPM_SLOT)
/* One page of so many stays, and cannot be moved. */
#define EVERY	16

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		spm_die("cannot write %s to %s", text, path);
	close(fd);
}

/* Free blocks of 2 MB and more, in blocks of 2 MB. */
static long free_blocks(void)
{
	FILE *f = fopen("/proc/buddyinfo", "r");
	char line[512];
	long sum = 0;

	while (f && fgets(line, sizeof(line), f)) {
		char *p = strstr(line, "zone");
		int order, used;
		long n;

		if (!p || sscanf(p, "zone %*s%n", &used) < 0)
			continue;
		p += used;
		for (order = 0; sscanf(p, "%ld%n", &n, &used) == 1; order++) {
			if (order >= 9)
				sum += n << (order - 9);
			p += used;
		}
	}
	if (f)
		fclose(f);
	return sum;
}

struct splinter {
	size_t len;
	int *ready, *go;
};

/* Nearly all memory by single pages that stay where they are; then free most. */
static int splinter(void *arg)
{
	struct splinter *s = arg;
	char byte, *p;
	size_t i;

	p = mmap(NULL, s->len, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	spm_child_check(p != MAP_FAILED, "mmap");
	madvise(p, s->len, MADV_NOHUGEPAGE);
	spm_child_check(!mlock(p, s->len), "mlock");
	for (i = 0; i < s->len; i += EVERY * SPM_PAGE)
		spm_child_check(!munmap(p + i + SPM_PAGE,
					(EVERY - 1) * SPM_PAGE), "munmap");
	spm_child_check(write(s->ready[1], "r", 1) == 1, "tell");
	spm_child_check(read(s->go[0], &byte, 1) == 1, "wait");
	return 0;
}

TEST_F(spm, single_pages_until_memory_is_whole_again)
{
	int ready[2], go[2], fd = spm_open(), rest = spm_open(), snap;
	struct splinter s = { .ready = ready, .go = go };
	struct spm_stats before, now;
	char allowed[16] = "1", byte;
	long blocks, count;
	char *p, *q, *v;
	pid_t pid;
	FILE *f;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	f = fopen("/proc/sys/vm/compact_unevictable_allowed", "r");
	if (!f || !fgets(allowed, sizeof(allowed), f))
		SKIP(return, "compaction cannot be kept from locked pages");
	fclose(f);
	write_to("/proc/sys/vm/compact_unevictable_allowed", "0");
	/* A whole number of such groups. */
	s.len = (spm_available() << 10) / 100 * 92 & ~(EVERY * SPM_PAGE - 1);
	pid = spm_fork(splinter, &s);
	close(ready[1]);
	count = read(ready[0], &byte, 1);
	EXPECT_EQ(1, count);
	blocks = free_blocks();
	TH_LOG("%ld MB available, %ld blocks of 2 MB free",
	       spm_available() >> 10, blocks);

	/* What is whole still, and what compaction makes of the rest, is taken. */
	spm_stats(rest, &before);
	blocks = blocks + 2 * SLOTS;
	q = spm_map(rest, blocks * SPM_SLOT, 0, SPM_RW);
	for (count = 0; count < blocks; count++)
		q[count * SPM_SLOT] = 1;
	TH_LOG("%lld of %ld slots got a block",
	       spm_delta(rest, &before, reserv_allocated), blocks);

	spm_stats(fd, &before);
	p = spm_map(fd, LEN, 0, SPM_RW);
	spm_fill(p, 0, SLOTS * SPM_SLOT_PAGES, 1);
	spm_stats(fd, &now);
	TH_LOG("%llu of %d slots by single pages",
	       (unsigned long long)(now.reserv_unavailable -
				    before.reserv_unavailable), SLOTS);
	EXPECT_LT(0, now.reserv_unavailable - before.reserv_unavailable);
	EXPECT_LT(0, now.loose);
	EXPECT_EQ(SLOTS * SPM_SLOT_PAGES, now.pages);
	EXPECT_EQ(SLOTS * SPM_SLOT_PAGES,
		  (size_t)(spm_count_2m(fd, p, LEN) + spm_count_4k(fd, p, LEN)));
	EXPECT_EQ(-1, spm_wrong(p, 0, SLOTS * SPM_SLOT_PAGES, 1));
	EXPECT_EQ(0, spm_consistent(fd));
	EXPECT_EQ(0, spm_advise(fd, p, LEN, SPM_ADV_PROMOTE));
	snap = spm_snapshot(fd);
	spm_fill(p, 0, 600, 2);
	v = spm_map(snap, LEN, 0, PROT_READ);
	EXPECT_EQ(-1, spm_wrong(v, 0, SLOTS * SPM_SLOT_PAGES, 1));
	spm_unmap(v, LEN);
	close(snap);
	EXPECT_EQ(-1, spm_wrong(p, 0, 600, 2));
	EXPECT_EQ(0, spm_all_consistent());

	/* Whole again. */
	spm_unmap(q, blocks * SPM_SLOT);
	close(rest);
	EXPECT_EQ(1, write(go[1], "g", 1));
	EXPECT_EQ(0, spm_wait(pid));
	write_to("/proc/sys/vm/compact_unevictable_allowed", allowed);
	write_to("/proc/sys/vm/compact_memory", "1");
	TH_LOG("%ld blocks of 2 MB free", free_blocks());
	spm_stats(fd, &before);
	sleep(1);
	ASSERT_EQ(0, madvise(p, LEN, MADV_DONTNEED));
	spm_touch_write(p, LEN);
	spm_stats(fd, &now);
	EXPECT_LT(0, now.reassembled - before.reassembled);
	EXPECT_EQ(0, now.loose);
	EXPECT_EQ(SLOTS * SPM_SLOT_PAGES, (size_t)spm_count_2m(fd, p, LEN));
	EXPECT_EQ(0, spm_all_consistent());
}

SPM_TEST_MAIN
