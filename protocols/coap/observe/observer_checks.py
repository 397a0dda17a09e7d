"""Times of the liveness checks of observers: once a day, or with the period of their topic (RFC 7641, 4.5)."""

from __future__ import annotations

import heapq
from typing import Final, Protocol, final

CHECK_NS: Final = 86_400_000_000_000
CHECKS_MAX: Final = 256
"""Observers that one call of `due` examines, at most."""
STALE_MAX: Final = 4_096
"""Obsolete heap entries beyond which the heap is rebuilt (with twice the number of valid ones)."""


class Checked(Protocol):
    """An observer with a liveness check.

    check_ns       time without an acknowledgement after which a check is due
    check_serial   serial of its valid heap entry, 0 without one
    confirmed_ns   monotonic ns of its last acknowledgement
    """

    cancelled: bool
    check_ns: int
    check_serial: int
    confirmed_ns: int


@final
class Checks:
    """The observers by the time of their next check.

    heap     (monotonic ns, serial, observer); obsolete entries stay until they are due
    counting number of valid entries
    serial   number of the last entry
    """

    __slots__ = ("counting", "heap", "serial")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Checked]] = []
        self.counting = 0
        self.serial = 0

    def add(self, observer: Checked) -> None:
        """Schedule a new observer, or one whose `check_ns` has changed: its earlier entry becomes obsolete."""
        self.counting += not observer.check_serial
        self._push(observer)
        if len(self.heap) > STALE_MAX + 2 * self.counting:
            self.heap = [entry for entry in self.heap if not entry[2].cancelled and entry[2].check_serial == entry[1]]
            heapq.heapify(self.heap)

    def remove(self, observer: Checked) -> None:
        """Make the entry of a cancelled observer obsolete."""
        self.counting -= observer.check_serial > 0
        observer.check_serial = 0

    def due(self, until_ns: int, now: int) -> list[Checked]:
        """Observers whose check is due before `until_ns`; they count as confirmed `now`. The next call continues."""
        found: list[Checked] = []
        for _ in range(CHECKS_MAX):
            if not self.heap or self.heap[0][0] > until_ns:
                break
            _, serial, observer = heapq.heappop(self.heap)
            if observer.cancelled or observer.check_serial != serial:
                continue
            if observer.confirmed_ns + observer.check_ns <= until_ns:
                observer.confirmed_ns = now
                found.append(observer)
            self._push(observer)
        return found

    def _push(self, observer: Checked) -> None:
        self.serial += 1
        observer.check_serial = self.serial
        heapq.heappush(self.heap, (observer.confirmed_ns + observer.check_ns, self.serial, observer))
