"""Records become messages: the hand-written encoding is readable by the generated classes, with the expected values."""

from __future__ import annotations

import gzip
import hashlib
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.event import Leased
from domain.message import property as properties
from protocols.grpc import translate_out, wire
from protocols.grpc.messages import messaging_pb2 as pb
from tests.protocols.grpc.stage import leased

TOPIC = translate_out.topic_field(pb.Resource(name="t"))


def out(given: Leased) -> pb.Message:
    told: pb.Message = pb.Message.FromString(translate_out.message(TOPIC, given, given.receipt.text()))
    return told


def test_golden_message() -> None:
    """All bytes: topic, one user property, system properties in the order of encoding, body."""
    given = leased(b"body", b"UNIQ_KEY\x01ID1\x02TAGS\x01A\x02KEYS\x01k1 k2\x02colour\x01red\x02HG_CLIENT\x01c\x02")
    expected = (
        b"\x0a\x03\x12\x01t"
        b"\x12\x0d\x0a\x06colour\x12\x03red"
        b"\x1a\xa1\x01"
        b"\x0a\x01A"
        b"\x12\x02k1\x12\x02k2"
        b"\x1a\x03ID1\x30\x01"
        b"\x22\x24\x08\x02\x12\x20841A2D689AD86BD1611447453C22C6FC"
        b"\x28\x01"
        b"\x3a\x0c\x08\x80\xca\xe2\xd0\x06\x10\x80\x84\xb8\xd9\x01"
        b"\x42\x0b127.0.0.1:0"
        b"\x4a\x06\x08\x80\xf7\xc4\xd5\x06"
        b"\x52\x0e10.1.2.3:10911"
        b"\x62\x2b7 1790000000123 30000 0 0 broker-a 3 7 4096"
        b"\x68\x03\x70\x07\x80\x01\x01"
        b"\x22\x04body"
    )
    written = translate_out.message(TOPIC, given, given.receipt.text())
    assert pb.Message.FromString(written) == pb.Message.FromString(expected)
    assert written == expected


def test_order_group_delay_and_dead_letters_are_told() -> None:
    stored = (
        b"UNIQ_KEY\x01ID1\x02__SHARDINGKEY\x01g7\x02TRACE_CONTEXT\x0100-1\x02TIMER_OUT_MS\x011790000000500\x02"
        b"DLQ_ORIGIN_TOPIC\x01orders\x02DLQ_ORIGIN_MESSAGE_ID\x01ID0\x02"
    )
    system = out(leased(b"x", stored)).system_properties
    assert (system.message_group, system.trace_context) == ("g7", "00-1")
    assert system.message_type == pb.DELAY
    assert system.delivery_timestamp.ToMilliseconds() == 1_790_000_000_500
    assert (system.dead_letter_queue.topic, system.dead_letter_queue.message_id) == ("orders", "ID0")
    assert out(leased(b"x", b"UNIQ_KEY\x01I\x02__SHARDINGKEY\x01g\x02")).system_properties.message_type == pb.FIFO
    assert out(leased(b"x")).system_properties.message_type == pb.NORMAL


def test_content_type_and_expiry_are_user_properties() -> None:
    stored = b"UNIQ_KEY\x01I\x02HG_CLIENT\x01c\x02HG_CONTENT_TYPE\x01a/b\x02"
    assert dict(out(leased(b"x", stored)).user_properties) == {"mq-content-type": "a/b"}
    stored += b"HG_EXPIRE_MS\x011795000000123\x02A\x01b\x02"
    assert dict(out(leased(b"x", stored)).user_properties) == {
        "A": "b", "mq-content-type": "a/b", "mq-expires-at": "2026-11-18T11:06:40.123Z",
    }  # fmt: skip


def test_message_without_an_id_has_its_offset_id() -> None:
    assert out(leased(b"x", b"")).system_properties.message_id == "0A01020300002A9F0000000000001000"


@pytest.mark.parametrize(
    ("packed", "sys_flag"),
    [
        (zlib.compress(b"text"), 0x301),
        (lz4.frame.compress(b"text"), 0x101),
        (zstandard.ZstdCompressor().compress(b"text"), 0x201),
    ],
    ids=["zlib", "lz4", "zstd"],
)
def test_what_only_some_sdks_can_read_goes_out_plain(packed: bytes, sys_flag: int) -> None:
    told = out(leased(packed, sys_flag=sys_flag))
    assert told.body == b"text"
    assert told.system_properties.body_encoding == pb.IDENTITY
    assert told.system_properties.body_digest.checksum == hashlib.md5(b"text").hexdigest().upper()


@pytest.mark.parametrize("body", [gzip.compress(b"text"), b"corrupt"], ids=["gzip", "corrupt"])
def test_gzip_and_what_cannot_be_read_go_out_as_they_are(body: bytes) -> None:
    told = out(leased(body, sys_flag=0x301))
    assert told.body == body
    assert told.system_properties.body_encoding == pb.GZIP
    assert told.system_properties.body_digest.checksum == hashlib.md5(body).hexdigest().upper()


@settings(max_examples=100)
@given(stored=st.binary(max_size=120))
def test_whatever_is_stored_can_be_read_by_a_client(stored: bytes) -> None:
    told = out(leased(b"x", stored))
    assert dict(told.user_properties) == properties.user(stored)


@settings(max_examples=100)
@given(
    pairs=st.dictionaries(
        st.text(min_size=1, max_size=10).filter(lambda key: properties.is_storable(key, "v")),
        st.text(min_size=1, max_size=300).filter(lambda value: properties.is_storable("k", value)),
        max_size=8,
    )
)
def test_user_properties_come_back(pairs: dict[str, str]) -> None:
    told = out(leased(b"x", properties.encode(pairs.items())))
    assert dict(told.user_properties) == {key: value for key, value in pairs.items() if not properties.is_reserved(key)}


def test_attributes_of_events_and_the_trace_context_are_user_properties() -> None:
    pairs = {
        "CE_specversion": "1.0",
        "CE_id": "1",
        "CE_source": "/größe",
        "CE_type": "t",
        "traceparent": "00-1",
        "tracestate": "a=b",
    }
    assert dict(out(leased(b"x", properties.encode(pairs.items()))).user_properties) == pairs


@settings(max_examples=100)
@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_varints_are_protobufs(value: int) -> None:
    assert pb.SendResultEntry.FromString(b"\x20" + wire.varint(value)).offset == value


@settings(max_examples=100)
@given(st.integers(min_value=0, max_value=253_402_300_799_999))
def test_timestamps_are_protobufs(ms: int) -> None:
    told = pb.ReceiveMessageResponse.FromString(wire.timestamp(b"\x1a", ms))
    assert told.delivery_timestamp.ToMilliseconds() == ms
