"""Clients that send, receive and acknowledge at any of several gateways, and write down what they were told."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.http_api import LOST, acknowledge, body_of, call, receive
from tests.interop.node import Node

GROUP: Final = "workers"
INVISIBLE_MS: Final = 4_000
JOIN_S: Final = 120.0
Work = Callable[[int, random.Random], None]


class Delivery(NamedTuple):
    """A message as a consumer got it.

    popped_ms   begin of its lease, by the store's clock
    settled     True: its acknowledgement was answered with success
    """

    popped_ms: int
    receipt: str
    settled: bool


class Load:
    """Producers and consumers, each at any gateway, and what they know."""

    def __init__(self, gateways: list[Node], topic: str = "work") -> None:
        self.gateways = gateways
        self.topic = topic
        self._lock = threading.Lock()
        self.producing = self.consuming = True
        self.sent: set[str] = set()
        self.deliveries: dict[object, list[Delivery]] = {}
        self.settled: set[str] = set()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, number), daemon=True) for number, work in enumerate(self.works())
        ]
        self.faults: list[BaseException] = []

    def works(self) -> Sequence[Work]:
        """What is done, each by a thread."""
        return (self._post, self._publish, self._consume, self._consume)

    def key(self, message: dict[str, Any]) -> object:
        """What a message is known by when it comes again."""
        return (message["queue"], message["offset"])

    def missing(self) -> set[str]:
        """Messages whose sending was acknowledged, and that nobody has settled."""
        return self.sent - self.settled

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(JOIN_S)

    def _guarded(self, work: Callable[[int, random.Random], None], number: int) -> None:
        try:
            work(number, random.Random(number))
        except BaseException as error:
            self.faults.append(error)

    def _post(self, number: int, chance: random.Random) -> None:
        count = 0
        while self.producing:
            body = f"{number}-{count}"
            try:
                call(chance.choice(self.gateways), f"/v1/topics/{self.topic}/messages", body.encode())
            except LOST:
                continue
            self.sent.add(body)
            count += 1

    def _publish(self, number: int, chance: random.Random) -> None:
        count = 0
        while self.producing:
            client = paho.Client(CallbackAPIVersion.VERSION2, f"publisher {number}", reconnect_on_failure=False)
            try:
                client.connect("127.0.0.1", chance.choice(self.gateways).port("mqtt"))
            except OSError:
                continue
            client.loop_start()
            while self.producing:
                body = f"{number}-{count}"
                handed = client.publish(self.topic, body.encode(), 1)
                try:
                    handed.wait_for_publish(10)
                except (RuntimeError, ValueError):
                    break
                if not handed.is_published():
                    break
                self.sent.add(body)
                count += 1
            client.disconnect()
            client.loop_stop()

    def _consume(self, _number: int, chance: random.Random) -> None:
        while self.consuming:
            try:
                found = receive(chance.choice(self.gateways), GROUP, self.topic, 8, 500, INVISIBLE_MS)
            except LOST:
                continue
            if found:
                self._take(found, chance)

    def _take(self, messages: list[dict[str, Any]], chance: random.Random) -> None:
        receipts = [message["receipt"] for message in messages]
        settled = self._settle(receipts, chance)
        with self._lock:
            for message, receipt, is_settled in zip(messages, receipts, settled, strict=True):
                delivery = Delivery(int(receipt.split()[1]), receipt, is_settled)
                self.deliveries.setdefault(self.key(message), []).append(delivery)
                if is_settled:
                    self.settled.add(body_of(message).decode())

    def _settle(self, receipts: list[str], chance: random.Random) -> list[bool]:
        """Acknowledge at any gateway. False: it was refused, or none has answered."""
        for _ in range(20):
            try:
                results = acknowledge(chance.choice(self.gateways), GROUP, self.topic, receipts)
            except LOST:
                continue
            return [result["ok"] for result in results]
        return [False] * len(receipts)

    def progressed(self, goal: int) -> bool:
        """`goal` messages are settled, or a thread has failed."""
        return len(self.settled) >= goal or bool(self.faults)
