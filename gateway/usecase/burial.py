"""Dead letters of one answer: what may not pass them, in a message group or by a report, waits until copies are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain import lite
from domain import property as properties
from domain.errors import Failure
from domain.receipt import Receipt
from domain.record import Record
from gateway.usecase.deadletter import DeadLetters

Letter = tuple[str, Receipt, bytes]
"""A message whose attempts are used up: the topic that was asked for, its lease, its record."""

_KEY: Final = b"__SHARDINGKEY"


def lane(record: bytes) -> bytes:
    """What a record has its place in: its lite topic, and its message group there; b"" for none."""
    stored = Record(record).properties
    return lite.name_in(stored).encode() + b"\x00" + properties.find(stored, _KEY)


@final
class Burial:
    """Calls `done` once with the lanes of the letters that could not be stored: nothing may overtake those.

    Their leases end in their own time; then they come again, and what is left out for their sake behind them.
    """

    __slots__ = ("_done", "_left", "_stuck")

    def __init__(self, done: Callable[[set[bytes]], None]) -> None:
        self._done = done
        self._left = 0
        self._stuck: set[bytes] = set()

    def run(self, dead_letters: DeadLetters, group: str, letters: Sequence[Letter]) -> None:
        """Bury all of `letters`, at least one."""
        self._left = len(letters)
        for topic, receipt, record in letters:
            dead_letters.bury(group, topic, receipt, record, partial(self._buried, record))

    def _buried(self, record: bytes, result: None | Failure) -> None:
        if result is not None:
            self._stuck.add(lane(record))
        self._left -= 1
        if self._left == 0:
            self._done(self._stuck)
