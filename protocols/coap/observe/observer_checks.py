"""When observers are asked whether they are still there: once a day, or as often as their topic says (RFC 7641, 4.5)."""

from __future__ import annotations

import heapq
from typing import Final, Protocol, final

CHECK_NS: Final = 86_400_000_000_000
CHECKS_MAX: Final = 256
"""Observers that one call of `due` examines."""
STALE_MAX: Final = 4_096
"""Entries that may wait though they count no more."""


class Checked(Protocol):
    """An observer.

    cancelled      True: it is no observer any more
    check_ns       time without an acknowledgement after which it is asked
    check_serial   the entry that counts for it
    confirmed_ns   monotonic ns of its last acknowledgement
    """

    cancelled: bool
    check_ns: int
    check_serial: int
    confirmed_ns: int


@final
class Checks:
    """The observers by when they are asked next.

    heap     (monotonic ns, serial, observer); entries that count no more stay until they are due
    counting number of entries that count
    serial   number of the last entry
    """

    __slots__ = ("counting", "heap", "serial")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Checked]] = []
        self.counting = 0
        self.serial = 0

    def add(self, observer: Checked) -> None:
        """A new observer, or one whose `check_ns` has changed: the entry that it has counts no more."""
        self.counting += not observer.check_serial
        self._push(observer)
        if len(self.heap) > STALE_MAX + 2 * self.counting:
            self.heap = [entry for entry in self.heap if not entry[2].cancelled and entry[2].check_serial == entry[1]]
            heapq.heapify(self.heap)

    def remove(self, observer: Checked) -> None:
        """The observer is cancelled: its entry counts no more."""
        self.counting -= observer.check_serial > 0
        observer.check_serial = 0

    def due(self, until_ns: int, now: int) -> list[Checked]:
        """Those that have to be asked before `until_ns`; they count as confirmed `now`. The next call goes on."""
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
