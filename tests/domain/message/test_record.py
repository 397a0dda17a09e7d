"""The stored record: RocketMQ's layout, byte by byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.address import host_bytes
from domain.message import record
from domain.message.message import Message

V4 = host_bytes("10.0.0.1", 10911)
V6 = host_bytes("2001:db8::1", 443)

messages = st.builds(
    Message,
    topic=st.text("abcXYZ019_-%|", min_size=1, max_size=255),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=100),
    queue_id=st.integers(0, 2**31 - 1),
    sys_flag=st.sampled_from((0, 1, 0x301)),
    flag=st.integers(-(2**31), 2**31 - 1),
    born_ms=st.integers(0, 2**62),
    born_host=st.sampled_from((V4, V6)),
    reconsume_times=st.integers(0, 2**31 - 1),
    prepared_offset=st.integers(0, 2**62),
)


@settings(max_examples=100)
@given(messages, st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 2**62), st.sampled_from((V4, V6)))
def test_what_is_encoded_is_read_back(message: Message, offset: int, physical: int, store_ms: int, host: bytes) -> None:
    data = record.encode(message, offset, physical, store_ms, host)
    assert record.check(data)
    view = record.Record(data)
    assert (view.topic, view.body, view.properties) == (message.topic, message.body, message.properties)
    assert (view.queue_id, view.queue_offset, view.physical_offset) == (message.queue_id, offset, physical)
    assert (view.born_ms, view.born_host, view.store_ms, view.store_host) == (
        message.born_ms,
        message.born_host,
        store_ms,
        host,
    )
    assert (view.flag, view.reconsume_times, view.prepared_offset) == (
        message.flag,
        message.reconsume_times,
        message.prepared_offset,
    )
    assert view.sys_flag & ~0x30 == message.sys_flag
    assert (view.sys_flag & 0x10 != 0, view.sys_flag & 0x20 != 0) == (message.born_host == V6, host == V6)


@settings(max_examples=100)
@given(messages, st.integers(0, 99), st.binary(max_size=60))
def test_patches_touch_only_their_field(message: Message, times: int, properties: bytes) -> None:
    data = record.encode(message, 5, 6, 7, V4)
    patched = record.with_properties(record.with_reconsume_times(data, times), properties)
    assert record.check(patched)
    view, old = record.Record(patched), record.Record(data)
    assert (view.reconsume_times, view.properties) == (times, properties)
    assert (view.topic, view.body, view.queue_offset, view.born_host) == (old.topic, old.body, 5, old.born_host)


@settings(max_examples=100)
@given(messages, st.sampled_from((V4, V6)), st.sampled_from((V4, V6)))
def test_another_store_host_leaves_all_else(message: Message, before: bytes, after: bytes) -> None:
    moved = record.stored_at(record.encode(message, 5, 6, 7, before), after)
    assert moved == record.encode(message, 5, 6, 7, after)


@settings(max_examples=100)
@given(messages, st.data())
def test_no_damage_passes_the_check_in_body_or_lengths(message: Message, data: st.DataObject) -> None:
    stored = record.encode(message, 1, 2, 3, V4)
    assert not record.check(stored[: data.draw(st.integers(0, len(stored) - 1))])
    assert not record.check(stored + b"\x00")
    view = record.Record(stored)
    if message.body:
        at = data.draw(st.integers(view.body_at, view.topic_at - 1))
        assert not record.check(stored[:at] + bytes([stored[at] ^ 0xFF]) + stored[at + 1 :])


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_check_never_raises(data: bytes) -> None:
    assert record.check(data) in (True, False)


def test_layout_against_fixed_positions() -> None:
    """MessageDecoder: magic 4, queue id 12, queue offset 20, physical offset 28, sys flag 36, born time 40, store time 56."""
    message = Message("TopicTest", b"Hello", b"TAGS\x01A\x02", queue_id=3, flag=9, born_ms=11, born_host=V4)
    data = record.encode(message, 7, 1234, 13, V4)
    assert int.from_bytes(data[:4], "big") == len(data) == 88 + 5 + 1 + 9 + 2 + 7
    assert data[4:8].hex() == "daa320a7"
    fields = ((12, 4), (16, 4), (20, 8), (28, 8), (40, 8), (56, 8))
    assert [int.from_bytes(data[at : at + size], "big") for at, size in fields] == [
        3, 9, 7, 1234, 11, 13,
    ]  # fmt: skip
    assert record.encode(Message("%RETRY%" + "g" * 200, b""), 0, 0, 0, V4)[4:8].hex() == "daa320ab"
