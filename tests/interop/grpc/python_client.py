"""The official Python SDK (`rocketmq-python-client`) as a user writes it; a process of its own, since its protobuf classes
carry the same names as ours. Arguments: endpoint, scenario, topic, group. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

WAIT_S = 45.0
WORK_S = 66.0
"""Longer than a lease, which is a minute."""
SPACES = ("", "shop", "yard")
LITE_COUNT = 12
PRINTING = threading.Lock()
Fields = Callable[[int], dict[str, Any]]
"""Number of a message -> fields that are set besides topic and body."""


def configuration(endpoint: str, namespace: str = "") -> ClientConfiguration:
    credentials = Credentials(os.environ.get("CLIENT_ACCESS_KEY", ""), os.environ.get("CLIENT_SECRET_KEY", ""))
    return ClientConfiguration(endpoint, credentials, namespace)


def message(topic: str, body: str, **fields: Any) -> Message:
    made = Message()
    made.topic = topic
    made.body = body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


@contextmanager
def started(client: Any) -> Iterator[Any]:
    client.startup()
    try:
        yield client
    finally:
        client.shutdown()


def produce(endpoint: str, topic: str, bodies: Iterable[str], fields: Fields = lambda _: {}, namespace: str = "") -> list[str]:
    """Send messages with the fields of their number. Returns their ids."""
    with started(Producer(configuration(endpoint, namespace), (topic,))) as producer:
        return [producer.send(message(topic, body, **fields(at))).message_id for at, body in enumerate(bodies)]


def numbered(endpoint: str, topic: str, count: int, **more: Callable[[int], Any]) -> list[str]:
    """Send `body 0`, `body 1`, …, with tags, keys and properties. `more`: other fields by their number."""
    with started(Producer(configuration(endpoint), (topic,))) as producer:
        ids = []
        for at in range(count):
            each = message(topic, f"body {at}", tag="odd" if at % 2 else "even", keys=f"key-{at}")
            for name, value in more.items():
                setattr(each, name, value(at))
            each.add_property("place", "Zürich")
            each.add_property("number", str(at))
            ids.append(producer.send(each).message_id)
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


def simple_consumer(
    endpoint: str, topic: str, group: str, wanted: FilterExpression | None = None, namespace: str = "", tls: bool = False
) -> Any:
    expressions = {topic: wanted or FilterExpression()}
    return started(SimpleConsumer(configuration(endpoint, namespace), group, expressions, await_duration=5, tls_enable=tls))


def receive(consumer: SimpleConsumer, count: int, at_once: int = 32, acknowledges: bool = True) -> list[Message]:
    found: list[Message] = []
    limit = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < limit:
        messages = consumer.receive(at_once, 30) or []
        found += messages
        for each in messages if acknowledges else ():
            consumer.ack(each)
    return found


def drained(endpoint: str, topic: str, group: str, count: int, **more: Any) -> list[Message]:
    """Messages one by one, and those that are there besides."""
    with simple_consumer(endpoint, topic, group, **more) as consumer:
        found = receive(consumer, count, 1)
        return [*found, *(consumer.receive(16, 30) or [])]


def simple(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Send, receive by tag, acknowledge all but one, give that one back and see it again."""
    sent = numbered(endpoint, topic, 20)
    with simple_consumer(endpoint, topic, group, FilterExpression("even")) as consumer:
        first = receive(consumer, 10, acknowledges=False)
        for each in first[1:]:
            consumer.ack(each)
        consumer.change_invisible_duration(first[0], 1)
        again = receive(consumer, 1)
        rest = consumer.receive(32, 30) or []
    return {"sent": sent, "first": [notified(m) for m in first], "again": [notified(m) for m in again], "rest": len(rest)}


def sql(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Send, and receive by a SQL92 filter; what it does not want is not there afterwards either."""
    sent = numbered(endpoint, topic, 20)
    wanted = FilterExpression("number BETWEEN 5 AND 9 AND place = 'Zürich' OR TAGS = 'odd' AND number > 17", FilterType.SQL)
    with simple_consumer(endpoint, topic, group, wanted) as consumer:
        found = receive(consumer, 6)
        rest = consumer.receive(32, 30) or []
    return {"sent": sent, "seen": [notified(m) for m in found], "rest": len(rest)}


class Listener(MessageListener):  # type: ignore[misc]
    """Writes down what it is given; fails `body 3` once."""

    def __init__(self, count: int, works_s: float = 0, fails: bool = False) -> None:
        """`works_s`: for each message; `fails`: every message."""
        self.seen: list[dict[str, Any]] = []
        self.done = threading.Event()
        self._count = count
        self._works_s = works_s
        self._fails = fails
        self._failed = False
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        with self._lock:
            self.seen.append({**notified(message), "lite": message.lite_topic})
            fails = self._fails or (message.body == b"body 3" and not self._failed)
            self._failed = self._failed or fails
            there = len(self.seen) >= self._count
        time.sleep(self._works_s)
        if there:
            self.done.set()
        return ConsumeResult.FAILURE if fails else ConsumeResult.SUCCESS


def consume(endpoint: str, topic: str, group: str, count: int) -> list[dict[str, Any]]:
    listener = Listener(count)
    with started(PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()})):
        listener.done.wait(WAIT_S)
        time.sleep(1)
    return listener.seen


def push(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """A push consumer that fails one message once: it comes again, and nothing else does."""
    return {"sent": numbered(endpoint, topic, 30), "seen": consume(endpoint, topic, group, 31)}


def fifo(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Three message groups to a FIFO topic, consumed by a member of an orderly group."""
    sent = numbered(endpoint, topic, 30, message_group=lambda at: f"group-{at % 3}")
    return {"sent": sent, "seen": consume(endpoint, topic, group, 30)}


def delay(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """A message for three seconds from now."""
    begun = time.time()
    sent = numbered(endpoint, topic, 1, delivery_timestamp=lambda _: int(time.time()) + 3)
    return {"sent": sent, "started": begun, "seen": [notified(m) for m in drained(endpoint, topic, group, 1)]}


def send(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Only send."""
    return {"sent": numbered(endpoint, topic, 50)}


def drain(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Receive and acknowledge what there is."""
    with simple_consumer(endpoint, topic, group) as consumer:
        return {"seen": [notified(m) for m in receive(consumer, 50)]}


def spaces(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """The same names in two namespaces and without one."""
    for name in SPACES:
        produce(endpoint, topic, [f"{name}{at}" for at in range(3)], namespace=name)
    return {name: sorted(each.body.decode() for each in drained(endpoint, topic, group, 3, namespace=name)) for name in SPACES}


def priority(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Sent in mixed order, received by priority."""
    order = [1, 3, 0, 2, 3, 0]
    produce(endpoint, topic, map(str, order), lambda at: {"priority": order[at]})
    return {"seen": [[each.body.decode(), each.priority] for each in drained(endpoint, topic, group, len(order))]}


def dead(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """A message that fails until the group's attempts are used up, and its dead letter."""
    listener = Listener(2, fails=True)
    produce(endpoint, topic, ["poison"])
    with started(PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()})):
        listener.done.wait(60)
        time.sleep(2)
        letters = drained(endpoint, f"%DLQ%{group}", f"{group}-undertaker", 1)
    return {"attempts": [each["attempt"] for each in listener.seen], "letters": [each.body.decode() for each in letters]}


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


def transaction(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Ten transactions committed, ten rolled back, six left open for the checker."""
    checker = Checker(6)
    with started(Producer(configuration(endpoint), (topic,), checker)) as producer:
        for at in range(26):
            kind = "commit" if at < 10 else "rollback" if at < 20 else "orphan"
            begun = producer.begin_transaction()
            producer.send(message(topic, f"{kind} {at}", tag="T"), begun)
            if kind == "commit":
                begun.commit()
            elif kind == "rollback":
                begun.rollback()
        checker.done.wait(80)
        return {"seen": [notified(m) for m in drained(endpoint, topic, group, 13)], "asked": checker.asked}


def recall(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Six messages with a delivery time some seconds ahead, every other one recalled."""
    recalled = []
    with started(Producer(configuration(endpoint), (topic,))) as producer:
        for at in range(6):
            receipt = producer.send(message(topic, f"timer {at}", tag="T", delivery_timestamp=int(time.time()) + 6))
            if at % 2 == 0:
                producer.recall_message(topic, receipt.recall_handle)
                recalled.append(f"timer {at}")
    time.sleep(8)
    return {"recalled": recalled, "seen": [notified(m) for m in drained(endpoint, topic, group, 3)]}


def lite(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Lite topic and number of each message of two lite topics out of three."""
    listener = Listener(LITE_COUNT)
    with started(LitePushConsumer(configuration(endpoint), group, topic, listener)) as consumer:
        consumer.subscribe_lite("a")
        consumer.subscribe_lite("b")
        produce(endpoint, topic, map(str, range(LITE_COUNT * 3 // 2)), lambda at: {"lite_topic": "abc"[at % 3]})
        listener.done.wait(WAIT_S)
    return {"seen": [[each["lite"], each["body"]] for each in listener.seen]}


def slow(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Two members, one message: it is delivered once."""
    listener = Listener(1, WORK_S)
    for _ in range(2):
        PushConsumer(configuration(endpoint), group, listener, {topic: FilterExpression()}).startup()
    produce(endpoint, topic, ["slow"])
    listener.done.wait(WORK_S + WAIT_S)
    time.sleep(4)
    return {"attempts": [each["attempt"] for each in listener.seen]}


def tls(endpoint: str, topic: str, group: str) -> dict[str, Any]:
    """Send and receive over TLS; the environment names the trusted certificate."""
    with started(Producer(configuration(endpoint), (topic,), tls_enable=True)) as producer:
        producer.send(message(topic, "over TLS"))
    return {"seen": [each.body.decode() for each in drained(endpoint, topic, group, 1, tls=True)]}


class SeenPrinter(MessageListener):  # type: ignore[misc]
    """A listener that prints `seen KEY NUMBER NANOSECONDS`."""

    def consume(self, message: Message) -> ConsumeResult:
        with PRINTING:
            print("seen", message.message_group, message.body.decode(), time.monotonic_ns(), flush=True)
        time.sleep(0.02)
        return ConsumeResult.SUCCESS


def ordered(endpoint: str, topic: str, group: str) -> None:
    """Members of an orderly group, until they are killed. More arguments: members; number of keys, and messages for each."""
    members, keys, count = (*map(int, sys.argv[5:]), 0, 0)[:3]
    for _ in range(members):
        PushConsumer(configuration(endpoint), group, SeenPrinter(), {topic: FilterExpression()}).startup()
    if keys:
        produce(
            endpoint, topic, (str(at // keys) for at in range(keys * count)), lambda at: {"message_group": f"key{at % keys}"}
        )
    threading.Event().wait()


SCENARIOS: dict[str, Callable[[str, str, str], Any]] = {
    "simple": simple, "sql": sql, "push": push, "fifo": fifo, "delay": delay, "send": send, "drain": drain, "spaces": spaces,
    "priority": priority, "dead": dead, "transaction": transaction, "recall": recall, "lite": lite, "slow": slow, "tls": tls,
    "ordered": ordered,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[2]](sys.argv[1], sys.argv[3], sys.argv[4])), flush=True)
    # The SDK's threads do not end while a channel is open.
    os._exit(0)
