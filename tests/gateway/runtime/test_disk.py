"""The disk: whole appends or none, durable names, one owner."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.runtime.disk import DataDirectory


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

    async def wait() -> None:
        hold.set()
        while len(done) < 5:
            await asyncio.sleep(0.001)

    loop.run_until_complete(asyncio.wait_for(wait(), 5))
    assert done == [(None, True)] * 5
    assert len(flushed) <= 2
    file.close()


def test_failed_sync_is_reported(disk: DataDirectory, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(errno.EIO, "broken disk")

    monkeypatch.setattr(os, "fdatasync", fail)
    file = disk.open("log")

    async def wait() -> OSError | None:
        done: asyncio.Future[OSError | None] = loop.create_future()
        file.sync(done.set_result)
        return await asyncio.wait_for(done, 5)

    error = loop.run_until_complete(wait())
    assert error is not None
    assert error.errno == errno.EIO
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
