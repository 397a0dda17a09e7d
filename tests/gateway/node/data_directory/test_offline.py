"""`headgate check` and `headgate repair` on real directories: exit status, output, and a directory that is in use."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gateway.runtime.disk import DataDirectory
from tests.gateway.node.running import headgate
from tests.store import version1
from tests.store.driver import Driver


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of three segments, cleanly closed."""
    driver = version1.opened()
    driver.clock.run_for(1_000)
    ended: list[bool] = []
    driver.store.drain(lambda: ended.append(True))
    driver.clock.run_until(lambda: bool(ended))
    return written(driver, tmp_path / "data")


def written(driver: Driver, folder: Path) -> Path:
    for name, content in driver.disk.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(content.data))
    return folder


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def test_a_whole_directory_is_clean(data: Path) -> None:
    done = headgate("check", str(data))
    assert (done.returncode, done.stdout) == (0, f"{data}: nothing is damaged\n")
    done = headgate("repair", str(data))
    assert (done.returncode, done.stdout) == (0, f"{data}: nothing to repair\n")


def test_damage_is_listed_repaired_and_gone(data: Path) -> None:
    name = "log/" + "0" * 20
    flip(data / name, 5_000)
    done = headgate("check", str(data))
    assert done.returncode == 1
    head, row, summary = done.stdout.splitlines()
    assert head.split() == ["SEVERITY", "FILE", "BYTES", "RECORDS", "CAUSE", "REMEDY"]
    assert row.split()[:2] == ["damage", name]
    assert summary.endswith(f"run headgate repair {data}")
    (found,) = json.loads(headgate("check", str(data), "--json").stdout)["findings"]
    assert found["begin"] <= 5_000 < found["end"]
    assert found["records"] > 0
    done = headgate("repair", str(data))
    assert done.returncode == 0, done.stderr
    assert "a gap stands in its place" in done.stdout
    (copy,) = (data / "set-aside").glob(f"*/{name}")
    assert copy.stat().st_size > 0
    done = headgate("check", str(data))
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split()[0] == "note"


def test_damage_to_a_checkpoint_is_no_damage_to_records(data: Path) -> None:
    (path,) = list((data / "checkpoint").iterdir())[-1:]
    flip(path, 12)
    done = headgate("check", str(data))
    assert done.returncode == 1
    assert "rebuilt" in done.stdout
    assert "no record is damaged" in done.stdout
    assert headgate("repair", str(data)).returncode == 0
    assert headgate("check", str(data)).returncode == 0


def test_a_directory_that_is_none_or_in_use_is_refused(data: Path, tmp_path: Path) -> None:
    done = headgate("check", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "is no data directory" in done.stderr
    assert not (tmp_path / "nowhere").exists()
    loop = asyncio.new_event_loop()
    disk = DataDirectory(data, loop)
    try:
        for command in ("check", "repair"):
            done = headgate(command, str(data))
            assert done.returncode == 2
            assert "is in use" in done.stderr
    finally:
        disk.close()
        loop.close()
