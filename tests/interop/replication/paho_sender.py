"""A session of paho that stays, publishes with QoS 1, and connects again by itself."""

from __future__ import annotations

import threading
import time

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.node import Node
from tests.interop.rocketmq.failover.recovery import Acknowledged

JOIN_S = 60.0


class PahoSender:
    """Publishes one message after the other; paho repeats what was not acknowledged.

    sent  as `Senders.sent`
    """

    def __init__(self, gateway: Node, topic: str, pause_s: float) -> None:
        self._acknowledged: list[Acknowledged] = []
        self.sent = {"MQTT QoS 1, connected again by paho": self._acknowledged}
        self._topic = topic
        self._pause_s = pause_s
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"sender of {topic}", clean_session=False)
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", gateway.port("mqtt"))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def start(self) -> None:
        """Begin."""
        self._client.loop_start()
        self._thread.start()

    def end(self) -> None:
        """Send no more."""
        self._ended.set()

    def stop(self) -> None:
        """Send no more, and end the connection."""
        self.end()
        self._thread.join(JOIN_S)
        self._client.disconnect()
        self._client.loop_stop()

    def each_has_sent_since(self, since_s: float, count: int) -> bool:
        """As `Senders.each_has_sent_since`."""
        return len(self._acknowledged) >= count and self._acknowledged[-count].asked_s >= since_s

    def _send(self) -> None:
        number = 0
        while not self._ended.wait(self._pause_s):
            number += 1
            body, asked_s = f"paho {number}", time.monotonic()
            told = self._client.publish(self._topic, body, qos=1)
            while not told.is_published() and not self._ended.is_set():
                time.sleep(0.002)
            if told.is_published():
                self._acknowledged.append(Acknowledged(body, asked_s, time.monotonic()))
