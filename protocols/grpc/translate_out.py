"""A leased record -> the bytes of a protocol Message, encoded without protobuf objects, since it is done for each message.

Field numbers are those of messages/messaging.proto; RocketMQ's proxy fills the same fields (GrpcConverter.buildMessage).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from domain import limits
from domain.address import host_text
from domain.event import Leased
from domain.message import property as properties
from domain.message.message import SYS_COMPRESSED
from domain.message.receipt import Receipt
from domain.message.record import Record, beside_body, is_compressed
from protocols import compression, marks
from protocols.grpc import wire
from protocols.grpc.messages import messaging_pb2 as pb

HOSTS_MAX: Final = 1_024
"""Addresses that are kept as text."""
_MARKS: Final = (properties.HG_CONTENT_TYPE_START, properties.HG_EXPIRE_MS_START, properties.MQTT_RETAIN_START)
"""Reserved properties that are sent as user properties."""
CHEAP_BESIDE_BYTES_MAX: Final = 16 * 1024
"""Bytes beside the bodies of an answer's messages that cost little: 512 for each of 32 messages."""
_IDENTITY: Final = b"\x28\x01"
_GZIP: Final = b"\x28\x02"
_TYPES: Final[tuple[bytes, ...]] = (b"\x30\x01", b"\x30\x02", b"\x30\x03", b"\x30\x04", b"\x30\x05", b"\x30\x06")
_LITE: Final = 4
_PRIORITY: Final = 5
_NUMBER_DIGITS_MAX: Final = 10


@lru_cache(HOSTS_MAX)
def _host(stored: bytes) -> bytes:
    """An address in record form -> `127.0.0.1:8081`."""
    return host_text(stored).encode()


def message(topic: bytes, leased: Leased, handle: str) -> bytes:
    """One encoded Message. `topic`: its encoded field 1, as the receiver named the topic."""
    record = Record(leased.record)
    stored = record.properties
    if not stored.isascii():
        # A remoting client may store any bytes; the fields are proto3 strings: invalid UTF-8 makes the response undecodable.
        stored = stored.decode("utf-8", "replace").encode()
    body, encoding = _body(record)
    system, user = _properties(stored, record)
    born_ms, store_ms = record.born_ms, record.store_ms
    receipt = leased.receipt
    parts = [
        system,
        b"\x22\x24\x08\x02\x12\x20" + hashlib.md5(body, usedforsecurity=False).hexdigest().upper().encode(),
        encoding,
        wire.timestamp(b"\x3a", born_ms if born_ms > 0 else 0),
        wire.text(b"\x42", _host(record.born_host)),
        wire.timestamp(b"\x4a", store_ms),
        wire.text(b"\x52", _host(record.store_host)),
        wire.text(b"\x62", handle.encode()),
        b"\x68" + wire.varint(receipt.queue_id),
        b"\x70" + wire.varint(receipt.queue_offset),
        b"\x80\x01" + wire.varint(leased.attempt),
    ]
    return b"".join((topic, user, wire.text(b"\x1a", b"".join(parts)), wire.text(b"\x22", body)))


def is_dear(messages: Sequence[Leased]) -> bool:
    """True when `message` may take long for these: a body is compressed, or they have many bytes of properties."""
    beside = 0
    for leased in messages:
        if is_compressed(leased.record):
            return True
        beside += beside_body(leased.record)
    return beside > CHEAP_BESIDE_BYTES_MAX


def _body(record: Record) -> tuple[bytes, bytes]:
    """The body to send and its encoded body_encoding. Only gzip is sent compressed: not every SDK reads other codings."""
    if not record.sys_flag & SYS_COMPRESSED:
        return record.body, _IDENTITY
    stored = record.body
    if not stored.startswith(compression.GZIP_MAGIC):
        plain = compression.plain(record, limits.BODY_BYTES_MAX)
        if plain is not None:
            return plain, _IDENTITY
    return stored, _GZIP


def _properties(stored: bytes, record: Record) -> tuple[bytes, bytes]:
    """System properties 1 to 3, 6, 11, 17, 18 and 20, and the encoded user properties."""
    out = b""
    message_id = b""
    kind = 0
    user = False
    for piece in stored.split(b"\x02"):
        at = piece.find(b"\x01")
        if at <= 0 or at + 1 == len(piece):
            continue
        start = piece[: at + 1]
        if start == properties.UNIQ_KEY_START:
            message_id = piece[at + 1 :]
        elif start == properties.TAGS_START:
            out += wire.text(b"\x0a", piece[at + 1 :])
        elif start == properties.KEYS_START:
            for value in piece[at + 1 :].split(b" "):
                if value:
                    out += wire.text(b"\x12", value)
        elif start == properties.SHARDING_KEY_START:
            out += wire.text(b"\x8a\x01", piece[at + 1 :])
            kind = kind or 1
        elif start == properties.LITE_TOPIC_START:
            out += wire.text(b"\xaa\x01", piece[at + 1 :])
            kind = kind or _LITE
        elif start == properties.TRACE_CONTEXT_START:
            out += wire.text(b"\x92\x01", piece[at + 1 :])
        elif start in (properties.TIMER_OUT_MS_START, properties.TIMER_DELIVER_MS_START):
            value = piece[at + 1 :]
            if kind != 2 and value.isdigit() and len(value) < 16:
                out += wire.timestamp(b"\x5a", int(value))
            kind = 2
        elif start == properties.DELAY_START:
            kind = 2
        elif start == properties.TRAN_MSG_START:
            kind = 3
        elif start == properties.PRIORITY_START:
            value = piece[at + 1 :]
            if value.isdigit() and len(value) < _NUMBER_DIGITS_MAX:
                out += b"\xb0\x01" + wire.varint(int(value))
                kind = kind or _PRIORITY
        elif start in _MARKS or (start not in properties.RESERVED_STARTS and not start.startswith(properties.HG_BYTES)):
            user = True
    dead_letter = properties.find(stored, properties.DLQ_ORIGIN_TOPIC_START)
    if dead_letter:
        origin = wire.text(b"\x0a", dead_letter) + wire.text(
            b"\x12", properties.find(stored, properties.DLQ_ORIGIN_MESSAGE_ID_START)
        )
        out += wire.text(b"\xa2\x01", origin)
    if not message_id:
        message_id = (record.store_host + record.physical_offset.to_bytes(8, "big")).hex().upper().encode()
    out += wire.text(b"\x1a", message_id) + _TYPES[kind]
    return out, _user(stored) if user else b""


def _user(stored: bytes) -> bytes:
    out = b""
    pairs = properties.user(stored)
    pairs.update(properties.decode(marks.entries(stored)))
    if properties.find(stored, properties.MQTT_RETAIN_START) == b"true":
        pairs[properties.MQTT_RETAIN] = "true"
    for key, value in pairs.items():
        out += wire.text(b"\x12", wire.text(b"\x0a", key.encode()) + wire.text(b"\x12", value.encode()))
    return out


def topic_field(resource: pb.Resource) -> bytes:
    """Field 1 of a Message: the topic as the receiver named it."""
    return wire.text(b"\x0a", resource.SerializeToString())


def unleased(data: bytes, resource: Callable[[str], pb.Resource]) -> bytes:
    """The Message of a record that nobody has leased. `resource`: a stored topic as the client named it."""
    record = Record(data)
    receipt = Receipt(0, 0, 0, 0, 0, "", record.queue_id, record.queue_offset)
    return message(topic_field(resource(record.topic)), Leased(data, receipt, 1), "")
