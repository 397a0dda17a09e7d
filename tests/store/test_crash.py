"""Crashes at every write, at every byte, and at every sync: no acknowledged message is lost, no partial batch is visible."""

from __future__ import annotations

import random

import pytest

from domain.errors import Failure
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.store.store_ports import StateChange
from domain.topic.topic import Durability
from store.log import promise as promises
from store.log.promise import Promise
from store.log.segment import OPEN_FILES_MAX
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.store.driver import Driver
from tests.stored_state import pairs

SMALL = StoreSettings(
    segment_bytes=4_096, index_segment_bytes=2_048, tail_rows_max=8, checkpoint_bytes=3_000, checkpoint_ms=1_000
)


class Load:
    """Appends of pairs: two messages on two queues and one state change, all or none. `acknowledged`: what was promised."""

    def __init__(self, driver: Driver, topic: str, count: int, seed: int) -> None:
        self.acknowledged: set[int] = set()
        self.refused = 0
        self._driver = driver
        generator = random.Random(seed)
        for number in range(count):
            self._append(topic, number)
            if generator.random() < 0.7:
                driver.clock.run_for(generator.choice((0.0, 0.4, 1.5, 700.0)))
        driver.clock.run_for(50)

    def _append(self, topic: str, number: int) -> None:
        def done(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure):
                self.refused += 1
            else:
                self.acknowledged.add(number)

        body = b"%d" % number
        messages = [Message(topic, body, queue_id=queue_id) for queue_id in (0, 1)]
        self._driver.store.log.append(messages, done, [StateChange("n", body, body)])


def check(after: Driver, topic: str, acknowledged: set[int]) -> None:
    """Every acknowledged pair is readable, and every readable pair is complete, in order, with its state."""
    after.clock.run_for(10)
    one, two = after.bodies(topic, 0), after.bodies(topic, 1)
    assert one == two, "half of a pair"
    numbers = [int(body) for body in one]
    assert numbers == sorted(set(numbers))
    assert acknowledged <= set(numbers)
    assert [key for key, _ in pairs(after.store.state, "n", b"")] == sorted(one)
    assert after.bounds(topic) == (0, len(one))
    place = after.send(topic, b"1000000")[0]
    assert place.queue_offset == len(one)


@pytest.mark.parametrize("durability", [Durability.FLUSHED, Durability.PAGE])
def test_a_write_torn_at_any_byte_leaves_what_was_acknowledged(durability: Durability) -> None:
    config = StoreSettings(segment_bytes=4_096, durability=durability)
    whole = Driver(config)
    whole.topic("t", durability)
    begin = sum(size for _, size in whole.disk.writes)
    Load(whole, "t", 8, seed=1)
    end = sum(size for _, size in whole.disk.writes)
    for torn_at in range(0, end - begin, 7):
        driver = Driver(config)
        driver.topic("t", durability)
        driver.disk.torn_at = torn_at
        load = Load(driver, "t", 8, seed=1)
        assert load.refused + len(load.acknowledged) == 8
        assert driver.store.broken is not None
        check(driver.killed(), "t", load.acknowledged)


def test_every_cut_of_the_tail_is_a_whole_number_of_batches() -> None:
    driver = Driver.with_topics("t")
    load = Load(driver, "t", 3, seed=3)
    name = next(name for name in driver.disk.files if name.startswith("log/"))
    size = len(driver.disk.files[name].data)
    counts: list[int] = []
    for cut in range(size, 0, -1):
        clock = VirtualClock(driver.clock.wall_ms())
        disk = MemoryDisk(clock)
        content = disk.open(name)
        content.append(bytes(driver.disk.files[name].data[:cut]))
        promises.write(disk, Promise(0, 0, driver.store.parts.commit.log.writer.incarnation))
        after = Driver(driver.config, disk, clock)
        after.clock.run_for(10)
        counts.append(len(after.bodies("t")))
        assert after.bodies("t", 0) == after.bodies("t", 1)
    assert counts[0] == len(load.acknowledged) == 3
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


@pytest.mark.parametrize("seed", range(12))
def test_a_kill_at_any_moment_loses_nothing_acknowledged(seed: int) -> None:
    generator = random.Random(seed)
    driver = Driver(SMALL)
    driver.topic("t", generator.choice((Durability.PAGE, Durability.FLUSHED)))
    acknowledged: set[int] = set()
    for life in range(3):
        load = Load(driver, "t", generator.randrange(1, 25), seed=seed * 7 + life)
        if life == 0:
            acknowledged = load.acknowledged
            after = driver.killed()
            check(after, "t", acknowledged)
            driver = driver.killed()
            continue
        bodies = driver.bodies("t")
        driver = generator.choice((driver.killed, driver.restarted))()
        driver.clock.run_for(10)
        assert driver.bodies("t") == bodies


@pytest.mark.parametrize("seed", range(12))
def test_a_power_failure_keeps_what_was_flushed(seed: int) -> None:
    generator = random.Random(seed)
    driver = Driver(SMALL)
    driver.topic("t", Durability.FLUSHED)
    load = Load(driver, "t", 25, seed=seed)
    driver.disk.hold_syncs = True
    driver.store.log.append(
        [Message("t", b"77", queue_id=queue_id) for queue_id in (0, 1)], None, [StateChange("n", b"77", b"77")]
    )
    driver.clock.run_turn()
    check(driver.powered_off(lambda name, synced, written: generator.randint(synced, written)), "t", load.acknowledged)
    check(driver.powered_off(), "t", load.acknowledged)


def test_bytes_after_the_valid_tail_are_not_read_as_batches() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"0")
    name = next(name for name in driver.disk.files if name.startswith("log/"))
    good = bytes(driver.disk.files[name].data)
    for tail in (b"\x00" * 500, b"\xff" * 500, good[-200:], good):
        after = driver.killed(lambda disk, tail=tail: disk.files[name].data.extend(tail))  # type: ignore[misc]
        after.clock.run_for(10)
        assert after.bodies("t") == [b"0"]
        assert after.store.figures()["recovered_cut_bytes"] == len(tail)


def test_a_restart_without_checkpoint_and_index_reads_the_whole_log() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    load = Load(driver, "t", 25, seed=5)
    check(driver.killed_to_its_log(), "t", load.acknowledged)


def test_a_start_reads_the_log_from_the_checkpoint_only() -> None:
    driver = Driver.with_topics("t", config=SMALL)
    load = Load(driver, "t", 40, seed=6)
    driver.clock.run_for(3_000)
    after = driver.killed()
    assert after.store.figures()["recovered_batches"] == 0
    check(after, "t", load.acknowledged)


def test_leases_and_settles_survive_a_kill() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", *[b"%d" % number for number in range(10)])
    leased = driver.lease("g", "t", invisible_ms=5_000)
    driver.settle("g", "t", *leased.messages[2:5], leased.messages[0])
    after = driver.killed()
    assert after.lease("g", "t").messages == [], "all are out or settled"
    assert after.settle("g", "t", leased.messages[1]) == [None], "another process settles what the first one leased"
    assert sure_offset(after) == 5
    after.clock.run_for(5_000)
    again = after.lease("g", "t")
    assert [message.receipt.queue_offset for message in again.messages] == [5, 6, 7, 8, 9]
    assert {message.attempt for message in again.messages} == {2}
    assert again.pop_ms > leased.pop_ms


def test_pop_time_rises_across_restarts_even_when_the_clock_goes_back() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"a", b"b")
    first = driver.lease("g", "t", limit=1)
    after = driver.killed()
    after.clock.step_wall(-3_600_000)
    assert after.lease("g", "t", limit=1).pop_ms > first.pop_ms


def test_store_time_goes_on_after_a_restart_with_the_clock_set_back() -> None:
    driver = Driver.with_topics("t")
    first = driver.send("t", b"a", b"b")[-1]
    for killed in (True, False):
        driver = driver.killed() if killed else driver.restarted()
        driver.clock.step_wall(-3_600_000)
        [second] = driver.send("t", b"c")
        assert second.store_ms >= first.store_ms
        first = second
    times = [Record(each).store_ms for each in driver.read("t").records]
    assert times == sorted(times)
    assert driver.call(driver.store.log.search, "t", 0, first.store_ms + 1, False) == 4, "a search by time finds the end"


def test_a_long_log_keeps_64_files_open_at_most() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(segment_bytes=4_096, cache_bytes=0, tail_rows_max=16))
    for number in range(90):
        driver.send("t", b"%d" % number + bytes(3_000))
        assert driver.store.parts.segments.open_files <= OPEN_FILES_MAX
    for after in (driver, driver.killed()):
        segments = after.store.parts.segments
        assert len(segments.all) > OPEN_FILES_MAX + 20
        for offset in [*range(90), *range(89, -1, -1)]:
            assert after.read("t", offset, limit=1).records
            assert segments.open_files <= OPEN_FILES_MAX
        assert segments.open_files == OPEN_FILES_MAX, "and no fewer: opening costs"


def sure_offset(driver: Driver) -> int:
    offset = driver.call(driver.store.positions.offset, "g", "t", 0)
    assert isinstance(offset, int)
    return offset
