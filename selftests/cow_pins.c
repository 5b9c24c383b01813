// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory that the kernel is doing I/O on stays with the side that
 * began the I/O, when a snapshot is taken or a process forks meanwhile: what
 * the device writes arrives there and nowhere else, what it reads is that
 * side's, and the other side has the data of before.
 *
 * Kind of bug: the pages are shared out, the next store of the side that began
 * copies them, and the I/O goes on into pages that it does not see any more;
 * or a snapshot that changes under the reader, because a device writes to it.
 *
 * spm-test: needs=disk timeout=200
 */
#include "spm_sync.h"

#include <linux/aio_abi.h>
#include <sys/uio.h>

#define SEED	71
#define LEN	(2 * SPM_SLOT)
#define PAGES	(2 * SPM_SLOT_PAGES)
#define FILE_NAME	"/disk/superpmap-pins"
#define IO		(32UL << 10)
#define IO_PAGES	(IO / SPM_PAGE)

static double seconds(void)
{
	return spm_slow_kernel() ? 8 : 4;
}

/* -- pages held by a pipe (vmsplice): references, not pins ------------------------ */

static int splice_page(int pipe_fd, char *page)
{
	struct iovec v = { page, SPM_PAGE };

	return vmsplice(pipe_fd, &v, 1, 0) == SPM_PAGE ? 0 : -errno;
}

static int storing_child(void *arg)
{
	spm_fill(arg, 0, 20, SEED + 1);
	return 0;
}

/*
 * What was spliced is the page, as with every shared mapping: later stores may
 * be seen in the pipe, but only stores of the side that spliced.
 */
TEST_F(spm, vmsplice)
{
	static uint64_t got[SPM_PAGE / 8];
	int fd, snap, pipes[2], kind;
	char *region, *map, *copy;

	for (kind = 0; kind < 2; kind++) {
		fd = spm_open();
		region = spm_map(fd, LEN, 0, SPM_RW);
		spm_promoted(fd, region, LEN, 0, SEED);
		map = kind ? spm_private(fd, LEN, 0, SPM_RW) : region;
		if (kind)
			spm_fill(map, 0, PAGES, SEED);
		ASSERT_EQ(0, pipe(pipes));
		ASSERT_EQ(0, splice_page(pipes[1], map + 5 * SPM_PAGE));
		snap = spm_snapshot(fd);
		copy = spm_map(snap, LEN, 0, SPM_RW);
		/* The others store: the pipe must not show it. */
		if (kind) {
			ASSERT_EQ(0, spm_fork_run(storing_child, map));
		}
		spm_fill(copy, 0, 20, SEED + 1);
		ASSERT_EQ(SPM_PAGE, read(pipes[0], got, SPM_PAGE));
		ASSERT_EQ(-1, spm_wrong(got, 5, 1, SEED));
		ASSERT_EQ(-1, spm_wrong(map, 0, PAGES, SEED));

		/* Spliced from a page that is still in a backing object. */
		ASSERT_EQ(0, splice_page(pipes[1], copy + 30 * SPM_PAGE));
		spm_fill(map + 30 * SPM_PAGE, 30, 1, SEED + 2);
		ASSERT_EQ(SPM_PAGE, read(pipes[0], got, SPM_PAGE));
		ASSERT_EQ(-1, spm_wrong(got, 30, 1, SEED));
		/* The pipe keeps a page of an object that goes away. */
		ASSERT_EQ(0, splice_page(pipes[1], copy + 40 * SPM_PAGE));
		spm_unmap(copy, LEN);
		close(snap);
		spm_fill(map + 40 * SPM_PAGE, 40, 1, SEED + 2);
		ASSERT_EQ(SPM_PAGE, read(pipes[0], got, SPM_PAGE));
		ASSERT_EQ(-1, spm_wrong(map + 40 * SPM_PAGE, 40, 1, SEED + 2));
		ASSERT_EQ(0, spm_all_consistent());
		close(pipes[0]);
		close(pipes[1]);
		if (kind)
			spm_unmap(map, LEN);
		spm_unmap(region, LEN);
		close(fd);
	}
}

/* -- process_vm_readv and writev, under way while both things happen ------------------ */

static int reading_child(void *arg)
{
	char *map = arg;
	static char buf[IO];
	pid_t parent = getppid();
	struct iovec local = { buf, IO }, remote = { map, IO };
	int i;

	/* The parent keeps each page filled with one value. */
	for (i = 0; i < 300; i++) {
		unsigned int k, w;

		if (process_vm_readv(parent, &local, 1, &remote, 1, 0) != IO)
			return 1;
		for (k = 0; k < IO_PAGES; k++)
			for (w = 0; w < SPM_PAGE; w += 512)
				if (!buf[k * SPM_PAGE + w])
					return 2;
	}
	return 0;
}

TEST_F(spm, process_vm_while_forking)
{
	int fd = spm_open(), snap;
	char *region, *map;
	pid_t pid;
	int i, status = -1;

	region = spm_map(fd, LEN, 0, SPM_RW);
	map = spm_private(fd, LEN, 0, SPM_RW);
	memset(map, 1, IO);
	pid = spm_fork(reading_child, map);
	for (i = 0; waitpid(pid, &status, WNOHANG) == 0; i++) {
		snap = spm_snapshot(fd);
		memset(map + i % IO_PAGES * SPM_PAGE, 1 + i % 100, SPM_PAGE);
		EXPECT_EQ(0, spm_fork_run(storing_child, map + SPM_SLOT));
		close(snap);
	}
	ASSERT_EQ(0, status);
	ASSERT_EQ(-1, spm_nonzero(region, PAGES));
	ASSERT_EQ(-1, spm_nonzero(map + SPM_SLOT, 512));
	ASSERT_EQ(0, spm_all_consistent());
}

/* -- direct I/O ------------------------------------------------------------------------- */

struct io {
	int file;
	char *file_data;		/* of pages 0 to IO_PAGES - 1, by turn */
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
	    posix_memalign((void **)&io->file_data, SPM_PAGE, IO))
		spm_die("io_setup");
	return true;
}

static void io_close(struct io *io)
{
	syscall(__NR_io_destroy, io->ctx);
	close(io->file);
	unlink(FILE_NAME);
}

static void file_set(struct io *io, unsigned int seed)
{
	spm_fill(io->file_data, 0, IO_PAGES, seed);
	if (pwrite(io->file, io->file_data, IO, 0) != IO)
		spm_die("write to " FILE_NAME);
}

static void io_submit(struct io *io, char *buf, bool write)
{
	struct iocb cb = {
		.aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_fildes = io->file,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = IO,
	};
	struct iocb *list[1] = { &cb };

	if (syscall(__NR_io_submit, io->ctx, 1, list) != 1)
		spm_die("io_submit");
}

static long io_result(struct io *io)
{
	struct io_event ev;

	if (syscall(__NR_io_getevents, io->ctx, 1, 1, &ev, NULL) != 1)
		spm_die("io_getevents");
	return ev.res;
}

static int look_child(void *arg)
{
	/* Of before or after the read, never something else. */
	char *map = arg;
	unsigned int i;

	for (i = 0; i < IO_PAGES; i++)
		if (*(uint64_t *)(map + i * SPM_PAGE) != spm_word(i, SEED, 0) &&
		    *(uint64_t *)(map + i * SPM_PAGE) != spm_word(i, SEED + 1, 0))
			return 1;
	spm_fill(map, 0, IO_PAGES, SEED + 5);
	return 0;
}

/*
 * The device stores into the buffer while a snapshot is taken, or a fork; then
 * all of it is in the buffer of the side that asked.  Stores of the owner
 * beside the buffer, in the same pages' slot, go on.
 */
TEST_F(spm, reads_in_flight)
{
	long long early = 0;
	struct spm_stats before;
	unsigned int n, kind;
	char *region, *map;
	struct io io;
	int fd, snap;
	double end;
	pid_t pid;

	if (!io_open(&io))
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	file_set(&io, SEED + 1);
	for (kind = 0; kind < 2; kind++) {
		fd = spm_open();
		region = spm_map(fd, LEN, 0, SPM_RW);
		spm_promoted(fd, region, LEN, 0, SEED);
		map = region;
		if (kind) {
			map = spm_private(fd, LEN, 0, SPM_RW);
			spm_fill(map, 0, PAGES, SEED);
		}
		spm_stats_global(fd, &before);
		end = spm_now() + seconds() / 2;
		for (n = 0; spm_now() < end; n++) {
			pid = 0;
			snap = -1;
			spm_fill(map, 0, IO_PAGES, SEED);
			io_submit(&io, map, false);
			if (kind)
				pid = spm_fork(look_child, map);
			else
				snap = spm_snapshot(fd);
			/* A store beside it must not move the buffer away. */
			spm_stamp(map + 100 * SPM_PAGE, 100, SEED);
			ASSERT_EQ(IO, io_result(&io));
			ASSERT_EQ(-1, spm_wrong(map, 0, IO_PAGES, SEED + 1)) {
				TH_LOG("round %u, %s", n,
				       kind ? "fork" : "snapshot");
			}
			if (pid) {
				ASSERT_EQ(0, spm_wait(pid));
				ASSERT_EQ(-1, spm_wrong(map, 0, IO_PAGES,
							SEED + 1));
			} else {
				close(snap);
			}
		}
		early += spm_delta_global(fd, &before, cow_early);
		ASSERT_EQ(-1, spm_wrong(map + IO_PAGES * SPM_PAGE, IO_PAGES,
					PAGES - IO_PAGES, SEED));
		ASSERT_EQ(0, spm_all_consistent());
		if (kind)
			spm_unmap(map, LEN);
		spm_unmap(region, LEN);
		close(fd);
		TH_LOG("%u rounds, %lld pages copied early", n, early);
	}
	io_close(&io);
}

/* A snapshot that was taken during a read stands still afterwards. */
TEST_F(spm, snapshot_during_a_read_stands_still)
{
	double end = spm_now() + seconds() / 2;
	char *map, *copy, *first;
	int fd = spm_open(), snap;
	unsigned int n, i;
	struct io io;

	if (!io_open(&io))
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	file_set(&io, SEED + 1);
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	copy = spm_reserve(SPM_SLOT, 0);
	first = malloc(IO);
	for (n = 0; spm_now() < end; n++) {
		spm_fill(map, 0, IO_PAGES, SEED);
		io_submit(&io, map, false);
		snap = spm_snapshot(fd);
		spm_map_at(copy, snap, SPM_SLOT, 0, PROT_READ);
		memcpy(first, copy, IO);
		ASSERT_EQ(IO, io_result(&io));
		for (i = 0; i < IO_PAGES; i++) {
			ASSERT_EQ(0, memcmp(first + i * SPM_PAGE,
					    copy + i * SPM_PAGE, SPM_PAGE)) {
				TH_LOG("round %u: page %u changed", n, i);
			}
		}
		spm_unmap(copy, SPM_SLOT);
		close(snap);
	}
	free(first);
	ASSERT_EQ(0, spm_all_consistent());
	io_close(&io);
}

/* What goes to disk is what this side had; the page may have many owners. */
TEST_F(spm, writes_in_flight)
{
	double end = spm_now() + seconds() / 2;
	int fd = spm_open(), snap;
	char *map, *copy, *back;
	struct io io;
	unsigned int n;

	if (!io_open(&io))
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	copy = spm_reserve(SPM_SLOT, 0);
	ASSERT_EQ(0, posix_memalign((void **)&back, SPM_PAGE, IO));
	for (n = 0; spm_now() < end; n++) {
		spm_fill(map, 0, IO_PAGES, SEED + n);
		snap = spm_snapshot(fd);
		spm_map_at(copy, snap, SPM_SLOT, 0, SPM_RW);
		io_submit(&io, copy, true);
		/* The source stores to pages that both still share. */
		spm_fill(map, 0, IO_PAGES, SEED + n + 1);
		ASSERT_EQ(IO, io_result(&io));
		ASSERT_EQ(IO, pread(io.file, back, IO, 0));
		ASSERT_EQ(-1, spm_wrong(back, 0, IO_PAGES, SEED + n));
		/* ... and the source goes, while the device reads. */
		io_submit(&io, copy, true);
		spm_unmap(copy, SPM_SLOT);
		close(snap);
		ASSERT_EQ(IO, io_result(&io));
		ASSERT_EQ(IO, pread(io.file, back, IO, 0));
		ASSERT_EQ(-1, spm_wrong(back, 0, IO_PAGES, SEED + n));
		ASSERT_EQ(-1, spm_wrong(map, 0, IO_PAGES, SEED + n + 1));
	}
	TH_LOG("%u rounds", n);
	ASSERT_EQ(0, spm_all_consistent());
	io_close(&io);
}

/* Into a page that is still the backing's: copied first. */
TEST_F(spm, read_into_what_shows_through)
{
	int fd = spm_open(), snap, how;
	char *map, *copy;
	struct io io;

	if (!io_open(&io))
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	file_set(&io, SEED + 1);
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	for (how = 0; how < 3; how++) {
		snap = spm_snapshot(fd);
		copy = how == 2 ? spm_private(snap, SPM_SLOT, 0, SPM_RW) :
				  spm_map(snap, SPM_SLOT, 0, SPM_RW);
		if (how)
			spm_touch_read(copy, SPM_SLOT);
		ASSERT_EQ(IO, pread(io.file, copy, IO, 0));
		ASSERT_EQ(-1, spm_wrong(copy, 0, IO_PAGES, SEED + 1));
		ASSERT_EQ(-1, spm_wrong(copy + IO, IO_PAGES, 512 - IO_PAGES,
					SEED));
		ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
		ASSERT_EQ(0, spm_count_clean_writable(snap, copy, SPM_SLOT));
		ASSERT_EQ(0, spm_all_consistent());
		spm_unmap(copy, SPM_SLOT);
		close(snap);
	}
	io_close(&io);
}

SPM_TEST_MAIN
