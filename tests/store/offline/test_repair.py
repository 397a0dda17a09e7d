"""Check finds every damage, repair sets it aside, and the node then serves all the rest, with no offset given twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from domain.errors import StoreError
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_request import ReadRequest
from store.log import batch, promise
from store.log.survey import DamageError
from store.offline.check import Check, CheckFinding, Severity
from store.offline.repair import Repair, Repaired
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk, Operation
from tests.simulation.kit.platter import Content
from tests.store import version1
from tests.store.driver import Driver, sure

CONFIG = StoreSettings(
    segment_bytes=4_096, checkpoint_bytes=1 << 30, checkpoint_ms=1 << 40, fresh_incarnation=99, cache_bytes=0
)
"""No checkpoint: every start reads the whole log."""
CHECKPOINTS = StoreSettings(segment_bytes=4_096, checkpoint_bytes=1_000, checkpoint_ms=100, fresh_incarnation=99, cache_bytes=0)
COUNT = 40


def filled(config: StoreSettings = CONFIG) -> Driver:
    """40 messages in two queues of t, each in a batch of its own, all promised."""
    driver = Driver(config)
    driver.topic("t", read_queues=2, write_queues=2)
    for number in range(COUNT):
        driver.send("t", b"%d" % number, queue_id=number % 2, properties=b"KEYS\x01key-%d\x02" % number)
    driver.clock.run_for(3_000)
    assert len(driver.store.parts.segments.all) > 2
    return driver


def copied(driver: Driver) -> MemoryDisk:
    return driver.disk.killed(VirtualClock(driver.clock.wall_ms()))


def started(disk: MemoryDisk, config: StoreSettings = CONFIG) -> Driver:
    driver = Driver(config, disk)
    driver.clock.run_for(50)
    return driver


def check(disk: MemoryDisk) -> list[CheckFinding]:
    before = {name: bytes(content.data) for name, content in disk.files.items()}
    found = Check(disk, lambda part, done, size: None).run()
    assert {name: bytes(content.data) for name, content in disk.files.items()} == before, "a check writes nothing"
    return found


def repair(disk: MemoryDisk, number: int = 1) -> Repaired:
    return Repair(disk, f"r{number}", 100 + number, lambda part, done, size: None).run()


def segments(disk: MemoryDisk) -> list[str]:
    return sorted(name for name in disk.files if name.startswith("log/"))


def bodies(driver: Driver) -> dict[int, dict[int, bytes]]:
    found: dict[int, dict[int, bytes]] = {}
    for queue_id in (0, 1):
        offset, end = driver.bounds("t", queue_id)
        mine = found[queue_id] = {}
        while offset < end:
            result = sure(driver.call(driver.store.log.read, ReadRequest("t", queue_id, offset, 7, 1 << 20)))
            assert result.next_offset > offset, "a reader always gets on"
            for data in result.records:
                record = Record(data)
                assert record.queue_offset not in mine
                mine[record.queue_offset] = record.body
            offset = result.next_offset
    return found


ALL = {queue_id: {number // 2: b"%d" % number for number in range(queue_id, COUNT, 2)} for queue_id in (0, 1)}


def flipped(which: int, at: int) -> Callable[[MemoryDisk], None]:
    def damage(disk: MemoryDisk) -> None:
        name = segments(disk)[which]
        disk.flip(name, at % len(disk.files[name].data))

    return damage


def missing(*which: int) -> Callable[[MemoryDisk], None]:
    def damage(disk: MemoryDisk) -> None:
        for name in [segments(disk)[each] for each in which]:
            del disk.files[name]

    return damage


def shorter(which: int, to: int) -> Callable[[MemoryDisk], None]:
    def damage(disk: MemoryDisk) -> None:
        name = segments(disk)[which]
        disk.files[name] = Content(bytes(disk.files[name].data[:to]))

    return damage


def replaced(which: int, by: int) -> Callable[[MemoryDisk], None]:
    def damage(disk: MemoryDisk) -> None:
        names = segments(disk)
        disk.files[names[which]] = Content(bytes(disk.files[names[by]].data))

    return damage


def everything(disk: MemoryDisk) -> None:
    for name in segments(disk):
        del disk.files[name]


def twice(disk: MemoryDisk) -> None:
    flipped(1, 500)(disk)
    flipped(1, 2_500)(disk)
    missing(2)(disk)


DAMAGES: dict[str, Callable[[MemoryDisk], None]] = {
    "a flipped bit of a header": flipped(1, 20),
    "of a record": flipped(1, 700),
    "of the first batch": flipped(0, 300),
    "at the end of a segment": flipped(1, -3),
    "behind the start of a segment": flipped(2, 72),
    "of the last batch": flipped(-1, -20),
    "the first file missing": missing(0),
    "a file missing": missing(1),
    "two files missing": missing(1, 2),
    "the last file missing": missing(-1),
    "a file emptied": shorter(1, 0),
    "the first file emptied": shorter(0, 0),
    "the last file emptied": shorter(-1, 0),
    "a file cut": shorter(1, 1_777),
    "a file without its filler": shorter(1, -8),
    "the last file cut": shorter(-1, -30),
    "a file replaced": replaced(1, 2),
    "the last file replaced": replaced(-1, 1),
    "all files missing": everything,
    "three damages": twice,
}


@pytest.mark.parametrize("config", [CONFIG, CHECKPOINTS], ids=["no checkpoint", "checkpoints"])
@pytest.mark.parametrize("name", DAMAGES)
def test_after_a_repair_all_outside_the_damage_is_there_and_no_offset_is_given_twice(name: str, config: StoreSettings) -> None:
    whole = filled(config)
    assert check(copied(whole)) == []
    disk = copied(whole)
    DAMAGES[name](disk)
    damaged = [found for found in check(disk) if found.severity is Severity.DAMAGE]
    assert damaged
    assert all(found.records >= 0 and found.cause and found.remedy for found in damaged)
    done = repair(disk)
    assert done.folder == "set-aside/r1"
    assert [found.severity for found in check(disk) if found.severity is not Severity.NOTE] == []
    after = started(disk, config)
    kept = bodies(after)
    lost = 0
    for queue_id in (0, 1):
        assert kept[queue_id].items() <= ALL[queue_id].items(), "never another message at an offset"
        lost += len(ALL[queue_id]) - len(kept[queue_id])
    assert lost <= done.records
    assert after.store.figures()["log_lost_records"] == done.records
    assert lost > 0 or name in ("a file without its filler", "at the end of a segment")
    for queue_id in (0, 1):
        if after.store.metadata.topic("t") is None:
            after.topic("t", read_queues=2, write_queues=2)
        place = after.send("t", b"new", queue_id=queue_id)[0]
        assert place.queue_offset >= COUNT // 2, "not given before"
    for again in (after.killed, after.restarted):
        last = again()
        last.clock.run_for(50)
        now = bodies(last)
        for queue_id in (0, 1):
            assert {offset: body for offset, body in now[queue_id].items() if body != b"new"} == kept[queue_id]
            assert b"new" in now[queue_id].values()


@pytest.mark.parametrize("name", ["of a record", "a file missing", "the last file cut", "three damages"])
def test_a_group_gets_every_message_outside_the_damage_once_and_steps_over_the_rest(name: str) -> None:
    disk = copied(filled())
    DAMAGES[name](disk)
    repair(disk)
    after = started(disk)
    kept = bodies(after)
    got: list[bytes] = []
    for _ in range(200):
        leased = after.lease("g", "t", limit=5, queue_id=-1)
        if not leased.messages:
            break
        got += [Record(each.record).body for each in leased.messages]
        assert after.settle("g", "t", *leased.messages) == [None] * len(leased.messages)
    assert sorted(got) == sorted([*kept[0].values(), *kept[1].values()])
    for queue_id in (0, 1):
        assert after.call(after.store.positions.offset, "g", "t", queue_id) == after.bounds("t", queue_id)[1]


def test_the_records_of_a_damaged_file_are_kept_beside_the_log() -> None:
    disk = copied(filled())
    name = segments(disk)[1]
    flipped(1, 700)(disk)
    before = bytes(disk.files[name].data)
    repair(disk)
    assert bytes(disk.files[f"set-aside/r1/{name}"].data) == before


def test_a_repair_that_dies_at_any_step_is_begun_again() -> None:
    wanted: dict[int, dict[int, bytes]] = {}
    for step in range(200):
        disk = copied(filled())
        twice(disk)
        left = [step]

        def watch(operation: Operation, left: list[int] = left) -> None:
            left[0] -= operation.kind != "read"
            if left[0] < 0:
                raise OSError(5, "Input/output error")

        disk.watch = watch
        try:
            repair(disk)
        except OSError:
            ended = False
        else:
            ended = True
        disk.watch = None
        if not ended:
            if any(found.severity is Severity.DAMAGE for found in check(disk)):
                with pytest.raises(DamageError):
                    Driver(CONFIG, disk.killed(VirtualClock()))
            repair(disk, 2)
        after = started(disk)
        found = bodies(after)
        assert found == (wanted or found), step
        wanted = found
        if ended and left[0] > 0:
            return
    raise AssertionError("the repair does not end")


def test_a_missing_mark_is_made_again() -> None:
    disk = copied(filled())
    for name in [name for name in disk.files if name.startswith("promise/")]:
        del disk.files[name]
    (found,) = check(disk)
    assert (found.severity, found.part) == (Severity.DAMAGE, "promise")
    assert repair(disk).records == 0
    mark = promise.newest(disk)[1]
    assert mark is not None
    assert mark.incarnation == 101
    assert bodies(started(disk)) == ALL


def test_a_bad_part_of_version_1_is_repaired() -> None:
    disk = version1.disk()
    disk.flip(segments(disk)[-1], 60)
    with pytest.raises(StoreError):
        Driver(version1.CONFIG, disk.killed(VirtualClock(version1.WALL_MS)))
    done = repair(disk)
    after = Driver(version1.CONFIG, disk)
    after.clock.run_for(10)
    assert done.records > 0
    assert len(after.bodies("orders", 0)) + len(after.bodies("orders", 1)) >= 178
    assert after.send("orders", b"new", queue_id=1)[0].queue_offset >= 90


@pytest.mark.parametrize("part", ["checkpoint/", "index/", "keys/", "snapshot/"])
def test_damage_to_what_the_log_can_replace_is_found_and_set_aside(part: str) -> None:
    driver = filled(CHECKPOINTS)
    driver.store.parts.checkpointer.begin(True)
    driver.clock.run_for(3_000)
    for at in (0, 11, 60, 200, 333):
        disk = copied(driver)
        name = max(name for name in disk.files if name.startswith(part) and disk.files[name].data)
        disk.flip(name, at % len(disk.files[name].data))
        (found,) = check(disk)
        assert found.severity is Severity.REBUILT
        assert found.file.startswith(part) or part == "snapshot/"
        repair(disk)
        assert check(disk) == []
        assert bodies(started(disk, CHECKPOINTS)) == ALL


def test_an_unsynced_tail_is_a_note() -> None:
    driver = filled()
    driver.disk.hold_syncs = True
    driver.store.log.append([Message("t", b"tail", queue_id=0)], None)
    driver.clock.run_for(600)
    disk = copied(driver)
    name = segments(disk)[-1]
    del disk.files[name].data[-5:]
    (found,) = check(disk)
    assert (found.severity, found.file) == (Severity.NOTE, name)
    assert repair(disk).done == []


def test_a_gap_shorter_than_a_header_is_a_blank() -> None:
    disk = copied(filled())
    shorter(1, -8)(disk)
    (found,) = check(disk)
    assert (found.end - found.begin, found.records) == (batch.FILLER_BYTES, 0)
    repair(disk)
    assert bodies(started(disk)) == ALL
