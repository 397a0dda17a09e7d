"""`POST /`: rules choose the topic of an event by its source and type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from domain.command import Command, Send
from domain.errors import ConfigError, ErrorCode, Failure
from domain.event import Event, Refused
from domain.message import property as properties
from gateway.node.settings_tables import read
from protocols.cloudevents.event import CloudEvent, CloudEventError
from protocols.cloudevents.routes import KNOWN_MAX, ROUTES_MAX, EventRoute, EventRoutes
from protocols.http.handlers.events import PART_EVENTS
from protocols.http.settings import HttpSettings
from tests.protocols.http.stage import EVENT_FIELDS, TLS_PEER, Client, sent

STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
RULES = [
    {"source": "/shop", "type": "order.*", "topic": "orders"},
    {"source": "/rooms/*", "topic": "rooms/any"},
    {"type": "alarm", "topic": "alarms"},
]


def event(source: str, kind: str, number: int = 1) -> dict[str, str]:
    """An event in JSON."""
    return {"specversion": "1.0", "id": str(number), "source": source, "type": kind}


def place(source: str, kind: str) -> tuple[str, str]:
    """Where RULES send an event."""
    routes = EventRoutes([EventRoute(**rule) for rule in RULES])
    return routes.find(CloudEvent({b"source": source.encode(), b"type": kind.encode()}, b"", False))


@pytest.mark.parametrize(
    ("source", "kind", "topic", "path"),
    [
        ("/shop", "order.made", "orders", ""), ("/shop", "order.", "orders", ""), ("/shop", "alarm", "alarms", ""),
        ("/rooms/1", "order.made", "rooms", "rooms/any"), ("/rooms/", "alarm", "rooms", "rooms/any"),
        ("/x", "alarm", "alarms", ""),
    ],
)  # fmt: skip
def test_the_first_rule_that_fits_chooses(source: str, kind: str, topic: str, path: str) -> None:
    assert place(source, kind) == (topic, path)
    client = Client(event_routes=RULES)
    assert client.ask("POST", "/", STRUCTURED, json.dumps(event(source, kind)).encode()).status == 204
    fields = {**EVENT_FIELDS, "ce-source": source, "ce-type": kind}
    assert client.ask("POST", "/", fields, b"x").status == 204
    assert client.message().topic == topic
    assert properties.text(client.message().properties, "originMqttTopic") == path


@pytest.mark.parametrize(("source", "kind"), [("/shop", "orders"), ("/shop/1", "order.made"), ("/rooms", "t"), ("x", "alarms")])
def test_an_event_that_no_rule_fits_is_404(source: str, kind: str) -> None:
    with pytest.raises(CloudEventError) as error:
        place(source, kind)
    assert error.value.unrouted
    client = Client(event_routes=RULES)
    answer = client.ask("POST", "/", STRUCTURED, json.dumps(event(source, kind)).encode())
    assert (answer.status, answer.json()["code"], client.commands) == (404, "topic-not-found", [])
    assert "event_routes" in answer.json()["detail"]


def test_without_rules_nothing_is_served_there() -> None:
    client = Client(peer=TLS_PEER)
    assert client.ask("POST", "/", EVENT_FIELDS, b"x").json()["code"] == "path-unknown"
    asked = client.ask("OPTIONS", "/", {"WebHook-Request-Origin": "a.example"})
    assert (asked.status, asked.field("webhook-allowed-origin")) == (404, None)


def test_senders_of_webhooks_are_told_there_too() -> None:
    asked = Client(peer=TLS_PEER, event_routes=RULES).ask("OPTIONS", "/", {"WebHook-Request-Origin": "a.example"})
    assert (asked.status, asked.field("webhook-allowed-origin")) == (204, "a.example")


def test_each_event_of_a_batch_goes_to_its_own_topic() -> None:
    """A topic that refuses leaves the events of the others, and each result stands at its place."""

    def react(command: Command) -> Event | None:
        assert isinstance(command, Send)
        (topic,) = {message.topic for message in command.messages}
        if topic == "alarms":
            return Refused(command.ticket, Failure(ErrorCode.NOT_ALLOWED, "no"))
        return sent(command)

    client = Client(react, event_routes=RULES)
    kinds = [("/shop", "order.made"), ("/x", "alarm"), ("/x", "nothing"), ("/rooms/7", "t")] * PART_EVENTS
    batch = [event(source, kind, number) for number, (source, kind) in enumerate(kinds)]
    answer = client.ask("POST", "/", BATCH, json.dumps(batch).encode())
    results = answer.json()["results"]
    assert answer.status == 207
    assert [each["index"] for each in results] == list(range(len(batch)))
    assert [each["status"] for each in results] == [200, 403, 404, 200] * PART_EVENTS
    stored: dict[str, list[str]] = {}
    for command in client.commands:
        assert isinstance(command, Send)
        assert len(command.messages) <= PART_EVENTS
        for message in command.messages:
            stored.setdefault(message.topic, []).append(properties.text(message.properties, "CE_id"))
    assert {topic: len(ids) for topic, ids in stored.items()} == dict.fromkeys(("orders", "alarms", "rooms"), PART_EVENTS)
    assert stored["rooms"] == [str(number) for number in range(3, len(batch), 4)]


def test_what_is_remembered_is_bounded() -> None:
    routes = EventRoutes([EventRoute(topic="all")])
    for number in range(3 * KNOWN_MAX):
        routes.find(CloudEvent({b"source": b"/%d" % number, b"type": b"t" * (number % 400)}, b"", False))
    assert len(routes._known) <= KNOWN_MAX
    assert routes.find(CloudEvent({b"source": b"/0", b"type": b"t"}, b"", False)) == ("all", "")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"source": "a*b", "topic": "t"}, "event_routes[0]: source is 'a*b'"),
        ({"type": "", "topic": "t"}, "event_routes[0]: type is ''"),
        ({"type": "x" * 2_000, "topic": "t"}, "event_routes[0]: type is"),
        ({"source": "/a"}, "event_routes[0]: topic is ''"),
        ({"topic": "a/+"}, "event_routes[0]: topic is"),
        ({"topic": "a//b"}, "event_routes[0]: topic is"),
        ({"topic": "$SYS/x"}, "event_routes[0]: topic is"),
        ({"topic": "t", "sources": "x"}, "event_routes[0].sources is unknown"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_an_error_of_the_configuration(rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(HttpSettings, "http", {"event_routes": [rule]}, {})
    assert said in str(error.value)


def test_rules_are_bounded() -> None:
    with pytest.raises(ConfigError, match="at most"):
        read(HttpSettings, "http", {"event_routes": [{"topic": "t"}] * (ROUTES_MAX + 1)}, {})
