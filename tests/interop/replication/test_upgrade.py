"""From earlier versions, without replicas: their data directories, their gateways and stores beside those of this version."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post, read_all
from tests.interop.replication.versions import of_this_version, of_version, tree_of
from tests.store.faults.soak import SOAK

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not SOAK, reason="SOAK=1 runs it: the upgrade from the version after it is run always"),
]


class Version(NamedTuple):
    """An earlier version.

    tree            its source tree
    unknown_ports   ports that it does not have
    """

    tree: Path
    unknown_ports: frozenset[str]


VERSIONS = {
    "803704a3": frozenset({"replication", "readers", "coap-tcp", "coaps-tcp", "coaps", "vip"}),
    "44998bdc": frozenset({"vip"}),
}
"""The last commits of versions -> ports that they do not have."""


@pytest.fixture(scope="module", params=VERSIONS)
def before(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Version:
    """An earlier version."""
    commit = request.param
    return Version(tree_of(commit, tmp_path_factory.mktemp("version-before")), VERSIONS[commit])


def _sent(node: Node, *bodies: str) -> list[str]:
    for body in bodies:
        assert post(node, "orders", body, 30.0), body
    return list(bodies)


def _old(folder: Path, before: Version, *options: str) -> Node:
    node = Node(folder, *options, verb="run")
    of_version(before.tree, [node], before.unknown_ports)
    return node


def test_a_data_directory_of_an_earlier_version_opens_alone_and_in_a_group(before: Version, tmp_path: Path) -> None:
    node = _old(tmp_path / "replica-1", before, "--roles", "gateway,store")
    node.start()
    sent = _sent(node, *(f"before {number}" for number in range(30)))
    node.kill()
    of_this_version([node])
    node.start()
    assert read_all(node, "orders") != []
    assert sorted(read_all(node, "orders")) == sorted(sent)
    sent += _sent(node, "alone")
    node.stop()
    with StoreGroupNodes(tmp_path, 2, controllers=1) as group:
        group.await_members(1, 2)
        assert sorted(group.bodies("orders")) == sorted(sent)
        group.send("orders", "replicated")
        group.kill(group.nodes[0])
        assert sorted(group.bodies("orders")) == sorted([*sent, "replicated"]), "the other replica has all of it"


def test_gateways_and_stores_of_both_versions_work_with_each_other(before: Version, tmp_path: Path) -> None:
    sent: list[str] = []
    with _old(tmp_path / "store", before, "--roles", "store") as store:
        at = f"127.0.0.1:{store.port('remoting')}"
        new = Node(tmp_path / "new", "--roles", "gateway", "--store", at, verb="run")
        old = _old(tmp_path / "old", before, "--roles", "gateway", "--store", at)
        with new, old:
            sent += _sent(new, "new gateway, old store")
            sent += _sent(old, "old gateway, old store")
            store.stop()
            of_this_version([store])
            store.start()
            for gateway, body in ((new, "new gateway, new store"), (old, "old gateway, new store")):
                assert gateway.ready(), gateway.text()
                sent += _sent(gateway, body)
                assert sorted(read_all(gateway, "orders")) == sorted(sent)
