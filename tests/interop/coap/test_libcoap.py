"""libcoap's `coap-client` against a real node, as a person would use it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.interop.node import Node

COMMAND = next(
    (found for name in ("coap-client", "coap-client-notls", "coap-client-openssl") if (found := shutil.which(name))), ""
)
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not COMMAND, reason="coap-client is not installed (Debian: libcoap3-bin)"),
]


def coap(node: Node, method: str, path: str, *options: str) -> tuple[bytes, str]:
    """The response body and the error text that coap-client printed."""
    url = f"coap://127.0.0.1:{node.port('coap')}{path}"
    done = subprocess.run([COMMAND, "-B", "10", *options, "-m", method, url], capture_output=True, timeout=30, check=False)
    return done.stdout, done.stderr.decode()


def test_put_get_delete(node: Node) -> None:
    assert coap(node, "put", "/mq/field/a", "-e", "21.5", "-t", "text/plain") == (b"", "")
    assert coap(node, "get", "/mq/field/a") == (b"21.5\n", "")
    assert coap(node, "get", "/mq/field/a", "-N") == (b"21.5\n", "")
    assert coap(node, "post", "/mq/field/a", "-e", "22") == (b"", "")
    assert coap(node, "get", "/mq/field/a") == (b"21.5\n", "")
    assert coap(node, "delete", "/mq/field/a") == (b"", "")
    assert "4.04" in coap(node, "get", "/mq/field/a")[1]


@pytest.mark.parametrize("size", [64, 1024])
def test_blocks_both_ways(node: Node, tmp_path: Path, size: int) -> None:
    body = os.urandom(20_000)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(body)
    assert coap(node, "put", "/mq/field/big", "-f", str(source), "-b", str(size)) == (b"", "")
    coap(node, "get", "/mq/field/big", "-o", str(target))
    assert target.read_bytes() == body
    coap(node, "get", "/mq/field/big", "-o", str(target), "-b", str(size))
    assert target.read_bytes() == body


def test_observer_sees_every_message(node: Node) -> None:
    url = f"coap://127.0.0.1:{node.port('coap')}/mq/field/live"
    listening = subprocess.Popen([COMMAND, "-s", "4", "-w", "-m", "get", url], stdout=subprocess.PIPE)
    time.sleep(1)
    for number in range(10):
        coap(node, "post", "/mq/field/live", "-e", f"n{number}")
    heard, _ = listening.communicate(timeout=30)
    assert [line for line in heard.split() if line] == [b"n%d" % number for number in range(10)]


def test_loss_is_repaired_and_nothing_is_stored_twice(node: Node) -> None:
    url = f"coap://127.0.0.1:{node.port('coap')}/mq/field/loss"
    listening = subprocess.Popen([COMMAND, "-s", "14", "-w", "-m", "get", url], stdout=subprocess.PIPE)
    time.sleep(1)
    for number in range(3):
        assert coap(node, "post", "/mq/field/loss", "-e", f"n{number}", "-l", "1") == (b"", "")
    heard, _ = listening.communicate(timeout=40)
    assert [line for line in heard.split() if line] == [b"n0", b"n1", b"n2"]


def test_member_of_a_group_settles_by_its_acknowledgements(node: Node) -> None:
    url = f"coap://127.0.0.1:{node.port('coap')}/mq/work?group=crew"
    for number in range(3):
        coap(node, "post", "/mq/work", "-e", f"n{number}")
    listening = subprocess.Popen([COMMAND, "-s", "6", "-w", "-m", "get", url], stdout=subprocess.PIPE)
    time.sleep(2)
    for number in range(3, 6):
        coap(node, "post", "/mq/work", "-e", f"n{number}")
    heard, _ = listening.communicate(timeout=30)
    assert sorted(line for line in heard.split() if line) == [b"n%d" % number for number in range(6)]
    assert "4.04" in coap(node, "get", "/mq/work?group=crew")[1]  # nothing is left, and nothing leased


def test_unknown_critical_option_and_proxy(node: Node) -> None:
    assert "4.02" in coap(node, "get", "/mq/field/a", "-O", "2049,x")[1]
    assert "4.02" not in coap(node, "get", "/mq/field/a", "-O", "2048,x")[1]


def test_bad_paths(node: Node) -> None:
    for path in ("/mq/field/%2B", "/mq/field/a%23", "/mq/a%2Fb"):
        assert "4.00" in coap(node, "put", path, "-e", "x")[1], path


def test_discovery(node: Node) -> None:
    assert coap(node, "get", "/.well-known/core")[0].startswith(b"</mq>")


def test_acknowledged_value_survives_kill(tmp_path: Path) -> None:
    node = Node(tmp_path).start()
    try:
        coap(node, "put", "/mq/field/kept", "-e", "kept")
        node.kill()
        node.start()
        assert coap(node, "get", "/mq/field/kept") == (b"kept\n", "")
    finally:
        node.stop()
