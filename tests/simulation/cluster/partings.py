"""A leader that clients reach is parted from others, one such parting after the other: service goes on within SERVICE_MS.

While a parting lasts, the leader may die; then too the rest of the group, which is a majority of everything, serves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, final

import pytest

from domain.controller.change import ElectLeader
from domain.errors import ConfigError
from domain.topic.topic import Durability, Topic
from gateway.cluster.operator import moving
from gateway.cluster.replica import cut_off
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.gateway_node import GatewayNode
from tests.simulation.cluster.machine import Machine
from tests.simulation.cluster.operators import OperatorTool, change_group
from tests.simulation.cluster.store_node import StoreNode
from tests.simulation.kit.bugs import HistoryError
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.network import between
from tests.simulation.ledger import Ledger
from tests.simulation.posters import RemotingPoster

SERVICE_MS: Final = 10_000
"""Time after the begin of a parting within which every gateway stores messages again."""
LEFT_MS: Final = 3_200
"""Time within which a leader that hears nobody serves clients no more: 3 s, and the time of a look at it."""
WHOLE_MS: Final = 40_000
"""Time after the end of a parting within which all replicas are in sync."""
ROUNDS: Final = 3
MOVE_S: Final = 15.0
"""Longest wait of an operator for a replica to be taken in: the default of `headgate cluster move`."""
TOPIC: Final = "sent"
JOLT_MS: Final = (1_000, 350)
"""How often a leader stands still that is short of processor time, and for how long."""
ENOUGH: Final = 3
"""Messages that a gateway has to store: one may have been under way when the parting began."""


@final
class AtGateway:
    """A `tests.simulation.posters.Net` whose clients all connect to one gateway."""

    def __init__(self, cluster: Cluster, gateway: GatewayNode) -> None:
        self.seed = cluster.seed
        self.ledger = Ledger()
        self._cluster = cluster
        self._gateway = gateway

    @property
    def clock(self) -> VirtualClock:
        """The clock of the clients."""
        return self._cluster.clock

    def dial(self, protocol: str, party: Any) -> None:
        """Connect `party`."""
        if self._gateway.running and self._gateway.side is not None:
            self._gateway.serve(protocol, party)
        else:
            self._cluster.after(50, party.lost)


@final
class Partings:
    """A run of ROUNDS partings of kinds that the seed chooses."""

    def __init__(self, seed: int, before: bool = False, stores: int = 0, jolted: bool = False) -> None:
        """`before`: leaders are of the version that does not give up, as in a rolling upgrade. `stores`: number of replicas, 0:
        by the seed. `jolted`: a parted leader stands still again and again (JOLT_MS)."""
        Cluster.made.clear()
        self._before = before
        self._jolted = jolted
        self.cluster = Cluster(seed, stores=stores or (3, 3, 4, 5)[seed % 4], gateways=2)
        self.nets = [AtGateway(self.cluster, each) for each in self.cluster.gateways]
        self.kinds: list[Callable[[StoreNode], set[tuple[Machine, Machine]]]] = [
            self.all_but_clients, self.from_all_but_clients, *(() if before else (self.followers, self.to_followers)),
        ]  # fmt: skip

    # Kinds of partings

    def _others(self, leader: StoreNode) -> list[Machine]:
        return [each for each in self.cluster.stores if each is not leader]

    def followers(self, leader: StoreNode) -> set[tuple[Machine, Machine]]:
        """From the followers alone."""
        return between([leader], self._others(leader))

    def to_followers(self, leader: StoreNode) -> set[tuple[Machine, Machine]]:
        """From the followers alone, and they hear it."""
        return {(each, leader) for each in self._others(leader)}

    def all_but_clients(self, leader: StoreNode) -> set[tuple[Machine, Machine]]:
        """From the followers and the controllers: gateways still reach it."""
        return between([leader], [*self._others(leader), *self.cluster.controllers])

    def from_all_but_clients(self, leader: StoreNode) -> set[tuple[Machine, Machine]]:
        """The same, and they hear it no more, while it hears them."""
        return {(leader, each) for each in [*self._others(leader), *self.cluster.controllers]}

    # The run

    def run(self) -> Partings:
        """Run. Raises HistoryError."""
        with ExitStack() as stack:
            stack.enter_context(self.cluster.timeline.with_logs())
            if self._before:
                stack.enter_context(pytest.MonkeyPatch.context()).setattr(cut_off.CutOff, "watch", lambda self: None)
            return self._run()

    def _begin(self) -> None:
        self.cluster.start()
        self._wait("all replicas to be in sync", WHOLE_MS, self._is_whole)
        self._make_topic()
        for at, net in enumerate(self.nets):
            poster = RemotingPoster(net, f"sender {at}", TOPIC, 1 << 30)
            poster.start()

    def _run(self) -> Partings:
        cluster, chance = self.cluster, self.cluster.chance
        self._begin()
        for _ in range(ROUNDS):
            cluster.clock.run_for(chance.randrange(500, 6_000))
            leader = cluster.leader()
            assert leader is not None
            kind = chance.choice(self.kinds)
            self._part(leader, kind.__name__, kind(leader))
            if chance.random() < 0.5:
                self._kill(leader)
            cluster.net.heal()
            if not leader.running:
                leader.start()
            self._wait("all replicas to be in sync", WHOLE_MS, self._is_whole)
        return self

    def run_last(self) -> Partings:
        """Two of three replicas die one after the other, then the last one, and the first two come back: they serve. Raises
        HistoryError."""
        cluster, group = self.cluster, self.cluster.groups[0]
        with cluster.timeline.with_logs():
            self._begin()
            dead: list[StoreNode] = []
            for _ in group.stores:
                self._wait("somebody to be elected", SERVICE_MS, lambda: self._elected() not in (None, *dead))
                leader = self._elected()
                assert leader is not None
                leader.end("killed")
                dead.append(leader)
                cluster.clock.run_for(cluster.chance.randrange(1_000, 4_000))
            for each in dead[:-1]:
                each.start()
            self._serves("two of three are back")
        return self

    def run_moved(self) -> Partings:
        """A leader that only an operator replaces is parted from its followers: each other member of the set can be made to
        lead, so that the group serves. Raises HistoryError."""
        cluster = self.cluster
        with cluster.timeline.with_logs(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(cut_off.CutOff, "watch", lambda self: None)
            self._begin()
            for _ in range(ROUNDS):
                leader = cluster.leader()
                assert leader is not None
                cluster.net.blocked |= {(origin.host, to.host) for origin, to in self.followers(leader)}
                cluster.clock.run_for(cluster.chance.randrange(2_000, 6_000))
                self._move()
                self._serves("the move to a member")
                cluster.net.heal()
                self._wait("all replicas to be in sync", WHOLE_MS, self._is_whole)
        return self

    def run_joined(self) -> Partings:
        """A follower is parted from the leader alone, or was down, so that it is not in sync: an operator makes it lead in one
        step, and nothing is lost. Raises HistoryError."""
        cluster = self.cluster
        with cluster.timeline.with_logs():
            self._begin()
            for _ in range(ROUNDS):
                leader = cluster.leader()
                assert leader is not None
                self._order(self._left_out(leader, cluster.chance.choice(self._followers(leader))))
                self._serves("the move to a replica that was not in sync")
                cluster.net.heal()
                self._wait("all replicas to be in sync", WHOLE_MS, self._is_whole)
        return self

    def _followers(self, leader: StoreNode) -> list[StoreNode]:
        return [each for each in self.cluster.groups[0].stores if each is not leader]

    def _left_out(self, leader: StoreNode, follower: StoreNode) -> int:
        """The id of a follower that is parted from the leader, or was killed and begins again, and is not in sync."""
        assert follower.life is not None
        number, cluster = follower.life.own, self.cluster
        is_killed = cluster.chance.random() < 0.5
        if is_killed:
            follower.end("killed")
        else:
            cluster.net.blocked |= {(origin.host, to.host) for origin, to in between([leader], [follower])}
        self._wait(f"replica {number} to be left out", SERVICE_MS, lambda: not self._is_member(number))
        if is_killed:
            follower.start()
        return number

    def _order(self, replica: int) -> None:
        """`headgate cluster move`."""
        cluster, tool = self.cluster, OperatorTool(self.cluster)
        say: Callable[[str], None] = partial(cluster.timeline.note, "operator")
        try:
            moving.move(tool, cluster.groups[0].name, replica, MOVE_S, say, tool.sleep)
        except ConfigError as error:
            raise self._wrong(f"replica {replica} does not lead: {error}") from None
        self._wait(f"replica {replica} to lead", 2_000, lambda: self._leads(replica))

    def _is_member(self, replica: int) -> bool:
        found = self.cluster.checkers.group()
        return found is not None and replica in found.in_sync

    def _move(self) -> None:
        """What `headgate cluster move` does, with a member that the seed chooses."""
        found = self.cluster.checkers.group()
        assert found is not None
        others = [each.id for each in found.members if each.id != found.leader]
        if not others:
            raise self._wrong(f"nobody but replica {found.leader} may lead: {found}")
        wanted = self.cluster.chance.choice(others)
        self.cluster.timeline.note("operator", f"replica {wanted} should lead")
        change_group(self.cluster, ElectLeader(found.name, designated=wanted))
        self._wait(f"replica {wanted} to lead", 2_000, lambda: self._leads(wanted))

    def _leads(self, replica: int) -> bool:
        found = self.cluster.checkers.group()
        return found is not None and found.leader == replica

    def _elected(self) -> StoreNode | None:
        """The leader by the word of the controllers, while it runs."""
        found = self.cluster.checkers.group()
        stores = self.cluster.groups[0].stores
        lives = [each for each in stores if found is not None and each.life is not None and each.life.own == found.leader]
        return lives[0] if lives else None

    def _part(self, leader: StoreNode, kind: str, pairs: set[tuple[Machine, Machine]]) -> None:
        cluster = self.cluster
        cluster.timeline.note("weather", f"{leader.name} is parted: {kind}")
        began_ms = self._now_ms()
        cluster.net.blocked |= {(origin.host, to.host) for origin, to in pairs}
        if self._jolted:
            self._jolt(leader)
        self._serves(kind)
        cluster.clock.run_for(max(LEFT_MS - (self._now_ms() - began_ms), 0))
        if kind == "all_but_clients" and not (self._before or self._jolted) and leader.parts is not None:
            raise self._wrong(f"{leader.name} hears nobody and serves clients after {LEFT_MS} ms")

    def _jolt(self, leader: StoreNode) -> None:
        if self.cluster.net.blocked:
            leader.pause(JOLT_MS[1])
            self.cluster.after(JOLT_MS[0], lambda: self._jolt(leader))

    def _kill(self, leader: StoreNode) -> None:
        leader.end("killed")
        self._serves("the death after it")

    def _serves(self, what: str) -> None:
        before = [len(each.ledger.acknowledged) for each in self.nets]
        self._wait(
            f"messages at every gateway, after {what}", SERVICE_MS,
            lambda: all(len(net.ledger.acknowledged) >= had + ENOUGH for net, had in zip(self.nets, before, strict=True)),
        )  # fmt: skip

    def _wait(self, what: str, limit_ms: int, is_so: Callable[[], bool]) -> None:
        end_ms = self._now_ms() + limit_ms
        while not is_so():
            if self._now_ms() >= end_ms:
                raise self._wrong(f"{limit_ms} ms were not enough for {what}: {self.cluster.checkers.group()}")
            self.cluster.clock.run_for(50)

    def _wrong(self, what: str) -> HistoryError:
        self.cluster.timeline.note("checker", what)
        return HistoryError(what)

    def _now_ms(self) -> int:
        return self.cluster.clock.monotonic_ns() // 1_000_000

    def _is_whole(self) -> bool:
        return self.cluster.groups[0].is_whole()

    def _make_topic(self) -> None:
        made: list[object] = []
        topic = Topic(TOPIC, read_queues=2, write_queues=2, durability=Durability.REPLICATED_FLUSHED)
        self.cluster.groups[0].served.metadata.put_topic(topic, made.append)
        self._wait("a topic to be made", 5_000, lambda: made == [None])


def run(seed: int) -> Partings:
    """One run. Raises HistoryError."""
    return Partings(seed).run()


def run_before(seed: int) -> Partings:
    """One run with leaders of the version before. Raises HistoryError."""
    return Partings(seed, before=True).run()


def run_jolted(seed: int) -> Partings:
    """One run with leaders that stand still again and again while they are parted. Raises HistoryError."""
    return Partings(seed, stores=3, jolted=True).run()


def run_moved(seed: int) -> Partings:
    """One run in which an operator moves the leadership away from a parted leader. Raises HistoryError."""
    return Partings(seed, stores=3).run_moved()


def run_joined(seed: int) -> Partings:
    """One run in which an operator makes replicas lead that are not in sync. Raises HistoryError."""
    return Partings(seed, stores=3).run_joined()


def run_last(seed: int) -> Partings:
    """One run in which the last of three replicas dies. Raises HistoryError."""
    return Partings(seed, stores=3).run_last()
