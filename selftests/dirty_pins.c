// SPDX-License-Identifier: GPL-2.0
/*
 * Property: stores that come by no entry are told as well: of a device that is
 * doing direct I/O into the memory, and of other processes by process_vm_writev()
 * and /proc/PID/mem, while a collector clears all the time.
 *
 * Kind of bug: a page is told and cleared while a device or another process,
 * which took hold of it before, has yet to store; nobody faults then, and the
 * store is never told.
 *
 * Each round stores something new, then asks once more with nothing under way:
 * all that came since must have been told, and the copy that a collector would
 * keep by the answers must be the region.
 *
 * spm-test: needs=disk timeout=200 full=debug
 */
#include "spm_sync.h"

#include <linux/aio_abi.h>
#include <linux/userfaultfd.h>
#include <sys/uio.h>

#define OFF	SPM_SCAN_BY_OFFSET
#define CLEAR	SPM_SCAN_CLEAR
#define SEED	101
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)
#define FILE_NAME	"/disk/superpmap-dirty-pins"
#define IO		(32UL << 10)
#define IO_PAGES	(IO / SPM_PAGE)

static double seconds(void)
{
	return spm_slow_kernel() ? 6 : 3;
}

/*
 * A copy of the region, kept by the answers.  It is read after the answer, so it
 * may already have what a later answer will tell; never less.
 */
static char *copied;

static long collect(int fd, const char *map)
{
	static struct spm_page_range vec[PAGES];
	struct spm_scan s = {
		.flags = OFF | CLEAR, .len = LEN,
		.vec = (uintptr_t)vec, .vec_len = PAGES,
	};
	uint64_t i;

	if (spm_scan(fd, SPM_IOC_GET_DIRTY, &s))
		spm_die("GET_DIRTY");
	for (i = 0; i < s.count; i++)
		memcpy(copied + vec[i].start, map + vec[i].start,
		       vec[i].end - vec[i].start);
	return s.pages;
}

static long differs(const char *map)
{
	long i;

	for (i = 0; i < PAGES; i++)
		if (memcmp(copied + i * SPM_PAGE, map + i * SPM_PAGE, SPM_PAGE))
			return i;
	return -1;
}

/* @grain by turns; the collector reads by a mapping of its own. */
static char *begin(int fd, char **reader)
{
	char *map = spm_map(fd, LEN, 0, SPM_RW);

	*reader = spm_map(fd, LEN, 0, PROT_READ);
	copied = calloc(1, LEN);
	spm_promoted(fd, map, LEN, 0, SEED);
	if (collect(fd, *reader) != PAGES || differs(*reader) != -1)
		spm_die("the first copy");
	return map;
}

/* -- a device ------------------------------------------------------------------ */

struct io {
	int file;
	char *data;
	aio_context_t ctx;
};

static bool io_open(struct io *io)
{
	io->file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT |
			O_CLOEXEC, 0600);
	if (io->file < 0)
		return false;
	io->ctx = 0;
	if (syscall(__NR_io_setup, 4, &io->ctx) ||
	    posix_memalign((void **)&io->data, SPM_PAGE, IO))
		spm_die("io_setup");
	return true;
}

static void io_read_begin(struct io *io, char *buf)
{
	struct iocb cb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = io->file,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = IO,
	};
	struct iocb *list[1] = { &cb };

	if (syscall(__NR_io_submit, io->ctx, 1, list) != 1)
		spm_die("io_submit");
}

static bool io_done(struct io *io, bool wait)
{
	struct io_event ev;
	struct timespec none = { };
	long n = syscall(__NR_io_getevents, io->ctx, wait, 1, &ev,
			 wait ? NULL : &none);

	if (n < 0 || (n && ev.res != IO))
		spm_die("io_getevents");
	return n;
}

TEST_F(spm, reads_in_flight)
{
	double end = spm_now() + seconds();
	int fd = spm_open(), clears = 0;
	struct spm_stats before;
	char *map, *reader;
	unsigned int n;
	struct io io;

	if (!io_open(&io))
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	map = begin(fd, &reader);
	spm_stats(fd, &before);
	for (n = 0; spm_now() < end; n++) {
		unsigned int at = n * 37 % (PAGES - IO_PAGES);

		ASSERT_EQ(0, spm_policy_set(fd, "dirty_grain", n % 3));
		spm_fill(io.data, at, IO_PAGES, SEED + n);
		ASSERT_EQ(IO, pwrite(io.file, io.data, IO, 0));
		io_read_begin(&io, map + at * SPM_PAGE);
		do {
			collect(fd, reader);
			clears++;
			/* Beside the buffer, where the CPU stores. */
			map[(at + IO_PAGES + 5) % PAGES * SPM_PAGE + 8]++;
		} while (!io_done(&io, n % 4 == 0));
		collect(fd, reader);
		ASSERT_EQ(-1, spm_wrong(reader + at * SPM_PAGE, at, IO_PAGES,
					SEED + n));
		ASSERT_EQ(-1, differs(reader)) {
			TH_LOG("round %u, page %ld, buffer at %u", n,
			       differs(reader), at);
		}
		/* Let go of, all gets clean. */
		ASSERT_EQ(0, spm_count_clean_writable(fd, map, LEN));
	}
	spm_dirty(fd, OFF | CLEAR, 0, LEN);
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, LEN));
	TH_LOG("%u reads, %d clears, %lld pages kept dirty", n, clears,
	       spm_delta(fd, &before, kept_dirty));
	ASSERT_EQ(0, spm_all_consistent());
	syscall(__NR_io_destroy, io.ctx);
	close(io.file);
	unlink(FILE_NAME);
}

/* -- other processes --------------------------------------------------------------- */

struct remote {
	struct spm_barrier barrier;
	atomic_uint stop;
	atomic_ulong stores;
	char *map;
	bool by_mem;
};

static struct remote *r;

/* Stores into the parent's mapping, now one page, now a run. */
static int write_from_outside(void *arg)
{
	static char buf[8 * SPM_PAGE];
	pid_t parent = getppid();
	unsigned int x = 12345, n;
	char path[64];
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", parent);
	mem = open(path, O_RDWR);
	if (mem < 0)
		spm_die("%s", path);
	while (!atomic_load(&r->stop)) {
		char *to;
		size_t len;

		for (n = 0; n < 50; n++) {
			struct iovec local, remote;

			x = x * 1103515245 + 12345;
			len = x >> 28 ? 8 : sizeof(buf);
			to = r->map + (x >> 12) % (PAGES - 8) * SPM_PAGE;
			memset(buf, x >> 20, len);
			local = (struct iovec){ buf, len };
			remote = (struct iovec){ to, len };
			if (r->by_mem ? pwrite(mem, buf, len, (uintptr_t)to) !=
						len :
					process_vm_writev(parent, &local, 1,
							  &remote, 1, 0) != len)
				return 1;
			atomic_fetch_add(&r->stores, 1);
		}
		spm_barrier_wait(&r->barrier);
		spm_barrier_wait(&r->barrier);
	}
	close(mem);
	return 0;
}

static void remote_stores(struct __test_metadata *_metadata, bool by_mem)
{
	double end = spm_now() + seconds();
	int fd = spm_open(), rounds = 0;
	char *map, *reader;
	pid_t pid;

	r = spm_shared(sizeof(*r));
	r->barrier.parties = 2;
	map = begin(fd, &reader);
	r->map = map;
	r->by_mem = by_mem;
	pid = spm_fork(write_from_outside, NULL);
	do {
		/* Until the other waits at the barrier. */
		while (!atomic_load(&r->barrier.arrived))
			collect(fd, reader);
		spm_barrier_wait(&r->barrier);
		collect(fd, reader);
		ASSERT_EQ(-1, differs(reader)) {
			TH_LOG("round %d, page %ld", rounds, differs(reader));
		}
		ASSERT_EQ(0, spm_policy_set(fd, "dirty_grain", rounds % 3));
		if (rounds++ % 8 == 0) {
			ASSERT_EQ(0, spm_advise(fd, map, LEN,
						SPM_ADV_PROMOTE));
		}
		if (spm_now() > end)
			atomic_store(&r->stop, 1);
		spm_barrier_wait(&r->barrier);
	} while (!atomic_load(&r->stop));
	ASSERT_EQ(0, spm_wait(pid));
	TH_LOG("%d rounds, %lu stores", rounds, atomic_load(&r->stores));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- a store that was begun before the clear, and ends after it ------------------------- */

/*
 * What is stored comes from memory that is not there yet, so the store stops
 * between taking hold of the region's page and storing to it.
 */
struct late {
	int uffd;
	char *from, *to;
	pthread_t thread;
	ssize_t ret;
};

static bool late_open(struct late *l)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	l->uffd = syscall(__NR_userfaultfd, O_CLOEXEC);
	if (l->uffd < 0)
		return false;
	l->from = mmap(NULL, SPM_PAGE, SPM_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	reg.range.start = (uintptr_t)l->from;
	reg.range.len = SPM_PAGE;
	if (l->from == MAP_FAILED || ioctl(l->uffd, UFFDIO_API, &api) ||
	    ioctl(l->uffd, UFFDIO_REGISTER, &reg))
		spm_die("userfaultfd");
	return true;
}

static void *late_store(void *arg)
{
	struct late *l = arg;
	struct iovec local = { l->from, SPM_PAGE };
	struct iovec remote = { l->to, SPM_PAGE };

	l->ret = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
	return NULL;
}

/* Returns once the store has hold of the page. */
static void late_begin(struct late *l, char *to)
{
	struct uffd_msg msg;

	l->to = to;
	spm_thread(&l->thread, late_store, l);
	if (read(l->uffd, &msg, sizeof(msg)) != sizeof(msg) ||
	    msg.event != UFFD_EVENT_PAGEFAULT)
		spm_die("userfaultfd");
}

static void late_end(struct late *l, const void *data)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)l->from,
		.src = (uintptr_t)data,
		.len = SPM_PAGE,
	};

	if (ioctl(l->uffd, UFFDIO_COPY, &copy))
		spm_die("UFFDIO_COPY");
	pthread_join(l->thread, NULL);
	if (l->ret != SPM_PAGE)
		spm_die("process_vm_writev gave %zd", l->ret);
	/* Missing again, for the next time. */
	if (madvise(l->from, SPM_PAGE, MADV_DONTNEED))
		spm_die("MADV_DONTNEED");
}

static char late_data[SPM_PAGE] __attribute__((aligned(4096)));

TEST_F(spm, store_that_ends_after_the_clear)
{
	static const char * const kinds[] = { "2 MB", "4 KB", "private" };
	struct late l;
	uint32_t flags;
	uint64_t start;
	bool set[512];
	char *map;
	int k, fd;

	if (!late_open(&l))
		SKIP(return, "no userfaultfd: %s", strerror(errno));
	for (k = 0; k < ARRAY_SIZE(kinds); k++) {
		fd = spm_open();
		map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
		spm_promoted(fd, map, SPM_SLOT, 0, SEED);
		spm_dirty(fd, OFF | CLEAR, 0, SPM_SLOT);
		if (k == 1) {
			ASSERT_EQ(0, spm_advise(fd, map, SPM_SLOT,
						SPM_ADV_DEMOTE));
		}
		if (k == 2)
			map = spm_private_at(map, fd, SPM_SLOT, 0, SPM_RW);
		flags = k == 2 ? CLEAR : OFF | CLEAR;
		start = k == 2 ? (uintptr_t)map : 0;
		late_begin(&l, map + 7 * SPM_PAGE);
		/* Told each time, and the page is not clean. */
		ASSERT_EQ(1, spm_dirty(fd, flags, start, SPM_SLOT)) {
			TH_LOG("%s", kinds[k]);
		}
		ASSERT_EQ(1, spm_dirty(fd, flags, start, SPM_SLOT));
		ASSERT_EQ(0, spm_count_clean_writable(fd, map, SPM_SLOT));
		memset(late_data, 0x55 + k, SPM_PAGE);
		late_end(&l, late_data);
		ASSERT_EQ(0, memcmp(map + 7 * SPM_PAGE, late_data, SPM_PAGE));
		if (k < 2) {
			ASSERT_EQ(1, spm_dirty_set(fd, CLEAR, 512, set));
			ASSERT_TRUE(set[7]);
		} else {
			ASSERT_EQ(1, spm_dirty(fd, flags, start, SPM_SLOT));
		}
		ASSERT_EQ(0, spm_dirty(fd, flags, start, SPM_SLOT));
		spm_unmap(map, SPM_SLOT);
		close(fd);
	}
	ASSERT_EQ(0, spm_all_consistent());
}

/* The page stays with the side whose store it is, and so does the answer. */
TEST_F(spm, snapshot_during_a_late_store)
{
	int fd = spm_open(), snap;
	char *map, *image;
	struct late l;

	if (!late_open(&l))
		SKIP(return, "no userfaultfd: %s", strerror(errno));
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	spm_dirty(fd, OFF | CLEAR, 0, SPM_SLOT);
	map[3 * SPM_PAGE + 8] = 1;
	late_begin(&l, map + 7 * SPM_PAGE);
	snap = spm_snapshot(fd);
	/* Both have what was dirty, each for itself. */
	ASSERT_EQ(2, spm_dirty(snap, OFF, 0, SPM_SLOT));
	ASSERT_EQ(2, spm_dirty(fd, OFF | CLEAR, 0, SPM_SLOT));
	ASSERT_EQ(2, spm_dirty(snap, OFF | CLEAR, 0, SPM_SLOT));
	ASSERT_EQ(0, spm_dirty(snap, OFF, 0, SPM_SLOT));
	memset(late_data, 0x66, SPM_PAGE);
	late_end(&l, late_data);
	image = spm_map(snap, SPM_SLOT, 0, PROT_READ);
	ASSERT_EQ(0, memcmp(map + 7 * SPM_PAGE, late_data, SPM_PAGE));
	ASSERT_EQ(-1, spm_wrong(image + 7 * SPM_PAGE, 7, 1, SEED));
	ASSERT_LE(1, spm_dirty(fd, OFF | CLEAR, 0, SPM_SLOT));
	ASSERT_EQ(0, spm_dirty(fd, OFF | CLEAR, 0, SPM_SLOT));
	ASSERT_EQ(0, spm_dirty(snap, OFF, 0, SPM_SLOT));
	ASSERT_EQ(0, spm_all_consistent());
}

TEST_F(spm, process_vm_writev)
{
	remote_stores(_metadata, false);
}

TEST_F(spm, proc_mem)
{
	remote_stores(_metadata, true);
}

SPM_TEST_MAIN
