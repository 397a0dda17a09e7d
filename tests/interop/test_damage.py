"""A real node whose flushed data is damaged after kill -9: it refuses to start, names the repair, then serves the rest."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.interop.http_api import body_of, call, receive
from tests.interop.node import Node
from tests.interop.warm import headgate

pytestmark = pytest.mark.interop
COUNT = 60


def post(node: Node, number: int) -> int:
    """Send one message to `orders` by HTTP; its offset."""
    return int(call(node, "/v1/topics/orders/messages", b"order %d" % number)["offset"])


def received(node: Node, group: str) -> set[bytes]:
    """All bodies that a new group of `orders` gets."""
    found: set[bytes] = set()
    while messages := receive(node, group, "orders", 1, 500):
        found |= {*map(body_of, messages)}
    return found


def refused(node: Node) -> str:
    """Start the node, which has to refuse; the last line of its log about its data."""
    with pytest.raises(AssertionError, match="did not become ready"):
        node.start()
    return [line for line in node.text().splitlines() if str(node.data) in line][-1]


def repair(node: Node) -> None:
    """`headgate repair` of the node's data directory."""
    done = headgate("repair", str(node.data))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["emptied", "missing"])
def test_an_emptied_or_missing_log_file_refuses_the_start_until_it_is_repaired(tmp_path: Path, what: str) -> None:
    """All that was acknowledged stood in that file, the topic too: a node that began anew would do so in silence."""
    node = Node(tmp_path)
    with node:
        for number in range(COUNT):
            post(node, number)
        time.sleep(1.2)  # the promise mark follows the last sync within half a second
        node.kill()
        (path,) = (node.data / "log").iterdir()
        if what == "emptied":
            path.write_bytes(b"")
        else:
            path.unlink()
        last = refused(node)
        assert f"log/{path.name}" in last
        assert f"headgate repair {node.data}" in last
        repair(node)
        node.start()
        post(node, COUNT)
        assert received(node, "after") == {b"order %d" % COUNT}
        metrics = node.admin("/metrics")
        (figure,) = [line for line in metrics.splitlines() if line.startswith("headgate_store_log_lost_records ")]
        assert float(figure.split()[1]) >= COUNT


def test_a_flipped_bit_in_flushed_data_refuses_the_start_until_it_is_repaired(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node:
        for number in range(COUNT):
            post(node, number)
        time.sleep(1.2)  # the promise mark follows the last sync within half a second
        node.kill()
        (path,) = [each for each in (node.data / "log").iterdir() if b"order 30" in each.read_bytes()]
        data = bytearray(path.read_bytes())
        data[data.find(b"order 30")] ^= 1
        path.write_bytes(bytes(data))
        last = refused(node)
        assert f"log/{path.name} bytes" in last
        assert f"headgate repair {node.data}" in last
        assert path.read_bytes() == bytes(data), "a refused start changes nothing"
        repair(node)
        node.start()
        got = received(node, "after")
        lost = {b"order %d" % number for number in range(COUNT)} - got
        assert b"order 30" in lost
        assert got <= {b"order %d" % number for number in range(COUNT)}
        metrics = node.admin("/metrics")
        (figure,) = [line for line in metrics.splitlines() if line.startswith("headgate_store_log_lost_records ")]
        assert len(lost) <= float(figure.split()[1])
        post(node, COUNT)
        assert received(node, "later") == got | {b"order %d" % COUNT}
