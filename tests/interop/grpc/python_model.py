"""The Python SDK receives a message, shows all of it, and sends one under a trace. Arguments: endpoint, topic, group."""

from __future__ import annotations

import json
import sys

from python_client import configuration, message, receive, simple_consumer, started  # type: ignore[import-not-found]
from rocketmq import Producer

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def main(endpoint: str, topic: str, group: str) -> None:
    with simple_consumer(endpoint, topic, group) as consumer:
        (got,) = receive(consumer, 1)
    with started(Producer(configuration(endpoint), (topic,))) as producer:
        traced = message(topic, "traced", tag="A", keys="k1")
        # What an agent of OpenTelemetry sets before a send.
        traced.add_property("traceparent", CONTEXT)
        traced.add_property("tracestate", "a=b")
        producer.send(traced)
    print(json.dumps({"body": got.body.decode(), "tag": got.tag, "keys": list(got.keys), "properties": dict(got.properties)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
