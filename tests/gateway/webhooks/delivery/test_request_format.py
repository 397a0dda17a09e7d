"""The content of webhook requests: types of attributes (CloudEvents JSON format 1.0.2, 2.2)."""

from __future__ import annotations

import json

import pytest

from domain.message import record
from domain.message.message import Message
from domain.message.record import Record
from domain.subscription.subscription import EventFormat, Payload
from gateway.webhooks.delivery.request_format import event_of, request_of
from protocols.cloudevents import json as json_format
from protocols.cloudevents import message
from protocols.cloudevents.instant import rfc3339

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "count": 2_147_483_647, "neg": -5, "flag": True}


@pytest.mark.parametrize("payload", [Payload.STRUCTURED, Payload.BATCHED, Payload.BINARY])
def test_numbers_and_booleans_go_out_as_themselves_where_there_are_types(payload: Payload) -> None:
    kept = message.encode(json_format.decode(json.dumps(EVENT).encode()), "t", "", bytes(8))
    event = message.decode(kept.properties, kept.body)
    assert event is not None
    form = request_of(payload, EventFormat.JSON, [], [event])
    if payload is Payload.BINARY:
        fields = dict(form.fields)
        assert (fields["ce-count"], fields["ce-neg"], fields["ce-flag"]) == ("2147483647", "-5", "true")
    else:
        assert json.loads(form.body) == (EVENT if payload is Payload.STRUCTURED else [EVENT])


def test_a_copy_of_a_message_is_the_same_event() -> None:
    """A redriven message has the id and the source of before: its time is that of the message, not of the copy (3.1)."""
    message = Message("t", b"x", b"UNIQ_KEY\x01ID\x02", queue_id=0, born_ms=1_700_000_000_000, born_host=bytes(8))
    first, again = (event_of(Record(record.encode(message, 0, 0, at_ms, bytes(8)))) for at_ms in (1_700_000_000_005, 1 << 40))
    assert first.attributes == again.attributes
    assert first.attributes[b"time"] == rfc3339(1_700_000_000_000).encode()


@pytest.mark.parametrize("born_ms", [0, 1 << 62])
def test_a_message_without_a_time_has_that_of_its_store(born_ms: int) -> None:
    message = Message("t", b"x", b"", queue_id=0, born_ms=born_ms, born_host=bytes(8))
    event = event_of(Record(record.encode(message, 0, 0, 1_700_000_000_000, bytes(8))))
    assert event.attributes[b"time"] == rfc3339(1_700_000_000_000).encode()
