"""What a topic has stored, read as a remoting client reads it."""

from __future__ import annotations

from domain.message.record import Record
from gateway.brokers.pull_reply import split
from gateway.client.client import Client


def stored_records(client: Client, topic: str) -> list[Record]:
    """All messages of a topic, queue after queue, in the order of their offsets."""
    return [
        Record(data)
        for queue, edges in client.bounds(client.route(topic).queues).items()
        for pull in client.scan(queue, edges.first, edges.after)
        for data in split(pull.body)
    ]


def stored_bodies(client: Client, topic: str) -> list[bytes]:
    """Their bodies."""
    return [record.body for record in stored_records(client, topic)]


def stored_by_broker(client: Client, topic: str) -> list[tuple[str, bytes]]:
    """(name of the broker, body) of all messages of a topic."""
    return [
        (queue.broker, Record(data).body)
        for queue, edges in client.bounds(client.route(topic).queues).items()
        for pull in client.scan(queue, edges.first, edges.after)
        for data in split(pull.body)
    ]
