"""Figures of many queues and leases: counted in slices, so that a scrape does not walk over all of them."""

from __future__ import annotations

import pytest

from store import steps
from store.lease import idle_tables, lease_count
from tests.store.driver import Driver


def leased() -> Driver:
    """A store with 30 leases, each in a topic of its own."""
    driver = Driver()
    for at in range(30):
        driver.topic(f"t{at}")
        driver.send(f"t{at}", b"x")
        driver.lease("g", f"t{at}", invisible_ms=600_000)
    return driver


def test_few_leases_are_counted_at_once_and_many_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = leased()
    assert driver.store.figures()["leases"] == 30
    monkeypatch.setattr(lease_count, "EXACT_MAX", 10)
    monkeypatch.setattr(steps, "STORE_TASK_COST", 8)
    driver.clock.run_for(12_000)
    assert driver.store.figures()["leases"] == 30
    driver.send("t0", b"x")
    driver.lease("g", "t0", invisible_ms=600_000)
    assert driver.store.figures()["leases"] == 30
    driver.clock.run_for(12_000)
    assert driver.store.figures()["leases"] == 31


def test_a_walk_takes_bounded_steps_and_a_start_begins_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = leased()
    assert list(driver.store.parts.census.steps()) == [], "so few are counted when the figure is asked for"
    monkeypatch.setattr(lease_count, "EXACT_MAX", 10)
    driver.topic("many", read_queues=2_000, write_queues=2_000)
    assert driver.call(driver.store.positions.commit, "g", [("many", number, 0) for number in range(2_000)]) is None
    costs = list(driver.store.parts.census.steps())
    assert len(costs) >= 4
    assert max(costs) <= lease_count.LOOK_COST + 2 * idle_tables.CHUNK_ROWS
    assert driver.restarted().store.figures()["leases"] == 30


@pytest.mark.parametrize("end", ["", "killed", "restarted"])
def test_the_number_of_queues_is_known_without_a_walk(end: str) -> None:
    driver = Driver()
    driver.topic("p", type="LITE")
    for at in range(20):
        driver.topic(f"t{at}", read_queues=3, write_queues=3)
        for queue_id in range(at % 3 + 1):
            driver.send(f"t{at}", b"x", queue_id=queue_id)
    for at in range(0, 20, 5):
        assert driver.call(driver.store.metadata.delete_topic, f"t{at}") is None
    driver.topic("t5")
    driver.send("t5", b"again")
    if end:
        driver.clock.run_for(61_000)
        driver = getattr(driver, end)()
    entries = driver.store.parts.index.topics.values()
    assert driver.store.figures()["queues"] == sum(len(entry.queues) for entry in entries) == 39 - 7 + 1
    assert driver.store.metadata.topic_count() == len(driver.store.metadata.topics()) == 18
