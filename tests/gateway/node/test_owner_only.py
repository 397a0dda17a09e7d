"""Everything that real nodes and tools put on a disk is for its owner alone, whatever the umask is."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.node.node import Node
from gateway.runtime.disk import is_entry
from tests.gateway.node.roles.test_depositions import config_of
from tests.gateway.node.running import config, headgate, until
from tests.interop.node import Node as Process

ROOT = Path(__file__).resolve().parents[3]
EARLY = {"HEADGATE_STORE_CHECKPOINT_MS": "200", "HEADGATE_STORE_CHECKPOINT_BYTES": "1000"}
WAIT_S = 20.0


@pytest.fixture(autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """That of the nodes and tools too: processes inherit it."""
    before = os.umask(getattr(request, "param", 0o000))
    yield
    os.umask(before)


def check_closed(folder: Path) -> list[str]:
    """The names of files below `folder`. Fails when anybody else has a right to one, or to a folder."""
    below = [folder, *folder.rglob("*")]
    modes = {str(each): stat.S_IMODE(each.lstat().st_mode) for each in below}
    wanted = {str(each): 0o700 if each.is_dir() else 0o600 for each in below}
    assert modes == wanted
    return [str(each.relative_to(folder)) for each in below if each.is_file()]


def done(*arguments: str) -> str:
    """What `headgate` says on stderr when it has done its work."""
    ended = headgate(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stderr


def send(node: Process, count: int) -> None:
    for _ in range(count):
        url = f"http://127.0.0.1:{node.port('http')}/v1/topics/t/messages"
        with urllib.request.urlopen(urllib.request.Request(url, b"x" * 500, method="POST"), timeout=WAIT_S) as answer:
            assert answer.status == 201


def shake_hands(port: int) -> None:
    """Have the node make its certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as bare, context.wrap_socket(bare):
        pass


@pytest.mark.parametrize("umask", [0o000, 0o022], indirect=True, ids=["umask 000", "umask 022"])
def test_a_node_its_backups_and_what_is_restored_from_them(tmp_path: Path) -> None:
    backups, restored = tmp_path / "above" / "backups", tmp_path / "new" / "restored"
    with Process(tmp_path / "node", environment=EARLY) as node:
        send(node, 20)
        shake_hands(node.port("mqtts"))
        end = time.monotonic() + WAIT_S
        while not list((node.data / "checkpoint").glob("*")) and time.monotonic() < end:
            time.sleep(0.05)
        done("backup", str(backups), "--admin", f"127.0.0.1:{node.port('admin')}")
    files = check_closed(node.data)
    assert {"lock", "tls/key.pem", "tls/certificate.pem", "tls/lock", "promise/0"} <= set(files)
    assert {"log", "checkpoint", "index", "keys"} <= {name.partition("/")[0] for name in files}, files
    assert all(is_entry(name.partition("/")[0]) for name in files), "a data directory of before is known by these names"
    done("backup", str(backups), "--data", str(node.data), "--keep", "2")
    done("restore", str(backups), "--data", str(restored))
    done("check", str(restored))
    done("repair", str(restored))
    check_closed(tmp_path / "above")
    assert "tls/key.pem" in check_closed(tmp_path / "new" / "restored")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_node_closes_a_data_directory_of_before_and_says_so_once(tmp_path: Path) -> None:
    with Process(tmp_path / "node", environment=EARLY) as node:
        send(node, 3)
    below = [node.data, *node.data.rglob("*")]
    for each in below:
        each.chmod(0o755 if each.is_dir() else 0o644)
    with node:
        send(node, 1)
    check_closed(node.data)
    line = f"{node.data}: {len(below)} files and folders were open to others: only their owner has rights now"
    assert [each for each in node.text().splitlines() if "open to others" in each and "WARNING" in each and line in each]
    with node:
        send(node, 1)
    assert node.text().count("open to others") == 1


def test_backups_of_before_are_closed(tmp_path: Path) -> None:
    with Process(tmp_path / "node") as node:
        send(node, 3)
    done("backup", str(tmp_path / "backups"), "--data", str(node.data))
    for each in (tmp_path / "backups", *(tmp_path / "backups").rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    assert "open to others" in done("backup", str(tmp_path / "backups"), "--data", str(node.data), "--keep", "3")
    check_closed(tmp_path / "backups")


def test_a_controller_and_a_replica_and_their_parts(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node(config_of(tmp_path))
        await node.start()
        await until(lambda: node.snapshot().counters["controller_leads"] == 1)
        await node.stop()

    asyncio.run(run())
    tops = {name.partition("/")[0] for name in check_closed(tmp_path / "data")}
    assert {"controller", "replica"} <= tops
    for part in ("controller", "replica", "."):
        assert [each.name for each in (tmp_path / "data" / part).iterdir() if not is_entry(each.name)] == []


def test_a_gateway_without_a_store_has_its_certificate_for_itself(tmp_path: Path) -> None:
    store = Process(tmp_path / "store")
    with store:
        gateway = Process(
            tmp_path / "gateway", "--roles", "gateway", "--store", f"127.0.0.1:{store.port('remoting')}", verb="run"
        )
        with gateway:
            shake_hands(gateway.port("mqtts"))
    assert {"tls/key.pem", "tls/certificate.pem", "tls/lock"} == set(check_closed(gateway.data))


def test_a_name_server_by_itself(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node(config(tmp_path / "data", roles="nameserver"))
        await node.start()
        await node.stop()

    asyncio.run(run())
    assert "lock" in check_closed(tmp_path / "data")
