"""Lag of groups: exact, in slices, with the time at which it was true."""

from __future__ import annotations

from bisect import bisect_right
from typing import cast

import pytest

from domain.record import Record
from domain.store_ports import Metadata, Outlook
from domain.topic import Group, Topic
from gateway.observe import lag
from gateway.observe.lag import GroupLag, Lags
from tests.store.clock import VirtualClock
from tests.store.driver import Driver

Place = tuple[str, str, int]


class FakeStore:
    """Lags in memory, and how many were asked for in each turn."""

    def __init__(self, lags: dict[Place, tuple[int, int]]) -> None:
        self.lags = lags
        self.places = sorted(lags)
        self.asked: list[int] = []
        self.groups = {group for group, _, _ in lags}

    def places_after(self, place: Place | None, limit: int) -> list[Place]:
        self.asked.append(limit)
        at = 0 if place is None else bisect_right(self.places, place)
        return self.places[at : at + limit]

    def lag(self, group: str, topic: str, queue_id: int) -> tuple[int, int]:
        return self.lags[group, topic, queue_id]

    def topic(self, name: str) -> Topic | None:
        return Topic(name)

    def group(self, name: str) -> Group | None:
        return Group(name) if name in self.groups else None


def walking(store: FakeStore, clock: VirtualClock) -> Lags:
    lags = Lags(cast(Outlook, store), cast(Metadata, store), clock)
    lags.start()
    return lags


def test_lag_is_the_sum_over_queues_and_its_age_that_of_the_oldest_message() -> None:
    clock = VirtualClock()
    now = clock.wall_ms()
    known = {("g", "t", 0): (2, now - 500), ("g", "t", 2): (4, now - 2_000), ("h", "t", 1): (0, 0)}
    store = FakeStore({**known, ("g", "BenchmarkTest", 0): (9, now)})
    lags = walking(store, clock)
    assert lags.age_s() == -1
    clock.run_for(100)
    assert lags.rows == [GroupLag("g", "t", 6, lags.rows[0].seconds), GroupLag("h", "t", 0, 0.0)]
    assert 2.0 <= lags.rows[0].seconds < 2.2
    store.groups.discard("h")
    store.lags["g", "t", 0] = (0, 0)
    clock.run_for(11_000)
    assert [(row.group, row.messages) for row in lags.rows] == [("g", 4)]
    assert lags.age_s() < 11


def test_a_turn_asks_for_few_and_a_walk_over_many_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many positions as turns of the size that they may have can read in time."""
    monkeypatch.setattr(lag, "PLACES_MIN", 1)
    monkeypatch.setattr(lag, "PLACES_MAX", 10)
    clock = VirtualClock()
    store = FakeStore({("g", f"t{number:06}", 0): (1, 1) for number in range(5_000)})
    lags = walking(store, clock)
    clock.run_for(120_000)
    assert max(store.asked) == 10
    ages = []
    for _ in range(300):
        clock.run_for(100)
        ages.append(lags.age_s())
    assert max(ages) <= 15.5
    assert len(lags.rows) == 5_000


def test_settled_messages_behind_a_held_one_have_no_lag() -> None:
    driver = Driver()
    driver.topic("t")
    driver.send("t", *(b"%d" % number for number in range(10)))
    outlook = driver.store.outlook
    leased = driver.lease("g", "t", 6).messages
    assert outlook.places_after(None, 10) == [("g", "t", 0)]
    assert outlook.lag("g", "t", 0)[0] == 10, "leased is not settled"
    driver.settle("g", "t", *leased[2:])
    assert outlook.lag("g", "t", 0) == (6, Record(leased[0].record).store_ms)
    driver.settle("g", "t", *leased[:2])
    assert outlook.lag("g", "t", 0)[0] == 4
    for after in (driver.killed(), driver.restarted()):
        assert after.store.outlook.lag("g", "t", 0)[0] == 4
        assert after.store.outlook.places_after(("g", "t", 0), 10) == []
