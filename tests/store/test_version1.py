"""A data directory of batch format version 1 opens, loses nothing, and is appended to."""

from __future__ import annotations

import pytest

from domain.message.record import Record
from domain.store.store_request import KeyQuery
from domain.topic import lite
from tests.store import version1
from tests.store.driver import Driver
from tests.stored_state import pairs, value_of

ORDERS = [[b"order %d" % number for number in range(queue_id, 180, 2)] for queue_id in (0, 1)]
DERIVED = ("checkpoint/", "index/", "keys/", "snapshot/", "abort")


def check(driver: Driver) -> None:
    driver.clock.run_for(10)
    assert driver.bodies("orders", 0) == [*ORDERS[0], b"half-0"]
    assert driver.bodies("orders", 1) == ORDERS[1]
    assert driver.bodies("page") == [b"page %d" % number for number in range(15)]
    assert driver.bodies(lite.queue_name("p", "room")) == [b"lite %d" % life for life in range(3)]
    state = driver.store.state
    assert dict(pairs(state, "session", b"")) == {b"client-%d" % life: b"connected" for life in range(3)}
    assert value_of(state, "latest", b"path") == b"3" * 200
    found = driver.store.log.find
    (record,) = driver.call(found, KeyQuery("orders", "key-7", 0, 1 << 62, 32, 1 << 20, False))
    assert Record(record).body == b"order 7"
    figures = driver.store.figures()
    assert (figures["timers"], figures["transactions_open"], figures["leases"]) == (3, 2, 6)
    assert driver.lease("g", "orders", limit=1, queue_id=0).messages[0].receipt.queue_offset == 30, "30 are leased or settled"
    driver.clock.run_for(3_700_000)
    assert sorted(driver.bodies("later")) == [b"timer 0", b"timer 1", b"timer 2"]


@pytest.mark.parametrize("without", [(), DERIVED])
def test_a_directory_of_version_1_loses_nothing(without: tuple[str, ...]) -> None:
    driver = version1.opened(without)
    check(driver)
