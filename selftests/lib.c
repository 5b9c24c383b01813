// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers of the superpmap selftests; spm_test.h says what each does.
 */
#define SPM_TEST_NO_HARNESS
#include "spm_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#define DEBUGFS		"/sys/kernel/debug"
#define MODULE		"/sys/module/superpmap"

void __spm_die(const char *file, int line, const char *fmt, ...)
{
	int err = errno;
	va_list ap;

	fprintf(stderr, "# %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (errno %d: %s)\n", err, strerror(err));
	fflush(stderr);
	abort();
}

/* -- regions and mappings ------------------------------------------------ */

int spm_open(void)
{
	int fd = open(SPM_NODE, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		spm_die("open " SPM_NODE);
	return fd;
}

int spm_open_persistent(unsigned int n)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), SPM_NODE "%u", n);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		spm_die("open %s", path);
	return fd;
}

char *spm_reserve(size_t len, uint64_t off)
{
	size_t total = len + 4 * SPM_SLOT;
	uintptr_t base, addr;
	void *p;

	p = mmap(NULL, total, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		spm_die("no %zu bytes of address space", total);
	base = ((uintptr_t)p + SPM_SLOT - 1) & ~(SPM_SLOT - 1);
	addr = base + SPM_SLOT + off % SPM_SLOT;
	return (char *)addr;
}

char *spm_map_at(void *addr, int fd, size_t len, uint64_t off, int prot)
{
	void *p = mmap(addr, len, prot, MAP_SHARED | MAP_FIXED, fd, off);

	if (p != addr)
		spm_die("mmap of %zu bytes at offset %llu to %p gave %p", len,
			(unsigned long long)off, addr, p);
	return p;
}

char *spm_map(int fd, size_t len, uint64_t off, int prot)
{
	return spm_map_at(spm_reserve(len, off), fd, len, off, prot);
}

char *spm_private_at(void *addr, int fd, size_t len, uint64_t off, int prot)
{
	void *p = mmap(addr, len, prot, MAP_PRIVATE | MAP_FIXED, fd, off);

	if (p != addr)
		spm_die("private mmap of %zu bytes at offset %llu to %p gave %p",
			len, (unsigned long long)off, addr, p);
	return p;
}

char *spm_private(int fd, size_t len, uint64_t off, int prot)
{
	return spm_private_at(spm_reserve(len, off), fd, len, off, prot);
}

int spm_try_snapshot(int fd, uint32_t flags)
{
	struct spm_snapshot s = { .argsz = sizeof(s), .flags = flags };
	int new_fd = ioctl(fd, SPM_IOC_SNAPSHOT, &s);

	return new_fd < 0 ? -errno : new_fd;
}

int spm_snapshot(int fd)
{
	int new_fd = spm_try_snapshot(fd, SPM_SNAPSHOT_CLOEXEC);

	if (new_fd < 0)
		spm_die("SPM_IOC_SNAPSHOT gave %d", new_fd);
	return new_fd;
}

void spm_unmap(void *addr, size_t len)
{
	if (munmap(addr, len))
		spm_die("munmap(%p, %zu)", addr, len);
}

int spm_ioctl_advise(int fd, uint32_t flags, uint64_t start, uint64_t len,
		     uint32_t advice)
{
	struct spm_advise a = {
		.argsz = sizeof(a),
		.flags = flags,
		.start = start,
		.len = len,
		.advice = advice,
	};

	return ioctl(fd, SPM_IOC_ADVISE, &a) ? -errno : 0;
}

int spm_advise(int fd, void *addr, size_t len, uint32_t advice)
{
	return spm_ioctl_advise(fd, 0, (uintptr_t)addr, len, advice);
}

int spm_advise_off(int fd, uint64_t off, uint64_t len, uint32_t advice)
{
	return spm_ioctl_advise(fd, SPM_ADVISE_BY_OFFSET, off, len, advice);
}

int spm_set_size(int fd, uint64_t size)
{
	struct spm_set_size s = { .argsz = sizeof(s), .size = size };

	return ioctl(fd, SPM_IOC_SET_SIZE, &s) ? -errno : 0;
}

int spm_scan(int fd, unsigned long cmd, struct spm_scan *s)
{
	s->argsz = sizeof(*s);
	return ioctl(fd, cmd, s) ? -errno : 0;
}

static long count_pages(int fd, unsigned long cmd, uint32_t flags,
			uint64_t start, uint64_t len)
{
	struct spm_scan s = { .flags = flags, .start = start, .len = len };
	int err = spm_scan(fd, cmd, &s);

	return err ? err : (long)s.pages;
}

long spm_dirty(int fd, uint32_t flags, uint64_t start, uint64_t len)
{
	return count_pages(fd, SPM_IOC_GET_DIRTY, flags, start, len);
}

long spm_referenced(int fd, uint32_t flags, uint64_t start, uint64_t len)
{
	return count_pages(fd, SPM_IOC_GET_REFERENCED, flags, start, len);
}

long spm_dirty_set(int fd, uint32_t flags, size_t npages, bool *set)
{
	size_t bytes = (npages + 63) / 64 * 8, i;
	unsigned char *bits = calloc(1, bytes);
	struct spm_scan s = {
		.flags = flags | SPM_SCAN_BY_OFFSET | SPM_SCAN_BITMAP,
		.len = npages * SPM_PAGE,
		.vec = (uintptr_t)bits, .vec_len = bytes,
	};
	int err = bits ? spm_scan(fd, SPM_IOC_GET_DIRTY, &s) : -ENOMEM;

	for (i = 0; !err && i < npages; i++)
		set[i] = bits[i / 8] >> i % 8 & 1;
	free(bits);
	return err ? err : (long)s.pages;
}

static uint32_t *policy_field(struct spm_policy *p, const char *name)
{
	const struct {
		const char *name;
		uint32_t *field;
	} fields[] = {
		{ "pg_ps_enabled", &p->pg_ps_enabled },
		{ "populate_threshold", &p->populate_threshold },
		{ "dirty_threshold", &p->dirty_threshold },
		{ "prefault_pages", &p->prefault_pages },
		{ "cow_size", &p->cow_size },
		{ "dirty_grain", &p->dirty_grain },
	};
	unsigned int i;

	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (!strcmp(name, fields[i].name))
			return fields[i].field;
	spm_die("no tunable %s", name);
}

int spm_policy_set(int fd, const char *name, uint32_t value)
{
	struct spm_policy p;

	memset(&p, 0xff, sizeof(p));
	p.pg_ps_enabled = SPM_POLICY_KEEP;
	p.populate_threshold = SPM_POLICY_KEEP;
	p.dirty_threshold = SPM_POLICY_KEEP;
	p.prefault_pages = SPM_POLICY_KEEP;
	p.cow_size = SPM_POLICY_KEEP;
	p.dirty_grain = SPM_POLICY_KEEP;
	*policy_field(&p, name) = value;
	p.argsz = sizeof(p);
	p.flags = 0;
	return ioctl(fd, SPM_IOC_SET_POLICY, &p) ? -errno : 0;
}

uint32_t spm_policy_get(int fd, uint32_t flags, const char *name)
{
	struct spm_policy p = { .argsz = sizeof(p), .flags = flags };

	if (ioctl(fd, SPM_IOC_GET_POLICY, &p))
		spm_die("GET_POLICY");
	return *policy_field(&p, name);
}

void spm_info(int fd, struct spm_info *info)
{
	memset(info, 0, sizeof(*info));
	info->argsz = sizeof(*info);
	if (ioctl(fd, SPM_IOC_INFO, info))
		spm_die("SPM_IOC_INFO");
}

void spm_touch_write(void *addr, size_t len)
{
	size_t i;

	for (i = 0; i < len; i += SPM_PAGE)
		*((volatile char *)addr + i) = 1;
}

void spm_touch_read(const void *addr, size_t len)
{
	size_t i;

	for (i = 0; i < len; i += SPM_PAGE)
		*((volatile const char *)addr + i);
}

void spm_promoted(int fd, void *addr, size_t len, uint64_t pgoff,
		  unsigned int seed)
{
	size_t pages = len / SPM_PAGE;
	int err;
	long n;

	err = spm_advise(fd, addr, len, SPM_ADV_PROMOTE);
	if (err)
		spm_die("PROMOTE of %zu bytes gave %d", len, err);
	spm_fill(addr, pgoff, pages, seed);
	n = spm_count(fd, addr, len, SPM_IS_2M | SPM_MINCORE_WRITABLE,
		      SPM_2M | SPM_MINCORE_WRITABLE);
	if (n != (long)pages)
		spm_die("%ld of %zu pages have a writable 2 MB entry after PROMOTE",
			n, pages);
}

/* -- counters ------------------------------------------------------------ */

static void stats_get(int fd, struct spm_stats *s, uint32_t flags)
{
	memset(s, 0, sizeof(*s));
	s->argsz = sizeof(*s);
	s->flags = flags;
	if (ioctl(fd, SPM_IOC_STATS, s))
		spm_die("SPM_IOC_STATS flags %u", flags);
}

void spm_stats(int fd, struct spm_stats *s)
{
	stats_get(fd, s, 0);
}

void spm_stats_global(int fd, struct spm_stats *s)
{
	stats_get(fd, s, SPM_STATS_GLOBAL);
}

static int law(const char *what, const char *name, int64_t left, int64_t right)
{
	if (left == right)
		return 0;
	fprintf(stderr, "# %s: %s: %lld != %lld\n", what, name,
		(long long)left, (long long)right);
	return 1;
}

int spm_balance(const struct spm_stats *s, const char *what)
{
	int bad = 0;

	bad += law(what,
		   "live == mappings + promotions - demotions - aborts - removals",
		   s->live,
		   s->mappings + s->promotions - s->demotions -
		   s->demote_aborts - s->removals);
	bad += law(what, "demotions == sum of their causes", s->demotions,
		   s->demotions_write + s->demotions_split +
		   s->demotions_advise + s->demotions_cow +
		   s->demotions_reclaim);
	bad += law(what, "reserv_empty == 512 * reserv_live - (pages - loose)",
		   s->reserv_empty,
		   SPM_SLOT_PAGES * s->reserv_live - (s->pages - s->loose));
	bad += law(what, "reserv_live == reserv_fullpop + reserv_partpopq",
		   s->reserv_live, s->reserv_fullpop + s->reserv_partpopq);
	bad += law(what, "dirty <= pages", s->dirty <= s->pages, 1);
	bad += law(what, "loose <= pages", s->loose <= s->pages, 1);
	return bad;
}

static void need_debugfs(void)
{
	if (access(DEBUGFS "/superpmap", F_OK))
		mount("none", DEBUGFS, "debugfs", 0, NULL);
}

long spm_verify(void)
{
	char line[512];
	long n = -1;
	FILE *f;

	need_debugfs();
	f = fopen(DEBUGFS "/superpmap/verify", "r");
	if (!f)
		spm_die("open " DEBUGFS "/superpmap/verify");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "differences: %ld", &n) == 1 && !n)
			continue;
		fprintf(stderr, "# verify: %s", line);
	}
	fclose(f);
	if (n < 0)
		spm_die("verify has no line \"differences: N\"");
	return n;
}

int spm_consistent(int fd)
{
	struct spm_stats s;
	int bad = 0;

	bad += spm_verify() != 0;
	spm_stats(fd, &s);
	bad += spm_balance(&s, "region");
	bad += law("region", "pages == populated - discarded", s.pages,
		   s.populated - s.discarded);
	spm_stats_global(fd, &s);
	bad += spm_balance(&s, "global");
	return bad;
}

int spm_all_consistent(void)
{
	struct spm_stats s;
	int bad = spm_verify() != 0;
	int fd = spm_open();

	spm_stats_global(fd, &s);
	close(fd);
	return bad + spm_balance(&s, "global");
}

static long long read_ll(const char *path)
{
	long long v;
	FILE *f = fopen(path, "r");

	if (!f)
		spm_die("open %s", path);
	if (fscanf(f, "%lld", &v) != 1)
		spm_die("%s holds no number", path);
	fclose(f);
	return v;
}

long long spm_refcnt(void)
{
	return read_ll(MODULE "/refcnt");
}

/* -- per-page state ------------------------------------------------------ */

int spm_mincore(int fd, const void *addr, size_t len, unsigned char *vec)
{
	struct spm_mincore m = {
		.argsz = sizeof(m),
		.start = (uintptr_t)addr,
		.len = len,
		.vec = (uintptr_t)vec,
	};

	return ioctl(fd, SPM_IOC_MINCORE, &m) ? -errno : 0;
}

unsigned char spm_state(int fd, const void *addr)
{
	const void *page = (const void *)((uintptr_t)addr & ~(SPM_PAGE - 1));
	unsigned char state = 0;
	int err = spm_mincore(fd, page, SPM_PAGE, &state);

	if (err)
		spm_die("SPM_IOC_MINCORE of %p gave %d", page, err);
	return state;
}

long spm_count(int fd, const void *addr, size_t len, unsigned int mask,
	       unsigned int value)
{
	unsigned char vec[SPM_SLOT_PAGES];
	size_t done, part, i;
	long n = 0;
	int err;

	for (done = 0; done < len; done += part) {
		part = len - done < SPM_SLOT ? len - done : SPM_SLOT;
		err = spm_mincore(fd, (const char *)addr + done, part, vec);
		if (err)
			spm_die("SPM_IOC_MINCORE of %p, %zu bytes gave %d",
				(const char *)addr + done, part, err);
		for (i = 0; i < part / SPM_PAGE; i++)
			n += (vec[i] & mask) == value;
	}
	return n;
}

/* -- contents ------------------------------------------------------------ */

uint64_t spm_word(uint64_t pgoff, unsigned int seed, unsigned int word)
{
	/* Never 0, so that it differs from a page that was cleared. */
	return ((pgoff + 1) * 0x9e3779b97f4a7c15ULL +
		seed * 0xc2b2ae3d27d4eb4fULL + word) | 1ULL << 63;
}

void spm_fill(void *addr, uint64_t pgoff, size_t npages, unsigned int seed)
{
	volatile uint64_t *p = addr;
	unsigned int w;
	size_t i;

	for (i = 0; i < npages; i++)
		for (w = 0; w < SPM_PAGE / 8; w++)
			*p++ = spm_word(pgoff + i, seed, w);
}

long spm_wrong(const void *addr, uint64_t pgoff, size_t npages,
	       unsigned int seed)
{
	const volatile uint64_t *p = addr;
	uint64_t want, got;
	unsigned int w;
	size_t i;

	for (i = 0; i < npages; i++) {
		for (w = 0; w < SPM_PAGE / 8; w++) {
			want = spm_word(pgoff + i, seed, w);
			got = *p++;
			if (got == want)
				continue;
			fprintf(stderr,
				"# page %zu (offset %llu) word %u is %#llx, not %#llx\n",
				i, (unsigned long long)(pgoff + i), w,
				(unsigned long long)got,
				(unsigned long long)want);
			return i;
		}
	}
	return -1;
}

long spm_nonzero(const void *addr, size_t npages)
{
	const volatile uint64_t *p = addr;
	unsigned int w;
	uint64_t got;
	size_t i;

	for (i = 0; i < npages; i++) {
		for (w = 0; w < SPM_PAGE / 8; w++) {
			got = *p++;
			if (!got)
				continue;
			fprintf(stderr, "# page %zu word %u is %#llx, not 0\n",
				i, w, (unsigned long long)got);
			return i;
		}
	}
	return -1;
}

void spm_stamp(void *page, uint64_t pgoff, unsigned int seed)
{
	volatile uint64_t *p = page;

	p[0] = spm_word(pgoff, seed, 0);
	p[SPM_PAGE / 8 - 1] = spm_word(pgoff, seed, SPM_PAGE / 8 - 1);
}

bool spm_stamped(const void *page, uint64_t pgoff, unsigned int seed)
{
	const volatile uint64_t *p = page;
	unsigned int last = SPM_PAGE / 8 - 1;
	uint64_t a = p[0], b = p[last];

	if (a == spm_word(pgoff, seed, 0) && b == spm_word(pgoff, seed, last))
		return true;
	fprintf(stderr, "# page of offset %llu holds %#llx .. %#llx\n",
		(unsigned long long)pgoff, (unsigned long long)a,
		(unsigned long long)b);
	return false;
}

/* -- accesses that may be refused ---------------------------------------- */

static __thread sigjmp_buf * volatile escape;

static void caught(int sig)
{
	if (escape)
		siglongjmp(*escape, sig);
	signal(sig, SIG_DFL);
	raise(sig);
}

int spm_try(void (*fn)(void *), void *arg)
{
	struct sigaction sa = { .sa_handler = caught };
	sigjmp_buf *outer = escape;
	sigjmp_buf here;
	int sig;

	/* Left installed: without an escape it does what the default does. */
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sig = sigsetjmp(here, 1);
	if (!sig) {
		escape = &here;
		fn(arg);
	}
	escape = outer;
	return sig;
}

static void do_read(void *addr)
{
	*(volatile unsigned char *)addr;
}

int spm_try_read(const void *addr)
{
	return spm_try(do_read, (void *)addr);
}

struct try_write {
	volatile unsigned char *addr;
	unsigned char value;
};

static void do_write(void *arg)
{
	struct try_write *w = arg;

	*w->addr = w->value;
}

int spm_try_write(void *addr, unsigned char value)
{
	struct try_write w = { .addr = addr, .value = value };

	return spm_try(do_write, &w);
}

/* -- the process --------------------------------------------------------- */

long spm_minflt(void)
{
	struct rusage ru;

	if (getrusage(RUSAGE_SELF, &ru))
		spm_die("getrusage");
	return ru.ru_minflt;
}

long spm_touch_faults(void *addr, size_t len, bool write)
{
	long before = spm_minflt();

	if (write)
		spm_touch_write(addr, len);
	else
		spm_touch_read(addr, len);
	return spm_minflt() - before;
}

void spm_settle(void)
{
	volatile char stack[16 * SPM_PAGE];
	size_t i;

	for (i = 0; i < sizeof(stack); i += SPM_PAGE)
		stack[i] = 1;
	/* The allocator keeps this for later. */
	free(malloc(sizeof(stack)));
	spm_rss();
	if (mlockall(MCL_CURRENT) || munlockall())
		spm_die("mlockall");
}

long spm_rss(void)
{
	long size, resident;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld %ld", &size, &resident) != 2)
		spm_die("/proc/self/statm");
	fclose(f);
	return resident;
}

/* Calls fn(ctx, start, end, kB) for @field of every mapping. */
static void walk_smaps(const char *field,
		       void (*fn)(void *, uintptr_t, uintptr_t, long),
		       void *ctx)
{
	unsigned long s, e, start = 0, end = 0;
	size_t n = strlen(field);
	char line[512];
	FILE *f;
	long kb;

	f = fopen("/proc/self/smaps", "r");
	if (!f)
		spm_die("/proc/self/smaps");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &s, &e) == 2) {
			start = s;
			end = e;
			continue;
		}
		if (!strncmp(line, field, n) && line[n] == ':' &&
		    sscanf(line + n + 1, "%ld", &kb) == 1)
			fn(ctx, start, end, kb);
	}
	fclose(f);
}

struct smaps_query {
	uintptr_t start, end;
	long kb;
};

static void smap_at(void *ctx, uintptr_t start, uintptr_t end, long kb)
{
	struct smaps_query *q = ctx;

	if (q->start >= start && q->start < end)
		q->kb = kb;
}

long spm_smaps(const void *addr, const char *field)
{
	struct smaps_query q = { .start = (uintptr_t)addr, .kb = -1 };

	walk_smaps(field, smap_at, &q);
	return q.kb;
}

static void smap_in(void *ctx, uintptr_t start, uintptr_t end, long kb)
{
	struct smaps_query *q = ctx;

	if (start >= q->start && start < q->end)
		q->kb += kb;
}

long spm_smaps_range(const void *addr, size_t len, const char *field)
{
	struct smaps_query q = {
		.start = (uintptr_t)addr,
		.end = (uintptr_t)addr + len,
	};

	walk_smaps(field, smap_in, &q);
	return q.kb;
}

long spm_meminfo(const char *field)
{
	size_t n = strlen(field);
	char line[256];
	long kb = -1;
	FILE *f;

	f = fopen("/proc/meminfo", "r");
	if (!f)
		spm_die("/proc/meminfo");
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, field, n) && line[n] == ':')
			sscanf(line + n + 1, "%ld", &kb);
	fclose(f);
	return kb;
}

long spm_available(void)
{
	long kb = spm_meminfo("MemAvailable"), pages;
	char line[256];
	FILE *f;

	f = fopen("/proc/zoneinfo", "r");
	if (!f)
		spm_die("/proc/zoneinfo");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, " count: %ld", &pages) == 1)
			kb += pages * 4;
	fclose(f);
	return kb;
}

pid_t spm_fork(int (*fn)(void *), void *arg)
{
	pid_t pid, parent = getpid();

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		spm_die("fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	_exit(fn(arg));
}

int spm_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			spm_die("waitpid %d", pid);
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}

int spm_fork_run(int (*fn)(void *), void *arg)
{
	return spm_wait(spm_fork(fn, arg));
}

/* -- module parameters --------------------------------------------------- */

static const char * const params[SPM_PARAMS] = {
	"worker_rate", "worker_fill", "worker_age",
	"pg_ps_enabled", "populate_threshold", "dirty_threshold",
	"prefault_pages", "cow_size", "dirty_grain",
};

int spm_param_set(const char *name, const char *value)
{
	char path[128];
	int fd, err = 0;

	snprintf(path, sizeof(path), MODULE "/parameters/%s", name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		spm_die("open %s", path);
	if (write(fd, value, strlen(value)) < 0)
		err = -errno;
	close(fd);
	return err;
}

void spm_param_get(const char *name, char *value, size_t len)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), MODULE "/parameters/%s", name);
	f = fopen(path, "r");
	if (!f || !fgets(value, len, f))
		spm_die("read %s", path);
	value[strcspn(value, "\n")] = 0;
	fclose(f);
}

/* -- the state of the whole module --------------------------------------- */

bool spm_present(void)
{
	return !access(SPM_NODE, F_OK);
}

static void empty_persistent(void)
{
	struct spm_info info;
	char path[64];
	unsigned int n;
	int fd, err;

	for (n = 0; n < 64; n++) {
		snprintf(path, sizeof(path), SPM_NODE "%u", n);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		spm_info(fd, &info);
		err = spm_advise_off(fd, 0, info.size, SPM_ADV_DISCARD);
		if (err)
			spm_die("DISCARD of all of %s gave %d", path, err);
		close(fd);
	}
}

void spm_baseline_take(struct spm_baseline *b)
{
	unsigned int i;
	int fd;

	empty_persistent();
	fd = spm_open();
	spm_stats_global(fd, &b->stats);
	close(fd);
	for (i = 0; i < SPM_PARAMS; i++)
		spm_param_get(params[i], b->param[i], sizeof(b->param[i]));
	b->refcnt = spm_refcnt();
}

static int gauges_differ(const struct spm_stats *a, const struct spm_stats *b,
			 bool print)
{
	int bad = 0;

#define IS_C 0
#define IS_G 1
#define COMPARE(field, name, kind)					\
	if (IS_##kind && a->field != b->field) {			\
		bad++;							\
		if (print)						\
			fprintf(stderr, "# gauge %s: %lld, was %lld\n",	\
				name, (long long)b->field,		\
				(long long)a->field);			\
	}
	SPM_STATS_LIST(COMPARE)
#undef COMPARE
	return bad;
}

int spm_baseline_check(struct spm_baseline *b)
{
	struct spm_stats now;
	long long refcnt = 0;
	char value[32];
	unsigned int i;
	int bad = 0, fd;

	for (i = 0; i < SPM_PARAMS; i++) {
		spm_param_get(params[i], value, sizeof(value));
		if (strcmp(value, b->param[i]) &&
		    spm_param_set(params[i], b->param[i]))
			spm_die("cannot put %s back to %s", params[i],
				b->param[i]);
	}
	empty_persistent();
	/* Memory and descriptors of dead processes go away a little later. */
	for (i = 0; i < 50; i++) {
		fd = spm_open();
		spm_stats_global(fd, &now);
		close(fd);
		refcnt = spm_refcnt();
		if (!gauges_differ(&b->stats, &now, false) &&
		    refcnt == b->refcnt)
			break;
		usleep(100000);
	}
	bad += gauges_differ(&b->stats, &now, true);
	if (refcnt != b->refcnt) {
		fprintf(stderr, "# use count: %lld, was %lld\n", refcnt,
			b->refcnt);
		bad++;
	}
	bad += spm_verify() != 0;
	bad += spm_balance(&now, "global");
	return bad;
}
