"""kill -9 of a real node, again and again, under a load of all protocols: nothing acknowledged is lost.

    make soak                                          200 rounds
    SOAK_KILLS=20 python -m pytest tests/soak

`./test` runs three rounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.record import Record
from gateway.client.client import Client
from tests.interop.node import Node
from tests.simulation.mixed import TOPIC, Mixed
from tests.soak.process import Process
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
KILLS = int(os.environ.get("SOAK_KILLS") or (200 if SOAK else 3))


def records(data: bytes) -> Iterator[Record]:
    """The records of one pull."""
    while data:
        size = int.from_bytes(data[:4], "big")
        yield Record(data[:size])
        data = data[size:]


@pytest.mark.parametrize("durability", ["flushed", "page"])
def test_kills_of_a_process(tmp_path: Path, durability: str) -> None:
    with Node(tmp_path, "--durability", durability) as node:
        net = Process(node, seed=1)
        mixed = Mixed(net, 1 << 30, leases_survive=True)
        mixed.listen()
        net.clock.run_until(lambda: mixed.listener.ready)
        mixed.start()
        for _ in range(KILLS if durability == "flushed" else max(KILLS // 4, 2)):
            net.clock.run_for(net.chance.uniform(100, 900))
            net.kill()
        net.clock.run_for(1_000)
        for poster in mixed.posters:
            poster.left = 0
        net.clock.run_until(lambda: mixed.sent)
        net.clock.run_until(mixed.heard)
        print(f"{len(net.ledger.acknowledged)} acknowledged, {len(net.ledger.sent)} sent, {len(net.ledger.settled)} settled")
        with Client(f"127.0.0.1:{node.port('nameserver')}") as client:
            queues = list(client.route(TOPIC).queues)
            stored = []
            for queue, edges in client.bounds(queues).items():
                replies = client.scan(queue, edges.first, edges.after)
                stored.append([(each.queue_offset, each.body) for reply in replies for each in records(reply.body)])
        mixed.check(stored)
