// SPDX-License-Identifier: GPL-2.0
/*
 * Property: other processes can read and write the mapping by process_vm_readv
 * and process_vm_writev, /proc/PID/mem and ptrace, whatever is mapped there,
 * and pages can be handed to a pipe by vmsplice; modifications are recorded.
 * Guards against: an oops when a place is accessed that was never touched, has
 * no permission or lies beyond the region; a debugger that sees another page
 * than the program; words across a slot border; data of pages in a pipe that
 * changes hands after DISCARD.
 *
 * spm-test: smp=4
 */
#include "spm_sync.h"

#include <sys/ptrace.h>
#include <sys/uio.h>

#define SIZE		(3 * SPM_SLOT)		/* of the region */
#define MAPPED		(4 * SPM_SLOT)		/* the last slot is beyond it */

/*
 * Slot 0: promoted, but for page 500 (PROT_READ) and 501 (PROT_NONE).
 * Slot 1: first half 4 KB entries, second half never touched.
 * Slot 2: promoted read-only and clean.
 */
#define PAGE_PROMOTED	100
#define PAGE_READ_ONLY	500
#define PAGE_NO_ACCESS	501
#define PAGE_SMALL	(SPM_SLOT_PAGES + 50)
#define PAGE_ABSENT	(SPM_SLOT_PAGES + 400)
#define PAGE_CLEAN	(2 * SPM_SLOT_PAGES + 9)
#define PAGE_BEYOND	(3 * SPM_SLOT_PAGES + 1)
#define BORDER		(SPM_SLOT_PAGES * SPM_PAGE)

struct target {
	int fd;
	char *p;		/* the same in parent and child */
	pid_t pid;
	int unblock;		/* closing it ends the child */
};

static void target_map(struct target *t)
{
	t->fd = spm_open();
	if (spm_set_size(t->fd, SIZE))
		spm_die("SPM_IOC_SET_SIZE");
	t->p = spm_map(t->fd, MAPPED, 0, SPM_RW);
	spm_promoted(t->fd, t->p, SPM_SLOT, 0, 1);
	spm_fill(t->p + SPM_SLOT, SPM_SLOT_PAGES, SPM_SLOT_PAGES / 2, 1);
	spm_touch_read(t->p + 2 * SPM_SLOT, SPM_SLOT);
	if (mprotect(t->p + PAGE_READ_ONLY * SPM_PAGE, SPM_PAGE, PROT_READ) ||
	    mprotect(t->p + PAGE_NO_ACCESS * SPM_PAGE, SPM_PAGE, PROT_NONE))
		spm_die("mprotect");
}

/*
 * The child has the mapping and sleeps.  It touches nothing itself: entries of
 * a shared mapping are not copied by fork, so that all is absent in its tables.
 */
static int sleep_until_closed(void *arg)
{
	char c;

	return read(*(int *)arg, &c, 1) != 0;
}

static void target_start(struct target *t)
{
	int ends[2];

	target_map(t);
	if (pipe2(ends, O_CLOEXEC))
		spm_die("pipe");
	t->pid = fork();
	if (t->pid < 0)
		spm_die("fork");
	if (!t->pid) {
		close(ends[1]);
		_exit(sleep_until_closed(&ends[0]));
	}
	close(ends[0]);
	t->unblock = ends[1];
}

static void target_stop(struct target *t)
{
	close(t->unblock);
	if (spm_wait(t->pid))
		spm_die("the target did not end well");
	spm_unmap(t->p, MAPPED);
	close(t->fd);
}

static ssize_t vm_read(struct target *t, size_t off, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { t->p + off, len };
	ssize_t n = process_vm_readv(t->pid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

static ssize_t vm_write(struct target *t, size_t off, void *buf, size_t len)
{
	struct iovec local = { buf, len }, remote = { t->p + off, len };
	ssize_t n = process_vm_writev(t->pid, &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

static int mem_open(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		spm_die("open %s", path);
	return fd;
}

static int mem_fd;

static ssize_t mem_read(struct target *t, size_t off, void *buf, size_t len)
{
	ssize_t n = pread(mem_fd, buf, len, (uintptr_t)t->p + off);

	return n < 0 ? -errno : n;
}

static ssize_t mem_write(struct target *t, size_t off, void *buf, size_t len)
{
	ssize_t n = pwrite(mem_fd, buf, len, (uintptr_t)t->p + off);

	return n < 0 ? -errno : n;
}

typedef ssize_t (*access_fn)(struct target *t, size_t off, void *buf, size_t len);

static char buf[4 * SPM_PAGE];

static bool dirty(struct target *t, size_t page)
{
	return spm_state(t->fd, t->p + page * SPM_PAGE) & SPM_MINCORE_MODIFIED;
}

static void check_reads(struct __test_metadata *_metadata, struct target *t,
			access_fn get, int refused)
{
	ssize_t n;

	EXPECT_EQ(SPM_PAGE, get(t, PAGE_PROMOTED * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(buf, PAGE_PROMOTED, 1, 1));
	EXPECT_EQ(SPM_PAGE, get(t, PAGE_SMALL * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(buf, PAGE_SMALL, 1, 1));
	EXPECT_EQ(SPM_PAGE, get(t, PAGE_READ_ONLY * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(buf, PAGE_READ_ONLY, 1, 1));

	memset(buf, 0xee, SPM_PAGE);
	EXPECT_EQ(SPM_PAGE, get(t, PAGE_ABSENT * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(-1, spm_nonzero(buf, 1));
	EXPECT_EQ(0, dirty(t, PAGE_ABSENT));
	memset(buf, 0xee, SPM_PAGE);
	EXPECT_EQ(SPM_PAGE, get(t, PAGE_CLEAN * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(-1, spm_nonzero(buf, 1));
	EXPECT_EQ(0, dirty(t, PAGE_CLEAN));

	/* Both sides of a slot border at once. */
	EXPECT_EQ(2 * SPM_PAGE, get(t, BORDER - SPM_PAGE, buf, 2 * SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(buf, SPM_SLOT_PAGES - 1, 2, 1));

	/* A debugger may look at what the program cannot read. */
	n = get(t, PAGE_NO_ACCESS * SPM_PAGE, buf, SPM_PAGE);
	if (get == mem_read && n == (ssize_t)SPM_PAGE) {
		EXPECT_EQ(-1, spm_wrong(buf, PAGE_NO_ACCESS, 1, 1));
	} else {
		EXPECT_EQ(refused, n);
	}
	EXPECT_EQ(refused, get(t, PAGE_BEYOND * SPM_PAGE, buf, SPM_PAGE));
}

static void check_writes(struct __test_metadata *_metadata, struct target *t,
			 access_fn put, int refused)
{
	static const size_t pages[] = { PAGE_PROMOTED, PAGE_SMALL, PAGE_ABSENT,
					PAGE_CLEAN };
	long before = spm_count_dirty(t->fd, t->p, SIZE);
	unsigned int i;

	for (i = 0; i < 4; i++) {
		spm_fill(buf, pages[i], 1, 2);
		EXPECT_EQ(SPM_PAGE, put(t, pages[i] * SPM_PAGE, buf, SPM_PAGE));
		EXPECT_EQ(-1, spm_wrong(t->p + pages[i] * SPM_PAGE, pages[i], 1, 2));
		EXPECT_NE(0, dirty(t, pages[i]));
	}
	/* Two of them had been clean, and no other page was hit. */
	EXPECT_EQ(before + 2, spm_count_dirty(t->fd, t->p, SIZE));

	spm_fill(buf, SPM_SLOT_PAGES - 1, 2, 2);
	EXPECT_EQ(2 * SPM_PAGE, put(t, BORDER - SPM_PAGE, buf, 2 * SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(t->p + BORDER - SPM_PAGE, SPM_SLOT_PAGES - 1, 2, 2));

	/* Writes to shared memory that is not writable are never forced. */
	EXPECT_EQ(refused, put(t, PAGE_READ_ONLY * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(refused, put(t, PAGE_NO_ACCESS * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(refused, put(t, PAGE_BEYOND * SPM_PAGE, buf, SPM_PAGE));
	EXPECT_EQ(-1, spm_wrong(t->p + PAGE_READ_ONLY * SPM_PAGE,
				PAGE_READ_ONLY, 1, 1));
	EXPECT_EQ(0, spm_count_clean_writable(t->fd, t->p, SIZE));
}

TEST_F(spm, process_vm)
{
	struct target t;

	target_start(&t);
	check_reads(_metadata, &t, vm_read, -EFAULT);
	EXPECT_EQ(0, spm_consistent(t.fd));
	check_writes(_metadata, &t, vm_write, -EFAULT);
	EXPECT_EQ(0, spm_consistent(t.fd));
	target_stop(&t);
}

TEST_F(spm, proc_pid_mem)
{
	struct target t;

	target_start(&t);
	mem_fd = mem_open(t.pid);
	check_reads(_metadata, &t, mem_read, -EIO);
	EXPECT_EQ(0, spm_consistent(t.fd));
	check_writes(_metadata, &t, mem_write, -EIO);
	EXPECT_EQ(0, spm_consistent(t.fd));
	close(mem_fd);
	target_stop(&t);
}

TEST_F(spm, proc_self_mem)
{
	struct target t = { .pid = getpid() };

	target_map(&t);
	mem_fd = mem_open(t.pid);
	check_reads(_metadata, &t, mem_read, -EIO);
	check_writes(_metadata, &t, mem_write, -EIO);
	EXPECT_EQ(0, spm_consistent(t.fd));
}

/* Every page of a slot through /proc/PID/mem while the process dies. */
TEST_F(spm, target_dies_under_access)
{
	struct target t;
	int round, delay;
	size_t page;
	ssize_t n;

	for (round = 0; round < 20; round++) {
		target_start(&t);
		mem_fd = mem_open(t.pid);
		delay = round * 7;
		for (page = 0; page < SIZE / SPM_PAGE; page++) {
			if (page == delay)
				kill(t.pid, SIGKILL);
			n = round % 2 ? mem_read(&t, page * SPM_PAGE, buf, 8) :
					mem_write(&t, page * SPM_PAGE, buf, 8);
			/* 0: no address space any more */
			if (n != 8 && n != 0 && n != -EIO)
				break;
		}
		EXPECT_EQ(SIZE / SPM_PAGE, page) {
			TH_LOG("access gave %zd", n);
		}
		close(mem_fd);
		EXPECT_EQ(256 + SIGKILL, spm_wait(t.pid));
		close(t.unblock);
		spm_unmap(t.p, MAPPED);
		EXPECT_EQ(0, spm_verify());
		close(t.fd);
	}
}

TEST_F(spm, ptrace_words_at_slot_borders)
{
	static const long offsets[] = { 0, BORDER - 8, BORDER, BORDER - 4,
					PAGE_ABSENT * SPM_PAGE - 4,
					2 * BORDER - 3, 2 * BORDER,
					3 * BORDER - 8 };
	struct target t;
	unsigned long want, got, old;
	unsigned int i;
	int status;

	target_start(&t);
	ASSERT_EQ(0, ptrace(PTRACE_ATTACH, t.pid, 0, 0));
	ASSERT_EQ(t.pid, waitpid(t.pid, &status, 0));
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		memcpy(&old, t.p + offsets[i], 8);
		errno = 0;
		got = ptrace(PTRACE_PEEKDATA, t.pid, t.p + offsets[i], 0);
		EXPECT_EQ(0, errno);
		EXPECT_EQ(old, got);
		want = spm_word(offsets[i], 5, i);
		EXPECT_EQ(0, ptrace(PTRACE_POKEDATA, t.pid, t.p + offsets[i],
				    want));
		memcpy(&got, t.p + offsets[i], 8);
		EXPECT_EQ(want, got);
		EXPECT_NE(0, dirty(&t, offsets[i] / SPM_PAGE));
		EXPECT_NE(0, dirty(&t, (offsets[i] + 7) / SPM_PAGE));
		errno = 0;
		got = ptrace(PTRACE_PEEKDATA, t.pid, t.p + offsets[i], 0);
		EXPECT_EQ(0, errno);
		EXPECT_EQ(want, got);
	}
	errno = 0;
	ptrace(PTRACE_PEEKDATA, t.pid, t.p + PAGE_BEYOND * SPM_PAGE, 0);
	EXPECT_EQ(EIO, errno);
	EXPECT_EQ(-1, ptrace(PTRACE_POKEDATA, t.pid,
			     t.p + PAGE_READ_ONLY * SPM_PAGE, 0));
	EXPECT_EQ(0, ptrace(PTRACE_DETACH, t.pid, 0, 0));
	EXPECT_EQ(0, spm_consistent(t.fd));
	target_stop(&t);
}

/* Pages are in the pipe, not copies. */
static void splice_pages(struct target *t, int *ends, size_t page, size_t n)
{
	struct iovec iov = { t->p + page * SPM_PAGE, n * SPM_PAGE };

	if (vmsplice(ends[1], &iov, 1, 0) != (ssize_t)(n * SPM_PAGE))
		spm_die("vmsplice of page %zu", page);
}

static void read_all(int fd, char *p, size_t len)
{
	ssize_t n;

	while (len) {
		n = read(fd, p, len);
		if (n <= 0)
			spm_die("read of the pipe");
		p += n;
		len -= n;
	}
}

TEST_F(spm, vmsplice_from_each_place)
{
	struct target t;
	struct iovec iov;
	int ends[2];

	target_map(&t);
	ASSERT_EQ(0, pipe(ends));
	splice_pages(&t, ends, PAGE_PROMOTED, 2);
	splice_pages(&t, ends, SPM_SLOT_PAGES - 1, 2);
	read_all(ends[0], buf, 4 * SPM_PAGE);
	EXPECT_EQ(-1, spm_wrong(buf, PAGE_PROMOTED, 2, 1));
	EXPECT_EQ(-1, spm_wrong(buf + 2 * SPM_PAGE, SPM_SLOT_PAGES - 1, 2, 1));
	splice_pages(&t, ends, PAGE_SMALL, 1);
	splice_pages(&t, ends, PAGE_ABSENT, 1);
	splice_pages(&t, ends, PAGE_CLEAN, 1);
	splice_pages(&t, ends, PAGE_READ_ONLY, 1);
	read_all(ends[0], buf, 4 * SPM_PAGE);
	EXPECT_EQ(-1, spm_wrong(buf, PAGE_SMALL, 1, 1));
	EXPECT_EQ(-1, spm_nonzero(buf + SPM_PAGE, 2));
	EXPECT_EQ(-1, spm_wrong(buf + 3 * SPM_PAGE, PAGE_READ_ONLY, 1, 1));

	iov.iov_base = t.p + PAGE_BEYOND * SPM_PAGE;
	iov.iov_len = SPM_PAGE;
	EXPECT_EQ(-1, vmsplice(ends[1], &iov, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, spm_consistent(t.fd));
}

/*
 * What is in a pipe when the page is discarded: the old data or zeros, and
 * never that of somebody who gets the memory afterwards.
 */
TEST_F(spm, discarded_while_in_a_pipe)
{
	static char zero[SPM_PAGE];
	struct target t;
	int ends[2], other;
	char *q;

	target_map(&t);
	ASSERT_EQ(0, pipe(ends));
	splice_pages(&t, ends, PAGE_PROMOTED, 1);
	splice_pages(&t, ends, PAGE_SMALL, 1);
	EXPECT_EQ(0, spm_advise_off(t.fd, 0, SIZE, SPM_ADV_DISCARD));
	/* Memory that was given back is used again at once. */
	other = spm_open();
	q = spm_map(other, 2 * SPM_SLOT, 0, SPM_RW);
	spm_fill(q, 0, 2 * SPM_SLOT_PAGES, 6);
	spm_fill(t.p, 0, SPM_SLOT_PAGES / 2, 7);

	read_all(ends[0], buf, 2 * SPM_PAGE);
	if (memcmp(buf, zero, SPM_PAGE)) {
		EXPECT_EQ(-1, spm_wrong(buf, PAGE_PROMOTED, 1, 1));
	}
	if (memcmp(buf + SPM_PAGE, zero, SPM_PAGE)) {
		EXPECT_EQ(-1, spm_wrong(buf + SPM_PAGE, PAGE_SMALL, 1, 1));
	}
	EXPECT_EQ(-1, spm_wrong(q, 0, 2 * SPM_SLOT_PAGES, 6));
	EXPECT_EQ(-1, spm_wrong(t.p, 0, SPM_SLOT_PAGES / 2, 7));
	EXPECT_EQ(0, spm_consistent(t.fd));
}

SPM_TEST_MAIN
