"""A cluster is upgraded one node at a time, in any order: nodes speak the frames of the version before too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.cluster.cluster import Cluster
from tests.interop.http_api import acknowledge, body_of, call
from tests.interop.node import Node
from tests.patience import until
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
WAIT_S = 60.0
VARIABLE = "HEADGATE_GATEWAY_FRAMES"
ORDERS: list[tuple[str | int, ...]] = [("store", 0, 1), (0, "store", 1), (0, 1, "store")]
CONNECTIONS = "HEADGATE_GATEWAY_CONNECTIONS"


def versions(store: Node) -> list[str]:
    """The versions that gateways came with, one after the other."""
    return [line.rsplit(" ", 1)[1] for line in store.text().splitlines() if "with frames of version" in line]


def round_trip(cluster: Cluster, number: int) -> None:
    """A message that comes by one gateway is received and acknowledged at the other."""
    sender, receiver = cluster.gateways[number % 2], cluster.gateways[(number + 1) % 2]
    body = b"%d" % number
    call(sender, "/v1/topics/upgraded/messages", body)
    [message] = call(receiver, "/v1/groups/g/topics/upgraded:receive?max=16&wait_ms=20000&from=first")["messages"]
    assert body_of(message) == body
    acknowledge(sender, "g", "upgraded", [message["receipt"]])


def renewed(node: Node) -> None:
    """Stop a node and start it with the version of this release."""
    assert node.stop() == 0
    node.environment.pop(VARIABLE, None)
    node.start()


@pytest.mark.parametrize("order", ORDERS if SOAK else ORDERS[1:2], ids=str)
def test_nodes_are_upgraded_one_at_a_time(
    order: tuple[str | int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setenv(CONNECTIONS, "2")
    with Cluster(tmp_path, 2) as cluster:
        round_trip(cluster, 0)
        assert set(versions(cluster.store)) == {"1"}
        for number, what in enumerate(order, 1):
            renewed(cluster.store if what == "store" else cluster.gateways[int(what)])
            until(lambda: all(each.serves() for each in cluster.gateways), WAIT_S)
            round_trip(cluster, 2 * number)
            round_trip(cluster, 2 * number + 1)
        assert versions(cluster.store)[-2:] == ["2", "2"]
