// SPDX-License-Identifier: GPL-2.0
/*
 * Property: memory of a region is a good buffer for direct I/O, by read and
 * write, libaio and io_uring, whatever entries map it; what the device wrote is
 * recorded as modified.
 * Guards against: EFAULT because the kernel cannot take pages of the mapping,
 * data read into another page than the mapped one, and modifications that are
 * made behind the page tables' back and get lost.
 *
 * Long-term pins of writable memory are refused by the kernel for every file
 * mapping that tracks modifications; that is documented and checked here.
 *
 * spm-test: needs=disk
 */
#include "spm_sync.h"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/uio.h>

#define FILE_NAME	"/disk/superpmap-direct-io"
#define IO		(64UL << 10)
#define IO_PAGES	(IO / SPM_PAGE)
#define MAPPED		(3 * SPM_SLOT)
#define MAPPED_PAGES	(MAPPED / SPM_PAGE)

/* -- ways to do I/O: return bytes or -errno ------------------------------- */

struct method {
	const char *name;
	int (*open)(struct method *m);		/* 0, or why it is not there */
	ssize_t (*io)(struct method *m, int fd, void *buf, size_t len,
		      off_t off, bool write);
	void (*close)(struct method *m);
	/* libaio */
	aio_context_t ctx;
	/* io_uring */
	int ring;
	struct io_uring_params par;
	char *sq, *cq;
	size_t sq_len, cq_len;
	struct io_uring_sqe *sqes;
};

static int plain_open(struct method *m)
{
	return 0;
}

static void plain_close(struct method *m)
{
}

static ssize_t plain_io(struct method *m, int fd, void *buf, size_t len,
			off_t off, bool write)
{
	ssize_t n = write ? pwrite(fd, buf, len, off) :
			    pread(fd, buf, len, off);

	return n < 0 ? -errno : n;
}

static int aio_open(struct method *m)
{
	m->ctx = 0;
	return syscall(__NR_io_setup, 4, &m->ctx) ? -errno : 0;
}

static void aio_close(struct method *m)
{
	syscall(__NR_io_destroy, m->ctx);
}

static ssize_t aio_io(struct method *m, int fd, void *buf, size_t len,
		      off_t off, bool write)
{
	struct iocb cb = {
		.aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_fildes = fd,
		.aio_buf = (uintptr_t)buf,
		.aio_nbytes = len,
		.aio_offset = off,
	};
	struct iocb *list[1] = { &cb };
	struct io_event ev;

	if (syscall(__NR_io_submit, m->ctx, 1, list) != 1)
		return -errno;
	if (syscall(__NR_io_getevents, m->ctx, 1, 1, &ev, NULL) != 1)
		spm_die("io_getevents");
	return ev.res;
}

static int uring_open(struct method *m)
{
	memset(&m->par, 0, sizeof(m->par));
	m->ring = syscall(__NR_io_uring_setup, 4, &m->par);
	if (m->ring < 0)
		return -errno;
	m->sq_len = m->par.sq_off.array + m->par.sq_entries * sizeof(uint32_t);
	m->cq_len = m->par.cq_off.cqes +
		    m->par.cq_entries * sizeof(struct io_uring_cqe);
	m->sq = mmap(NULL, m->sq_len, SPM_RW, MAP_SHARED | MAP_POPULATE,
		     m->ring, IORING_OFF_SQ_RING);
	m->cq = mmap(NULL, m->cq_len, SPM_RW, MAP_SHARED | MAP_POPULATE,
		     m->ring, IORING_OFF_CQ_RING);
	m->sqes = mmap(NULL, m->par.sq_entries * sizeof(struct io_uring_sqe),
		       SPM_RW, MAP_SHARED | MAP_POPULATE, m->ring,
		       IORING_OFF_SQES);
	if (m->sq == MAP_FAILED || m->cq == MAP_FAILED ||
	    m->sqes == MAP_FAILED)
		spm_die("mmap of the rings");
	return 0;
}

static void uring_close(struct method *m)
{
	munmap(m->sq, m->sq_len);
	munmap(m->cq, m->cq_len);
	munmap(m->sqes, m->par.sq_entries * sizeof(struct io_uring_sqe));
	close(m->ring);
}

static ssize_t uring_submit(struct method *m, const struct io_uring_sqe *sqe)
{
	uint32_t *tail = (uint32_t *)(m->sq + m->par.sq_off.tail);
	uint32_t mask = *(uint32_t *)(m->sq + m->par.sq_off.ring_mask);
	uint32_t *array = (uint32_t *)(m->sq + m->par.sq_off.array);
	uint32_t *head = (uint32_t *)(m->cq + m->par.cq_off.head);
	uint32_t cq_mask = *(uint32_t *)(m->cq + m->par.cq_off.ring_mask);
	struct io_uring_cqe *cqes =
		(struct io_uring_cqe *)(m->cq + m->par.cq_off.cqes);
	uint32_t slot = *tail & mask;
	int res;

	m->sqes[slot] = *sqe;
	array[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, m->ring, 1, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0) != 1)
		return -errno;
	if (__atomic_load_n((uint32_t *)(m->cq + m->par.cq_off.tail),
			    __ATOMIC_ACQUIRE) == *head)
		spm_die("io_uring_enter came back without a completion");
	res = cqes[*head & cq_mask].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return res;
}

static ssize_t uring_io(struct method *m, int fd, void *buf, size_t len,
			off_t off, bool write)
{
	struct io_uring_sqe sqe = {
		.opcode = write ? IORING_OP_WRITE : IORING_OP_READ,
		.fd = fd,
		.addr = (uintptr_t)buf,
		.len = len,
		.off = off,
	};

	return uring_submit(m, &sqe);
}

/* -- a file, and a mapping with slots in every state ---------------------- */

/*
 * Slot 0 is filled and promoted, slot 1 has 4 KB entries for its first half and
 * nothing in its second, slot 2 was only read: promoted read-only and clean.
 */
enum place { PROMOTED, ACROSS, SMALL, ABSENT, CLEAN, PLACES };

static const size_t place_page[PLACES] = {
	[PROMOTED] = 100,
	[ACROSS] = SPM_SLOT_PAGES - IO_PAGES / 2,
	[SMALL] = SPM_SLOT_PAGES + 64,
	[ABSENT] = SPM_SLOT_PAGES + 300,
	[CLEAN] = 2 * SPM_SLOT_PAGES + 77,
};

static const char * const place_name[PLACES] = {
	"promoted", "across a slot border", "4 KB entries", "absent",
	"promoted read-only",
};

static struct method methods[] = {
	{ "read/write", plain_open, plain_io, plain_close },
	{ "libaio", aio_open, aio_io, aio_close },
	{ "io_uring", uring_open, uring_io, uring_close },
};

#define METHODS	(sizeof(methods) / sizeof(methods[0]))

struct env {
	struct method *m;
	int file, fd;
	char *p;
	char *plain;		/* ordinary memory of IO bytes */
};

static bool env_open(struct env *e, struct method *m)
{
	int err = m->open(m);

	e->m = m;
	if (err) {
		spm_note("no %s: %s", m->name, strerror(-err));
		return false;
	}
	spm_note("%s", m->name);
	if (posix_memalign((void **)&e->plain, SPM_PAGE, IO))
		spm_die("no memory");
	e->file = open(FILE_NAME, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT |
		       O_CLOEXEC, 0600);
	if (e->file < 0)
		spm_die("open " FILE_NAME);
	e->fd = spm_open();
	e->p = spm_map(e->fd, MAPPED, 0, SPM_RW);
	spm_promoted(e->fd, e->p, SPM_SLOT, 0, 1);
	spm_fill(e->p + SPM_SLOT, SPM_SLOT_PAGES, SPM_SLOT_PAGES / 2, 1);
	spm_touch_read(e->p + 2 * SPM_SLOT, SPM_SLOT);
	return true;
}

static void env_close(struct env *e)
{
	if (spm_consistent(e->fd))
		spm_die("%s left disorder", e->m->name);
	e->m->close(e->m);
	spm_unmap(e->p, MAPPED);
	close(e->fd);
	close(e->file);
	unlink(FILE_NAME);
	free(e->plain);
}

static ssize_t from_file(struct env *e, void *buf, size_t len)
{
	return e->m->io(e->m, e->file, buf, len, 0, false);
}

static ssize_t to_file(struct env *e, void *buf, size_t len)
{
	return e->m->io(e->m, e->file, buf, len, 0, true);
}

/* The file holds pages 0 and on of @seed. */
static void file_set(struct env *e, unsigned int seed)
{
	spm_fill(e->plain, 0, IO_PAGES, seed);
	if (pwrite(e->file, e->plain, IO, 0) != IO)
		spm_die("write to " FILE_NAME);
	memset(e->plain, 0xee, IO);
}

static bool have_disk(void)
{
	int fd = open(FILE_NAME, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);

	if (fd < 0)
		return false;
	close(fd);
	unlink(FILE_NAME);
	return true;
}

#define FOR_EACH_METHOD(e)						\
	for (size_t __i = 0; __i < METHODS; __i++)			\
		if (env_open(e, &methods[__i]))

TEST_F(spm, write_from_each_place)
{
	struct env e;
	int i;

	if (!have_disk())
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	FOR_EACH_METHOD(&e) {
		for (i = 0; i < PLACES; i++) {
			size_t page = place_page[i];
			char *buf = e.p + page * SPM_PAGE;

			TH_LOG("%s", place_name[i]);
			file_set(&e, 9);
			EXPECT_EQ(IO, to_file(&e, buf, IO));
			ASSERT_EQ(IO, pread(e.file, e.plain, IO, 0));
			if (i == ABSENT || i == CLEAN) {
				/* Zeros, and they were only read. */
				EXPECT_EQ(-1, spm_nonzero(e.plain, IO_PAGES));
				EXPECT_EQ(0, spm_count_dirty(e.fd, buf, IO));
			} else {
				EXPECT_EQ(-1, spm_wrong(e.plain, page, IO_PAGES, 1));
			}
			EXPECT_EQ(0, spm_count_clean_writable(e.fd, e.p, MAPPED));
		}
		env_close(&e);
	}
}

TEST_F(spm, read_into_each_place)
{
	struct env e;
	char *other;
	long dirty;
	int i;

	if (!have_disk())
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	FOR_EACH_METHOD(&e) {
		other = spm_map(e.fd, MAPPED, 0, PROT_READ);
		for (i = 0; i < PLACES; i++) {
			size_t page = place_page[i];
			char *buf = e.p + page * SPM_PAGE;

			TH_LOG("%s", place_name[i]);
			file_set(&e, 10 + i);
			dirty = spm_count_dirty(e.fd, e.p, MAPPED);
			EXPECT_EQ(IO, from_file(&e, buf, IO));
			EXPECT_EQ(-1, spm_wrong(buf, 0, IO_PAGES, 10 + i));
			EXPECT_EQ(-1, spm_wrong(other + page * SPM_PAGE, 0,
						IO_PAGES, 10 + i));
			EXPECT_EQ(IO_PAGES, spm_count_dirty(e.fd, buf, IO));
			/* Clean pages became dirty, those and no others. */
			if (i == ABSENT || i == CLEAN)
				dirty += IO_PAGES;
			EXPECT_EQ(dirty, spm_count_dirty(e.fd, e.p, MAPPED));
			EXPECT_EQ(0, spm_count_clean_writable(e.fd, e.p, MAPPED));
		}
		/* What lies between was left alone. */
		EXPECT_EQ(-1, spm_wrong(e.p, 0, 100, 1));
		EXPECT_EQ(-1, spm_wrong(e.p + SPM_SLOT + IO,
					SPM_SLOT_PAGES + IO_PAGES,
					64 - IO_PAGES, 1));
		spm_unmap(other, MAPPED);
		env_close(&e);
	}
}

/* A whole slot at once, and an odd piece of 512-byte blocks. */
TEST_F(spm, whole_slot_and_odd_piece)
{
	static char want[5 * 512];
	struct env e;
	char *last, *buf;

	if (!have_disk())
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	FOR_EACH_METHOD(&e) {
		last = e.p + 2 * SPM_SLOT;
		EXPECT_EQ(SPM_SLOT, to_file(&e, e.p, SPM_SLOT));
		EXPECT_EQ(SPM_SLOT, from_file(&e, last, SPM_SLOT));
		EXPECT_EQ(-1, spm_wrong(last, 0, SPM_SLOT_PAGES, 1));
		EXPECT_EQ(SPM_SLOT_PAGES, spm_count_dirty(e.fd, last, SPM_SLOT));

		buf = last - 3 * 512;
		memcpy(want, e.p, sizeof(want));
		EXPECT_EQ(sizeof(want), from_file(&e, buf, sizeof(want)));
		EXPECT_EQ(0, memcmp(buf, want, sizeof(want)));
		env_close(&e);
	}
}

/* What the program may not touch, the device may not either. */
TEST_F(spm, refused_buffers)
{
	struct env e;
	char *page, *end;

	if (!have_disk())
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	FOR_EACH_METHOD(&e) {
		page = e.p + 50 * SPM_PAGE;
		file_set(&e, 3);
		ASSERT_EQ(0, mprotect(page, SPM_PAGE, PROT_READ));
		EXPECT_EQ(-EFAULT, from_file(&e, page, SPM_PAGE));
		EXPECT_EQ(SPM_PAGE, to_file(&e, page, SPM_PAGE));
		ASSERT_EQ(0, mprotect(page, SPM_PAGE, PROT_NONE));
		EXPECT_EQ(-EFAULT, from_file(&e, page, SPM_PAGE));
		EXPECT_EQ(-EFAULT, to_file(&e, page, SPM_PAGE));
		ASSERT_EQ(0, mprotect(page, SPM_PAGE, SPM_RW));
		EXPECT_EQ(-1, spm_wrong(page, 50, 1, 1));

		/* Beyond the region's end. */
		ASSERT_EQ(0, spm_set_size(e.fd, MAPPED - SPM_SLOT));
		end = e.p + MAPPED - SPM_SLOT;
		EXPECT_EQ(-EFAULT, from_file(&e, end, SPM_PAGE));
		EXPECT_EQ(-EFAULT, to_file(&e, end, SPM_PAGE));
		env_close(&e);
	}
}

/* io_uring keeps registered buffers pinned for as long as it likes. */
TEST_F(spm, long_term_pin_is_refused)
{
	struct method *m = &methods[METHODS - 1];
	struct iovec iov;
	struct env e;
	int i;

	if (!have_disk())
		SKIP(return, "no direct I/O on /disk: %s", strerror(errno));
	if (!env_open(&e, m))
		SKIP(return, "no io_uring");
	for (i = 0; i < PLACES; i++) {
		TH_LOG("%s", place_name[i]);
		iov.iov_base = e.p + place_page[i] * SPM_PAGE;
		iov.iov_len = IO;
		EXPECT_EQ(-1, syscall(__NR_io_uring_register, m->ring,
				      IORING_REGISTER_BUFFERS, &iov, 1));
		EXPECT_EQ(EFAULT, errno);
	}
	/* The same call succeeds for ordinary memory. */
	iov.iov_base = e.plain;
	EXPECT_EQ(0, syscall(__NR_io_uring_register, m->ring,
			     IORING_REGISTER_BUFFERS, &iov, 1));
	EXPECT_EQ(-1, spm_wrong(e.p, 0, SPM_SLOT_PAGES, 1));
	env_close(&e);
}

SPM_TEST_MAIN
