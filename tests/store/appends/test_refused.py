"""A change that the log refuses changes nothing in memory: what was promised before stays, here and after a kill."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from domain.errors import Failure
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_event import StoreEventKind
from domain.topic import lite
from store.delay import parking
from store.settings import StoreSettings
from tests.store.appends.test_effects import damage
from tests.store.driver import Driver
from tests.store.lease.test_lite_queues import send


def nearly_full(driver: Driver) -> None:
    driver.disk.free = 0.01
    driver.clock.run_for(1_100)


def draining(driver: Driver) -> None:
    driver.store.drain(lambda: None)


def failed(driver: Driver) -> None:
    driver.disk.fail_syncs = True
    driver.store.state.put([], None)
    driver.clock.run_for(20)
    driver.disk.fail_syncs = False


REFUSALS = pytest.mark.parametrize("refuse", [nearly_full, draining, failed])


@REFUSALS
def test_a_refused_deletion_of_a_topic_deletes_nothing(refuse: Callable[[Driver], None]) -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"a", b"b", b"c")
    driver.settle("g", "t", *driver.lease("g", "t", limit=1).messages)
    refuse(driver)
    assert isinstance(driver.call(driver.store.metadata.delete_topic, "t"), Failure)
    assert driver.store.metadata.topic("t") is not None
    assert driver.bodies("t") == [b"a", b"b", b"c"]
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 1
    if refuse is nearly_full:
        driver.disk.free = 0.5
        driver.clock.run_for(1_100)
        assert driver.send("t", b"d")[0].queue_offset == 3
        assert driver.killed().bodies("t") == [b"a", b"b", b"c", b"d"]
    after = driver.killed()
    assert after.bodies("t")[:3] == [b"a", b"b", b"c"]
    assert after.call(after.store.positions.offset, "g", "t", 0) == 1


@REFUSALS
def test_a_refused_removal_of_a_lite_topic_removes_nothing(refuse: Callable[[Driver], None]) -> None:
    driver = Driver()
    driver.topic("t", type="LITE")
    send(driver, "one", "a", parent="t")
    refuse(driver)
    assert isinstance(driver.call(driver.store.lite_queues.drop, "t", ["one"], ["g"]), Failure)
    assert list(driver.store.lite_queues.names("t")) == ["one"]
    assert driver.bounds(lite.queue_name("t", "one")) == (0, 1)
    assert list(driver.killed().store.lite_queues.names("t")) == ["one"]


def test_a_refused_removal_of_a_group_keeps_its_positions() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"a")
    driver.settle("g", "t", *driver.lease("g", "t").messages)
    failed(driver)
    assert isinstance(driver.call(driver.store.positions.drop_group, "g"), Failure)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 1
    assert isinstance(driver.call(driver.store.positions.reset, "g", [("t", 0, 0)]), Failure)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 1


@pytest.mark.parametrize(("pressure_ratio", "bodies"), [(0.0, [b"1", b"20", b"40", b"60"]), (0.1, [b"20", b"40", b"60"])])
def test_timers_of_a_refused_delivery_are_delivered_when_there_is_room(pressure_ratio: float, bodies: list[bytes]) -> None:
    """With pressure, the segment that holds them is deleted meanwhile, and what is pending is copied forward before."""
    driver = Driver.with_topics("t", config=StoreSettings(pressure_ratio=pressure_ratio))
    for minutes in (1, 20, 40, 60):
        driver.send("t", b"%d" % minutes, properties=b"TIMER_DELAY_SEC\x01%d\x02" % (60 * minutes))
    driver.clock.run_for(61_000)
    assert driver.bodies("t") == [b"1"]
    nearly_full(driver)
    driver.clock.run_for(62 * 60_000)
    assert (driver.store.figures()["retention_segments_deleted_total"] > 0) == (pressure_ratio > 0)
    driver.disk.free = 0.5
    driver.clock.run_for(5_000)
    assert driver.bodies("t") == bodies


def test_a_damaged_delayed_message_holds_back_no_other() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(cache_bytes=0))
    places = [driver.send("t", b"%d" % second, properties=b"TIMER_DELAY_SEC\x015\x02")[0] for second in range(4)]
    damage(driver, places[1])
    driver.clock.run_for(8_000)
    assert driver.bodies("t") == [b"0", b"2", b"3"]
    late, part = driver.notified(StoreEventKind.DAMAGED)
    assert str(places[1].physical_offset) in late.cause
    assert "(1 records)" in part.cause, "the read has pointed the check of the log at the place"


def test_a_read_of_the_timers_that_fails_for_a_while_loses_none() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(cache_bytes=0))
    for number in range(3):
        driver.send("t", b"%d" % number, properties=b"TIMER_DELAY_SEC\x015\x02")
    name = next(name for name in driver.disk.files if name.startswith("log/"))
    driver.disk.unreadable.append((name, 0, 1 << 40))
    driver.clock.run_for(8_000)
    driver.disk.unreadable.clear()
    driver.clock.run_for(2_000)
    assert [Record(data).body for data in driver.read("t").records] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("end", ["killed", "powered_off", "restarted"])
def test_a_log_of_an_earlier_version_with_a_message_for_no_queue_opens_and_writes_checkpoints(end: str) -> None:
    driver = Driver.with_topics("t")
    driver.call(lambda done: driver.store.parts.appender.add([Message("t", b"x", b"", queue_id=-1)], (), done, True))
    found: Driver = getattr(driver, end)()
    found.checkpoint()
    for each in (found, found.killed()):
        assert each.bodies("t", -1) == [b"x"]
        assert Record(each.read("t", queue_id=-1).records[0]).queue_id == -1


def test_a_delayed_message_that_an_earlier_version_parked_for_no_queue_is_delivered() -> None:
    driver = Driver.with_topics("t")
    parked = parking.park(Message("t", b"x", b"TIMER_DELAY_MS\x015000\x02", queue_id=-1), driver.clock.wall_ms(), 0)
    assert isinstance(parked, Message)
    answers: list[object] = []
    driver.store.parts.appender.add([parked], (), answers.append, True)
    driver.clock.run_for(10_000)
    assert driver.bodies("t") == [b"x"]
