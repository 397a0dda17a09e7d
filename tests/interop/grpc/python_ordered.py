"""Members of an orderly group with the official Python SDK, whose listeners print each message, until they are killed.

Arguments: endpoint, topic, group, members; to send as well: number of keys, and messages for each key.
"""

from __future__ import annotations

import sys
import threading
import time

from python_client import configuration  # type: ignore[import-not-found]
from rocketmq import (
    ConsumeResult,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)

WORK_S = 0.02
PRINTING = threading.Lock()


class SeenPrinter(MessageListener):  # type: ignore[misc]
    """A listener that prints `seen KEY NUMBER NANOSECONDS`."""

    def consume(self, message: Message) -> ConsumeResult:
        with PRINTING:
            print("seen", message.message_group, message.body.decode(), time.monotonic_ns(), flush=True)
        time.sleep(WORK_S)
        return ConsumeResult.SUCCESS


def main() -> None:
    endpoint, topic, group = sys.argv[1:4]
    members, keys, count = (*map(int, sys.argv[4:]), 0, 0)[:3]
    for _ in range(members):
        PushConsumer(configuration(endpoint), group, SeenPrinter(), {topic: FilterExpression()}).startup()
    if keys:
        producer = Producer(configuration(endpoint), (topic,))
        producer.startup()
        for number in range(count):
            for key in range(keys):
                message = Message()
                message.topic = topic
                message.body = str(number).encode()
                message.message_group = f"key{key}"
                producer.send(message)
    threading.Event().wait()


if __name__ == "__main__":
    main()
