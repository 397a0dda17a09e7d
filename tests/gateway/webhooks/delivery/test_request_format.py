"""The content of webhook requests: types of attributes (CloudEvents JSON format 1.0.2, 2.2)."""

from __future__ import annotations

import json

import pytest

from domain.subscription.subscription import EventFormat, Payload
from gateway.webhooks.delivery.request_format import request_of
from protocols.cloudevents import json as json_format
from protocols.cloudevents import message

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
