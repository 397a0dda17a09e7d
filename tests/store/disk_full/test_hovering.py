"""A disk that hovers round a bound: a pair of lines, not one for each time."""

from __future__ import annotations

import errno

import pytest

from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.store.store_event import StoreEventKind
from gateway.observe.health import SERVING, Health
from store.disk_full.admission import FreeSpace
from tests.store.driver import Driver, Failing

LINES = (StoreEventKind.FULL, StoreEventKind.RESUMED)


def lines(driver: Driver) -> list[StoreEventKind]:
    """The lines about room; what the counters say is as many."""
    found = [event.kind for event in driver.events if event.kind in LINES]
    figures = driver.store.figures()
    for kind in LINES:
        assert figures[f"events_{kind.value}_total"] == found.count(kind)
    return found


def refused(driver: Driver) -> bool:
    answer = driver.append([Message("t", b"1", queue_id=0)])
    assert isinstance(answer, list) or answer.code in {ErrorCode.STORE_UNAVAILABLE, ErrorCode.FLUSH_TIMEOUT}
    return isinstance(answer, Failure)


def test_a_share_that_hovers_round_its_bound_stops_writes_once() -> None:
    driver = Driver.with_topics("t")
    for number in range(120):
        driver.disk.free = (0.049, 0.0501)[number % 2]
        driver.clock.run_for(1_000)
    assert lines(driver) == [StoreEventKind.FULL], "a little more than the bound is not enough to go on"
    assert refused(driver)
    driver.disk.free = 0.056
    driver.clock.run_for(1_100)
    assert lines(driver) == [StoreEventKind.FULL, StoreEventKind.RESUMED]
    assert not refused(driver)


def test_a_share_that_hovers_widely_has_no_line_each_time() -> None:
    driver = Driver.with_topics("t")
    for number in range(240):
        driver.disk.free = (0.01, 0.5)[number % 2]
        driver.clock.run_for(1_000)
    assert len(lines(driver)) <= 4
    driver.disk.free = 0.5
    driver.clock.run_for(61_000)
    assert lines(driver)[-1] is StoreEventKind.RESUMED
    assert "119 times" in driver.events[-1].cause


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_disk_that_has_room_for_a_moment_only_has_no_line_each_time(number: int) -> None:
    driver = Driver.with_topics("t")
    full = Failing(driver.disk, number)
    for _ in range(40):
        full.room = False
        driver.store.log.append([Message("t", b"1", queue_id=0)], None)
        driver.clock.run_for(2_500)
        full.room = True
        driver.clock.run_for(1_100)
    assert len(lines(driver)) <= 4
    driver.clock.run_for(61_000)
    assert lines(driver)[-1] is StoreEventKind.RESUMED
    assert not refused(driver)


def test_a_full_log_whose_probe_moves_the_share_has_one_line_each() -> None:
    """The probe of 1 MiB is a large part of a small volume: the share that is read in between hovers."""
    driver = Driver.with_topics("t")
    full = Failing(driver.disk)
    driver.store.log.append([Message("t", b"1", queue_id=0)], None)
    for number in range(240):
        driver.disk.free = (0.04, 0.06)[number % 2]
        driver.clock.run_for(1_000)
    assert lines(driver) == [StoreEventKind.FULL]
    full.room, driver.disk.free = True, 0.5
    driver.clock.run_for(2_200)
    assert lines(driver) == [StoreEventKind.FULL, StoreEventKind.RESUMED]
    assert not refused(driver)


def test_readiness_follows_the_disk_whatever_has_a_line() -> None:
    driver = Driver.with_topics("t")
    health = Health(driver.clock.monotonic_ns)
    health.phase = SERVING
    driver.heard.append(health.heard)
    for number in range(20):
        driver.disk.free = (0.01, 0.5)[number % 2]
        driver.clock.run_for(1_000)
        assert health.readiness()["ready"] is bool(number % 2)
    full = Failing(driver.disk)
    driver.disk.free = 0.01
    driver.store.positions.commit("g", [("t", 0, 0)], None)
    driver.clock.run_for(1_100)
    [reason] = health.reasons()
    assert "1.0% of the volume" in reason
    assert "disk full" in reason, "both are named"
    full.room = True
    driver.clock.run_for(1_100)
    [reason] = health.reasons()
    assert "disk full" not in reason
    driver.disk.free = 0.5
    driver.clock.run_for(1_100)
    assert health.readiness()["ready"]


def test_a_store_that_is_closed_tells_nothing_later() -> None:
    driver = Driver.with_topics("t")
    for number in range(10):
        driver.disk.free = (0.01, 0.5)[number % 2]
        driver.clock.run_for(1_000)
    told = len(driver.events)
    driver.store.close()
    driver.clock.run_for(120_000)
    assert len(driver.events) == told


@pytest.mark.parametrize("least", [0.0, 0.05, 0.5, 0.95, 1.0])
def test_free_space_goes_on_a_little_above_its_bound(least: float) -> None:
    space = FreeSpace(least)
    assert not space.is_low(1.0)
    assert not space.is_low(least)
    if least:
        assert space.is_low(least - 0.001)
        assert space.is_low(least) is (least < 1)
        assert not space.is_low(1.0)
    else:
        assert not space.is_low(0.0), "0: no bound"
