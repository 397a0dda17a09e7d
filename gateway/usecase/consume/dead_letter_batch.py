"""Dead letters of one answer, stored before the answer is given.

Messages behind a dead letter must not be delivered before its copy is stored when an order holds, or when the member reports
an offset that would settle both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from domain.errors import Failure
from domain.message import property as properties
from domain.message.receipt import Receipt
from domain.message.record import Record
from domain.topic import lite
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.waiting.fan_in import FanIn

ExhaustedMessage = tuple[str, Receipt, bytes]
"""A message whose attempts are used up: (topic of the command, receipt of its lease, record)."""


def ordering_key(record: bytes) -> bytes:
    """Messages with the same key are delivered in order: the lite topic and the message group, each empty where it has none."""
    stored = Record(record).properties
    return lite.name_in(stored).encode() + b"\x00" + properties.find(stored, properties.SHARDING_KEY_START)


def store_dead_letters(
    dead_letters: DeadLetters, group: str, messages: Sequence[ExhaustedMessage], done: Callable[[set[bytes]], None]
) -> None:
    """Move `messages` to the dead-letter topic of `group`; `done` gets, once, the ordering keys of those that failed.

    A message that could not be stored keeps its lease until that ends, and is then delivered again. Messages that share its
    ordering key must wait for it.
    """

    def move(at: int, done_one: Callable[[None | Failure], None]) -> None:
        topic, receipt, record = messages[at]
        dead_letters.move(group, topic, receipt, record, done_one)

    def moved(found: dict[tuple[int], None], failure: Failure | None) -> None:
        failed = range(len(messages)) if failure is not None else ()
        done({ordering_key(messages[at][2]) for at in failed if (at,) not in found})

    FanIn(move, moved).start([(at,) for at in range(len(messages))])
