"""Dead letters of one answer: what may not pass them, in a message group or by a report, waits until copies are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from domain import lite
from domain import property as properties
from domain.errors import Failure
from domain.receipt import Receipt
from domain.record import Record
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.fan_in import FanIn

Letter = tuple[str, Receipt, bytes]
"""A message whose attempts are used up: the topic that was asked for, its lease, its record."""

_KEY: Final = b"__SHARDINGKEY"


def lane(record: bytes) -> bytes:
    """What a record has its place in: its lite topic, and its message group there; b"" for none."""
    stored = Record(record).properties
    return lite.name_in(stored).encode() + b"\x00" + properties.find(stored, _KEY)


def bury_all(dead_letters: DeadLetters, group: str, letters: Sequence[Letter], done: Callable[[set[bytes]], None]) -> None:
    """Bury `letters`; `done` gets, once, the lanes of those that could not be stored: nothing may overtake them.

    Their leases end in their own time; then they come again, and what is left out for their sake behind them.
    """

    def bury(at: int, buried: Callable[[None | Failure], None]) -> None:
        topic, receipt, record = letters[at]
        dead_letters.bury(group, topic, receipt, record, buried)

    def over(buried: dict[tuple[int], None], failure: Failure | None) -> None:
        stuck = range(len(letters)) if failure is not None else ()
        done({lane(letters[at][2]) for at in stuck if (at,) not in buried})

    FanIn(bury, over).start([(at,) for at in range(len(letters))])
