"""Idle lease tables of lite queues: packed into one integer each, without losing positions."""

from __future__ import annotations

import sys

import pytest

from domain.message.record import Record
from domain.store.store_request import PullRequest, ReadRequest
from domain.topic import lite
from store.lease.tables import LeaseTables
from store.opening import housekeeping
from store.settings import StoreSettings
from tests.store.driver import Driver, sure
from tests.store.lease.test_lite_queues import SMALL, driver, lease, notified, send, settle

__all__ = ["driver"]


def tables(driver: Driver) -> LeaseTables:
    return driver.store.parts.ledger.tables


def consume(driver: Driver, name: str) -> list[str]:
    """Lease and settle all messages of a lite topic."""
    leases = lease(driver, name)
    settle(driver, name, leases)
    return notified(leases)


def position(driver: Driver, name: str) -> int:
    found: int = sure(driver.call(driver.store.positions.offset, "g", lite.queue_name("p", name), 0))
    return found


def test_a_table_is_idle_when_all_is_settled_and_live_when_a_message_arrives(driver: Driver) -> None:
    send(driver, "a", "1", "2")
    leases = lease(driver, "a")
    assert (len(tables(driver).live), len(tables(driver))) == (1, 1)
    settle(driver, "a", leases)
    assert (len(tables(driver).live), len(tables(driver)), position(driver, "a")) == (0, 1, 2)
    assert notified(lease(driver, "a")) == []
    assert len(tables(driver).live) == 0
    send(driver, "a", "3")
    again = lease(driver, "a")
    assert notified(again) == ["3"]
    assert again.pop_ms > leases.pop_ms
    assert len(tables(driver).live) == 1
    driver.clock.run_for(60_000)
    assert notified(lease(driver, "a")) == ["3"]


def test_settling_twice_succeeds_while_the_table_is_idle(driver: Driver) -> None:
    send(driver, "a", "1")
    leases = lease(driver, "a")
    settle(driver, "a", leases)
    assert len(tables(driver).live) == 0
    [outcome] = driver.settle("g", lite.queue_name("p", "a"), *leases.messages)
    assert outcome is None
    assert position(driver, "a") == 1


def test_a_commit_or_reset_makes_an_idle_table_live(driver: Driver) -> None:
    send(driver, "a", "1", "2")
    consume(driver, "a")
    queue = lite.queue_name("p", "a")
    assert driver.call(driver.store.positions.commit, "g", [(queue, 0, 1)]) is None
    assert position(driver, "a") == 1
    assert notified(lease(driver, "a")) == ["2"]


@pytest.mark.parametrize("end", ["killed", "powered_off", "restarted"])
def test_idle_tables_survive_the_end_of_the_process(driver: Driver, end: str) -> None:
    for at in range(50):
        send(driver, f"s{at}", "1", "2")
        consume(driver, f"s{at}")
    send(driver, "s7", "3")
    driver.clock.run_for(2_000)
    found: Driver = getattr(driver, end)()
    assert [position(found, f"s{at}") for at in range(50)] == [2] * 50
    assert (len(tables(found).live), len(tables(found))) == (0, 50)
    assert (notified(lease(found, "s7")), notified(lease(found, "s8"))) == (["3"], [])


def test_deleting_a_group_or_topic_removes_idle_tables(driver: Driver) -> None:
    for name in ("a", "b"):
        send(driver, name, "1")
        consume(driver, name)
    driver.call(driver.store.lite_queues.drop, "p", ["a"], ["g"])
    assert len(tables(driver)) == 1
    driver.call(driver.store.positions.drop_group, "g")
    assert len(tables(driver)) == 0
    found = driver.killed()
    assert len(tables(found)) == 0


def test_an_idle_table_costs_at_most_160_bytes() -> None:
    driver = Driver(SMALL)
    driver.topic("p", type="LITE")
    count = 500
    for at in range(0, count, 50):
        names = [f"session-{each:08d}" for each in range(at, at + 50)]
        for name in names:
            send(driver, name, "1")
            consume(driver, name)
    found = tables(driver)
    assert not found.live
    size = 0
    for chunk in found.rows._chunks:
        size += sum(sys.getsizeof(key) for key in chunk.keys)
        size += sum(sys.getsizeof(column) for column in (chunk.keys, chunk.floors, chunk.pops, chunk.bases))
    assert size / count <= 160


def quiet(driver: Driver) -> None:
    """Let the time pass after which a table that has not changed is packed."""
    driver.clock.run_for(32_000)


@pytest.mark.parametrize("end", ["", "killed", "restarted"])
def test_a_quiet_table_of_an_ordinary_queue_is_idle_and_goes_on_where_it_was(end: str) -> None:
    driver = Driver.with_topics("t", config=SMALL)
    driver.send("t", b"1", b"2")
    first = driver.lease("g", "t")
    assert driver.settle("g", "t", *first.messages) == [None, None]
    assert len(tables(driver).live) == 1
    quiet(driver)
    if end:
        driver = getattr(driver, end)()
    assert (len(tables(driver).live), len(tables(driver))) == (0, 1)
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 2
    assert driver.store.outlook.delivered_below("g", "t", 0) == 2
    assert not driver.store.outlook.can_lease("g", "t", -1, False, "")
    driver.send("t", b"3")
    assert driver.store.outlook.can_lease("g", "t", -1, False, "")
    again = driver.lease("g", "t")
    assert [Record(message.record).body for message in again.messages] == [b"3"]
    assert again.pop_ms > first.pop_ms
    assert None not in driver.settle("g", "t", first.messages[0])[1:]


def test_a_table_with_a_lease_or_a_change_since_stays_live() -> None:
    driver = Driver.with_topics("t", "u", config=SMALL)
    for name in ("t", "u"):
        driver.send(name, b"1")
    driver.lease("g", "t", invisible_ms=600_000)
    for _ in range(4):
        driver.clock.run_for(9_000)
        driver.send("u", b"2")
        driver.settle("g", "u", *driver.lease("g", "u").messages)
    assert len(tables(driver).live) == 2


def test_polls_and_pulls_of_an_idle_table_write_nothing() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    driver.send("t", b"1")
    driver.settle("g", "t", *driver.lease("g", "t").messages)
    quiet(driver)
    written = driver.store.parts.commit.end
    assert driver.lease("g", "t").messages == []
    assert not sure(driver.call(driver.store.pulls.pull, PullRequest("g", "m", "", ReadRequest("t", 0, 1, 10, 1_000)))).records
    assert driver.store.parts.commit.end == written
    assert not tables(driver).live


def test_an_idle_table_is_written_again_before_its_segment_is_deleted() -> None:
    config = StoreSettings(
        segment_bytes=8_192, index_segment_bytes=4_096, tail_rows_max=8, checkpoint_bytes=6_000, checkpoint_ms=1_000,
        retention_ms=10_000, retention_check_ms=1_000,
    )  # fmt: skip
    driver = Driver(config)
    for name in ("t", "u"):
        driver.topic(name)
    driver.send("t", b"1")
    driver.settle("g", "t", *driver.lease("g", "t").messages)
    for _ in range(100):
        driver.send("u", b"x" * 500)
        driver.clock.run_for(1_000)
    assert driver.store.parts.retention.deleted > 2
    assert not tables(driver).live
    for found in (driver, driver.killed(), driver.killed_to_its_log()):
        assert found.call(found.store.positions.offset, "g", "t", 0) == 1


def test_deleting_a_topic_removes_its_tables_and_no_others() -> None:
    driver = Driver(SMALL)
    for name in ("t", "t2", "s"):
        driver.topic(name)
        for group in ("a", "b"):
            driver.call(driver.store.positions.commit, group, [(name, 0, 0)])
    quiet(driver)
    driver.call(driver.store.positions.commit, "a", [("t", 0, 0)])
    assert driver.call(driver.store.metadata.delete_topic, "t") is None
    assert sorted(tables(driver).places()) == [("a", "s", 0), ("a", "t2", 0), ("b", "s", 0), ("b", "t2", 0)]


def test_few_tables_are_live_while_very_many_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "RESTLESS_MAX", 100)
    driver = Driver(SMALL)
    driver.topic("t", read_queues=4_000, write_queues=4_000)
    most = 0
    for number in range(0, 4_000, 10):
        driver.store.positions.commit("g", [("t", each, 0) for each in range(number, number + 10)], None)
        driver.clock.run_for(10)
        if number > 1_500:
            most = max(most, len(tables(driver).live))
    assert most <= 4 * 100 + 10, "100 that rest, 100 and 100 that have changed before, and those of one look"
    driver.clock.run_for(30_000)
    assert not tables(driver).live
