"""A client of paho that is connected: what it subscribes to, what has arrived, and what it publishes."""

from __future__ import annotations

from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.interop.node import Ports
from tests.patience import until

WAIT_S: Final = 30.0


class PahoClient:
    """One client with a new session, which ends with its connection. `filters`: subscribed to at QoS 1.

    got      messages that have arrived and that `next` has not returned
    client   paho's own
    """

    def __init__(self, node: Ports, name: str, *filters: str, version: MQTTProtocolVersion = paho.MQTTv5) -> None:
        self.got: list[paho.MQTTMessage] = []
        self._answers: dict[int, int] = {}
        self._subscribed = False
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version)
        self.client.on_message = lambda _client, _data, message: self.got.append(message)
        self.client.on_subscribe = self._note_subscribed
        self.client.on_publish = self._note_published
        self.client.connect("127.0.0.1", node.port("mqtt"))
        self.client.loop_start()
        until(self.client.is_connected, WAIT_S)
        if filters:
            self.client.subscribe([(each, 1) for each in filters])
            until(lambda: self._subscribed, WAIT_S)

    def _note_subscribed(self, *_: object) -> None:
        self._subscribed = True

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

    def leave(self) -> None:
        """Send DISCONNECT."""
        self.client.disconnect()
        self.client.loop_stop()
