"""A reader that meets damage gets what it asked for when another replica has given it, or in time an error to ask again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from domain.errors import ErrorCode, Failure, RetryHint
from domain.message.record import Record
from domain.store.store_ports import LeaseResult, ReadResult, StateChange
from domain.store.store_request import KeyQuery, LeaseRequest, LeaseTerms, PullRequest, ReadRequest
from store.reads import repair_waits
from store.replication.repairing import Given, PartSource
from store.settings import StoreSettings
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver, code_of
from tests.store.replication.replica_log.test_mending import Group, OtherReplica

WAIT_MS = repair_waits.WAIT_NS // 1_000_000
EVERYTHING = ReadRequest("orders", 0, 0, 1_000, 1 << 20)


class SilentReplica:
    """A `PartSource` that does not answer."""

    name = "replica 3"

    def read(self, position: int, end: int, done: Given) -> None:
        """PartSource.read."""


def damage(disk: MemoryDisk, position: int) -> None:
    name = max(each for each in disk.names("log") if each.isdigit() and int(each) <= position)
    disk.flip(f"log/{name}", position - int(name) + 85)


class Damaged:
    """A group whose leader cannot read the first message; `others` are asked for it, None: the follower is."""

    def __init__(self, others: list[PartSource] | None = None) -> None:
        self.group = Group()
        self.clock = self.group.clock
        self.driver = self.group.leader.driver
        self.answers: list[Any] = []
        self.count = self.driver.bounds("orders")[1]
        (self.first,) = self.driver.read("orders", limit=1).records
        followers: list[PartSource] = [self.group.followers()]
        self.group.repairing(self.group.leader.replica.parts, *(followers if others is None else others))
        self.clock.run_for(5_000)
        damage(self.group.leader_disk, Record(self.first).physical_offset)
        checked = self.driver.store.parts.reader.checked
        checked._begins.clear()  # what was read before the damage is not checked again
        checked._ends.clear()

    def ask(self, function: Callable[..., None], *arguments: Any) -> None:
        function(*arguments, self.answers.append)

    def figure(self, name: str) -> float:
        return self.driver.store.figures()[name]


def read(damaged: Damaged) -> None:
    damaged.ask(damaged.driver.store.log.read, EVERYTHING)


def record_at(damaged: Damaged) -> None:
    damaged.ask(damaged.driver.store.log.record_at, Record(damaged.first).physical_offset)


def lease_in_order(damaged: Damaged) -> None:
    request = LeaseRequest("g", "orders", 1_000, LeaseTerms(60_000, ordered=True), from_first=True)
    damaged.ask(damaged.driver.store.leases.lease, request)


def pull(damaged: Damaged) -> None:
    damaged.ask(damaged.driver.store.pulls.pull, PullRequest("g", "member", "", EVERYTHING))


READS = [read, record_at, lease_in_order, pull]


def first_body(answer: Any) -> bytes:
    """The body of the first message of an answer."""
    if isinstance(answer, ReadResult):
        return Record(answer.records[0]).body
    if isinstance(answer, LeaseResult):
        return Record(answer.messages[0].record).body
    assert isinstance(answer, bytes), answer
    return Record(answer).body


@pytest.mark.parametrize("asked", READS)
def test_a_read_waits_for_the_repair(asked: Callable[[Damaged], None]) -> None:
    damaged = Damaged()
    asked(damaged)
    assert damaged.answers == []
    assert damaged.figure("reads_waiting") == 1
    damaged.clock.run_for(WAIT_MS)
    (answer,) = damaged.answers
    assert first_body(answer) == Record(damaged.first).body
    assert damaged.group.counts.parts == 1
    assert (damaged.figure("reads_waiting"), damaged.figure("reads_waited_total")) == (0, 1)
    assert damaged.figure("reads_waited_in_vain_total") == 0


@pytest.mark.parametrize("asked", READS)
def test_a_read_gets_an_error_to_ask_again_when_nobody_answers_in_time(asked: Callable[[Damaged], None]) -> None:
    damaged = Damaged([SilentReplica()])
    asked(damaged)
    damaged.clock.run_for(WAIT_MS - 10)
    assert damaged.answers == []
    damaged.clock.run_for(20)
    (answer,) = damaged.answers
    assert isinstance(answer, Failure)
    assert (answer.code, answer.retry) == (ErrorCode.STORE_UNAVAILABLE, RetryHint.LATER)
    assert "damaged" in answer.text
    assert damaged.figure("reads_waited_in_vain_total") == 1


def test_nobody_waits_for_longer_than_the_bound_whatever_is_repaired_meanwhile() -> None:
    damaged = Damaged([SilentReplica()])
    read(damaged)
    for _ in range(WAIT_MS // 100):
        damaged.clock.run_for(100)
        damaged.driver.store.parts.repairs.mended()
    damaged.clock.run_for(100)
    (answer,) = damaged.answers
    assert isinstance(answer, Failure)
    assert damaged.figure("reads_waited_total") == 1


def test_nobody_waits_when_no_replica_gives_the_part() -> None:
    damaged = Damaged([])
    read(damaged)
    damaged.clock.run_for(WAIT_MS - 500)
    (answer,) = damaged.answers
    assert code_of(answer) is ErrorCode.STORE_UNAVAILABLE
    read(damaged)
    assert len(damaged.answers) == 2, "nothing waits for a while"
    damaged.group.repairing(damaged.group.leader.replica.parts, damaged.group.followers())
    damaged.clock.run_for(2_000)
    read(damaged)
    assert first_body(damaged.answers[2]) == Record(damaged.first).body


def test_a_message_that_cannot_be_read_is_leased_soon_after_its_repair_and_those_behind_it_at_once() -> None:
    damaged = Damaged()
    assert len(damaged.driver.lease("g", "orders", 1_000).messages) == damaged.count - 1
    request = LeaseRequest("g", "orders", 1_000, LeaseTerms(60_000))
    damaged.ask(damaged.driver.store.leases.lease, request)
    (empty,) = damaged.answers
    assert isinstance(empty, LeaseResult)
    assert not empty.messages
    damaged.clock.run_for(WAIT_MS)
    (late,) = damaged.driver.lease("g", "orders", 1_000).messages
    assert late.record == damaged.first
    assert late.attempt == 1


def test_reads_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_waits, "WAITING_MAX", 20)
    damaged = Damaged()
    for _ in range(30):
        read(damaged)
    assert len(damaged.answers) == 10
    assert all(isinstance(each, Failure) for each in damaged.answers)
    assert damaged.figure("reads_wait_refused_total") == 10
    damaged.clock.run_for(WAIT_MS)
    assert [first_body(each) for each in damaged.answers[10:]] == [Record(damaged.first).body] * 20


class DamagedKey:
    """A group whose leader cannot read one of two messages with a key; `sources` are asked for it."""

    def __init__(self, *sources: PartSource) -> None:
        self.group = Group(0)
        self.driver = self.group.leader.driver
        self.answers: list[Any] = []
        for body in (b"damaged" * 20, b"whole" * 20):
            (placed,) = self.driver.send("orders", body, properties=b"KEYS\x01blue\x02")
            self.group.send(60)
            if body.startswith(b"damaged"):
                self.place = placed.physical_offset
        self.group.repairing(self.group.leader.replica.parts, *(sources or (self.group.followers(),)))
        self.group.clock.run_for(5_000)
        damage(self.group.leader_disk, self.place)
        checked = self.driver.store.parts.reader.checked
        checked._begins.clear()
        checked._ends.clear()

    def ask(self) -> None:
        query = KeyQuery("orders", "blue", 0, 1 << 60, 10, 1 << 20, False)
        self.driver.store.log.find(query, self.answers.append)


def test_a_query_by_key_waits_and_lacks_nothing() -> None:
    damaged = DamagedKey()
    damaged.ask()
    assert damaged.answers == []
    damaged.group.clock.run_for(WAIT_MS)
    (found,) = damaged.answers
    assert [Record(each).body[:5] for each in found] == [b"whole", b"damag"]


def test_a_query_by_key_that_nobody_helps_has_an_error_to_ask_again_and_then_what_there_is() -> None:
    damaged = DamagedKey(SilentReplica())
    damaged.ask()
    damaged.group.clock.run_for(WAIT_MS + 20)
    (refused,) = damaged.answers
    assert isinstance(refused, Failure)
    assert (refused.code, refused.retry) == (ErrorCode.STORE_UNAVAILABLE, RetryHint.LATER)
    damaged.driver.store.parts.repairs.given_up()
    damaged.ask()
    assert [Record(each).body[:5] for each in damaged.answers[1]] == [b"whole"]


def test_a_node_alone_waits_for_nothing() -> None:
    driver = Driver.with_topics("orders", config=StoreSettings(cache_bytes=0))
    (placed,) = driver.send("orders", b"x" * 100)
    damage(driver.disk, placed.physical_offset)
    answers: list[ReadResult | Failure] = []
    driver.store.log.read(EVERYTHING, answers.append)
    (answer,) = answers
    assert code_of(answer) is ErrorCode.INTERNAL


def test_a_reader_of_a_follower_waits_and_is_refused_when_it_leads() -> None:
    group = Group()
    (first,) = group.leader.driver.read("orders", limit=1).records
    sources: list[PartSource] = [SilentReplica()]
    answers: list[ReadResult | bytes | Failure] = []

    def ask() -> None:
        group.follower.reads.log.read(EVERYTHING, answers.append)
        group.follower.reads.log.record_at(Record(first).physical_offset, answers.append)

    group.repairing(group.follower.parts, *sources)
    damage(group.disk, Record(first).physical_offset)
    ask()
    assert answers == []
    group.repairing(group.follower.parts, OtherReplica(lambda: group.leader.replica.parts))
    group.clock.run_for(WAIT_MS)
    assert [first_body(each) for each in answers] == [Record(first).body] * 2

    answers.clear()
    group = Group()
    damage(group.disk, Record(first).physical_offset)
    ask()
    assert answers == []
    group.follower.reads.close()  # type: ignore[attr-defined]  # as a promotion does
    group.clock.run_for(10)
    assert [each.code for each in answers if isinstance(each, Failure)] == [ErrorCode.STORE_UNAVAILABLE] * 2


def test_a_long_value_of_the_state_waits_too() -> None:
    group = Group()
    driver = group.leader.driver
    group.repairing(group.leader.replica.parts, group.followers())
    value = b"v" * 3_000
    assert driver.call(driver.store.state.put, [StateChange("space", b"key", value)]) is None
    group.send(30)
    group.clock.run_for(5_000)
    place = next(
        (name, at)
        for name in group.leader_disk.names("log")
        if name.isdigit() and (at := bytes(group.leader_disk.files[f"log/{name}"].data).find(b"v" * 100)) >= 0
    )
    group.leader_disk.flip(f"log/{place[0]}", place[1] + 50)
    found: list[bytes | None | Failure] = []
    driver.store.state.get("space", b"key", found.append)
    assert found == []
    group.clock.run_for(WAIT_MS)
    assert found == [value]
