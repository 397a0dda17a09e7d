"""A client of paho that is connected: what it subscribes to, what has arrived, and what it publishes."""

from __future__ import annotations

from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.node import Ports
from tests.patience import until

WAIT_S: Final = 30.0


class PahoClient:
    """One client. `filters`: subscribed to at QoS 1.

    got          messages that have arrived and that `next` has not returned
    lost         the end of each of its connections
    subscribed   reason codes of each SUBACK
    client       paho's own
    """

    def __init__(
        self, node: Ports, name: str, *filters: str, version: MQTTProtocolVersion = paho.MQTTv5, expiry_s: int = 0,
        clean: bool = True, will: tuple[str, bytes] | None = None, port: str = "mqtt",
    ) -> None:  # fmt: skip
        """`expiry_s` and `clean`: of its session, in MQTT 5; `will`: (topic, payload), of QoS 1; `port`: the listener."""
        self.got: list[paho.MQTTMessage] = []
        self.lost: list[object] = []
        self.subscribed: list[Any] = []
        self._answers: dict[int, int] = {}
        terms: dict[str, Any] = {}
        if version == paho.MQTTv5:
            terms = {"clean_start": clean, "properties": Properties(PacketTypes.CONNECT)}  # type: ignore[no-untyped-call]
            terms["properties"].SessionExpiryInterval = expiry_s
        transport: Any = "websockets" if port == "websocket" else "tcp"
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, transport=transport)
        self.client.on_message = lambda _client, _data, message: self.got.append(message)
        self.client.on_subscribe = lambda _client, _data, _id, codes, _properties: self.subscribed.append(codes)
        self.client.on_publish = self._note_published
        self.client.on_disconnect = lambda *_: self.lost.append(1)
        if will is not None:
            self.client.will_set(*will, qos=1)
        self.client.connect("127.0.0.1", node.port(port), **terms)
        self.client.loop_start()
        until(self.client.is_connected, WAIT_S)
        if filters:
            self.client.subscribe([(each, 1) for each in filters])
            until(lambda: bool(self.subscribed), WAIT_S)
            assert all(not code.is_failure for code in self.subscribed[0])

    def _note_published(self, _client: object, _data: object, packet_id: int, reason: Any, _properties: object) -> None:
        self._answers[packet_id] = reason.value

    def next(self) -> paho.MQTTMessage:
        """The oldest message, as soon as there is one."""
        until(lambda: bool(self.got), WAIT_S)
        return self.got.pop(0)

    def publish(self, topic: str, body: bytes, qos: int = 1, retain: bool = False, properties: Any = None) -> int:
        """Publish, and wait for the answer -> its reason code."""
        packet_id = self.client.publish(topic, body, qos, retain, properties).mid
        until(lambda: packet_id in self._answers, WAIT_S)
        return self._answers.pop(packet_id)

    def bodies(self) -> list[bytes]:
        """The bodies of `got`."""
        return [bytes(message.payload) for message in self.got]

    def until(self, *wanted: bytes) -> None:
        """Wait until it has these bodies, in any order."""
        until(lambda: set(wanted) <= set(self.bodies()), WAIT_S, lambda: str(self.bodies()))

    def leave(self) -> None:
        """Send DISCONNECT."""
        self.client.disconnect()
        self.client.loop_stop()
