"""`POST /v1/topics/{path…}/messages`."""

from __future__ import annotations

import json
import urllib.parse

import pytest

from domain.command import Send
from domain.message import property as properties
from domain.message.message import RETAIN_SET
from tests.protocols.http.stage import NOW_MS, Client, parse, request
from tests.protocols.taken import only

TARGET = "/v1/topics/orders/messages"


def stored(client: Client) -> dict[str, str]:
    """The properties of the last message."""
    return properties.decode(client.message().properties)


def test_the_body_is_the_message() -> None:
    client = Client()
    answer = client.ask("POST", TARGET, {"Content-Type": "application/json"}, b'[{"any": "json"}]')
    assert answer.status == 201
    assert answer.json() == {"id": "ID0", "topic": "orders", "queue": 3, "offset": 40}
    assert answer.field("location") == "/v1/topics/orders/queues/3?offset=40&max=1"
    assert client.message().body == b'[{"any": "json"}]'
    assert stored(client) == {"HG_PROTOCOL": "http", "HG_CONTENT_TYPE": "application/json"}


def test_an_empty_body_is_legal() -> None:
    client = Client()
    assert client.ask("POST", TARGET).status == 201
    assert client.message().body == b""


def test_fields_become_properties() -> None:
    client = Client()
    given = urllib.parse.quote(json.dumps({"größe": "12 %", "B": "x"}))
    fields = {
        "mq-key": "k1 k2",
        "mq-tag": "%C3%A9",
        "mq-message-group": "g",
        "mq-properties": given,
        "mq-prop-Colour": "red",
        "mq-queue": "5",
        "mq-retain": "true",
        "traceparent": "00-1-2-01",
    }
    assert client.ask("POST", "/v1/topics/orders/eu/messages", fields, b"x").status == 201
    assert stored(client) == {
        "HG_PROTOCOL": "http",
        "originMqttTopic": "orders/eu",
        "KEYS": "k1 k2",
        "TAGS": "é",
        "__SHARDINGKEY": "g",
        "größe": "12 %",
        "B": "x",
        "colour": "red",
        "traceparent": "00-1-2-01",
        "mqttRetain": "true",
    }
    assert (client.message().queue_id, client.message().retain) == (5, RETAIN_SET)


@pytest.mark.parametrize(
    ("at", "ms"),
    [("2026-11-21T04:00:00Z", 1_795_233_600_000), (str(NOW_MS + 5), NOW_MS + 5), ("2020-01-01T00:00:00Z", 1577836800000)],
)
def test_delivery_times(at: str, ms: int) -> None:
    client = Client()
    answer = client.ask("POST", TARGET, {"mq-deliver-at": at}, b"x")
    assert (answer.status, answer.json()) == (201, {"id": "ID0", "topic": "orders", "deliverAt": ms})
    assert answer.field("location") is None
    assert stored(client)["TIMER_DELIVER_MS"] == str(ms)


def test_durations_are_parameters() -> None:
    client = Client()
    assert client.ask("POST", TARGET + "?delay_ms=1500&ttl_ms=60000", None, b"x").status == 201
    assert stored(client)["TIMER_DELIVER_MS"] == str(NOW_MS + 1500)
    assert stored(client)["HG_EXPIRE_MS"] == str(NOW_MS + 60000)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"mq-tag": "a|b"}, "property-illegal"),
        ({"mq-tag": ""}, "property-illegal"),
        ({"mq-key": "%01"}, "property-illegal"),
        ({"mq-key": "%"}, "argument-illegal"),
        ({"mq-message-group": "x" * 65}, "property-illegal"),
        ({"mq-properties": "[]"}, "property-illegal"),
        ({"mq-properties": "nonsense"}, "property-illegal"),
        ({"mq-properties": '{"a":1}'}, "property-illegal"),
        ({"mq-properties": '{"":"x"}'}, "property-illegal"),
        ({"mq-properties": '{"UNIQ_KEY":"x"}'}, "property-illegal"),
        ({"mq-properties": '{"HG_PRINCIPAL":"root"}'}, "property-illegal"),
        ({"mq-deliver-at": "soon"}, "delivery-time-illegal"),
        ({"mq-deliver-at": "2028-11-21T04:00:00Z"}, "delivery-time-illegal"),
        ({"mq-retain": "yes"}, "argument-illegal"),
        ({"mq-queue": "-1"}, "argument-illegal"),
        ({"mq-surprise": "x"}, "argument-illegal"),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, str], code: str) -> None:
    client = Client()
    answer = client.ask("POST", TARGET, fields, b"x")
    assert (answer.status, answer.json()["code"]) == (400, code)
    assert not client.commands


CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER_CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def test_the_trace_context_of_a_request_is_that_of_each_message_without_its_own() -> None:
    client = Client()
    items = [{"text": "a"}, {"text": "b", "properties": {"traceparent": OTHER_CONTEXT, "CE_id": "1"}}]
    fields = {"Content-Type": "application/json", "traceparent": CONTEXT, "tracestate": "a=b"}
    assert client.ask("POST", TARGET + ":batch", fields, json.dumps(items).encode()).status == 200
    command = only(client.commands, Send)
    first, second = [properties.user(message.properties) for message in command.messages]
    assert first == {"traceparent": CONTEXT, "tracestate": "a=b"}
    assert second == {"traceparent": OTHER_CONTEXT, "tracestate": "a=b", "CE_id": "1"}


@pytest.mark.parametrize("fields", [{"tracestate": ""}, {"traceparent": f"{CONTEXT}, {OTHER_CONTEXT}"}])
def test_a_bad_trace_context_is_ignored(fields: dict[str, str]) -> None:
    client = Client()
    assert client.ask("POST", TARGET, fields, b"x").status == 201
    assert stored(client) == {"HG_PROTOCOL": "http"}


@pytest.mark.parametrize(
    "query", ["delay=5", "delay_ms=-1", "delay_ms=1&delay_ms=2", "delay_ms=%zz", "ttl_ms=x", "delay_ms=99999999999"]
)
def test_bad_parameters_are_refused(query: str) -> None:
    assert Client().ask("POST", f"{TARGET}?{query}", None, b"x").status == 400


def test_properties_above_their_bound_are_413() -> None:
    fields = {f"mq-prop-{at}": "%41" * 2 + "x" * 3_000 for at in range(4)}
    assert Client().ask("POST", TARGET, fields, b"x").status == 201
    item = {"text": "x", "properties": {"a": "x" * 40_000}}
    assert (
        Client().ask("POST", TARGET + ":batch", {"Content-Type": "application/json"}, json.dumps([item]).encode()).status == 413
    )


@pytest.mark.parametrize("value", ['"8e03978e-40d5"', "8e03978e-40d5"])
def test_the_idempotency_key_stands_for_target_and_content(value: str) -> None:
    client = Client()
    fields = {"Idempotency-Key": value}
    for target, body in (("/v1/topics/t/messages", b"x"), ("/v1/topics/t/messages", b"y"), ("/v1/topics/u/messages", b"x")):
        client.send(request("POST", target, fields, body))
    keys = [command.once for command in client.commands if isinstance(command, Send)]
    assert all(key is not None and key[0] == b"8e03978e-40d5" for key in keys)
    assert len(set(keys)) == 3


@pytest.mark.parametrize("value", ['""', "x" * 257, 'a"b', "a\tb"])
def test_an_idempotency_key_that_is_none_is_refused(value: str) -> None:
    client = Client()
    client.send(request("POST", "/v1/topics/t/messages", {"Idempotency-Key": value}, b"x"))
    assert not client.commands
    assert parse(client.output)[0].status == 400
