"""Lite topics and priorities by the official Python SDK, as a user writes it. Arguments: endpoint, ranked topic, lite topic,
group of the lite topic. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    LitePushConsumer,
    Message,
    MessageListener,
    Producer,
    SimpleConsumer,
)

WAIT_S = 45.0
COUNT = 12


def configuration(endpoint: str) -> ClientConfiguration:
    return ClientConfiguration(endpoint, Credentials("", ""))


def send(endpoint: str, topic: str, **fields: list[Any]) -> None:
    """Send messages "0", "1", …, each with the next value of the field."""
    ((name, values),) = fields.items()
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    try:
        for at, value in enumerate(values):
            message = Message()
            message.topic = topic
            message.body = str(at).encode()
            setattr(message, name, value)
            producer.send(message)
    finally:
        producer.shutdown()


def ranked(endpoint: str, topic: str) -> list[list[int]]:
    """The number and the priority of each message, as they are received."""
    send(endpoint, topic, priority=[at % 4 for at in range(COUNT)])
    consumer = SimpleConsumer(configuration(endpoint), f"{topic}-group", {topic: FilterExpression()}, 5)
    consumer.startup()
    seen: list[list[int]] = []
    try:
        limit = time.monotonic() + WAIT_S
        while len(seen) < COUNT and time.monotonic() < limit:
            for message in consumer.receive(2, 30) or ():
                seen.append([int(message.body), message.priority])
                consumer.ack(message)
    finally:
        consumer.shutdown()
    return seen


class Listener(MessageListener):  # type: ignore[misc]
    """Collects messages until there are `COUNT`."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.all = threading.Event()

    def consume(self, message: Message) -> ConsumeResult:
        self.seen.append([message.lite_topic, message.body.decode()])
        if len(self.seen) >= COUNT:
            self.all.set()
        return ConsumeResult.SUCCESS


def lite(endpoint: str, topic: str, group: str) -> list[list[str]]:
    """Lite topic and number of each message of two lite topics out of three."""
    listener = Listener()
    consumer = LitePushConsumer(configuration(endpoint), group, topic, listener)
    consumer.startup()
    try:
        consumer.subscribe_lite("a")
        consumer.subscribe_lite("b")
        send(endpoint, topic, lite_topic=["abc"[at % 3] for at in range(COUNT * 3 // 2)])
        listener.all.wait(WAIT_S)
    finally:
        consumer.shutdown()
    return listener.seen


def main() -> None:
    endpoint, topic, parent, group = sys.argv[1:5]
    print(json.dumps({"ranked": ranked(endpoint, topic), "lite": lite(endpoint, parent, group)}))


main()
