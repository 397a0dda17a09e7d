"""The stored record: RocketMQ's message layout, big-endian, as log, PULL and POP carry it (MessageDecoder, versions 1 and 2).

0 total size 4 | 4 magic 4 | 8 body CRC 4 | 12 queue id 4 | 16 flag 4 | 20 queue offset 8 | 28 physical offset 8
36 sys flag 4 | 40 born ms 8 | 48 born host 8 or 20 | store ms 8 | store host 8 or 20 | reconsume times 4
prepared offset 8 | body 4 + n | topic 1 + n (version 1) or 2 + n (version 2) | properties 2 + n
"""

from __future__ import annotations

import struct
from typing import Final, final

from domain.message.crc32 import crc32
from domain.message.message import Message
from domain.octets import uint16, uint32, uint64

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
RECORD_BYTES_MIN: Final = 91

_HEAD_V4 = struct.Struct(">IIIiiqqiq8sq8siqi")
_HEAD = struct.Struct(">IIIiiqqiq")
_LONG = struct.Struct(">q")
_TAIL = struct.Struct(">iqi")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LENGTHS: Final = tuple([_SHORT.pack(length) for length in range(1_024)])
"""Encoded lengths of the properties of most messages."""

NAMES_MAX: Final = 4_096
"""Topics whose encoded name is kept; with more, all are dropped."""
_names: Final[dict[str, bytes]] = {}


def encode(message: Message, queue_offset: int, physical_offset: int, store_ms: int, store_host: bytes) -> bytes:
    """A placed message -> its record. `message.queue_id` is final; properties have at most 32,767 bytes."""
    body = message.body
    properties = message.properties
    born_host = message.born_host
    sys_flag = message.sys_flag & ~0x30
    crc = crc32(body) & 0x7FFFFFFF
    name = _names.get(message.topic)
    if name is None:
        name = _named(message.topic)
    magic = 0xDAA320A7 if len(name) <= 128 else 0xDAA320AB
    variable = len(body) + len(name) + 2 + len(properties)
    if len(born_host) == 8 and len(store_host) == 8:
        head = _HEAD_V4.pack(
            88 + variable, magic, crc, message.queue_id, message.flag, queue_offset, physical_offset, sys_flag,
            message.born_ms, born_host, store_ms, store_host, message.reconsume_times, message.prepared_offset, len(body),
        )  # fmt: skip
    else:
        if len(born_host) == 20:
            sys_flag |= 0x10
        if len(store_host) == 20:
            sys_flag |= 0x20
        head = b"".join(
            (
                _HEAD.pack(
                    72 + len(born_host) + len(store_host) + variable, magic, crc, message.queue_id, message.flag,
                    queue_offset, physical_offset, sys_flag, message.born_ms,
                ),
                born_host, _LONG.pack(store_ms), store_host,
                _TAIL.pack(message.reconsume_times, message.prepared_offset, len(body)),
            )
        )  # fmt: skip
    length = _LENGTHS[len(properties)] if len(properties) < len(_LENGTHS) else _SHORT.pack(len(properties))
    return b"".join((head, body, name, length, properties))


def _named(topic: str) -> bytes:
    """A topic behind its length: of one byte in version 1, up to 127, and of two in version 2. Kept for the next record."""
    text = topic.encode()
    if len(_names) >= NAMES_MAX:
        _names.clear()
    name = _names[topic] = (bytes([len(text)]) if len(text) <= 127 else _SHORT.pack(len(text))) + text
    return name


def is_compressed(data: bytes) -> bool:
    """True when the body of the record is stored compressed."""
    return data[39] & 0x1 != 0


def beside_body(data: bytes) -> int:
    """Bytes of the record without its body: topic, properties and some hundred others."""
    at = _reconsume_at(data) + 12
    return len(data) - int.from_bytes(data[at : at + 4], "big")


def _reconsume_at(data: bytes) -> int:
    sys_flag = data[39]
    return 48 + (20 if sys_flag & 0x10 else 8) + 8 + (20 if sys_flag & 0x20 else 8)


def with_reconsume_times(data: bytes, times: int) -> bytes:
    """The record with RECONSUMETIMES replaced, for a redelivery (docs/ARCHITECTURE.md, one group, one ledger)."""
    at = _reconsume_at(data)
    return b"".join((data[:at], _INT.pack(times), data[at + 4 :]))


def with_properties(data: bytes, properties: bytes) -> bytes:
    """The record with other properties, of at most 32,767 bytes."""
    record = Record(data)
    cut = record.properties_at - 2
    head = _INT.pack(cut + 2 + len(properties))
    return b"".join((head, data[4:cut], _SHORT.pack(len(properties)), properties))


def renamed(data: bytes, topic: str, properties: bytes) -> bytes:
    """The record under another topic (1 to 255 characters) and with other properties (at most 32,767 bytes)."""
    record = Record(data)
    name = topic.encode()
    wide = len(name) > 127
    tail = (_SHORT.pack(len(name)) if wide else bytes([len(name)])) + name + _SHORT.pack(len(properties)) + properties
    magic = MAGIC_V2 if wide else MAGIC_V1
    head = struct.pack(">II", record.topic_at + len(tail), magic)
    return b"".join((head, data[8 : record.topic_at], tail))


def stored_at(data: bytes, store_host: bytes) -> bytes:
    """The record as stored by the broker at `store_host` (8 or 20 bytes). Its size changes between IPv4 and IPv6."""
    at = 76 if data[39] & 0x10 else 64
    end = at + (20 if data[39] & 0x20 else 8)
    flag = data[39] & 0xDF | (0x20 if len(store_host) == 20 else 0)
    size = len(data) - (end - at) + len(store_host)
    return b"".join((size.to_bytes(4, "big"), data[4:39], bytes([flag]), data[40:at], store_host, data[end:]))


def check(data: bytes) -> bool:
    """True when `data` is one whole record whose lengths agree and whose body matches its CRC. Never raises."""
    size = len(data)
    if size < 91 or int.from_bytes(data[0:4], "big") != size:
        return False
    magic = int.from_bytes(data[4:8], "big")
    if magic not in (0xDAA320A7, 0xDAA320AB):
        return False
    body_at = _reconsume_at(data) + 16
    length = int.from_bytes(data[body_at - 4 : body_at], "big")
    topic_at = body_at + length
    wide = magic == 0xDAA320AB
    if topic_at + (2 if wide else 1) > size:
        return False
    topic_length = int.from_bytes(data[topic_at : topic_at + 2], "big") if wide else data[topic_at]
    properties_at = topic_at + (2 if wide else 1) + topic_length + 2
    if properties_at > size:
        return False
    if properties_at + int.from_bytes(data[properties_at - 2 : properties_at], "big") != size:
        return False
    return (crc32(data[body_at:topic_at]) & 0x7FFFFFFF) == int.from_bytes(data[8:12], "big")


@final
class Record:
    """A read-only view of one record. Its bytes come from the log, which is trusted, or have passed `check`.

    body_at         where the body begins
    topic_at        where the topic with its length begins
    properties_at   where the properties begin
    wide            True: the length of the topic has two bytes (version 2)
    """

    __slots__ = ("body_at", "data", "properties_at", "topic_at", "wide")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.wide = data[7] == 0xAB
        self.body_at = _reconsume_at(data) + 16
        self.topic_at = self.body_at + uint32(data, self.body_at - 4)
        at = self.topic_at
        length = 2 + uint16(data, at) if self.wide else 1 + data[at]
        self.properties_at = at + length + 2

    @property
    def body(self) -> bytes:
        """The body as stored, compressed when `sys_flag` says so."""
        return self.data[self.body_at : self.topic_at]

    @property
    def topic(self) -> str:
        """The topic."""
        return self.data[self.topic_at + (2 if self.wide else 1) : self.properties_at - 2].decode()

    @property
    def properties(self) -> bytes:
        """The properties in stored form (domain.message.property)."""
        return self.data[self.properties_at :]

    @property
    def queue_id(self) -> int:
        """The queue id, signed: earlier versions stored what had none as -1."""
        stored = uint32(self.data, 12)
        return stored if stored < 1 << 31 else stored - (1 << 32)

    @property
    def flag(self) -> int:
        """The sender's flag."""
        return int.from_bytes(self.data[16:20], "big", signed=True)

    @property
    def queue_offset(self) -> int:
        """The offset in the queue."""
        return uint64(self.data, 20)

    @property
    def physical_offset(self) -> int:
        """The byte offset in the log."""
        return uint64(self.data, 28)

    @property
    def sys_flag(self) -> int:
        """Bits for compression, transaction, and the length of the host addresses."""
        return uint32(self.data, 36)

    @property
    def born_ms(self) -> int:
        """The sender's time, epoch milliseconds."""
        return uint64(self.data, 40)

    @property
    def born_host(self) -> bytes:
        """The sender's address: 4 or 16 bytes, then 4 of port."""
        return self.data[48 : 68 if self.data[39] & 0x10 else 56]

    @property
    def store_ms(self) -> int:
        """The store time, epoch milliseconds."""
        at = 68 if self.data[39] & 0x10 else 56
        return uint64(self.data, at)

    @property
    def store_host(self) -> bytes:
        """The broker's address: 4 or 16 bytes, then 4 of port."""
        at = 76 if self.data[39] & 0x10 else 64
        return self.data[at : at + (20 if self.data[39] & 0x20 else 8)]

    @property
    def reconsume_times(self) -> int:
        """Redeliveries so far."""
        return uint32(self.data, self.body_at - 16)

    @property
    def prepared_offset(self) -> int:
        """The offset of the half message, 0 outside transactions."""
        return uint64(self.data, self.body_at - 12)
