"""Leaders are killed behind a gateway: its clients of all protocols go on, as they are."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.replication.group import StoreGroupNodes, post, read_all

pytestmark = pytest.mark.interop


class MqttSender:
    """A client of paho that publishes with QoS 1, one after the other, and notes what was acknowledged and when."""

    def __init__(self, port: int) -> None:
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="sender", clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.acknowledged: list[tuple[float, str]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            body = f"mqtt {number}"
            told = self.client.publish("orders", body, qos=1)
            while not told.is_published() and not self._ended.is_set():
                time.sleep(0.002)
            if told.is_published():
                self.acknowledged.append((time.monotonic(), body))

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self.client.disconnect()
        self.client.loop_stop()

    def after(self, moment: float) -> float:
        """Seconds from a moment to the first acknowledgement behind it."""
        end = time.monotonic() + 60
        while not self.acknowledged or self.acknowledged[-1][0] <= moment:
            assert time.monotonic() < end, "nothing is acknowledged"
            time.sleep(0.01)
        return next(when for when, _ in self.acknowledged if when > moment) - moment


def test_clients_of_a_gateway_go_on_when_the_leader_behind_it_is_killed(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        gateway = group.gateway(tmp_path / "gateway")
        sender = MqttSender(gateway.port("mqtt"))
        try:
            sent: list[str] = []
            for life in range(3):
                sender.after(time.monotonic())
                sent.append(f"http {life}")
                assert post(gateway, "orders", sent[-1])
                old = group.leader()
                group.kill(old)
                killed = time.monotonic()
                assert sender.after(killed) < 15
                group.start(old)
                group.await_members(1, 2)
        finally:
            sender.end()
        found = set(read_all(gateway, "orders"))
        assert {*sent, *(body for _, body in sender.acknowledged)} <= found
