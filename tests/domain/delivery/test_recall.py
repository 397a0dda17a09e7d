"""Recall handles, in RocketMQ's form."""

from __future__ import annotations

import base64

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.delivery import recall


def test_the_form_is_rocketmq_s() -> None:
    text = recall.handle("T", "broker-a", 1_800_000_000_000, "AB01")
    assert base64.urlsafe_b64decode(text) == b"v1 T broker-a 1800000000000 AB01"
    assert recall.parse(text) == ("T", "broker-a", 1_800_000_000_000, "AB01")


@given(st.one_of(st.text(max_size=60), st.binary(max_size=60).map(lambda data: base64.urlsafe_b64encode(data).decode())))
@settings(max_examples=100, deadline=None)
def test_what_is_no_handle_is_none(text: str) -> None:
    found = recall.parse(text)
    assert found is None or base64.urlsafe_b64decode(text + "===").startswith(b"v1 ")


def test_handles_that_lie_are_none() -> None:
    for plain in (b"", b"v1 T b 12", b"v2 T b 12 id", b"v1 T b -1 id", b"v1 T b 9999999999999999999 id", b"v1 T b \xd9\xa1 id"):
        assert recall.parse(base64.urlsafe_b64encode(plain).decode()) is None
    assert recall.parse("A" * 5_000) is None
