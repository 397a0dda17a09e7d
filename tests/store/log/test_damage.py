"""Damage to the log: what was promised is never cut or skipped in silence; an unsynced tail is cut and reported."""

from __future__ import annotations

import pytest

from domain.errors import StoreError
from domain.message.message import Message
from domain.store.store_event import StoreEventKind
from store.log import batch, promise
from store.log.survey import DamageError
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.platter import Content
from tests.store import version1
from tests.store.driver import Driver

CONFIG = StoreSettings(segment_bytes=4_096, checkpoint_bytes=1 << 30, checkpoint_ms=1 << 40, fresh_incarnation=99)
"""No checkpoint: every start reads the whole log."""
CHECKPOINTS = StoreSettings(segment_bytes=4_096, checkpoint_bytes=1_000, checkpoint_ms=100)


def filled(count: int = 30, config: StoreSettings = CONFIG) -> Driver:
    """A store with several segments, all of it flushed and promised."""
    driver = Driver.with_topics("t", config=config)
    for number in range(count):
        driver.send("t", b"%d" % number + b"." * 300)
    driver.clock.run_for(1_000)
    assert len(driver.store.parts.segments.all) > 3 or count < 30
    return driver


def crashed(driver: Driver) -> MemoryDisk:
    return driver.disk.killed(VirtualClock(driver.clock.wall_ms()))


def unmarked() -> tuple[Driver, promise.Promise, int]:
    """A store, its newest mark, and the position of a flushed batch above it that a later batch names as flushed."""
    driver = filled(8)
    marked = promise.newest(driver.disk)[1]
    assert marked is not None
    first = driver.send("t", b"flushed, and not marked")[0].physical_offset
    driver.send("t", b"says so")
    return driver, marked, first


def segments(disk: MemoryDisk) -> list[str]:
    return sorted(name for name in disk.files if name.startswith("log/"))


def refused(driver: Driver, disk: MemoryDisk) -> DamageError:
    """The error of a start, which must change nothing of the log."""
    before = {name: bytes(content.data) for name, content in disk.files.items() if name.startswith("log/")}
    with pytest.raises(DamageError) as found:
        Driver(driver.config, disk)
    after = {name: bytes(content.data) for name, content in disk.files.items() if name.startswith("log/")}
    assert all(after[name] == data for name, data in before.items()), "a refused start leaves the log as it is"
    with pytest.raises(DamageError):
        Driver(driver.config, disk)
    return found.value


def test_a_flipped_bit_anywhere_in_promised_data_refuses_the_start() -> None:
    driver = filled()
    for name in segments(driver.disk):
        size = len(driver.disk.files[name].data)
        for at in (*range(0, min(size, 100), 3), *range(100, size, 211), *range(max(size - 9, 0), size)):
            disk = crashed(driver)
            disk.flip(name, at, at % 8)
            error = refused(driver, disk)
            assert error.file == name, at
            assert name in str(error)
            stretch = error.stretches[0]
            assert stretch.begin - stretch.base <= at < stretch.end - stretch.base, at


def test_the_error_counts_the_records_when_the_header_is_whole() -> None:
    driver = filled(5)
    driver.send("t", *[b"x" * 100] * 7)
    place = driver.send("t", b"behind")[0].physical_offset
    driver.clock.run_for(1_000)
    disk = crashed(driver)
    name = segments(disk)[-1]
    base = int(name[4:])
    disk.flip(name, place - base - batch.HEADER_BYTES - 5)
    stretch = refused(driver, disk).stretches[0]
    assert (stretch.records, stretch.exact, stretch.end) == (7, True, place - batch.HEADER_BYTES)


@pytest.mark.parametrize("config", [CONFIG, CHECKPOINTS], ids=["above", "below"])
@pytest.mark.parametrize("which", [0, 1, -2, -1])
@pytest.mark.parametrize("how", ["missing", "emptied", "shorter", "replaced", "zeros"])
def test_a_segment_that_is_gone_or_another_one_refuses_the_start(config: StoreSettings, which: int, how: str) -> None:
    """Above a checkpoint and below one."""
    driver = filled(config=config)
    driver.clock.run_for(3_000)
    disk = crashed(driver)
    name = segments(disk)[which]
    content = disk.files[name]
    if how == "missing":
        del disk.files[name]
    elif how == "emptied":
        content.data.clear()
    elif how == "shorter":
        del content.data[len(content.data) // 2 :]
    elif how == "replaced":
        disk.files[name] = Content(bytes(disk.files[segments(disk)[2]].data))
    else:
        content.data[:] = bytes(len(content.data))
    assert refused(driver, disk).stretches


def test_an_empty_log_beside_a_mark_refuses_the_start() -> None:
    driver = filled()
    disk = crashed(driver)
    for name in segments(disk):
        del disk.files[name]
    error = refused(driver, disk)
    assert (error.stretches[0].begin, error.stretches[0].end) == (0, driver.store.parts.segments.end)


def test_a_missing_or_damaged_mark_refuses_the_start() -> None:
    driver = filled()
    disk = crashed(driver)
    marks = [name for name in disk.files if name.startswith("promise/")]
    for name in marks:
        disk.files[name].data[:] = b"\xff" * len(disk.files[name].data)
    assert refused(driver, disk).file == "promise/0"
    for name in marks:
        del disk.files[name]
    refused(driver, disk)


def test_a_bad_batch_above_the_mark_is_damage_when_a_later_one_says_that_it_was_flushed() -> None:
    driver, marked, first = unmarked()
    disk = crashed(driver)
    name = segments(disk)[-1]
    assert promise.newest(disk)[1] == marked
    disk.flip(name, first - int(name[4:]) + 10)
    assert refused(driver, disk).stretches[0].begin == first - batch.HEADER_BYTES


def test_the_word_of_another_incarnation_does_not_count() -> None:
    driver, marked, first = unmarked()
    disk = crashed(driver)
    promise.write(disk, marked._replace(incarnation=55))
    name = segments(disk)[-1]
    disk.flip(name, first - int(name[4:]) + 10)
    after = Driver(driver.config, disk)
    assert after.store.figures()["recovered_cut_records"] == 2


def test_an_unsynced_tail_is_cut_and_reported() -> None:
    driver = filled(8)
    end = driver.store.parts.segments.end
    driver.disk.hold_syncs = True
    for number in range(3):
        driver.store.log.append([_message(b"tail %d" % number)], None)
        driver.clock.run_for(600)
    disk = crashed(driver)
    name = segments(disk)[-1]
    disk.flip(name, end - int(name[4:]) + 90)
    after = Driver(driver.config, disk)
    (event,) = after.notified(StoreEventKind.CUT)
    figures = after.store.figures()
    assert event.file == name
    assert figures["recovered_cut_bytes"] == driver.store.parts.segments.end - end > 0
    assert f"{int(figures['recovered_cut_bytes']):,} bytes" in event.cause
    assert after.store.parts.segments.end == end
    assert len(after.bodies("t")) == 8
    after.send("t", b"more")
    assert len(after.killed().bodies("t")) == 9


def test_what_follows_a_bad_batch_of_version_1_refuses_the_start() -> None:
    disk = version1.disk()
    disk.flip(segments(disk)[-1], 60, 2)
    with pytest.raises(StoreError, match="log/" + "0" * 15 + "31629 bytes 0 to"):
        Driver(version1.CONFIG, disk)


def test_a_message_that_looks_like_a_batch_is_not_taken_for_one() -> None:
    driver = filled(8)
    position = driver.store.parts.segments.end
    driver.disk.hold_syncs = True
    inner = position + batch.HEADER_BYTES + 88
    forged = batch.encode([b"x" * 100], inner, 5, 0, batch.Writer(0, 98), 1 << 40)
    old = batch.HEADER_BYTES_V1
    driver.store.log.append([_message(forged), _message(b"\x00" * old)], None)
    driver.clock.run_for(600)
    disk = crashed(driver)
    name = segments(disk)[-1]
    assert disk.files[name].data.find(forged) == inner - int(name[4:])
    disk.flip(name, position - int(name[4:]) + 30)
    after = Driver(driver.config, disk)
    assert len(after.bodies("t")) == 8


def _message(body: bytes) -> Message:
    return Message("t", body, queue_id=0)
