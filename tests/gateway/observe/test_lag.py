"""The lags of groups as the metrics page shows them: in slices, with the time at which they were true."""

from __future__ import annotations

from typing import cast

from domain.message.record import Record
from domain.store.outlook import GroupLag, Outlook
from gateway.observe.lag import COST_MAX, COST_MIN, Lags
from tests.simulation.kit.clock import VirtualClock
from tests.store.driver import Driver


class FakeWalk:
    """A walk over positions that each cost the same."""

    def __init__(self, total: int, asked: list[int], rows: list[GroupLag]) -> None:
        self.total = total
        self.passed = 0
        self.asked = asked
        self.rows = rows
        self.oldest_ns = 0

    def step(self, cost: int) -> bool:
        self.asked.append(cost)
        self.passed = min(self.total, self.passed + cost)
        return self.passed == self.total

    def result(self) -> tuple[list[GroupLag], GroupLag | None]:
        return self.rows, GroupLag("", "", 7, 0)


class FakeOutlook:
    """Walks over so many positions."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.asked: list[int] = []
        self.rows: list[GroupLag] = []

    def lags(self, most: int) -> FakeWalk:
        return FakeWalk(self.total, self.asked, self.rows[:most])


def walking(outlook: object, clock: VirtualClock) -> Lags:
    lags = Lags(cast(Outlook, outlook), clock)
    assert lags.age_s() == -1
    lags.start()
    return lags


def test_the_age_is_that_of_the_oldest_message_and_the_walk_is_repeated() -> None:
    clock, outlook = VirtualClock(), FakeOutlook(1_000)
    now = clock.wall_ms()
    outlook.rows = [GroupLag("g", "t", 6, now - 2_000), GroupLag("h", "t", 0, 0)]
    lags = walking(outlook, clock)
    clock.run_for(200)
    assert [(row.group, row.messages) for row in lags.rows] == [("g", 6), ("h", 0)]
    assert 2.0 <= lags.rows[0].seconds < 2.4
    assert lags.rows[1].seconds == 0
    assert lags.others is not None
    assert (lags.others.messages, lags.others.seconds) == (7, 0)
    outlook.rows = []
    clock.run_for(11_000)
    assert lags.rows == []
    assert lags.age_s() < 11
    lags.stop()
    count = len(outlook.asked)
    clock.run_for(30_000)
    assert len(outlook.asked) == count


def test_slices_are_as_large_as_the_time_of_a_walk_wants_them() -> None:
    """As many positions as slices of the size that they may have can read in time: never more than 15 s old."""
    clock, outlook = VirtualClock(), FakeOutlook(4_000_000)
    lags = walking(outlook, clock)
    clock.run_for(40_000)
    assert max(outlook.asked) == COST_MAX
    ages = []
    for _ in range(300):
        clock.run_for(100)
        ages.append(lags.age_s())
    assert max(ages) <= 15.5
    outlook.total = 100
    clock.run_for(40_000)
    outlook.asked.clear()
    clock.run_for(40_000)
    assert outlook.asked
    assert max(outlook.asked) == COST_MIN


def test_settled_messages_behind_a_held_one_have_no_lag() -> None:
    driver = Driver()
    driver.topic("t")
    driver.send("t", *(b"%d" % number for number in range(10)))
    leased = driver.lease("g", "t", 6).messages

    def lag(store: Driver) -> GroupLag:
        walk = store.store.outlook.lags(10)
        assert walk.step(100)
        [row], others = walk.result()
        assert others is None
        return row

    assert lag(driver).messages == 10, "leased is not settled"
    driver.settle("g", "t", *leased[2:])
    assert lag(driver) == GroupLag("g", "t", 6, Record(leased[0].record).store_ms)
    driver.settle("g", "t", *leased[:2])
    assert lag(driver).messages == 4
    for after in (driver.killed(), driver.restarted()):
        assert lag(after).messages == 4
        assert after.store.outlook.places_after(None, 10) == [("g", "t", 0)]
        assert after.store.outlook.places_after(("g", "t", 0), 10) == []
