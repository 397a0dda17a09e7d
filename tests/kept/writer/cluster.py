"""The directories of three controllers and three replicas, all of which were killed; and the log of one controller."""

from __future__ import annotations

import json

from controller.groups import command, snapshot
from controller.member import identity
from controller.raft.configuration import Configuration
from controller.raft.disk_storage import RaftDiskStorage
from controller.raft.entry import EntryKind, LogEntry
from controller.raft.persisted import HardState, RaftSnapshot
from domain.admin.topic import PutTopic
from domain.command import Send
from domain.controller.change import ElectLeader, SetMinInSync
from domain.event import Done, Sent
from domain.message.message import Message
from domain.topic.topic import Durability, Topic
from tests.kept.cluster import SEED, STORES, TOPIC, ask, controller_facts, facts, serving
from tests.kept.exchanges.raft import BOOK, CHANGES, GROUP, JOINT, state
from tests.kept.node import files_of, pack
from tests.kept.vectors import DATA
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.operators import Operators
from tests.simulation.cluster.weather import Weather
from tests.store.clock import VirtualClock
from tests.store.disk import MemoryDisk


class Scene:
    """A cluster to which operators and failures do all that leaves traces."""

    def __init__(self) -> None:
        self.cluster = Cluster(SEED, STORES, 1)
        self.operators = Operators(self.cluster, Weather(self.cluster, False, False))
        self.sent: list[str] = []

    def send(self, leader, count: int) -> None:
        for _ in range(count):
            body = f"kept {len(self.sent)}"
            stored = f"UNIQ_KEY\x01id-{len(self.sent)}\x02".encode()
            event = ask(self.cluster, leader, Send(1, [Message(TOPIC, body.encode(), stored, queue_id=0)]))
            assert isinstance(event, Sent), event
            self.sent.append(body)

    def run(self) -> dict[str, bytes]:
        cluster = self.cluster
        cluster.start()
        leader = serving(cluster, 3)
        topic = Topic(TOPIC, 1, 1, durability=Durability.REPLICATED_FLUSHED)
        event = ask(cluster, leader, PutTopic(1, topic))
        assert isinstance(event, Done), event
        self.send(leader, 6)
        leader.end("is killed")
        cluster.clock.run_for(15_000)
        second = serving(cluster, 2)
        assert second is not leader
        self.send(second, 6)
        leader.start()
        serving(cluster, 3)
        self.operators._change(SetMinInSync("broker-a", 2))
        cluster.clock.run_for(1_000)
        found = cluster.checkers.group()
        assert found is not None
        self.operators._change(ElectLeader("broker-a", designated=leader.life.own, leader_epoch=found.leader_epoch))
        cluster.clock.run_until(lambda: cluster.leader() is leader)
        self.send(serving(cluster, 3), 6)
        last = next(each for each in cluster.stores if each not in (leader, second))
        last.end("becomes a learner")
        last.learner = True
        last.start()
        cluster.clock.run_for(15_000)
        self.learner = last.number
        self.send(serving(cluster, 2), 3)
        cluster.clock.run_for(5_000)
        self.send(serving(cluster, 2), 3)
        for machine in cluster.machines:
            machine.end("is killed")
        return {
            f"{machine.name}/{name}": data
            for machine in (*cluster.controllers, *cluster.stores)
            for name, data in files_of(machine.disk).items()
        }


def whole_log() -> dict[str, bytes]:
    """The directory of a controller with a snapshot, all commands and configurations."""
    disk = MemoryDisk(VirtualClock())
    identity.store(disk, identity.MemberIdentity(11, frozenset({11, 12, 13})))
    storage = RaftDiskStorage(disk)
    storage.load()
    data = snapshot.snapshot(state(GROUP, book=BOOK))
    storage.put_snapshot(RaftSnapshot(5, 2, Configuration(frozenset({11, 12, 13})), data))
    storage.sync()
    entries = [LogEntry(3, 6, EntryKind.EMPTY)]
    entries += [LogEntry(3, number, EntryKind.COMMAND, command.encode(each)) for number, each in enumerate(CHANGES.values(), 7)]
    entries.append(LogEntry(4, len(entries) + 6, EntryKind.CONFIGURATION, JOINT.encode()))
    entries.append(LogEntry(4, len(entries) + 6, EntryKind.CONFIGURATION, JOINT.final().encode()))
    for entry in entries:
        storage.put_entries((entry,))
        storage.put_hard_state(HardState(entry.term, 11))
        storage.sync()
    return files_of(disk)


def main() -> None:
    """Write both archives."""
    scene = Scene()
    with scene.cluster.timeline.with_logs():
        files = scene.run()
    pack(DATA / "cluster.tar.xz", files)
    log = whole_log()
    pack(DATA / "controller.tar.xz", log)
    manifest = {"learner": scene.learner, "sent": scene.sent, "facts": facts(files), "controller": controller_facts(log)}
    (DATA / "cluster.json").write_text(json.dumps(manifest, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
