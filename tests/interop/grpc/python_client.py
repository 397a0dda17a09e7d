"""The official Python SDK (`rocketmq-python-client`) as a user writes it; a process of its own, since its protobuf classes
carry the same names as ours. Arguments: endpoint, scenario, topic, group. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from rocketmq.grpc_protocol import FilterType

WAIT_S = 45.0


def configuration(endpoint: str) -> ClientConfiguration:
    credentials = Credentials(os.environ.get("CLIENT_ACCESS_KEY", ""), os.environ.get("CLIENT_SECRET_KEY", ""))
    return ClientConfiguration(endpoint, credentials)


def produce(endpoint: str, topic: str, count: int, **more: Any) -> list[str]:
    """Send `count` messages; `more`: group, delay_s. Their ids."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    ids = []
    try:
        for at in range(count):
            message = Message()
            message.topic = topic
            message.body = f"body {at}".encode()
            message.tag = "even" if at % 2 == 0 else "odd"
            message.keys = f"key-{at}"
            message.add_property("place", "Zürich")
            message.add_property("number", str(at))
            if "groups" in more:
                message.message_group = f"group-{at % more['groups']}"
            if "delay_s" in more:
                message.delivery_timestamp = int(time.time()) + more["delay_s"]
            ids.append(producer.send(message).message_id)
    finally:
        producer.shutdown()
    return ids


def notified(message: Message) -> dict[str, Any]:
    return {
        "id": message.message_id,
        "body": message.body.decode(),
        "tag": message.tag,
        "keys": list(message.keys),
        "place": message.properties.get("place"),
        "group": message.message_group,
        "attempt": message.delivery_attempt,
        "at": time.time(),
    }


def receive(consumer: SimpleConsumer, count: int, invisible_s: int = 30) -> list[Message]:
    found: list[Message] = []
    limit = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < limit:
        found += consumer.receive(32, invisible_s) or []
    return found


def simple(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Send, receive by tag, acknowledge all but one, give that one back and see it again."""
    sent = produce(endpoint, topic, 20)
    consumer = SimpleConsumer(configuration(endpoint), group, {topic: FilterExpression("even")}, await_duration=5)
    consumer.startup()
    try:
        first = receive(consumer, 10)
        for message in first[1:]:
            consumer.ack(message)
        consumer.change_invisible_duration(first[0], 1)
        again = receive(consumer, 1)
        for message in again:
            consumer.ack(message)
        rest = consumer.receive(32, 30) or []
    finally:
        consumer.shutdown()
    return {"sent": sent, "first": [notified(m) for m in first], "again": [notified(m) for m in again], "rest": len(rest)}


def sql(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Send, and receive by a SQL92 filter; what it does not want is not there afterwards either."""
    sent = produce(endpoint, topic, 20)
    wanted = FilterExpression("number BETWEEN 5 AND 9 AND place = 'Zürich' OR TAGS = 'odd' AND number > 17", FilterType.SQL)
    consumer = SimpleConsumer(configuration(endpoint), group, {topic: wanted}, await_duration=5)
    consumer.startup()
    try:
        found = receive(consumer, 6)
        for message in found:
            consumer.ack(message)
        rest = consumer.receive(32, 30) or []
    finally:
        consumer.shutdown()
    return {"sent": sent, "seen": [notified(m) for m in found], "rest": len(rest)}


class Listener(MessageListener):  # type: ignore[misc]
    """Writes down what it is given; fails `body 3` once."""

    def __init__(self, count: int) -> None:
        self.seen: list[dict[str, Any]] = []
        self.done = threading.Event()
        self._count = count
        self._failed = False
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        with self._lock:
            self.seen.append(notified(message))
            if message.body == b"body 3" and not self._failed:
                self._failed = True
                return ConsumeResult.FAILURE
            if len(self.seen) >= self._count:
                self.done.set()
        return ConsumeResult.SUCCESS


def push(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """A push consumer that fails one message once: it comes again, and nothing else does."""
    sent = produce(endpoint, topic, 30)
    return {"sent": sent, "seen": consume(endpoint, topic, group, 31)}


def consume(endpoint: str, topic: str, group: str, count: int) -> list[dict[str, Any]]:
    listener = Listener(count)
    consumer = PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()})
    consumer.startup()
    try:
        listener.done.wait(WAIT_S)
        time.sleep(1)
    finally:
        consumer.shutdown()
    return listener.seen


def fifo(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Three message groups to a FIFO topic, consumed by a member of an orderly group."""
    sent = produce(endpoint, topic, 30, groups=3)
    return {"sent": sent, "seen": consume(endpoint, topic, group, 30)}


def delay(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """A message for three seconds from now."""
    started = time.time()
    sent = produce(endpoint, topic, 1, delay_s=3)
    consumer = SimpleConsumer(configuration(endpoint), group, {topic: FilterExpression()}, await_duration=10)
    consumer.startup()
    try:
        found = receive(consumer, 1)
        for message in found:
            consumer.ack(message)
    finally:
        consumer.shutdown()
    return {"sent": sent, "started": started, "seen": [notified(m) for m in found]}


def send(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Only send."""
    return {"sent": produce(endpoint, topic, 50)}


def drain(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Receive and acknowledge what there is."""
    consumer = SimpleConsumer(configuration(endpoint), group, {topic: FilterExpression()}, await_duration=5)
    consumer.startup()
    try:
        found = receive(consumer, 50)
        for message in found:
            consumer.ack(message)
    finally:
        consumer.shutdown()
    return {"seen": [notified(m) for m in found]}


SCENARIOS = {"simple": simple, "sql": sql, "push": push, "fifo": fifo, "delay": delay, "send": send, "drain": drain}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1], sys.argv[3], sys.argv[4])), flush=True)
