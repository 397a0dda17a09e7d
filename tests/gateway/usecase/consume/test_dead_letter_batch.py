"""Dead letters of one answer: the answer waits for all of them, and learns which ordering keys must wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from domain.errors import ErrorCode, Failure
from domain.message import record
from domain.message.message import LOCAL_HOST, Message
from domain.message.receipt import RETRY_NONE, Receipt
from gateway.usecase.consume.dead_letter_batch import ExhaustedMessage, ordering_key, store_dead_letters
from gateway.usecase.consume.dead_letters import DeadLetters

FULL = Failure(ErrorCode.STORE_UNAVAILABLE, "the volume is full")
Answer = Callable[[None | Failure], None]


class Mover:
    """Keeps the answers to `move`, by queue offset, for the test to give."""

    def __init__(self) -> None:
        self.waiting: dict[int, Answer] = {}
        self.moved: list[tuple[str, str]] = []

    def move(self, group: str, topic: str, receipt: Receipt, data: bytes, done: Answer) -> None:
        """DeadLetters.move."""
        self.moved.append((group, topic))
        self.waiting[receipt.queue_offset] = done


class Stage:
    """Dead letters under way, and the sets of blocked ordering keys that were told."""

    def __init__(self, *messages: ExhaustedMessage) -> None:
        self.mover = Mover()
        self.notified: list[set[bytes]] = []
        store_dead_letters(cast("DeadLetters", self.mover), "g", messages, self.notified.append)

    def answer(self, offset: int, failure: Failure | None = None) -> None:
        """Give the answer for the message at `offset`."""
        self.mover.waiting.pop(offset)(failure)


def exhausted(offset: int, sharding_key: str = "", lite_topic: str = "") -> ExhaustedMessage:
    pairs = (("__SHARDINGKEY", sharding_key), ("__LITE_TOPIC", lite_topic))
    properties = "".join(f"{name}\x01{value}\x02" for name, value in pairs if value).encode()
    data = record.encode(Message("t", b"body", properties, queue_id=0), offset, 1_000 * offset, 5, LOCAL_HOST)
    return ("t", Receipt(offset, 1, 1, 0, RETRY_NONE, "b", 0, offset), data)


def test_the_answer_waits_for_every_dead_letter() -> None:
    stage = Stage(exhausted(1), exhausted(2), exhausted(3))
    assert stage.mover.moved == [("g", "t")] * 3
    stage.answer(3)
    stage.answer(1)
    assert stage.notified == []
    stage.answer(2)
    assert stage.notified == [set()]


def test_without_dead_letters_the_answer_is_given_at_once() -> None:
    assert Stage().notified == [set()]


def test_only_the_keys_of_messages_that_could_not_be_moved_are_blocked() -> None:
    messages = [exhausted(1, "a"), exhausted(2, "b"), exhausted(3, "a"), exhausted(4, "c")]
    stage = Stage(*messages)
    stage.answer(4)
    stage.answer(1)
    stage.answer(3, FULL)
    stage.answer(2, FULL)
    assert stage.notified == [{ordering_key(messages[1][2]), ordering_key(messages[2][2])}]


def test_messages_without_a_key_share_the_empty_one() -> None:
    assert ordering_key(exhausted(1)[2]) == ordering_key(exhausted(2)[2])
    stage = Stage(exhausted(1), exhausted(2))
    stage.answer(1, FULL)
    stage.answer(2)
    assert stage.notified == [{ordering_key(exhausted(1)[2])}]


def test_an_ordering_key_is_the_lite_topic_with_the_message_group() -> None:
    keys = [ordering_key(exhausted(1, *each)[2]) for each in (("a", ""), ("", "a"), ("a", "a"), ("b", "a"), ("", ""))]
    assert len(set(keys)) == len(keys)
