"""One WebSocket connection around the connection of another protocol (RFC 6455; MQTT 5, 6).

    HANDSHAKE --request accepted--> OPEN --close frame, fault, the inner one closed--> closed
        | 10 s, refused
        v
      closed

Payloads of binary frames are passed on as they arrive, whole or in pieces: frame boundaries have no meaning (MQTT 5, 6).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from domain.command import Command, Disconnected
from domain.event import Event
from domain.limits import HANDSHAKE_NS
from domain.refusal import Ending
from protocols.adapter import Adapter, Connection, Peer, ignore_refusal
from protocols.hosts import Hosts
from protocols.request_line import EMPTY_LINE, absolute
from protocols.websocket.message import InMessages, WholeMessages
from protocols.websocket.settings import Admits
from protocols.websocket_frame import FrameOutline, is_key

HEAD_BYTES_MAX: Final = 16 * 1024
FIELDS_MAX: Final = 100
HEAD_END: Final = b"\r\n\r\n"

_BARE = re.compile(rb"(?<!\r)\n|\r(?!\n)")
NORMAL: Final = 1000
TOO_LARGE: Final = 1009
PROTOCOL_ERROR: Final = 1002
NOT_BINARY: Final = 1003

REFUSED: Final = "websocket-refused"
HANDSHAKE_DEADLINE: Final = "websocket-handshake"
CUT_SHORT: Final = "websocket-cut-short"
FRAME_TOO_LARGE: Final = "websocket-frame-too-large"


def head_fault(head: bytes) -> int:
    """The status with which a complete head is refused, 0 when it may be parsed (RFC 6455, 4.1; RFC 9112).

    431: more than FIELDS_MAX fields. 400: bare CR or LF, another version than HTTP/1.1, a key that is not 16 bytes in base64.
    """
    if _BARE.search(head) is not None:
        return 400
    lines = head[: -len(HEAD_END)].split(b"\r\n")
    if len(lines) > FIELDS_MAX + 1:
        return 431
    if not lines[0].endswith(b" HTTP/1.1"):
        return 400
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"sec-websocket-key" and not is_key(value.strip()):
            return 400
    return 0


def refusal(status: int) -> bytes:
    """A whole response."""
    reason = {400: "Bad Request", 431: "Request Header Fields Too Large"}[status]
    body = b"WebSocket is spoken here (RFC 6455), version 13\n"
    head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


@final
class WebSocketConnection:
    """A `protocols.adapter.Connection`. Commands, events and deadlines are those of the inner connection."""

    __slots__ = (
        "_admits", "_close_sent", "_ended", "_eof", "_head", "_hosts", "_inner", "_inside", "_later", "_messages", "_opened",
        "_out", "_outline", "_peer", "_refused", "_socket", "closed", "reading",
    )  # fmt: skip

    def __init__(
        self,
        inside: Mapping[str, Adapter],
        admits: Admits,
        hosts: Hosts,
        peer: Peer,
        now: int,
        refused: Callable[[str, str], None] = ignore_refusal,
    ) -> None:
        self._refused = refused
        self._admits = admits
        self._hosts = hosts
        self._inside = inside
        self._peer = peer
        self._opened = now
        self._socket = WSConnection(ConnectionType.SERVER)
        self._inner: Connection | None = None
        self._messages: WholeMessages | None = None
        self._out: list[bytes] = []
        self._head = b""  # part of the handshake
        self._outline = FrameOutline()
        self._later: deque[bytes] = deque()  # frames for later turns
        self._ended = False  # the stream of the inner connection has ended
        self._eof = False  # it ends behind the frames for later turns
        self._close_sent = False
        self.reading = True
        self.closed = False

    def _copy_state(self) -> None:
        """Copy `reading` and `closed` from the inner connection; after a failed handshake `closed` is true."""
        inner = self._inner
        if inner is not None:
            self.reading = inner.reading and not self._later and not self._ended
            self.closed = inner.closed or (self._ended and not self.unhandled)
        else:
            self.closed = self._ended

    @property
    def unhandled(self) -> bool:
        """True while frames wait for later turns, or what they carried waits in the inner connection."""
        return len(self._later) > 0 or getattr(self._inner, "unhandled", False) is True

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes from the peer; b"" is end of stream, with or without a close frame before it."""
        if self.closed or self._ended:
            return ()
        if not data and self._later:
            self._eof = True
            return ()
        if not data:
            self._close_sent = True
            ended = self._end(CUT_SHORT, now)
            self._copy_state()
            return ended
        if self._inner is None:
            return self._take_head(data, now)
        pieces = self._outline.cut(data)
        if self._later or len(pieces) != 1 or self._outline.fault:
            self._later.extend(pieces)
            self.reading = False
            return self._next(now)
        return self._decode(data, now)

    def _take_head(self, data: bytes, now: int) -> Sequence[Command]:
        """Collect the head of the handshake, and check it before it is parsed. One empty line before it is skipped."""
        self._head += data
        begin = len(EMPTY_LINE) if self._head.startswith(EMPTY_LINE) else 0
        searched = max(begin, len(self._head) - len(data) - len(HEAD_END))
        end = self._head.find(HEAD_END, searched) + len(HEAD_END)
        complete = end >= len(HEAD_END)
        status = 431 if (end if complete else len(self._head)) > HEAD_BYTES_MAX else 0
        if complete and not status:
            status = head_fault(self._head[begin:end])
        elif not status and b"\n" in self._head.replace(b"\r\n", b""):
            status = 400
        if status:
            self._out.append(refusal(status))
            self._ended = self._close_sent = True
            self._copy_state()
            return [Disconnected(REFUSED)]
        if not complete:
            return ()
        head, rest = self._head[begin:end], self._head[end:]
        self._head = b""
        commands = self._decode(head, now)
        return [*commands, *self.receive(rest, now)] if rest and not self.closed else commands

    def _next(self, now: int) -> Sequence[Command]:
        """Decode the frames of one turn; close behind the last ones when a frame is too large."""
        commands = self._decode(self._later.popleft(), now) if self._later else ()
        if self._outline.fault and not self._later and not self._ended and not self.closed:
            self._refused("websocket", FRAME_TOO_LARGE)
            commands = [*commands, *self._close(TOO_LARGE, now)]
        self._copy_state()
        if self._eof and not self._later:
            commands = [*commands, *self.receive(b"", now)]
        return commands

    def _decode(self, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes of the handshake or of frames."""
        commands: list[Command] = []
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                if isinstance(event, Request):
                    commands += self._open(event, now)
                elif isinstance(event, BytesMessage):
                    commands += self._pass_on(bytes(event.data), event.message_finished, now)
                elif isinstance(event, TextMessage):
                    commands += self._close(NOT_BINARY, now)
                elif isinstance(event, Ping):
                    self._out.append(self._socket.send(event.response()))
                elif isinstance(event, CloseConnection):
                    self._close_sent = True
                    self._out.append(self._socket.send(event.response()))
                    commands += self._end(CUT_SHORT, now)
                self._copy_state()
                if self.closed or self._ended:
                    break
        except RemoteProtocolError as fault:
            commands += self._fault(fault, now)
            self._copy_state()
        return commands

    def _open(self, request: Request, now: int) -> Sequence[Command]:
        """Handle the opening handshake (4.2): 404 for an unknown path, 400 without its sub-protocol, 403 for another origin."""
        found = absolute(request.target.encode())
        host, target = (request.host.encode(), request.target) if found is None else (found[0], found[1].decode())
        adapter = self._inside.get(target.partition("?")[0])
        if adapter is None:
            return self._refuse(404, "there is no WebSocket at this path")
        if adapter.name not in request.subprotocols:
            return self._refuse(400, f"the sub-protocol here is {adapter.name}: offer it in Sec-WebSocket-Protocol")
        origin = next((value for name, value in request.extra_headers if name.lower() == b"origin"), b"")
        if not (self._hosts.knows(host) and self._admits(origin.decode("latin-1"), host.decode())):
            return self._refuse(403, "pages from this origin may not connect")
        self._inner = adapter.connect(self._peer, now)
        self._messages = WholeMessages(adapter, self._peer.host) if isinstance(adapter, InMessages) else None
        self._out.append(self._socket.send(AcceptConnection(subprotocol=adapter.name)))
        return ()

    def _refuse(self, status: int, words: str, fields: Sequence[tuple[bytes, bytes]] = ()) -> Sequence[Command]:
        body = words.encode() + b"\n"
        headers = [*fields, (b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        self._out.append(self._socket.send(RejectConnection(status_code=status, headers=headers, has_body=True)))
        self._out.append(self._socket.send(RejectData(data=body, body_finished=True)))
        self._ended = True
        return (Disconnected(REFUSED),)

    def _pass_on(self, data: bytes, finished: bool, now: int) -> Sequence[Command]:
        if self._messages is not None:
            data = self._messages.add(data, finished)
            if self._messages.fault:
                self._refused("websocket", FRAME_TOO_LARGE)
                return self._close(TOO_LARGE, now)
        # An empty frame is skipped: b"" means end of stream to the inner connection.
        return self._inner.receive(data, now) if data and self._inner is not None else ()

    def _fault(self, fault: RemoteProtocolError, now: int) -> Sequence[Command]:
        """Answer bytes that are not WebSocket: 4xx in the handshake, afterwards close code 1002 or the one of the error."""
        if self._inner is not None:
            hint = fault.event_hint
            return self._close(hint.code if isinstance(hint, CloseConnection) else PROTOCOL_ERROR, now)
        hint = fault.event_hint
        if isinstance(hint, RejectConnection):
            # With a context the HTTP parser has refused the request; without one it is HTTP, but not a WebSocket handshake.
            upgrade = () if fault.__context__ is not None else ((b"upgrade", b"websocket"), (b"sec-websocket-version", b"13"))
            try:
                return self._refuse(426 if upgrade else 400, "WebSocket is spoken here (RFC 6455), version 13", upgrade)
            except LocalProtocolError:
                self._out.clear()  # the parser's state allows no response
        self._ended = True
        return (Disconnected(REFUSED),)

    def _close(self, code: int, now: int) -> Sequence[Command]:
        self._out.append(self._socket.send(CloseConnection(code)))
        self._close_sent = True
        return self._end(CUT_SHORT, now)

    def _end(self, reason: str, now: int) -> Sequence[Command]:
        """End the stream of the inner connection: no more bytes come from the peer."""
        self._ended = True
        self._later.clear()
        if self._inner is None:
            return (Disconnected(reason),)
        return () if self._inner.closed else self._inner.receive(b"", now)

    def answer(self, event: Event, now: int) -> None:
        """Pass an event to the inner connection."""
        if self._inner is not None:
            self._inner.answer(event, now)
            self._copy_state()

    def outgoing(self) -> Sequence[bytes]:
        """Take handshake responses and control frames, then the inner connection's bytes in one frame, then a close frame."""
        out, self._out = self._out, []
        inner = self._inner
        if inner is None or self._close_sent:
            return out
        said = inner.outgoing()
        if self._messages is None:
            said = [b"".join(said)]
        self._copy_state()
        out += [self._socket.send(BytesMessage(each)) for each in said if each]
        if inner.closed:
            self._close_sent = True
            out.append(self._socket.send(CloseConnection(NORMAL)))
        return out

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: the inner connection sends its protocol's message for it, and a close frame follows."""
        verb = getattr(self._inner, "drain", None)
        commands: Sequence[Command] = self._end(Ending.SHUTTING_DOWN.value, now) if verb is None else verb(now)
        self._copy_state()
        return commands

    def deadline(self) -> int | None:
        """Monotonic ns: the end of the handshake's 10 s, then the deadline of the inner connection; 0 while frames wait."""
        if self._later and self._inner is not None and self._inner.reading:
            return 0
        return self._opened + HANDSHAKE_NS if self._inner is None else self._inner.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """End a handshake that has taken 10 s, or pass the deadline on to the inner connection."""
        if self._inner is None and now < self._opened + HANDSHAKE_NS:
            return ()
        if self._later and self._inner is not None and self._inner.reading:
            return self._next(now)
        commands = self._end(HANDSHAKE_DEADLINE, now) if self._inner is None else self._inner.expire(now)
        self._copy_state()
        return commands
