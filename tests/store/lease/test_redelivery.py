"""Leases under a seed: settled messages stay settled, others are redelivered with the right attempt, the floor advances.

The store is killed at random points, or loses its power with any part of the tail that was not synced. Its knowledge after
that is what the log says.
"""

from __future__ import annotations

import random

import pytest

from domain.address import pop_retry_topic
from domain.event import Leased
from domain.message.record import Record
from store.lease.call import FLOOR_HELD_MS_MAX
from store.settings import StoreSettings
from tests.store.driver import Driver

RETRY = pop_retry_topic("g", "t")
SMALL = StoreSettings(checkpoint_bytes=6_000, segment_bytes=20_000, checkpoint_ms=20_000)
POISON = b"poison"


class Run:
    """Members of one group at work, with a record of what they leased and settled."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.driver = Driver(SMALL)
        self.driver.topic("t", read_queues=2, write_queues=2)
        self.sent: list[bytes] = []
        self.settled: set[bytes] = set()
        self.attempts: dict[bytes, int] = {}
        self.held: dict[bytes, tuple[int, str, Leased]] = {}
        self.copied: set[bytes] = set()

    def send(self) -> None:
        count = len(self.sent)
        body = (POISON if count % 20 == 3 else b"good") + b"%d" % count
        self.driver.send("t", body, queue_id=self.chance.randrange(2))
        self.sent.append(body)

    def lease(self, topic: str, invisible_ms: int) -> None:
        if self.driver.store.metadata.topic(topic) is None:
            return
        result = self.driver.lease("g", topic, self.chance.randrange(1, 6), invisible_ms)
        for message in result.messages:
            body = Record(message.record).body
            assert body not in self.settled, f"{body!r} was settled"
            assert body not in self.held, f"{body!r} is leased"
            assert message.attempt == self.attempts.get(body, 0) + 1
            assert Record(message.record).reconsume_times == message.attempt - 1
            self.attempts[body] = message.attempt
            self.held[body] = (result.pop_ms + invisible_ms, topic, message)
            if topic == RETRY:
                self.copied.add(body)

    def forget_expired(self) -> None:
        now = self.driver.clock.wall_ms()
        self.held = {body: entry for body, entry in self.held.items() if entry[0] > now}

    def settle_one(self) -> None:
        good = [body for body in self.held if not body.startswith(POISON)]
        if good:
            body = self.chance.choice(sorted(good))
            _, topic, message = self.held.pop(body)
            assert self.driver.settle("g", topic, message) == [None]
            self.settled.add(body)

    def nack_one(self) -> None:
        if self.held:
            body = self.chance.choice(sorted(self.held))
            _, topic, message = self.held.pop(body)
            self.driver.call(self.driver.store.leases.extend, "g", topic, [message.receipt], 0)

    def floor_holds(self) -> None:
        """Check that no floor stays behind for longer than the bound and a lease while members receive."""
        for queue_id in range(2):
            table = self.driver.store.parts.ledger.tables.get(("g", "t", queue_id))
            for lease in table.leases.values() if table is not None else ():
                assert self.driver.clock.wall_ms() - lease.first_ms <= FLOOR_HELD_MS_MAX + 120_000


@pytest.mark.parametrize("seed", range(10))
def test_through_kills(seed: int) -> None:
    run = Run(seed)
    chance = run.chance
    for step in range(700):
        run.forget_expired()
        act = chance.random()
        if act < 0.2 and len(run.sent) < 120:
            run.send()
        elif act < 0.55:
            run.lease(chance.choice(("t", "t", RETRY)), chance.randrange(5, 40) * 1_000)
        elif act < 0.8:
            run.settle_one()
        elif act < 0.86:
            run.nack_one()
            run.driver.clock.run_for(5)
        elif act < 0.97:
            run.driver.clock.run_for(chance.randrange(1, 8_000))
        else:
            run.driver = run.driver.killed()
        if step % 20 == 0:
            run.forget_expired()
            run.lease("t", 10_000)
            run.floor_holds()
    for _ in range(400):
        run.forget_expired()
        run.lease("t", 10_000)
        run.lease(RETRY, 10_000)
        while [body for body in run.held if not body.startswith(POISON)]:
            run.settle_one()
        run.driver.clock.run_for(11_000)
    assert run.settled == {body for body in run.sent if not body.startswith(POISON)}
    poison = {body for body in run.sent if body.startswith(POISON)}
    assert poison
    assert poison <= run.copied, "what nobody can handle goes on in the retry topic"
    for queue_id in range(2):
        assert run.driver.call(run.driver.store.positions.offset, "g", "t", queue_id) == run.driver.bounds("t", queue_id)[1]


@pytest.mark.parametrize("seed", range(20, 28))
def test_through_power_failures_what_was_settled_stays_settled(seed: int) -> None:
    chance = random.Random(seed)
    driver = Driver.with_topics("t", config=SMALL)
    sent: set[bytes] = set()
    settled: set[bytes] = set()
    for step in range(250):
        act = chance.random()
        if act < 0.3:
            body = b"%d" % step
            driver.send("t", body)
            sent.add(body)
        elif act < 0.85:
            for message in driver.lease("g", "t", chance.randrange(1, 6), 3_000).messages:
                body = Record(message.record).body
                assert body not in settled
                if chance.random() < 0.6:
                    assert driver.settle("g", "t", message) == [None]
                    settled.add(body)
        elif act < 0.95:
            driver.clock.run_for(chance.randrange(1, 4_000))
        else:
            driver = driver.powered_off(lambda name, synced, written: chance.randint(synced, written))
    for _ in range(100):
        driver.clock.run_for(3_100)
        for message in driver.lease("g", "t").messages:
            assert Record(message.record).body not in settled
            assert driver.settle("g", "t", message) == [None]
            settled.add(Record(message.record).body)
    assert settled == sent


def test_the_floor_is_never_more_than_10_000_offsets_behind_the_head() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", POISON)
    [stuck] = driver.lease("g", "t", 1, 1_000).messages
    for _ in range(11):
        driver.send("t", *[b"x"] * 1_000)
        while messages := driver.lease("g", "t", 1_000, 60_000).messages:
            driver.settle("g", "t", *[message for message in messages if Record(message.record).body != POISON])
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 0
    driver.clock.run_for(61_000)
    assert driver.lease("g", "t").messages == []
    driver.clock.run_for(50)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 11_001
    [copy] = driver.lease("g", RETRY).messages
    assert Record(copy.record).body == POISON
    assert driver.settle("g", "t", stuck) == [None], "a late word on what has gone on does no harm"
