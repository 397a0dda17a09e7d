"""MQTT 3.1.1 clients with persistent sessions: publishers and subscribers that keep their state in flight over reconnects."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from domain.limits import MILLISECOND_NS, MQTT_PACKET_BYTES_MAX
from domain.ports import Clock
from protocols.mqtt.connect import Connack, Connect
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from tests.simulation.kit.links import Link
from tests.simulation.ledger import Ledger

V311 = 4
PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7
WINDOW = 8
Dial = Callable[["Device"], None]


class Device:
    """A client that connects again whenever its link is lost, with the same session.

    pause_ms   pause between an answer and the next message, at most
    """

    pause_ms = 30

    def __init__(self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger) -> None:
        self.name = name
        self.clock = clock
        self.chance = chance
        self.ledger = ledger
        self._dial = dial
        self._decoder = Decoder(MQTT_PACKET_BYTES_MAX, V311, client=True)
        self._attached = False
        self.link: Link | None = None

    def start(self) -> None:
        """Connect now, or as soon as the node is up."""
        self._dial(self)

    def connected(self, link: Link) -> None:
        self.link = link
        self._decoder = Decoder(MQTT_PACKET_BYTES_MAX, V311, client=True)
        self.put(Connect(V311, self.name, False, 60, None, None, None, NONE))

    def lost(self) -> None:
        self.link = None
        self.clock.call_at(self.clock.monotonic_ns() + self.chance.randrange(1, 200) * MILLISECOND_NS, self.start)

    def received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            if isinstance(packet, Connack):
                if packet.code:
                    continue  # refused: the connection ends
                if self._attached and not packet.present:
                    self.ledger.faults.append(f"{self.name}: the session is gone")
                self._attached = True
                self.resumed()
            else:
                self.heard(packet)

    def put(self, packet: Packet) -> None:
        """Send one packet, if there is a link."""
        if self.link is not None:
            self.link.send(encode(packet, V311))

    def resumed(self) -> None:
        raise NotImplementedError

    def heard(self, packet: Packet) -> None:
        raise NotImplementedError


@dataclass(slots=True)
class Flight:
    """One message in flight. `released`: PUBREC has arrived, so only PUBREL may be sent (MQTT 3.1.1, 4.3.3)."""

    packet_id: int
    body: str
    qos: int
    released: bool = False


class Sensor(Device):
    """Publishes `count` messages at QoS 1 or 2 in order, and repeats each until it is acknowledged.

    packet_ids   packet identifiers that it uses, from 1 on, before it uses the first one again
    window       messages that it has in flight, fewer than packet identifiers
    """

    packet_ids = 65_535
    window = WINDOW

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger, qos: int, count: int
    ) -> None:
        super().__init__(name, clock, chance, dial, ledger)
        self._qos = qos
        self._left = [f"{name}/{number}" for number in range(count)]
        self._flying: dict[int, Flight] = {}
        self._next_id = 0

    @property
    def done(self) -> bool:
        """All messages are acknowledged."""
        return not self._left and not self._flying

    def resumed(self) -> None:
        for flight in self._flying.values():
            self._send(flight, dup=True)
        self._go_on()

    def _go_on(self) -> None:
        while self._left and len(self._flying) < self.window and self.link is not None:
            self._next_id = self._next_id % self.packet_ids + 1
            if self._next_id in self._flying:
                continue
            flight = Flight(self._next_id, self._left.pop(0), self._qos)
            self._flying[flight.packet_id] = flight
            self._send(flight, dup=False)

    def _send(self, flight: Flight, dup: bool) -> None:
        if flight.released:
            self.put(Ack(PUBREL, flight.packet_id))
        else:
            topic = f"dev/{self.name}".encode()
            self.put(Publish(topic, flight.body.encode(), flight.qos, False, dup, flight.packet_id, NONE))

    def heard(self, packet: Packet) -> None:
        if not isinstance(packet, Ack):
            return
        flight = self._flying.get(packet.packet_id)
        if flight is None:
            return
        if packet.kind == PUBREC:
            flight.released = True
            self.put(Ack(PUBREL, packet.packet_id))
            return
        del self._flying[packet.packet_id]
        self.ledger.acknowledged[flight.body] = self.clock.monotonic_ns()
        self.ledger.note(f"{self.clock.monotonic_ns()} {self.name} published {flight.body}")
        self.clock.call_at(self.clock.monotonic_ns() + self.chance.randrange(1, self.pause_ms) * MILLISECOND_NS, self._go_on)


class Listener(Device):
    """Subscribes to `dev/#` at QoS 2 and counts messages; at QoS 2 each packet identifier once until its PUBREL."""

    def __init__(self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger) -> None:
        super().__init__(name, clock, chance, dial, ledger)
        self._held: set[int] = set()
        self.ready = False
        self.taken: list[tuple[str, int]] = []

    def resumed(self) -> None:
        if not self.ready:
            self.put(Subscribe(1, [("dev/#", 2)]))

    def heard(self, packet: Packet) -> None:
        if isinstance(packet, Suback):
            self.ready = True
        elif isinstance(packet, Publish):
            after = self.chance.randrange(0, 40) * MILLISECOND_NS
            if packet.qos == 1:
                self._take(packet)
                self.clock.call_at(self.clock.monotonic_ns() + after, lambda: self.put(Ack(PUBACK, packet.packet_id)))
            elif packet.qos == 2:
                if packet.packet_id not in self._held:
                    self._held.add(packet.packet_id)
                    self._take(packet)
                self.put(Ack(PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self._held.discard(packet.packet_id)
            self.put(Ack(PUBCOMP, packet.packet_id))

    def _take(self, packet: Publish) -> None:
        self.taken.append((packet.body.decode(), packet.qos))
        self.ledger.note(f"{self.clock.monotonic_ns()} {self.name} took {packet.body.decode()}")
