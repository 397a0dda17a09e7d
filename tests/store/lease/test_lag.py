"""The lag of groups by the walk that skips unchanged rows, against a walk that asks for each position."""

from __future__ import annotations

import random
from typing import cast

import pytest

from domain.address import is_system_topic
from domain.message.message import Message
from domain.message.record import Record
from domain.store.outlook import GroupLag
from domain.topic.topic import Durability, Topic
from store.lease.lag import LagReader
from store.lease.peek import LeasePeek
from store.settings import StoreSettings
from tests.store.driver import Driver, sure

QUEUES = {"alone": 1, "few": 3, "many": 40, "%RETRY%g5": 1, "many_REPLY_TOPIC": 1, "late": 2}
"""Topics and their queues. `many` has more queues than neighbouring rows have sums for; the last but one is the system's."""
GROUPS = [f"g{number}" for number in range(400)]
MOST = 9
"""Pairs that are kept, so that most rows cannot be among them."""


def walked(driver: Driver, most: int = MOST, cost: int = 200) -> tuple[list[GroupLag], GroupLag | None]:
    walk = driver.store.outlook.lags(most)
    while not walk.step(cost):
        continue
    assert walk.passed == walk.total
    return walk.result()


def asked(driver: Driver) -> dict[tuple[str, str], tuple[int, int]]:
    """(group, topic) -> (messages, store ms of the oldest, 0 for none), by asking for each position."""
    ledger = cast(LeasePeek, driver.store.outlook)._ledger
    found: dict[tuple[str, str], tuple[int, int]] = {}
    times: dict[tuple[str, int, int], int] = {}
    for group, topic, queue_id in driver.store.outlook.places():
        if is_system_topic(topic) or driver.store.metadata.topic(topic) is None:
            continue
        queue = driver.store.parts.index.queue(topic, queue_id)
        messages, oldest_ms = found.get((group, topic), (0, 0))
        if queue is not None:
            position = ledger.tables.floor((group, topic, queue_id))
            table = ledger.tables.awake((group, topic, queue_id))
            start = max(position, queue.first)
            open_offsets = [at for at in range(start, queue.visible) if table is None or at not in table.settled]
            if open_offsets:
                place = (topic, queue_id, start)
                if place not in times:
                    [record] = driver.read(topic, start, 1, queue_id=queue_id).records
                    times[place] = Record(record).store_ms
                messages += len(open_offsets)
                oldest_ms = min(oldest_ms or times[place], times[place])
        found[group, topic] = (messages, oldest_ms)
    return found


def check(driver: Driver) -> None:
    model = asked(driver)
    rows, others = walked(driver)
    for row in rows:
        assert model.pop((row.group, row.topic)) == (row.messages, row.oldest_ms), row
    assert len(rows) == MOST or not model
    assert [row.messages for row in rows] == sorted([row.messages for row in rows], reverse=True)
    assert all(messages <= rows[-1].messages for messages, _ in model.values())
    total = sum(messages for messages, _ in model.values())
    oldest_ms = min([at_ms for _, at_ms in model.values() if at_ms], default=0)
    assert others == (GroupLag("", "", total, oldest_ms) if model else None)


def commit(driver: Driver, group: str, *places: tuple[str, int, int]) -> None:
    assert driver.call(driver.store.positions.commit, group, places) is None


class Life:
    """A store with many positions, and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        config = StoreSettings(
            retention_ms=120_000, retention_check_ms=1_000, segment_bytes=60_000, checkpoint_ms=20_000, tail_rows_max=64,
            index_segment_bytes=8_192,
        )  # fmt: skip
        self.driver = Driver(config)
        for topic, queues in QUEUES.items():
            if topic != "late":
                self.make(topic, queues)
        for topic in ("alone", "few", "%RETRY%g5", "many_REPLY_TOPIC"):
            for _ in range(3):
                self.send(topic)
        for at, group in enumerate(GROUPS):
            places = [("alone", 0, 3)] if at % 50 else [("alone", 0, 1)]
            places += [("few", queue_id, at % 3) for queue_id in range(3)]
            places += [("many", queue_id, 0) for queue_id in range(40)] if at % 10 == 0 else []
            places += [("%RETRY%g5", 0, 0), ("many_REPLY_TOPIC", 0, 0)] if at % 7 == 0 else []
            places += [("late", 1, 0)] if at % 5 == 0 else []
            self.driver.store.positions.commit(group, places, None)
        self.driver.clock.run_for(1_000)

    def make(self, topic: str, queues: int) -> None:
        made = Topic(topic, queues, queues, durability=Durability.PAGE)
        assert self.driver.call(self.driver.store.metadata.put_topic, made) is None

    def topic(self) -> str:
        return self.random.choice([name for name in QUEUES if self.driver.store.metadata.topic(name) is not None])

    def send(self, topic: str = "") -> None:
        topic = topic or self.topic()
        chance = self.random
        batch = [
            Message(topic, bytes(chance.randrange(900)), b"", queue_id=chance.randrange(QUEUES[topic]))
            for _ in range(chance.randrange(1, 6))
        ]
        sure(self.driver.append(batch))

    def consume(self) -> None:
        group, topic = self.random.choice(GROUPS), self.topic()
        leased = self.driver.lease(group, topic, 8, 5_000).messages
        settled = [message for message in leased if self.random.random() < 0.7]
        if settled:
            self.driver.settle(group, topic, *settled)

    def move(self) -> None:
        topic = self.topic()
        queue_id = self.random.randrange(QUEUES[topic])
        end = self.driver.bounds(topic, queue_id)[1]
        for group in self.random.sample(GROUPS, self.random.choice((1, 5, 60))):
            commit(self.driver, group, (topic, queue_id, self.random.randrange(end + 3)))

    def reset(self) -> None:
        topic = self.topic()
        assert self.driver.call(self.driver.store.positions.reset, self.random.choice(GROUPS), [(topic, 0, 1)]) is None

    def drop_group(self) -> None:
        assert self.driver.call(self.driver.store.positions.drop_group, self.random.choice(GROUPS)) is None

    def drop_topic(self) -> None:
        topic = self.topic()
        if topic != "many_REPLY_TOPIC":
            assert self.driver.call(self.driver.store.metadata.delete_topic, topic) is None
            self.make(topic, QUEUES[topic])
            self.send(topic)
            for group in self.random.sample(GROUPS, 300):
                self.driver.store.positions.commit(group, [(topic, 0, 0)], None)
            self.driver.clock.run_for(1_000)

    def make_late(self) -> None:
        """A topic for which there were positions before is created."""
        self.make("late", QUEUES["late"])
        self.send("late")

    def rest(self) -> None:
        """Idle tables are packed, leases end, old messages are deleted."""
        self.driver.clock.run_for(self.random.choice((6_000, 61_000, 130_000)))

    def again(self) -> None:
        self.driver = self.random.choice((self.driver.killed, self.driver.restarted))()

    def step(self) -> None:
        often = [self.send] * 6 + [self.consume] * 6 + [self.move] * 4 + [self.rest] * 3
        self.random.choice([*often, self.reset, self.drop_group, self.drop_topic, self.make_late, self.again])()


@pytest.mark.parametrize("seed", range(6))
def test_the_walk_finds_what_asking_for_each_position_finds(seed: int) -> None:
    life = Life(seed)
    check(life.driver)
    check(life.driver)
    for _ in range(40):
        life.step()
        check(life.driver)


def test_a_walk_under_way_sees_each_position_once_whatever_changes() -> None:
    life = Life(9)
    for _ in range(20):
        walk = life.driver.store.outlook.lags(MOST)
        while not walk.step(150):
            if life.random.random() < 0.3:
                group = life.random.choice(GROUPS)
                commit(life.driver, group, ("alone", 0, 2), (life.random.choice(("few", "many")), 2, 1))
        rows, others = walk.result()
        assert len({(row.group, row.topic) for row in rows}) == len(rows)
        assert others is not None
    check(life.driver)


def test_a_group_whose_rows_are_in_two_chunks_is_one_pair() -> None:
    """It has most messages, though its rows in neither chunk do, and nothing else in these two chunks has to be read."""
    driver = Driver()
    driver.topic("t", read_queues=3, write_queues=3)
    for queue_id in range(3):
        driver.send("t", *[b"x"] * 10, queue_id=queue_id)
    groups = [f"g{number:04}" for number in range(700)]
    for group in groups:
        driver.store.positions.commit(group, [("t", queue_id, 10) for queue_id in range(3)], None)
    driver.clock.run_for(1_000)
    seams = [chunk.keys[-1] for chunk in driver.store.parts.ledger.tables.chunks()]
    _, group, number = seams[1].decode().split("\x00")
    assert number != "2"
    commit(driver, groups[0], *[("t", queue_id, 6) for queue_id in range(3)])
    commit(driver, group, *[("t", queue_id, 5) for queue_id in range(3)])
    driver.clock.run_for(300_000)
    assert not driver.store.parts.ledger.tables.live
    for _ in range(3):
        [row], others = walked(driver, 1)
        assert (row.group, row.messages) == (group, 15)
        assert others is not None
        assert others.messages == 12


def test_a_pair_that_is_not_kept_any_more_leaves_its_oldest_message_to_the_others() -> None:
    driver = Driver()
    for topic, count in (("a", 1), ("b", 2)):
        driver.topic(topic)
        driver.send(topic, *[b"x"] * count)
        driver.clock.run_for(5_000)
        commit(driver, "g", (topic, 0, 0))
    oldest_ms = Record(driver.read("a").records[0]).store_ms
    [row], others = walked(driver, 1)
    assert (row.topic, row.messages) == ("b", 2)
    assert row.oldest_ms > oldest_ms
    assert others == GroupLag("", "", 1, oldest_ms)


def test_rows_that_have_not_changed_are_not_read_again() -> None:
    """5,000 positions: the second walk, and one after a send, cost what their few sums cost."""
    driver = Driver.with_topics("t")
    driver.send("t", *[b"x"] * 10)
    for number in range(5_000):
        driver.store.positions.commit(f"g{number:04}", [("t", 0, 1 if number < 2_000 else 10)], None)
    driver.clock.run_for(300_000)
    assert not driver.store.parts.ledger.tables.live

    def visited() -> int:
        walk = cast(LagReader, driver.store.outlook.lags(MOST))
        assert walk.step(100_000)
        return walk.visited

    assert visited() >= 5_000
    usual = visited()
    assert usual <= 600, "the first rows, and the first and the last group of every other 512"
    driver.send("t", b"more")
    assert visited() == usual
    check(driver)
    commit(driver, "g3000", ("t", 0, 5))
    assert usual < visited() <= usual + 2 * 512
    assert visited() <= usual + 1, "one table is live"
    for _ in range(3):
        driver.clock.run_for(300_000)
        assert visited() <= usual + 1, "it is packed again, and still read alone"
        commit(driver, "g3000", ("t", 0, 6))
        assert visited() <= usual + 1
    check(driver)
