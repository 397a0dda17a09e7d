"""Topics as documents: what PUT sets, what it refuses, and DELETE."""

from __future__ import annotations

import json

import pytest

from domain.admin.topic import ChangeTopic, DeleteTopic, QueryTopic, TopicChange, TopicFound
from domain.command import Command
from domain.event import Done, Event
from domain.topic.topic import Durability, Topic
from tests.protocols.http.stage import Client, parse, request
from tests.protocols.taken import only


def react(command: Command) -> Event | None:
    if isinstance(command, ChangeTopic | DeleteTopic):
        return Done(command.ticket)
    if isinstance(command, QueryTopic):
        topic = Topic(command.topic, 4, 4, 6, "FIFO", Durability.PAGE, 60_000, 1 << 30, attributes={"queue.type": "SimpleCQ"})
        return TopicFound(command.ticket, topic)
    return None


def test_put_changes_what_it_names() -> None:
    client = Client(react)
    document = {
        "queues": 4, "type": "FIFO", "durability": "page", "retention_ms": 60_000, "retention_bytes": 0,
        "attributes": {"queue.type": "SimpleCQ", "cleanup.policy": None},
    }  # fmt: skip
    client.send(request("PUT", "/v1/topics/orders", None, json.dumps(document).encode()))
    client.send(request("PUT", "/v1/topics/orders", None, b"{}"))
    first, second = client.commands
    assert isinstance(first, ChangeTopic)
    assert isinstance(second, ChangeTopic)
    attributes = {
        "message.type": "FIFO", "durability": "page", "retention.ms": "60000", "retention.bytes": "0", "queue.type": "SimpleCQ",
    }  # fmt: skip
    assert first.change == TopicChange("orders", 4, 4, None, None, None, attributes, ["cleanup.policy"])
    assert second.change == TopicChange("orders", None, None, None, None, None, {}, [])
    assert [answer.status for answer in parse(client.output)] == [204, 204]


def test_get_has_what_put_sets() -> None:
    (answer,) = parse(Client(react).send(request("GET", "/v1/topics/orders")).output)
    assert answer.json() == {
        "name": "orders", "type": "FIFO", "queues": 4, "durability": "page", "retention_ms": 60_000, "retention_bytes": 1 << 30,
        "attributes": {"queue.type": "SimpleCQ"},
    }  # fmt: skip


def test_delete_deletes() -> None:
    client = Client(react).send(request("DELETE", "/v1/topics/orders"))
    command = only(client.commands, DeleteTopic)
    assert command.topic == "orders"
    assert parse(client.output)[0].status == 204


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"[]", "JSON object"),
        (b"{", "JSON object"),
        (b'{"retention": 5}', "retention is unknown; a topic has queues, type"),
        (b'{"retention_ms": true}', "retention_ms is a text or a whole number"),
        (b'{"retention_ms": {}}', "retention_ms is a text or a whole number"),
        (b'{"queues": "4"}', "queues is a whole number"),
        (b'{"attributes": {"a": 1}}', "attributes is an object of texts"),
        (b'{"attributes": []}', "attributes is an object of texts"),
    ],
)
def test_a_bad_document_is_refused_with_the_member(content: bytes, named: str) -> None:
    client = Client(react).send(request("PUT", "/v1/topics/orders", None, content))
    assert not client.commands
    (answer,) = parse(client.output)
    assert answer.status == 400
    assert named in answer.json()["detail"]
