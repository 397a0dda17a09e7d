"""`headgate up --replicas 3`, as a newcomer calls it: it serves, survives a replica, stops by Ctrl-C and goes on afterwards."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.interop.node import ROOT

START_S = 120.0


def offset() -> int:
    """An offset at which the ports of the gateway and of the replicas are free."""
    for found in range(15_000, 18_000, 61):
        ports = [found + base + step for base in (8080, 8088, 9878, 10911, 10912) for step in (0, 1000, 2000, 3000)]
        held: list[socket.socket] = []
        try:
            held += [socket.create_server(("127.0.0.1", port)) for port in ports]
        except OSError:
            continue
        finally:
            for each in held:
                each.close()
        return found
    raise AssertionError("no ports are free")


@contextmanager
def group(folder: Path, ports: int) -> Iterator[str]:
    """A group that is ready -> what it has printed. It is ended by SIGINT, as by Ctrl-C."""
    log = folder / "up.log"
    command = [sys.executable, "-m", "gateway", "up", "--replicas", "3", "--data", str(folder / "data")]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, "--port-offset", str(ports)], cwd=ROOT, stdout=output, stderr=output)
    try:
        end = time.monotonic() + START_S
        while "Ctrl-C" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield log.read_text()
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait(90)
    assert status == 0, log.read_text()


def send(ports: int, body: str, seconds: float = 60.0) -> None:
    """Send a message; a refusal is repeated, as clients do."""
    end = time.monotonic() + seconds
    while True:
        try:
            url = f"http://127.0.0.1:{8080 + ports}/v1/topics/tried/messages"
            urllib.request.urlopen(urllib.request.Request(url, body.encode()), timeout=15).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def stored(ports: int) -> str:
    """All messages of the topic."""
    texts = []
    for queue in range(8):
        url = f"http://127.0.0.1:{8080 + ports}/v1/topics/tried/queues/{queue}?offset=0&max=32"
        with urllib.request.urlopen(url, timeout=15) as answer:
            texts.append(answer.read().decode())
    return "".join(texts)


def status(ports: int) -> tuple[int, str]:
    """Exit status and output of `headgate cluster status`."""
    command = [sys.executable, "-m", "gateway", "cluster", "status", "--controller", f"127.0.0.1:{9878 + ports + 1000}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return found.returncode, found.stdout + found.stderr


def await_well(ports: int) -> str:
    """Wait until all is well."""
    end = time.monotonic() + START_S
    while True:
        code, text = status(ports)
        if code == 0:
            return text
        assert time.monotonic() < end, text
        time.sleep(1)


def test_one_command_starts_a_group_that_survives_its_leader_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    ports = offset()
    with group(tmp_path, ports) as printed:
        send(ports, "one")
        leader = re.search(r"replica (\d) leads", await_well(ports))
        assert leader is not None
        rows = dict(re.findall(r"replica-(\d)\s+process (\d+)", printed))
        assert len(rows) == 3
        for pid in rows.values():  # the number of a replica need not be the number of its process
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            found = Path(command[command.index(b"--data") + 1].decode()) / "replica-node"
            if found.read_text().split()[1] == leader.group(1):
                subprocess.run(["kill", "-9", pid], check=True)
        send(ports, "two")
        await_well(ports)
        assert "is started again" in (tmp_path / "up.log").read_text()
    assert not [each for each in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _read(each)]
    with group(tmp_path, ports):
        send(ports, "three")
        texts = stored(ports)
    assert all(b64encode(word).decode() in texts for word in (b"one", b"two", b"three"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
