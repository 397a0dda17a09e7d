"""The small load of the fault tests: every kind of record that a store writes, and what it was promised for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from domain.address import UNDECIDED_TOPIC
from domain.errors import Failure
from domain.event import Leased
from domain.message.message import SYS_PREPARED, Message, Placed
from domain.store.store_ports import LeaseResult, StateChange
from domain.store.store_request import LeaseRequest, LeaseTerms
from domain.topic.topic import Durability, Topic
from store.settings import StoreSettings
from tests.store.driver import Driver
from tests.store.faults.promises import Promises

CONFIG: Final = StoreSettings(
    segment_bytes=6_144, index_segment_bytes=2_048, tail_rows_max=8, checkpoint_bytes=6_000, checkpoint_ms=1_000, cache_bytes=0,
    retention_ms=30_000, retention_check_ms=1_000, flush_interval_ms=200, pending_bytes_max=20_000,
)  # fmt: skip
FLUSHED, PAGE, MORTAL = "flushed", "page", "mortal"
"""Topics: acknowledged at `flushed`, at `page`; and one that is deleted and made again."""
QUEUES: Final = {FLUSHED: 2, PAGE: 1, MORTAL: 1}
COMMITTER, RECEIVER, PRODUCERS = "committer", "receiver", "producers"
LEASE_MS: Final = 2_000


class Work:
    """Calls of the ports on one driver; each tells `promises` what it asks for and what it is answered.

    open   calls that have no answer yet, by name
    """

    def __init__(self, driver: Driver, promises: Promises, chance: random.Random, serial: int = 0) -> None:
        self.driver = driver
        self.promises = promises
        self.chance = chance
        self.serial = serial
        self.open: dict[int, str] = {}
        self._calls = 0
        self._leased: dict[str, list[Leased]] = {FLUSHED: [], PAGE: []}
        self._halves: list[tuple[bytes, Placed]] = []

    def begin(self) -> None:
        for name in (FLUSHED, PAGE, MORTAL, UNDECIDED_TOPIC):
            self._put_topic(name)
        self.wait(20)

    def wait(self, milliseconds: float) -> None:
        self.driver.clock.run_for(milliseconds)

    def body(self, size: int = 0) -> bytes:
        """A body that no other message has."""
        self.serial += 1
        return b"%d:" % self.serial + self.chance.randbytes(size or self.chance.choice((1, 40, 300, 900)))

    def send(self, topic: str = "", count: int = 1) -> None:
        topic = topic or self.chance.choice((FLUSHED, PAGE, MORTAL))
        if self.promises.until().topics[topic].may_be() == [True]:
            self._append([self._message(topic) for _ in range(count)])

    def send_with_state(self) -> None:
        message, value = self._message(FLUSHED), b"%d" % self.serial
        self._append([message], [StateChange("session", b"device", value)])

    def timer(self) -> None:
        due = self.driver.clock.wall_ms() + self.chance.choice((50, 700, 4_000))
        self._append([self._message(FLUSHED, b"TIMER_DELIVER_MS\x01%d\x02" % due, due)])

    def half(self) -> None:
        name = b"half-%d" % (self.serial + 1)
        stored = b"UNIQ_KEY\x01%s\x02TRAN_MSG\x01true\x02PGROUP\x01producers\x02" % name
        message = self._message(FLUSHED, stored, 0, "")
        message.message_id, message.sys_flag = name.decode(), SYS_PREPARED
        self._append([message], then=lambda placed: self._halves.append((message.body, placed[0])))

    def decide(self, commit: bool) -> None:
        if not self._halves:
            return
        body, place = self._halves.pop(0)
        self.promises.note("decide", body, "commit" if commit else "rollback")
        done = self._call("end of a transaction", lambda _: self.promises.note("decided", body, self.driver.clock.wall_ms()))
        offset, position = place.queue_offset, place.physical_offset
        self.driver.store.transactions.end(PRODUCERS, place.message_id, offset, position, commit, done)

    def put(self) -> None:
        key = b"s%d" % self.chance.randrange(4)
        self.serial += 1
        value = None if self.chance.random() < 0.2 else b"%d" % self.serial + bytes(self.chance.choice((1, 1_500)))
        self.promises.note("put", ("session", key), value)
        done = self._call("state", lambda _: self.promises.note("put-done", ("session", key), value))
        self.driver.store.state.put([StateChange("session", key, value)], done)

    def commit_position(self, topic: str = "") -> None:
        topic = topic or self.chance.choice((FLUSHED, PAGE))
        bounds = self.driver.call(self.driver.store.log.bounds, topic, 0)
        first, end = (0, 0) if isinstance(bounds, Failure) else bounds
        if end > first:
            place, offset = (COMMITTER, topic, 0), self.chance.randint(max(first, end - 3), end)
            self.promises.note("position", place, offset)
            done = self._call("position", lambda _: self.promises.note("position-done", place, offset))
            self.driver.store.positions.commit(COMMITTER, [(topic, 0, offset)], done)

    def lease(self, topic: str = "") -> None:
        topic = topic or self.chance.choice((FLUSHED, PAGE))

        def leased(result: LeaseResult) -> None:
            for message in result.messages:
                place = (RECEIVER, topic, message.receipt.queue_id)
                until_ms = message.receipt.pop_ms + LEASE_MS
                self.promises.note("leased", (place, message.receipt.queue_offset), until_ms)
            self._leased[topic] += result.messages

        request = LeaseRequest(RECEIVER, topic, self.chance.choice((1, 4, 16)), LeaseTerms(LEASE_MS), from_first=True)
        self.driver.store.leases.lease(request, self._call("lease", leased))

    def settle(self, topic: str = "") -> None:
        topic = topic or self.chance.choice((FLUSHED, PAGE))
        leased, self._leased[topic] = self._leased[topic], []
        leased = [each for each in leased if each.receipt.pop_ms + LEASE_MS > self.driver.clock.wall_ms()]
        if self.chance.random() < 0.5:
            leased = leased[:-1]
        if not leased:
            return
        keys = [((RECEIVER, topic, each.receipt.queue_id), each.receipt.queue_offset) for each in leased]
        for key in keys:
            self.promises.note("settle", key)

        def settled(outcomes: list[Failure | None]) -> None:
            for key, outcome in zip(keys, outcomes, strict=True):
                if outcome is None:
                    self.promises.note("settled", key)

        self.driver.store.leases.settle(RECEIVER, topic, [each.receipt for each in leased], self._call("settle", settled))

    def delete_topic(self) -> None:
        value = self.promises.until().topics[MORTAL]
        if value.asked:
            return
        if not value.acknowledged:
            self._put_topic(MORTAL)
            return
        self.promises.note("topic", MORTAL, False)

        done = self._notified(MORTAL, False)
        self.driver.store.metadata.delete_topic(MORTAL, self._call("deletion of a topic", done, failures=True))

    def _notified(self, name: str, exists: bool) -> Callable[[Failure | None], None]:

        def done(result: Failure | None) -> None:
            if result is None:
                self.promises.note("topic-done", name, exists)
            elif self.driver.store.broken is None:
                self.promises.note("topic-refused", name, exists)

        return done

    def _put_topic(self, name: str) -> None:
        self.promises.note("topic", name, True)
        count = QUEUES.get(name, 1)
        topic = Topic(name, count, count, durability=Durability.PAGE if name == PAGE else Durability.FLUSHED)
        self.driver.store.metadata.put_topic(topic, self._call("topic", self._notified(name, True), failures=True))

    def _message(self, topic: str, stored: bytes = b"", due_ms: int = 0, decision: str | None = None) -> Message:
        body, queue_id = self.body(), self.chance.randrange(QUEUES[topic])
        self.promises.note("send", body, (topic, queue_id, topic != PAGE, due_ms, decision))
        return Message(topic, body, stored, queue_id=queue_id)

    def _append(
        self, messages: list[Message], changes: Sequence[StateChange] = (), then: Callable[[list[Placed]], None] | None = None
    ) -> None:
        bodies = [message.body for message in messages]
        for item in changes:
            self.promises.note("put", (item.space, item.key), item.value)

        def done(placed: list[Placed]) -> None:
            for body, place in zip(bodies, placed, strict=True):
                self.promises.note("stored", body, (place.queue_offset, place.store_ms))
            for item in changes:
                self.promises.note("put-done", (item.space, item.key), item.value)
            if then is not None:
                then(placed)

        self.driver.store.log.append(messages, self._call("send", done), changes)

    def _call(self, name: str, then: Callable[[Any], None], failures: bool = False) -> Callable[[Any], None]:
        """A callback that runs `then` with the result, unless that is a Failure; it must be called once."""
        self._calls += 1
        number = self._calls
        self.open[number] = name

        def done(result: object) -> None:
            assert self.open.pop(number, ""), f"a {name} was answered twice"
            if failures or not isinstance(result, Failure):
                then(result)

        return done


def script(work: Work) -> None:
    """The small run: every kind of record, checkpoint, roll and retention, in about 80 writes."""
    work.begin()
    for topic in (FLUSHED, PAGE, MORTAL):
        work.send(topic, 3)
    work.wait(5)
    work.timer()
    work.half()
    work.half()
    work.put()
    work.lease(FLUSHED)
    work.lease(PAGE)
    work.wait(30)
    work.settle(FLUSHED)
    work.settle(PAGE)
    work.commit_position(FLUSHED)
    work.commit_position(PAGE)
    work.decide(True)
    work.decide(False)
    work.send_with_state()
    work.wait(1_200)
    work.send(FLUSHED, 6)
    work.send(PAGE)
    work.wait(3)
    work.delete_topic()
    work.send(PAGE, 2)
    work.wait(20)
    work.delete_topic()
    work.wait(20)
    work.send(MORTAL, 2)
    work.half()
    work.timer()
    work.put()
    work.wait(1_500)
    work.send(FLUSHED, 4)
    work.lease(FLUSHED)
    work.wait(31_000)
    work.send(FLUSHED)
    work.decide(True)
    work.wait(5_000)
    work.send(PAGE)
    work.commit_position(FLUSHED)
    work.wait(2)


def random_step(work: Work) -> None:
    steps: tuple[Callable[[], None], ...] = (
        work.send, work.send, lambda: work.send(FLUSHED, 3), lambda: work.send(PAGE, 2), work.send_with_state, work.timer,
        work.half, lambda: work.decide(True), lambda: work.decide(False), work.put, work.commit_position, work.lease,
        work.lease, work.settle, work.delete_topic,
    )  # fmt: skip
    work.chance.choice(steps)()
    work.wait(work.chance.choice((0, 0, 0.3, 2, 20, 300, 1_100)))


def busy(work: Work) -> None:
    """Work at level `page` while checkpoints are written: state changes all the time, and little of it is synced."""
    work.begin()
    for second in range(1, 4):
        work.wait(second * 1_000 - 10 - work.driver.clock.monotonic_ns() / 1e6)
        for _ in range(25):
            work.send(PAGE, 4)
            work.lease(PAGE)
            work.wait(0.3)
            work.settle(PAGE)
            work.commit_position(PAGE)
            work.wait(0.7)
