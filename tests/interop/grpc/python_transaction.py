"""Transactions and recall by the official Python SDK, as a user writes them. Arguments: endpoint, scenario, topic, group.
Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from python_client import configuration, notified, receive  # type: ignore[import-not-found]
from rocketmq import (
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)


class Checker(TransactionChecker):  # type: ignore[misc]
    """Commits orphaned transactions with an even number, rolls back the others."""

    def __init__(self, count: int) -> None:
        self.asked: list[str] = []
        self.done = threading.Event()
        self._count = count

    def check(self, message: Message) -> Any:
        body = message.body.decode()
        self.asked.append(body)
        if len(set(self.asked)) >= self._count:
            self.done.set()
        return TransactionResolution.COMMIT if int(body.split(" ")[1]) % 2 == 0 else TransactionResolution.ROLLBACK


def message(topic: str, body: str) -> Message:
    made = Message()
    made.topic = topic
    made.body = body.encode()
    made.tag = "T"
    return made


def transaction(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Ten transactions committed, ten rolled back, six left open for the checker."""
    checker = Checker(6)
    producer = Producer(configuration(endpoint), (topic,), checker)
    producer.startup()
    try:
        for at in range(26):
            kind = "commit" if at < 10 else "rollback" if at < 20 else "orphan"
            begun = producer.begin_transaction()
            producer.send(message(topic, f"{kind} {at}"), begun)
            if kind == "commit":
                begun.commit()
            elif kind == "rollback":
                begun.rollback()
        checker.done.wait(80)
        return {"seen": drain(endpoint, topic, group, 13), "asked": checker.asked}
    finally:
        producer.shutdown()


def recall(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Six messages with a delivery time some seconds ahead, every other one recalled."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    recalled = []
    try:
        for at in range(6):
            timer = message(topic, f"timer {at}")
            timer.delivery_timestamp = int(time.time()) + 6
            receipt = producer.send(timer)
            if at % 2 == 0:
                producer.recall_message(topic, receipt.recall_handle)
                recalled.append(f"timer {at}")
    finally:
        producer.shutdown()
    time.sleep(8)
    return {"recalled": recalled, "seen": drain(endpoint, topic, group, 3)}


def drain(endpoint: str, topic: str, group: str, count: int) -> list[dict[str, Any]]:
    """All messages; and that there are no more."""
    consumer = SimpleConsumer(configuration(endpoint), group, {topic: FilterExpression()}, await_duration=5)
    consumer.startup()
    try:
        found = receive(consumer, count)
        found += consumer.receive(32, 30) or []
    finally:
        consumer.shutdown()
    return [notified(each) for each in found]


SCENARIOS = {"transaction": transaction, "recall": recall}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1], sys.argv[3], sys.argv[4])), flush=True)
