"""CloudEvents over MQTT (MQTT binding 1.0.2), to and from clients of other protocols."""

from __future__ import annotations

import json

import pytest

from domain.message import property as properties
from protocols.cloudevents import formats, http
from protocols.cloudevents import json as event_format
from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.message import encode
from protocols.mqtt import property as props
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.translate import content
from protocols.mqtt.wire import V5
from tests.protocols.mqtt.stage import PEER, Broker

NOW_MS = 1_790_000_000_000
CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
EVENT = [("specversion", "1.0"), ("id", "7"), ("source", "/s"), ("type", "com.example"), ("subject", "größe")]


def given(pairs: list[tuple[str, str]], content_type: str = "application/json") -> Properties:
    out = Properties()
    out.user = pairs
    if content_type:
        out.texts[props.CONTENT_TYPE] = content_type
    return out


def as_stored(pairs: list[tuple[str, str]], body: bytes = b"{}", content_type: str = "application/json") -> dict[str, str]:
    """Stored properties of a 5.0 PUBLISH with these user properties, without those of its route."""
    return properties.decode(content(given(pairs, content_type), body, V5, NOW_MS).stored)


def test_an_event_that_is_published_is_that_of_http() -> None:
    pairs = [*EVENT, ("partitionkey", "p"), ("traceparent", CONTEXT), ("messageGroup", "other"), ("Own", "x")]
    found = content(given(pairs), b"{}", V5, NOW_MS)
    attributes = {name.encode(): value.encode() for name, value in [*pairs[:-2], ("datacontenttype", "application/json")]}
    wanted = properties.decode(encode(CloudEvent(attributes, b"{}", True), "t", "", PEER.born_host).properties)
    kept = properties.decode(found.stored)
    assert kept.pop("extData") == json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))
    assert kept.pop("Own") == "x"
    assert {**kept, "HG_PROTOCOL": "cloudevents"} == wanted
    assert found.tagged


@pytest.mark.parametrize(
    "pairs",
    [
        [], EVENT[1:], EVENT[:3], [*EVENT, ("id", "8")], [*EVENT, ("datacontenttype", "a/b")],
        [("specversion", "2.0"), *EVENT[1:]], [*EVENT[:2], ("source", ""), EVENT[3]],
    ],
)  # fmt: skip
def test_user_properties_that_are_no_event_stay_user_properties(pairs: list[tuple[str, str]]) -> None:
    assert not any(name.startswith("CE_") or name == "TAGS" for name in as_stored(pairs))


TEXTS = {
    "JSON": b'{ "specversion" : "1.0", "id":"7", "source":"/s","type":"com.example", "data" : {"a": [1, 2]} }',
    "text": '{"specversion":"1.0","id":"7","source":"/s","type":"t","datacontenttype":"text/plain","data":"größe"}'.encode(),
    "escaped": b'{"specversion":"1.0","id":"7","source":"/s","type":"t","datacontenttype":"text/plain","data":"a\\nb"}',
    "base64": b'{"data_base64":"AAEC","specversion":"1.0","id":"7","source":"/s","type":"com.example"}',
    "no data": b'{"specversion":"1.0","id":"7","source":"/s","type":"com.example"}\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_structured_event_is_that_of_http_and_is_forwarded_as_it_was_sent(text: bytes) -> None:
    wanted = encode(event_format.decode(text), "t", "", PEER.born_host)
    for version in (4, V5):
        kind = "application/cloudevents+json; charset=utf-8"
        broker = Broker()
        five, three = broker.client(5), broker.client(4)
        for listener, name in ((five, "five"), (three, "three")):
            listener.connect(name)
            listener.subscribe("t/#")
        sender = broker.joined("sender", version)
        sender.publish("t/x", text, 0, properties=given([], kind) if version == V5 else NONE)
        (message,) = five.messages()
        assert message.body == text
        assert message.properties.texts[props.CONTENT_TYPE] == (kind if version == V5 else "application/cloudevents+json")
        assert [each.body for each in three.messages()] == [text]
        stored = content(given([], kind) if version == V5 else NONE, text, version, NOW_MS)
        kept = properties.decode(stored.stored)
        assert kept.pop("HG_ENVELOPE")
        assert ({**kept, "HG_PROTOCOL": "cloudevents"}, stored.body) == (properties.decode(wanted.properties), wanted.body)


BINARY_FORMATS = {
    f"{kind.decode().partition('+')[2]} {name}": (kind, formats.encode(kind, event_format.decode(text)))
    for kind in (http.PROTOBUF, http.AVRO)
    for name, text in TEXTS.items()
}


@pytest.mark.parametrize(("kind", "payload"), BINARY_FORMATS.values(), ids=BINARY_FORMATS.keys())
def test_an_event_in_a_binary_format_is_that_of_http_and_is_forwarded_as_it_was_sent(
    broker: Broker, kind: bytes, payload: bytes
) -> None:
    event = formats.decode(http.MODES[kind], payload)
    wanted = encode(event, "t", "", PEER.born_host)
    five, three = broker.client(5), broker.client(4)
    for listener, name in ((five, "five"), (three, "three")):
        listener.connect(name)
        listener.subscribe("t/#")
    sender = broker.joined("sender", 5)
    sender.publish("t/x", payload, 0, properties=given([], kind.decode()))
    (message,) = five.messages()
    assert (message.body, message.properties.texts[props.CONTENT_TYPE]) == (payload, kind.decode())
    # Nothing tells a client of 3.1.1 which format a payload has: it can expect JSON alone.
    (older,) = three.messages()
    assert event_format.decode(older.body).attributes == event.attributes
    assert event_format.decode(older.body).data == event.data
    kept = properties.decode(content(given([], kind.decode()), payload, V5, NOW_MS).stored)
    assert kept.pop("HG_ENVELOPE")[:1] == ("J" if event.data else "N")
    assert {**kept, "HG_PROTOCOL": "cloudevents"} == properties.decode(wanted.properties)


def test_an_event_of_a_binary_format_whose_text_cannot_be_kept_is_encoded_anew_in_that_format(broker: Broker) -> None:
    attributes = {**{name.encode(): value.encode() for name, value in EVENT}, b"long": b"x" * 9_000}
    payload = formats.encode(http.AVRO, CloudEvent(attributes, b"data", False))
    five = broker.joined("five", 5, "t/#")
    five.publish("t/x", payload, 0, properties=given([], http.AVRO.decode()))
    (message,) = five.messages()
    assert message.properties.texts[props.CONTENT_TYPE] == http.AVRO.decode()
    found = formats.decode(http.STRUCTURED_AVRO, message.body)
    assert (found.attributes, found.data) == (attributes, b"data")


@pytest.mark.parametrize("kind", [http.BATCH_JSON, http.PROTOBUFS, http.PROTOBUF, http.AVRO, b"application/cloudevents+xml"])
def test_batches_and_payloads_that_are_not_of_their_format_are_not_touched(kind: bytes) -> None:
    payload = b"[" + TEXTS["JSON"] + b"]"
    found = content(given([], kind.decode()), payload, V5, NOW_MS)
    assert (found.body, "CE_id" in properties.decode(found.stored)) == (payload, False)


@pytest.mark.parametrize(
    "text",
    [
        b'{"specversion":"1.0"}',
        b'{"a":1}',
        b'["specversion"]',
        b'{"specversion":"1.0","id":"7","source":"/s","type":"t","time":"now"}',
        b"{",
    ],
)
def test_a_payload_that_is_no_event_is_not_touched(text: bytes) -> None:
    for version, sent in ((4, NONE), (V5, given([], "application/cloudevents+json"))):
        found = content(sent, text, version, NOW_MS)
        assert (found.body, found.tagged) == (text, False)
        assert "CE_id" not in properties.decode(found.stored)


def test_a_payload_is_an_event_in_version_5_only_when_its_content_type_says_so() -> None:
    assert content(NONE, TEXTS["JSON"], V5, NOW_MS).stored == b""
    assert "CE_id" not in as_stored([], TEXTS["JSON"])


def test_a_subscriber_below_version_5_gets_events_in_structured_mode(broker: Broker) -> None:
    listener = broker.joined("listener", 4, "t/#")
    sender = broker.joined("sender", 5)
    sender.publish("t/x", b'{"a":1}', 0, properties=given(EVENT))
    (message,) = listener.messages()
    assert json.loads(message.body) == {**dict(EVENT), "datacontenttype": "application/json", "data": {"a": 1}}


def test_a_subscriber_gets_attributes_as_user_properties_whoever_sent_the_event(broker: Broker) -> None:
    listener = broker.joined("listener", 5, "t/#")
    sender = broker.joined("sender", 5)
    sender.publish("t/x", b"{}", properties=given(EVENT))
    attributes = {name.encode(): value.encode() for name, value in EVENT}
    message = encode(CloudEvent({**attributes, b"datacontenttype": b"text/plain"}, b"hello", False), "t", "t/y", PEER.born_host)
    broker.publish("t", message.body, message.properties)
    first, second = listener.messages()
    assert (first.properties.user, first.properties.texts[props.CONTENT_TYPE]) == (EVENT, "application/json")
    assert (sorted(second.properties.user), second.body) == (sorted(EVENT), b"hello")
    assert second.properties.texts[props.CONTENT_TYPE] == "text/plain"
