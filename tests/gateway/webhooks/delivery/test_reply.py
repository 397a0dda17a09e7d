"""Events in the answers of sinks, published as replies."""

from __future__ import annotations

import base64

from domain.message import property as properties
from domain.message.record import Record
from domain.subscription.courier import SinkAnswer
from gateway.webhooks.delivery.dead_letter import reply_of
from tests.protocols.http.stage import record

EVENT = [("ce-id", "r"), ("ce-source", "/s"), ("ce-type", "t"), ("ce-specversion", "1.0"), ("content-type", "text/plain")]


def asked(*pairs: tuple[str, str]) -> Record:
    return Record(record("t", properties=properties.encode(pairs)))


def test_a_reply_has_the_correlation_data_of_what_it_replies_to() -> None:
    data = base64.b64encode(b"\x00\xffq1").decode()
    found = reply_of(SinkAnswer(200, EVENT, b"done"), "answers", asked(("HG_CORRELATION", data)), 1)
    assert found is not None
    assert (found.topic, found.body) == ("answers", b"done")
    stored = properties.decode(found.properties)
    assert (stored["HG_CORRELATION"], stored["CE_id"]) == (data, "r")


def test_one_to_a_message_without_it_and_to_several_has_none() -> None:
    for request in (asked(("KEYS", "k")), None):
        found = reply_of(SinkAnswer(200, EVENT, b"done"), "answers", request, 1)
        assert found is not None
        assert "HG_CORRELATION" not in properties.decode(found.properties)


def test_what_is_no_event_is_no_reply() -> None:
    assert reply_of(SinkAnswer(200, [("content-type", "text/plain")], b"thanks"), "answers", None, 1) is None
