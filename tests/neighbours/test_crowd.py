"""Thousands of MQTT clients at one node, over its real connections: what one of them does costs the same however many.

The costs are instructions of Python's machine in the node's turns (`tests/instructions.py`). `make soak` takes SOAK_CLIENTS
(50,000) clients.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from gateway.runtime.compiled import in_use
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe, Unsubscribe
from tests.instructions import instructions
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream

V311: Final = 4
PUBACK: Final = 4
FEW: Final = 300
MANY: Final = int(os.environ.get("SOAK_CLIENTS", "50000")) if "SOAK" in os.environ else 5_000
TURNS: Final = 30
"""Turns in which the node does all that follows from one packet."""
HOST_CLIENTS: Final = 5_000
pytestmark = pytest.mark.skipif(bool(in_use()), reason="instructions of compiled modules are not seen")


class Device:
    """One client, a member of a shared subscription and with a subscription of its own."""

    def __init__(self, node: SharedNode, number: int) -> None:
        self.number = number
        self.stream: PeerStream = node.connect("mqtt", f"10.{1 + number // HOST_CLIENTS}.0.1")
        self.subscribed = False
        self.decoder = Decoder(1 << 20, V311, client=True)
        self.send(Connect(V311, f"device-{number}", True, 0, None, None, None, NONE))
        self.send(Subscribe(1, [(f"cmd/{number}/#", 1), ("$share/g/jobs/#", 1)]))

    def send(self, packet: Packet) -> None:
        self.stream.send(encode(packet, V311))

    def took(self) -> list[Packet]:
        """Packets that have come since the last call."""
        data = bytes(self.stream.received)
        self.stream.received.clear()
        return self.decoder.feed(data)


class Crowd:
    """A node and its clients."""

    def __init__(self, node: SharedNode) -> None:
        self.node = node
        self.devices: list[Device] = []
        self.source = node.connect("mqtt", "10.0.0.9")
        self.source.send(encode(Connect(V311, "source", True, 0, None, None, None, NONE), V311))
        self.number = 0

    def grow(self, count: int) -> None:
        """Connect clients until there are `count`, and let the node answer all."""
        while len(self.devices) < count:
            self.devices.append(Device(self.node, len(self.devices)))
            if len(self.devices) % 128 == 0:
                self.node.turn()
        waiting = [each for each in self.devices if not each.subscribed]
        for _ in range(100 + count):
            self.node.turn()
            waiting = [each for each in waiting if not any(isinstance(packet, Suback) for packet in each.took())]
            if not waiting:
                break
        assert not waiting
        for each in self.devices:
            each.subscribed = True

    def cost(self, stream: PeerStream, data: bytes, *others: PeerStream) -> int:
        """Instructions of the turns in which the node does what follows from bytes of one client."""
        stream.send(data)
        clock, found = self.node.clock, 0

        def turn() -> None:
            for each in (stream, *others):
                each.poll()
            clock.run_due()
            clock.run_soon()

        for _ in range(TURNS):
            clock.advance()
            found += instructions(turn)
        return found

    def connect(self, newcomer: Device) -> int:
        """The cost of a new connection with its session and its subscriptions."""
        stream = newcomer.stream
        self.node._opening.remove(stream)
        return instructions(stream.open) + self.cost(stream, b"")

    def publish(self, topic: str) -> int:
        """The cost of a message."""
        self.number += 1
        return self.cost(
            self.source, encode(Publish(topic.encode(), b"x", 1, False, False, self.number % 60_000 + 1, NONE), V311)
        )

    def receiver(self) -> tuple[Device, int]:
        """(the client that has got a message, its packet identifier)."""
        for _ in range(40):
            self.node.turn()
        found = [(each, packet) for each in self.devices if each.stream.received for packet in each.took()]
        [(device, packet)] = found
        assert isinstance(packet, Publish)
        return device, packet.packet_id

    def figures(self) -> dict[str, int]:
        """The least cost of each of three events of a kind."""
        found: dict[str, list[int]] = {}
        for at in (3, 5, 8):
            for kind, topic in (("own", f"cmd/{at}/x"), ("shared", "jobs/x"), ("shared, another path", f"jobs/{self.number}")):
                found.setdefault(kind, []).append(self.publish(topic))
                device, packet_id = self.receiver()
                answered = self.cost(device.stream, encode(Ack(PUBACK, packet_id), V311))
                found.setdefault(f"answer, {kind}", []).append(answered)
            stream = self.devices[at].stream
            found.setdefault("leave", []).append(self.cost(stream, encode(Unsubscribe(7, ["$share/g/jobs/#"]), V311)))
            joined = self.cost(stream, encode(Subscribe(8, [("$share/g/jobs/#", 1)]), V311))
            found.setdefault("join", []).append(joined)
            self.devices[at].took()
            newcomer = Device(self.node, len(self.devices) + 100)
            found.setdefault("connect", []).append(self.connect(newcomer))
            newcomer.stream.hang_up(reset=True)
            found.setdefault("lost", []).append(self.cost(newcomer.stream, b""))
        return {kind: min(costs) for kind, costs in found.items()}


def test_what_one_client_costs_does_not_grow_with_the_others() -> None:
    with SharedNode(measures=False) as node:
        crowd = Crowd(node)
        crowd.grow(FEW)
        few = crowd.figures()
        crowd.grow(MANY)
        many = crowd.figures()
    assert {kind: (few[kind], many[kind]) for kind in few if many[kind] > few[kind] * 1.2 + 200} == {}
