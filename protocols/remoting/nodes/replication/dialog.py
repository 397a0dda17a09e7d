"""The follower's side of one connection to its leader, from its begin to its end. No I/O.

-> 30025 FOLLOW, once           <- its response
-> 30027 LOG_HELD, oneway       <- 30026 LOG_BYTES, oneway, once the response has accepted the follower
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld
from protocols.remoting import codes
from protocols.remoting.nodes.replication import form
from protocols.remoting.relayed.frame_slice import FrameSlice, FrameSplitter
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY

_FOLLOW: Final = 1
"""Number of the request FOLLOW: a connection has one."""


@final
class FollowDialog:
    """Bytes of one connection.

    _asked     True: a Follow was sent, and its answer has not come
    _accepted  True: the leader has accepted it
    """

    def __init__(self, sign: Callable[[Mapping[str, str], bytes], dict[str, str]] | None = None) -> None:
        """`sign`: ext fields and body -> the ext fields that prove the sender too; None: access is not controlled."""
        self._sign = sign
        self._splitter = FrameSplitter()
        self._asked = False
        self._accepted = False

    def follow(self, command: Follow) -> bytes:
        """The frame of a Follow, at most one on a connection. `command.eras`: at most ERAS_MAX."""
        self._asked = True
        return self._frame(codes.FOLLOW, _FOLLOW, form.follow_fields(command), form.eras_body(command.eras), 0)

    def held(self, command: LogHeld) -> bytes:
        """The frame of a LogHeld."""
        return self._frame(codes.LOG_HELD, 0, form.held_fields(command), form.held_body(command), FLAG_ONEWAY)

    def _frame(self, code: int, opaque: int, fields: Mapping[str, str], body: bytes, flag: int) -> bytes:
        signed = fields if self._sign is None else self._sign(fields, body)
        return encode(code, opaque, fields=signed, body=body, flag=flag, serialize=BINARY)

    def receive(self, data: bytes) -> list[FollowAccepted | FollowRefused | LogBytes]:
        """The messages of the leader in these bytes; an incomplete frame is kept until the rest of it comes, at most 16 MiB.

        Raises RequestError for bytes that are no message of a leader: the connection has to be closed, and the messages before
        them in `data` are not returned.
        """
        found = [self._event(frame) for frame in self._splitter.feed(data)]
        if self._splitter.fault:
            raise form.malformed(f"it does not speak the remoting protocol ({self._splitter.fault})")
        return found

    def _event(self, frame: FrameSlice) -> FollowAccepted | FollowRefused | LogBytes:
        if frame.response:
            return self._answer(frame)
        if frame.code != codes.LOG_BYTES or not frame.oneway:
            raise RequestError(codes.NOT_SUPPORTED, f"request type {frame.code} not supported: is this a replica's port?")
        if not self._accepted:
            raise form.malformed("it sends its log to who was not accepted")
        return form.bytes_of(frame.data, frame.body_at, frame.end, frame.field("question"))

    def _answer(self, frame: FrameSlice) -> FollowAccepted | FollowRefused:
        if not self._asked or frame.opaque != _FOLLOW:
            raise form.malformed(f"it answers request {frame.opaque}, which waits for no answer")
        whole = FrameDecoder().feed(frame.whole)
        if not whole:
            raise form.malformed("the header of its answer is malformed")
        self._asked = False
        event = form.answer_of(whole[0])
        self._accepted = isinstance(event, FollowAccepted)
        return event
