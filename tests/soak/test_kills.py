"""kill -9 of a real node, again and again, under a load of all protocols: nothing acknowledged is lost.

    make soak                                          200 rounds
    SOAK_KILLS=20 SOAK_SEED=3 python -m pytest -s tests/soak

`./test` runs three rounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.message.record import Record
from gateway.client.client import Client
from tests.interop.node import Node
from tests.simulation.mixed import TOPIC, Mixed
from tests.soak.process import Process
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
KILLS = int(os.environ.get("SOAK_KILLS") or (200 if SOAK else 3))
SEED = int(os.environ.get("SOAK_SEED") or 1)
CHECK_EVERY = 10
"""Rounds between two comparisons of what is stored with what was acknowledged."""
LIMIT_S = 600 + 60 * KILLS
"""A round takes 2 s, and up to 20 s on a machine that does much else: 200 rounds outlast the limit of other tests."""


def records(data: bytes) -> Iterator[Record]:
    """The records of one pull."""
    while data:
        size = int.from_bytes(data[:4], "big")
        yield Record(data[:size])
        data = data[size:]


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("durability", ["flushed", "page"])
def test_kills_of_a_process(tmp_path: Path, durability: str) -> None:
    with Node(tmp_path, "--durability", durability) as node:
        net = Process(node, seed=SEED)
        mixed = Mixed(net, 1 << 30, leases_survive=True)
        mixed.listen()
        net.clock.run_until(lambda: mixed.listener.ready)
        mixed.start()
        for number in range(1, 1 + (KILLS if durability == "flushed" else max(KILLS // 4, 2))):
            net.clock.run_for(net.chance.uniform(100, 900))
            net.kill()
            if number % CHECK_EVERY == 0:
                mixed.check(stored(node))
                print(f"{durability}, seed {SEED}: {number} rounds, {notified(net)}", flush=True)
        net.clock.run_for(1_000)
        for poster in mixed.posters:
            poster.left = 0
        net.clock.run_until(lambda: mixed.sent)
        net.clock.run_until(mixed.heard)
        print(f"{durability}, seed {SEED}: the end, {notified(net)}")
        mixed.check(stored(node))


def notified(net: Process) -> str:
    """What the clients were told until now."""
    ledger = net.ledger
    return f"{len(ledger.acknowledged)} acknowledged, {len(ledger.sent)} sent, {len(ledger.settled)} settled"


def stored(node: Node) -> list[list[tuple[int, bytes]]]:
    """(offset, body) of all messages of the topic, by queue."""
    with Client(f"127.0.0.1:{node.port('nameserver')}") as client:
        found = []
        for queue, edges in client.bounds(list(client.route(TOPIC).queues)).items():
            replies = client.scan(queue, edges.first, edges.after)
            found.append([(each.queue_offset, each.body) for reply in replies for each in records(reply.body)])
    return found
