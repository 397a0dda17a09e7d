"""The request of a remoting client that sends one message, as Java clients since 4.9.5 make it: it names the broker."""

from __future__ import annotations

import time
import uuid

from domain.message import property as properties
from gateway.client.answer import QueueRoute
from gateway.client.link import Request
from protocols.remoting import codes


def send_request(queue: QueueRoute, body: str) -> Request:
    """For `Link.ask`. The message has an id, as SDKs give one: a delivery is recognised by it."""
    stored = properties.encode([("UNIQ_KEY", uuid.uuid4().hex.upper())]).decode()
    fields = {
        "a": "load", "b": queue.topic, "c": "TBW102", "d": "4", "e": str(queue.queue_id), "f": "0",
        "g": str(time.time_ns() // 1_000_000), "h": "0", "i": stored, "j": "0", "k": "false", "m": "false", "n": queue.broker,
    }  # fmt: skip
    return codes.SEND_V2, fields, body.encode()
