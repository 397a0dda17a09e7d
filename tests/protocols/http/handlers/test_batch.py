"""`POST /v1/topics/{path…}/messages:batch`: all or none, and large batches in slices."""

from __future__ import annotations

import base64
import json

import pytest

from domain.command import Send
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, RETAIN_SET
from protocols.http.handlers.batch import AT_ONCE_BYTES, MESSAGES_MAX, PROPERTIES_JSON_BYTES_MAX
from tests.protocols.http.stage import NOW_MS, PEER, Answer, Client, adapter, request
from tests.protocols.taken import only

TARGET = "/v1/topics/orders/messages:batch"
AS_JSON = {"Content-Type": "application/json"}
LARGE = json.dumps({"text": "x" * AT_ONCE_BYTES})
"""A message with which a batch is decoded in slices."""


def ask(client: Client, body: str, content_type: str = "application/json") -> Answer:
    return client.ask("POST", TARGET, {"Content-Type": content_type}, body.encode())


ITEMS: list[dict[str, object]] = [
    {"text": "é", "key": "k", "tag": "t", "properties": {"a": "b"}},
    {"body": base64.b64encode(b"\x00\x01").decode(), "messageGroup": "g", "contentType": "a/b", "delay_ms": 5, "retain": True},
]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", json.dumps(ITEMS)),
        ("application/json; charset=utf-8", json.dumps(ITEMS, indent=1)),
        ("application/x-ndjson", "\n".join(map(json.dumps, ITEMS)) + "\n"),
    ],
)
def test_batches(content_type: str, body: str) -> None:
    client = Client()
    answer = ask(client, body, content_type)
    assert answer.status == 200
    assert answer.json()["results"] == [
        {"id": "ID0", "queue": 3, "offset": 40},
        {"id": "ID1", "deliverAt": NOW_MS + 5},
    ]
    command = only(client.commands, Send)
    first, second = command.messages
    assert (first.body, second.body) == ("é".encode(), b"\x00\x01")
    assert (first.retain, second.retain) == (RETAIN_NONE, RETAIN_SET)
    assert properties.decode(first.properties) == {"HG_PROTOCOL": "http", "KEYS": "k", "TAGS": "t", "a": "b"}
    assert properties.decode(second.properties) == {
        "HG_PROTOCOL": "http",
        "__SHARDINGKEY": "g",
        "HG_CONTENT_TYPE": "a/b",
        "TIMER_DELIVER_MS": str(NOW_MS + 5),
        "mqttRetain": "true",
    }


BAD = [
    "{}",
    "[]",
    "nonsense",
    "[1]",
    "[{}]",
    '[{"text":1}]',
    '[{"text":"x","body":"eA=="}]',
    '[{"body":"?"}]',
    '[{"text":"x","no":1}]',
    '[{"text":"x","key":5}]',
    '[{"text":"x","delay_ms":-1}]',
    '[{"text":"x","properties":{"KEYS":"x"}}]',
    '[{"text":"x","tag":"|"}]',
]


@pytest.mark.parametrize("items", BAD)
def test_bad_batches_store_nothing(items: str) -> None:
    client = Client()
    assert ask(client, items).status == 400
    assert not client.commands


@pytest.mark.parametrize("item", [items[1:-1] for items in BAD if items[0] == "[" and items != "[]"])
def test_a_large_batch_with_a_bad_message_gets_the_same_answer(item: str) -> None:
    """The small one is decoded at once, the large one in slices, the last one has a large bad message."""
    client = Client()
    small, large = ask(client, f'[{{"text":"y"}},{item}]').json(), ask(client, f"[{LARGE},{item}]").json()
    assert small == large
    assert small["index"] == 1
    if item[:2] == '{"':
        assert ask(client, f"[{LARGE},{item[:1]}{' ' * AT_ONCE_BYTES}{item[1:]}]").status == 400
    assert not client.commands


@pytest.mark.parametrize("end", ["", "]", "[", ",", "],", "]x", ',{"text":"\\ud800"}]', ",nonsense]"])
def test_a_large_batch_that_is_no_json_is_refused(end: str) -> None:
    client = Client()
    answer = ask(client, f"[{LARGE}{end}")
    assert (answer.status, bool(client.commands)) == ((200, True) if end == "]" else (400, False))


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", f" [ {LARGE} , {json.dumps(ITEMS[0])},{json.dumps(ITEMS[1])} ] "),
        ("application/x-ndjson", f"\n\r\n \n{LARGE}\r\n\n{json.dumps(ITEMS[0])}\n{json.dumps(ITEMS[1])}"),
    ],
)
def test_a_large_batch_is_one_command(content_type: str, body: str) -> None:
    client = Client()
    answer = ask(client, body, content_type)
    assert [result["id"] for result in answer.json()["results"]] == ["ID0", "ID1", "ID2"]
    command = only(client.commands, Send)
    assert [message.body for message in command.messages] == [b"x" * AT_ONCE_BYTES, "é".encode(), b"\x00\x01"]
    assert properties.decode(command.messages[1].properties) == {"HG_PROTOCOL": "http", "KEYS": "k", "TAGS": "t", "a": "b"}


def test_a_large_message_has_all_its_members() -> None:
    client = Client()
    members = {**ITEMS[1], "body": base64.b64encode(bytes(AT_ONCE_BYTES)).decode(), "properties": {"a": "é"}, "expiresAt": "7"}
    assert ask(client, json.dumps([members])).status == 200
    (message,) = client.commands[0].messages  # type: ignore[attr-defined]
    assert message.body == bytes(AT_ONCE_BYTES)
    assert message.retain == RETAIN_SET
    assert properties.decode(message.properties) == {
        "HG_PROTOCOL": "http",
        "__SHARDINGKEY": "g",
        "HG_CONTENT_TYPE": "a/b",
        "TIMER_DELIVER_MS": str(NOW_MS + 5),
        "HG_EXPIRE_MS": "7",
        "mqttRetain": "true",
        "a": "é",
    }


def test_a_large_batch_is_decoded_in_slices() -> None:
    connection = adapter().connect(PEER, 0)
    body = json.dumps([{"text": "x" * 200, "key": "k"}] * MESSAGES_MAX).encode()
    commands = list(connection.receive(request("POST", TARGET, AS_JSON, body), 0))
    turns = 0
    while not commands:
        turns += 1
        due = connection.deadline()
        assert due is not None
        commands += connection.expire(max(0, due))
    assert turns >= 4
    command = only(commands, Send)
    assert len(command.messages) == MESSAGES_MAX


@pytest.mark.parametrize("pad", ["", " " * AT_ONCE_BYTES])
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_batch_has_a_largest_number_of_messages(kind: str, pad: str) -> None:
    for count, status in ((MESSAGES_MAX, 200), (MESSAGES_MAX + 1, 400)):
        one = '{"text":"x"}'
        body = pad + ("\n".join([one] * count) if kind.endswith("ndjson") else f"[{','.join([one] * count)}]")
        assert ask(Client(), body, kind).status == status


@pytest.mark.parametrize(
    ("member", "status"),
    [
        ('"properties":[' + "[]," * (PROPERTIES_JSON_BYTES_MAX // 3) + "0]", 413),
        ('"properties":{"a":' + "[" * 50_000 + "]" * 50_000 + "}", 400),
        ('"properties":{' + ",".join([f'"{at}":1' for at in range(9_000)]) + "}", 400),
        ('"key":"' + "k" * 200_000 + '"', 413),
        ('"key":[' + "[]," * 30_000 + "0]", 400),
        ('"delay_ms":[' + "[]," * 30_000 + "0]", 400),
        ('"retain":[' + "[]," * 30_000 + "0]", 200),
        ('"":[' + "[]," * 30_000 + "0]", 400),
    ],
)
def test_what_can_not_be_large_is_not_decoded(member: str, status: int) -> None:
    assert ask(Client(), f'[{{"text":"x",{member}}}]').status == status


def test_the_refused_element_of_a_batch_is_named() -> None:
    assert ask(Client(), '[{"text":"x"},{"text":"y","tag":"|"}]').json()["index"] == 1


def test_a_batch_of_another_type_is_415() -> None:
    assert ask(Client(), "[]", "text/csv").status == 415


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 413)])
def test_properties_and_path_have_the_bound_of_a_client(more: int, status: int) -> None:
    """31,743 bytes as stored, with the path, which is the client's own word; the protocol's mark is the node's."""
    size = len(properties.encode([("originMqttTopic", "orders/eu")])) + len("k\x01\x02")
    item = {"text": "x", "properties": {"k": "v" * (31_743 - size + more)}}
    client = Client()
    body = json.dumps([item]).encode()
    assert client.ask("POST", "/v1/topics/orders/eu/messages:batch", AS_JSON, body).status == status
