"""A stream of messages in a WebSocket (RFC 6455; over HTTP/2 RFC 8441): JSON in text frames, both ways.

client   {"type":"credit","messages":100}     {"type":"ack","receipts":["…"]}     {"type":"nack","receipts":["…"],"delay_ms":0}
         {"type":"extend","receipts":["…"],"invisible_ms":30000}
node     {"type":"started","cursor":"…"}      {"type":"message",…,"cursor":"…"}   {"type":"results","results":[…]}
         {"type":"problem","problem":{…}}, then a close frame
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

import orjson
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import RemoteProtocolError

from domain import limits
from domain.command import Command
from domain.event import Event
from protocols.http.flow import Flow
from protocols.http.streams.source import CREDIT_MAX, Source
from protocols.websocket_frame import FrameOutline

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
NOT_TEXT: Final = 1003
POLICY: Final = 1008
TOO_LARGE: Final = 1009
TRY_LATER: Final = 1013
TEXT_BYTES_MAX: Final = 256 * 1024
"""Characters of one message of the client."""
RECEIPTS_MAX: Final = 1_024
PONGS_BYTES_MAX: Final = 64 * 1024
"""Answers to pings that a client has not read, above which it is not read."""
ILLEGAL: Final = "websocket-message"
_DURATIONS: Final = {"ack": "", "nack": "delay_ms", "extend": "invisible_ms"}


@final
class SocketFlow(Flow):
    """`Source` in a WebSocket.

    _later     such pieces
    _text      the parts of an incomplete message
    """

    uploads = True

    def __init__(self, source: Source, frames: Frames) -> None:
        super().__init__(source.ticket, source.principal)
        self._source = source
        self._frames = frames
        self._outline = FrameOutline()
        self._later: deque[bytes] = deque()
        self._text: list[str] = []
        self._text_size = 0
        self._closed = False

    @property
    def wants_room(self) -> bool:
        """As of the messages; and for the close frame."""
        return self._source.wants_room or (self._source.over and not self.over)

    @property
    def held(self) -> int:
        """As of the messages."""
        return self._source.held

    @property
    def reading(self) -> bool:
        """False while frames wait for their turn, and while the source takes no more."""
        return not self._later and self._may_read

    @property
    def _may_read(self) -> bool:
        return self._source.reading and self._source.held - self._source.message_bytes < PONGS_BYTES_MAX

    def take(self) -> bytes:
        """Frames; behind the last one a close frame."""
        found = self._source.take()
        if found or not self._source.over or self.over:
            return found
        self.over = True
        self.refusal = self.refusal or self._source.refusal
        status = self._source.status
        return self._close_frame(GOING_AWAY if not status else POLICY if status < 500 else TRY_LATER, "")

    def _close_frame(self, code: int, words: str) -> bytes:
        if self._closed or self._frames.state not in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            return b""
        self._closed = True
        return self._frames.send(CloseConnection(code, words or None))

    def _close(self, code: int, words: str, now: int, refusal: str = "") -> None:
        """End the stream because of a frame of the client: leased messages that were not sent are released."""
        if self.over:
            return
        self.refusal = refusal
        self._commands += self._source.gone(now)
        self._source.say(self._close_frame(code, words))
        self._later.clear()
        self.over = True

    def feed(self, data: bytes, now: int) -> None:
        """Bytes of frames; they may be split anywhere."""
        if self.over:
            return
        self._later.extend(self._outline.cut(data))
        self._read(now)

    def _read(self, now: int) -> None:
        """Decode the frames of one turn."""
        if self._later and self._may_read:
            self._decode(self._later.popleft(), now)
        if self._outline.fault and not self._later:
            self._close(TOO_LARGE, "a frame is too large", now, "websocket-frame-too-large")

    def _decode(self, data: bytes, now: int) -> None:
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                if isinstance(event, TextMessage):
                    self._take_text(event, now)
                elif isinstance(event, BytesMessage):
                    self._close(NOT_TEXT, "messages are JSON in text frames", now, ILLEGAL)
                elif isinstance(event, Ping):
                    self._source.say(self._frames.send(event.response()))
                elif isinstance(event, CloseConnection):
                    refusal = "" if self._frames.state is ConnectionState.REMOTE_CLOSING else ILLEGAL
                    self._close(event.code, "", now, refusal)
                if self.over:
                    return
        except RemoteProtocolError as fault:
            hint = fault.event_hint
            self._close(hint.code if isinstance(hint, CloseConnection) else PROTOCOL_ERROR, "", now, ILLEGAL)

    def _take_text(self, event: TextMessage, now: int) -> None:
        self._text_size += len(event.data)
        if self._text_size > TEXT_BYTES_MAX:
            self._close(TOO_LARGE, f"a message has at most {TEXT_BYTES_MAX} characters", now, "websocket-frame-too-large")
            return
        self._text.append(event.data)
        if event.message_finished:
            text = "".join(self._text)
            self._text.clear()
            self._text_size = 0
            words = self._carry_out(text)
            if words:
                self._close(POLICY, words, now, ILLEGAL)

    def _carry_out(self, text: str) -> str:
        """Carry out one message of the client. Returns the error in it, "": none; at most 120 bytes."""
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            return "a message is a JSON object"
        kind = found.get("type") if isinstance(found, dict) else None
        if kind == "credit":
            messages = found.get("messages")
            if set(found) != {"type", "messages"} or isinstance(messages, bool) or not isinstance(messages, int):
                return 'credit is {"type":"credit","messages":N}'
            return "" if self._source.grant(messages) else f"credit is 1 to {CREDIT_MAX} messages, with what is left"
        if not isinstance(kind, str) or kind not in _DURATIONS:
            return "type is credit, ack, nack or extend"
        return self._settle(kind, found)

    def _settle(self, verb: str, found: dict[str, object]) -> str:
        name = _DURATIONS[verb]
        texts = found.get("receipts")
        if not isinstance(texts, list) or not 0 < len(texts) <= RECEIPTS_MAX or not all(isinstance(one, str) for one in texts):
            return f"receipts is an array of 1 to {RECEIPTS_MAX} strings"
        if not set(found) <= {"type", "receipts", name}:
            return f"{verb} has an unknown member"
        duration = found.get(name, 0)
        least = 1 if verb == "extend" else 0
        if isinstance(duration, bool) or not isinstance(duration, int) or not least <= duration <= limits.INVISIBLE_MS_MAX:
            return f"{name} is {least} to {limits.INVISIBLE_MS_MAX}"
        return "" if self._source.settle(verb, texts, duration) else "this stream leases nothing"

    def fed_all(self, now: int) -> None:
        """The client has ended its side without a close frame."""
        self._close(NORMAL, "", now)

    def answer(self, event: Event, now: int) -> None:
        """The event of a command of the source."""
        self._source.answer(event, now)

    def deadline(self) -> int | None:
        """0 while commands wait, or frames that can be decoded; else as of the source."""
        if self._commands or (self._later and self._may_read):
            return 0
        return self._source.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """Decode frames that wait; take the commands."""
        if self._later:
            self._read(now)
        commands, self._commands = self._commands, []
        return [*commands, *self._source.expire(now)]

    def gone(self, now: int) -> Sequence[Command]:
        """As of the source."""
        self.over = True
        self._later.clear()
        return self._source.gone(now)

    def drain(self) -> None:
        """As of the source, and a close frame."""
        self._source.drain()
