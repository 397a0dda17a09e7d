"""The text of a structured event: kept without its data, made again byte for byte, and never searched."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.message import property as properties
from protocols.cloudevents import envelope
from protocols.cloudevents import json as event_format
from protocols.cloudevents.event import CloudEvent, CloudEventError

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


class UnsearchedText(bytes):
    """A text in which nobody searches."""

    def find(self, *_: Any) -> int:
        raise AssertionError("the text is searched")

    rfind = index = rindex = find


def kept(text: bytes, event: CloudEvent) -> bytes:
    """The value of the property."""
    return properties.find(envelope.stored_form(text, event, ""), properties.HG_ENVELOPE_START)


@pytest.mark.parametrize(
    "members",
    [
        {**EVENT, "data": {"a": [1, 2]}},
        {**EVENT, "datacontenttype": "text/plain", "data": "plain"},
        {**EVENT, "datacontenttype": "text/plain", "data": "a\n" + " " * 500 + "b"},
        {**EVENT, "data_base64": base64.b64encode(bytes(500)).decode()},
        EVENT,
    ],
    ids=["JSON", "text", "escaped", "base64", "none"],
)
def test_a_text_is_kept_without_a_search(members: dict[str, Any]) -> None:
    text = json.dumps(members).encode()
    event = event_format.decode(text)
    stored = envelope.stored_form(UnsearchedText(text), event, "")
    assert kept(text, event)[:1] != b"-"
    assert envelope.structured(stored, event)[1] == text


@pytest.mark.parametrize(
    "text",
    [
        b'{"data":1,"id":"1","specversion":"1.0","source":"/1","type":"1"}',
        b'{"data":7 ,"id":"1","specversion":"1.0","source":"/1","type":"7"}',
    ],
)
def test_the_place_of_the_data_is_that_of_its_member(text: bytes) -> None:
    assert kept(text, event_format.decode(text)).startswith(b"j8 ")


def texts() -> st.SearchStrategy[bytes]:
    """Events as different senders write them: order, space, escapes and base64 with bits that mean nothing."""
    values = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
    data = st.one_of(
        values.map(lambda value: {"data": value}),
        st.text().map(lambda value: {"datacontenttype": "text/plain", "data": value}),
        st.binary().map(lambda value: {"data_base64": base64.b64encode(value).decode()}),
        st.sampled_from([{}, {"data_base64": "QR=="}, {"data_base64": None}, {"data": "x", "data_base64": None}]),
    )

    def text(found: dict[str, Any], names: list[str], ascii_only: bool, indent: int | None) -> bytes:
        both = {**EVENT, **found}
        ordered = {name: both[name] for name in sorted(both, key=lambda name: names.index(name) if name in names else 9)}
        return json.dumps(ordered, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")

    order = st.permutations([*EVENT, "data", "data_base64", "datacontenttype"])
    return st.builds(text, data, order, st.booleans(), st.sampled_from([None, 0, 3]))


@given(texts())
def test_a_text_is_made_again_or_means_the_same(text: bytes) -> None:
    try:
        event = event_format.decode(text)
    except CloudEventError:
        return
    stored = envelope.stored_form(text, event, "")
    again = envelope.structured(stored, event)[1]
    if kept(text, event)[:1] != b"-":
        assert again == text
    found = event_format.decode(again)
    assert (found.attributes, found.data) == (event.attributes, event.data)
