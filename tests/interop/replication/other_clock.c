/* Another wall clock: it is CLOCK_AHEAD_MS milliseconds ahead of the machine's, negative when it is late. Monotonic time is as it is. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    static long long ahead_ns;
    static int known;
    int result = syscall(SYS_clock_gettime, clock, time);
    if (!known) {
        const char *text = getenv("CLOCK_AHEAD_MS");
        ahead_ns = text ? strtoll(text, NULL, 10) * 1000000LL : 0;
        known = 1;
    }
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long now = time->tv_sec * 1000000000LL + time->tv_nsec + ahead_ns;
        time->tv_sec = now / 1000000000LL;
        time->tv_nsec = now % 1000000000LL;
    }
    return result;
}
