"""One run: a node, its disk and network, clients, and faults at times that the seed determines."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, ClassVar, cast

from domain.errors import Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.message.record import Record
from domain.store.store_event import StoreEvent, StoreEventKind
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.node.composition import Parts, StorePlace, compose
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from gateway.runtime.datagrams.pump import DatagramPump
from tests.place import place_of
from tests.simulation.gateways import SimulatedGateways
from tests.simulation.kit.clock import ProcessClock, VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy
from tests.simulation.kit.links import DatagramLink, Link, Party
from tests.simulation.ledger import Ledger, Traced

PORTS = {"nameserver": 9876, "remoting": 10911, "grpc": 8081, "http": 8080, "mqtt": 1883, "coap": 5683, "admin": 8088}


class World:
    """A node that can be killed and started again, and the links to it."""

    made: ClassVar[list[World]] = []
    """The worlds of the running test, for the report of a failure."""
    gateways_before: ClassVar[int] = 0
    """Gateways before the node of a world that does not say how many it has; 0: clients connect to the node."""

    def __init__(self, seed: int, config: Config | None = None, gateways: int | None = None) -> None:
        """`config`: None stands for the defaults. `gateways`: None for `gateways_before`."""
        self.made.append(self)
        self.seed = seed
        self.config = config or Config()
        self.chance = random.Random(seed)
        self.clock = VirtualClock()
        self.ledger = Ledger()
        self.disk = MemoryDisk(self.clock, sync_ms=self.chance.choice((0.2, 1.0, 8.0)))
        self.life: ProcessClock | None = None
        self.parts: Parts | None = None
        self.kills = 0
        self.events: list[StoreEvent] = []
        count = self.gateways_before if gateways is None else gateways
        loss = self.chance.choice((0.0, 0.001, 0.01)) if count else 0.0
        self.gateways = SimulatedGateways(self.clock, self.ledger, self.chance, count, loss) if count else None
        self._connection_context: ConnectionContext | None = None
        self._links: list[Link | DatagramLink] = []
        self._port = 20_000

    @classmethod
    def started(cls, seed: int, config: Config | None = None, gateways: int | None = None) -> World:
        """A world whose node is up; the arguments are those of World."""
        world = cls(seed, config, gateways)
        world.start()
        return world

    def start(self) -> None:
        """Compose a node with the files on the disk."""
        self.life = ProcessClock(self.clock)
        disk = self.disk = self.disk.killed(self.life)
        place = place_of(self.config, PORTS, "10.0.0.1", self.life, SeededEntropy(self.chance))
        self.parts = compose(place, StorePlace(disk, 1 << 30, self._heard))
        self._connection_context = ConnectionContext(
            Traced(self.clock, self.ledger, self.parts.gate), self.life, CounterRegistry(), ConnectionLimits(10_000),
            unfinished_bytes=self.parts.unfinished_bytes,
        )  # fmt: skip
        if self.gateways is not None:
            self.gateways.start(self.parts)
        self.ledger.note(f"{self.clock.monotonic_ns()} node up")

    def _heard(self, event: StoreEvent) -> None:
        """An event of the store: no callback may raise."""
        self.events.append(event)
        if event.kind is StoreEventKind.FAULT and event.error is not None:
            raise event.error

    def dial(self, protocol: str, party: Party) -> None:
        """Connect `party`. While the node is down, `party` is told at once that the link is lost, and tries again."""
        parts, connection_context, links = self.parts, self._connection_context, self._links
        if parts is not None and self.gateways is not None:
            gateway = self.gateways.pick()
            connection_context, links = (gateway.context, gateway.links) if gateway is not None else (None, [])
        if parts is None or connection_context is None:
            self.clock.call_at(self.clock.monotonic_ns() + 50 * MILLISECOND_NS, party.lost)
            return
        self._port += 1
        if protocol in parts.adapters.datagrams:
            datagrams = DatagramLink(self.clock, self.chance, party, self._port)
            endpoint = parts.adapters.datagrams[protocol].bind(0)
            loop = cast(asyncio.AbstractEventLoop, datagrams)
            DatagramPump(connection_context, [cast(Any, datagrams)], endpoint, protocol, loop).open()
            links.append(datagrams)
            party.connected(datagrams)
            return
        link = Link(
            self.clock,
            self.chance,
            Pump(connection_context, protocol, parts.adapters.streams[protocol].connect),
            party,
            self._port,
        )
        links.append(link)
        link.start()

    def again(self, power: bool = False, away_ms: float = 20) -> None:
        """Kill the node, start it after `away_ms`, and wait until its clients have connected."""
        self.kill(power)
        self.clock.run_for(away_ms)
        self.start()
        self.clock.run_for(300)

    def disturb(self, faults: str) -> None:
        """Kill the node and start it again, by a power failure for "power"; nothing for "none"."""
        if faults != "none":
            self.again(power=faults == "power")

    def kill(self, power: bool) -> None:
        """Kill the node as by kill -9, or by a power failure, after which any of the un-synced pages and names may remain."""
        assert self.life is not None
        self.life.alive = False
        self.parts = self._connection_context = None
        self.kills += 1
        self.ledger.note(f"{self.clock.monotonic_ns()} {'power off' if power else 'killed'}")
        if power:
            self.disk = self.disk.powered_off(self.life, chance=self.chance)
        if self.gateways is not None:
            self.gateways.kill_all()
        links, self._links = self._links, []
        for link in links:
            link.vanish()

    def reset_some(self) -> None:
        """Break each link with one chance in three."""
        self._links = [link for link in self._links if link.open]
        for link in list(self._links):
            if self.chance.random() < 0.33:
                link.reset()

    def schedule_faults(self, until_s: float, power: bool) -> None:
        """Kills with a pause before the next start, and resets of links, until `until_s`."""

        def at(seconds: float, action: Callable[[], None]) -> None:
            self.clock.call_at(int(seconds * SECOND_NS), action)

        moment = 0.0
        while True:
            moment += self.chance.uniform(0.3, 4.0)
            if moment > until_s:
                return
            if self.chance.random() < 0.4:
                at(moment, lambda: self.kill(power) if self.parts is not None else None)
                moment += self.chance.uniform(0.05, 1.5)
                at(moment, lambda: self.start() if self.parts is None else None)
            elif self.gateways is not None and self.chance.random() < 0.5:
                at(moment, lambda: self.gateways.kill_one(lambda: self.parts))  # type: ignore[union-attr]
            else:
                at(moment, self.reset_some)

    def endure(self, faults_s: float, power: bool) -> None:
        """Have faults for `faults_s` seconds from now on, and two seconds without; the node is up afterwards."""
        self.schedule_faults(self.clock.monotonic_ns() / SECOND_NS + faults_s, power)
        self.clock.run_for(faults_s * 1_000 + 2_000)
        if self.parts is None:
            self.start()

    def is_consumed(self, group: str, topic: str, queues: int) -> bool:
        """True when the position of the group is the end of each of the first `queues` queues."""
        return all(self.position(group, topic, queue) == self.end(topic, queue) for queue in range(queues))

    def position(self, group: str, topic: str, queue_id: int) -> int:
        """The group's position in a queue, 0 when it has none."""
        assert self.parts is not None
        found: list[int | Failure] = []
        self.parts.store.positions.offset(group, topic, queue_id, found.append)
        return found[0] if isinstance(found[0], int) else 0

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first and the next offset of a queue."""
        assert self.parts is not None
        found: list[tuple[int, int] | Failure] = []
        self.parts.store.log.bounds(topic, queue_id, found.append)
        return found[0] if isinstance(found[0], tuple) else (0, 0)

    def end(self, topic: str, queue_id: int) -> int:
        """The next offset of a queue."""
        return self.bounds(topic, queue_id)[1]

    def stored(self, topic: str, queues: int) -> list[list[Record]]:
        """All readable records of `topic`, by queue."""
        assert self.parts is not None
        found: list[list[Record]] = []
        for queue_id in range(queues):
            records: list[Record] = []
            first, _ = self.bounds(topic, queue_id)
            while True:
                results: list[ReadResult] = []
                next_offset = records[-1].queue_offset + 1 if records else first
                self.parts.store.log.read(ReadRequest(topic, queue_id, next_offset, 100, 1 << 20), results.append)  # type: ignore[arg-type]
                if results[0].status != "FOUND":
                    break
                records.extend(Record(record) for record in results[0].records)
            found.append(records)
        return found
