"""The follower's side of a connection to its leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from protocols.remoting import codes
from protocols.remoting.frame import Frame, FrameDecoder, encode
from protocols.remoting.header import BINARY, FLAG_ONEWAY
from protocols.remoting.replication import form
from protocols.remoting.ticket import RequestError

_FOLLOW: int = 1
"""Number of the request FOLLOW: there is one on a connection at a time."""


@final
class FollowDialog:
    """Bytes of one connection, from its begin to its end."""

    def __init__(self, sign: Callable[[Mapping[str, str], bytes], dict[str, str]] | None = None) -> None:
        """`sign`: ext fields and body -> the ext fields with those that prove who sends them."""
        self._sign = sign
        self._decoder = FrameDecoder()

    def follow(self, command: Follow) -> bytes:
        """The frame of a Follow."""
        return self._frame(codes.FOLLOW, _FOLLOW, form.follow_fields(command), form.eras_body(command.eras), 0)

    def held(self, command: LogHeld) -> bytes:
        """The frame of a LogHeld."""
        return self._frame(codes.LOG_HELD, 0, {}, form.held_body(command), FLAG_ONEWAY)

    def _frame(self, code: int, opaque: int, fields: Mapping[str, str], body: bytes, flag: int) -> bytes:
        signed = fields if self._sign is None else self._sign(fields, body)
        return encode(code, opaque, fields=signed, body=body, flag=flag, serialize=BINARY)

    def receive(self, data: bytes) -> list[FollowAccepted | FollowRefused | LogBytes]:
        """What the leader says with these bytes. Raises RequestError for what is no word of a leader."""
        found = [_event(frame) for frame in self._decoder.feed(data)]
        if self._decoder.fault:
            raise form.malformed(f"it does not speak the remoting protocol ({self._decoder.fault})")
        return found


def _event(frame: Frame) -> FollowAccepted | FollowRefused | LogBytes:
    if frame.response:
        return form.answer_of(frame)
    if frame.code != codes.LOG_BYTES:
        raise RequestError(codes.NOT_SUPPORTED, f"request type {frame.code} not supported")
    return form.bytes_of(frame.body)
