"""`POST /ce/{path…}`: the three content modes and their responses (CloudEvents HTTP binding and WebHook)."""

from __future__ import annotations

import base64
import json

import pytest

from domain import limits
from domain.command import Command, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from domain.message import property as properties
from domain.message.message import RETAIN_SET
from protocols.cloudevents.json import AT_ONCE_BYTES, SLICE_CHARACTERS
from protocols.http.handlers.events import PART_EVENTS, SLICE_MEMBERS
from protocols.http.status import PHRASE
from tests.protocols.http.stage import EVENT_FIELDS, PEER, Client, adapter, request, sent
from tests.protocols.taken import only

STRUCTURED = {"Content-Type": "application/cloudevents+json"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
GOOD = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def refuse(command: Command) -> Event | None:
    """A full store."""
    assert isinstance(command, Send)
    return Refused(command.ticket, Failure(ErrorCode.OVERLOADED, "the store is behind"))


def test_binary_mode_is_stored_and_answered_204() -> None:
    client = Client()
    answer = client.ask("POST", "/ce/orders", {**EVENT_FIELDS, "Content-Type": "text/plain"}, b"\x00hello")
    assert (answer.status, answer.body, answer.field("mq-message-id")) == (204, b"", "ID0")
    assert answer.field("content-length") is None
    message = client.message()
    assert (message.topic, message.body, message.born_host) == ("orders", b"\x00hello", PEER.born_host)
    assert properties.text(message.properties, "HG_PROTOCOL") == "cloudevents"
    assert properties.text(message.properties, "originMqttTopic") == ""


def test_structured_mode_keeps_the_text_of_data() -> None:
    client = Client()
    body = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{ "b":1, "a" : 2 }}'
    assert client.ask("POST", "/ce/orders", {**STRUCTURED, "ce-id": "ignored"}, body).status == 204
    assert client.message().body == b'{ "b":1, "a" : 2 }'
    assert properties.text(client.message().properties, "CE_id") == "1"


def test_names_of_fields_have_any_case_and_no_body_is_no_data() -> None:
    client = Client()
    fields = {"CE-SpecVersion": "1.0", "Ce-Id": "1", "ce-SOURCE": "/s", "CE-TYPE": "t", "CE-MyExt": "x"}
    assert client.ask("POST", "/ce/orders", fields).status == 204
    message = client.message()
    assert (properties.text(message.properties, "CE_myext"), message.body) == ("x", b"")
    assert "CE_datacontenttype" not in properties.decode(message.properties)


def test_fields_of_binary_mode_change_no_structured_event() -> None:
    client = Client()
    fields = {**STRUCTURED, "ce-id": "other", "ce-datacontenttype": "text/plain", "ce-more": "x"}
    assert client.ask("POST", "/ce/orders", fields, json.dumps(GOOD).encode()).status == 204
    found = properties.decode(client.message().properties)
    assert (found["CE_id"], "CE_more" in found, "CE_datacontenttype" in found) == ("1", False, False)


def test_sub_levels_are_the_path() -> None:
    client = Client()
    client.ask("POST", "/ce/sensors/room%201//x%25y/", EVENT_FIELDS, b"x")
    message = client.message()
    assert message.topic == "sensors"
    assert properties.text(message.properties, "originMqttTopic") == "sensors/room 1//x%y/"


@pytest.mark.parametrize("first", ["a.b", "%25RETRY%25g", "a%7Cb", "x" * 128, "TBW102", "$x", ""])
def test_paths_whose_first_level_is_no_topic_have_one_topic(first: str) -> None:
    client = Client()
    assert client.ask("POST", f"/ce/{first}/y", EVENT_FIELDS, b"x").status == 204
    message = client.message()
    assert message.topic == "mqtt_other"
    assert properties.text(message.properties, "originMqttTopic").endswith("/y")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/ce", 404),
        ("/ce/", 400),
        ("/ce/a%2Fb", 400),
        ("/ce/a/%2B", 400),
        ("/ce/a/+", 400),
        ("/ce/%23", 400),
        ("/ce/a/%00", 400),
        ("/ce/..", 400),
        ("/ce/../etc/passwd", 400),
        ("/ce/a/%2e%2e/b", 400),
        ("/ce/a/.", 400),
        ("/ce/%ff", 400),
        ("/ce/%", 400),
        ("/ce/%4", 400),
        ("/ce/%ED%A0%80", 400),
        ("/ce/$SYS/x", 403),
        ("/ce/" + "a/" * 128 + "a", 400),
        ("/ce/a/" + "x" * 4096, 400),
        ("/ce/a#b", 400),
    ],
)
def test_bad_paths(target: str, status: int) -> None:
    client = Client()
    assert client.ask("POST", target, EVENT_FIELDS, b"x").status == status
    assert not client.commands


@pytest.mark.parametrize(
    ("fields", "body", "status", "attribute"),
    [
        ({**EVENT_FIELDS, "ce-id": ""}, b"", 400, "id"),
        ({**EVENT_FIELDS, "ce-specversion": "0.3"}, b"", 400, "specversion"),
        ({**EVENT_FIELDS, "ce-subject": "%C0%A0"}, b"", 400, "subject"),
        ({}, b"", 400, "specversion"),
        (STRUCTURED, b"{}", 400, "specversion"),
        (STRUCTURED, b"not json", 400, None),
        (STRUCTURED, b'{"a":"\xff"}', 400, "a"),
        ({"Content-Type": "application/cloudevents+xml"}, b"<a/>", 415, None),
        ({"Content-Type": "application/cloudevents-batch"}, b"[]", 415, None),
    ],
)
def test_refusals_are_problem_documents_that_name_the_attribute(
    fields: dict[str, str], body: bytes, status: int, attribute: str | None
) -> None:
    """RFC 9457."""
    client = Client()
    answer = client.ask("POST", "/ce/orders", fields, body)
    assert (answer.status, answer.field("content-type")) == (status, "application/problem+json")
    document = answer.json()
    assert document["status"] == status
    assert document.get("attribute") == attribute
    assert {"type", "title", "code", "detail"} <= document.keys()
    assert not client.commands


def test_refusals_of_the_gateway_are_problem_documents() -> None:
    answer = Client(refuse).ask("POST", "/ce/orders", EVENT_FIELDS, b"x")
    assert (answer.status, answer.field("retry-after"), answer.json()["code"]) == (503, "1", "overloaded")


@pytest.mark.parametrize(
    ("code", "status", "after"),
    [
        (ErrorCode.NOT_ALLOWED, 403, None), (ErrorCode.TOPIC_NOT_FOUND, 404, None), (ErrorCode.RATE, 429, "1"),
        (ErrorCode.QUOTA, 429, "1"), (ErrorCode.STORE_UNAVAILABLE, 503, "1"), (ErrorCode.FLUSH_TIMEOUT, 504, None),
    ],
)  # fmt: skip
def test_a_refusal_has_the_status_that_webhook_senders_know(code: ErrorCode, status: int, after: str | None) -> None:
    """HTTP WebHook, 2.2: 429 says when to send again, and no answer redirects."""
    client = Client(lambda command: Refused(command.ticket, Failure(code, "no")))  # type: ignore[attr-defined]
    answer = client.ask("POST", "/ce/orders", EVENT_FIELDS, b"x")
    assert (answer.status, answer.json()["code"], answer.field("retry-after")) == (status, code.value, after)
    assert [status for status in PHRASE if 300 <= status < 400] == []


def test_a_batch_is_answered_event_by_event() -> None:
    client = Client()
    answer = client.ask("POST", "/ce/orders", BATCH, json.dumps([GOOD, {**GOOD, "time": "x"}, GOOD, 5]).encode())
    assert answer.status == 207
    results = answer.json()["results"]
    assert [result["index"] for result in results] == [0, 1, 2, 3]
    assert [result["status"] for result in results] == [200, 400, 200, 400]
    assert results[0] == {"index": 0, "status": 200, "id": "ID0", "queue": 3, "offset": 40}
    assert (results[1]["attribute"], results[1]["code"]) == ("time", "message-illegal")
    assert results[2]["offset"] == 41
    command = only(client.commands, Send)
    assert len(command.messages) == 2


def test_whole_batches() -> None:
    client = Client()
    stored = client.ask("POST", "/ce/orders", BATCH, json.dumps([GOOD] * 3).encode())
    assert (stored.status, len(stored.json()["results"])) == (200, 3)
    none = client.ask("POST", "/ce/orders", BATCH, b"[{},{}]")
    assert (none.status, len(none.json()["results"])) == (400, 2)
    empty = client.ask("POST", "/ce/orders", BATCH, b"[]")
    assert (empty.status, empty.json()) == (200, {"results": []})
    assert client.ask("POST", "/ce/orders", BATCH, b"[{}").status == 400
    assert Client(refuse).ask("POST", "/ce/orders", BATCH, json.dumps([GOOD]).encode()).status == 503


def test_sizes_are_those_of_the_content_mode() -> None:
    """4 MiB of data, 6 MiB of a structured event, 16 MiB of batch."""
    data = b"x" * limits.BODY_BYTES_MAX
    client = Client()
    assert client.ask("POST", "/ce/t", EVENT_FIELDS, data).status == 204
    assert client.ask("POST", "/ce/t", EVENT_FIELDS, data + b"x").status == 413
    event = {**GOOD, "data_base64": base64.b64encode(data).decode()}
    client = Client()
    assert client.ask("POST", "/ce/t", STRUCTURED, json.dumps(event).encode()).status == 204
    assert client.message().body == data
    event["data_base64"] = base64.b64encode(data + b"x").decode()
    answer = client.ask("POST", "/ce/t", STRUCTURED, json.dumps(event).encode())
    assert (answer.status, answer.json()["attribute"]) == (413, "data")
    assert Client().ask("POST", "/ce/t", STRUCTURED, b" " * (limits.ENVELOPE_BYTES_MAX + 1)).status == 413
    batch = json.dumps([{**GOOD, "data": "x" * 3_000_000}] * 5).encode()
    assert len(batch) < limits.CLOUDEVENTS_BATCH_BYTES_MAX
    assert Client().ask("POST", "/ce/t", BATCH, batch).status == 200
    assert Client().ask("POST", "/ce/t", BATCH, b" " * (limits.CLOUDEVENTS_BATCH_BYTES_MAX + 1)).status == 413


def test_preferences() -> None:
    """RFC 7240: 202 only on request, and without waiting for the store."""
    client = Client()
    waiting = client.ask("POST", "/ce/t", {**EVENT_FIELDS, "Prefer": "respond-async"}, b"x")
    assert (waiting.status, waiting.field("preference-applied")) == (202, "respond-async")
    command = only(client.commands, Send)
    assert command.early
    told = client.ask("POST", "/ce/t", {**EVENT_FIELDS, "Prefer": "return=representation"}, b"x")
    assert (told.status, told.json()) == (200, {"id": "ID0", "queue": 3, "offset": 40})


def test_a_refusal_is_told_to_those_who_do_not_wait() -> None:
    answer = Client(refuse).ask("POST", "/ce/t", {**EVENT_FIELDS, "Prefer": "respond-async"}, b"x")
    assert answer.status == 503
    batch = Client().ask("POST", "/ce/t", {**BATCH, "Prefer": "respond-async"}, json.dumps([GOOD, {}]).encode())
    assert (batch.status, [result["status"] for result in batch.json()["results"]]) == (207, [202, 400])


@pytest.mark.parametrize(
    "extension",
    [
        {"partitionkey": "k" * 65},
        {"deliverytime": "2028-11-21T03:00:00Z"},
        {"expirytime": "soon"},
        {f"a{at}": "v" for at in range(97)},
        {"large": "x" * 32_700},
    ],
)
def test_one_refused_event_is_named_and_the_others_are_stored(extension: dict[str, str]) -> None:
    client = Client()
    answer = client.ask("POST", "/ce/t", BATCH, json.dumps([GOOD, {**GOOD, **extension}, GOOD]).encode())
    assert answer.status == 207
    assert [result["status"] in (400, 413) for result in answer.json()["results"]] == [False, True, False]
    if len(extension) == 1 and "large" not in extension:
        assert answer.json()["results"][1]["attribute"] in extension


def test_a_large_batch_is_stored_in_parts() -> None:
    """Each part is one turn of the loop; the answer has the place of every event, in order."""
    client = Client()
    batch = json.dumps([{**GOOD, "id": str(at)} for at in range(1_000)]).encode()
    client.take(client.connection.receive(request("POST", "/ce/t", BATCH, batch), 0))
    while client.connection.deadline() == 0:
        before = len(client.commands)
        client.take(client.connection.expire(0))
        assert len(client.commands) - before <= 1
    assert all(isinstance(command, Send) and len(command.messages) <= PART_EVENTS for command in client.commands)
    (answer,) = client.answers()
    assert (answer.status, [result["index"] for result in answer.json()["results"]]) == (200, list(range(1_000)))


def test_a_part_that_the_store_refuses_fails_alone() -> None:
    def second_fails(command: Command) -> Event | None:
        assert isinstance(command, Send)
        assert isinstance(command.ticket, tuple)
        return refuse(command) if command.ticket[-1] == 1 else sent(command)

    answer = Client(second_fails).ask("POST", "/ce/t", BATCH, json.dumps([GOOD] * (3 * PART_EVENTS)).encode())
    statuses = [result["status"] for result in answer.json()["results"]]
    assert answer.status == 207
    assert statuses == [200] * PART_EVENTS + [503] * PART_EVENTS + [200] * PART_EVENTS


def test_requests_behind_a_sliced_one_wait_for_it() -> None:
    batch = request("POST", "/ce/t", BATCH, json.dumps([GOOD] * 300).encode())
    client = Client().send(batch + request("POST", "/ce/t", EVENT_FIELDS, b"x") + batch)
    assert [answer.status for answer in client.answers()] == [200, 204, 200]
    sizes = [len(command.messages) for command in client.commands if isinstance(command, Send)]
    assert sizes == [64, 64, 64, 64, 44, 1, 64, 64, 64, 64, 44]


def test_a_slice_decodes_few_attributes() -> None:
    events = [{**GOOD, **{f"a{at}": "v" for at in range(90)}}] * PART_EVENTS
    connection = adapter().connect(PEER, 0)
    commands = list(connection.receive(request("POST", "/ce/t", BATCH, json.dumps(events).encode()), 0))
    turns = 0
    while not commands:
        due = connection.deadline()
        assert due is not None
        turns += 1
        commands += connection.expire(due)
    assert turns >= PART_EVENTS * 90 // SLICE_MEMBERS


def test_an_event_of_a_batch_is_as_large_as_a_single_one_at_most() -> None:
    large = json.dumps({**GOOD, "data": " " * limits.ENVELOPE_BYTES_MAX})
    answer = Client().ask("POST", "/ce/t", BATCH, f"[{large},{json.dumps(GOOD)}]".encode())
    assert [result["status"] for result in answer.json()["results"]] == [413, 200]


def test_an_event_can_be_the_latest_value() -> None:
    client = Client()
    assert client.ask("POST", "/ce/a/b", {**EVENT_FIELDS, "mq-retain": "true"}, b"x").status == 204
    assert client.message().retain == RETAIN_SET
    assert client.ask("POST", "/ce/a/b", {**EVENT_FIELDS, "mq-retain": "maybe"}, b"x").status == 400


def test_a_delayed_event_has_no_place_yet() -> None:
    later = {**EVENT_FIELDS, "ce-deliverytime": "2026-11-21T03:00:00Z", "Prefer": "return=representation"}
    assert Client().ask("POST", "/ce/t", later, b"x").json() == {"id": "ID0", "deliverAt": 1_795_230_000_000}
    batch = Client().ask("POST", "/ce/t", BATCH, json.dumps([GOOD, {**GOOD, "deliverytime": "2026-11-21T03:00:00Z"}]).encode())
    assert batch.json()["results"][1] == {"index": 1, "status": 200, "id": "ID1", "deliverAt": 1_795_230_000_000}


@pytest.mark.parametrize("mode", ["structured", "batch"])
def test_a_large_event_is_decoded_in_slices(mode: str) -> None:
    """Base64 of 4 MiB, copied, searched and decoded in one turn, took 35 ms."""
    body = bytes(limits.BODY_BYTES_MAX)
    event = json.dumps({**GOOD, "data_base64": base64.b64encode(body).decode()})
    fields, content = (STRUCTURED, event) if mode == "structured" else (BATCH, f"[{event}]")
    connection = adapter().connect(PEER, 0)
    commands = list(connection.receive(request("POST", "/ce/orders", fields, content.encode()), 0))
    turns = 0
    while not commands:
        turns += 1
        due = connection.deadline()
        assert due is not None
        commands += connection.expire(max(0, due))
    assert turns >= len(event) // SLICE_CHARACTERS + 2
    command = only(commands, Send)
    assert command.messages[0].body == body


def test_a_large_event_that_is_none_is_refused() -> None:
    client = Client()
    text = json.dumps({**GOOD, "data_base64": "A" * AT_ONCE_BYTES + "A"})
    answer = client.ask("POST", "/ce/orders", STRUCTURED, text.encode())
    assert (answer.status, answer.json()["attribute"]) == (400, "data_base64")
    answer = client.ask("POST", "/ce/orders", BATCH, f"[{text},{json.dumps(GOOD)}]".encode())
    assert (answer.status, [one["status"] for one in answer.json()["results"]]) == (207, [400, 200])


def test_a_large_event_has_the_place_and_the_preferences_of_a_small_one() -> None:
    client = Client()
    text = json.dumps({**GOOD, "data": "x" * AT_ONCE_BYTES})
    answer = client.ask("POST", "/ce/orders", {**STRUCTURED, "Prefer": "return=representation"}, text.encode())
    assert (answer.status, answer.json()["id"]) == (200, "ID0")
    assert client.ask("POST", "/ce/orders", {**STRUCTURED, "Prefer": "respond-async"}, text.encode()).status == 202
