"""What is read from the disk is checked the first time: a wrong bit or a short read is an error for its reader."""

from __future__ import annotations

import random

import pytest

from domain.errors import Failure, StoreError
from domain.message.record import Record
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import StateChange
from domain.store.store_request import ReadRequest
from store.log.checked import CheckedRanges
from store.log.damage import SuspectedSegments
from store.settings import StoreSettings
from tests.store import version1
from tests.store.driver import Driver, sure

UNCACHED = StoreSettings(cache_bytes=0, segment_bytes=65_536)


def filled() -> Driver:
    driver = Driver.with_topics("t", config=UNCACHED)
    for number in range(12):
        driver.send("t", b"%d" % number + b"." * 150, properties=b"KEYS\x01k%d\x02" % number)
    return driver


def read_all(driver: Driver) -> list[bytes]:
    found: list[bytes] = []
    for offset in range(12):
        result = driver.call(driver.store.log.read, ReadRequest("t", 0, offset, 1, 1 << 20))
        if not isinstance(result, Failure):
            found += result.records
    return found


@pytest.mark.parametrize("restart", [False, True])
def test_a_flipped_bit_is_never_served_and_costs_one_message(restart: bool) -> None:
    whole = filled()
    if restart:
        whole = whole.restarted()
    right = read_all(filled())
    assert len(right) == 12
    name = "log/" + "0" * 20
    first = Record(right[0]).physical_offset
    for at in range(first, Record(right[-1]).physical_offset, 7):
        driver = filled()
        if restart:
            driver = driver.restarted()
        driver.disk.flip(name, at, at % 8)
        found = read_all(driver)
        assert len(found) == 11, at
        assert all(data in right for data in found), at
        assert driver.notified(StoreEventKind.UNREADABLE)[0].file == name


def test_a_short_read_is_an_error() -> None:
    driver = filled()
    place = driver.send("t", b"last")[0]
    driver.disk.ends["log/" + "0" * 20] = place.physical_offset + 20
    found = driver.call(driver.store.log.read, ReadRequest("t", 0, 12, 1, 1 << 20))
    assert isinstance(found, Failure)


def test_a_flipped_bit_in_a_long_value_is_never_served() -> None:
    driver = Driver(UNCACHED)
    driver.store.state.put([StateChange("latest", b"k", b"v" * 300)], None)
    driver.clock.run_for(600)
    name = "log/" + "0" * 20
    at = driver.disk.files[name].data.find(b"v" * 300)
    driver.disk.flip(name, at + 100)
    found = driver.call(driver.store.state.get, "latest", b"k")
    assert isinstance(found, Failure)
    assert "damaged" in found.text


def test_what_was_checked_is_not_read_twice() -> None:
    driver = filled()
    sure(driver.call(driver.store.log.read, ReadRequest("t", 0, 0, 12, 1 << 20)))
    reads = driver.disk.reads
    sure(driver.call(driver.store.log.read, ReadRequest("t", 0, 0, 12, 1 << 20)))
    assert driver.disk.reads == reads + 1


def test_records_of_version_1_are_checked_too() -> None:
    driver = version1.opened()
    driver.clock.run_for(10)
    name = "log/" + "0" * 20
    result = driver.read("orders", 3, 1)
    position = Record(result.records[0]).physical_offset
    for at in range(position, position + len(result.records[0]), 5):
        driver = version1.opened()
        driver.clock.run_for(10)
        driver.disk.flip(name, at, at % 8)
        assert isinstance(driver.call(driver.store.log.read, ReadRequest("orders", 0, 3, 1, 1 << 20)), Failure)


@pytest.mark.parametrize("seed", range(5))
def test_checks_in_any_order_agree_with_the_batches(seed: int) -> None:
    generator = random.Random(seed)
    driver = filled()
    records = [Record(data) for data in read_all(driver)]
    segments = driver.store.parts.segments
    checked = CheckedRanges(SuspectedSegments(segments))
    name = "log/" + "0" * 20
    bad = generator.randrange(12)
    driver.disk.flip(name, records[bad].physical_offset + 60)
    for _ in range(60):
        first = generator.randrange(12)
        last = generator.randrange(first, min(first + 4, 12))
        begin = records[first].physical_offset + generator.randrange(50)
        end = records[last].physical_offset + 60
        if first <= bad <= last:
            with pytest.raises(StoreError):
                checked.require(begin, end)
        else:
            checked.require(begin, end)
    assert checked.failed > 0 or bad == 11
