"""A disk that is slow as long as a file says so: a library that is loaded before libc delays syncs of a process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Waits for as many milliseconds as the file SLOW_DISK_FILE says. */
static void wait_a_while(void) {
    const char *name = getenv("SLOW_DISK_FILE");
    char text[16] = {0};
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    long ms = size > 0 ? atol(text) : 0;
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    if (ms > 0)
        nanosleep(&pause, 0);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_a_while();
    return real(file);
}

int fsync(int file) {
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_a_while();
    return real(file);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real)
        real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    wait_a_while();
    return real(file, data, size, at);
}
"""


class SlowDisks:
    """The library, built in `folder`. `missing`: why there is none; "": there is one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = folder / "slow_disk.so"
        self.missing = ""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.missing = "no C compiler (cc) for the slow disk"
            return
        source = folder / "slow_disk.c"
        source.write_text(SOURCE)
        done = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source), "-ldl"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            self.missing = f"the library of the slow disk cannot be built: {done.stderr[-300:]}"

    def environment(self, name: str) -> dict[str, str]:
        """Variables of the process whose disk is called `name`."""
        if self.missing:
            return {}
        return {"LD_PRELOAD": str(self._library), "SLOW_DISK_FILE": str(self._folder / f"slow-{name}")}

    def slow(self, name: str, delay_ms: int) -> None:
        """From now on each sync of this process takes so much longer; 0: no longer."""
        fresh = self._folder / f"slow-{name}.new"
        fresh.write_text(f"{delay_ms}\n")
        fresh.replace(self._folder / f"slow-{name}")
