"""Questions that nobody was there to hear: they are put once more as soon as a producer of the group comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer

BATCH_MAX: Final = 256
PAUSE_NS: Final = 100 * MILLISECOND_NS
"""So many questions at a time, and so long between them, however many producers come and however many questions wait."""

Name = tuple[str, str]
"""(producer group, transaction id)."""


@final
class UnansweredChecks:
    """Open transactions by producer group, each asked about in vain. A question is put again once, to whoever comes first."""

    __slots__ = ("_arrived_groups", "_ask", "_clock", "_stopped", "_timer", "_waiting")

    def __init__(self, clock: Clock, ask: Callable[[Sequence[Name]], None]) -> None:
        """`ask` puts questions again; it adds those that are in vain once more."""
        self._clock = clock
        self._ask = ask
        self._waiting: dict[str, dict[str, None]] = {}
        self._arrived_groups: dict[str, None] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def __len__(self) -> int:
        return sum(len(names) for names in self._waiting.values())

    def add(self, group: str, message_id: str) -> None:
        """Nobody of `group` was there to be asked."""
        self._waiting.setdefault(group, {})[message_id] = None

    def forget(self, group: str, message_id: str) -> None:
        """It is decided."""
        names = self._waiting.get(group)
        if names is not None:
            names.pop(message_id, None)
            if not names:
                del self._waiting[group]

    def present(self, group: str) -> None:
        """A producer of `group` has come."""
        if group in self._waiting and not self._stopped:
            self._arrived_groups[group] = None
            if self._timer is None:
                self._arm(0)

    def stop(self) -> None:
        """Ask nobody any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, wait_ns: int) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ns, self._next)

    def _next(self) -> None:
        """The next few questions. Who came waits for its group's; the timer runs once more after the last ones."""
        self._timer = None
        batch: list[Name] = []
        while self._arrived_groups and len(batch) < BATCH_MAX:
            group = next(iter(self._arrived_groups))
            names = self._waiting.get(group, {})
            found = list(islice(names, BATCH_MAX - len(batch)))
            for message_id in found:
                self.forget(group, message_id)
                batch.append((group, message_id))
            if group not in self._waiting:
                del self._arrived_groups[group]
        if batch:
            self._arm(PAUSE_NS)
            self._ask(batch)
