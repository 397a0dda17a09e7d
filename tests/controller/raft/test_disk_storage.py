"""Storage in files: the same as the naive model after any power failure, and damage that is told."""

from __future__ import annotations

import errno
import os
import random
import struct

import pytest

from controller.raft.configuration import Configuration
from controller.raft.disk_storage import FILES_MAX, FOLDER, RaftDiskStorage
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.persisted import HardState, Persisted, RaftSnapshot, founder
from domain.message.crc32 import crc32
from tests.controller.raft.memory_storage import MemoryStorage
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import Crash, MemoryDisk, Operation

FOUNDERS = founder(frozenset({1, 2, 3}))


def begun(disk: MemoryDisk) -> RaftDiskStorage:
    """Storage of a node that begins a group."""
    storage = RaftDiskStorage(disk)
    assert storage.load() == Persisted()
    storage.put_snapshot(FOUNDERS.snapshot)
    storage.sync()
    return storage


def write(lot: random.Random, storage: RaftDiskStorage, model: MemoryStorage) -> None:
    """Write something to both; neither is synced."""
    known = model.durable
    last = known.entries[-1].index if known.entries else known.snapshot.index
    what = lot.random()
    if what < 0.3:
        hard_state = HardState(lot.randint(1, 9), lot.randint(0, 3))
        storage.put_hard_state(hard_state)
        model.put_hard_state(hard_state)
    if what < 0.9:
        first = lot.randint(known.snapshot.index + 1, last + 1)
        entries = tuple(
            LogEntry(lot.randint(1, 9), index, EntryKind.COMMAND, lot.randbytes(lot.randint(0, 600)))
            for index in range(first, first + lot.randint(1, 4))
        )
        storage.put_entries(entries)
        model.put_entries(entries)
    else:
        index = lot.randint(known.snapshot.index + 1, last + 3)
        there = [entry.term for entry in known.entries if entry.index == index]
        term = there[0] if there and lot.random() < 0.7 else 10
        snapshot = RaftSnapshot(index, term, Configuration(frozenset({1, 4})), lot.randbytes(3000))
        storage.put_snapshot(snapshot)
        model.put_snapshot(snapshot)


@pytest.mark.parametrize("seed", range(60))
def test_a_power_failure_leaves_what_was_synced(seed: int) -> None:
    """At any operation of the disk, over several lives: what is found is the model before the sync under way, or after it."""
    lot = random.Random(seed)
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    storage = begun(disk)
    model = MemoryStorage(FOUNDERS)
    for _ in range(4):
        left = lot.randint(1, 300)

        def watch(operation: Operation) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        disk.watch = watch
        before = model.durable
        try:
            for _ in range(120):
                before = model.durable
                write(lot, storage, model)
                model.sync()
                storage.sync()
        except Crash:
            pass
        else:
            before = model.durable
        clock.run_turn()
        disk = disk.powered_off(clock, chance=lot)
        storage = RaftDiskStorage(disk)
        found = storage.load()
        assert found in (before, model.durable)
        model = MemoryStorage(found)


def test_the_number_of_files_is_bounded() -> None:
    disk = MemoryDisk(VirtualClock())
    storage = begun(disk)
    for term in range(1, 3 * FILES_MAX):
        storage.put_hard_state(HardState(term, 0))
        storage.sync()
        assert len(disk.names(FOLDER)) <= FILES_MAX
    assert RaftDiskStorage(disk).load() == FOUNDERS._replace(hard_state=HardState(3 * FILES_MAX - 1, 0))


def filled(clock: VirtualClock | None = None) -> MemoryDisk:
    """A disk with some files that count."""
    disk = MemoryDisk(clock or VirtualClock())
    storage = begun(disk)
    for index in range(2, 6):
        storage.put_hard_state(HardState(index, 1))
        storage.put_entries((LogEntry(index, index, EntryKind.COMMAND, b"x" * index),))
        storage.sync()
    assert len(disk.names(FOLDER)) == 5
    assert not RaftDiskStorage(disk).load().damage
    return disk


def test_a_flipped_bit_is_damage() -> None:
    disk = filled()
    for name in disk.names(FOLDER):
        path = f"{FOLDER}/{name}"
        for at in range(disk.size(path)):
            disk.flip(path, at, at % 8)
            found = RaftDiskStorage(disk).load()
            assert found == Persisted(damage=found.damage)
            assert path in found.damage
            disk.flip(path, at, at % 8)


def later(records: bytes, version: int = 2) -> bytes:
    """A file as a later version of the format writes it: its CRC covers the version, too."""
    facts = struct.pack(">IQQI", version, 6, 6, len(records))
    return struct.pack(">II", 0x48475246, version) + facts[4:] + struct.pack(">I", crc32(records, crc32(facts))) + records


@pytest.mark.parametrize("version", [2, 3, 1 << 31])
def test_a_later_format_is_no_damage(version: int) -> None:
    disk = filled()
    disk.replace(f"{FOLDER}/{6:020}", later(b"of another form", version))
    found = RaftDiskStorage(disk).load()
    assert found == Persisted(damage=found.damage, is_later=True)
    assert f"has format {version}" in found.damage
    assert "leave the files where they are" in found.damage


@pytest.mark.parametrize(
    "record",
    [
        struct.pack(">BIQQB", 3, 17, 6, 6, 3), struct.pack(">BIQQB", 3, 17, 6, 6, 200), struct.pack(">BI", 4, 0),
        struct.pack(">BIQQQ", 1, 24, 9, 9, 9), struct.pack(">BIQQI", 2, 20, 9, 9, 7),
    ],
    ids=["entry of a third kind", "entry of kind 200", "record of a fourth kind", "longer vote", "other configuration"],
)  # fmt: skip
def test_a_record_of_a_later_version_is_no_damage(record: bytes) -> None:
    disk = filled()
    facts = struct.pack(">QQI", 6, 1, len(record))
    head = struct.pack(">II", 0x48475246, 1) + facts + struct.pack(">I", crc32(record, crc32(facts)))
    disk.replace(f"{FOLDER}/{6:020}", head + record)
    found = RaftDiskStorage(disk).load()
    assert found == Persisted(damage=found.damage, is_later=True)
    assert "a later version has written it" in found.damage


def test_old_files_that_cannot_be_removed_are_removed_later(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    disk = filled(clock)
    storage = RaftDiskStorage(disk)
    storage.load()
    fails = [OSError(errno.EIO, "Input/output error")] * 3

    def watch(operation: Operation) -> None:
        if operation.kind == "remove" and fails:
            raise fails.pop()

    disk.watch = watch
    told: list[OSError | None] = []
    storage.put_snapshot(RaftSnapshot(5, 5, Configuration(frozenset({1}))))
    storage.sync()
    for term in (6, 7):
        storage.put_hard_state(HardState(term, 0))
        storage.flush(told.append)
        clock.run_for(10)
    assert told == [None, None]
    assert len(disk.names(FOLDER)) == 5 + 3
    assert caplog.text.count("cannot be removed") == 1
    storage.put_hard_state(HardState(8, 0))
    storage.sync()
    assert len(disk.names(FOLDER)) == 4
    known = RaftDiskStorage(disk).load()
    assert (known.hard_state.term, known.snapshot.index) == (8, 5)


def test_old_files_of_an_earlier_life_are_removed() -> None:
    disk = filled()
    old = {name: bytes(disk.files[f"{FOLDER}/{name}"].data) for name in disk.names(FOLDER)}
    storage = RaftDiskStorage(disk)
    storage.load()
    storage.put_snapshot(RaftSnapshot(5, 5, Configuration(frozenset({1}))))
    storage.sync()
    for name, data in old.items():
        disk.replace(f"{FOLDER}/{name}", data)
    storage = RaftDiskStorage(disk)
    storage.load()
    storage.put_hard_state(HardState(8, 0))
    storage.sync()
    assert len(disk.names(FOLDER)) == 2


def test_a_missing_or_short_file_is_damage() -> None:
    for place in range(4):
        disk = filled()
        path = f"{FOLDER}/{disk.names(FOLDER)[place]}"
        content = disk.files.pop(path)
        assert RaftDiskStorage(disk).load().damage == f"{path} is missing"
        for size in (0, 10, len(content.data) - 1):
            disk.replace(path, bytes(content.data[:size]))
            assert path in RaftDiskStorage(disk).load().damage


def test_a_file_that_cannot_be_read_is_damage() -> None:
    disk = filled()
    path = f"{FOLDER}/{disk.names(FOLDER)[2]}"
    disk.unreadable.append((path, 0, 1))
    assert "cannot be read" in RaftDiskStorage(disk).load().damage


def test_a_file_in_the_place_of_another_is_damage() -> None:
    disk = filled()
    names = [f"{FOLDER}/{name}" for name in disk.names(FOLDER)]
    disk.replace(names[2], bytes(disk.files[names[1]].data))
    assert names[2] in RaftDiskStorage(disk).load().damage


def test_a_removed_file_that_comes_back_does_not_count() -> None:
    disk = filled()
    old = {name: bytes(disk.files[f"{FOLDER}/{name}"].data) for name in disk.names(FOLDER)}
    storage = RaftDiskStorage(disk)
    storage.load()
    storage.put_snapshot(RaftSnapshot(4, 4, Configuration(frozenset({1}))))
    storage.sync()
    known = RaftDiskStorage(disk).load()
    assert (known.snapshot.index, [entry.index for entry in known.entries], known.hard_state) == (4, [5], HardState(5, 1))
    for name, data in old.items():
        disk.replace(f"{FOLDER}/{name}", data)
    assert RaftDiskStorage(disk).load() == known


def test_an_empty_folder_is_told_from_a_log() -> None:
    disk = MemoryDisk(VirtualClock())
    storage = RaftDiskStorage(disk)
    storage.load()
    assert storage.is_empty
    begun(disk)
    storage = RaftDiskStorage(disk)
    storage.load()
    assert not storage.is_empty


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("at", range(1, 60))
def test_a_write_that_found_no_room_is_written_by_the_next_one(code: int, at: int) -> None:
    """At any operation of the disk, of a new range of files too: nothing is written twice, and nothing is left out."""
    lot = random.Random(at)
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    storage = begun(disk)
    model = MemoryStorage(FOUNDERS)
    left = [at, 3]

    def watch(operation: Operation) -> None:
        left[0] -= 1
        if left[0] < 0 and left[1]:
            left[1] -= 1
            raise OSError(code, os.strerror(code))

    disk.watch = watch
    for _ in range(100):
        write(lot, storage, model)
        model.sync()
        told: list[OSError | None] = []
        while not told or told[-1] is not None:
            storage.flush(told.append)
            clock.run_for(10)
            assert RaftDiskStorage(disk).load().damage == ""
        assert RaftDiskStorage(disk).load() == model.durable
    assert left[1] == 0


def test_a_failed_write_is_an_error() -> None:
    disk = filled()
    storage = RaftDiskStorage(disk)
    known = storage.load()
    storage.put_hard_state(HardState(9, 9))
    disk.capacity = 1
    with pytest.raises(OSError, match="No space"):
        storage.sync()
    assert RaftDiskStorage(disk).load() == known
