"""Syncs of a log: what they have cost, the one that is under way, and the batches that wait for one."""

from __future__ import annotations

from collections import deque
from typing import final

from domain.replication.ports import LogWork
from store.log.open_batch import Effects


@final
class SyncWork:
    """The syncs of one log, one at a time.

    count      syncs that have ended
    ns         time of all of them together
    since_ns   when the one under way has begun, monotonic; 0: none is under way
    """

    __slots__ = ("count", "ns", "since_ns")

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0
        self.since_ns = 0

    def begin(self, now_ns: int) -> int:
        """A sync begins: `since_ns`."""
        self.since_ns = max(now_ns, 1)
        return self.since_ns

    def end(self, now_ns: int) -> int:
        """The sync under way has succeeded: returns its time."""
        took_ns = now_ns - self.since_ns
        self.since_ns = 0
        self.count += 1
        self.ns += took_ns
        return took_ns

    def fail(self) -> None:
        """The sync under way has failed, or its log is closed: it does not count."""
        self.since_ns = 0

    def reported(self, errors: int) -> LogWork:
        """Count and time of the syncs for a replica's report, with `errors` of the log."""
        return LogWork(self.count, self.ns, self.since_ns, errors)


@final
class UnsyncedBatches:
    """Written batches, in log order, with appends that wait for a sync.

    appends   how many wait
    _ends     position behind each of them, and its effects
    """

    __slots__ = ("_ends", "appends")

    def __init__(self) -> None:
        self.appends = 0
        self._ends: deque[tuple[int, Effects]] = deque()

    @property
    def any(self) -> bool:
        """True while one waits."""
        return bool(self._ends)

    def add(self, end: int, effects: Effects) -> None:
        """A batch up to `end` was written."""
        self._ends.append((end, effects))
        self.appends += len(effects.pending)

    def take(self, synced: int) -> list[tuple[int, Effects]]:
        """(end, effects) of those that are durable now, in order: they wait no more."""
        ready: list[tuple[int, Effects]] = []
        while self._ends and self._ends[0][0] <= synced:
            ready.append(self._ends.popleft())
            self.appends -= len(ready[-1][1].pending)
        return ready

    def effects(self) -> list[Effects]:
        """Effects of all that wait."""
        return [effects for _, effects in self._ends]

    def clear(self) -> list[Effects]:
        """Effects of all batches that wait; none of them waits any more."""
        found = self.effects()
        self._ends.clear()
        self.appends = 0
        return found
