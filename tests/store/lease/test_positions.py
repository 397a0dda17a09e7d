"""Positions of groups: the level that a commit waits for, and the deletion of a group, which is finished after any crash."""

from __future__ import annotations

import errno
import gc
import random

import pytest

from domain.errors import Failure
from domain.topic.topic import Durability, Group
from domain.turn import STORE_TASK_COST
from store import steps
from store.lease.journaled_tables import FREE_COST
from store.lease.table import LeaseTable
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk, Operation
from tests.store.driver import Driver
from tests.stored_state import pairs

MANY = 900
CONFIG = StoreSettings(checkpoint_bytes=30_000, checkpoint_ms=1_000, segment_bytes=50_000, retention_ms=60_000, cache_bytes=0)


@pytest.mark.parametrize("names", [("flushed", "page"), ("page", "flushed")])
@pytest.mark.parametrize("pulls", [False, True])
def test_a_commit_over_several_topics_waits_for_the_strictest_level(names: tuple[str, str], pulls: bool) -> None:
    driver = Driver.with_topics("flushed")
    driver.topic("page", Durability.PAGE)
    for name in names:
        driver.send(name, b"a", b"b")
    driver.lease("g", "flushed", limit=1)  # a member's report about this topic is a report about a shared queue
    driver.clock.run_for(1_000)
    driver.disk.hold_syncs = True
    answers: list[None | Failure] = []
    commit = driver.store.pulls.report if pulls else driver.store.positions.commit
    commit("g", [(name, 0, 1) for name in names], answers.append)
    driver.clock.run_for(10)
    assert answers == []
    driver.disk.release()
    driver.clock.run_for(10)
    assert answers == [None]


def test_a_commit_over_page_topics_waits_for_the_write_only() -> None:
    driver = Driver()
    driver.topic("page", Durability.PAGE)
    driver.send("page", b"a")
    driver.clock.run_for(1_000)
    driver.disk.hold_syncs = True
    answers: list[None | Failure] = []
    driver.store.positions.commit("g", [("page", 0, 1)], answers.append)
    driver.clock.run_turn()
    assert answers == [None]


def position(driver: Driver, topic: str = "flushed", group: str = "g") -> int:
    """The position that a reader gets; -1: none."""
    found: int | Failure = driver.call(driver.store.positions.offset, group, topic, 0)
    return -1 if isinstance(found, Failure) else found


def test_a_position_is_readable_when_it_could_be_acknowledged() -> None:
    driver = Driver.with_topics("flushed")
    driver.send("flushed", *[b"m"] * 9)
    driver.disk.hold_syncs = True
    answers: list[None | Failure] = []
    commit = driver.store.positions.commit
    commit("g", [("flushed", 0, 2)], answers.append)
    assert position(driver) == -1
    driver.clock.run_for(2_000)
    assert position(driver) == -1
    driver.disk.release()
    driver.clock.run_for(2_000)
    assert position(driver) == 2
    driver.disk.hold_syncs = True
    for offset in (5, 7, 1):
        commit("g", [("flushed", 0, offset)], answers.append)
        driver.clock.run_for(10)
        assert position(driver) == 2
    driver.disk.release()
    driver.clock.run_for(2_000)
    assert position(driver) == 1


def test_a_position_for_which_nobody_waits_is_readable_at_once() -> None:
    """A client that commits without an answer, as RocketMQ's do, is followed by one that reads: it goes on there."""
    driver = Driver.with_topics("flushed")
    driver.send("flushed", b"a", b"b")
    driver.disk.hold_syncs = True
    driver.store.positions.commit("g", [("flushed", 0, 1)], None)
    driver.store.positions.commit("other", [("flushed", 0, 2)], lambda _: None)
    assert position(driver) == -1
    driver.clock.run_turn()
    assert position(driver) == 1, "it is another group for which somebody waits"
    assert position(driver, group="other") == -1
    driver.store.positions.commit("g", [("flushed", 0, 2)], None)
    driver.clock.run_turn()
    assert position(driver) == 2, "its write waits for a sync that is under way, and readers do not"


def test_a_position_of_a_page_topic_is_readable_when_it_is_written() -> None:
    driver = Driver()
    driver.topic("page", Durability.PAGE)
    driver.send("page", b"a", b"b")
    driver.disk.hold_syncs = True
    driver.store.positions.commit("g", [("page", 0, 1)], None)
    assert position(driver, "page") == -1
    driver.clock.run_turn()
    assert position(driver, "page") == 1


def test_an_acknowledgement_moves_the_readable_position_when_it_is_durable() -> None:
    driver = Driver.with_topics("flushed")
    driver.send("flushed", b"a", b"b", b"c")
    leased = driver.lease("g", "flushed").messages
    driver.clock.run_for(2_000)
    assert position(driver) == 0
    driver.disk.hold_syncs = True
    answers: list[object] = []
    driver.store.leases.settle("g", "flushed", [each.receipt for each in leased], answers.append)
    driver.clock.run_for(10)
    assert (answers, position(driver)) == ([], 0)
    driver.disk.release()
    driver.clock.run_for(10)
    assert (len(answers), position(driver)) == (1, 3)


@pytest.mark.parametrize("seed", range(8))
def test_a_readable_position_is_never_one_that_a_power_failure_takes_back(seed: int) -> None:
    chance = random.Random(seed)
    driver = Driver.with_topics("flushed", config=CONFIG)
    driver.send("flushed", *[b"m"] * 200)
    for number in range(200):
        driver.disk.hold_syncs = chance.random() < 0.7
        if not driver.disk.hold_syncs:
            driver.disk.release()
        group = chance.choice("gh")
        driver.store.positions.commit(group, [("flushed", 0, number)], lambda _: None)
        driver.clock.run_for(chance.choice((0, 1, 10, 700)))
    read = {group: position(driver, group=group) for group in "gh"}
    after = driver.powered_off()
    for group, found in read.items():
        assert position(after, group=group) >= found


def begun() -> Driver:
    """A store with positions of two groups, of which `g` is to be deleted."""
    driver = Driver(CONFIG)
    driver.topic("t", read_queues=MANY, write_queues=MANY)
    for group in ("g", "h"):
        assert driver.call(driver.store.metadata.put_group, Group(group)) is None
        assert driver.call(driver.store.positions.commit, group, [("t", number, number % 7) for number in range(MANY)]) is None
    return driver


def left(driver: Driver, group: str = "g") -> tuple[int, bool]:
    """(positions of the group, True when it has a configuration)."""
    places = [place for place in driver.store.outlook.places() if place[0] == group]
    return len(places), driver.store.metadata.group(group) is not None


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_crash_at_each_operation_leaves_all_of_the_group_or_nothing(power: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STORE_TASK_COST", 500)
    driver = begun()
    moments: list[tuple[Operation, MemoryDisk, bool]] = []
    answers: list[None | Failure] = []

    def watch(operation: Operation) -> None:
        if operation.kind in ("append", "sync", "remove"):
            moments.append((operation, driver.disk.killed(VirtualClock()), bool(answers)))

    driver.disk.watch = watch
    driver.store.positions.drop_group("g", answers.append)
    driver.clock.run_for(3_000)
    driver.disk.watch = None
    assert answers == [None]
    assert left(driver) == (0, False)
    halves, now_ms = 0, driver.clock.wall_ms()
    for at, (operation, disk, answered) in enumerate(moments):
        clock = VirtualClock(now_ms)
        found = disk.powered_off(clock, chance=random.Random(at)) if power else disk.killed(clock)
        after = Driver(CONFIG, found, clock)
        halves += 0 < left(after)[0] < MANY
        clock.run_for(3_000)
        assert left(after) in ([(0, False)] if answered else [(0, False), (MANY, True)]), operation
        assert left(after, "h") == (MANY, True)
        assert pairs(after.store.state, "@ungroup") == []
        assert left(after.killed()) == left(after)
    assert halves, "it is not done in one commit"


def test_a_disk_that_is_full_in_its_midst_delays_it() -> None:
    driver = begun()
    answers: list[None | Failure] = []

    def watch(operation: Operation) -> None:
        if operation.kind == "append" and operation.name.startswith("log/") and left(driver)[0] < MANY:
            raise OSError(errno.ENOSPC, "no space left on device")

    driver.disk.watch = watch
    driver.store.positions.drop_group("g", answers.append)
    driver.clock.run_for(2_000)
    assert [type(answer) for answer in answers] == [Failure]
    driver.disk.watch = None
    driver.clock.run_for(20_000)
    assert left(driver) == (0, False)
    again = driver.killed()
    assert left(again) == (0, False)


def test_who_asks_again_meanwhile_is_answered_at_the_end_and_groups_go_one_after_the_other() -> None:
    driver = begun()
    answers: list[tuple[str, None | Failure]] = []
    for group in ("g", "h", "g", "unknown"):
        driver.store.positions.drop_group(group, lambda answer, group=group: answers.append((group, answer)))  # type: ignore[misc]
    driver.clock.run_for(3_000)
    assert answers == [("g", None), ("g", None), ("h", None), ("unknown", None)]
    assert left(driver) == left(driver, "h") == (0, False)


def test_a_store_that_takes_nothing_begins_nothing() -> None:
    driver = begun()
    driver.store.parts.admission.close("the store is being closed")
    assert isinstance(driver.call(driver.store.positions.drop_group, "g"), Failure)
    assert left(driver) == (MANY, True)
    again = driver.killed()
    again.clock.run_for(3_000)
    assert left(again) == (MANY, True)


def test_removed_positions_are_freed_a_few_hundred_in_a_turn() -> None:
    driver = begun()
    assert driver.call(driver.store.positions.drop_group, "g") is None
    ledger = driver.store.parts.ledger
    before = live_tables()
    list(ledger.rest())
    assert live_tables() == before >= MANY, "the tables that changed last are still known"
    rest = ledger.rest()
    costs = [next(rest) for _ in range(MANY)]
    assert before - MANY <= live_tables() < before
    costs += rest
    assert live_tables() <= before - MANY
    assert sum(costs) >= MANY * FREE_COST
    assert STORE_TASK_COST // FREE_COST <= 512


def live_tables() -> int:
    """Lease tables in memory."""
    return sum(isinstance(each, LeaseTable) for each in gc.get_objects())
