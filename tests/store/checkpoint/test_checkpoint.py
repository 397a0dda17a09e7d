"""Checkpoints: two are kept, none is ahead of the durable log, and damage of one costs time and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from domain.errors import Failure
from domain.message.message import Message
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import StateChange
from domain.store.store_request import ReadRequest
from domain.topic.topic import Durability
from store.checkpoint import points as checkpoints
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver
from tests.store.test_crash import Load, check
from tests.stored_state import value_of

SMALL = StoreSettings(
    segment_bytes=4_096, index_segment_bytes=2_048, tail_rows_max=8, checkpoint_bytes=3_000, checkpoint_ms=1_000, cache_bytes=0
)


def loaded() -> tuple[Driver, Load]:
    """A store with two checkpoints and their snapshots, and a log behind them."""
    driver = Driver.with_topics("t", config=SMALL)
    driver.checkpoint()
    load = Load(driver, "t", 20, seed=3)
    driver.settle("g", "t", *driver.lease("g", "t", limit=3).messages)
    driver.checkpoint()
    driver.store.state.put([StateChange("n", b"0", b"0")], None)
    driver.clock.run_for(20)
    return driver, load


def files(driver: Driver, folder: str) -> list[str]:
    """Paths of the files of a folder, oldest first."""
    return [f"{folder}/{name}" for name in driver.disk.names(folder)]


def blocks_behind_the_snapshot(driver: Driver) -> None:
    """Write blocks of which the table in the snapshot does not know, so that a start reads their heads."""
    for number in range(40):
        driver.topic(f"behind-{number:02}")
        driver.send(f"behind-{number:02}", b"x")
    driver.checkpoint(fresh=False)


def empty(data: bytearray) -> None:
    """The file has lost its content."""
    data.clear()


def flip(data: bytearray) -> None:
    data[len(data) // 2] ^= 1


def torn(data: bytearray) -> None:
    del data[-3:]


DAMAGES = pytest.mark.parametrize("damage", [empty, flip, torn])


@DAMAGES
@pytest.mark.parametrize("folder", ["checkpoint", "snapshot"])
@pytest.mark.parametrize("count", [1, 2])
def test_damage_of_checkpoints_costs_nothing_but_time(folder: str, count: int, damage: Callable[[bytearray], None]) -> None:
    driver, load = loaded()
    assert [len(files(driver, each)) for each in ("checkpoint", "snapshot")] == [2, 2]
    for name in files(driver, folder)[-count:]:
        damage(driver.disk.files[name].data)
    after = driver.killed()
    told = after.notified(StoreEventKind.REBUILT)
    assert [event.file for event in told] == list(reversed(files(driver, "checkpoint")))[:count], "one line each"
    assert all("set aside" in event.cause for event in told)
    assert after.call(after.store.positions.offset, "g", "t", 0) == 3
    check(after, "t", load.acknowledged)
    again = after.killed()
    again.clock.run_for(3_000)
    assert again.notified(StoreEventKind.REBUILT) == []
    assert len(again.bodies("t")) == 21


def test_a_flipped_bit_anywhere_in_the_index_is_never_read_as_a_row() -> None:
    """Damage is seen at the start, or costs its reader an error; in both cases what follows reads everything."""
    driver, load = loaded()
    blocks_behind_the_snapshot(driver)
    seen = {"start": 0, "reader": 0}
    for name in files(driver, "index"):
        for at in range(0, len(driver.disk.files[name].data), 13):
            disk = driver.disk.killed(VirtualClock(driver.clock.wall_ms()))
            disk.files[name].data[at] ^= 1 << at % 8
            after = Driver(SMALL, disk)
            after.clock.run_for(10)
            seen["start"] += len(after.notified(StoreEventKind.REBUILT))
            results = [after.call(after.store.log.read, ReadRequest("t", queue_id, 0, 40, 1 << 20)) for queue_id in (0, 1)]
            if any(isinstance(result, Failure) for result in results):
                seen["reader"] += 1
                after = after.killed()
                assert len(after.notified(StoreEventKind.REBUILT)) == 1
            if at % 5 == 0 or any(isinstance(result, Failure) for result in results):
                check(after, "t", load.acknowledged)
    assert min(seen.values()) > 5, seen


@pytest.mark.parametrize("damage", [empty, torn])
def test_a_short_index_is_built_again_from_the_log(damage: Callable[[bytearray], None]) -> None:
    driver, load = loaded()
    for name in files(driver, "index"):
        after = driver.killed(lambda disk, name=name: damage(disk.files[name].data))  # type: ignore[misc]
        check(after, "t", load.acknowledged)
        assert len(after.notified(StoreEventKind.REBUILT)) <= 1


def test_a_missing_index_file_is_built_again_from_the_log() -> None:
    driver, load = loaded()
    for name in files(driver, "index"):
        after = driver.killed(lambda disk, name=name: disk.remove(name))  # type: ignore[misc]
        (event,) = after.notified(StoreEventKind.REBUILT)
        assert "the whole log is read" in event.cause
        check(after, "t", load.acknowledged)


def test_damaged_rows_cost_their_reader_an_error_and_the_next_start_builds_them_again() -> None:
    driver = Driver.with_topics("t", "u", config=StoreSettings(cache_bytes=0, checkpoint_bytes=3_000, tail_rows_max=8))
    for number in range(40):
        driver.send("t", b"%d" % number)
        driver.send("u", b"%d" % number)
    driver.checkpoint()
    driver.clock.run_for(3_000)
    (name,) = files(driver, "index")
    content = driver.disk.files[name].data
    at = content.rfind(b"\x00\x01t") + 3 + 8
    content[at + 30] ^= 4
    refused = driver.call(driver.store.log.read, ReadRequest("t", 0, 0, 40, 1 << 20))
    assert isinstance(refused, Failure)
    assert "damaged" in refused.text
    assert len(driver.bodies("u")) == 40
    assert len(driver.notified(StoreEventKind.UNREADABLE)) == 1
    after = driver.killed()
    assert len(after.notified(StoreEventKind.REBUILT)) == 1
    after.clock.run_for(10)
    assert after.bodies("t") == [b"%d" % number for number in range(40)]
    assert after.killed().notified(StoreEventKind.REBUILT) == []


@pytest.mark.parametrize("wait_ms", [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6])
def test_a_snapshot_is_never_ahead_of_the_durable_log(wait_ms: float) -> None:
    """A position of messages that a power failure takes away: the group still gets those that have their offsets then."""
    driver = Driver(StoreSettings(durability=Durability.PAGE, flush_interval_ms=1_000_000))
    driver.topic("p", Durability.PAGE)
    driver.send("p", b"a")
    driver.clock.run_for(5)
    published: list[bool] = []
    driver.store.parts.checkpointer.begin(True, lambda: published.append(True))
    driver.clock.run_for(wait_ms)
    driver.send("p", b"b", b"c", b"d")
    driver.settle("g", "p", *driver.lease("g", "p").messages)
    driver.clock.run_until(lambda: bool(published))
    after = driver.powered_off()
    after.clock.run_for(10)
    floor = after.store.parts.ledger.tables.floor(("g", "p", 0))
    assert floor <= after.bounds("p")[1]
    after.send("p", b"1", b"2", b"3", b"4")
    assert len(after.lease("g", "p").messages) >= 4


def test_a_torn_file_is_never_written_again() -> None:
    driver, load = loaded()
    serial = max(int(name) for folder in ("checkpoint", "snapshot") for name in driver.disk.names(folder)) + 1
    for name in (f"checkpoint/{serial:020d}", f"snapshot/{serial:020d}", f"checkpoint/{serial + 1:020d}"):
        driver.disk.open(name).append(b"torn")
    after = driver.killed()
    after.checkpoint()
    last = after.killed()
    assert last.store.figures()["recovered_batches"] <= 1, "the checkpoint is found"
    check(last, "t", load.acknowledged)


def test_the_older_checkpoint_stays_usable_while_retention_deletes() -> None:
    config = StoreSettings(
        segment_bytes=4_096, index_segment_bytes=2_048, tail_rows_max=8, checkpoint_bytes=3_000, checkpoint_ms=1_000,
        retention_ms=20_000, retention_check_ms=1_000, cache_bytes=0,
    )  # fmt: skip
    driver = Driver.with_topics("t", config=config)
    driver.store.state.put([StateChange("n", b"kept", b"x" * 500)], None)
    driver.settle("g", "t", *driver.lease("g", "t").messages)
    generator = random.Random(5)
    for number in range(120):
        driver.send("t", b"%d" % number)
        if number == 60:
            driver.settle("g", "t", *driver.lease("g", "t").messages)
        driver.clock.run_for(generator.choice((100, 1_500)))
    assert driver.store.figures()["retention_segments_deleted_total"] > 2
    first, end = driver.bounds("t")
    assert first > 0
    expected = driver.bodies("t")
    floor = driver.call(driver.store.positions.offset, "g", "t", 0)

    def spoilt(*names: str) -> Driver:
        def spoil(disk: MemoryDisk) -> None:
            for name in names:
                flip(disk.files[name].data)

        return driver.killed(spoil)

    names = files(driver, "checkpoint")
    for after in (spoilt(names[-1]), spoilt(*names), driver.killed_to_its_log()):
        after.clock.run_for(10)
        assert after.bodies("t")[-len(expected) :] == expected
        assert after.bounds("t")[1] == end
        assert value_of(after.store.state, "n", b"kept") == b"x" * 500
        assert after.call(after.store.positions.offset, "g", "t", 0) == floor
        assert after.store.metadata.topic("t") is not None
        assert after.send("t", b"next")[0].queue_offset == end


def test_a_checkpoint_of_an_unknown_form_is_set_aside_and_not_deleted() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    driver.store.log.append([Message("t", b"a", queue_id=0)], None)
    driver.clock.run_for(20)

    def another_form(disk: MemoryDisk) -> None:
        for name in disk.names("checkpoint"):
            disk.remove(f"checkpoint/{name}")
        disk.open("checkpoint/00000000000000000007").append(b"another form")

    after = driver.killed(another_form)
    after.clock.run_for(10)
    assert after.bodies("t") == [b"a"]
    assert after.disk.names("set-aside") == ["checkpoint-00000000000000000007"]
    after.checkpoint()
    assert after.store.parts.checkpointer.last.serial > 7
    assert after.store.parts.checkpointer.older == checkpoints.NONE
