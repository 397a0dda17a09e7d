"""Three controllers in memory on a virtual clock: each has storage that forgets what was not synced, and a lossy network."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from controller.groups.heartbeats import Heartbeats
from controller.member.elections import Elections
from controller.member.member import ENTRIES_KEPT, ControllerMember, MemberEvents
from controller.raft.persisted import Persisted, founder
from domain.controller.answer import GroupAnswer
from domain.controller.change import ApplyId, ElectLeader, GroupChange, RegisterReplica
from domain.controller.group import ReplicaReport
from domain.controller.peer import LEVEL
from domain.controller.replica_word import ReplicaWord
from domain.limits import MILLISECOND_NS
from tests.controller.groups.sample import CLUSTER, NAME, incarnation, says
from tests.controller.raft.memory_storage import MemoryStorage
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.kit.network import Messages, between

FLUSH_MS = 1


class Node:
    """One controller. `member` is None while it is down; `storage` stays."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.number = number
        self.node = number
        self._stage = stage
        self.storage = self._stored(founder(frozenset(stage.numbers)))
        self.start()

    def start(self) -> None:
        """Start, or start again, with what is durable."""
        clock = self._stage.clock
        self.heartbeats = Heartbeats(clock.monotonic_ns() // MILLISECOND_NS)
        self.member: ControllerMember | None = ControllerMember(
            self.node,
            self.storage.load(),
            self.storage,
            self,
            clock,
            SeededEntropy(self._stage.seed * 100 + self.node),
            MemberEvents(partial(self._stage.applied, self.number), self._led),
            self._stage.entries_kept,
        )
        self.elections = Elections(self.member, self.heartbeats, clock)
        self.member.start()
        self.elections.start()

    def _led(self) -> None:
        self.elections.hurry()

    def kill(self) -> None:
        """Stop at once. What was not synced is lost."""
        assert self.member is not None
        member, self.member = self.member, None
        self.elections.stop()
        member.stop()
        self.storage.crash()

    def wipe(self, node: int) -> None:
        """Lose the directory, and come back with another identity."""
        self.kill()
        self.node = node
        self.storage = self._stored(Persisted())
        self.start()

    def _stored(self, persisted: Persisted) -> MemoryStorage:
        """Storage whose flushes take a while."""
        storage = MemoryStorage(persisted)
        storage.later = lambda step: self._stage.after(FLUSH_MS, step)
        return storage

    def all_read(self, level: int) -> bool:
        """The `Peers` port."""
        return level <= self._stage.level

    def send(self, to: int, data: bytes) -> None:
        """The `Peers` port."""
        for each in self._stage.nodes.values():
            if each.node == to:
                self._stage.net.send(self.number, each.number, (to, data))


class Stage:
    """The controllers 1 to `count`, and what is between them.

    net   carries (identity of the receiver, message) from number to number; its steps are milliseconds
    """

    def __init__(self, count: int = 3, seed: int = 1, entries_kept: int = ENTRIES_KEPT) -> None:
        self.entries_kept = entries_kept
        self.clock = VirtualClock()
        self.level = LEVEL
        self.seed = seed
        self.numbers = range(1, count + 1)
        self.random = random.Random(seed)
        self.net: Messages[tuple[int, bytes]] = Messages(self.random, self.after, self._deliver)
        self.nodes = {number: Node(self, number) for number in self.numbers}

    def after(self, milliseconds: int, call: Callable[[], None]) -> None:
        """Call later."""
        self.clock.call_at(self.clock.monotonic_ns() + milliseconds * MILLISECOND_NS, call)

    def _deliver(self, number: int, message: tuple[int, bytes]) -> None:
        node, (to, data) = self.nodes[number], message
        if node.node == to and node.member is not None:
            node.member.receive(data)

    def applied(self, number: int, change: GroupChange, answer: GroupAnswer) -> None:
        """A member has applied a change."""

    def isolate(self, number: int) -> None:
        """Nothing passes between this controller and the others any more."""
        self.net.blocked |= between([number], self.numbers)

    def revise(self) -> None:
        """All members look at who is there, as they do each second."""
        there = {node.node for node in self.nodes.values() if node.member is not None}
        for node in self.nodes.values():
            if node.member is not None:
                node.member.revise(there, len(there) == len(self.nodes))

    def leader(self) -> Node:
        """The controller that leads in the newest term, when there is one within ten seconds."""
        self.clock.run_until(lambda: self._leading() is not None, 10_000)
        found = self._leading()
        assert found is not None
        return found

    def _leading(self) -> Node | None:
        leading = [(node.member.term, node) for node in self.nodes.values() if node.member is not None and node.member.leads]
        return max(leading, key=lambda each: each[0])[1] if leading else None

    def ask(self, change: GroupChange, node: Node | None = None) -> list[GroupAnswer | None]:
        """Ask the leader, or this controller, for a change. The list has the answer once there is one."""
        member = (node or self.leader()).member
        assert member is not None
        answers: list[GroupAnswer | None] = []
        member.change(change, answers.append)
        return answers

    def change(self, change: GroupChange) -> GroupAnswer:
        """Ask the leader for a change, and wait for its answer."""
        answers = self.ask(change)
        self.clock.run_until(lambda: bool(answers), 10_000)
        answer = answers[0]
        assert answer is not None
        return answer

    def with_group(self, replicas: int = 3) -> None:
        """A store group whose first replica leads."""
        for number in range(1, replicas + 1):
            assert self.change(ApplyId(NAME, CLUSTER, number, f"node-{number}", f"h{number}:10911")).refusal is None
            told = RegisterReplica(NAME, CLUSTER, number, f"h{number}:10911", incarnation(number))
            assert self.change(told).refusal is None
        assert self.change(ElectLeader(NAME, (says(1),), asker=1)).refusal is None

    def hear(self, *reports: ReplicaReport) -> None:
        """All controllers hear these replicas, which count as alive for two seconds."""
        for node in self.nodes.values():
            for report in reports:
                node.heartbeats.heard(NAME, ReplicaWord(report), 2_000, report.id, self.clock.monotonic_ns() // MILLISECOND_NS)

    def beat(self, *reports: ReplicaReport, until: Callable[[], bool], most_ms: int = 30_000) -> None:
        """Replicas send heartbeats each second until something holds."""
        for _ in range(most_ms // 1_000):
            self.hear(*reports)
            self.clock.run_for(1_000)
            if until():
                return
        raise AssertionError(f"it does not hold after {most_ms} ms")
