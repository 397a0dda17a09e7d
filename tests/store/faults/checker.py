"""Checks a store, opened on what a fault has left, against what it has promised; then works with it and checks again.

Every method of a Life raises BrokenPromiseError.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from domain.errors import Failure, GatewayError
from domain.message.receipt import Receipt
from domain.message.record import Record
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver
from tests.store.faults.promises import Expected, Promises, Sent
from tests.store.faults.work import CONFIG, LEASE_MS, PAGE, PRODUCERS, QUEUES, RECEIVER, Work
from tests.stored_state import asked

LATEST_MS: Final = 6_000
"""Every timer of the load is due within this time."""


class BrokenPromiseError(AssertionError):
    """A promise that did not hold."""


class Life:
    """One start of a store on `disk`, with the promises of the lives before. `power`: it follows a power failure."""

    def __init__(self, disk: MemoryDisk, clock: VirtualClock, promises: Promises, power: bool, seed: int) -> None:
        """Open the store. Raises BrokenPromiseError when it does not start."""
        self.promises = promises
        self.power = power
        self.clock = clock
        self.chance = random.Random(seed)
        if power:
            promises.note("power", PAGE)
        try:
            self.driver = Driver(CONFIG, disk, clock)
        except (GatewayError, OSError, AssertionError, ValueError, LookupError, ArithmeticError) as error:
            raise BrokenPromiseError(f"the store does not start: {type(error).__name__}: {error}") from error
        self.work = Work(self.driver, promises, self.chance, 1_000_000 * (1 + len(promises.events)))
        clock.run_for(20)

    def check(self) -> None:
        if self.driver.store.broken is None:
            self._topics(self.promises.until())
        expected = self.promises.until()
        seen: dict[bytes, Record] = {}
        for topic, count in QUEUES.items():
            for queue_id in range(count):
                for record in self._queue(topic, queue_id):
                    self._known(expected, topic, queue_id, record)
                    if record.body in seen:
                        raise BrokenPromiseError(f"{_named(record)} is there twice: at {seen[record.body].queue_offset} too")
                    seen[record.body] = record
        for body, sent in expected.sent.items():
            self._kept(expected, body, sent, seen)
        if self.driver.store.broken is None:
            self._state(expected)
            self._positions(expected)

    def go_on(self) -> None:
        """Use the store as clients do after a start, and check that it keeps on promising and holding."""
        self._send_to_all()
        self._lease_all()
        self._decide_all()
        self.clock.run_for(LATEST_MS)
        self._timers()
        self.check()
        if self.work.open:
            raise BrokenPromiseError(f"no answer: {sorted(self.work.open.values())}")

    def killed(self) -> Life:
        """The next life, after kill -9."""
        clock = VirtualClock(self.clock.wall_ms())
        disk = self.driver.disk.killed(clock)
        return Life(disk, clock, Promises(self.promises.events), False, self.chance.randrange(1 << 30))

    def powered_off(self) -> Life:
        """The next life, after a power failure."""
        clock = VirtualClock(self.clock.wall_ms())
        disk = self.driver.disk.powered_off(clock, chance=self.chance)
        return Life(disk, clock, Promises(self.promises.events), True, self.chance.randrange(1 << 30))

    def ended(self) -> Life:
        ended: list[bool] = []
        self.driver.store.drain(lambda: ended.append(True))
        try:
            self.clock.run_until(lambda: bool(ended))
        except AssertionError as error:
            raise BrokenPromiseError("the store does not end") from error
        self.driver.store.close()
        life = self.killed()
        batches = life.driver.store.figures()["recovered_batches"]
        if batches:
            raise BrokenPromiseError(f"a start after a clean end reads {batches:.0f} batches: its checkpoint is not usable")
        return life

    def _topics(self, expected: Expected) -> None:
        for name, value in expected.topics.items():
            there = self.driver.store.metadata.topic(name) is not None
            if there not in [bool(each) for each in value.may_be()]:
                raise BrokenPromiseError(f"topic {name} is {'back' if there else 'gone'}")
            self.promises.note("topic-is", name, there)

    def _queue(self, topic: str, queue_id: int) -> Iterator[Record]:
        first, end = self.driver.bounds(topic, queue_id)
        offset = first
        while offset < end:
            try:
                result = self.driver.read(topic, offset, queue_id=queue_id)
            except AssertionError as error:
                raise BrokenPromiseError(f"{topic} {queue_id} cannot be read at {offset}: {error}") from error
            for data in result.records:
                record = Record(data)
                if record.queue_offset != offset:
                    raise BrokenPromiseError(f"{topic} {queue_id} has {record.queue_offset} where {offset} is due")
                yield record
                offset += 1
            if not result.records:
                raise BrokenPromiseError(f"{topic} {queue_id} ends at {offset}, not at {end}")

    def _known(self, expected: Expected, topic: str, queue_id: int, record: Record) -> None:
        sent = expected.sent.get(record.body)
        if sent is None:
            raise BrokenPromiseError(f"{_named(record)} of {topic} was never sent so, or not acknowledged lives ago")
        if (sent.topic, sent.queue_id) != (topic, queue_id):
            raise BrokenPromiseError(f"{_named(record)} is in {topic} {queue_id}, and was sent to {sent.topic} {sent.queue_id}")
        if expected.gone(sent):
            raise BrokenPromiseError(f"{_named(record)} is back, though {topic} was deleted")
        if sent.due_ms > record.store_ms:
            raise BrokenPromiseError(f"{_named(record)} is early by {sent.due_ms - record.store_ms} ms")
        if sent.decision in ("", "rollback"):
            raise BrokenPromiseError(f"{_named(record)} is readable, and its transaction is {sent.decision or 'open'}")

    def _kept(self, expected: Expected, body: bytes, sent: Sent, seen: dict[bytes, Record]) -> None:
        if expected.may_be_gone(sent) or (sent.hidden and not (sent.decided and sent.decision == "commit")):
            return
        record = seen.get(body)
        if record is None:
            if not sent.acknowledged or self._expired(sent):
                return
            if self.power and not sent.flushed:
                self.promises.note("lost", body)
                return
            text = f"at {sent.offset}" if sent.decision is None else "of a committed transaction"
            raise BrokenPromiseError(f"{_text(body)} {text} of {sent.topic} {sent.queue_id} is lost, though acknowledged")
        if sent.acknowledged and not sent.hidden and record.queue_offset != sent.offset:
            raise BrokenPromiseError(
                f"{_text(body)} is at {record.queue_offset} of {sent.topic}, and was acknowledged at {sent.offset}"
            )
        if not sent.acknowledged and not sent.hidden:
            self.promises.note("stored", body, (record.queue_offset, record.store_ms))

    def _expired(self, sent: Sent) -> bool:
        return sent.stored_ms + CONFIG.retention_ms <= self.clock.wall_ms()

    def _state(self, expected: Expected) -> None:
        for (space, key), value in expected.values.items():
            found = asked(self.driver.store.state, space, key)
            if isinstance(found, Failure):
                raise BrokenPromiseError(f"state {key!r} cannot be read: {found.text}")
            if found not in value.may_be():
                raise BrokenPromiseError(
                    f"state {key!r} is {_text(found)}, not {' or '.join(_text(each) for each in value.may_be())}"
                )
            self.promises.note("put", (space, key), found)
            self.promises.note("put-done", (space, key), found)

    def _positions(self, expected: Expected) -> None:
        for (group, topic, queue_id), value in expected.positions.items():
            found = self.driver.call(self.driver.store.positions.offset, group, topic, queue_id)
            offset = None if isinstance(found, Failure) else found
            first, end = self.driver.bounds(topic, queue_id)
            if offset not in value.may_be() and not (self.power and topic == PAGE) and offset != first:
                raise BrokenPromiseError(f"the position of {group} on {topic} is {offset}, not one of {value.may_be()}")
            if offset is not None and offset > end:
                raise BrokenPromiseError(f"the position of {group} on {topic} is {offset}, behind its end {end}")
            self.promises.note("position", (group, topic, queue_id), offset)
            self.promises.note("position-done", (group, topic, queue_id), offset)

    def _send_to_all(self) -> None:
        for topic, count in QUEUES.items():
            if self.driver.store.metadata.topic(topic) is None:
                continue
            for queue_id in range(count):
                body = self.work.body(10)
                self.promises.note("send", body, (topic, queue_id, topic != PAGE, 0, None))
                _, end = self.driver.bounds(topic, queue_id)
                try:
                    place = self.driver.send(topic, body, queue_id=queue_id)[0]
                except AssertionError as error:
                    raise BrokenPromiseError(f"{topic} {queue_id} takes no messages: {error}") from error
                if place.queue_offset < end:
                    raise BrokenPromiseError(f"{topic} {queue_id} goes on at {place.queue_offset}, and ended at {end}")
                self.promises.note("stored", body, (place.queue_offset, place.store_ms))

    def _lease_all(self) -> None:
        """Lease at once: nothing that is leased or settled; then when all leases have ended: all the rest."""
        expected = self.promises.until()
        now = self.clock.wall_ms()
        for topic in QUEUES:
            for place, offset in self._leases(topic, LEASE_MS):
                if not self.power and expected.leased.get((place, offset), 0) > now:
                    raise BrokenPromiseError(f"{topic} {place[2]} {offset} is given to another member while it is leased")
        self.clock.run_for(2 * LEASE_MS)
        for topic, count in QUEUES.items():
            bounds = [self.driver.bounds(topic, queue_id) for queue_id in range(count)]
            given = {(place[2], offset) for place, offset in self._leases(topic, LEASE_MS)}
            for queue_id, (first, end) in enumerate(bounds):
                for offset in range(first, end):
                    key = ((RECEIVER, topic, queue_id), offset)
                    if (queue_id, offset) not in given and key not in expected.settled and not expected.hidden:
                        raise BrokenPromiseError(f"{topic} {queue_id} {offset} is never given to the group")

    def _leases(self, topic: str, invisible_ms: int) -> list[tuple[tuple[str, str, int], int]]:
        """Lease all that is free, and check that none of it was settled; settles nothing."""
        expected = self.promises.until()
        found = []
        receipts: list[Receipt] = []
        while True:
            result = self.driver.lease(RECEIVER, topic, 64, invisible_ms)
            if not result.messages:
                break
            receipts += [message.receipt for message in result.messages]
        for receipt in receipts:
            key = ((RECEIVER, topic, receipt.queue_id), receipt.queue_offset)
            if expected.settled.get(key):
                raise BrokenPromiseError(f"{topic} {receipt.queue_id} {receipt.queue_offset} is given again, though settled")
            if key in expected.settled:
                self.promises.note("forget", key)
            self.promises.note("leased", key, receipt.pop_ms + invisible_ms)
            found.append(key)
        return found

    def _decide_all(self) -> None:
        for body, sent in self.promises.until().sent.items():
            if sent.decision == "" and sent.acknowledged:
                name = f"half-{int(body.split(b':')[0])}"
                self.promises.note("decide", body, "commit")
                failure = self.driver.call(self.driver.store.transactions.end, PRODUCERS, name, -1, -1, True)
                if failure is not None:
                    raise BrokenPromiseError(f"half message {_text(body)} is lost, though acknowledged: {failure.text}")
                self.promises.note("decided", body, self.clock.wall_ms())

    def _timers(self) -> None:
        expected = self.promises.until()
        seen = {record.body for topic, count in QUEUES.items() for at in range(count) for record in self._queue(topic, at)}
        for body, sent in expected.sent.items():
            due = sent.due_ms
            if due and sent.acknowledged and body not in seen and due + CONFIG.retention_ms > self.clock.wall_ms():
                raise BrokenPromiseError(f"timer {_text(body)} of {sent.topic} {sent.queue_id}, due at {due}, is lost")


def check_after(image: MemoryDisk, clock: VirtualClock, promises: Promises, power: bool, seed: int) -> None:
    """Start on `image` after a kill or a power failure, check, go on, and check over a kill and a clean end."""
    life = Life(image, clock, promises, power, seed)
    life.check()
    life.go_on()
    life = life.killed()
    life.check()
    life.ended().check()


def _named(record: Record) -> str:
    return f"{_text(record.body)} at {record.queue_offset}"


def _text(value: object) -> str:
    return f"{value[:16]!r}" if isinstance(value, bytes) else str(value)
