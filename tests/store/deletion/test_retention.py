"""Retention: old segments are deleted, and what is still needed is kept, however old it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from domain.errors import ErrorCode
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_ports import StateChange
from domain.topic.topic import Group
from gateway.runtime.compiled import in_use
from store.deletion import compaction
from store.deletion.compaction import SLICE_CHANGES, Compaction
from store.log.open_batch import Done
from store.log.segment import Segments
from store.log.segment_ends import date_segments
from store.settings import StoreSettings
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.platter import Content
from tests.store.driver import Driver
from tests.stored_state import pairs, value_of

DAY_MS = 86_400_000
MINUTE = StoreSettings(
    retention_ms=60_000, retention_check_ms=1_000, segment_bytes=20_000, checkpoint_ms=5_000, index_segment_bytes=4_096,
    tail_rows_max=16,
)  # fmt: skip


def fill(driver: Driver, topic: str, minutes: int) -> None:
    for _ in range(minutes * 6):
        driver.send(topic, *[b"x" * 900] * 5)
        driver.clock.run_for(10_000)


def test_retention_of_a_minute_and_a_timer_of_a_year() -> None:
    driver = Driver.with_topics("t", "noise", config=MINUTE)
    due = driver.clock.wall_ms() + 365 * DAY_MS
    driver.append([Message("t", b"year", b"KEYS\x01k\x02TIMER_DELIVER_MS\x01%d\x02" % due, queue_id=0)])
    driver.append([Message("t", b"hours", b"DELAY\x0118\x02", queue_id=0)], [StateChange("latest", b"k", b"v")])
    driver.call(driver.store.metadata.put_group, Group("g"))
    driver.send("t", b"old")
    driver.call(driver.store.positions.commit, "g", [("t", 0, 1)])
    fill(driver, "noise", 5)
    assert driver.store.figures()["retention_segments_deleted_total"] > 3
    assert driver.store.figures()["log_bytes"] < 80_000
    driver = driver.killed()
    fill(driver, "noise", 5)
    clock = driver.clock
    for name in [name for name in driver.disk.files if not name.startswith(("log/", "promise/"))]:
        driver.disk.remove(name)
    driver = driver.killed()
    assert clock.wall_ms() < due
    assert value_of(driver.store.state, "latest", b"k") == b"v", "the log alone has all that is needed"
    assert [group.name for group in driver.store.metadata.groups()] == ["g"]
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 1
    assert driver.bounds("t") == (1, 1)
    driver.clock.stall(7_200_000)
    driver.clock.run_for(2_000)
    assert driver.bodies("t") == [b"hours"]
    driver.clock.stall(due - driver.clock.wall_ms() - 1_000)
    driver.clock.run_for(900)
    assert driver.store.figures()["timers"] == 1
    driver.clock.run_for(2_000)
    first, end = driver.bounds("t")
    record = Record(driver.read("t", end - 1).records[0])
    told = b"KEYS\x01k\x02TIMER_DELIVER_MS\x01%d\x02TIMER_OUT_MS\x01%d\x02" % (due, due)
    assert (record.body, record.properties) == (b"year", told)
    assert record.store_ms >= due
    assert end - first <= 2


def test_a_kill_during_retention_neither_loses_nor_repeats_a_timer() -> None:
    driver = Driver.with_topics("t", "noise", config=MINUTE)
    due = driver.clock.wall_ms() + 10 * DAY_MS
    driver.append([Message("t", b"%d" % number, b"TIMER_DELIVER_MS\x01%d\x02" % due, queue_id=0) for number in range(300)])
    fill(driver, "noise", 1)
    for _ in range(60):
        driver.send("noise", *[b"x" * 900] * 5)
        driver.clock.run_for(2_001)
        driver = driver.killed()
    assert driver.store.figures()["log_bytes"] < 300_000
    assert driver.store.figures()["timers"] == 300
    driver.clock.step_wall(10 * DAY_MS)
    driver.clock.run_for(5_000)
    assert sorted(driver.bodies("t")) == sorted(b"%d" % number for number in range(300))


def test_size_bounds_the_log() -> None:
    driver = Driver(StoreSettings(retention_bytes=60_000, segment_bytes=10_000, retention_check_ms=1_000))
    driver.topic("t")
    for _ in range(30):
        driver.send("t", *[b"x" * 900] * 10)
        driver.clock.run_for(2_000)
    assert driver.store.figures()["log_bytes"] < 80_000
    first, end = driver.bounds("t")
    assert first > 200
    assert end == 300
    assert driver.read("t", 0).status == "TOO_SMALL"
    assert driver.read("t", 0).next_offset == first
    assert len(driver.bodies("t")) == end - first
    assert driver.killed().bounds("t") == (first, end)
    assert driver.call(driver.store.log.record_at, 40).code is ErrorCode.MESSAGE_NOT_FOUND


def test_a_queue_emptied_by_retention_continues_at_its_next_offset() -> None:
    driver = Driver.with_topics("t", "noise", config=MINUTE)
    driver.send("t", b"a", b"b", b"c")
    fill(driver, "noise", 6)
    for after in (driver.killed(), driver.powered_off(), driver):
        after.clock.run_for(10)
        assert after.bounds("t") == (3, 3)
        assert after.send("t", b"d")[0].queue_offset == 3
    assert driver.restarted().bounds("t") == (3, 4)


def test_topics_have_a_shorter_or_longer_retention_than_the_store() -> None:
    driver = Driver(MINUTE)
    driver.topic("brief", retention_ms=20_000)
    driver.topic("small", retention_bytes=3_000)
    driver.topic("long", retention_ms=3_600_000)
    driver.topic("noise")
    for topic in ("brief", "small"):
        driver.send(topic, *[b"x" * 900] * 5)
    driver.clock.run_for(25_000)
    assert driver.bounds("brief") == (5, 5)
    assert driver.bounds("small") == (3, 5) or driver.bounds("small") == (2, 5)
    driver.send("long", b"keep")
    fill(driver, "noise", 5)
    assert driver.bodies("long") == [b"keep"]
    driver.clock.stall(3_600_000)
    fill(driver, "noise", 3)
    assert driver.bounds("long") == (1, 1)


@pytest.mark.parametrize("kind", ["NORMAL", "LITE"])
@pytest.mark.parametrize("own", [{"retention_ms": 5_000}, {"retention_bytes": 1}])
def test_a_topic_that_keeps_nothing_assigns_no_offset_twice(kind: str, own: dict[str, Any]) -> None:
    """Trimmed messages are still in the log: a later checkpoint has to hold the next offsets of the queues."""
    driver = Driver(StoreSettings(retention_check_ms=1_000, checkpoint_ms=2_000))
    driver.topic("t", type=kind, **own)
    marks = b"__LITE_TOPIC\x01a\x02INNER_MULTI_DISPATCH\x01%LMQ%$t$a\x02" if kind == "LITE" else b""
    driver.send("t", b"0", b"1", b"2", properties=marks)
    driver.call(driver.store.positions.commit, "g", [("t", 0, 3)])
    driver.clock.run_for(8_000)
    assert driver.bounds("t") == (3, 3)
    for expected, after in enumerate((driver.killed(), driver.powered_off(), driver.restarted())):
        assert after.bounds("t")[1] == 3, expected
        assert after.send("t", b"3", properties=marks)[0].queue_offset == 3
        assert after.call(after.store.positions.offset, "g", "t", 0) == 3
        if kind == "LITE":
            assert after.bounds("%LMQ%$t$a")[1] == 4
            assert after.killed().bounds("%LMQ%$t$a")[1] == 4


def test_the_record_of_a_deleted_topic_is_removed_with_the_last_trace_of_it() -> None:
    driver = Driver.with_topics("noise", config=MINUTE)
    for number in range(5):
        driver.topic(f"t{number}")
        driver.send(f"t{number}", *[b"x"] * 40)
        driver.call(driver.store.metadata.delete_topic, f"t{number}")
    assert len(list(pairs(driver.store.state, "@dropped", b""))) == 5
    assert driver.killed().bounds("t3") == (0, 0)
    fill(driver, "noise", 8)
    assert list(pairs(driver.store.state, "@dropped", b"")) == []
    driver = driver.killed()
    driver.topic("t3")
    assert driver.send("t3", b"new")[0].queue_offset == 0


def test_a_restart_does_not_change_the_age_of_segments_it_has_not_read() -> None:
    driver = Driver(StoreSettings(retention_ms=60_000, segment_bytes=10_000, retention_check_ms=1_000, checkpoint_bytes=5_000))
    driver.topic("t")
    for _ in range(6):
        driver.send("t", *[b"x" * 500] * 20)
    driver.store.parts.checkpointer.begin(True)
    driver.clock.run_for(20_000)
    driver = driver.restarted()
    driver.clock.run_for(30_000)
    assert driver.bounds("t") == (0, 120), "younger than retention"
    driver = driver.restarted()
    driver.clock.run_for(5_000)
    assert driver.bounds("t") == (0, 120)
    driver.clock.run_for(70_000)
    assert driver.bounds("t") == (120, 120)


def test_segments_that_were_not_walked_get_a_date() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(segment_bytes=10_000))
    ends: list[int] = []
    for _ in range(4):
        driver.clock.run_for(60_000)
        ends.append(driver.send("t", *[b"x" * 500] * 20)[-1].store_ms)
    now = driver.clock.wall_ms() + 500_000
    segments = Segments(driver.disk.killed(driver.clock), "log")
    date_segments(segments, now)
    dates = [segment.newest_ms for segment in segments.all]
    assert dates == [*ends, now]


def test_a_topic_made_again_keeps_its_messages_when_the_note_of_its_deletion_is_written_again() -> None:
    """Retention copies that note forward; recovery reads it behind the messages of the new topic of the same name."""
    driver = Driver(StoreSettings(retention_ms=60_000, retention_check_ms=1_000, segment_bytes=20_000, checkpoint_ms=600_000))
    driver.topic("t")
    driver.topic("noise")
    driver.send("t", b"old")
    driver.store.parts.checkpointer.begin(False)
    driver.clock.run_for(100)
    assert driver.call(driver.store.metadata.delete_topic, "t") is None
    driver.topic("t")
    driver.clock.run_for(50_000)
    fill(driver, "noise", 1)
    driver.send("t", b"new")
    driver.clock.run_for(45_000)
    assert driver.store.figures()["retention_segments_deleted_total"] > 0
    assert value_of(driver.store.state, "@dropped", b"t") is not None, "the index still has rows of the old topic"
    assert driver.bodies("t") == [b"new"]
    assert driver.killed().bodies("t") == [b"new"]


def test_state_is_carried_forward_in_slices_while_everything_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SLICE_CHANGES", 10)
    monkeypatch.setattr(compaction, "SLICE_TABLES", 10)
    monkeypatch.setattr(compaction, "SLICE_LOOKS", 50)
    slices: list[int] = []
    journals: list[int] = []
    keep, write = Compaction.keep, MemoryDisk.write

    def noted(self: Compaction, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        slices.append(len(changes))
        keep(self, messages, changes, done)

    def written(self: MemoryDisk, name: str, content: Content, data: bytes) -> None:
        if name.startswith("log/"):
            journals.append(sum(data.count(b"\0%s\0" % group) for group in (b"leasing", b"g")))
        write(self, name, content, data)

    monkeypatch.setattr(Compaction, "keep", noted)
    monkeypatch.setattr(MemoryDisk, "write", written)
    driver = Driver(
        StoreSettings(
            segment_bytes=65_536, retention_ms=60_000, retention_check_ms=1_000, checkpoint_ms=1_000, tail_rows_max=64
        )
    )
    names = [f"t{at}" for at in range(150)]
    for name in names:
        driver.topic(name)
        driver.send(name, b"1")
        driver.call(driver.store.positions.commit, "g", [(name, 0, 1)])
        driver.call(driver.store.state.put, [StateChange("s", name.encode(), b"v")])
        driver.lease("leasing", name, invisible_ms=10_000_000)
    driver.topic("busy")
    while driver.store.parts.retention.deleted < 3:
        driver.send("busy", b"x" * 2_000)
        driver.call(driver.store.positions.commit, "g", [("t3", 0, driver.bounds("busy")[1])])
        driver.call(driver.store.state.put, [StateChange("s", b"t5", b"%d" % driver.bounds("busy")[1])])
        driver.clock.run_for(900)
    most = SLICE_CHANGES if in_use() else 11  # compiled code keeps its own constants
    assert max(slices) <= most
    assert sum(slices) >= 400
    assert max(journals) <= 2 * most, "live lease tables, and others in the same write"
    assert sum(journals) >= 450, "150 positions, 150 leases, and these again"
    end = driver.bounds("busy")[1]
    for found in (driver, driver.killed(), driver.powered_off()):
        positions = {name: found.call(found.store.positions.offset, "g", name, 0) for name in names}
        assert positions == dict.fromkeys(names, 1) | {"t3": end}
        assert {name: value_of(found.store.state, "s", name.encode()) for name in names} == dict.fromkeys(names, b"v") | {
            "t5": b"%d" % end
        }
        assert all(found.bounds(name) == (1, 1) for name in names)
        assert all(found.store.metadata.topic(name) is not None for name in names)
