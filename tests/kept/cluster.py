"""The machines of a kept cluster: what their directories hold, and the cluster running on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from controller.groups import command, snapshot
from controller.groups.groups import StoreGroups
from controller.member import identity
from controller.raft import configuration
from controller.raft.disk_storage import RaftDiskStorage
from controller.raft.entry import EntryKind
from domain.command import Command
from domain.controller.controller_list import SetControllers
from domain.store.store_event import unheard
from gateway.cluster.replica.identity import KnownControllers, ReplicaIdentity
from store.replication.replica_log.follower_log import open_follower
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.kept.node import Files, disk_of
from tests.kept.shown import shown
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.store_node import CONFIG, StoreNode
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import SeededEntropy

SEED: Final = 7
STORES: Final = 3
TOPIC: Final = "kept"


def machine_files(files: Files, name: str) -> Files:
    """The files of one machine: those in the folder of its name."""
    front = f"{name}/"
    return {each[len(front) :]: data for each, data in files.items() if each.startswith(front)}


def controller_facts(files: Files) -> dict[str, Any]:
    """What the directory of a controller holds."""
    disk = disk_of(files, VirtualClock())
    known = identity.load(disk, SeededEntropy(1))
    found = RaftDiskStorage(disk).load()
    assert not found.damage
    groups = snapshot.restore(found.snapshot.data)
    before = [shown(each) for each in groups]
    return {
        "identity": [known.node, sorted(known.founders)],
        "hard state": shown(found.hard_state),
        "snapshot": [found.snapshot.index, found.snapshot.term, shown(found.snapshot.configuration), before],
        "entries": [[each.term, each.index, each.kind.name, _entry(each.kind, each.data)] for each in found.entries],
        "groups": _applied(groups, [each.data for each in found.entries if each.kind is EntryKind.COMMAND]),
    }


def _entry(kind: EntryKind, data: bytes) -> Any:
    if kind is EntryKind.COMMAND:
        return shown(command.decode(data))
    return shown(configuration.decode(data)) if kind is EntryKind.CONFIGURATION else data.hex()


def _applied(groups: StoreGroups, commands: list[bytes]) -> Any:
    """The answers to the commands, and the groups behind them."""
    answers: list[str] = []
    for data in commands:
        change = command.decode(data)
        answer = groups.set_controllers(change) if isinstance(change, SetControllers) else groups.apply(change)
        answers.append("" if answer.refusal is None else answer.refusal.name)
    return [answers, [shown(each) for each in groups], shown(groups.book)]


def replica_facts(files: Files) -> dict[str, Any]:
    """What the directory of a replica holds."""
    clock = VirtualClock()
    disk = disk_of(files, clock)
    known = ReplicaIdentity(disk, SeededEntropy(1))
    follower = open_follower(disk, clock, replace(CONFIG, boot="boot 0", fresh_incarnation=99), unheard)
    return {
        "identity": [known.node, known.id],
        "controllers": [list(each) for each in KnownControllers(disk).read()],
        "eras": [[each.epoch, each.begin] for each in follower.eras()],
        "log": [follower.first, follower.behind, follower.applied, follower.incarnation],
    }


def facts(files: Files) -> dict[str, Any]:
    """What the directories of all machines hold."""
    return {
        "controllers": [controller_facts(machine_files(files, f"controller {number}")) for number in (1, 2, 3)],
        "replicas": [replica_facts(machine_files(files, f"store {number}")) for number in range(1, STORES + 1)],
    }


def cluster_on(files: Files, learner: int) -> Cluster:
    """The cluster, started on these directories."""
    cluster = Cluster(SEED, STORES, 1)
    for machine in (*cluster.controllers, *cluster.stores):
        _give(machine, machine_files(files, machine.name))
    cluster.stores[learner - 1].learner = True
    cluster.start()
    return cluster


def _give(machine: Machine, files: Files) -> None:
    machine.disk.files = disk_of(files, machine.clock).files


def serving(cluster: Cluster, members: int) -> StoreNode:
    """The replica that leads, once so many are in the SyncStateSet."""

    def is_so() -> bool:
        group = cluster.checkers.group()
        return group is not None and len(group.members) == members and cluster.leader() is not None

    cluster.clock.run_until(is_so)
    cluster.clock.run_for(2_000)  # it has to learn of its members
    leader = cluster.leader()
    assert leader is not None
    return leader


def ask(cluster: Cluster, node: StoreNode, asked: Command) -> Any:
    """The answer of the leader."""
    recorder = EventRecorder()
    assert node.parts is not None
    node.parts.gate.handle(recorder.connection, asked)
    cluster.clock.run_until(lambda: bool(recorder.recorded))
    (event,) = recorder.take()
    return event
