"""Syntax of CONNECT, CONNACK, DISCONNECT and AUTH (MQTT 5, 3.1, 3.2, 3.14, 3.15)."""

from __future__ import annotations

from typing import Final, final

from protocols.mqtt import property as props
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.wire import V3, V4, V5, PacketError, binary, framed, put_binary, short, text

NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")
BRIDGE: Final = 0x80
"""The bit that a bridge sets over level 3 or 4: the connection carries messages between two servers."""
NOT_MQTT: Final = -1
"""`PacketError.code` of bytes that are not MQTT: the connection is closed without a CONNACK."""


@final
class Will:
    """The will of a CONNECT. `topic` is not checked here: `handshake` checks it."""

    __slots__ = ("body", "properties", "qos", "retain", "topic")

    def __init__(self, topic: str, body: bytes, qos: int, retain: bool, properties: Properties) -> None:
        self.topic = topic
        self.body = body
        self.qos = qos
        self.retain = retain
        self.properties = properties


@final
class Connect:
    """One CONNECT. `version` is 3, 4 (3.1.1) or 5; `user` and `password` are None when absent. `bridge`: BRIDGE was set."""

    __slots__ = ("bridge", "clean", "client_id", "keep_alive_s", "password", "properties", "user", "version", "will")

    def __init__(
        self,
        version: int,
        client_id: str,
        clean: bool,
        keep_alive_s: int,
        will: Will | None,
        user: str | None,
        password: bytes | None,
        properties: Properties,
    ) -> None:
        self.version = version
        self.bridge = False
        self.client_id = client_id
        self.clean = clean
        self.keep_alive_s = keep_alive_s
        self.will = will
        self.user = user
        self.password = password
        self.properties = properties


@final
class Connack:
    """One CONNACK. `code` is a return code below 5.0, a reason code in 5.0."""

    __slots__ = ("code", "present", "properties")

    def __init__(self, present: bool, code: int, properties: Properties = NONE) -> None:
        self.present = present
        self.code = code
        self.properties = properties


@final
class Disconnect:
    """One DISCONNECT. `code` is 0 below 5.0."""

    __slots__ = ("code", "properties")

    def __init__(self, code: int, properties: Properties = NONE) -> None:
        self.code = code
        self.properties = properties


@final
class Auth:
    """One AUTH (5.0 only)."""

    __slots__ = ("code", "properties")

    def __init__(self, code: int, properties: Properties = NONE) -> None:
        self.code = code
        self.properties = properties


def may_be_connect(body: bytes) -> bool:
    """True when `body`, the first bytes of a CONNECT's body, agrees with a known protocol name as far as it goes."""
    return any(body.startswith(name) or name.startswith(body) for name in NAMES)


def decode_version(body: bytes) -> int:
    """Protocol version of the CONNECT whose body is `body`: 3, 4 or 5.

    Raises PacketError: NOT_MQTT for an unknown protocol name, 0x84 for a level above 5, which may be of a later version, 1 for
    another unknown level: its client reads the CONNACK of 3.1.1 only, and a bridge tries the level without its bit then.
    """
    name = binary(body, 0)
    at = 2 + len(name)
    if at >= len(body) or name not in (b"MQTT", b"MQIsdp"):
        raise PacketError(NOT_MQTT, "the protocol name is not MQTT's")
    level = body[at]
    version = level & ~BRIDGE
    known = level in (V3, V4, V5) or (level & BRIDGE and version in (V3, V4))
    if not known or (name == b"MQIsdp") is not (version == V3):
        raise PacketError(0x84 if V5 < level < BRIDGE else 0x01, f"protocol level {level} is not served")
    return version


def decode_connect(body: bytes, version: int) -> Connect:
    """The body of a CONNECT whose version is known."""
    at = 3 + short(body, 0)
    if at >= len(body):
        raise PacketError(0x81, "the packet ends before the connect flags")
    bridge = body[at - 1] & BRIDGE != 0
    flags = body[at]
    keep_alive_s = short(body, at + 1)
    at += 3
    properties = NONE
    if version == V5:
        properties = props.decode(body, at, props.CONNECT)
        at += props.size_at(body, at)
    _check_flags(flags, version)
    client_id = binary(body, at)
    at += 2 + len(client_id)
    will: Will | None = None
    if flags & 0x04:
        about = NONE
        if version == V5:
            about = props.decode(body, at, props.WILL)
            at += props.size_at(body, at)
        topic = binary(body, at)
        at += 2 + len(topic)
        payload = binary(body, at)
        at += 2 + len(payload)
        will = Will(text(topic), payload, flags >> 3 & 3, flags & 0x20 != 0, about)
    user: str | None = None
    password: bytes | None = None
    if flags & 0x80:
        raw = binary(body, at)
        at += 2 + len(raw)
        user = text(raw)
    if flags & 0x40:
        password = binary(body, at)
        at += 2 + len(password)
    if at != len(body):
        raise PacketError(0x81, "bytes are left over behind the payload of CONNECT")
    if props.AUTH_DATA in properties.blobs and props.AUTH_METHOD not in properties.texts:
        raise PacketError(0x82, "authentication data without a method")
    packet = Connect(version, text(client_id), flags & 0x02 != 0, keep_alive_s, will, user, password, properties)
    packet.bridge = bridge
    return packet


def _check_flags(flags: int, version: int) -> None:
    """Check the Connect Flags (3.1.2): the reserved bit, and will flags without a will. Raises PacketError."""
    if flags & 0x01 and version != V3:
        raise PacketError(0x81, "the reserved connect flag is set")
    if flags & 0x18 == 0x18:
        raise PacketError(0x81, "a will with QoS 3")
    if not flags & 0x04 and flags & 0x38:
        raise PacketError(0x81, "will flags without a will")
    if version == V4 and flags & 0x40 and not flags & 0x80:
        raise PacketError(0x81, "a password without a user name")


def encode_connect(packet: Connect) -> bytes:
    """A whole CONNECT."""
    will = packet.will
    flags = (0x02 if packet.clean else 0) | (0x80 if packet.user is not None else 0)
    flags |= 0x40 if packet.password is not None else 0
    if will is not None:
        flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
    out = [NAMES[1] if packet.version == V3 else NAMES[0], bytes((packet.version | (BRIDGE if packet.bridge else 0), flags))]
    out.append(packet.keep_alive_s.to_bytes(2, "big"))
    if packet.version == V5:
        out.append(props.encode(packet.properties))
    out.append(put_binary(packet.client_id.encode()))
    if will is not None:
        if packet.version == V5:
            out.append(props.encode(will.properties))
        out += (put_binary(will.topic.encode()), put_binary(will.body))
    if packet.user is not None:
        out.append(put_binary(packet.user.encode()))
    if packet.password is not None:
        out.append(put_binary(packet.password))
    return framed(0x10, b"".join(out))


def decode_connack(body: bytes, version: int) -> Connack:
    """The body of a CONNACK -> its values. Raises PacketError."""
    if len(body) < 2 or body[0] > 1:
        raise PacketError(0x81, "not a CONNACK")
    if version != V5:
        if len(body) != 2:
            raise PacketError(0x81, "a CONNACK of the wrong size")
        return Connack(body[0] == 1, body[1])
    properties = props.decode(body, 2, props.CONNACK)
    if 2 + props.size_at(body, 2) != len(body):
        raise PacketError(0x81, "bytes are left over behind the properties of CONNACK")
    return Connack(body[0] == 1, body[1], properties)


def encode_connack(packet: Connack, version: int) -> bytes:
    """A whole CONNACK."""
    body = bytes((1 if packet.present else 0, packet.code))
    return framed(0x20, body + props.encode(packet.properties) if version == V5 else body)


def decode_disconnect(body: bytes, version: int) -> Disconnect:
    """The body of a DISCONNECT; in 5.0 reason code and properties may be absent (3.14.2)."""
    code, properties = _reason(body, version, props.DISCONNECT)
    return Disconnect(code, properties)


def decode_auth(body: bytes, version: int) -> Auth:
    """The body of an AUTH. PacketError below 5.0, which has no AUTH."""
    if version != V5:
        raise PacketError(0x82, "packet type 15 is reserved")
    code, properties = _reason(body, version, props.AUTH)
    return Auth(code, properties)


def _reason(body: bytes, version: int, where: int) -> tuple[int, Properties]:
    if version != V5:
        if body:
            raise PacketError(0x81, "a DISCONNECT with a body")
        return 0, NONE
    if not body:
        return 0, NONE
    if len(body) == 1:
        return body[0], NONE
    properties = props.decode(body, 1, where)
    if 1 + props.size_at(body, 1) != len(body):
        raise PacketError(0x81, "bytes are left over behind the properties")
    return body[0], properties


def encode_disconnect(packet: Disconnect, version: int) -> bytes:
    """A whole DISCONNECT; reason code and properties are left out where the default is meant."""
    if version != V5 or (packet.code == 0 and packet.properties == NONE):
        return b"\xe0\x00"
    return framed(0xE0, _put_reason(packet.code, packet.properties))


def encode_auth(packet: Auth) -> bytes:
    """A whole AUTH."""
    return framed(0xF0, _put_reason(packet.code, packet.properties))


def _put_reason(code: int, properties: Properties) -> bytes:
    return bytes((code,)) if properties == NONE else bytes((code,)) + props.encode(properties)
