"""The scrubber finds damage that no reader has met, tells it once, and costs little."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.store.store_event import StoreEventKind
from store.settings import StoreSettings
from tests.store.driver import Driver

CONFIG = StoreSettings(segment_bytes=4_096, fresh_incarnation=99, retention_check_ms=1 << 40)
SECOND_MS = 1_000


def filled(config: StoreSettings = CONFIG, count: int = 30) -> Driver:
    """A store with several segments, all of it flushed, and a first pass of the scrubber that has found nothing."""
    driver = Driver.with_topics("t", config=config)
    for number in range(count):
        driver.send("t", b"%d" % number + b"." * 300)
    driver.clock.run_for(3 * SECOND_MS)
    assert not driver.notified(StoreEventKind.DAMAGED)
    return driver


def flip(driver: Driver, position: int) -> str:
    segment = driver.store.parts.segments.at(position)
    assert segment is not None
    name = f"log/{segment.base:020d}"
    driver.disk.files[name].data[position - segment.base] ^= 4
    return name


def batch_position(driver: Driver, number: int) -> int:
    """A position within the last record of a batch, of those that there are or of the last one."""
    segments = driver.store.parts.segments
    ends = [each.position + each.size for each, _ in segments.walk(segments.first, False)]
    return ends[min(number, len(ends) - 1)] - 40


def pass_by(driver: Driver) -> None:
    driver.clock.run_for((CONFIG.scrub_pass_s + 2) * SECOND_MS)


@pytest.mark.parametrize("number", [0, 13, 29])
def test_a_flipped_bit_is_found_by_the_next_pass_and_told_once(number: int) -> None:
    driver = filled()
    assert driver.store.figures()["log_scrub_passes_total"] == 1
    name = flip(driver, batch_position(driver, number))
    for _ in range(3):
        pass_by(driver)
    (event,) = driver.notified(StoreEventKind.DAMAGED)
    assert event.file == name
    assert "a checksum is wrong" in event.cause
    assert driver.store.figures()["log_damaged_parts"] == 1
    assert driver.store.figures()["log_scrub_passes_total"] >= 3


def test_a_part_that_is_good_again_is_forgotten() -> None:
    driver = filled()
    position = batch_position(driver, 5)
    flip(driver, position)
    pass_by(driver)
    assert driver.store.figures()["log_damaged_parts"] == 1
    flip(driver, position)
    pass_by(driver)
    assert driver.store.figures()["log_damaged_parts"] == 0
    flip(driver, position)
    pass_by(driver)
    assert len(driver.notified(StoreEventKind.DAMAGED)) == 2


def test_a_pass_begins_once_in_an_hour_and_a_second_checks_a_bounded_part() -> None:
    driver = filled(replace(CONFIG, segment_bytes=1 << 20), count=400)
    first = driver.store.figures()["log_scrubbed_bytes_total"]
    assert first <= 5 * (CONFIG.scrub_bytes_min + 4_096)
    driver.clock.run_for(10 * SECOND_MS)
    end = driver.store.parts.segments.end
    assert driver.store.figures()["log_scrubbed_bytes_total"] <= end
    pass_by(driver)
    assert end <= driver.store.figures()["log_scrubbed_bytes_total"] <= 2 * end


def test_zero_days_is_never() -> None:
    driver = filled(replace(CONFIG, scrub_days=0))
    flip(driver, batch_position(driver, 5))
    pass_by(driver)
    assert not driver.notified(StoreEventKind.DAMAGED)
    assert driver.store.figures()["log_scrubbed_bytes_total"] == 0


def test_segments_that_retention_deletes_meanwhile_are_no_damage() -> None:
    driver = filled(replace(CONFIG, retention_ms=60_000, retention_check_ms=1_000, checkpoint_ms=1_000))
    for _ in range(40):
        driver.send("t", b"." * 300)
        driver.clock.run_for(120 * SECOND_MS)
    assert driver.store.figures()["retention_segments_deleted_total"] > 3
    assert driver.store.figures()["log_scrub_passes_total"] > 1
    assert not driver.notified(StoreEventKind.DAMAGED)
