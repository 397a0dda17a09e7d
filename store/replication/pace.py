"""Rates at which followers that are behind get the log from the leader's disk: bytes a second, updated ten times a second.

all together   bytes that cost 1/16 of the leader's processor time
nearest one    at least 6/5 of the bytes written meanwhile: it catches up under any load
each           more, as long as the leader is idle for half of its time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from domain.limits import MILLISECOND_NS, SECOND_NS
from store.replication.progress import WINDOW_BYTES, ReplicaProgress

MIB: Final = 1024 * 1024
SHARE: Final = 16
"""Divisor: 1/16 of a busy leader's time is for all followers that are behind, or more if the nearest needs it."""
SOCKET_NS: Final = MILLISECOND_NS
"""Cost of a MiB to the leader besides the read: the loop, the socket, the kernel's copies. Measured, rounded up."""
MARGIN: Final = (6, 5)
"""Ratio of the nearest follower's rate to the rate of writes."""
IDLE_PERCENT: Final = 50
"""Busy time of the leader below which the rates rise."""
BUSY_PERCENT: Final = 60
"""Busy time of the leader above which the extra rate is halved."""
SAMPLE_BYTES: Final = MIB // 4
"""Least bytes read between two calls of `poll` for a new estimate of the cost of a MiB."""
RATE_MIN: Final = MIB
"""Least and largest rate of a follower, in bytes a second."""
RATE_MAX: Final = 1024 * MIB
LATE_NS: Final = 100 * MILLISECOND_NS
"""Longest delay of a turn that later parts make up for."""


class ProcessorTime(NamedTuple):
    """Busy time of a thread, since any begin.

    waited_ns   time in which it waited for a processor; 0 also where the kernel does not count it
    """

    ran_ns: int
    waited_ns: int


UNKNOWN: Final = ProcessorTime(-1, -1)
"""Unknown busy time: the leader counts as busy."""


@final
class Pace:
    """Sets `rate` and `due_ns` of followers.

    _cost_ns        estimated cost of a MiB
    _written_rate   recent growth of the log, in bytes a second
    _extra          bytes a second for all followers together while the leader is idle; 0: it is busy
    _read_ns        time of the reads since the last `poll`
    """

    def __init__(self, now_ns: int, written: int, busy: Callable[[], ProcessorTime]) -> None:
        """`written`: end of the leader's log. `busy()`: busy time of the leading thread, or UNKNOWN."""
        self._busy = busy
        self._cost_ns = SOCKET_NS
        self._extra = 0
        self._read_ns = self._read = 0
        self._looked_ns = now_ns
        self._written = written
        self._written_rate = 0
        self._time = UNKNOWN

    def sent(self, follower: ReplicaProgress, size: int, took_ns: int, now_ns: int) -> None:
        """Account for a part of `size` bytes that was read in `took_ns` and handed to the follower's connection."""
        self._read += size
        self._read_ns += took_ns
        follower.due_ns = max(follower.due_ns, now_ns - LATE_NS) + size * SECOND_NS // follower.rate

    def poll(self, now_ns: int, written: int, behind: Sequence[ReplicaProgress]) -> None:
        """Set the rates of the followers that are `behind`. `written`: end of the leader's log."""
        passed = now_ns - self._looked_ns
        if passed <= 0:
            return
        if behind:
            self._set(passed, written - self._written, behind)
        else:
            self._extra, self._time = 0, UNKNOWN
            self._written_rate = (written - self._written) * SECOND_NS // passed
        self._looked_ns, self._written = now_ns, written
        self._read_ns = self._read = 0

    def _set(self, passed: int, written: int, behind: Sequence[ReplicaProgress]) -> None:
        if self._read >= SAMPLE_BYTES:
            found = SOCKET_NS + self._read_ns * MIB // self._read
            self._cost_ns = (self._cost_ns + found) // 2
        busy, gets = self._percent(passed)
        cheap = SECOND_NS * MIB * gets // (100 * SHARE * self._cost_ns)
        if busy < IDLE_PERCENT:
            if 2 * self._read * SECOND_NS >= self._extra * passed:  # else the followers do not use the present rate
                self._extra = max(self._extra, cheap) * 5 // 4
        elif busy > BUSY_PERCENT:
            self._extra //= 2
        shared = min(max(cheap, self._extra), RATE_MAX)
        self._written_rate += (written * SECOND_NS // passed - self._written_rate) // 4
        needed = min(self._written_rate * MARGIN[0] // MARGIN[1], RATE_MAX)
        # A follower with a full window would hold back the others.
        nearest = max(behind, key=lambda each: (each.sent - each.written < WINDOW_BYTES, each.sent))
        nearest.rate = max(needed, shared // len(behind), RATE_MIN)
        left = (shared - nearest.rate) // max(1, len(behind) - 1)
        for each in behind:
            if each is not nearest:
                each.rate = max(left, RATE_MIN)

    def _percent(self, passed: int) -> tuple[int, int]:
        """(percent of the time that the leader was busy, percent of the busy time with a processor). A read that waits for the
        disk counts as busy: it blocks the thread."""
        before, self._time = self._time, self._busy()
        if UNKNOWN in (before, self._time):
            return 100, 100
        ran, waited = self._time.ran_ns - before.ran_ns, self._time.waited_ns - before.waited_ns
        return (ran + waited + self._read_ns) * 100 // passed, ran * 100 // max(1, ran + waited)
