"""The frame itself: neighbours are answered beside nobody, and each bound can be broken."""

from __future__ import annotations

import pytest

from tests.neighbours.node import Load, SharedNode


def test_neighbours_of_nobody_are_answered_at_once() -> None:
    with SharedNode() as node:
        load = node.run(50)
        load.check()
        assert max(load.waited_ms.values()) < 4


@pytest.mark.parametrize("broken", [Load(calls=1_000_000), Load(grown_bytes=1 << 30), Load(waited_ms={"mqtt": 51.0})])
def test_each_bound_can_be_broken(broken: Load) -> None:
    broken.waited_ms.setdefault("http", 1)
    with pytest.raises(AssertionError):
        broken.check()


def test_memory_that_a_peer_makes_the_node_hold_is_seen() -> None:
    with SharedNode() as node:
        node.run(5)
        half_open = node.connect("http")
        half_open.send(b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: n\r\nContent-Length: 3000000\r\n\r\n" + bytes(2_000_000))
        assert 2_000_000 < node.run(20).grown_bytes < 8_000_000
