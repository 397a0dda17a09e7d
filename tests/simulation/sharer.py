"""An MQTT client that is a member of a consumer group: its messages in flight are leased to it while it is connected."""

from __future__ import annotations

import random

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from protocols.mqtt.packet import Packet
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from tests.simulation.device import PUBACK, PUBCOMP, PUBREC, PUBREL, Device, Dial
from tests.simulation.ledger import Ledger
from tests.simulation.world import World

ALWAYS_MS = 1 << 60
HEARD_NS = 2 * SECOND_NS
"""An acknowledgement that was sent this long ago on a connection that is still open has been processed by the node."""


class Places:
    """Queue and offset of each message, by its body, which is unique."""

    def __init__(self, world: World, topic: str, queues: int) -> None:
        self._world = world
        self._topic = topic
        self._queues = queues
        self._kills = 0
        self._known: dict[str, str] = {}

    def of(self, body: str) -> str:
        """`queue/offset` of the message. Messages that were lost in a power failure are removed."""
        if self._kills != self._world.kills or body not in self._known:
            self._kills = self._world.kills
            self._known = {
                record.body.decode(): f"{record.queue_id}/{record.queue_offset}"
                for queue in self._world.stored(self._topic, self._queues)
                for record in queue
            }
        return self._known[body]


class Sharer(Device):
    """Subscribes to `$share/<group>/<topic>/#`, or another `pattern`, at `qos`, 1 or 2, with a persistent session."""

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger, topic: str, group: str, qos: int,
        places: Places, leases_survive: bool, pattern: str = "",
    ) -> None:  # fmt: skip
        super().__init__(name, clock, chance, dial, ledger)
        self._filter = f"$share/{group}/{pattern or f'{topic}/#'}"
        self._qos = qos
        self._places = places
        self._leases_survive = leases_survive
        self.subscribed = False
        self._life = 0
        self._held: set[int] = set()
        self.got: list[str] = []

    def resumed(self) -> None:
        self._life += 1
        if not self.subscribed:
            self.put(Subscribe(1, [(self._filter, self._qos)]))

    def lost(self) -> None:
        self._life += 1
        self.ledger.left(self.name)
        super().lost()

    def heard(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self.subscribed = True
        elif isinstance(packet, Publish):
            if packet.qos == 1:
                self._once_or_more(packet)
            elif packet.packet_id not in self._held:
                self._held.add(packet.packet_id)
                self._exactly_once(packet)
                self._later(Ack(PUBREC, packet.packet_id))
            else:
                self.put(Ack(PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self._held.discard(packet.packet_id)
            self.put(Ack(PUBCOMP, packet.packet_id))

    def _once_or_more(self, packet: Publish) -> None:
        name = self._take(packet)
        life = self._life
        after = self.clock.monotonic_ns() + self.chance.randrange(1, 300) * MILLISECOND_NS

        def settled() -> None:
            if life == self._life:
                self.ledger.settled.setdefault(name, self.clock.wall_ms())

        def acknowledge() -> None:
            if life == self._life:
                self.put(Ack(PUBACK, packet.packet_id))
                self.clock.call_at(self.clock.monotonic_ns() + HEARD_NS, settled)

        if self.chance.random() < 0.9:
            self.clock.call_at(after, acknowledge)

    def _exactly_once(self, packet: Publish) -> None:
        """QoS 2: a message that was delivered once must not be delivered again to any member."""
        name = self._take(packet)
        self.ledger.settled.setdefault(name, self.clock.wall_ms())

    def _take(self, packet: Publish) -> str:
        body = packet.body.decode()
        name = self._places.of(body)
        self.got.append(body)
        self.ledger.delivered(name, self.name, self.clock.wall_ms(), ALWAYS_MS, self._leases_survive)
        self.ledger.note(f"{self.clock.monotonic_ns()} {self.name} took {name} at QoS {packet.qos}")
        return name

    def _later(self, packet: Packet) -> None:
        life = self._life
        after = self.clock.monotonic_ns() + self.chance.randrange(0, 200) * MILLISECOND_NS
        self.clock.call_at(after, lambda: self.put(packet) if life == self._life else None)
