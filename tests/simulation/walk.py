"""Traces one message through a node: an MQTT PUBLISH, a gRPC receive that waits for it, its acknowledgement.

    python -m tests.simulation.walk          prints every called function of the project, in order: `file.py Class.method`

Only pure modules can be traced: run with HEADGATE_PURE=1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from domain.limits import MQTT_PACKET_BYTES_MAX
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connack, Connect
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from tests.simulation.kit.links import Link
from tests.simulation.simple import Receiver
from tests.simulation.world import World

ROOT = Path(__file__).resolve().parents[2]
OURS = ("gateway", "protocols", "store")
V311 = 4


class Sensor:
    """An MQTT 3.1.1 client that publishes one message at QoS 1."""

    def __init__(self) -> None:
        self.acknowledged = False
        self._decoder = Decoder(MQTT_PACKET_BYTES_MAX, V311, client=True)
        self._link: Link | None = None

    def connected(self, link: Link) -> None:
        self._link = link
        self._put(Connect(V311, "sensor", True, 60, None, None, None, NONE))

    def lost(self) -> None:
        raise AssertionError("nothing ends this connection")

    def received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            self.acknowledged = not isinstance(packet, Connack)

    def publish(self, topic: str, body: bytes) -> None:
        """Send PUBLISH with packet identifier 1."""
        self._put(Publish(topic.encode(), body, 1, False, False, 1, NONE))

    def _put(self, packet: Packet) -> None:
        assert self._link is not None
        self._link.send(encode(packet, V311))


def steps() -> list[str]:
    """`file.py Class.method` of each call inside `gateway`, `protocols` and `store`, in order."""
    world = World.started(1)
    sensor = Sensor()
    world.dial("mqtt", sensor)
    receiver = Receiver(world, "app", "shop", "sensors", pb.SIMPLE_CONSUMER)
    world.clock.run_for(1_000)
    sensor.publish("sensors/room1/temp", b"20.0")  # topic and group are made by the first message and the first receive
    world.clock.run_for(1_000)
    for message in receiver.receive():
        receiver.ack(message)

    entered: list[str] = []

    def enter(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in OURS:
                entered.append(f"{path.relative_to(ROOT)} {frame.f_code.co_qualname}")

    sensor.acknowledged = False
    world.clock.call_at(world.clock.monotonic_ns() + 500_000_000, lambda: sensor.publish("sensors/room1/temp", b"21.5"))
    sys.setprofile(enter)
    try:
        messages = receiver.receive()
        settled = [receiver.ack(message) for message in messages]
    finally:
        sys.setprofile(None)
    assert [message.body for message in messages] == [b"21.5"]
    assert settled == [pb.OK]
    assert sensor.acknowledged
    return entered


if __name__ == "__main__":
    print("\n".join(steps()))
