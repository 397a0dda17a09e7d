"""Message expiry: a record is delivered until the instant that its property names, wherever that property stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.delivery.expiry import SMALL_BYTES, has_expired
from domain.message import record
from domain.message.message import LOCAL_HOST, Message


def stored(properties: bytes, body: bytes = b"body") -> bytes:
    return record.encode(Message("t", body, properties, queue_id=0), 0, 0, 0, LOCAL_HOST)


@given(st.integers(0, 10**18 - 1), st.integers(-1, 1), st.sampled_from((0, SMALL_BYTES)))
def test_a_message_expires_at_its_instant(expire_ms: int, later_ms: int, body_bytes: int) -> None:
    data = stored(b"TAGS\x01a\x02HG_EXPIRE_MS\x01%d\x02" % expire_ms, bytes(body_bytes))
    assert has_expired(data, expire_ms + later_ms) == (later_ms >= 0)


@pytest.mark.parametrize("value", [b"", b"-1", b"1.0", b"soon", b" 1", b"1" * 19, b"\xff"])
def test_an_illegal_instant_never_comes(value: bytes) -> None:
    assert not has_expired(stored(b"HG_EXPIRE_MS\x01" + value + b"\x02"), 1 << 62)


@pytest.mark.parametrize("properties", [b"", b"XHG_EXPIRE_MS\x011\x02", b"TAGS\x01HG_EXPIRE_MS\x02"])
@pytest.mark.parametrize("body", [b"", b"HG_EXPIRE_MS\x011\x02", b"\x02HG_EXPIRE_MS\x011\x02" * SMALL_BYTES])
def test_the_same_bytes_elsewhere_in_the_record_mean_nothing(properties: bytes, body: bytes) -> None:
    assert not has_expired(stored(properties, body), 1 << 62)
