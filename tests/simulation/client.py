"""A blocking MQTT client, by default of version 5; it connects only when it is told to."""

from __future__ import annotations

from typing import TypeVar

from domain.limits import MQTT_PACKET_BYTES_MAX
from protocols.mqtt import property as props
from protocols.mqtt.connect import Connack, Connect, Disconnect, Will
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from tests.simulation.kit.links import Link
from tests.simulation.world import World

P = TypeVar("P", bound=Packet)
V311, V5 = 4, 5
PUBACK = 4
NEVER_S = 0xFFFFFFFF


def numbers(**values: int) -> Properties:
    """MQTT properties by the names of `protocols.mqtt.property` in lower case."""
    found = Properties()
    for name, value in values.items():
        found.numbers[getattr(props, name.upper())] = value
    return found


class MqttClient:
    """One client id.

    taken      messages that were published to the client; each was acknowledged on arrival
    user       user name of CONNECT; "": no credentials
    """

    user: str | None = None
    password: bytes | None = None

    def __init__(self, world: World, name: str, version: int = V5) -> None:
        self.world, self.name, self.version = world, name, version
        self.link: Link | None = None
        self.taken: list[Publish] = []
        self._heard: list[Packet] = []
        self._next_id = 0

    def connected(self, link: Link) -> None:
        self.link = link
        self._decoder = Decoder(MQTT_PACKET_BYTES_MAX, self.version, client=True)

    def lost(self) -> None:
        self.link = None

    def received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            if isinstance(packet, Publish):
                self.arrived(packet)
                if packet.qos == 1:
                    self.put(Ack(PUBACK, packet.packet_id))
            else:
                self._heard.append(packet)

    def arrived(self, packet: Publish) -> None:
        """A message was published to the client."""
        self.taken.append(packet)

    def put(self, packet: Packet) -> None:
        """Send one packet."""
        assert self.link is not None
        self.link.send(encode(packet, self.version))

    def ask(self, packet: Packet, *kinds: type[Packet]) -> Packet | None:
        """Send a packet -> the one answer of these kinds; None: the node has closed the connection."""
        self._heard.clear()
        self.put(packet)
        self.world.clock.run_until(lambda: self.link is None or any(isinstance(each, kinds) for each in self._heard), 10_000)
        found = [each for each in self._heard if isinstance(each, kinds)]
        assert len(found) < 2, found
        return found[0] if found else None

    def answers(self, kind: type[P]) -> list[P]:
        """The packets of a kind that have come, messages apart, since the last question."""
        return [each for each in self._heard if isinstance(each, kind)]

    def connect(self, clean: bool = False, expiry_s: int = NEVER_S, will: Will | None = None) -> bool:
        """Connect. Returns whether the node has resumed a session."""
        self.world.dial("mqtt", self)
        about = numbers(session_expiry=expiry_s) if self.version == V5 else NONE
        found = self.ask(Connect(self.version, self.name, clean, 0, will, self.user, self.password, about), Connack)
        assert isinstance(found, Connack)
        assert found.code == 0
        return found.present

    def subscribe(self, pattern: str, qos: int = 1) -> None:
        """Subscribe, and wait for the answer."""
        self._next_id += 1
        found = self.ask(Subscribe(self._next_id, [(pattern, qos)]), Suback)
        assert isinstance(found, Suback)
        assert found.codes == bytes([qos])

    def publish(self, topic: str, body: bytes, retain: bool = False, expiry_s: int = 0) -> None:
        """Publish at QoS 1, and wait for the acknowledgement."""
        self._next_id += 1
        about = numbers(message_expiry=expiry_s) if expiry_s else Properties()
        assert self.ask(Publish(topic.encode(), body, 1, retain, False, self._next_id, about), Ack) is not None

    def leave(self, expiry_s: int | None = None) -> None:
        """Send DISCONNECT, with a new session expiry if one is given."""
        self.put(Disconnect(0, Properties() if expiry_s is None else numbers(session_expiry=expiry_s)))
        self.world.clock.run_for(50)
        self.drop()

    def drop(self) -> None:
        """Break the connection."""
        if self.link is not None:
            self.link.reset()

    def take(self) -> list[bytes]:
        """Wait a moment. Returns the bodies that have arrived since the last call."""
        self.world.clock.run_for(200)
        taken, self.taken = self.taken, []
        return [packet.body for packet in taken]
