"""A client of MQTT 3.1.1 that stops in the middle of an exchange, as no library does."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Final

ANSWER_S: Final = 20.0
CONNECT, CONNACK, PUBLISH, PUBREC, PUBREL, PUBCOMP = 0x10, 0x20, 0x30, 0x50, 0x62, 0x70
DUP, QOS_2 = 0x08, 0x04


class RawMqtt:
    """One connection, with a session that stays. For a `with` statement, which ends it without DISCONNECT."""

    def __init__(self, port: int, client_id: str, will: tuple[str, bytes] | None = None) -> None:
        """Connect. `will`: (topic, payload), of QoS 1."""
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_S)
        flags = 0 if will is None else 0x0C
        more = b"" if will is None else _text(will[0]) + struct.pack(">H", len(will[1])) + will[1]
        self._send(CONNECT, _text("MQTT") + bytes((4, flags)) + struct.pack(">H", 60) + _text(client_id) + more)
        kind, body = self.read()
        assert kind == CONNACK, kind
        assert body[1] == 0, body
        self.resumed = body[0] == 1

    def __enter__(self) -> RawMqtt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._socket.close()

    def publish(self, number: int, topic: str, body: bytes, again: bool = False) -> None:
        """The first step of an exchange of QoS 2; PUBREC answers it."""
        self._send(PUBLISH | QOS_2 | (DUP if again else 0), _text(topic) + struct.pack(">H", number) + body)
        self._answered(PUBREC, number)

    def release(self, number: int) -> None:
        """The last step; PUBCOMP answers it."""
        self._send(PUBREL, struct.pack(">H", number))
        self._answered(PUBCOMP, number)

    def _answered(self, kind: int, number: int) -> None:
        assert self.read() == (kind, struct.pack(">H", number))

    def read(self) -> tuple[int, bytes]:
        """(first byte, body) of the next packet, below 128 bytes."""
        kind, size = self._exactly(2)
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            assert part, "the connection was closed"
            found += part
        return found

    def _send(self, kind: int, body: bytes) -> None:
        assert len(body) < 128
        self._socket.sendall(bytes((kind, len(body))) + body)


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()
