"""`headgate set-aside`: what was set aside is listed, and its messages come out as they were sent."""

from __future__ import annotations

import base64
import json
from functools import partial
from pathlib import Path

import pytest

from gateway.node.data_directory import offline
from store.log import batch
from store.offline.set_aside import UnreadableBytes, messages
from tests.gateway.node.running import headgate
from tests.simulation.kit.disk import MemoryDisk
from tests.store.replication.replica_log.pair import Pair, opened, ship


def part(data: bytes, at: int, size: int) -> bytes:
    return data[at : at + size]


def files_of(disk: MemoryDisk, folder: Path) -> Path:
    for name, content in disk.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(content.data))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a leader that was replaced: twelve of its messages are in no other log, in several segments."""
    one = Pair(20)
    ship(one.leader.replica, one.follower)
    cut = one.leader.replica.written
    for number in range(12):
        one.leader.driver.send("orders" if number % 2 else "bills", b"only here %d " % number + b"y" * 600)
    one.leader.driver.store.close()
    disk = one.leader_disk.killed(one.clock)
    old = opened(disk, one.clock)
    done: list[bool] = []
    old.cut(cut, lambda: done.append(True))
    one.clock.run_for(500)
    assert done
    old.close()
    return files_of(disk, tmp_path / "data")


def test_what_was_set_aside_is_listed_and_exported(data: Path) -> None:
    (folder,) = (each.name for each in (data / "set-aside").iterdir())
    done = headgate("set-aside", "list", str(data))
    assert done.returncode == 0, done.stderr
    head, row, following = done.stdout.splitlines()
    assert head.split()[:3] == ["FOLDER", "FILES", "BYTES"]
    assert row.split()[0] == folder
    assert row.split()[-2:] == ["12", "0"]
    assert f"headgate set-aside export {data} FOLDER" in following
    (found,) = json.loads(headgate("set-aside", "list", str(data), "--json").stdout)["folders"]
    assert folder == f"log-{found['begin']}"
    done = headgate("set-aside", "export", str(data), folder)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [base64.b64decode(each["body"]) for each in lines] == [b"only here %d " % each + b"y" * 600 for each in range(12)]
    assert {each["topic"] for each in lines} == {"orders", "bills"}
    orders = [json.loads(line) for line in headgate(
        "set-aside", "export", str(data), f"set-aside/{folder}", "--topic", "orders").stdout.splitlines()]  # fmt: skip
    assert [each["offset"] for each in orders] == list(range(20, 26)), "the offsets at which they were stored"
    assert all(found["begin"] <= each["position"] < found["end"] for each in lines)


def test_check_names_what_was_set_aside(data: Path) -> None:
    said: list[str] = []
    assert offline.check(str(data), False, said.append) == 0
    assert f"headgate set-aside list {data}" in said[-1]
    offline.check(str(data), True, said.append)
    assert json.loads(said[-1])["setAside"] == [each.name for each in (data / "set-aside").iterdir()]


def test_what_is_damaged_in_it_is_passed_and_told(data: Path) -> None:
    (folder,) = (each.name for each in (data / "set-aside").iterdir())
    first = min((data / "set-aside" / folder / "log").iterdir())
    damaged = bytearray(first.read_bytes())
    damaged[batch.HEADER_BYTES + 40] ^= 1
    first.write_bytes(bytes(damaged))
    done = headgate("set-aside", "export", str(data), folder)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 11
    assert "nothing can be read" in done.stderr


@pytest.mark.parametrize(("words", "text"), [
    (("list", "."), "is no data directory"), (("export", "DATA", "log-7"), "has no folder set-aside/log-7: there is log-"),
])  # fmt: skip
def test_what_is_not_there_is_refused_in_words(data: Path, words: tuple[str, ...], text: str) -> None:
    place = data.parent / "empty"
    place.mkdir()
    named = [str(data) if each == "DATA" else str(place) if each == "." else each for each in words]
    done = headgate("set-aside", *named)
    assert done.returncode == 2
    assert text in done.stderr


def test_any_bytes_are_read_without_an_error() -> None:
    for size in (0, 1, 7, 100, 3_000):
        data = bytes(each * 7 % 251 for each in range(size)) + batch.MAGIC_BYTES * 5
        found = list(messages(partial(part, data), 40, len(data)))
        assert found == [UnreadableBytes(40, 40 + len(data))]
