"""Syntax of PUBLISH and of its acknowledgements, PUBACK to PUBCOMP (MQTT 3.1.1 and 5.0, 3.3 to 3.7)."""

from __future__ import annotations

from typing import Final, final

from protocols.mqtt import property as props
from protocols.mqtt.property import NONE, PUBACK, Properties
from protocols.mqtt.wire import V5, PacketError, put_varint

_RESERVED: Final = bytes((0, 0, 0, 0, 0, 0, 2, 0))
"""The fixed header's flags of PUBACK to PUBCOMP, by packet type."""


@final
class Publish:
    """One PUBLISH.

    topic        bytes as received, neither decoded nor checked: `translate.route` does that once a topic
    qos          0, 1 or 2
    packet_id    packet identifier; 0 at QoS 0
    properties   NONE below 5.0
    """

    __slots__ = ("body", "dup", "packet_id", "properties", "qos", "retain", "topic")

    def __init__(
        self, topic: bytes, body: bytes, qos: int, retain: bool, dup: bool, packet_id: int, properties: Properties
    ) -> None:
        self.topic = topic
        self.body = body
        self.qos = qos
        self.retain = retain
        self.dup = dup
        self.packet_id = packet_id
        self.properties = properties


@final
class Ack:
    """PUBACK, PUBREC, PUBREL or PUBCOMP, by `kind`. `code` is 0 below 5.0."""

    __slots__ = ("code", "kind", "packet_id", "properties")

    def __init__(self, kind: int, packet_id: int, code: int = 0, properties: Properties = NONE) -> None:
        self.kind = kind
        self.packet_id = packet_id
        self.code = code
        self.properties = properties


def decode_publish(data: bytes, first: int, begin: int, end: int, version: int) -> Publish:
    """A PUBLISH between `begin` and `end` (3.3)."""
    qos = first >> 1 & 3
    if begin + 2 > end:
        raise PacketError(0x81, "a PUBLISH without a topic")
    at = begin + 2 + (data[begin] << 8 | data[begin + 1])
    if at > end:
        raise PacketError(0x81, "a topic reaches past the end of the packet")
    topic = data[begin + 2 : at]
    packet_id = 0
    if qos:
        if qos == 3:
            raise PacketError(0x81, "a PUBLISH with QoS 3")
        if at + 2 > end:
            raise PacketError(0x81, "a PUBLISH without its packet id")
        packet_id = data[at] << 8 | data[at + 1]
        if packet_id == 0:
            raise PacketError(0x81, "packet id 0")
        at += 2
    elif first & 8:
        raise PacketError(0x81, "DUP with QoS 0")
    properties = NONE
    if version == V5:
        if at >= end:
            raise PacketError(0x81, "a PUBLISH without a property length")
        if data[at] == 0:
            at += 1
        else:
            section = data[at:end]
            properties = props.decode(section, 0, props.PUBLISH)
            at += props.size_at(section, 0)
    return Publish(topic, data[at:end], qos, first & 1 == 1, first & 8 == 8, packet_id, properties)


_ACK_CODES: Final[tuple[frozenset[int], ...]] = (
    frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
    frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}),
    frozenset({0x00, 0x92}),
    frozenset({0x00, 0x92}),
)


def decode_ack(kind: int, body: bytes, version: int) -> Ack:
    """PUBACK to PUBCOMP (3.4 to 3.7). In 5.0 the properties, or reason code and properties, may be absent."""
    size = len(body)
    if size < 2 or (size > 2 and version != V5):
        raise PacketError(0x81, "an acknowledgement of the wrong size")
    packet_id = body[0] << 8 | body[1]
    if packet_id == 0:
        raise PacketError(0x81, "packet id 0")
    if size == 2:
        return Ack(kind, packet_id)
    code = body[2]
    if code not in _ACK_CODES[kind - PUBACK]:
        raise PacketError(0x81, f"reason code {code:#04x} in packet type {kind}")
    if size == 3:
        return Ack(kind, packet_id, code)
    properties = props.decode(body, 3, kind)
    if 3 + props.size_at(body, 3) != size:
        raise PacketError(0x81, "bytes are left over behind the properties")
    return Ack(kind, packet_id, code, properties)


def publish_parts(topic: bytes, body: bytes, properties: bytes, qos: int, retain: bool) -> tuple[bytes, bytes]:
    """A PUBLISH as (bytes before the packet identifier, bytes after it), shared by all receivers of the same delivery.

    `properties` is the encoded section, b"" below 5.0. At QoS 0 the packet is the two parts joined.
    """
    length = 2 + len(topic) + (2 if qos else 0) + len(properties) + len(body)
    first = 0x30 | qos << 1 | (1 if retain else 0)
    head = bytes((first,)) + put_varint(length) + len(topic).to_bytes(2, "big") + topic
    return head, properties + body


def encode_publish(packet: Publish, version: int) -> bytes:
    """A whole PUBLISH."""
    section = props.encode(packet.properties) if version == V5 else b""
    head, tail = publish_parts(packet.topic, packet.body, section, packet.qos, packet.retain)
    if packet.dup:
        head = bytes((head[0] | 8,)) + head[1:]
    return head + (packet.packet_id.to_bytes(2, "big") if packet.qos else b"") + tail


def encode_ack(packet: Ack, version: int) -> bytes:
    """A whole PUBACK, PUBREC, PUBREL or PUBCOMP; reason code and properties are left out where the default is meant."""
    first = packet.kind << 4 | _RESERVED[packet.kind]
    head = packet.packet_id.to_bytes(2, "big")
    if version != V5 or (packet.code == 0 and packet.properties == NONE):
        return bytes((first, 2)) + head
    if packet.properties == NONE:
        return bytes((first, 3)) + head + bytes((packet.code,))
    section = props.encode(packet.properties)
    return bytes((first,)) + put_varint(3 + len(section)) + head + bytes((packet.code,)) + section


def acks(kind: int, packet_ids: list[int]) -> bytes:
    """Successful acknowledgements of one kind, one for each packet identifier; the bytes are the same in all versions."""
    out = bytearray()
    first = kind << 4 | _RESERVED[kind]
    for packet_id in packet_ids:
        out += bytes((first, 2, packet_id >> 8, packet_id & 0xFF))
    return bytes(out)
