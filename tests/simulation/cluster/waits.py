"""How long clients wait for service after a fault, in virtual time: as the rounds with real processes measure it.

A sender at each gateway sends every EVERY_MS and never waits for an answer (tests/interop/replication/namespaces).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

from domain.limits import MILLISECOND_NS
from domain.topic.topic import Durability, Topic
from protocols.remoting import codes
from protocols.remoting.wire import frame
from tests.simulation.cluster.breaks import leading
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.gateway_node import GatewayNode
from tests.simulation.cluster.machine import Machine
from tests.simulation.kit.bugs import HistoryError
from tests.simulation.kit.network import between

EVERY_MS: Final = 50
SERVED_MS: Final = 30_000
"""Time after which a fault counts as one that never ends in service."""
WHOLE_MS: Final = 60_000
TOPIC: Final = "sent"


@final
class Sender:
    """Sends to one gateway, over one connection, which is made again when it has ended.

    acked   (when it was sent, when it was acknowledged) of each message, ms
    """

    def __init__(self, cluster: Cluster, gateway: GatewayNode) -> None:
        self.acked: list[tuple[int, int]] = []
        self._cluster = cluster
        self._gateway = gateway
        self._link: Any = None
        self._number = 0
        self._asked: dict[int, int] = {}

    def start(self) -> None:
        """Begin."""
        self._connect()
        self._send()

    def _connect(self) -> None:
        if self._gateway.running and self._gateway.side is not None:
            self._gateway.serve("remoting", self)
        else:
            self._cluster.after(EVERY_MS, self._connect)

    def connected(self, link: Any) -> None:
        """Party.connected."""
        self._link = link
        self._decoder = frame.FrameDecoder()

    def lost(self) -> None:
        """Party.lost."""
        self._link = None
        self._asked.clear()
        self._cluster.after(1, self._connect)

    def received(self, data: bytes) -> None:
        """Party.received."""
        for answer in self._decoder.feed(data):
            asked_ms = self._asked.pop(answer.opaque, None)
            if asked_ms is not None and answer.code == codes.SUCCESS:
                self.acked.append((asked_ms, now_ms(self._cluster)))

    def _send(self) -> None:
        self._cluster.after(EVERY_MS, self._send)
        if self._link is None:
            return
        self._number += 1
        self._asked[self._number] = now_ms(self._cluster)
        fields = {
            "a": "sim", "b": TOPIC, "c": "TBW102", "d": "1", "e": "-1", "f": "0", "g": "1", "h": "0", "i": "", "j": "0",
            "k": "false", "m": "false",
        }  # fmt: skip
        self._link.send(frame.encode(codes.SEND_V2, self._number, fields=fields, body=b"%d" % self._number))

    def served_ms(self, since_ms: int) -> int | None:
        """From a moment to the first acknowledgement of what was sent afterwards; None: there is none yet."""
        found = [answered_ms for asked_ms, answered_ms in self.acked if asked_ms >= since_ms]
        return min(found) - since_ms if found else None

    def longest_ms(self, since_ms: int) -> int:
        """The longest wait at a moment since then: the one at `since_ms`, or just after a message that was acknowledged."""
        moments = [since_ms, *(asked_ms + 1 for asked_ms, _ in self.acked if asked_ms >= since_ms)]
        return max(wait_ms for each in moments if (wait_ms := self.served_ms(each)) is not None)


def now_ms(cluster: Cluster) -> int:
    """True time."""
    return cluster.clock.monotonic_ns() // MILLISECOND_NS


@final
class Waits:
    """A cluster of three stores, three controllers and two gateways, and its senders."""

    def __init__(self, seed: int) -> None:
        Cluster.made.clear()
        self.cluster = Cluster(seed, gateways=2)
        self._senders = {each: Sender(self.cluster, each) for each in self.cluster.gateways}

    def kill_leader_and_controller(self) -> int:
        """The longest wait at a gateway when the leader and the controller that leads die together, ms."""
        with self._begun() as cluster:
            controller = next(each for each in cluster.controllers if each.host == leading(cluster))
            for each in (self._leader(), controller):
                each.end("killed")
            return self._longest_ms(cluster.gateways)

    def fill_disk_of_leader(self) -> int:
        """The longest wait at a gateway when the disk of the leader is full, ms."""
        with self._begun() as cluster:
            leader = self._leader()
            leader.note("the disk is full")
            leader.disk.capacity = 1
            return self._longest_ms(cluster.gateways)

    def part_halves(self, for_ms: int) -> tuple[int, int]:
        """The network is parted into halves for a time, with the leader, a controller and a gateway on the small side -> the
        longest wait meanwhile at the other gateway, and the longest one at either afterwards, ms."""
        with self._begun() as cluster:
            chance = cluster.chance
            small: list[Machine] = [self._leader(), chance.choice(cluster.controllers), chance.choice(cluster.gateways)]
            others = [each for each in cluster.machines if each not in small]
            cluster.timeline.note("weather", f"{', '.join(each.name for each in small)} are parted from the others")
            cluster.net.blocked |= {(origin.host, to.host) for origin, to in between(small, others)}
            meanwhile_ms = self._longest_ms([each for each in cluster.gateways if each not in small], for_ms)
            cluster.net.heal()
            cluster.timeline.note("weather", "the network is whole")
            return meanwhile_ms, self._longest_ms(cluster.gateways)

    def _leader(self) -> Machine:
        found = self.cluster.leader()
        assert found is not None
        return found

    def _longest_ms(self, gateways: Sequence[GatewayNode], for_ms: int = 0) -> int:
        """The longest wait at one of these gateways from now on, for some time at least and until each of them serves."""
        cluster, since_ms = self.cluster, now_ms(self.cluster)
        cluster.clock.run_for(for_ms)
        senders, later_ms = [self._senders[each] for each in gateways], now_ms(cluster)
        self._wait(SERVED_MS, "service", lambda: all(each.served_ms(later_ms) is not None for each in senders))
        return max(each.longest_ms(since_ms) for each in senders)

    def _wait(self, limit_ms: int, what: str, is_so: Callable[[], bool]) -> None:
        end_ms = now_ms(self.cluster) + limit_ms
        while not is_so():
            if now_ms(self.cluster) >= end_ms:
                self.cluster.timeline.note("checker", f"no {what}")
                raise HistoryError(f"no {what} after {limit_ms} ms: {self.cluster.checkers.group()}")
            self.cluster.clock.run_for(EVERY_MS)

    @contextmanager
    def _begun(self) -> Iterator[Cluster]:
        """All is well, and the senders send."""
        cluster = self.cluster
        with cluster.timeline.with_logs():
            cluster.start()
            self._wait(WHOLE_MS, "whole group", cluster.groups[0].is_whole)
            made: list[object] = []
            topic = Topic(TOPIC, read_queues=2, write_queues=2, durability=Durability.REPLICATED_FLUSHED)
            cluster.groups[0].served.metadata.put_topic(topic, made.append)
            self._wait(WHOLE_MS, "topic", lambda: made == [None])
            for each in self._senders.values():
                each.start()
            cluster.clock.run_for(1_000 + cluster.chance.randrange(1_000))
            yield cluster
