"""Syntax of SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (MQTT 5, 3.8 to 3.11). `subscriptions` checks the topic filters."""

from __future__ import annotations

from typing import Final, final

from protocols.mqtt import property as props
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.wire import V5, PacketError, binary, framed, put_binary, short, text

FILTERS_MAX: Final = 4_096
"""Filters of one SUBSCRIBE or UNSUBSCRIBE, each answered by its code (3.8.4). A packet is handled in one turn of the loop."""
NO_LOCAL: Final = 0x04
RETAIN_AS_PUBLISHED: Final = 0x08


@final
class Subscribe:
    """One SUBSCRIBE. `filters`: (topic filter, subscription options byte) pairs (3.8.3.1); below 5.0 options are the QoS."""

    __slots__ = ("filters", "packet_id", "properties")

    def __init__(self, packet_id: int, filters: list[tuple[str, int]], properties: Properties = NONE) -> None:
        self.packet_id = packet_id
        self.filters = filters
        self.properties = properties


@final
class Unsubscribe:
    """One UNSUBSCRIBE."""

    __slots__ = ("filters", "packet_id", "properties")

    def __init__(self, packet_id: int, filters: list[str], properties: Properties = NONE) -> None:
        self.packet_id = packet_id
        self.filters = filters
        self.properties = properties


@final
class Suback:
    """SUBACK, or UNSUBACK when `un` is true. `codes`: one byte a filter, in order; an UNSUBACK below 5.0 has none."""

    __slots__ = ("codes", "packet_id", "properties", "un")

    def __init__(self, packet_id: int, codes: bytes, properties: Properties = NONE, un: bool = False) -> None:
        self.packet_id = packet_id
        self.codes = codes
        self.properties = properties
        self.un = un


def decode_subscribe(body: bytes, version: int) -> Subscribe:
    """The body of a SUBSCRIBE. PacketError without a filter, beyond FILTERS_MAX, for reserved bits, and retain handling 3."""
    packet_id, properties, at = _head(body, version, props.SUBSCRIBE)
    filters: list[tuple[str, int]] = []
    while at < len(body):
        raw = binary(body, at)
        at += 2 + len(raw)
        if at >= len(body):
            raise PacketError(0x81, "the packet ends before the options of a filter")
        options = body[at]
        at += 1
        if options & 3 == 3 or (options & 0xFC if version != V5 else options & 0xC0 or options & 0x30 == 0x30):
            raise PacketError(0x81, f"subscription options {options:#04x}")
        if options & NO_LOCAL and raw.startswith(b"$share/"):
            raise PacketError(0x82, "no local on a shared subscription")
        if len(filters) >= FILTERS_MAX:
            raise PacketError(0x97, f"more than {FILTERS_MAX} filters")
        filters.append((text(raw), options))
    if not filters:
        raise PacketError(0x82, "a SUBSCRIBE without a filter")
    return Subscribe(packet_id, filters, properties)


def decode_unsubscribe(body: bytes, version: int) -> Unsubscribe:
    """The body of an UNSUBSCRIBE. PacketError without a filter, and beyond FILTERS_MAX."""
    packet_id, properties, at = _head(body, version, props.UNSUBSCRIBE)
    filters: list[str] = []
    while at < len(body):
        raw = binary(body, at)
        at += 2 + len(raw)
        if len(filters) >= FILTERS_MAX:
            raise PacketError(0x97, f"more than {FILTERS_MAX} filters")
        filters.append(text(raw))
    if not filters:
        raise PacketError(0x82, "an UNSUBSCRIBE without a filter")
    return Unsubscribe(packet_id, filters, properties)


def decode_suback(body: bytes, version: int, un: bool) -> Suback:
    """The body of a SUBACK or an UNSUBACK."""
    packet_id, properties, at = _head(body, version, props.UNSUBACK if un else props.SUBACK)
    codes = body[at:]
    if (codes == b"") is not (un and version != V5):
        raise PacketError(0x81, "the wrong number of codes")
    return Suback(packet_id, codes, properties, un)


def _head(body: bytes, version: int, where: int) -> tuple[int, Properties, int]:
    """(packet identifier, properties, where the payload begins). PacketError for packet identifier 0 (2.2.1)."""
    packet_id = short(body, 0)
    if packet_id == 0:
        raise PacketError(0x81, "packet id 0")
    if version != V5:
        return packet_id, NONE, 2
    return packet_id, props.decode(body, 2, where), 2 + props.size_at(body, 2)


def encode_subscribe(packet: Subscribe, version: int) -> bytes:
    """A whole SUBSCRIBE."""
    out = [_put_head(packet.packet_id, packet.properties, version)]
    for pattern, options in packet.filters:
        out += (put_binary(pattern.encode()), bytes((options,)))
    return framed(0x82, b"".join(out))


def encode_unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    """A whole UNSUBSCRIBE."""
    out = [_put_head(packet.packet_id, packet.properties, version)]
    out += [put_binary(pattern.encode()) for pattern in packet.filters]
    return framed(0xA2, b"".join(out))


def encode_suback(packet: Suback, version: int) -> bytes:
    """A whole SUBACK or UNSUBACK."""
    head = _put_head(packet.packet_id, packet.properties, version)
    return framed(0xB0 if packet.un else 0x90, head if packet.un and version != V5 else head + packet.codes)


def _put_head(packet_id: int, properties: Properties, version: int) -> bytes:
    head = packet_id.to_bytes(2, "big")
    return head + props.encode(properties) if version == V5 else head
