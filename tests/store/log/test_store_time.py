"""A wall clock that jumps ahead: messages are dated, and segments deleted, by the time before, and it is reported once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.message.record import Record
from domain.store.store_event import StoreEvent, StoreEventKind
from store.events import StoreEvents
from store.log.segment import Segments
from store.log.segment_ends import date_segments
from store.log.store_time import JUMP_MS, StoreTime
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver
from tests.store.replication.replica_log.pair import CONFIG, Leading, opened

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


def test_steps_back_and_small_ones_ahead_are_followed_and_a_jump_is_reported_once() -> None:
    clock, events = VirtualClock(), list[StoreEvent]()
    time = StoreTime(clock, StoreEvents(events.append, VirtualClock()))
    clock.step_wall(JUMP_MS - 1)
    assert time.now_ms() == clock.wall_ms()
    clock.step_wall(-YEAR_MS)
    assert time.now_ms() == clock.wall_ms()
    clock.stall(10 * HOUR_MS)
    assert (time.now_ms(), events) == (clock.wall_ms(), []), "nothing has looked for ten hours, and both clocks went on"
    before = clock.wall_ms()
    clock.step_wall(HOUR_MS)
    for _ in range(3):
        clock.stall(60_000)
        time.now_ms()
    assert time.now_ms() == before + 3 * 60_000
    assert time.ahead_ms == HOUR_MS
    assert time.limit_ms <= clock.wall_ms(), "whoever compares with it asks again"
    [event] = events
    assert (event.kind, "3600 s" in event.cause) == (StoreEventKind.CLOCK, True)
    clock.step_wall(-HOUR_MS)
    assert (time.now_ms(), time.ahead_ms) == (clock.wall_ms(), 0)
    clock.step_wall(YEAR_MS)
    time.now_ms()
    assert len(events) == 2, "another jump"


def driver_of(leads: bool) -> Driver:
    config = replace(CONFIG, retention_ms=60_000, retention_check_ms=1_000)
    if not leads:
        return Driver.with_topics("orders", config=replace(config, segment_bytes=4_096))
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    driver = Leading(opened(disk, clock, config), disk, clock, 1, config).alone().driver
    driver.topic("orders")
    return driver


def dated(driver: Driver) -> list[int]:
    """The store times of all messages that are there."""
    first, end = driver.bounds("orders")
    return [Record(driver.read("orders", at).records[0]).store_ms for at in range(first, end)]


@pytest.mark.parametrize("leads", [False, True], ids=["single", "of two replicas"])
@pytest.mark.parametrize("ahead_ms", [HOUR_MS, YEAR_MS])
@pytest.mark.parametrize("stays", [False, True])
def test_neither_stops_retention_nor_dates_messages(leads: bool, ahead_ms: int, stays: bool) -> None:
    driver = driver_of(leads)
    clock = driver.clock
    for number in range(20):
        driver.send("orders", b"%d " % number + b"x" * 400)
    clock.run_for(30_000)
    before = clock.wall_ms()
    clock.step_wall(ahead_ms)
    driver.send("orders", b"jump")
    clock.run_for(5_000)
    assert driver.bounds("orders") == (0, 21), "nothing is deleted an hour too early"
    assert driver.store.figures()["clock_ahead_seconds"] == ahead_ms / 1000
    if not stays:
        clock.step_wall(-ahead_ms)
    for number in range(20):
        driver.send("orders", b"after %d " % number + b"x" * 400)
    assert all(before - 60_000 < each < before + 60_000 for each in dated(driver))
    assert dated(driver) == sorted(dated(driver))
    clock.run_for(HOUR_MS)
    driver.send("orders", *[b"x" * 400] * 20)
    clock.run_for(120_000)
    assert driver.bounds("orders")[0] >= 41, "all of it was deleted when its minute was over"
    assert driver.store.figures()["events_clock_total"] == 1


def test_segments_that_an_earlier_run_has_dated_ahead_are_deleted_after_their_time_in_this_run() -> None:
    driver = Driver.with_topics(
        "orders", config=StoreSettings(segment_bytes=4_096, retention_ms=60_000, retention_check_ms=1_000)
    )
    driver.clock.step_wall(YEAR_MS)
    driver = driver.restarted()
    driver.send("orders", *[b"x" * 400] * 40)
    driver.clock.step_wall(-YEAR_MS)
    driver = driver.killed()
    driver.clock.run_for(30_000)
    assert driver.bounds("orders")[0] == 0
    driver.clock.run_for(60_000)
    driver.send("orders", *[b"x" * 400] * 20)
    driver.clock.run_for(10_000)
    assert driver.bounds("orders")[0] > 0


def test_no_segment_is_dated_later_than_now() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(segment_bytes=10_000))
    driver.send("t", *[b"x" * 500] * 60)
    now = driver.clock.wall_ms() - YEAR_MS
    segments = Segments(driver.disk.killed(driver.clock), "log")
    date_segments(segments, now)
    assert [segment.newest_ms for segment in segments.all] == [now] * len(segments.all)
