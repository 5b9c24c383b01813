// SPDX-License-Identifier: GPL-2.0-only
/*
 * runtest: run one test inside the guest, with a hard limit of time.
 *
 * Usage: runtest SECONDS COMMAND [ARGUMENT...]
 *
 * The command gets a session and a cgroup of its own. When it ends, or the time is over, every process left in that
 * cgroup is killed, whatever it did to its process group. Exit status: the command's own; 128 + N when signal N ended
 * it; 124 when it ran out of time; 125 when its processes could not be killed or not even be started.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CGROUP "/sys/fs/cgroup/superpmap-test"

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* Is any process left in the cgroup, in any state? */
static int populated(void)
{
	char buf[256] = "";
	int fd = open(CGROUP "/cgroup.events", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (read(fd, buf, sizeof(buf) - 1) < 0)
		buf[0] = 0;
	close(fd);
	return strstr(buf, "populated 1") != NULL;
}

static void pause_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	int limit, status = 0, late = 0, i;
	double end;
	pid_t pid;

	if (argc < 3) {
		fprintf(stderr, "usage: runtest SECONDS COMMAND [ARGUMENT...]\n");
		return 125;
	}
	limit = atoi(argv[1]);
	mkdir(CGROUP, 0755);

	pid = fork();
	if (pid < 0)
		return 125;
	if (pid == 0) {
		setsid();
		if (write_file(CGROUP "/cgroup.procs", "0"))
			fprintf(stderr, "# runtest: no cgroup, children may outlive the test\n");
		execvp(argv[2], argv + 2);
		fprintf(stderr, "# runtest: %s: %s\n", argv[2], strerror(errno));
		_exit(125);
	}

	end = now() + limit;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now() >= end) {
			late = 1;
			break;
		}
		pause_ms(20);
	}

	write_file(CGROUP "/cgroup.kill", "1");
	if (late)
		kill(pid, SIGKILL);
	for (i = 0; i < 200 && populated(); i++) {
		if (late)
			waitpid(pid, &status, WNOHANG);
		pause_ms(50);
	}
	if (populated()) {
		printf("# runtest: processes of the test cannot be killed\n");
		return 125;
	}
	rmdir(CGROUP);
	if (late)
		return 124;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
