"""Data directories of a store that 44998bdc has left open, and have everything in them; clients go on with them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from domain.store.store_ports import StateChange
from tests.kept.node import Files, KeptNode, unpacked
from tests.kept.shown import differences
from tests.kept.use import use
from tests.kept.vectors import DATA

DERIVED = ("checkpoint/", "index/", "keys/", "snapshot/", "abort")


class Kept(NamedTuple):
    """A directory, and what 44998bdc found in it."""

    files: Files
    manifest: dict[str, Any]

    def node(self, files: Files | None = None, later_ms: int = 0) -> KeptNode:
        """A node that runs on these files, or on those of a later time."""
        return KeptNode(self.files if files is None else files, self.manifest["wall_ms"] + later_ms)

    def wrong(self, node: KeptNode) -> list[str]:
        """What the node has not as 44998bdc had it."""
        look = self.manifest["look"]
        facts = node.facts(look["spaces"], [(topic, queue_id) for topic, queue_id in look["queues"]], look["groups"])
        return list(differences(self.manifest["facts"], facts))


@pytest.fixture(params=["store-stopped", "store-killed"])
def kept(request: pytest.FixtureRequest) -> Kept:
    name = request.param
    return Kept(unpacked(DATA / f"{name}.tar.xz"), json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")))


def test_a_directory_opens_with_everything_in_it(kept: Kept) -> None:
    assert kept.wrong(kept.node()) == []


def test_it_is_there_from_the_log_alone(kept: Kept) -> None:
    without = {name: data for name, data in kept.files.items() if not name.startswith(DERIVED)}
    assert kept.wrong(kept.node(without)) == []


def test_it_is_there_after_a_checkpoint_and_another_start(kept: Kept) -> None:
    node = kept.node()
    before = set(node.killed())
    node.parts.store.state.put([StateChange("test", b"key", b"value")], None)
    node.run(10_000)
    killed = node.killed()
    assert {name for name in killed if name.startswith("checkpoint/")} - before, "a checkpoint was written"
    assert kept.wrong(kept.node(killed, 12_000)) == []
    stopped = kept.node(killed, 12_000).stopped()
    assert kept.wrong(kept.node(stopped, 14_000)) == []


def test_clients_go_on(kept: Kept) -> None:
    assert list(differences(kept.manifest["use"], use(kept.node(), kept.manifest["notes"]))) == []


def test_clients_go_on_after_another_start(kept: Kept) -> None:
    stopped = kept.node().stopped()
    answers = use(kept.node(stopped), kept.manifest["notes"])
    assert list(differences(kept.manifest["use"], answers)) == []
