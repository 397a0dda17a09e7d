"""CloudEvents over MQTT 5 (MQTT binding 1.0.2), to and from clients of other protocols."""

from __future__ import annotations

import pytest

from protocols.cloudevents.event import CloudEvent
from protocols.cloudevents.message import decode, encode
from protocols.mqtt import cloudevent
from protocols.mqtt import property as props
from protocols.mqtt.property import Properties
from tests.protocols.mqtt.stage import PEER, Broker

EVENT = [("specversion", "1.0"), ("id", "7"), ("source", "/s"), ("type", "com.example"), ("subject", "größe")]


def given(pairs: list[tuple[str, str]], content_type: str = "application/json") -> Properties:
    out = Properties()
    out.user = pairs
    if content_type:
        out.texts[props.CONTENT_TYPE] = content_type
    return out


def test_an_event_that_is_published_is_one_for_everybody() -> None:
    event = decode(cloudevent.stored(given(EVENT)), b"{}")
    assert event is not None
    assert {name.decode(): value.decode() for name, value in event.attributes.items()} == {
        **dict(EVENT), "datacontenttype": "application/json",
    }  # fmt: skip
    assert event.is_json


@pytest.mark.parametrize(
    "pairs",
    [
        [], EVENT[1:], EVENT[:3], [*EVENT, ("id", "8")], [*EVENT, ("Not-A-Name", "x")], [*EVENT, ("datacontenttype", "a/b")],
        [("specversion", "2.0"), *EVENT[1:]], [*EVENT[:2], ("source", ""), EVENT[3]],
    ],
)  # fmt: skip
def test_user_properties_that_are_no_event_stay_user_properties(pairs: list[tuple[str, str]]) -> None:
    assert cloudevent.stored(given(pairs)) == b""


def test_a_subscriber_gets_attributes_as_user_properties_whoever_sent_the_event() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("t/#")
    sender = broker.client(5)
    sender.connect("sender")
    sender.publish("t/x", b"{}", properties=given(EVENT))
    attributes = {name.encode(): value.encode() for name, value in EVENT}
    message = encode(CloudEvent({**attributes, b"datacontenttype": b"text/plain"}, b"hello", False), "t", "t/y", PEER.born_host)
    broker.publish("t", message.body, message.properties)
    first, second = listener.messages()
    assert (first.properties.user, first.properties.texts[props.CONTENT_TYPE]) == (EVENT, "application/json")
    assert (sorted(second.properties.user), second.body) == (sorted(EVENT), b"hello")
    assert second.properties.texts[props.CONTENT_TYPE] == "text/plain"


def test_a_structured_event_is_a_payload_with_its_content_type() -> None:
    broker = Broker()
    listener = broker.client(5)
    listener.connect("listener")
    listener.subscribe("t")
    kind = "application/cloudevents+json; charset=utf-8"
    listener.publish("t", b'{"specversion":"1.0"}', 0, properties=given([], kind))
    (message,) = listener.messages()
    assert (message.body, message.properties.texts[props.CONTENT_TYPE]) == (b'{"specversion":"1.0"}', kind)
