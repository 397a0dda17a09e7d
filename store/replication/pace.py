"""How fast followers that are behind are sent the log from the leader's disk: bytes a second, set anew ten times a second.

               what costs 1/16 of the processor time that the leader gets, for all of them together
nearest one    and at least 6/5 of what is written meanwhile: it catches up under any load
each           and more, as long as the leader is idle for half of its time
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, final

from domain.limits import MILLISECOND_NS, SECOND_NS
from store.replication.progress import WINDOW_BYTES, ReplicaProgress

MIB: Final = 1024 * 1024
SHARE: Final = 16
"""Part of its time that a leader that is busy gives to all followers that are behind, unless that is too little."""
SOCKET_NS: Final = MILLISECOND_NS
"""Time that a MiB costs the leader beside the read of it: the loop, the socket, the kernel's copies. Measured, rounded up."""
MARGIN: Final = (6, 5)
"""A follower that is behind gets so many times what is written meanwhile."""
IDLE_PERCENT: Final = 50
"""A leader that is busy for less of its time sends faster and faster."""
BUSY_PERCENT: Final = 60
"""A leader that is busy for more of its time sends slower again."""
SAMPLE_BYTES: Final = MIB // 4
"""Bytes that have to be read between two looks, to tell what a MiB costs."""
RATE_MIN: Final = MIB
"""Bytes a second that each is sent, at least; RATE_MAX, at most."""
RATE_MAX: Final = 1024 * MIB
LATE_NS: Final = 100 * MILLISECOND_NS
"""How much of what a turn that took too long could not send is made up for."""


class ProcessorTime(NamedTuple):
    """How long a thread was busy, since any begin.

    ran_ns      nanoseconds in which it ran
    waited_ns   nanoseconds in which it waited for a processor; 0 also where that is not counted
    """

    ran_ns: int
    waited_ns: int


UNKNOWN: Final = ProcessorTime(-1, -1)
"""How long the leader was busy is not known: it is taken for busy."""


@final
class Pace:
    """Sets `rate` and `due_ns` of followers.

    _cost_ns   what a MiB costs, as far as reads of it have shown
    _written   end of the log at the last look; `_written_rate`: bytes a second that it has grown by lately
    _extra     bytes a second for all together, because the leader is idle; 0: it is not
    _read_ns   time of the reads since the last look; `_read` is their bytes
    """

    def __init__(self, now_ns: int, written: int, busy: Callable[[], ProcessorTime]) -> None:
        """`written`: end of the leader's log. `busy()`: how long the thread that leads was busy; UNKNOWN."""
        self._busy = busy
        self._cost_ns = SOCKET_NS
        self._extra = 0
        self._read_ns = self._read = 0
        self._looked_ns = now_ns
        self._written = written
        self._written_rate = 0
        self._time = UNKNOWN

    def sent(self, follower: ReplicaProgress, size: int, took_ns: int, now_ns: int) -> None:
        """A part of `size` bytes was read for it, which took so long, and handed to its connection."""
        self._read += size
        self._read_ns += took_ns
        follower.due_ns = max(follower.due_ns, now_ns - LATE_NS) + size * SECOND_NS // follower.rate

    def poll(self, now_ns: int, written: int, behind: Sequence[ReplicaProgress]) -> None:
        """Set the rates of those who are behind. `written`: end of the leader's log."""
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
            if 2 * self._read * SECOND_NS >= self._extra * passed:  # else they take no more than they are sent already
                self._extra = max(self._extra, cheap) * 5 // 4
        elif busy > BUSY_PERCENT:
            self._extra //= 2
        shared = min(max(cheap, self._extra), RATE_MAX)
        self._written_rate += (written * SECOND_NS // passed - self._written_rate) // 4
        needed = min(self._written_rate * MARGIN[0] // MARGIN[1], RATE_MAX)
        # Who takes less than it may be sent would keep the others waiting.
        nearest = max(behind, key=lambda each: (each.sent - each.written < WINDOW_BYTES, each.sent))
        nearest.rate = max(needed, shared // len(behind), RATE_MIN)
        left = (shared - nearest.rate) // max(1, len(behind) - 1)
        for each in behind:
            if each is not nearest:
                each.rate = max(left, RATE_MIN)

    def _percent(self, passed: int) -> tuple[int, int]:
        """How much of the time the leader was busy, and how much of that it had a processor. A read that waits for the disk is
        work as well: nothing else is done."""
        before, self._time = self._time, self._busy()
        if UNKNOWN in (before, self._time):
            return 100, 100
        ran, waited = self._time.ran_ns - before.ran_ns, self._time.waited_ns - before.waited_ns
        return (ran + waited + self._read_ns) * 100 // passed, ran * 100 // max(1, ran + waited)
