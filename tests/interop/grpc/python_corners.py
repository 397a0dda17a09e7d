"""A listener that works longer than its lease, and TLS, by the official Python SDK. Arguments: endpoint, scenario, topic,
group. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from python_features import configuration, produce  # type: ignore[import-not-found]
from rocketmq import (
    ConsumeResult,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)

WAIT_S = 45.0
WORK_S = 66.0
"""Longer than a lease, which is a minute."""


class Slow(MessageListener):  # type: ignore[misc]
    """Consumes a message for longer than its lease."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.done = threading.Event()

    def consume(self, message: Message) -> ConsumeResult:
        self.attempts.append(message.delivery_attempt)
        time.sleep(WORK_S)
        self.done.set()
        return ConsumeResult.SUCCESS


def slow(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Two members, one message: it is delivered once."""
    listener = Slow()
    for _ in range(2):
        PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()}).startup()
    produce(configuration(endpoint), topic, ["slow"])
    listener.done.wait(WORK_S + WAIT_S)
    time.sleep(4)
    return {"attempts": listener.attempts}


def tls(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Send and receive over TLS; the environment names the trusted certificate."""
    producer = Producer(configuration(endpoint), (topic,), tls_enable=True)
    producer.startup()
    message = Message()
    message.topic = topic
    message.body = b"over TLS"
    producer.send(message)
    consumer = SimpleConsumer(configuration(endpoint), group, {topic: FilterExpression()}, await_duration=5, tls_enable=True)
    consumer.startup()
    seen: list[str] = []
    limit = time.monotonic() + WAIT_S
    while not seen and time.monotonic() < limit:
        for each in consumer.receive(1, 30) or []:
            seen.append(each.body.decode())
            consumer.ack(each)
    return {"seen": seen}


SCENARIOS = {"slow": slow, "tls": tls}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1], sys.argv[3], sys.argv[4])), flush=True)
    os._exit(0)
