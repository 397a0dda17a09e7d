"""Messages that are sent by HTTP while something is done to nodes."""

from __future__ import annotations

import threading
import time

from tests.interop.node import Node
from tests.interop.replication.group import post

TOPIC = "loaded"
PATIENCE_S = 60.0


class Load:
    """Sends one message after the other by HTTP, each until it is acknowledged, to the first of several nodes that takes it.

    acknowledged   bodies
    longest_s      longest time from the first attempt at a message to its acknowledgement
    """

    def __init__(self, *nodes: Node, name: str = "") -> None:
        self.acknowledged: list[str] = []
        self.longest_s = 0.0
        self._nodes = nodes
        self._name = name
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._over.is_set():
            body, began = f"{self._name}{len(self.acknowledged)}", time.monotonic()
            while not any(post(node, TOPIC, body) for node in self._nodes):
                if time.monotonic() - began > PATIENCE_S:
                    return
                time.sleep(0.005)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.acknowledged.append(body)

    def end(self) -> None:
        self._over.set()
        self._thread.join()
