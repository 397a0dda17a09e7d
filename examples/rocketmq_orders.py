"""The official RocketMQ 5 SDK over gRPC: send, receive, acknowledge: `python -m examples.rocketmq_orders [host:port]`."""

from __future__ import annotations

import sys
import time

from rocketmq import (
    ClientConfiguration,
    Credentials,
    FilterExpression,
    Message,
    Producer,
    SimpleConsumer,
)


def main(endpoint: str = "127.0.0.1:8081") -> None:
    """Send one message to topic `orders` and receive it as group `accounting`."""
    producer = Producer(ClientConfiguration(endpoint, Credentials()), ("orders",))
    producer.startup()
    consumer = SimpleConsumer(ClientConfiguration(endpoint, Credentials()), "accounting", {"orders": FilterExpression()})
    consumer.startup()
    try:
        message = Message()
        message.topic = "orders"
        message.tag = "new"
        message.body = b"one bicycle"
        print(f"sent {producer.send(message).message_id}")
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for received in consumer.receive(16, 15):
                consumer.ack(received)
                print(f"received {received.body.decode()}")
                if received.body == message.body:
                    return
        raise TimeoutError("the message did not come within 30 s")
    finally:
        consumer.shutdown()
        producer.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
