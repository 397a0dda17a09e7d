"""`POST /ce/{path…}`: event formats beside JSON, events of 0.3, and tokens of WebHook senders."""

from __future__ import annotations

import base64
import json

import pytest

from domain.access.access import BearerToken, Credentials, Password
from domain.access.principal import Principal
from domain.command import Command, Pull, QueryLatest, Send
from domain.errors import Failure
from domain.event import Event, LatestValue, Pulled
from domain.message import property as properties
from protocols.cloudevents import formats, protobuf
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.http import MODES
from protocols.cloudevents.json import AT_ONCE_BYTES
from protocols.cloudevents.messages import cloudevents_pb2 as pb
from protocols.http.handlers.events import PART_EVENTS
from tests.protocols.http.stage import EVENT_FIELDS, TLS_PEER, Client, OnePassword, record
from tests.protocols.taken import only

STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
OLD = {"specversion": "0.3", "id": "1", "source": "/s", "type": "t", "schemaurl": "https://e.org/s"}
SENT = CloudEvent(
    {b"specversion": b"1.0", b"id": b"1", b"source": b"/s", b"type": b"t", b"datacontenttype": b"text/plain"}, b"hello", False
)


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({f"ce-{name}": value for name, value in OLD.items()}, b"x"),
        (STRUCTURED, json.dumps({**OLD, "data": "x"}).encode()),
        (BATCH, json.dumps([{**OLD, "data": "x"}]).encode()),
    ],
    ids=["binary", "structured", "batch"],
)
def test_events_of_0_3_are_accepted_by_a_setting(fields: dict[str, str], body: bytes) -> None:
    refused = Client().ask("POST", "/ce/orders", fields, body)
    assert refused.status == 400
    assert "cloudevents_03" in json.dumps(refused.json())
    client = Client(cloudevents_03=True)
    assert client.ask("POST", "/ce/orders", fields, body).status in (200, 204)
    found = properties.decode(client.message().properties)
    assert (found["CE_specversion"], found["CE_dataschema"]) == ("1.0", "https://e.org/s")


@pytest.mark.parametrize("fields", [STRUCTURED, BATCH], ids=["structured", "batch"])
def test_a_large_event_of_0_3_is_one_too(fields: dict[str, str]) -> None:
    data = bytes(2 * AT_ONCE_BYTES)
    event = {**OLD, "datacontentencoding": "base64", "data": base64.b64encode(data).decode()}
    client = Client(cloudevents_03=True)
    text = json.dumps(event if fields is STRUCTURED else [event]).encode()
    assert client.ask("POST", "/ce/orders", fields, text).status in (200, 204)
    assert client.message().body == data


@pytest.mark.parametrize("media_type", [b"application/cloudevents+protobuf", b"application/cloudevents+avro"])
def test_an_event_of_a_binary_format_is_the_same_message(media_type: bytes) -> None:
    client, other = Client(), Client()
    body = formats.encode(media_type, SENT)
    assert client.ask("POST", "/ce/orders", {"Content-Type": media_type.decode()}, body).status == 204
    other.ask("POST", "/ce/orders", {**EVENT_FIELDS, "Content-Type": "text/plain"}, b"hello")
    assert properties.decode(client.message().properties) == properties.decode(other.message().properties)
    assert client.message().body == other.message().body == b"hello"
    bad = client.ask("POST", "/ce/orders", {"Content-Type": media_type.decode()}, body[:-1])
    assert (bad.status, bad.json()["code"]) == (400, "message-illegal")


def test_a_batch_in_protobuf_is_answered_event_by_event() -> None:
    client = Client()
    one = protobuf.encode_batch([SENT])
    batch = one + b"\x0a\x00" + one * PART_EVENTS
    answer = client.ask("POST", "/ce/orders", {"Content-Type": "application/cloudevents-batch+protobuf"}, batch)
    assert answer.status == 207
    statuses = [result["status"] for result in answer.json()["results"]]
    assert statuses == [200, 400] + [200] * PART_EVENTS
    assert answer.json()["results"][1]["attribute"] == "specversion"
    assert [len(command.messages) for command in client.commands if isinstance(command, Send)] == [PART_EVENTS, 1]
    bad = Client().ask("POST", "/ce/orders", {"Content-Type": "application/cloudevents-batch+protobuf"}, b"\x0a\x05x")
    assert bad.status == 400


@pytest.mark.parametrize("content_type", ["application/cloudevents+xml", "application/cloudevents-batch+avro"])
def test_who_sends_an_unknown_format_is_told_those_that_are_known(content_type: str) -> None:
    answer = Client().ask("POST", "/ce/orders", {"Content-Type": content_type}, b"x")
    assert answer.status == 415
    for name in MODES:
        assert name.decode() in (answer.field("accept") or "").split(", ")
        assert name.decode() in answer.json()["detail"]


def stored() -> bytes:
    """SENT as a record, in the queue and as the latest value."""
    return record(body=SENT.data, properties=mapping.stored_form(SENT))


def found_again(command: Command) -> Event | None:
    """SENT is in the queue, behind a message that is no event, and it is the latest value."""
    if isinstance(command, Pull):
        return Pulled(command.ticket, "FOUND", [record(), stored()], 42, 40, 42)
    assert isinstance(command, QueryLatest)
    return LatestValue(command.ticket, stored())


@pytest.mark.parametrize("media_type", [name for name in MODES if b"batch" not in name])
def test_the_latest_value_comes_in_the_format_that_is_asked_for(media_type: bytes) -> None:
    answer = Client(found_again).ask("GET", "/v1/latest/orders", {"Accept": media_type.decode()})
    assert (answer.status, answer.field("content-type")) == (200, media_type.decode())
    found = formats.decode(MODES[media_type], answer.body)
    assert (found.attributes, found.data) == (SENT.attributes, SENT.data)


def test_a_queue_is_read_as_a_batch_in_protobuf() -> None:
    accept = {"Accept": "application/cloudevents-batch+protobuf"}
    answer = Client(found_again).ask("GET", "/v1/topics/orders/queues/3?offset=40", accept)
    assert (answer.status, answer.field("content-type")) == (200, accept["Accept"])
    assert answer.field("mq-next-offset") == "42"
    (event,) = pb.CloudEventBatch.FromString(answer.body).events
    assert (event.id, event.text_data) == ("1", "hello")


class OneToken(OnePassword):
    """An authority that knows one token."""

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        """The principal `u` for the token `t0k`."""
        return super().authenticate(Password("u", b"p") if credentials == BearerToken("t0k") else None, host, certified)


@pytest.mark.parametrize(
    ("query", "fields", "status"),
    [
        ("?access_token=t0k", {}, 204),
        ("?access_token=bad", {}, 401),
        ("", {}, 401),
        ("", {"Authorization": "Bearer t0k"}, 204),
        ("?access_token=t0k", {"Authorization": "Bearer bad"}, 401),
        ("?access_token=bad", {"Authorization": "Bearer t0k"}, 204),
    ],
)
def test_a_token_may_be_in_the_query_and_the_field_comes_first(query: str, fields: dict[str, str], status: int) -> None:
    """HTTP WebHook, 3: both ways are served, and Authorization is preferred. RFC 6750, 2.3: nobody caches the answer."""
    kept = "private" if query and status == 204 else None
    answer = Client(authority=OneToken(), peer=TLS_PEER).ask("POST", f"/ce/orders{query}", {**EVENT_FIELDS, **fields}, b"x")
    assert (answer.status, answer.field("cache-control")) == (status, kept)
    other = Client(authority=OneToken(), peer=TLS_PEER)
    batch = other.ask("POST", f"/ce/orders{query}", {**BATCH, **fields}, json.dumps([GOOD]).encode())
    assert (batch.status, batch.field("cache-control")) == (200 if status == 204 else status, kept)


def test_a_request_that_is_repeated_with_a_new_token_is_the_same() -> None:
    digests = set()
    for token in ("t0k", "other"):
        client = Client(peer=TLS_PEER)
        fields = {**EVENT_FIELDS, "Idempotency-Key": "k"}
        assert client.ask("POST", f"/ce/orders?access_token={token}", fields, b"x").status == 204
        command = only(client.commands, Send)
        digests.add(command.once)
    assert len(digests) == 1
    assert None not in digests
