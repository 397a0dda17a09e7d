"""Content type and expiry as properties of SDKs."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from domain.message.message import RETAIN_NONE, RETAIN_SET
from protocols import marks

AT_MS = 1_795_000_000_123
AT = "2026-11-18T11:06:40.123Z"


def stored(**pairs: str) -> bytes:
    return properties.encode(
        (name.replace("_", "-") if name.startswith("mq_") else name, value) for name, value in pairs.items()
    )


@pytest.mark.parametrize("given", [AT, str(AT_MS), "2026-11-18T12:06:40.123+01:00"])
def test_both_are_stored_as_those_of_other_protocols_and_told_again(given: str) -> None:
    sent = stored(KEYS="k", mq_content_type="text/csv", mq_expires_at=given, own="mq-x")
    assert marks.may_have_marks(sent)
    found = marks.stored_form(sent)
    assert properties.decode(found) == {"KEYS": "k", "own": "mq-x", "HG_CONTENT_TYPE": "text/csv", "HG_EXPIRE_MS": str(AT_MS)}
    assert properties.decode(marks.entries(found)) == {"mq-content-type": "text/csv", "mq-expires-at": AT}


def test_other_properties_stay_as_they_are() -> None:
    assert not marks.may_have_marks(stored(KEYS="k", colour="red"))
    sent = stored(own="mq-content-type", mq_other="x")
    assert marks.stored_form(sent) == sent
    assert marks.entries(sent) == b""


@pytest.mark.parametrize("given", ["tomorrow", "0", "-5", "2026-11-18", "9" * 16])
def test_an_expiry_that_is_no_instant_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="mq-expires-at must be RFC 3339 or epoch milliseconds"):
        marks.stored_form(stored(mq_expires_at=given))


def test_an_event_expires_at_its_expirytime_and_tells_its_content_type_once() -> None:
    event = {"CE_specversion": "1.0", "CE_expirytime": AT, "CE_datacontenttype": "a/b"}
    found = marks.stored_form(stored(**event))
    assert properties.decode(found) == {**event, "HG_EXPIRE_MS": str(AT_MS)}
    found = marks.stored_form(stored(**event, mq_expires_at="1", mq_content_type="a/b"))
    assert properties.decode(found) == {**event, "HG_EXPIRE_MS": "1", "HG_CONTENT_TYPE": "a/b"}
    assert properties.decode(marks.entries(found)) == {"mq-expires-at": "1970-01-01T00:00:00.001Z"}
    assert marks.stored_form(stored(CE_specversion="1.0", CE_expirytime="soon")) == stored(
        CE_specversion="1.0", CE_expirytime="soon"
    )
    assert marks.stored_form(stored(CE_expirytime=AT)) == stored(CE_expirytime=AT)


@pytest.mark.parametrize("value", ["x", "9" * 18])
def test_a_stored_expiry_that_no_instant_can_have_is_not_told(value: str) -> None:
    assert marks.entries(stored(HG_EXPIRE_MS=value)) == b""


@pytest.mark.parametrize(
    ("topic", "stored", "retain"),
    [
        ("t", b"mqttRetain\x01true\x02", RETAIN_SET),
        ("t", b"A\x01b\x02mqttRetain\x01true", RETAIN_SET),
        ("t", b"mqttRetain\x01false\x02", RETAIN_NONE),
        ("t", b"XmqttRetain\x01true\x02", RETAIN_NONE),
        ("t", b"A\x01mqttRetain\x02", RETAIN_NONE),
        ("%RETRY%g", b"mqttRetain\x01true\x02", RETAIN_NONE),
        ("%DLQ%g", b"mqttRetain\x01true\x02", RETAIN_NONE),
        ("SCHEDULE_TOPIC_XXXX", b"mqttRetain\x01true\x02", RETAIN_NONE),
    ],
)
def test_a_property_makes_a_message_the_latest_value_of_a_topic_of_users(topic: str, stored: bytes, retain: int) -> None:
    assert marks.retain_of(topic, stored) == retain
