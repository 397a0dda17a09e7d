"""Recognition of MQTT by the first bytes of a connection."""

from __future__ import annotations

from typing import Final

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
