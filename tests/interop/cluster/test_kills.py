"""Gateways are killed one after the other under load: nothing acknowledged is lost, and no lease is broken.

There are 50 kills when SOAK is in the environment (`make soak`).
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.cluster.cluster import Cluster
from tests.interop.node import Node
from tests.patience import until

pytestmark = pytest.mark.interop
KILLS: Final = 50 if "SOAK" in os.environ else 4
INVISIBLE_MS: Final = 4_000
BETWEEN: Final = 60
"""Acknowledged messages between two kills."""
WAIT_S: Final = 120.0
PLACE: Final = "/v1/groups/workers/topics/work"
LOST: Final = (urllib.error.URLError, http.client.HTTPException, OSError)


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

    def __init__(self, gateways: list[Node]) -> None:
        self._gateways = gateways
        self._lock = threading.Lock()
        self.producing = self.consuming = True
        self.sent: set[str] = set()
        self.deliveries: dict[tuple[int, int], list[Delivery]] = {}
        self.settled: set[str] = set()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, number), daemon=True)
            for number, work in enumerate((self._post, self._publish, self._consume, self._consume))
        ]
        self.faults: list[BaseException] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WAIT_S)

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
                call(chance.choice(self._gateways), "/v1/topics/work/messages", body.encode())
            except LOST:
                continue
            self.sent.add(body)
            count += 1

    def _publish(self, number: int, chance: random.Random) -> None:
        count = 0
        while self.producing:
            client = paho.Client(CallbackAPIVersion.VERSION2, f"publisher {number}", reconnect_on_failure=False)
            try:
                client.connect("127.0.0.1", chance.choice(self._gateways).port("mqtt"))
            except OSError:
                continue
            client.loop_start()
            while self.producing:
                body = f"{number}-{count}"
                handed = client.publish("work", body.encode(), 1)
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
        query = f"max=8&wait_ms=500&invisible_ms={INVISIBLE_MS}"
        while self.consuming:
            try:
                found = call(chance.choice(self._gateways), f"{PLACE}:receive?{query}", b"")
            except LOST:
                continue
            for message in found["messages"] if found else ():
                self._take(message, chance)

    def _take(self, message: dict[str, Any], chance: random.Random) -> None:
        body = base64.b64decode(message["body"]).decode()
        receipt = message["receipt"]
        settled = self._settle(receipt, chance)
        delivery = Delivery(int(receipt.split()[1]), receipt, settled)
        with self._lock:
            self.deliveries.setdefault((message["queue"], message["offset"]), []).append(delivery)
            if settled:
                self.settled.add(body)

    def _settle(self, receipt: str, chance: random.Random) -> bool:
        """Acknowledge at any gateway. False: it was refused, or none has answered."""
        for _ in range(20):
            try:
                told = call(chance.choice(self._gateways), f"{PLACE}:ack", json.dumps({"receipts": [receipt]}).encode())
            except LOST:
                continue
            return told["results"][0].get("error") is None
        return False

    def progressed(self, goal: int) -> bool:
        """`goal` messages are settled, or a thread has failed."""
        return len(self.settled) >= goal or bool(self.faults)


def call(node: Node, path: str, body: bytes) -> Any:
    """A POST by HTTP. Returns the JSON of the answer; None: it has no body."""
    request = urllib.request.Request(f"http://127.0.0.1:{node.port('http')}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def test_gateways_are_killed_under_load(tmp_path: Path) -> None:
    chance = random.Random(12)
    with Cluster(tmp_path, 3, "--durability", "page") as cluster:
        load = Load(cluster.gateways)
        load.start()
        for _ in range(KILLS):
            goal = len(load.settled) + BETWEEN
            until(partial(load.progressed, goal), WAIT_S)
            victim = chance.choice(cluster.gateways)
            victim.kill()
            victim.start()
        load.producing = False
        until(lambda: load.sent <= load.settled or bool(load.faults), WAIT_S, lambda: f"{missing(load)}")
        load.consuming = False
        load.join()
    assert load.faults == []
    assert missing(load) == set()
    for place, deliveries in load.deliveries.items():
        deliveries.sort()
        for before, after in pairwise(deliveries):
            assert after.popped_ms - before.popped_ms >= INVISIBLE_MS, f"the lease of {place} was broken: {deliveries}"
            assert not before.settled, f"{place} came again after its acknowledgement: {deliveries}"


def missing(load: Load) -> set[str]:
    """Messages whose sending was acknowledged, and that nobody has settled."""
    return load.sent - load.settled
