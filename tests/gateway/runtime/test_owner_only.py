"""Data directories of before, which everybody on the host could read, are closed, and nothing else is."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.runtime.disk import DataDirectory, is_entry
from gateway.runtime.owner_only import close_to_others, made_folders


@pytest.fixture(autouse=True, params=[0o000, 0o022], ids=["umask 000", "umask 022"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def opened(folder: Path) -> None:
    loop = asyncio.new_event_loop()
    DataDirectory(folder, loop).close()
    loop.close()


def old(folder: Path) -> Path:
    """A data directory as it was made before."""
    for name in ("log/00000000000000000000", "controller/controller/raft/00000000000000000001", "lock"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1\n")
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    return folder


def test_folders_and_files_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    disk = DataDirectory(tmp_path / "a" / "data", loop)
    disk.open("log/0").close()
    disk.replace("promise/0", b"x")
    disk.replace("deep/er/file", b"x")
    disk.rename("deep/er/file", "set-aside/then/file")
    disk.close()
    loop.close()
    made = [tmp_path / "a", *(tmp_path / "a").rglob("*")]
    assert len(made) == 12
    assert {mode(each) for each in made if each.is_dir()} == {0o700}
    assert {mode(each) for each in made if each.is_file()} == {0o600}


def test_a_file_is_closed_from_the_moment_at_which_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a chmod that follows: nobody could be kept from opening it before."""
    monkeypatch.setattr(os, "chmod", None)
    monkeypatch.setattr(os, "fchmod", None)
    test_folders_and_files_are_made_for_their_owner_alone(tmp_path)


def test_a_directory_of_before_is_closed_and_one_line_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = old(tmp_path / "data")
    opened(folder)
    assert {mode(each) & 0o077 for each in (folder, *folder.rglob("*"))} == {0}
    assert (mode(folder), mode(folder / "log"), mode(folder / "lock")) == (0o700, 0o700, 0o600)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == f"{folder}: 8 files and folders were open to others: only their owner has rights now"
    caplog.clear()
    opened(folder)
    assert caplog.records == []


def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(0o755)
    outside.chmod(0o755)
    (outside / "file").write_bytes(b"")
    (outside / "file").chmod(0o644)
    folder = old(tmp_path / "data")
    (folder / "index").symlink_to(outside)
    (folder / "log" / "link").symlink_to(outside / "file")
    os.mkfifo(folder / "log" / "pipe")
    opened(folder)
    assert (mode(outside), mode(outside / "file")) == (0o755, 0o644)
    assert mode(folder / "log") == 0o700


def test_a_folder_that_is_given_as_a_link_is_closed(tmp_path: Path) -> None:
    folder = old(tmp_path / "data")
    (tmp_path / "link").symlink_to(folder)
    opened(tmp_path / "link")
    assert mode(folder) == 0o700


def test_a_folder_with_other_things_stays_and_what_is_ours_in_it_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = old(tmp_path / "home")
    (folder / "letters").mkdir()
    (folder / "letters").chmod(0o755)
    opened(folder)
    assert (mode(folder), mode(folder / "letters")) == (0o755, 0o755)
    assert (mode(folder / "log"), mode(folder / "lock")) == (0o700, 0o600)
    assert "letters" in caplog.text
    caplog.clear()
    opened(folder)
    assert caplog.records == []


@pytest.mark.parametrize("before", [0o755, 0o1777])
def test_a_folder_of_somebody_elses_is_left_as_it_is(tmp_path: Path, before: int) -> None:
    """`--data /tmp`, or a folder that has a `log` of its own: it was never a data directory."""
    folder = tmp_path / "shared"
    (folder / "log").mkdir(parents=True)
    (folder / "log").chmod(0o755)
    if before == 0o755:
        (folder / "letters").write_bytes(b"")
    folder.chmod(before)
    close_to_others(folder, is_entry, False)
    assert mode(folder) == before
    assert mode(folder / "log") == (0o755 if before == 0o755 else 0o700)


def test_an_empty_folder_that_is_given_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    folder.chmod(0o755)
    opened(folder)
    assert mode(folder) == 0o700


def test_what_cannot_be_closed_is_said_with_the_command_to_type(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = old(tmp_path / "data")

    def refuse(handle: int, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    opened(folder)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    text = record.getMessage()
    assert "8 files and folders are open to others" in text
    assert "Operation not permitted" in text
    assert f"chmod -R go= {folder}" in text


def test_folders_above_are_made_closed_too_and_those_that_are_there_stay(tmp_path: Path) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o755)
    assert made_folders(above / "a" / "b") == [above, above / "a"]
    assert [mode(each) for each in (above, above / "a", above / "a" / "b")] == [0o755, 0o700, 0o700]
