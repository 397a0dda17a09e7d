"""The simulated disk fails as its page says: each test shows one of the ways in which real disks lose what was written."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from functools import partial

import pytest

from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import Crash, MemoryDisk, MemoryFile, Operation
from tests.simulation.kit.platter import SECTOR_BYTES

PAGE = 4_096


def synced(clock: VirtualClock, file: MemoryFile) -> OSError | None:
    """Sync, wait, and return the outcome."""
    outcome: list[OSError | None] = []
    file.sync(outcome.append)
    clock.run_until(lambda: bool(outcome))
    return outcome[0]


def three_pages() -> tuple[VirtualClock, MemoryDisk, MemoryFile]:
    """A file with one synced page of a, and un-synced pages of b and c."""
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    file = disk.open("f")
    file.append(b"a" * PAGE)
    assert synced(clock, file) is None
    file.append(b"b" * PAGE)
    file.append(b"c" * PAGE)
    return clock, disk, file


def _create(clock: VirtualClock, disk: MemoryDisk) -> None:
    assert synced(clock, disk.open("new")) is None


def left(disk: MemoryDisk, seed: int) -> bytes:
    """What a power failure leaves of f."""
    return disk.powered_off(VirtualClock(), chance=random.Random(seed)).read_all("f") or b""


def test_a_later_page_may_survive_where_an_earlier_one_does_not() -> None:
    _, disk, _ = three_pages()
    found = [left(disk, seed) for seed in range(200)]
    assert all(data[:PAGE] == b"a" * PAGE for data in found), "what was synced is there"
    assert len({len(data) for data in found}) > 3
    assert any(data[2 * PAGE :] == b"c" * PAGE and b"b" not in data for data in found)
    seconds = [data[PAGE : 2 * PAGE].rstrip(b"\x00") for data in found if len(data) == 3 * PAGE]
    torn = [second for second in seconds if second and set(second) == set(b"b") and len(second) < PAGE]
    assert torn
    assert all(len(second) % SECTOR_BYTES == 0 for second in torn), "a sector is written whole or not at all"
    assert disk.powered_off(VirtualClock()).read_all("f") == b"a" * PAGE
    assert disk.killed(VirtualClock()).read_all("f") == b"a" * PAGE + b"b" * PAGE + b"c" * PAGE


def test_pages_of_a_failed_sync_are_clean_but_lost() -> None:
    clock, disk, file = three_pages()
    disk.fail_syncs = True
    assert synced(clock, file) is not None
    disk.fail_syncs = False
    file.append(b"d" * PAGE)
    assert synced(clock, file) is None
    whole = b"".join(letter * PAGE for letter in (b"a", b"b", b"c", b"d"))
    assert disk.killed(clock).read_all("f") == whole, "the page cache has them, in the next process too"
    holed = whole[:PAGE] + bytes(2 * PAGE) + whole[3 * PAGE :]
    assert disk.killed(clock, evicted=True).read_all("f") == holed
    for after in (disk, disk.killed(clock)):
        assert after.powered_off(clock).read_all("f") == holed


def test_an_append_into_a_lost_sector_makes_that_sector_dirty_again() -> None:
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    file = disk.open("f")
    file.append(b"a" * 700)
    disk.fail_syncs = True
    assert synced(clock, file) is not None
    disk.fail_syncs = False
    file.append(b"b" * 10)
    assert synced(clock, file) is None
    assert disk.powered_off(clock).read_all("f") == bytes(512) + b"a" * 188 + b"b" * 10


def test_an_unsynced_truncation_may_not_have_happened() -> None:
    clock, disk, file = three_pages()
    file.truncate(100)
    found = {left(disk, seed) for seed in range(50)}
    assert found == {b"a" * 100, b"a" * PAGE}
    assert synced(clock, file) is None
    assert {left(disk, seed) for seed in range(50)} == {b"a" * 100}


def test_an_unsynced_unlink_may_not_have_happened() -> None:
    clock, disk, _ = three_pages()
    disk.remove("f")
    assert disk.read_all("f") is None
    assert {left(disk, seed) for seed in range(60)} >= {b"", b"a" * PAGE}
    clock.run_for(2)
    assert {left(disk, seed) for seed in range(60)} == {b""}, "the folder is synced behind it"


@pytest.mark.parametrize("change", ["create", "rename", "replace"])
def test_a_new_name_is_durable_when_its_folder_is_synced(change: str) -> None:
    """A machine that dies before the sync of the folder may have the old names or the new ones, never half of a rename."""
    clock = VirtualClock()
    names: set[tuple[str, ...]] = set()
    for seed in range(40):
        disk = MemoryDisk(clock)
        if change != "create":
            disk.replace("old", b"1")

        def die(operation: Operation) -> None:
            if operation.kind == "folder":
                raise Crash

        disk.watch = die
        calls: dict[str, Callable[[], object]] = {
            "create": partial(_create, clock, disk), "rename": partial(disk.rename, "old", "new"),
            "replace": partial(disk.replace, "old", b"2"),
        }  # fmt: skip
        with pytest.raises(Crash):
            calls[change]()
        with pytest.raises(Crash):
            disk.open("later")
        after = disk.powered_off(clock, chance=random.Random(seed))
        names.add(tuple(f"{name}={bytes(content.data).decode()}" for name, content in sorted(after.files.items())))
    assert names == {"create": {(), ("new=",)}, "rename": {("old=1",), ("new=1",)}, "replace": {("old=1",), ("old=2",)}}[change]


def test_a_watch_fails_any_operation_and_a_failed_append_writes_nothing() -> None:
    clock, disk, file = three_pages()
    seen: list[Operation] = []

    def fail(operation: Operation) -> None:
        seen.append(operation)
        raise OSError(errno.ENOSPC, "No space left on device")

    disk.watch = fail
    for call in (lambda: file.append(b"x"), lambda: disk.open("g"), lambda: file.truncate(0), lambda: disk.remove("f")):
        with pytest.raises(OSError, match="No space"):
            call()
    assert synced(clock, file) is not None
    disk.watch = None
    assert [operation.kind for operation in seen] == ["append", "create", "truncate", "remove", "sync"]
    assert (file.size(), disk.names("")) == (3 * PAGE, ["f"])


def test_reads_fail_or_end_early_where_the_test_says() -> None:
    _, disk, file = three_pages()
    disk.unreadable.append(("f", PAGE, PAGE + 1))
    disk.ends["f"] = 2 * PAGE
    assert file.read(0, PAGE) == b"a" * PAGE
    assert file.read(PAGE + 1, 2 * PAGE) == b"b" * (PAGE - 1)
    with pytest.raises(OSError, match="Input/output"):
        file.read(PAGE - 1, 2)
    with pytest.raises(OSError, match="Input/output"):
        disk.read_all("f")


def test_a_full_disk_takes_writes_again_when_there_is_room() -> None:
    _, disk, file = three_pages()
    disk.capacity = 3 * PAGE
    with pytest.raises(OSError, match="No space"):
        file.append(b"x")
    with pytest.raises(OSError, match="No space"):
        disk.replace("small", b"x")
    disk.capacity = 0
    file.append(b"x")
    assert file.size() == 3 * PAGE + 1


def test_a_slow_write_lets_time_pass_without_a_turn_of_the_loop() -> None:
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    disk.write_ms, disk.stall = 30.0, clock.stall
    ran: list[int] = []
    clock.call_at(10_000_000, lambda: ran.append(clock.monotonic_ns()))
    disk.open("f").append(b"x")
    assert (clock.monotonic_ns(), ran) == (30_000_000, [])
    clock.run_for(0)
    assert ran == [30_000_000]


def test_a_name_that_is_made_durable_later_may_be_the_old_one_after_a_power_failure() -> None:
    clock = VirtualClock()
    disk = MemoryDisk(clock)
    disk.replace("log/0", b"old")
    file = disk.open("log/0.new")
    file.append(b"new")
    assert synced(clock, file) is None
    outcome: list[OSError | None] = []
    disk.rename_soon("log/0.new", "log/0", outcome.append)
    assert (disk.read_all("log/0"), disk.size("log/0.new"), outcome) == (b"new", -1, [])
    assert disk.powered_off(VirtualClock()).read_all("log/0") in (b"old", b"new")
    clock.run_until(lambda: bool(outcome))
    assert outcome == [None]
    assert disk.powered_off(VirtualClock()).read_all("log/0") == b"new"
    with pytest.raises(FileNotFoundError):
        disk.rename_soon("log/0.new", "log/0", outcome.append)
