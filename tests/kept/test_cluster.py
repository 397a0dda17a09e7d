"""Directories of controllers and replicas that 44998bdc has left hold what they held, and the cluster goes on with them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from domain.command import Send
from domain.errors import Failure
from domain.event import Sent
from domain.message.message import Message
from domain.message.record import Record
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from tests.kept.cluster import TOPIC, ask, cluster_on, controller_facts, facts, serving
from tests.kept.node import Files, files_of, unpacked
from tests.kept.shown import differences
from tests.kept.vectors import DATA
from tests.simulation.cluster.cluster import Cluster

MANIFEST: Final[dict[str, Any]] = json.loads((DATA / "cluster.json").read_text(encoding="utf-8"))


@pytest.fixture
def files() -> Files:
    return unpacked(DATA / "cluster.tar.xz")


def test_the_directories_hold_what_they_held(files: Files) -> None:
    assert list(differences(MANIFEST["facts"], facts(files))) == []
    eras = [each["eras"] for each in MANIFEST["facts"]["replicas"]]
    assert max(map(len, eras)) == 3, "several have led"


def test_the_whole_log_of_a_controller_is_read() -> None:
    found = controller_facts(unpacked(DATA / "controller.tar.xz"))
    assert list(differences(MANIFEST["controller"], found)) == []


def test_the_cluster_goes_on(files: Files) -> None:
    cluster = cluster_on(files, MANIFEST["learner"])
    _check(cluster, MANIFEST["sent"])
    leader = serving(cluster, 2)
    event = ask(cluster, leader, Send(1, [Message(TOPIC, b"new", b"UNIQ_KEY\x01id-new\x02", queue_id=0)]))
    assert isinstance(event, Sent), event
    cluster.clock.run_for(5_000)
    after: Files = {}
    for machine in (*cluster.controllers, *cluster.stores):
        machine.end("is killed")
        after |= {f"{machine.name}/{name}": data for name, data in files_of(machine.disk).items()}
    again = cluster_on(after, MANIFEST["learner"])
    _check(again, [*MANIFEST["sent"], "new"])


def _check(cluster: Cluster, sent: list[str]) -> None:
    """Every message is there, once and in order, and every replica has the log of the leader."""
    serving(cluster, 2)
    cluster.clock.run_for(3_000)
    found: list[ReadResult | Failure] = []
    cluster.groups[0].served.log.read(ReadRequest(TOPIC, 0, 0, 1_000, 1 << 20), found.append)
    cluster.clock.run_turn()
    (result,) = found
    assert isinstance(result, ReadResult)
    assert [Record(each).body.decode() for each in result.records] == sent
    assert len({each.log(0, 1 << 60) for each in cluster.stores}) == 1
