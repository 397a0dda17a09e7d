"""A real volume without room, and real clients: the next send is answered within a second with its reason, while a message of
3 MB that was accepted before waits for room."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.replication.chaos.full_disk import SmallVolume

LARGE = bytes(range(256)) * (3_000_000 // 256)
ROOM_BYTES = 1_500_000
"""Less than the large message needs, and more than the bookkeeping of an idle node."""
NO_SHARE = {"HEADGATE_STORE_FREE_RATIO_MIN": "0", "HEADGATE_STORE_PRESSURE_RATIO": "0"}
"""Else the large message may be refused for the share of free room, before a write finds none."""
ANSWER_S = 1.0
STARTS_S = 4.0
"""What mosquitto_pub may take to start and to end: its seconds are those of the process."""
PATIENCE_S = 20.0

pytestmark = pytest.mark.skipif(
    shutil.which("curl") is None or shutil.which("mosquitto_pub") is None, reason="curl and mosquitto-clients are not installed"
)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[SmallVolume]:
    made = SmallVolume(tmp_path / "node" / "data")
    try:
        if made.missing:
            pytest.skip(made.missing)
        yield made
    finally:
        made.close()


def curl(node: Node, path: str, body: bytes, *options: str) -> tuple[str, float, bytes]:
    """(status, seconds as the client counts them, content) of a POST; status 000: no answer within PATIENCE_S."""
    command = [
        "curl", "-s", "-m", str(PATIENCE_S), "-X", "POST", "-H", "Expect:", "--data-binary", "@-",
        "-w", "\n%{http_code} %{time_total}", *options, f"http://127.0.0.1:{node.port('http')}{path}",
    ]  # fmt: skip
    done = subprocess.run(command, input=body, capture_output=True, timeout=2 * PATIENCE_S, check=False)
    content, _, facts = done.stdout.rpartition(b"\n")
    status, seconds = facts.decode().split()
    return status, float(seconds), content


def mosquitto(node: Node, *options: str) -> tuple[int, float, str]:
    """(exit status, seconds, what it said) of mosquitto_pub at QoS 1."""
    command = ["mosquitto_pub", "-p", str(node.port("mqtt")), "-t", "t1/a", "-m", "x", "-q", "1", *options]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    return done.returncode, time.monotonic() - began, done.stderr


@pytest.mark.parametrize("gateway", [False, True], ids=["at the node", "at a gateway"])
def test_the_next_send_is_answered_within_a_second_while_three_megabytes_wait_for_room(
    volume: SmallVolume, tmp_path: Path, gateway: bool
) -> None:
    with Node(tmp_path / "node", environment=NO_SHARE) as store, ExitStack() as more:
        node = store
        if gateway:
            address = f"127.0.0.1:{store.port('remoting')}"
            node = more.enter_context(Node(tmp_path / "gateway", "--roles", "gateway", "--store", address, verb="run"))
        assert curl(node, "/v1/topics/t1/messages", b"the topic is there")[0] == "201"
        volume.fill()
        volume.give(ROOM_BYTES)
        large = subprocess.Popen(
            ["curl", "-s", "-m", "60", "-H", "Expect:", "--data-binary", "@-", "-o", str(tmp_path / "large"),
             "-w", "%{http_code}", f"http://127.0.0.1:{node.port('http')}/v1/topics/t1/messages"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert large.stdin is not None
        large.stdin.write(LARGE)
        large.stdin.close()
        deadline = time.monotonic() + PATIENCE_S
        while "store full" not in store.text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "store full" in store.text()
        event = ("-H", "ce-specversion: 1.0", "-H", "ce-id: 1", "-H", "ce-source: /s", "-H", "ce-type: t")
        for path, body, *options in (
            ("/v1/topics/t1/messages", b"p1"),
            ("/v1/topics/t1/messages", b"p2", "--http2-prior-knowledge"),
            ("/v1/topics/other/messages", b"q1"),
            ("/v1/topics/t1/messages", LARGE),
            ("/v1/topics/t1/messages:batch", b'[{"text":"a"}]', "-H", "Content-Type: application/json"),
            ("/ce/t1", b"e1", "-H", "Content-Type: text/plain", *event),
        ):
            status, seconds, content = curl(node, path, body, *options)
            assert (status, seconds < ANSWER_S) == ("503", True), (path, status, seconds, content)
            assert b"No space left on device" in content
        for version in ("5", "311"):
            code, seconds, said = mosquitto(node, "-V", version)
            assert code != 0, said
            assert seconds < ANSWER_S + STARTS_S, (version, said)
        volume.free()
        assert large.stdout is not None
        assert large.stdout.read() in (b"201", b"504"), "it waited, and was told so after five seconds"
        large.wait(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while curl(node, "/v1/topics/t1/messages", b"goes on")[0] != "201":
            assert time.monotonic() < deadline, store.text()[-3_000:]
            time.sleep(0.2)
        assert mosquitto(node)[0] == 0
