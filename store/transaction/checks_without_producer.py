"""Checks that found no producer of the group: they are repeated when a producer connects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, final

from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer

BATCH_MAX: Final = 256
PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Repeats go out in batches of BATCH_MAX, PAUSE_NS apart, however many producers connect and however many checks wait."""

Name = tuple[str, str]
"""(producer group, transaction id)."""


@final
class ChecksWithoutProducer:
    """Open transactions whose latest check found no producer. A check is repeated once, when the first producer connects.

    _waiting          producer group -> transaction ids
    _arrived_groups   groups with a new producer, whose checks are repeated
    """

    def __init__(self, clock: Clock, ask: Callable[[Sequence[Name]], None]) -> None:
        """`ask(names)` repeats the checks of these transactions; it calls `add` for those that find no producer again."""
        self._clock = clock
        self._ask = ask
        self._waiting: dict[str, dict[str, None]] = {}
        self._arrived_groups: dict[str, None] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def __len__(self) -> int:
        return sum(len(names) for names in self._waiting.values())

    def add(self, group: str, message_id: str) -> None:
        """Note that the check of a transaction found no producer of `group`."""
        self._waiting.setdefault(group, {})[message_id] = None

    def forget(self, group: str, message_id: str) -> None:
        """Remove a transaction that has been decided, or sent again."""
        names = self._waiting.get(group)
        if names is not None:
            names.pop(message_id, None)
            if not names:
                del self._waiting[group]

    def present(self, group: str) -> None:
        """Repeat the waiting checks of `group`, of which a producer has connected."""
        if group in self._waiting and not self._stopped:
            self._arrived_groups[group] = None
            if self._timer is None:
                self._arm(0)

    def stop(self) -> None:
        """Stop repeating checks."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, wait_ns: int) -> None:
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait_ns, self._next)

    def _next(self) -> None:
        """Repeat the next batch. The timer is set again after every batch, the last one included, which keeps the pause."""
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
