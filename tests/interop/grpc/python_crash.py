"""The official Python SDK while the node is killed: a producer and a push consumer that run all the time, and transactions.

Arguments: endpoint, name. Prints READY when the node may be killed, waits for a line, and then prints a result for each scene.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from python_client import configuration, message  # type: ignore[import-not-found]
from rocketmq import (
    ConsumeResult,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    TransactionChecker,
    TransactionResolution,
)

BEFORE = 150
AFTER = 100
PATIENCE_S = 120.0
BACK = threading.Event()
"""Set when the node runs again."""
SAYING = threading.Lock()


class Bag(MessageListener):  # type: ignore[misc]
    """Collects the bodies of its messages."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def consume(self, message: Message) -> ConsumeResult:
        self.bodies.append(message.body.decode())
        return ConsumeResult.SUCCESS


class Checker(TransactionChecker):  # type: ignore[misc]
    """Decides transactions when the node runs again: bodies that end in an even digit are committed."""

    def check(self, message: Message) -> Any:
        if not BACK.is_set():
            return TransactionResolution.UNKNOWN
        return TransactionResolution.COMMIT if int(message.body.decode()[-1]) % 2 == 0 else TransactionResolution.ROLLBACK


def consumed(endpoint: str, topic: str) -> Bag:
    bag = Bag()
    PushConsumer(configuration(endpoint), f"{topic}-group", bag, {topic: FilterExpression()}).startup()
    return bag


def until(what: str, holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < limit, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.05)


def stream(endpoint: str, topic: str, ready: threading.Event) -> None:
    """Every acknowledged message is consumed."""
    producer = Producer(configuration(endpoint), (topic,))
    producer.startup()
    bag = consumed(endpoint, topic)
    acknowledged: set[str] = set()
    failed = since = number = 0
    limit = time.monotonic() + 2 * PATIENCE_S
    while since < AFTER:
        back = BACK.is_set()
        number += 1
        assert time.monotonic() < limit, "the producer does not come back"
        try:
            producer.send(message(topic, f"m{number}"))
        except Exception:
            failed += 1
            time.sleep(0.05)
        else:
            acknowledged.add(f"m{number}")
            since += back
        if len(acknowledged) >= BEFORE:
            ready.set()
    until("all that was acknowledged is consumed", lambda: acknowledged <= set(bag.bodies))
    print(f"python: {len(acknowledged)} acknowledged, {failed} sends failed, {len(bag.bodies)} deliveries")


def transactions(endpoint: str, topic: str, ready: threading.Event) -> None:
    """Decided before the kill, or checked after it, possibly with another producer of the topic."""
    producer = Producer(configuration(endpoint), (topic,), Checker())
    producer.startup()
    wanted = []
    for at in range(4):
        for kind in ("commit", "rollback", "open"):
            begun = producer.begin_transaction()
            producer.send(message(topic, f"{kind}{at}"), begun)
            if kind == "commit":
                begun.commit()
            elif kind == "rollback":
                begun.rollback()
            if kind == "commit" or (kind == "open" and at % 2 == 0):
                wanted.append(f"{kind}{at}")
    ready.set()
    BACK.wait()
    # After a lost connection this SDK sends its settings again only within five minutes; meanwhile another producer is checked.
    Producer(configuration(endpoint), (topic,), Checker()).startup()
    bag = consumed(endpoint, topic)
    until("all that commits", lambda: len(bag.bodies) >= len(wanted))
    time.sleep(2)
    assert sorted(bag.bodies) == sorted(wanted), f"seen {sorted(bag.bodies)}, wanted {sorted(wanted)}"


def play(name: str, scene: Callable[[str, str, threading.Event], None], ready: threading.Event) -> None:
    try:
        scene(sys.argv[1], f"{sys.argv[2]}-{name}", ready)
        text = f"OK {name}"
    except BaseException:
        text = f"FAILED {name}\n{traceback.format_exc()}"
    ready.set()
    with SAYING:
        print(text, flush=True)


def main() -> None:
    events = []
    threads = []
    for name, scene in (("stream", stream), ("transactions", transactions)):
        events.append(threading.Event())
        threads.append(threading.Thread(target=play, args=(name, scene, events[-1])))
        threads[-1].start()
    for event in events:
        event.wait()
    print("READY", flush=True)
    sys.stdin.readline()
    BACK.set()
    for thread in threads:
        thread.join()
    # The SDK's threads do not end while a channel is open.
    os._exit(0)


if __name__ == "__main__":
    main()
