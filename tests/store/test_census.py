"""Figures of many topics: counted in slices, so that a scrape does not walk over all of them."""

from __future__ import annotations

import pytest

from store import census, turns
from tests.store.driver import Driver


def test_few_are_counted_at_once_and_many_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    for at in range(30):
        driver.topic(f"t{at}")
        driver.send(f"t{at}", b"x")
        driver.lease("g", f"t{at}", invisible_ms=600_000)
    known = driver.store.figures()
    assert (known["queues"], known["leases"]) == (30, 30)
    monkeypatch.setattr(census, "EXACT_MAX", 10)
    monkeypatch.setattr(turns, "COST_MAX", 8)
    driver.clock.run_for(12_000)
    known = driver.store.figures()
    assert (known["queues"], known["leases"]) == (30, 30)
    driver.send("t0", b"x")
    driver.topic("new")
    driver.send("new", b"x")
    assert driver.store.figures()["queues"] == 30
    driver.clock.run_for(12_000)
    assert driver.store.figures()["queues"] == 31


def test_a_walk_takes_bounded_steps_and_a_start_begins_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    for at in range(30):
        driver.topic(f"t{at}")
        driver.send(f"t{at}", b"x")
    assert sum(driver.store.parts.census.steps()) == 30
    monkeypatch.setattr(census, "EXACT_MAX", 10)
    assert driver.restarted().store.figures()["queues"] == 30
