"""Events at which names, numbers and epochs prove nothing: what operators, backups and cloned machines do to a cluster.

forgotten   all controllers come back with empty folders, replicas come back in any order
older       all controllers come back with an older copy of their folders, from before elections that were held since
older_set   the same, from before a change of the SyncStateSet, and nobody was elected since
foreign     a replica of another cluster, with the same names, is started with the controllers of this one
copied      a copy of the directory of a replica is started on another machine

An operator restores the controllers from the longest log, as headgate cluster restore-controllers does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

from domain.admin.topic import PutTopic
from domain.command import Send
from domain.controller.answer import GroupRefusal
from domain.controller.group import StoreGroup
from domain.errors import ConfigError
from domain.event import Done, Sent
from domain.limits import MILLISECOND_NS
from domain.message.message import Message
from domain.topic.topic import Durability, Topic
from gateway.cluster.operator import restoring
from gateway.cluster.replica import identity
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.operators import OperatorTool
from tests.simulation.cluster.store_node import StoreNode, log_part
from tests.simulation.kit.bugs import HistoryError
from tests.simulation.kit.disk import MemoryDisk

TOPIC: Final = "safe"
STORES: Final = 3
WAIT_MS: Final = 6_000
"""Time in which something would be elected, registered or followed, if it were."""
HEAL_MS: Final = 60_000
END: Final = 1 << 40


@final
class LossScene:
    """One cluster under one of these events.

    kind   name of the event
    sent   bodies of the acknowledged messages
    """

    def __init__(self, seed: int, older_set: bool = False) -> None:
        """`older_set`: this kind; else one of the others, by the seed."""
        kinds: list[Callable[[], None]] = [self._forgotten, self._older, self._foreign, self._copied]
        self._event = self._older_set if older_set else kinds[seed % len(kinds)]
        self.kind = self._event.__name__
        self.cluster = Cluster(seed, STORES)
        self.sent: list[str] = []
        self._chance: random.Random = self.cluster.chance

    def run(self) -> LossScene:
        """Run. Raises HistoryError."""
        begin(self.cluster)
        self._send(self._some())
        self._event()
        leader = self._served(STORES)
        self._send(3)
        self.cluster.clock.run_for(2_000)
        log = log_part(leader.disk, 0, END)
        lost = [each for each in self.sent if each.encode() not in log]
        if lost:
            raise HistoryError(f"{self.kind}: {len(lost)} of {len(self.sent)} acknowledged messages are lost: {lost[:3]}")
        for each in self.cluster.stores:
            if log_part(each.disk, 0, END) != log:
                raise HistoryError(f"{self.kind}: the log of {each.name} differs from that of {leader.name}")
        return self

    # Events

    def _forgotten(self) -> None:
        behind = self._chance.choice(self.cluster.stores)
        behind.end("is killed")
        self._served(STORES - 1)
        self._send(self._some())
        self._end_all()
        for each in self.cluster.controllers:
            each.disk = MemoryDisk(each.clock, each.sync_ms)
        order = [behind, *self._shuffled([each for each in self.cluster.stores if each is not behind])]
        self._nobody_leads(order)
        self._restore()

    def _older(self) -> None:
        copies = {each: _files(each) for each in self.cluster.controllers}
        for _ in range(self._chance.choice((1, 2))):
            leader = self._served(STORES)
            leader.end("is killed")
            self._served(STORES - 1)
            self._send(self._some())
            leader.start()
        self._served(STORES)
        behind = self._chance.choice([each for each in self.cluster.stores if each is not self.cluster.leader()])
        behind.end("is killed")
        self._served(STORES - 1)
        self._send(self._some())
        self._end_all()
        for each, files in copies.items():
            each.disk = _disk_of(files, each)
        self._nobody_leads([behind, *self._shuffled([each for each in self.cluster.stores if each is not behind])])
        self._restore()

    def _older_set(self) -> None:
        """A follower was left out, and what was acknowledged since is at the two others alone."""
        copies = {each: _files(each) for each in self.cluster.controllers}
        leader = self._served(STORES)
        behind, other = self._shuffled([each for each in self.cluster.stores if each is not leader])
        behind.end("is killed")
        self._served(STORES - 1)
        self._send(self._some())
        if self._chance.random() < 0.5:  # the controllers alone are restored: the leader runs on, and is killed then
            self._end(self.cluster.controllers)
            for each, files in copies.items():
                each.disk = _disk_of(files, each)
                each.start()
            self.cluster.clock.run_for(4_000)
            behind.start()
            self.cluster.clock.run_for(2_000)
            leader.end("is killed")
            self._lack_a_leader()
            if self._chance.random() < 0.5:
                other.end("is killed")  # who has seen the newer set is dead, and what it has said is not forgotten
                self._lack_a_leader()
                other.start()
            leader.start()
            self.cluster.clock.run_for(2_000)
        else:
            self._end_all()
            for each, files in copies.items():
                each.disk = _disk_of(files, each)
            self._nobody_leads([other, behind, leader])
        self._restore()

    def _lack_a_leader(self) -> None:
        self.cluster.clock.run_for(WAIT_MS)
        group = self._group()
        if group.leader and self.cluster.leader() is not None:
            raise HistoryError(f"{self.kind}: controllers that do not know the newest SyncStateSet have held an election")

    def _foreign(self) -> None:
        other = Cluster(self.cluster.seed + (1 << 20), STORES)
        begin(other)
        for number in range(self._some()):
            send(other, f"theirs-{number};")
        if self._chance.random() < 0.5:
            leader = served(other, STORES)
            leader.end("is killed")
            served(other, STORES - 1)
            send(other, "theirs-later;")
        victim = self._chance.choice([each for each in other.stores if each.running])
        files = _files(victim)
        nameless = self._chance.random() < 0.5
        if nameless:  # a node of a version before identities: it registers, and its history alone tells
            files.pop(identity.GROUP, None)
        node = self._added(files)
        before, count = log_part(node.disk, 0, END), len(self._group().replicas)
        node.start()
        self._send(self._some())
        self.cluster.clock.run_for(WAIT_MS)
        if log_part(node.disk, 0, END) != before:
            raise HistoryError(f"{self.kind}: the log of a node of another cluster was changed")
        if any(each.incarnation == node.member[1] for each in self._group().members):
            raise HistoryError(f"{self.kind}: a node of another cluster is in sync")
        if len(self._group().replicas) != count and not nameless:
            raise HistoryError(f"{self.kind}: a node of another cluster has registered")
        self._fail_over()
        node.end("is stopped")

    def _copied(self) -> None:
        original = self._chance.choice(self.cluster.stores)
        original.end("is stopped")
        self._served(STORES - 1)
        copy = self._added(_files(original))
        original.start()
        self._served(STORES)
        copy.start()
        self._send(self._some())
        self.cluster.clock.run_for(WAIT_MS)
        original.end("is killed")
        self.cluster.clock.run_for(WAIT_MS)
        if any(each.address == f"{copy.host}:10912" for each in self._group().replicas):
            raise HistoryError(f"{self.kind}: a copy of a directory has taken the place of the original")
        original.start()
        copy.end("is stopped")

    # Parts

    def _some(self) -> int:
        return self._chance.randrange(3, 12)

    def _shuffled(self, found: list[StoreNode]) -> list[StoreNode]:
        return self._chance.sample(found, len(found))

    def _send(self, count: int) -> None:
        for _ in range(count):
            body = f"{self.kind}-{len(self.sent)};"
            send(self.cluster, body)
            self.sent.append(body)

    def _served(self, members: int) -> StoreNode:
        return served(self.cluster, members)

    def _group(self) -> StoreGroup:
        found = self.cluster.checkers.group()
        assert found is not None
        return found

    def _fail_over(self) -> None:
        """The leader dies, and comes back once another one leads."""
        leader = self._served(STORES)
        leader.end("is killed")
        self._served(STORES - 1)
        leader.start()

    def _end_all(self) -> None:
        self._end([*self.cluster.stores, *self.cluster.controllers])

    def _end(self, machines: Sequence[Machine]) -> None:
        for each in machines:
            if each.running:
                each.end("is killed")

    def _nobody_leads(self, order: list[StoreNode]) -> None:
        """All controllers start, then the replicas in this order: nobody may lead before an operator has decided."""
        before = {each: log_part(each.disk, 0, END) for each in order}
        for machine in self.cluster.controllers:
            machine.start()
        self.cluster.clock.run_for(4_000)
        for each in order:
            each.start()
            self.cluster.clock.run_for(self._chance.uniform(10, 1_500))
        self.cluster.clock.run_for(WAIT_MS)
        if self.cluster.leader() is not None:
            raise HistoryError(f"{self.kind}: controllers that do not know the newest election have held one")
        if any(log_part(each.disk, 0, END) != log for each, log in before.items()):
            raise HistoryError(f"{self.kind}: a log was changed while nobody led")

    def _restore(self) -> None:
        """An operator restores the controllers from the longest log."""
        cluster = self.cluster
        try:
            restoring.restore(
                OperatorTool(cluster), cluster.groups[0].name, 0, STORES, False, partial(cluster.timeline.note, "operator")
            )
        except ConfigError as error:
            if GroupRefusal.HAS_MEMBERS.value not in str(error):
                raise HistoryError(f"{self.kind}: the controllers are not restored: {error}") from None

    def _added(self, files: dict[str, bytes]) -> StoreNode:
        """One more machine, with a directory, which no checker knows as a replica."""
        cluster = self.cluster
        node = StoreNode(cluster, cluster.groups[0], "stranger", 9, "10.0.9.9")
        node.disk = _disk_of(files, node)
        assert identity.NAME in files
        return node


def begin(cluster: Cluster) -> None:
    """Start a cluster with a topic."""
    cluster.start()
    leader = served(cluster, STORES)
    event = _ask(cluster, leader, PutTopic(1, Topic(TOPIC, 1, 1, durability=Durability.REPLICATED_FLUSHED)))
    assert isinstance(event, Done), event


def served(cluster: Cluster, members: int) -> StoreNode:
    """The leader, once so many replicas are in sync. Raises HistoryError when it takes too long."""

    def is_so() -> bool:
        group, leader = cluster.checkers.group(), cluster.leader()
        return group is not None and len(group.members) == members and leader is not None and leader.running

    end = cluster.clock.monotonic_ns() + HEAL_MS * MILLISECOND_NS
    while not is_so():
        if cluster.clock.monotonic_ns() > end:
            raise HistoryError(f"there are no {members} replicas in sync after {HEAL_MS} ms: {cluster.checkers.group()}")
        cluster.clock.run_for(100)
    cluster.clock.run_for(1_000)  # the leader has to learn of its members
    leader = cluster.leader()
    assert leader is not None
    return leader


def send(cluster: Cluster, body: str) -> None:
    """Send a message until it is acknowledged."""
    end = cluster.clock.monotonic_ns() + HEAL_MS * MILLISECOND_NS
    while cluster.clock.monotonic_ns() < end:
        leader = cluster.leader()
        if leader is not None and leader.parts is not None and leader.running:
            event = _ask(
                cluster, leader, Send(1, [Message(TOPIC, body.encode(), f"UNIQ_KEY\x01{body}\x02".encode(), queue_id=0)])
            )
            if isinstance(event, Sent):
                return
        cluster.clock.run_for(100)
    raise HistoryError(f"{body} is not acknowledged after {HEAL_MS} ms")


def _ask(cluster: Cluster, node: StoreNode, asked: PutTopic | Send) -> object:
    """The answer of a leader; None: there is none."""
    recorder = EventRecorder()
    assert node.parts is not None
    node.parts.gate.handle(recorder.connection, asked)
    for _ in range(100):
        if recorder.recorded:
            break
        cluster.clock.run_for(100)
    return next(iter(recorder.take()), None)


def _files(machine: Machine) -> dict[str, bytes]:
    """The files of a machine's disk."""
    return {name: bytes(content.data) for name, content in machine.disk.files.items()}


def _disk_of(files: dict[str, bytes], machine: Machine) -> MemoryDisk:
    """A disk with these files."""
    disk = MemoryDisk(machine.clock, machine.sync_ms)
    for name, data in files.items():
        disk.replace(name, data)
    return disk


def run(seed: int) -> LossScene:
    """Run a seed: one event of the four."""
    return LossScene(seed).run()


def run_older_set(seed: int) -> LossScene:
    """Run a seed of controllers with a copy from before a change of the SyncStateSet."""
    return LossScene(seed, older_set=True).run()
