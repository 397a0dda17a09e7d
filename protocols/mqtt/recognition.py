"""Recognition of MQTT by the first bytes of a connection."""

from __future__ import annotations

from typing import Final

from domain.refusal import TLS_ONLY

_NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")


def begins(head: bytes) -> bool | None:
    """True when `head` begins a CONNECT, None while it may: `10`, 1 to 4 bytes of remaining length, the protocol name.

    MQTT 5.0 sections 2.1, 3.1.2.1.
    """
    if head[0] != 0x10:
        return False
    for index in range(1, 5):
        if index == len(head):
            return None
        if head[index] < 0x80:
            break
    else:
        return False
    name = head[index + 1 :]
    if any(name.startswith(full) for full in _NAMES):
        return True
    return None if any(full.startswith(name) for full in _NAMES) else False


def without_tls(data: bytes) -> bytes:
    """The CONNACK on a port that takes TLS only: "not authorized", to MQTT 5.0 with a reason string; b"" before the version."""
    at = data.find(b"MQTT") + 4
    if at < 4 or at >= len(data):
        return b""
    if data[at] & 0x7F < 5:  # also with the bit of a bridge
        return b"\x20\x02\x00\x05"
    text = TLS_ONLY.encode()
    properties = b"\x1f" + len(text).to_bytes(2, "big") + text
    return bytes((0x20, 3 + len(properties), 0, 0x87, len(properties))) + properties
