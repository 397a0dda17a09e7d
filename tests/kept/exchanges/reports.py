"""What a store's node tells its gateways about itself, in the space `node`, and where a follower says it takes gateways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from domain.controller.serving import ServingWord
from gateway.cluster.forwarding.space_copies import SpaceCopies
from gateway.cluster.forwarding.store_report import REASONS, REPLICAS, SPACE, ReportedStore, StoreReport
from protocols.remoting.nodes.calls.octets import DATA, TEXT, Reader
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.replication.dispatch import READERS
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.kept.exchanges.exchange import Exchange, Exchanges, request
from tests.kept.exchanges.replication import FOLLOW, follow

WHY = ["only 3% of the volume is free", "nö"]
WHERE = {1: "10.0.0.1:10911", 2: "[::1]:10911", 3: ""}


class Served:
    """`ServedReplica`."""

    def gates(self) -> Mapping[int, str]:
        """ServedReplica.gates."""
        return WHERE

    def doors(self) -> Mapping[int, str]:
        """ServedReplica.doors."""
        return WHERE

    def serves(self, word: ServingWord | None) -> None:
        """ServedReplica.serves: nothing of it goes to gateways."""


def item_of(key: bytes) -> bytes:
    """The item with a value that a node has reported."""
    two = Two()
    report = StoreReport(two.clock, two.parts.forwarded, lambda: WHY, Served())
    report.start()
    two.clock.run_for(500)
    report.stop()
    for out in two.parts.forwarded._spaces.items():
        reader = Reader(b"".join(out)[1:])
        if (TEXT.get(reader), DATA.get(reader)) == (SPACE, key):
            return b"".join(out)
    raise AssertionError(f"{key!r} is not reported")


def heard(data: bytes) -> Any:
    """What a gateway takes for the reasons, for the replicas, and for where they name the leader."""
    copies, replicas, doors = SpaceCopies(), list[Mapping[int, str]](), list[Mapping[int, str]]()
    copies.complete(Reader(b""))
    known = ReportedStore(copies, lambda: None, replicas.append, doors.append)
    reader = Reader(data)
    assert reader.take(1)[0] == item.VALUE
    copies.value(reader)
    assert not reader.left
    return [list(known.reasons), replicas, *([doors] if doors else [])]


REPORTED: Exchanges = {
    "item: reasons": Exchange(partial(item_of, REASONS), heard),
    "item: replicas": Exchange(partial(item_of, REPLICAS), heard),
    "follow with gates": request(READERS, partial(follow, replace(FOLLOW, run="run-2", gates="10.0.0.2:10911"))),
}
