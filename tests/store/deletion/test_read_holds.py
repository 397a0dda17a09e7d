"""Messages that a reader holds stay past retention by age, until the hold ends."""

from __future__ import annotations

from domain.message.message import Message
from domain.store import read_hold
from domain.store.store_ports import StateChange
from store.settings import StoreSettings
from tests.store.driver import Driver, sure

SHORT = StoreSettings(retention_ms=60_000, retention_check_ms=1_000, segment_bytes=20_000, checkpoint_ms=5_000)


def hold(driver: Driver, topic: str, offset: int, for_ms: int) -> None:
    value = read_hold.encode(driver.clock.wall_ms() + for_ms, {0: offset})
    put: list[object] = []
    driver.store.state.put([StateChange(read_hold.SPACE, read_hold.key_of("r", topic), value)], put.append)
    driver.clock.run_for(100)
    assert put == [None]


def brief() -> Driver:
    driver = Driver(SHORT)
    driver.topic("brief", retention_ms=5_000)
    fill(driver, "brief", 10)
    return driver


def fill(driver: Driver, topic: str, count: int) -> None:
    for _ in range(count):
        sure(driver.append([Message(topic, bytes(1_000), queue_id=0)]))


def test_segments_stay_for_a_hold_and_go_when_it_ends() -> None:
    driver = Driver.with_topics("t", config=SHORT)
    fill(driver, "t", 60)
    hold(driver, "t", 30, 600_000)
    driver.clock.run_for(300_000)
    fill(driver, "t", 20)
    driver.clock.run_for(30_000)
    first, after = driver.bounds("t")
    assert 0 < first <= 30
    assert after == 80
    driver.clock.run_for(600_000)
    assert driver.bounds("t")[0] > 30


def test_a_topic_with_a_retention_of_its_own_is_trimmed_up_to_the_hold() -> None:
    driver = brief()
    hold(driver, "brief", 4, 30_000)
    driver.clock.run_for(20_000)
    assert driver.bounds("brief") == (4, 10)
    driver.clock.run_for(20_000)
    assert driver.bounds("brief") == (10, 10)


def test_a_bound_of_bytes_is_stronger_than_a_hold() -> None:
    driver = Driver(StoreSettings(retention_bytes=60_000, segment_bytes=10_000, retention_check_ms=1_000))
    driver.topic("t")
    fill(driver, "t", 10)
    hold(driver, "t", 0, 600_000)
    for _ in range(10):
        fill(driver, "t", 20)
        driver.clock.run_for(5_000)
    assert driver.bounds("t")[0] > 0


def test_a_hold_survives_a_restart() -> None:
    driver = brief()
    hold(driver, "brief", 4, 60_000)
    driver = driver.killed()
    driver.clock.run_for(20_000)
    assert driver.bounds("brief") == (4, 10)
