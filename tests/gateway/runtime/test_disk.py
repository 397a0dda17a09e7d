"""The disk: whole appends or none, durable names, one owner."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from domain.errors import ConfigError
from domain.ports import File
from gateway.runtime.disk import DataDirectory
from gateway.runtime.spare_descriptors import SPARE


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def disk(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> Iterator[DataDirectory]:
    disk = DataDirectory(tmp_path / "data", loop)
    yield disk
    disk.close()


def sync(loop: asyncio.AbstractEventLoop, file: File) -> OSError | None:
    """Sync a file, and wait for the outcome."""
    done: asyncio.Future[OSError | None] = loop.create_future()
    file.sync(done.set_result)
    return loop.run_until_complete(asyncio.wait_for(done, 5))


def until(loop: asyncio.AbstractEventLoop, holds: Callable[[], bool]) -> None:
    """Run the loop until it holds, at most 5 s."""

    async def wait() -> None:
        while not holds():
            await asyncio.sleep(0.001)

    loop.run_until_complete(asyncio.wait_for(wait(), 5))


def test_appended_bytes_are_read_back_after_opening_again(disk: DataDirectory) -> None:
    file = disk.open("log/00")
    file.append(b"hello ")
    file.append(b"world")
    assert (file.size(), file.read(6, 100), file.read(11, 5)) == (11, b"world", b"")
    file.close()
    again = disk.open("log/00")
    assert again.size() == 11
    again.truncate(5)
    again.append(b"!")
    assert again.read(0, 100) == b"hello!"
    again.close()


def test_short_write_is_continued(disk: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, bytes(data)[:3]))
    file = disk.open("log")
    file.append(b"0123456789")
    monkeypatch.undo()
    assert (file.size(), file.read(0, 100)) == (10, b"0123456789")
    file.close()


def test_torn_write_leaves_nothing(disk: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("log")
    file.append(b"before")
    write = os.write
    calls: list[int] = []

    def torn(handle: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "no space")
        return write(handle, bytes(data)[:4])

    monkeypatch.setattr(os, "write", torn)
    with pytest.raises(OSError, match="no space"):
        file.append(b"0123456789")
    monkeypatch.undo()
    file.append(b"after")
    assert file.read(0, 100) == b"beforeafter"
    assert calls == [10, 6]
    file.close()


def test_a_renamed_file_takes_the_place_of_the_other_and_was_synced_before(
    disk: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        steps.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def noted_replace(old: Path, new: Path) -> None:
        steps.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    disk.replace("log/b", b"old")
    file = disk.open("log/a.new")
    file.append(b"new")
    file.close()
    steps.clear()
    disk.rename("log/a.new", "log/b")
    assert steps == [str(disk.path / "log/a.new"), "rename", str(disk.path / "log")]
    assert (disk.read_all("log/b"), disk.size("log/b"), disk.size("log/a.new")) == (b"new", 3, -1)
    steps.clear()
    disk.rename("log/b", "aside/1/b")
    after = steps[steps.index("rename") + 1 :]
    assert after == [str(disk.path), str(disk.path / "aside"), str(disk.path / "aside/1"), str(disk.path / "log")]
    with pytest.raises(FileNotFoundError):
        disk.rename("log/b", "log/c")


def test_sync_reports_on_the_loop_and_shares_one_flush(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    hold = threading.Event()

    def flush(handle: int) -> None:
        hold.wait(5)
        flushed.append(handle)

    monkeypatch.setattr(os, "fdatasync", flush)
    file = disk.open("log")
    done: list[tuple[OSError | None, bool]] = []
    main = threading.get_ident()
    for _ in range(5):
        file.sync(lambda error: done.append((error, threading.get_ident() == main)))
    hold.set()
    until(loop, lambda: len(done) == 5)
    assert done == [(None, True)] * 5
    assert len(flushed) <= 2
    file.close()


def test_errors_name_the_file(disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken disk")

    disk.replace("state/old", b"1")
    file = disk.open("log/00")
    for name in ("write", "pread", "ftruncate", "fsync", "fdatasync"):
        monkeypatch.setattr(os, name, fail)
    failed = sync(loop, file)
    assert failed is not None
    assert failed.errno == errno.EIO
    found = [failed.filename]
    calls = (
        partial(file.append, b"x"), partial(file.read, 0, 1), partial(file.truncate, 0),
        partial(disk.replace, "state/new", b""), partial(disk.rename, "state/old", "state/new"),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(OSError, match="broken disk") as raised:
            call()
        found.append(raised.value.filename)
    assert found == ["log/00"] * 4 + ["state/new", "state/old"]
    monkeypatch.undo()
    file.close()


def test_replace_is_all_or_nothing(disk: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.replace("state/checkpoint", b"old")

    def fail(source: object, target: object) -> None:
        raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="broken disk"):
        disk.replace("state/checkpoint", b"new")
    monkeypatch.undo()
    assert disk.read_all("state/checkpoint") == b"old"
    assert disk.names("state") == ["checkpoint"]
    disk.replace("state/checkpoint", b"new")
    assert disk.read_all("state/checkpoint") == b"new"


def test_names_are_sorted_and_absent_things_are_harmless(disk: DataDirectory) -> None:
    for name in ("log/2", "log/1", "log/deeper/3"):
        disk.open(name).close()
    assert disk.names("log") == ["1", "2"]
    assert disk.names("nothing") == []
    assert disk.read_all("nothing") is None
    disk.remove("nothing")
    disk.remove("log/1")
    assert disk.names("log") == ["2"]
    assert 0 <= disk.free_ratio() <= 1


@pytest.mark.parametrize(
    ("blocks", "free", "available", "share"), [(252, 222, 60, 60 / 90), (100, 100, 100, 1.0), (100, 5, 0, 0.0), (0, 0, 0, 1.0)]
)
def test_what_is_kept_back_for_root_is_neither_free_nor_used(
    disk: DataDirectory, monkeypatch: pytest.MonkeyPatch, blocks: int, free: int, available: int, share: float
) -> None:
    facts = os.statvfs_result((4096, 4096, blocks, free, available, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: facts)
    assert disk.free_ratio() == pytest.approx(share)


@pytest.mark.parametrize("name", ["../outside", "log/../../outside", "./x"])
def test_names_do_not_lead_out_of_the_folder(disk: DataDirectory, name: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        disk.open(name)


def test_second_owner_is_told_who_the_first_is(disk: DataDirectory, tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib; from gateway.runtime.disk import DataDirectory\n"
        "DataDirectory(pathlib.Path(sys.argv[1]), asyncio.new_event_loop())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert f"is in use by process {os.getpid()}: stop it, or choose another one with --data" in result.stderr


def test_folder_that_cannot_be_made_is_named(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        DataDirectory(tmp_path / "file" / "data", loop)


def test_lock_is_given_back(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(2):
        DataDirectory(tmp_path / "again", loop).close()


def _note(done: list[int], at: int, error: OSError | None) -> None:
    assert error is None
    done.append(at)


def _synced(loop: asyncio.AbstractEventLoop, disk: DataDirectory, name: str) -> None:
    """Open a file, append to it and wait for its sync."""
    file = disk.open(name)
    file.append(b"x")
    assert sync(loop, file) is None
    file.close()


def test_flush_of_the_log_does_not_wait_for_other_files(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    snapshot = disk.open("snapshot/1")
    held = os.stat(disk.path / "snapshot/1").st_ino
    flush = os.fdatasync

    def slow(handle: int) -> None:
        if os.fstat(handle).st_ino == held:
            release.wait(5)
        flush(handle)

    monkeypatch.setattr(os, "fdatasync", slow)
    late: list[OSError | None] = []
    snapshot.sync(late.append)
    _synced(loop, disk, "log/1")
    assert late == []
    release.set()
    until(loop, lambda: bool(late))
    assert late == [None]


def test_a_file_is_reported_before_the_next_one_is_flushed(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, release = threading.Event(), threading.Event()
    files = [disk.open(f"keys/{name}") for name in range(3)]
    inodes = [os.stat(disk.path / f"keys/{name}").st_ino for name in range(3)]

    def flush(handle: int) -> None:
        inode = os.fstat(handle).st_ino
        if inode == inodes[0]:
            begin.wait(5)
        elif inode == inodes[2]:
            release.wait(5)

    monkeypatch.setattr(os, "fdatasync", flush)
    done: list[int] = []
    for at, file in enumerate(files):
        file.sync(partial(_note, done, at))
    begin.set()
    until(loop, lambda: len(done) == 2)
    assert done == [0, 1]
    release.set()
    until(loop, lambda: len(done) == 3)


def test_loop_flushes_no_folder_and_the_first_sync_makes_the_name_durable(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[tuple[str, bool]] = []
    flush, main = os.fsync, threading.get_ident()

    def seen(handle: int) -> None:
        folders.append((os.path.basename(os.readlink(f"/proc/self/fd/{handle}")), threading.get_ident() == main))
        flush(handle)

    monkeypatch.setattr(os, "fsync", seen)
    _synced(loop, disk, "index/1")
    assert folders == [("data", False), ("index", False)]
    _synced(loop, disk, "index/1")
    assert len(folders) == 2


def test_first_sync_makes_the_name_durable_of_a_file_that_a_killed_process_made(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (disk.path / "log").mkdir()
    (disk.path / "log" / "1").touch()
    folders: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: folders.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))))
    _synced(loop, disk, "log/1")
    assert folders == ["log", "data"]
    _synced(loop, disk, "log/1")
    assert len(folders) == 2


def test_failed_flush_of_the_folder_is_reported_and_asked_again(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "broken disk")

    file = disk.open("log/1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert isinstance(sync(loop, file), OSError)
        assert isinstance(sync(loop, file), OSError)
    assert sync(loop, file) is None
    file.close()


def test_deleted_file_is_freed_and_its_folder_flushed_off_the_loop(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _synced(loop, disk, "log/1")
    steps: list[tuple[str, bool]] = []
    close, flush, main = os.close, os.fsync, threading.get_ident()

    def closing(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("log/1 (deleted)"):
            steps.append(("freed", threading.get_ident() == main))
        close(handle)

    def flushing(handle: int) -> None:
        steps.append((os.path.basename(os.readlink(f"/proc/self/fd/{handle}")), threading.get_ident() == main))
        flush(handle)

    monkeypatch.setattr(os, "close", closing)
    monkeypatch.setattr(os, "fsync", flushing)
    disk.remove("log/1")
    assert disk.names("log") == []
    for _ in range(2):  # the same thread: the second sync comes after the file has been freed
        _synced(loop, disk, "keys/1")
    assert [step for step in steps if step[0] in ("freed", "log")] == [("freed", False), ("log", False)]


def test_name_of_a_new_data_directory_is_durable(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: folders.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}"))))
    DataDirectory(tmp_path / "a" / "b", loop).close()
    assert folders == [tmp_path.name, "a"]


def test_a_file_is_replaced_in_the_thread(disk: DataDirectory, loop: asyncio.AbstractEventLoop) -> None:
    told: list[OSError | None] = []
    threads: list[str] = []
    replace = disk.replace

    def noted(name: str, data: bytes) -> None:
        threads.append(threading.current_thread().name)
        replace(name, data)

    disk.replace = noted  # type: ignore[method-assign]
    disk.replace_soon("controller/raft/1", b"first", told.append)
    disk.replace_soon("controller/raft/1", b"second", told.append)
    assert told == []
    until(loop, lambda: len(told) == 2)
    assert told == [None, None]
    assert disk.read_all("controller/raft/1") == b"second"
    assert set(threads) == {"headgate-flush"}
    (disk.path / "a-file").write_bytes(b"")
    disk.replace_soon("a-file/1", b"no folder", told.append)
    until(loop, lambda: len(told) == 3)
    assert isinstance(told[2], OSError)


def test_a_rename_that_is_made_durable_later_shows_at_once_and_no_sync_keeps_the_loop(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    sync = os.fsync

    def fsync(handle: int) -> None:
        threads.append(threading.current_thread())
        sync(handle)

    disk.replace("log/0", b"old")
    disk.replace("log/0.new", b"new")
    monkeypatch.setattr(os, "fsync", fsync)
    outcome: asyncio.Future[OSError | None] = loop.create_future()
    disk.rename_soon("log/0.new", "log/0", outcome.set_result)
    assert (disk.read_all("log/0"), disk.size("log/0.new"), outcome.done()) == (b"new", -1, False)
    assert loop.run_until_complete(asyncio.wait_for(outcome, 30)) is None
    assert threads
    assert threading.current_thread() not in threads

    def failing(_handle: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", failing)
    outcome = loop.create_future()
    disk.rename_soon("log/0", "log/1", outcome.set_result)
    error = loop.run_until_complete(asyncio.wait_for(outcome, 30))
    assert error is not None
    assert error.errno == errno.EIO
    with pytest.raises(FileNotFoundError) as missing:
        disk.rename_soon("log/0", "log/1", outcome.set_result)
    assert missing.value.filename == "log/0"


@contextmanager
def no_descriptor() -> Iterator[None]:
    """No file can be opened by this process, which holds no spare descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))  # all below it are in use
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_that_gets_no_descriptor_is_named_and_not_made(disk: DataDirectory) -> None:
    with no_descriptor(), pytest.raises(OSError, match="log/00") as raised:
        disk.open("log/00")
    assert (raised.value.errno, raised.value.filename) == (errno.EMFILE, "log/00")
    assert disk.size("log/00") == -1


def test_a_sync_that_gets_no_descriptor_for_the_folder_waits_for_one(
    disk: DataDirectory, loop: asyncio.AbstractEventLoop
) -> None:
    """What a failed sync has left is unknown, so the store would stop; but here nothing has failed yet."""
    file = disk.open("log/00")
    file.append(b"x")
    said: list[OSError | None] = []
    with no_descriptor():
        file.sync(said.append)
        loop.run_until_complete(asyncio.sleep(0.3))
        assert said == []
    until(loop, lambda: bool(said))
    assert said == [None]
    file.close()


def test_a_flusher_that_waits_for_a_descriptor_can_be_stopped(tmp_path: Path, loop: asyncio.AbstractEventLoop) -> None:
    disk = DataDirectory(tmp_path / "other", loop)
    file = disk.open("log/00")
    said: list[OSError | None] = []
    with no_descriptor():
        file.sync(said.append)
        disk.close()
    loop.run_until_complete(asyncio.sleep(0))
    (error,) = said
    assert error is not None
    assert error.errno == errno.EMFILE
    file.close()


def test_a_file_is_deleted_without_a_descriptor(disk: DataDirectory, tmp_path: Path) -> None:
    file = disk.open("log/00")
    file.close()
    with no_descriptor():
        disk.remove("log/00")
        disk.remove("log/01")
    assert disk.names("log") == []


def test_what_is_held_for_the_store_opens_its_files_while_there_is_no_other_descriptor(disk: DataDirectory) -> None:
    SPARE.hold(4)
    try:
        with no_descriptor():
            file = disk.open("log/00")
            disk.replace("abort", b"1")
            assert disk.read_all("abort") == b"1"
            assert disk.names("") == ["abort", "lock"]
            disk.rename("abort", "other")
            others = [disk.open("log/01"), disk.open("log/02"), disk.open("log/03")]
            with pytest.raises(OSError, match="log/04"):
                disk.open("log/04")
            for each in (file, *others):
                each.close()
            for number in range(20):
                disk.open(f"log/{number}").close()
    finally:
        SPARE.hold(0)
