"""Receive, settlement, pull, latest values, topics: the command of each request, and its response."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable

import pytest

from domain import limits
from domain.admin.topic import Bounds, ListTopics, QueryBounds, QueryTopic, TopicFound, TopicList
from domain.command import Acknowledge, Command, DeleteLatest, Extend, Pull, QueryLatest, Receive
from domain.errors import ErrorCode, Failure
from domain.event import Done, Event, Extended, LatestValue, Leased, Pulled, Received, Refused, Settled
from domain.filter.tag import TagFilter
from domain.message.message import SYS_COMPRESSED
from domain.message.receipt import Receipt
from domain.topic.topic import Topic
from tests.protocols.http.stage import NOW_MS, Client, record
from tests.protocols.taken import last

RECEIPT = Receipt(40, NOW_MS, 30_000, 0, 0, "broker-a", 3, 40, 5000)
GROUP = "/v1/groups/g/topics/orders"
STORED = (
    b"UNIQ_KEY\x01ABC\x02KEYS\x01k\x02TAGS\x01t\x02__SHARDINGKEY\x01mg\x02HG_CONTENT_TYPE\x01text/plain\x02"
    b"originMqttTopic\x01orders/eu\x02colour\x01r\xc3\xb8d\x02"
)
CLOUD = (
    b"CE_specversion\x011.0\x02CE_id\x01e 1\x02CE_source\x01/s\x02CE_type\x01t\x02CE_datacontenttype\x01application/json\x02"
)


def answering(make: Callable[[object], Event]) -> Callable[[Command], Event]:
    """A gateway with one fixed answer."""
    return lambda command: make(command.ticket)  # type: ignore[attr-defined]


def leasing(*records: bytes) -> Callable[[Command], Event]:
    """A gateway that leases fixed messages."""
    return answering(lambda ticket: Received(ticket, [Leased(one, RECEIPT, 2) for one in records], NOW_MS, 30_000))


def test_receive_asks_for_what_the_parameters_say() -> None:
    client = Client(leasing())
    assert client.ask("POST", GROUP + ":receive").status == 204
    command = last(client.commands, Receive)
    assert (command.group, command.topic, command.limit, command.wait_ms, command.invisible_ms) == ("g", "orders", 1, 0, 30_000)
    assert (command.queue_id, command.filter, command.from_first, command.ordered) == (-1, None, True, False)
    query = "?max=32&wait_ms=30000&invisible_ms=500&tag=A%20%7C%7C%20B&queue=2&from=last&ordered=true"
    client.ask("POST", GROUP + ":receive" + query)
    command = last(client.commands, Receive)
    assert (command.limit, command.wait_ms, command.invisible_ms, command.queue_id) == (32, 30_000, 500, 2)
    assert isinstance(command.filter, TagFilter)
    assert command.filter.tags == {b"A", b"B"}
    assert (command.from_first, command.ordered) == (False, True)


@pytest.mark.parametrize("target", [GROUP + ":receive", "/v1/topics/orders/queues/3"])
def test_sql_filters_select_by_properties(target: str) -> None:
    client = Client(leasing())
    method = "POST" if "receive" in target else "GET"
    client.ask(method, target + "?filter=weight%20%3E%205%20AND%20colour%20IS%20NULL")
    command = client.commands[-1]
    assert isinstance(command, Receive | Pull)
    assert command.filter is not None
    assert command.filter.matches(b"weight\x017\x02")
    assert not command.filter.matches(b"weight\x017\x02colour\x01red\x02")
    wrong = client.ask(method, target + "?filter=weight%20%3E")
    assert (wrong.status, wrong.json()["code"], wrong.json()["parameter"]) == (400, "filter-illegal", "filter")
    assert "column 9" in wrong.json()["detail"]
    assert client.ask(method, target + "?filter=a%20IS%20NULL&tag=A").status == 400


def test_derived_topics_are_written_escaped() -> None:
    client = Client(leasing())
    assert client.ask("POST", "/v1/groups/g/topics/%25RETRY%25g:receive").status == 204
    command = last(client.commands, Receive)
    assert command.topic == "%RETRY%g"


def test_received_messages_are_json() -> None:
    answer = Client(leasing(record(properties=STORED))).ask("POST", GROUP + ":receive?max=2")
    assert answer.status == 200
    assert answer.json() == {
        "messages": [
            {
                "receipt": RECEIPT.text(),
                "attempt": 2,
                "id": "ABC",
                "topic": "orders",
                "path": "orders/eu",
                "queue": 3,
                "offset": 40,
                "storedMs": NOW_MS,
                "key": "k",
                "tag": "t",
                "messageGroup": "mg",
                "contentType": "text/plain",
                "properties": {"colour": "rød"},
                "body": base64.b64encode(b"hello").decode(),
            }
        ]
    }


def test_a_bare_body_carries_the_rest_in_fields() -> None:
    client = Client(leasing(record(properties=STORED)))
    answer = client.ask("POST", GROUP + ":receive", {"Accept": "application/octet-stream"})
    assert (answer.status, answer.body, answer.field("content-type")) == (200, b"hello", "text/plain")
    assert answer.field("mq-receipt") == RECEIPT.text()
    assert answer.field("mq-message-id") == "ABC"
    assert answer.field("mq-path") == "orders/eu"
    assert answer.field("mq-attempt") == "2"
    assert answer.field("mq-properties") == '{"colour":"r%C3%B8d"}'
    several = client.ask("POST", GROUP + ":receive?max=2", {"Accept": "application/octet-stream"})
    assert several.field("content-type") == "application/json"


def test_a_cloud_event_comes_back_as_one() -> None:
    one = record(body=b'{"a":1}', properties=CLOUD)
    bare = Client(leasing(one)).ask("POST", GROUP + ":receive", {"Accept": "application/octet-stream"})
    assert (bare.field("ce-id"), bare.field("ce-source"), bare.field("content-type")) == ("e%201", "/s", "application/json")
    shown = Client(leasing(one)).ask("POST", GROUP + ":receive").json()["messages"][0]
    assert shown["attributes"]["id"] == "e 1"
    assert shown["properties"] == {f"CE_{name}": value for name, value in shown["attributes"].items()}
    assert bare.field("mq-properties") is None


def test_stored_values_cannot_break_out_of_a_field() -> None:
    evil = record(
        properties=b"UNIQ_KEY\x01a\r\nSet-Cookie: x\x02KEYS\x01 k\x7f\x02HG_CONTENT_TYPE\x01a/b\r\n\r\nx\x02CE_x\r\n\x01y\x02"
        + CLOUD
    )
    answer = Client(leasing(evil)).ask("POST", GROUP + ":receive", {"Accept": "application/octet-stream"})
    assert answer.field("set-cookie") is None
    assert answer.field("mq-message-id") == "a%0D%0ASet-Cookie: x"
    assert answer.body == b"hello"


def test_compressed_bodies_are_made_plain() -> None:
    packed = record(body=zlib.compress(b"hello"), sys_flag=SYS_COMPRESSED)
    shown = Client(leasing(packed)).ask("POST", GROUP + ":receive").json()["messages"][0]
    assert base64.b64decode(shown["body"]) == b"hello"
    broken = record(body=b"nonsense", sys_flag=SYS_COMPRESSED)
    shown = Client(leasing(broken)).ask("POST", GROUP + ":receive").json()["messages"][0]
    assert (base64.b64decode(shown["body"]), shown["compressed"]) == (b"nonsense", True)


def inflating(count: int) -> list[bytes]:
    """Messages of 1 MiB each, of which a kilobyte is stored."""
    packed = zlib.compress(bytes(1 << 20))
    return [record(body=packed, properties=CLOUD, sys_flag=SYS_COMPRESSED, offset=40 + number) for number in range(count)]


def test_what_a_receive_cannot_tell_within_its_budget_is_given_back_at_once() -> None:
    """The budget of a receive counts stored bytes, and compressed bodies grow in the answer."""
    receipts = [Receipt(40 + number, NOW_MS, 30_000, 0, 0, "broker-a", 3, 40 + number) for number in range(32)]
    found = [Leased(one, receipt, 1) for one, receipt in zip(inflating(32), receipts, strict=True)]
    client = Client(lambda command: Received(command.ticket, found, NOW_MS, 30_000) if isinstance(command, Receive) else None)
    answer = client.ask("POST", GROUP + ":receive?max=32")
    told = len(answer.json()["messages"])
    assert told == limits.RECEIVE_BYTES_MAX >> 20
    (back,) = [command for command in client.commands if isinstance(command, Extend)]
    assert (back.group, back.topic, back.receipts) == ("g", "orders", receipts[told:])
    assert (back.invisible_ms, back.untold) == (0, True)


@pytest.mark.parametrize("accept", ["application/json", "application/cloudevents-batch+json"])
def test_a_pull_that_inflates_ends_within_its_budget(accept: str) -> None:
    client = Client(answering(lambda ticket: Pulled(ticket, "FOUND", inflating(32), 72, 0, 80)))
    answer = client.ask("GET", "/v1/topics/orders/queues/3?offset=40", {"Accept": accept})
    shown = answer.json()
    whole = isinstance(shown, dict)
    told = len(shown["messages"] if whole else shown)
    assert told == (4 if whole else 3), "a batch counts the base64 of its data"
    assert str(shown["next"] if whole else answer.field("mq-next-offset")) == str(40 + told)


@pytest.mark.parametrize(
    "target",
    [
        GROUP + ":receive?max=0",
        GROUP + ":receive?max=33",
        GROUP + ":receive?wait=1",
        GROUP + ":receive?invisible_ms=1",
        GROUP + ":receive?from=here",
        GROUP + ":receive?max=1&max=2",
        GROUP + ":receive?wait_ms=1.5",
        GROUP + ":receive?ordered=1",
        "/v1/groups/a%20b/topics/t:receive",
        "/v1/groups/g/topics/a.b:receive",
        "/v1/groups/g/topics/:receive",
        "/v1/topics/t/queues/x",
        "/v1/topics/t/queues/0?offset=-1",
        "/v1/topics/..",
        "/v1/latest/a%2Fb",
    ],
)
def test_bad_requests_ask_nothing(target: str) -> None:
    client = Client(leasing())
    assert client.ask("POST" if "receive" in target else "GET", target).status == 400
    assert not client.commands


def test_content_where_none_belongs_is_refused() -> None:
    assert Client(leasing()).ask("POST", GROUP + ":receive", None, b"{}").status == 413


SECOND_RECEIPT = Receipt(41, NOW_MS, 30_000, 0, 0, "broker-a", 3, 41)


def test_acknowledging_tells_of_each_receipt() -> None:
    gone = Failure(ErrorCode.RECEIPT_EXPIRED, "another has it")
    client = Client(answering(lambda ticket: Settled(ticket, [None, gone])))
    texts = [RECEIPT.text(), "nonsense", SECOND_RECEIPT.text()]
    answer = client.ask("POST", GROUP + ":ack", None, json.dumps({"receipts": texts}).encode())
    assert answer.status == 200
    assert answer.json()["results"] == [
        {"receipt": texts[0], "ok": True},
        {"receipt": texts[1], "ok": False, "code": "receipt-invalid", "detail": "this is no receipt"},
        {"receipt": texts[2], "ok": False, "code": "receipt-expired", "detail": "another has it"},
    ]
    command = last(client.commands, Acknowledge)
    assert [receipt.text() for receipt in command.receipts] == [texts[0], texts[2]]


def test_nack_and_extend_move_the_end_of_the_lease() -> None:
    client = Client(answering(lambda ticket: Extended(ticket, [SECOND_RECEIPT])))
    body = {"receipts": [RECEIPT.text()]}
    given = client.ask("POST", GROUP + ":nack", None, json.dumps(body).encode())
    assert given.json()["results"] == [{"receipt": RECEIPT.text(), "ok": True}]
    command = last(client.commands, Extend)
    assert command.invisible_ms == 0
    client.ask("POST", GROUP + ":nack", None, json.dumps({**body, "delay_ms": 2_000}).encode())
    command = last(client.commands, Extend)
    assert command.invisible_ms == 2_000
    longer = client.ask("POST", GROUP + ":extend", None, json.dumps({**body, "invisible_ms": 60_000}).encode())
    assert longer.json()["results"] == [{"receipt": RECEIPT.text(), "ok": True, "next": SECOND_RECEIPT.text()}]


def test_nothing_but_nonsense_asks_nothing() -> None:
    client = Client(leasing())
    answer = client.ask("POST", GROUP + ":ack", None, b'{"receipts":["a","1 2 3"]}')
    assert [result["ok"] for result in answer.json()["results"]] == [False, False]
    assert not client.commands


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("ack", b""),
        ("ack", b"[]"),
        ("ack", b"{}"),
        ("ack", b'{"receipts":[]}'),
        ("ack", b'{"receipts":[' + b"[]," * 80_000 + b"0]}"),
        ("ack", b'{"receipts":[1]}'),
        ("ack", b'{"receipts":["x"],"delay_ms":1}'),
        ("nack", b'{"receipts":["x"],"delay_ms":-1}'),
        ("extend", b'{"receipts":["x"]}'),
        ("extend", b'{"receipts":["x"],"invisible_ms":0}'),
        ("extend", b'{"receipts":["x"],"invisible_ms":true}'),
        ("ack", b'{"receipts":' + json.dumps(["x"] * 1025).encode() + b"}"),
    ],
)
def test_bad_settlements_are_refused(verb: str, body: bytes) -> None:
    assert Client(leasing()).ask("POST", f"{GROUP}:{verb}", None, body).status == 400


def test_pulling_reads_beside_all_groups() -> None:
    found = [record(properties=STORED), record(body=b'{"a":1}', properties=CLOUD, offset=41)]
    client = Client(answering(lambda ticket: Pulled(ticket, "FOUND", found, 42, 0, 50)))
    answer = client.ask("GET", "/v1/topics/orders/queues/3?offset=40&max=2&wait_ms=5&tag=t")
    command = last(client.commands, Pull)
    assert (command.group, command.queue_id, command.offset, command.limit, command.wait_ms) == ("", 3, 40, 2, 5)
    shown = answer.json()
    assert (shown["next"], shown["min"], shown["max"], shown["status"]) == (42, 0, 50, "FOUND")
    assert [message["offset"] for message in shown["messages"]] == [40, 41]
    batch = client.ask("GET", "/v1/topics/orders/queues/3", {"Accept": "application/cloudevents-batch+json"})
    assert (batch.field("content-type"), batch.field("mq-next-offset")) == ("application/cloudevents-batch+json", "42")
    assert [event["data"] for event in batch.json()] == [{"a": 1}]


def test_latest_values() -> None:
    client = Client(answering(lambda ticket: LatestValue(ticket, record(body=b'{"a":1}', properties=CLOUD))))
    bare = client.ask("GET", "/v1/latest/orders/eu")
    command = last(client.commands, QueryLatest)
    assert command.path == "orders/eu"
    assert (bare.status, bare.body, bare.field("ce-type")) == (200, b'{"a":1}', "t")
    whole = client.ask("GET", "/v1/latest/orders", {"Accept": "application/cloudevents+json"})
    assert (whole.json()["data"], whole.field("content-type")) == ({"a": 1}, "application/cloudevents+json")
    assert client.ask("HEAD", "/v1/latest/orders").body == b""
    absent = Client(answering(lambda ticket: LatestValue(ticket, None))).ask("GET", "/v1/latest/orders")
    assert (absent.status, absent.json()["code"]) == (404, "value-not-found")


def test_a_latest_value_is_removed() -> None:
    client = Client(answering(Done))
    assert client.ask("DELETE", "/v1/latest/orders/eu").status == 204
    command = last(client.commands, DeleteLatest)
    assert command.path == "orders/eu"


def test_topics() -> None:
    topic = Topic("orders", 4, 4)
    shown = {
        "name": "orders", "type": "NORMAL", "queues": 4, "durability": "flushed", "retention_ms": 0, "retention_bytes": 0,
        "attributes": {},
    }  # fmt: skip
    client = Client(answering(lambda ticket: TopicList(ticket, [topic])))
    assert client.ask("GET", "/v1/topics").json() == {"topics": [shown]}
    assert isinstance(client.commands[-1], ListTopics)
    several = Client(answering(lambda ticket: TopicList(ticket, [Topic(name) for name in "bcd"])))
    page = several.ask("GET", "/v1/topics?after=a&max=2").json()
    assert ([one["name"] for one in page["topics"]], page["next"]) == (["b", "c"], "c")
    rest = Client(answering(lambda ticket: TopicList(ticket, [Topic("d")])))
    page = rest.ask("GET", "/v1/topics?after=c&max=2").json()
    assert ([one["name"] for one in page["topics"]], page.get("next")) == (["d"], None)
    client = Client(answering(lambda ticket: TopicFound(ticket, topic)))
    assert client.ask("GET", "/v1/topics/orders").json() == shown
    command = last(client.commands, QueryTopic)
    assert not command.create
    client = Client(answering(lambda ticket: Bounds(ticket, [(0, 1, 5)])))
    assert client.ask("GET", "/v1/topics/orders/queues").json() == {"queues": [{"queue": 0, "min": 1, "max": 5}]}
    assert isinstance(client.commands[-1], QueryBounds)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", GROUP + ":receive", b""),
        ("POST", GROUP + ":ack", json.dumps({"receipts": [RECEIPT.text()]}).encode()),
        ("GET", "/v1/topics", b""),
        ("GET", "/v1/topics/t/queues/0", b""),
        ("GET", "/v1/latest/t", b""),
        ("DELETE", "/v1/latest/t", b""),
        ("POST", "/v1/topics/t/messages", b"x"),
        ("POST", "/v1/topics/t/messages:batch", b'[{"text":"x"}]'),
    ],
)
def test_refusals_of_the_gateway_have_their_status(method: str, target: str, body: bytes) -> None:
    fields = {"Content-Type": "application/json"}
    client = Client(answering(lambda ticket: Refused(ticket, Failure(ErrorCode.TOPIC_NOT_FOUND, "no topic t"))))
    answer = client.ask(method, target, fields, body)
    assert (answer.status, answer.json()["code"], answer.json()["detail"]) == (404, "topic-not-found", "no topic t")
    other = Client(answering(lambda ticket: Bounds(ticket, []))).ask(method, target, fields, body)
    assert other.status == (200 if target == "/v1/topics" else 500)


def test_the_content_of_a_settlement_is_bounded() -> None:
    content = b'{"receipts":[' + b"[]," * 100_000 + b"0]}"
    assert Client().ask("POST", GROUP + ":ack", None, content).status == 413
