"""The C++ client (librocketmq, in the package `rocketmq` of PyPI), used from Python. Runs in its own process, because its
module has the name of another SDK. Arguments: folder of the package, name server, topic. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

sys.path.insert(0, sys.argv[1])

from rocketmq.client import (
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    RecvMessage,
)
from rocketmq.ffi import _CConsumeStatus

WAIT_S = 60.0
ORDERED = 20


def message(topic: str, body: str, tag: str = "A") -> Any:
    made = Message(topic)
    made.set_keys(f"key-{body[:10]}")
    made.set_tags(tag)
    made.set_body(body)
    made.set_property("place", "Zürich")
    return made


def produced(server: str, topic: str) -> Any:
    producer = Producer(f"PID-{topic}")
    producer.set_namesrv_addr(server)
    producer.start()
    return producer


def push(server: str, topic: str) -> list[dict[str, Any]]:
    """Sends of every kind, consumed by one tag; redelivery of a refused message."""
    producer = produced(server, topic)
    producer.send_sync(message(topic, "sync"))
    producer.send_oneway(message(topic, "oneway"))
    producer.send_batch([message(topic, f"batch{at}") for at in range(3)])
    producer.send_sync(message(topic, "x" * 100_000))
    producer.send_sync(message(topic, "other", "B"))
    producer.send_sync(message(topic, "again"))
    late = message(topic, "late")
    late.set_delay_time_level(2)
    producer.send_sync(late)
    seen: list[dict[str, Any]] = []
    all_of_them = threading.Event()

    def take(_: Any, handle: Any) -> int:
        each = RecvMessage(handle)
        body = each.body.decode()
        told = {"body": body[:10], "size": len(body), "times": each.reconsume_times, "keys": each.keys.decode()}
        seen.append({**told, "tag": each.tags.decode(), "place": each["place"].decode()})
        if len({(one["body"], one["times"] if one["body"] == "again" else 0) for one in seen}) >= 9:
            all_of_them.set()
        if body == "again" and each.reconsume_times == 0:
            return int(_CConsumeStatus.RECONSUME_LATER.value)
        return int(_CConsumeStatus.CONSUME_SUCCESS.value)

    consumer = PushConsumer(f"CID-{topic}")
    consumer.set_namesrv_addr(server)
    consumer.set_message_batch_max_size(1)
    consumer.subscribe(topic, lambda each: None, "A")
    # The library does not see exceptions of its callbacks, and has no other way to refuse a message.
    consumer._register_callback(take)
    consumer.start()
    all_of_them.wait(WAIT_S)
    time.sleep(1)
    consumer.shutdown()
    producer.shutdown()
    return seen


def orderly(server: str, topic: str) -> list[str]:
    """Messages of one queue to an orderly consumer."""
    producer = produced(server, topic)
    for at in range(ORDERED):
        producer.send_orderly(message(topic, f"m{at}"), 3)
    seen: list[str] = []
    all_of_them = threading.Event()

    def take(each: Any) -> None:
        seen.append(each.body.decode())
        if len(seen) >= ORDERED:
            all_of_them.set()

    consumer = PushConsumer(f"CID-{topic}", orderly=True)
    consumer.set_namesrv_addr(server)
    consumer.subscribe(topic, take)
    consumer.start()
    all_of_them.wait(WAIT_S)
    consumer.shutdown()
    producer.shutdown()
    return seen


def pull(server: str, topic: str) -> list[str]:
    """The messages that a pull consumer gets from all queues of a topic."""
    consumer = PullConsumer(f"PULL-{topic}")
    consumer.set_namesrv_addr(server)
    consumer.start()
    found = [each.body.decode() for each in consumer.pull(topic)]
    consumer.shutdown()
    return found


def main() -> None:
    server, topic = sys.argv[2:4]
    told = {
        "push": push(server, topic),
        "orderly": orderly(server, f"{topic}-orderly"),
        "pull": pull(server, f"{topic}-orderly"),
    }
    print(json.dumps(told), flush=True)
    os._exit(0)


main()
