"""User properties of a PUBLISH with a meaning for every protocol: keys, tag, message group, delivery time, trace context."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from protocols.mqtt.property import Properties
from protocols.mqtt.publish import Ack
from protocols.mqtt.translate import content
from protocols.mqtt.wire import V5
from tests.protocols.mqtt.stage import Broker

NOW_MS = 1_790_000_000_000
CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def given(*pairs: tuple[str, str]) -> Properties:
    out = Properties()
    out.user = list(pairs)
    return out


def stored(*pairs: tuple[str, str]) -> dict[str, str]:
    found = properties.decode(content(given(*pairs), b"x", V5, NOW_MS).stored)
    del found["extData"]
    return found


def test_properties_become_what_they_mean() -> None:
    pairs = (
        ("mq-key", "k1 k2"), ("mq-tag", "A"), ("messageGroup", "g"), ("deliverytime", "2026-09-21T14:13:21.5Z"),
        ("traceparent", CONTEXT), ("tracestate", "a=b"), ("CE_id", "7"), ("own", "x"),
    )  # fmt: skip
    assert stored(*pairs) == {
        "KEYS": "k1 k2", "TAGS": "A", "__SHARDINGKEY": "g", "TIMER_DELIVER_MS": "1790000001500", "traceparent": CONTEXT,
        "tracestate": "a=b", "CE_id": "7", "own": "x",
    }  # fmt: skip
    assert content(given(*pairs), b"x", V5, NOW_MS).tagged


def test_a_tag_that_is_none_stays_a_property() -> None:
    assert stored(("mq-tag", "a|b"), ("messageGroup", "x" * 65)) == {"mq-tag": "a|b", "messageGroup": "x" * 65}
    assert not content(given(("mq-tag", "a|b")), b"x", V5, NOW_MS).tagged


@pytest.mark.parametrize("text", [str(NOW_MS + 5), "2026-09-21T14:13:20.005Z"])
def test_a_delivery_time_is_an_instant_of_either_form(text: str) -> None:
    assert stored(("deliverytime", text)) == {"TIMER_DELIVER_MS": str(NOW_MS + 5)}


@pytest.mark.parametrize("text", ["soon", "-1", str(NOW_MS + 367 * 86_400_000), "2028-01-01T00:00:00Z"])
def test_a_delivery_time_that_cannot_be_kept_is_refused_and_the_connection_stays(broker: Broker, text: str) -> None:
    sender = broker.joined("sender", 5)
    sender.publish("t", properties=given(("deliverytime", text)), packet_id=1)
    sender.publish("t", packet_id=2)
    acks = sender.take()
    assert [(ack.packet_id, ack.code) for ack in acks if isinstance(ack, Ack)] == [(1, 0x83), (2, 0)]


def test_a_subscriber_gets_what_an_sdk_has_set(broker: Broker) -> None:
    listener = broker.joined("listener", 5, "t")
    pairs = {
        "KEYS": "k1 k2", "TAGS": "A", "__SHARDINGKEY": "g", "TIMER_OUT_MS": "1790000001500", "traceparent": CONTEXT,
        "CE_id": "7", "own": "x",
    }  # fmt: skip
    broker.publish("t", b"x", properties.encode(pairs.items()))
    (message,) = listener.messages()
    assert dict(message.properties.user) == {
        "mq-key": "k1 k2", "mq-tag": "A", "messageGroup": "g", "deliverytime": "2026-09-21T14:13:21.500Z",
        "traceparent": CONTEXT, "CE_id": "7", "own": "x",
    }  # fmt: skip


def test_a_subscriber_gets_the_user_properties_of_another_client_as_they_were(broker: Broker) -> None:
    listener = broker.joined("listener", 5, "t")
    pairs = [("mq-key", "k"), ("a", "1"), ("a", "2"), ("", "x"), ("KEYS", "y"), ("traceparent", CONTEXT)]
    pairs += [("c", "\x01"), ("z", "")]
    listener.publish("t", properties=given(*pairs), qos=0)
    (message,) = listener.messages()
    assert message.properties.user == pairs
