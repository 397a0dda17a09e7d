/* A monotonic clock that runs SLOWER times as slow, to be preloaded into a server that valgrind runs as much slower: turns that
 * are bounded by time then do as much as they do at full speed. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long began;

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) {
        long long now = time->tv_sec * 1000000000LL + time->tv_nsec;
        if (began == 0)
            began = now;
        now = began + (now - began) / SLOWER;
        time->tv_sec = now / 1000000000LL;
        time->tv_nsec = now % 1000000000LL;
    }
    return result;
}
