/* Preloaded into redis-server: adds an offset to the wall clock, or makes it stand
 * still. Another process writes both numbers into a shared file, in nanoseconds. The
 * monotonic clock stays as it is. It makes system calls directly, because looking up
 * the C library's functions allocates memory, and the allocator asks for the time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile struct {
	int64_t offset;
	int64_t stopped; /* the time at which the clock stands still; 0: it runs */
} *shared;

__attribute__((constructor)) static void open_shared(void) {
	const char *path = getenv("REDISTEST_CLOCK");
	int fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0) return;
	void *p = mmap(0, sizeof *shared, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) shared = p;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int r = syscall(SYS_clock_gettime, id, ts);
	if (r != 0 || !shared || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return r;
	int64_t stopped = shared->stopped;
	if (stopped) {
		ts->tv_sec = stopped / 1000000000;
		ts->tv_nsec = stopped % 1000000000;
	} else {
		int64_t ns = ts->tv_nsec + shared->offset % 1000000000;
		ts->tv_sec += shared->offset / 1000000000;
		if (ns < 0) { ns += 1000000000; ts->tv_sec--; }
		if (ns >= 1000000000) { ns -= 1000000000; ts->tv_sec++; }
		ts->tv_nsec = ns;
	}
	return r;
}

int gettimeofday(struct timeval *tv, void *zone) {
	struct timespec ts;
	int r = clock_gettime(CLOCK_REALTIME, &ts);
	if (tv) { tv->tv_sec = ts.tv_sec; tv->tv_usec = ts.tv_nsec / 1000; }
	return r;
}

time_t time(time_t *t) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (t) *t = ts.tv_sec;
	return ts.tv_sec;
}
