"""The Python SDK receives a message, shows all of it, and sends one under a trace. Arguments: endpoint, topic, group."""

from __future__ import annotations

import json
import sys

from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message, Producer, SimpleConsumer

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def main(endpoint: str, topic: str, group: str) -> None:
    where = ClientConfiguration(endpoint, Credentials())
    consumer = SimpleConsumer(where, group, {topic: FilterExpression()}, await_duration=5)
    consumer.startup()
    try:
        found: list[Message] = []
        while not found:
            found = consumer.receive(1, 30) or []
        consumer.ack(found[0])
    finally:
        consumer.shutdown()
    producer = Producer(where, (topic,))
    producer.startup()
    try:
        message = Message()
        message.topic = topic
        message.body = b"traced"
        message.tag = "A"
        message.keys = "k1"
        # What an agent of OpenTelemetry sets before a send.
        message.add_property("traceparent", CONTEXT)
        message.add_property("tracestate", "a=b")
        producer.send(message)
    finally:
        producer.shutdown()
    got = found[0]
    print(json.dumps({"body": got.body.decode(), "tag": got.tag, "keys": list(got.keys), "properties": dict(got.properties)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
