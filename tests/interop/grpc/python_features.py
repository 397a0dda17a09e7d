"""More features of the official Python SDK. Arguments: endpoint, scenario, topic, group. Prints one JSON object."""

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
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)


def configuration(endpoint: str, namespace: str = "") -> ClientConfiguration:
    return ClientConfiguration(endpoint, Credentials(), namespace)


def produce(where: ClientConfiguration, topic: str, bodies: list[str], priorities: list[int] | None = None) -> None:
    producer = Producer(where, (topic,))
    producer.startup()
    try:
        for at, body in enumerate(bodies):
            message = Message()
            message.topic = topic
            message.body = body.encode()
            if priorities is not None:
                message.priority = priorities[at]
            producer.send(message)
    finally:
        producer.shutdown()


def drain(where: ClientConfiguration, topic: str, group: str, count: int) -> list[str]:
    """Receive `count` messages one by one and acknowledge them; then check that there are no more."""
    consumer = SimpleConsumer(where, group, {topic: FilterExpression()}, await_duration=5)
    consumer.startup()
    found: list[str] = []
    try:
        while len(found) < count:
            for message in consumer.receive(1, 30) or []:
                found.append(message.body.decode())
                consumer.ack(message)
        found += [message.body.decode() for message in consumer.receive(16, 30) or []]
    finally:
        consumer.shutdown()
    return found


def spaces(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """The same names in two namespaces and without one."""
    names = ("", "shop", "yard")
    for name in names:
        produce(configuration(endpoint, name), topic, [f"{name}{at}" for at in range(3)])
    return {name: sorted(drain(configuration(endpoint, name), topic, group, 3)) for name in names}


def priority(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Sent in mixed order, received by priority."""
    order = [1, 3, 0, 2, 3, 0]
    produce(configuration(endpoint), topic, [str(each) for each in order], order)
    return {"seen": drain(configuration(endpoint), topic, group, len(order))}


class Failing(MessageListener):  # type: ignore[misc]
    """Fails every message."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.twice = threading.Event()

    def consume(self, message: Message) -> ConsumeResult:
        self.attempts.append(message.delivery_attempt)
        if len(self.attempts) >= 2:
            self.twice.set()
        return ConsumeResult.FAILURE


def dead(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """A message that fails until the group's attempts are used up, and its dead letter."""
    listener = Failing()
    consumer = PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()})
    produce(configuration(endpoint), topic, ["poison"])
    consumer.startup()
    try:
        listener.twice.wait(60)
        time.sleep(2)
        letters = drain(configuration(endpoint), f"%DLQ%{group}", f"{group}-undertaker", 1)
    finally:
        consumer.shutdown()
    return {"attempts": listener.attempts, "letters": letters}


SCENARIOS = {"spaces": spaces, "priority": priority, "dead": dead}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1], sys.argv[3], sys.argv[4])), flush=True)
