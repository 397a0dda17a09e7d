"""The store of a leader whose fence is closed: which reads wait, and which do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from domain.controller.group import SetMember
from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.store.backup import BackedUp
from domain.store.store_ports import ReadResult, StateChange
from domain.store.store_request import PullRequest, ReadRequest
from gateway.cluster.replica.fenced_store import FencedStore
from store.replication.fence import WAIT_NS, FenceCounts, ReadFence
from tests.store.driver import Driver

Done = Callable[[Any], None]


class Fenced:
    """A store with a topic, three messages, a position and a value, behind the fence of a new leader."""

    def __init__(self) -> None:
        driver = self.driver = Driver.with_topics("t")
        driver.send("t", b"a", b"b", b"c")
        assert driver.call(driver.store.positions.commit, "g", [("t", 0, 2)]) is None
        assert driver.call(driver.store.state.put, [StateChange("kept", b"key", b"value")]) is None
        self.fence = ReadFence(driver.clock, [2], lambda: None, lambda: None, FenceCounts())
        self.store = FencedStore(driver.store, self.fence)

    def open(self) -> None:
        """The other replica follows: there is nobody else who could lead."""
        self.fence.accepted(2)


READS: dict[str, Callable[[FencedStore, Done], None]] = {
    "position": lambda store, done: store.positions.offset("g", "t", 0, done),
    "bounds": lambda store, done: store.log.bounds("t", 0, done),
    "offset by time": lambda store, done: store.log.search("t", 0, 1, False, done),
    "hot": lambda store, done: store.log.is_hot("t", 0, done),
    "value": lambda store, done: store.state.get("kept", b"key", done),
    "pairs": lambda store, done: store.state.pairs("kept", b"", b"", 9, done),
    "keys": lambda store, done: store.state.keys("kept", b"", b"", 9, done),
    "size": lambda store, done: store.state.size("kept", done),
    "read beyond the end": lambda store, done: store.log.read(ReadRequest("t", 0, 9, 1, 1_000), done),
    "pull beyond the end": lambda store, done: store.pulls.pull(
        PullRequest("g", "m", "", ReadRequest("t", 0, 9, 1, 1_000)), done
    ),
}


def shown(answer: Any) -> object:
    """An answer, to be compared."""
    return (answer.status, answer.next_offset) if isinstance(answer, ReadResult) else answer


@pytest.mark.parametrize("name", READS)
def test_a_read_waits_until_the_fence_is_open(name: str) -> None:
    one, answers = Fenced(), list[Any]()
    expected: list[Any] = []
    READS[name](one.driver.store, lambda each: expected.append(shown(each)))  # type: ignore[arg-type]
    one.driver.clock.run_for(10)
    READS[name](one.store, lambda each: answers.append(shown(each)))
    one.driver.clock.run_for(100)
    assert answers == []
    one.open()
    one.driver.clock.run_for(10)
    assert len(expected) == 1
    assert not isinstance(expected[0], Failure)
    assert answers == expected
    READS[name](one.store, lambda each: answers.append(shown(each)))
    one.driver.clock.run_for(10)
    assert answers == [*expected, *expected], "an open fence costs no turn"


@pytest.mark.parametrize("name", READS)
def test_a_read_is_refused_when_the_fence_stays_closed(name: str) -> None:
    one, answers = Fenced(), list[Any]()
    one.fence.members([SetMember(2, "22")])
    READS[name](one.store, answers.append)
    one.driver.clock.run_for(WAIT_NS // 1_000_000 - 1)
    assert answers == []
    one.driver.clock.run_for(110)
    assert [each.code for each in answers] == [ErrorCode.STORE_UNAVAILABLE]


def test_writes_and_reads_of_messages_do_not_wait() -> None:
    one, answers = Fenced(), list[Any]()
    store = one.store
    store.log.append([Message("t", b"d", b"", queue_id=0)], answers.append)
    store.positions.commit("g", [("t", 0, 3)], answers.append)
    store.state.put([StateChange("kept", b"key", None)], answers.append)
    store.log.read(ReadRequest("t", 0, 0, 1, 1_000), answers.append)
    store.log.read(ReadRequest("t", 0, 3, 1, 1_000), answers.append)
    one.driver.clock.run_for(100)
    assert len(answers) == 5
    assert not any(isinstance(each, Failure) for each in answers)
    assert {each.status for each in answers if isinstance(each, ReadResult)} == {"FOUND", "EMPTY"}


def test_everything_else_is_that_of_the_store() -> None:
    one = Fenced()
    assert isinstance(one.store, BackedUp)
    assert one.store.figures() == one.driver.store.figures()
    assert one.store.broken is None
    assert one.store.metadata is one.driver.store.metadata
