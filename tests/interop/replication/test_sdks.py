"""The leader of a store group is killed under unmodified SDKs: Java (remoting of two versions, gRPC), Go (both), Python, Node.

They are at a gateway, or at the leader: by remoting through a name server apart, at which replicas register, by gRPC with the
addresses of all replicas.
Producers and consumers go on; transactions are ended or checked back; timers are on time, never early. The scenes are those of
`tests/interop/test_kill.py`. `make soak` runs all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.test_go import client as grpc_go
from tests.interop.killed_clients import Programmes, make_topics, results, running
from tests.interop.node import Node
from tests.interop.remoting.java import PROJECT, JavaClient, build
from tests.interop.remoting.test_go import client as remoting_go
from tests.interop.replication.group import StoreGroupNodes, registering_at
from tests.interop.workshop import CLIENTS, node_scripts
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
__all__ = ["grpc_go", "remoting_go"]
SCENES: Final = {
    "java-remoting": ("stream", "stream-pop", "timers", "transactions", "between"),
    "java-grpc": ("stream", "transactions", "between"),
    "go-remoting": ("stream", "transactions"),
    "go-grpc": ("stream", "transactions"),
    "python-grpc": ("stream", "transactions"),
    "node-grpc": ("stream", "transactions"),
    "java4-remoting": ("stream", "transactions"),
}
SAMPLE: Final = {"gateway": ("java-remoting",), "leader": ("go-remoting",)}
"""Where clients are -> those that run without SOAK in the environment."""
ONE_ADDRESS: Final = ("node-grpc",)
"""Clients that take one address only, and are therefore not at the replicas themselves."""


def clients_at(place: str) -> list[str]:
    """The clients that run."""
    if not SOAK:
        return list(SAMPLE[place])
    return [name for name in SCENES if place == "gateway" or name not in ONE_ADDRESS]


CASES: Final = [(place, name, scene) for place in SAMPLE for name in clients_at(place) for scene in SCENES[name]]


@pytest.fixture(scope="module")
def programmes(tmp_path_factory: pytest.TempPathFactory, java: JavaClient, remoting_go: Path, grpc_go: Path) -> Programmes:
    return Programmes(
        java,
        build(tmp_path_factory.mktemp("java4"), PROJECT.parent / "remoting4"),
        compiled(tmp_path_factory.mktemp("grpc")),
        remoting_go,
        grpc_go,
        node_scripts(CLIENTS / "nodejs", "the gRPC SDK for Node"),
    )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, programmes: Programmes) -> Callable[[str], dict[str, str]]:
    """Place -> `client:scene` -> its result. The clients of each place have a store group of their own."""
    return cache(lambda place: played(place, programmes, tmp_path_factory.mktemp(place)))


def played(place: str, programmes: Programmes, folder: Path) -> dict[str, str]:
    """Kill the leader under the clients of one place. `client:scene` -> its result."""
    with (
        Node(folder / "names", "--roles", "nameserver", verb="run") as names,
        StoreGroupNodes(folder, 2, "--config", str(registering_at(names, folder / "replica.toml"))) as group,
    ):
        group.await_members(1, 2)
        leader = group.leader()
        make_topics(leader)
        if place == "gateway":
            nameserver = gateway = broker = group.gateway(folder / "gateway")
            endpoints = [gateway]
        else:
            nameserver, broker, endpoints = names, leader, group.nodes
        commands = programmes.commands(
            f"127.0.0.1:{nameserver.port('nameserver')}", f"127.0.0.1:{broker.port('remoting')}",
            ";".join(f"127.0.0.1:{each.port('grpc')}" for each in endpoints),
        )  # fmt: skip
        with running({name: commands[name] for name in clients_at(place)}, folder / "homes") as clients:
            group.kill(leader)
            group.leader()
            return results(clients)


@pytest.mark.parametrize(("place", "name", "scene"), CASES)
def test_a_scene_over_the_death_of_the_leader(told: Callable[[str], dict[str, str]], place: str, name: str, scene: str) -> None:
    said = told(place).get(f"{name}:{scene}", "nothing was said")
    assert said.startswith("OK "), said
