"""Syncs of a log: their number and time, the running one, and the batches that wait for one."""

from __future__ import annotations

from collections import deque
from typing import final

from domain.replication.ports import LogWork
from store.log.open_batch import Effects


@final
class SyncWork:
    """The syncs of one log, one at a time.

    since_ns   monotonic ns of the begin of the running one; 0: none runs
    """

    __slots__ = ("count", "ns", "since_ns")

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0
        self.since_ns = 0

    def begin(self, now_ns: int) -> int:
        """Begin a sync; returns `since_ns`."""
        self.since_ns = max(now_ns, 1)
        return self.since_ns

    def end(self, now_ns: int) -> int:
        """End the running sync after its success; returns its time."""
        took_ns = now_ns - self.since_ns
        self.since_ns = 0
        self.count += 1
        self.ns += took_ns
        return took_ns

    def fail(self) -> None:
        """End the running sync without counting it: it has failed, or its log is closed."""
        self.since_ns = 0

    def reported(self, errors: int) -> LogWork:
        """Count and time of the syncs for a replica's report, with `errors` of the log."""
        return LogWork(self.count, self.ns, self.since_ns, errors)


@final
class UnsyncedBatches:
    """Written batches, in log order, with appends that wait for a sync."""

    __slots__ = ("_ends", "appends")

    def __init__(self) -> None:
        self.appends = 0
        self._ends: deque[tuple[int, Effects]] = deque()

    @property
    def any(self) -> bool:
        """True while a batch waits."""
        return bool(self._ends)

    def add(self, end: int, effects: Effects) -> None:
        """Add a written batch that ends at `end`."""
        self._ends.append((end, effects))
        self.appends += len(effects.pending)

    def take(self, synced: int) -> list[tuple[int, Effects]]:
        """Remove and return (end, effects) of the batches that are durable up to `synced`, in order."""
        ready: list[tuple[int, Effects]] = []
        while self._ends and self._ends[0][0] <= synced:
            ready.append(self._ends.popleft())
            self.appends -= len(ready[-1][1].pending)
        return ready

    def effects(self) -> list[Effects]:
        """Effects of all waiting batches."""
        return [effects for _, effects in self._ends]

    def clear(self) -> list[Effects]:
        """Remove all waiting batches; returns their effects."""
        found = self.effects()
        self._ends.clear()
        self.appends = 0
        return found
