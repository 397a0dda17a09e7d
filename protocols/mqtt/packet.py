"""Bytes to packets and back: framing, and which side may send which packet (MQTT 3.1.1 and 5.0, 2).

The decoder is the server's by default: it refuses packets that only a server may send. It decodes all packets of one
buffer in one loop, and keeps an incomplete packet until the rest of it arrives.
"""

from __future__ import annotations

from typing import Final, final

from protocols.mqtt import connect, subscribe
from protocols.mqtt import property as props
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish, decode_ack, decode_publish, encode_ack, encode_publish
from protocols.mqtt.wire import PacketError, varint

TOO_LARGE: Final = 0x95
CONNECT_BYTES_MAX: Final = 512 * 1024

_FLAGS = bytes((0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 0, 0, 0, 0))
"""Legal flags by packet type (2.1.3). PUBLISH is not here: its flags vary."""
_FROM_CLIENT: Final = frozenset(range(1, 16)) - {props.CONNACK, props.SUBACK, props.UNSUBACK, props.PINGRESP}
_FROM_SERVER: Final = frozenset(range(1, 16)) - {props.CONNECT, props.SUBSCRIBE, props.UNSUBSCRIBE, props.PINGREQ}


@final
class Ping:
    """PINGREQ or PINGRESP, by `kind`."""

    __slots__ = ("kind",)

    def __init__(self, kind: int = props.PINGREQ) -> None:
        self.kind = kind


Packet = (
    Publish
    | Ack
    | Ping
    | connect.Connect
    | connect.Connack
    | connect.Disconnect
    | connect.Auth
    | subscribe.Subscribe
    | subscribe.Unsubscribe
    | subscribe.Suback
)


@final
class Decoder:
    """Decoder of one direction of one connection.

    version   protocol version; 0 until a CONNECT is decoded; a client sets it
    limit     bytes of the largest packet that is accepted, fixed header included; checked as soon as the header is complete
    fault     first error, None before it: packets before the error are returned, later bytes are ignored
    """

    __slots__ = ("_held", "_held_bytes", "_kinds", "_need", "fault", "limit", "version")

    def __init__(self, limit: int, version: int = 0, client: bool = False) -> None:
        self.limit = limit
        self.version = version
        self.fault: PacketError | None = None
        self._kinds = _FROM_SERVER if client else _FROM_CLIENT
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._need = 1

    @property
    def incomplete(self) -> bool:
        """True while an incomplete packet is kept."""
        return self._held_bytes > 0

    @property
    def unfinished(self) -> int:
        """Bytes that the incomplete packet has in all, as far as its first bytes show; 0 without one."""
        return self._need if self._held_bytes else 0

    def pubacks(self, data: bytes) -> list[int]:
        """The packet identifiers of `data` that is nothing but whole PUBACKs of four bytes; []: it is for `feed`."""
        size = len(data)
        if size & 3 or data[0] != 0x40 or self._held_bytes or self.fault is not None or self.version == 0 or self.limit < 4:
            return []
        found: list[int] = []
        for at in range(0, size, 4):
            packet_id = data[at + 2] << 8 | data[at + 3]
            if data[at] != 0x40 or data[at + 1] != 2 or packet_id == 0:
                return []
            found.append(packet_id)
        return found

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that `data` completes, in order. Never raises: an error sets `fault`."""
        out: list[Packet] = []
        if self.fault is not None:
            return out
        if self._held_bytes:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._need:
                return out
            data = b"".join(self._held)
        self._held = []
        self._held_bytes = 0
        try:
            at = self._packets(data, out)
        except PacketError as fault:
            self.fault = fault
            return out
        if at < len(data):
            self._held.append(data[at:])
            self._held_bytes = len(data) - at
        return out

    def _packets(self, data: bytes, out: list[Packet]) -> int:
        """Decode complete packets into `out`. Returns where the first incomplete one begins, and sets `_need` to its bytes."""
        at = 0
        size = len(data)
        while at < size:
            first = data[at]
            if at + 1 == size:
                self._check_first(first)
                self._need = 2
                return at
            length = data[at + 1]
            begin = at + 2
            if length > 127:
                begin = self._long_length(data, at)
                if begin < 0:
                    return at
                length = varint(data, at + 1)
            end = begin + length
            if end - at > self.limit or end > size:
                self._check_first(first)
                self._check_size(first >> 4, end - at)
                if end > size:
                    self._check_start(first, data[begin:], length)
                    self._need = end - at
                    return at
            kind = first >> 4
            if kind == 3 and self.version:
                out.append(decode_publish(data, first, begin, end, self.version))
            elif kind == 4 and length == 2 and first == 0x40 and self.version:
                packet_id = data[begin] << 8 | data[begin + 1]
                if packet_id == 0:
                    raise PacketError(0x81, "packet id 0")
                out.append(Ack(4, packet_id, 0, NONE))
            else:
                self._check_first(first)
                out.append(self._other(kind, data[begin:end]))
            at = end
        self._need = 1
        return at

    def _long_length(self, data: bytes, at: int) -> int:
        """The begin of the body after a remaining length of 2 to 4 bytes; -1 while that length is incomplete: sets `_need`."""
        for begin in range(at + 2, at + 5):
            if begin == len(data):
                self._check_first(data[at])
                self._need = begin - at + 1
                return -1
            if data[begin] < 128:
                return begin + 1
        raise PacketError(0x81, "a remaining length of more than four bytes")

    def _check_first(self, first: int) -> None:
        """Raises PacketError unless this side may send the packet type now, with these flags (2.1.2, 2.1.3)."""
        kind = first >> 4
        if self.version == 0 and first != 0x10:
            raise PacketError(connect.NOT_MQTT, "the first packet is not a CONNECT")
        if kind == props.CONNECT and self.version:
            raise PacketError(0x82, "a second CONNECT")
        if kind == 0:
            raise PacketError(0x81, "packet type 0 is reserved")
        if kind not in self._kinds:
            raise PacketError(0x82, f"packet type {kind} cannot come from this side")
        if kind == 3:
            if first & 6 == 6:
                raise PacketError(0x81, "a PUBLISH with QoS 3")
        elif first & 15 != _FLAGS[kind]:
            raise PacketError(0x81, f"flags {first & 15} on packet type {kind}")

    def _check_size(self, kind: int, size: int) -> None:
        if kind == props.CONNECT and size > CONNECT_BYTES_MAX:
            raise PacketError(connect.NOT_MQTT, "a CONNECT of more than 512 KiB")
        if size > self.limit:
            raise PacketError(TOO_LARGE, f"a packet of {size} bytes, {self.limit} are allowed")

    def _check_start(self, first: int, start: bytes, length: int) -> None:
        """Raises PacketError for an incomplete packet that cannot become legal: it is not kept until the rest arrives."""
        if first == 0x10 and not connect.may_be_connect(start[:8]):
            raise PacketError(connect.NOT_MQTT, "the protocol name is not MQTT's")
        if first >> 4 == 3 and len(start) >= 2 and (start[0] << 8 | start[1]) + (4 if first & 6 else 2) > length:
            raise PacketError(0x81, "a topic reaches past the end of the packet")

    def _other(self, kind: int, body: bytes) -> Packet:
        """Decode a packet of a type that is not decoded in `_packets`, which handles PUBLISH and the short PUBACK."""
        version = self.version
        if kind == props.CONNECT:
            self.version = connect.decode_version(body)
            return connect.decode_connect(body, self.version)
        if props.PUBACK <= kind <= props.PUBCOMP:
            return decode_ack(kind, body, version)
        if kind == props.SUBSCRIBE:
            return subscribe.decode_subscribe(body, version)
        if kind == props.UNSUBSCRIBE:
            return subscribe.decode_unsubscribe(body, version)
        if kind in (props.SUBACK, props.UNSUBACK):
            return subscribe.decode_suback(body, version, kind == props.UNSUBACK)
        if kind in (props.PINGREQ, props.PINGRESP):
            if body:
                raise PacketError(0x81, "a ping with a body")
            return Ping(kind)
        if kind == props.DISCONNECT:
            return connect.decode_disconnect(body, version)
        if kind == props.CONNACK:
            return connect.decode_connack(body, version)
        return connect.decode_auth(body, version)


def encode(packet: Packet, version: int) -> bytes:
    """A packet of any type -> its bytes in the given protocol version."""
    if isinstance(packet, Publish):
        return encode_publish(packet, version)
    if isinstance(packet, Ack):
        return encode_ack(packet, version)
    if isinstance(packet, Ping):
        return bytes((packet.kind << 4, 0))
    if isinstance(packet, connect.Connect):
        return connect.encode_connect(packet)
    if isinstance(packet, connect.Connack):
        return connect.encode_connack(packet, version)
    if isinstance(packet, connect.Disconnect):
        return connect.encode_disconnect(packet, version)
    if isinstance(packet, connect.Auth):
        return connect.encode_auth(packet)
    if isinstance(packet, subscribe.Subscribe):
        return subscribe.encode_subscribe(packet, version)
    if isinstance(packet, subscribe.Unsubscribe):
        return subscribe.encode_unsubscribe(packet, version)
    return subscribe.encode_suback(packet, version)
