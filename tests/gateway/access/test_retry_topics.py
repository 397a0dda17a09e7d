"""Rights where names or positions lead to messages of others: retry topics, messages that are sent back, filters over paths."""

from __future__ import annotations

import pytest

from domain.command import FollowTopic, Pull, Receive, SendBack
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.message.message import Message
from domain.message.record import encode
from gateway.access.gate import Gate
from tests.gateway.access.test_gate import Scene, signed


def denial(scene: Scene, command: object) -> str:
    """Why alice is refused; "": she is not. She may receive from topics t… for the group g."""
    failure = scene.ask("alice", command)  # type: ignore[arg-type]
    return "" if failure is None else failure.text


def test_the_retry_topic_of_a_group_whose_name_begins_with_another_ones() -> None:
    scene = Scene()
    assert denial(scene, Pull(1, "g", "%RETRY%g", 0, 0, 1, 1)) == ""
    assert denial(scene, Pull(1, "g", "%RETRY%g_t1", 0, 0, 1, 1)) == ""
    assert denial(scene, Receive(1, "g", "%RETRY%g_t1", 1, 30_000, 0)) == ""
    for command in (Pull(1, "g", "%RETRY%g_orders", 0, 0, 1, 1), Receive(1, "g", "%RETRY%g_orders", 1, 30_000, 0)):
        assert "Topic:orders" in denial(scene, command), "it may be that of the group g_orders"
    assert "Group:other" in denial(scene, Pull(1, "g", "%RETRY%other", 0, 0, 1, 1))


def test_the_retry_topic_of_a_group_for_a_topic_needs_both_rights() -> None:
    scene = Scene()
    for command in (Pull(1, "g", "%RETRY%g+t1", 0, 0, 1, 1), Receive(1, "g", "%RETRY%g+t1", 1, 30_000, 0)):
        assert denial(scene, command) == ""
    assert "Topic:orders" in denial(scene, Pull(1, "g", "%RETRY%g+orders", 0, 0, 1, 1))
    assert "Topic:%RETRY%other+t1" in denial(scene, Pull(1, "g", "%RETRY%other+t1", 0, 0, 1, 1)), "another group's"
    assert "Topic:%RETRY%g_x+t1" in denial(scene, Pull(1, "g", "%RETRY%g_x+t1", 0, 0, 1, 1)), "another group's"
    followed = FollowTopic(1, "%RETRY%g+t1", {}, "last", -1, 0, 1, 1)
    assert "Topic:%RETRY%g+t1" in denial(scene, followed), "a reader without a group needs the right to the topic itself"


@pytest.mark.parametrize(
    ("pattern", "refused"),
    [("", "Topic:orders"), ("orders/#", "Topic:orders"), ("t1/#", "Topic:orders"), ("+/a", "Topic:*"), ("#", "Sub on #")],
)
def test_a_filter_gives_no_right_to_a_topic_in_which_it_cannot_match(pattern: str, refused: str) -> None:
    scene = Scene()
    assert refused in denial(scene, FollowTopic(1, "orders", {}, "last", -1, 0, 1, 1, pattern=pattern))
    assert denial(scene, FollowTopic(1, "t1", {}, "last", -1, 0, 1, 1, pattern=pattern and "t1/#")) == ""


class OneRecord:
    """A log that has one message, at position 7."""

    def __init__(self, topic: str) -> None:
        self._record = encode(Message(topic, b"secret", queue_id=0), 0, 7, 1, b"\x7f\0\0\x01\0\0\0\x01")

    def record_at(self, position: int, done) -> None:  # type: ignore[no-untyped-def]
        """The record at `position`."""
        done(self._record if position == 7 else Failure(ErrorCode.MESSAGE_NOT_FOUND, "no message begins there"))


@pytest.mark.parametrize(
    ("topic", "refused"),
    [
        ("t1", ""), ("%RETRY%g", ""), ("%RETRY%g_t1", ""), ("orders", "Topic:orders"), ("%RETRY%other", "Group:other"),
        ("%RETRY%g_orders", "Topic:orders"), ("%RETRY%g+t1", ""), ("%RETRY%g+orders", "Topic:orders"),
        ("%DLQ%other", "Topic:%DLQ%other"),
    ],
)  # fmt: skip
def test_only_a_message_that_may_be_received_is_sent_back(topic: str, refused: str) -> None:
    scene = Scene()
    scene.gate = Gate(scene.access, scene.sink, None, None, OneRecord(topic))  # type: ignore[arg-type]
    told = denial(scene, SendBack(1, "g", 7, 0))
    assert refused in told
    assert bool(told) is bool(refused)


def test_a_position_without_a_message_and_a_group_without_the_right() -> None:
    scene = Scene()
    scene.gate = Gate(scene.access, scene.sink, None, None, OneRecord("t1"))  # type: ignore[arg-type]
    assert denial(scene, SendBack(1, "g", 8, 0)) == "", "the use case says that there is none"
    assert "Group:other" in denial(scene, SendBack(1, "other", 7, 0))
    scene.gate = Gate(scene.access, scene.sink)
    assert "Super users" in denial(scene, SendBack(1, "g", 7, 0))
    assert scene.ask("root", SendBack(1, "other", 7, 0)) is None
    scene.gate.handle(scene.connection, signed(scene, "bob", SendBack(2, "g", 7, 0)))
    assert isinstance(scene.recorder.recorded[-1], Refused)
