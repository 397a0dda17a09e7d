/* A slow disk: fdatasync and fsync take so many milliseconds longer as the file named by SLOW_DISK says, 0 without it;
   with SLOW_DISK_WRITES in the environment, pwrite too.

   The file is read at each call, so that a test changes it while the process runs. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void wait_as_told(void) {
    const char *name = getenv("SLOW_DISK");
    char text[16] = {0};
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    long ms = size > 0 ? strtol(text, NULL, 10) : 0;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    if (ms > 0) nanosleep(&left, NULL);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_as_told();
    return real(file);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_as_told();
    return real(file);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    if (getenv("SLOW_DISK_WRITES")) wait_as_told();
    return real(file, data, size, at);
}
