// SPDX-License-Identifier: GPL-2.0
/*
 * Property: mappings, descriptors and processes that hold a region may go in
 * any order, at any moment and by any death; the region lives exactly as long
 * as the last of them, and the use count of the module says so at each step.
 *
 * Kind of bug: teardown that relies on one order (descriptor last, mapping
 * last), per-mapping state freed by the wrong event, use counts that drift.
 *
 * spm-test: timeout=240
 */
#include "spm_test.h"

#include <sys/socket.h>

#define SEED	5

enum step { UNMAP_A, UNMAP_B, CLOSE_FD, CLOSE_DUP, CHILD_EXIT, STEPS };

static const char * const step_name[] = {
	"munmap A", "munmap B", "close", "close dup", "child exit",
};

struct holder {
	int fd, copy;
	char *a;		/* one promoted slot */
	char *b;		/* 4 KB pages of the next slot */
	pid_t child;
	int child_pipe[2];
};

#define B_LEN	(16 * SPM_PAGE)

static int sit(void *arg)
{
	struct holder *h = arg;
	char c;

	/*
	 * Holds all that the parent had; goes when the parent closes its end,
	 * or dies.
	 */
	close(h->child_pipe[1]);
	h->a[0]++;
	h->b[0]++;
	return read(h->child_pipe[0], &c, 1) != 0;
}

static void hold(struct holder *h)
{
	h->fd = spm_open();
	h->copy = dup(h->fd);
	h->a = spm_map(h->fd, SPM_SLOT, 0, SPM_RW);
	h->b = spm_map(h->fd, B_LEN, SPM_SLOT, SPM_RW);
	if (spm_advise(h->fd, h->a, SPM_SLOT, SPM_ADV_PROMOTE))
		spm_die("PROMOTE");
	spm_touch_write(h->b, B_LEN);
	spm_stamp(h->a + SPM_SLOT - SPM_PAGE, 511, SEED);
	if (pipe(h->child_pipe))
		spm_die("pipe");
	h->child = spm_fork(sit, h);
	close(h->child_pipe[0]);
}

static void take(struct holder *h, enum step s)
{
	int ret;

	switch (s) {
	case UNMAP_A:
		if (!spm_stamped(h->a + SPM_SLOT - SPM_PAGE, 511, SEED))
			spm_die("data of A");
		spm_unmap(h->a, SPM_SLOT);
		break;
	case UNMAP_B:
		if (h->b[B_LEN - SPM_PAGE] != 1)
			spm_die("data of B");
		spm_unmap(h->b, B_LEN);
		break;
	case CLOSE_FD:
		close(h->fd);
		break;
	case CLOSE_DUP:
		close(h->copy);
		break;
	case CHILD_EXIT:
		close(h->child_pipe[1]);
		ret = spm_wait(h->child);
		if (ret)
			spm_die("child ended with %d", ret);
		break;
	default:
		break;
	}
}

/* The two descriptors are alike: only orders in which the first goes first. */
static bool worth_it(const int *p)
{
	while (*p != CLOSE_FD && *p != CLOSE_DUP)
		p++;
	return *p == CLOSE_FD;
}

static bool next_permutation(int *p, int n)
{
	int i = n - 2, j = n - 1, t;

	while (i >= 0 && p[i] > p[i + 1])
		i--;
	if (i < 0)
		return false;
	while (p[j] < p[i])
		j--;
	t = p[i], p[i] = p[j], p[j] = t;
	for (i++, j = n - 1; i < j; i++, j--)
		t = p[i], p[i] = p[j], p[j] = t;
	return true;
}

TEST_F(spm, every_order)
{
	int order[STEPS] = { 0, 1, 2, 3, 4 };
	long long base = spm_refcnt();
	long rss = spm_rss();
	struct holder h;
	int i;

	do {
		if (!worth_it(order))
			continue;
		hold(&h);
		/* One open file, however many descriptors and mappings. */
		ASSERT_EQ(base + 1, spm_refcnt());
		for (i = 0; i < STEPS; i++) {
			take(&h, order[i]);
			ASSERT_EQ(base + (i < STEPS - 1), spm_refcnt()) {
				TH_LOG("after %s, step %d of %d%d%d%d%d",
				       step_name[order[i]], i, order[0],
				       order[1], order[2], order[3], order[4]);
			}
		}
	} while (next_permutation(order, STEPS));
	ASSERT_GE(rss + 16, spm_rss());
}

struct plan {
	int order[STEPS];
	int done;		/* steps before the end comes */
	int ready;
};

static int holder_process(void *arg)
{
	struct plan *p = arg;
	struct holder h;
	char c = 0;
	int i;

	hold(&h);
	for (i = 0; i < p->done; i++)
		take(&h, p->order[i]);
	if (write(p->ready, &c, 1) != 1)
		return 1;
	pause();
	return 0;
}

static void wait_refcnt(struct __test_metadata *_metadata, long long want)
{
	int i;

	for (i = 0; i < 100 && spm_refcnt() != want; i++)
		usleep(20000);
	ASSERT_EQ(want, spm_refcnt());
}

TEST_F(spm, killed_after_each_step)
{
	static const int orders[][STEPS] = {
		{ UNMAP_A, UNMAP_B, CLOSE_FD, CLOSE_DUP, CHILD_EXIT },
		{ CHILD_EXIT, CLOSE_DUP, CLOSE_FD, UNMAP_B, UNMAP_A },
		{ CLOSE_FD, UNMAP_A, CHILD_EXIT, CLOSE_DUP, UNMAP_B },
	};
	long long base = spm_refcnt();
	unsigned int o;
	struct plan p;
	int ready[2];
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(ready));
	p.ready = ready[1];
	for (o = 0; o < ARRAY_SIZE(orders); o++) {
		memcpy(p.order, orders[o], sizeof(p.order));
		for (p.done = 0; p.done <= STEPS; p.done++) {
			pid = spm_fork(holder_process, &p);
			ASSERT_EQ(1, read(ready[0], &c, 1));
			ASSERT_EQ(base + (p.done < STEPS), spm_refcnt());
			ASSERT_EQ(0, kill(pid, SIGKILL));
			ASSERT_EQ(256 + SIGKILL, spm_wait(pid));
			/* The grandchild dies by its parent's death. */
			wait_refcnt(_metadata, base);
		}
	}
}

/* Killed while it is busy making and breaking entries. */
static int busy_process(void *arg)
{
	int fd = spm_open();
	char *map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	char c = 0;

	if (write(*(int *)arg, &c, 1) != 1)
		return 1;
	for (;;) {
		spm_touch_write(map, 2 * SPM_SLOT);
		spm_advise(fd, map, 2 * SPM_SLOT, SPM_ADV_DEMOTE);
		spm_advise(fd, map, SPM_SLOT, SPM_ADV_DISCARD);
		spm_advise(fd, map, SPM_SLOT, SPM_ADV_PROMOTE);
		madvise(map, SPM_SLOT, MADV_DONTNEED);
	}
}

TEST_F(spm, killed_while_busy)
{
	long long base = spm_refcnt();
	int ready[2], i;
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe(ready));
	for (i = 0; i < 10; i++) {
		pid = spm_fork(busy_process, &ready[1]);
		ASSERT_EQ(1, read(ready[0], &c, 1));
		usleep(17000 * i);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(256 + SIGKILL, spm_wait(pid));
		wait_refcnt(_metadata, base);
	}
}

static int read_and_split(void *arg)
{
	char *map = arg;

	spm_child_check(spm_stamped(map + 7 * SPM_PAGE, 7, SEED), "page 7");
	spm_unmap(map, SPM_SLOT / 2);
	spm_child_check(spm_stamped(map + 400 * SPM_PAGE, 400, SEED),
			"page 400");
	map[SPM_SLOT - 1] = 77;
	return 0;
}

/* Everything still works when the mapping is all that is left. */
TEST_F(spm, mapping_outlives_the_descriptor)
{
	long long base = spm_refcnt();
	int fd = spm_open();
	char *map = spm_map(fd, 2 * SPM_SLOT, 0, SPM_RW);
	unsigned int i;

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	close(fd);
	ASSERT_EQ(base + 1, spm_refcnt());

	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	for (i = 512; i < 1024; i++)
		spm_stamp(map + i * SPM_PAGE, i, SEED);
	ASSERT_EQ(4096, spm_smaps(map, "FilePmdMapped"));
	ASSERT_EQ(0, mprotect(map + SPM_SLOT, SPM_PAGE, PROT_READ));
	ASSERT_EQ(SIGSEGV, spm_try_write(map + SPM_SLOT, 1));
	ASSERT_EQ(0, mprotect(map + SPM_SLOT, SPM_PAGE, SPM_RW));
	ASSERT_EQ(0, spm_try_write(map + SPM_SLOT + 100, 1));
	ASSERT_EQ(0, spm_fork_run(read_and_split, map));
	ASSERT_EQ(77, map[SPM_SLOT - 1]);
	spm_unmap(map + 5 * SPM_PAGE, SPM_PAGE);
	ASSERT_TRUE(spm_stamped(map + 4 * SPM_PAGE, 4, SEED));
	ASSERT_TRUE(spm_stamped(map + 6 * SPM_PAGE, 6, SEED));
	ASSERT_EQ(base + 1, spm_refcnt());
	spm_unmap(map, SPM_SLOT);
	ASSERT_EQ(base + 1, spm_refcnt());
	ASSERT_TRUE(spm_stamped(map + SPM_SLOT + SPM_PAGE, 513, SEED));
	spm_unmap(map + SPM_SLOT, SPM_SLOT);
	ASSERT_EQ(base, spm_refcnt());
	ASSERT_EQ(0, spm_verify());
}

/* The other image of this program does no more than this. */
__attribute__((constructor)) static void after_exec(void)
{
	if (getenv("SPM_AFTER_EXEC"))
		_exit(42);
}

static int exec_over(void *arg)
{
	char * const argv[] = { "self", NULL };
	char * const env[] = { "SPM_AFTER_EXEC=1", NULL };
	int fd = *(int *)arg;
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	spm_touch_write(map, SPM_SLOT);
	execve("/proc/self/exe", argv, env);
	return 1;
}

TEST_F(spm, exec_over_mappings)
{
	long long base = spm_refcnt();
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	ASSERT_EQ(42, spm_fork_run(exec_over, &fd));
	ASSERT_EQ(base + 1, spm_refcnt());
	ASSERT_EQ(0, spm_consistent(fd));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
}

static int hold_mapping(void *arg)
{
	struct holder *h = arg;
	char *map, c;
	int ret;

	close(h->child_pipe[1]);
	map = spm_map(h->fd, SPM_SLOT, 0, PROT_READ);
	close(h->fd);
	close(h->copy);
	ret = read(h->child_pipe[0], &c, 1);
	return ret || map[0] != 3;
}

static void send_fd(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = "", c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	if (sendmsg(sock, &m, 0) != 1)
		spm_die("sendmsg");
}

static int receive_fd(int sock)
{
	char control[CMSG_SPACE(sizeof(int))], c;
	struct iovec iov = { &c, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fd;

	if (recvmsg(sock, &m, 0) != 1 || !CMSG_FIRSTHDR(&m))
		spm_die("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

static int sender(void *arg)
{
	int fd = spm_open();
	char *map = spm_map(fd, SPM_SLOT, 0, SPM_RW);

	spm_promoted(fd, map, SPM_SLOT, 0, SEED);
	send_fd(*(int *)arg, fd);
	return 0;
}

/* A message that nobody has read yet is all that holds the region. */
TEST_F(spm, descriptor_in_flight)
{
	long long base = spm_refcnt();
	int sock[2], fd;
	char *map;

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, sock))
		SKIP(return, "no unix sockets");
	ASSERT_EQ(0, spm_fork_run(sender, &sock[1]));
	ASSERT_EQ(base + 1, spm_refcnt());
	fd = receive_fd(sock[0]);
	ASSERT_EQ(base + 1, spm_refcnt());
	map = spm_map(fd, SPM_SLOT, 0, SPM_RW);
	ASSERT_EQ(-1, spm_wrong(map, 0, 512, SEED));
	ASSERT_EQ(512, spm_count_2m(fd, map, SPM_SLOT));
	close(fd);
	spm_unmap(map, SPM_SLOT);
	ASSERT_EQ(base, spm_refcnt());

	/* Never read: it goes with the sockets. */
	ASSERT_EQ(0, spm_fork_run(sender, &sock[1]));
	ASSERT_EQ(base + 1, spm_refcnt());
	close(sock[0]);
	close(sock[1]);
	wait_refcnt(_metadata, base);
}

/* The use count follows open files, not descriptors and not mappings. */
TEST_F(spm, use_count_follows_opens)
{
	long long base = spm_refcnt();
	struct holder h;
	pid_t pid[3];
	int second, i;
	char *map;

	h.fd = spm_open();
	ASSERT_EQ(base + 1, spm_refcnt());
	h.copy = dup(h.fd);
	ASSERT_EQ(base + 1, spm_refcnt());
	map = spm_map(h.fd, SPM_SLOT, 0, SPM_RW);
	map[0] = 3;
	ASSERT_EQ(base + 1, spm_refcnt());
	ASSERT_EQ(0, pipe(h.child_pipe));
	for (i = 0; i < 3; i++)
		pid[i] = spm_fork(hold_mapping, &h);
	ASSERT_EQ(base + 1, spm_refcnt());
	second = spm_open();
	ASSERT_EQ(base + 2, spm_refcnt());
	close(h.fd);
	ASSERT_EQ(base + 2, spm_refcnt());
	spm_unmap(map, SPM_SLOT);
	close(h.copy);
	ASSERT_EQ(base + 2, spm_refcnt());
	close(second);
	ASSERT_EQ(base + 1, spm_refcnt());
	close(h.child_pipe[1]);
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, spm_wait(pid[i]));
	}
	ASSERT_EQ(base, spm_refcnt());
}

SPM_TEST_MAIN
