"""WebSocket over HTTP/2 (RFC 8441): each stream that an extended CONNECT opens carries a connection of another protocol.

    opened: :method CONNECT, :protocol websocket --200--> frames of RFC 6455 as DATA --close frame--> END_STREAM
        | not ours, no sub-protocol, another origin: 4xx

Every stream is a client of its own: its commands are wrapped in `ChannelCommand`, their events in `ChannelEvent`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import RemoteProtocolError

from domain.client.channel import ChannelCommand, ChannelEvent, ReadingPaused
from domain.client.mqtt_session import ReadingResumed
from domain.command import Command, Disconnected
from domain.event import Event
from protocols.adapter import Adapter, Connection, Peer, ignore_refusal
from protocols.hosts import Hosts
from protocols.http2.application import Reply
from protocols.http2.head import RequestHead
from protocols.websocket.connection import FRAME_TOO_LARGE, NORMAL, NOT_BINARY, PROTOCOL_ERROR, TOO_LARGE
from protocols.websocket.message import InMessages, WholeMessages
from protocols.websocket.settings import Admits
from protocols.websocket_frame import FrameOutline

CLOSED_BY_NODE: Final = "closed-by-node"
API: Final = b"/v1/"
"""Paths at which HTTP itself serves WebSockets."""
HELD_BYTES_PER_TURN: Final = 64 * 1024
"""Bytes of one stream, held back before, that are decoded in one turn of the loop."""


@final
class _Stream:
    """One client.

    messages    puts whole messages together for it; None: to it this is a stream of bytes
    outline     cuts bytes into pieces for one turn each
    held        such pieces, received while `paused`, and whether a turn ends with them; at most the stream's window and one
                read of the socket
    paused      bytes are not decoded, and the flow control window of the stream is not enlarged
    rest_until  monotonic ns until which the gateway does not read this client (rate limit); 0: it reads
    over        a close frame was sent, or the stream has ended
    gone        the stream has ended: nothing can be sent; the end of the inner connection's input is behind `held`
    """

    __slots__ = ("frames", "gone", "held", "inner", "messages", "outline", "over", "paused", "rest_until")

    def __init__(self, inner: Connection, messages: WholeMessages | None) -> None:
        self.inner = inner
        self.messages = messages
        self.frames = Frames(ConnectionType.SERVER)
        self.outline = FrameOutline()
        self.held: deque[tuple[bytes, bool]] = deque()
        self.paused = False
        self.rest_until = 0
        self.over = False
        self.gone = False

    @property
    def unhandled(self) -> bool:
        """True while input waits: held pieces, or what the inner connection has received."""
        return (len(self.held) > 0 and not self.over) or getattr(self.inner, "unhandled", False) is True

    @property
    def reading(self) -> bool:
        """True when bytes from this client may be decoded."""
        return self.rest_until == 0 and self.inner.reading

    def deadline(self) -> int | None:
        """Monotonic ns at which `expire` has work for this stream; 0 when held bytes can be decoded; None for never."""
        if self.paused and self.reading and not self.over:
            return 0
        at = self.inner.deadline()
        if self.rest_until and (at is None or self.rest_until < at):
            return self.rest_until
        return at


@final
class WebSocketStreams:
    """The WebSocket streams of one HTTP/2 connection, a `protocols.http2.application.Application`.

    A channel is (this object, stream id).

    _parted   streams that have ended, while their input waits for an answer or for a later turn
    """

    __slots__ = ("_admits", "_hosts", "_inside", "_parted", "_peer", "_pending", "_refused", "_reply", "_streams")

    def __init__(
        self,
        inside: Mapping[str, Adapter],
        admits: Admits,
        hosts: Hosts,
        reply: Reply,
        peer: Peer,
        refused: Callable[[str, str], None] = ignore_refusal,
    ) -> None:
        self._refused = refused
        self._pending: list[Command] = []
        self._inside = inside
        self._admits = admits
        self._hosts = hosts
        self._reply = reply
        self._peer = peer
        self._streams: dict[int, _Stream] = {}
        self._parted: dict[int, _Stream] = {}

    @property
    def unhandled(self) -> bool:
        """True while some stream has ended, and its input is not handled yet."""
        return len(self._parted) > 0

    def accepts(self, head: RequestHead) -> bool:
        """True for an extended CONNECT for WebSocket (4) that is not for the HTTP API."""
        return head.protocol == b"websocket" and head.method == b"CONNECT" and not head.path.startswith(API)

    def opened(self, stream_id: int, head: RequestHead, now: int) -> Sequence[Command]:
        """Handle the opening handshake (5), which over HTTP/2 has no Sec-WebSocket-Key and no Sec-WebSocket-Accept."""
        fields = dict(head.fields)
        adapter = self._inside.get(head.path.decode("latin-1").partition("?")[0])
        offered = [word.strip() for word in fields.get(b"sec-websocket-protocol", b"").decode("latin-1").split(",")]
        if adapter is None:
            self._refuse(stream_id, b"404", "there is no WebSocket at this path")
        elif fields.get(b"sec-websocket-version", b"13") != b"13" or adapter.name not in offered:
            self._refuse(stream_id, b"400", f"the sub-protocol here is {adapter.name}, the version 13")
        elif not self._knows(head.authority, fields.get(b"origin", b"")):
            self._refuse(stream_id, b"403", "pages from this origin may not connect")
        else:
            messages = WholeMessages(adapter, self._peer.host) if isinstance(adapter, InMessages) else None
            self._streams[stream_id] = _Stream(adapter.connect(self._peer, now), messages)
            self._reply.respond(stream_id, [(b":status", b"200"), (b"sec-websocket-protocol", adapter.name.encode())], False)
        return ()

    def _knows(self, host: bytes, origin: bytes) -> bool:
        return self._hosts.knows(host) and self._admits(origin.decode("latin-1"), host.decode("latin-1"))

    def _refuse(self, stream_id: int, status: bytes, words: str) -> None:
        self._refused("websocket", "websocket-refused")
        body = words.encode() + b"\n"
        self._reply.respond(stream_id, [(b":status", status), (b"content-type", b"text/plain")], False)
        self._reply.send(stream_id, body, True)

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes of frames; they may be split anywhere."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.over:
            return ()
        pieces = stream.outline.cut(data)
        if not stream.paused and stream.reading and len(pieces) == 1 and not stream.outline.fault:
            return self._read(stream_id, stream, data, now)
        stream.held.extend([(piece, number < len(pieces)) for number, piece in enumerate(pieces, 1)])
        if not stream.paused:
            stream.paused = True
            self._reply.pause(stream_id)
        return ()

    def _read(self, stream_id: int, stream: _Stream, data: bytes, now: int) -> Sequence[Command]:
        commands: list[Command] = []
        frames = stream.frames
        try:
            frames.receive_data(data)
            for event in frames.events():
                if isinstance(event, BytesMessage):
                    commands += self._pass_on(stream_id, stream, event, now)
                elif isinstance(event, TextMessage):
                    commands += self._close(stream_id, stream, NOT_BINARY, now)
                elif isinstance(event, Ping):
                    if not stream.gone:
                        self._reply.send(stream_id, frames.send(event.response()), False)
                elif isinstance(event, CloseConnection):
                    commands += self._close(stream_id, stream, event.code, now)
                if stream.over or stream.inner.closed:
                    break
        except RemoteProtocolError as fault:
            hint = fault.event_hint
            commands += self._close(stream_id, stream, hint.code if isinstance(hint, CloseConnection) else PROTOCOL_ERROR, now)
        self._flush(stream_id, stream)
        return self._wrap(stream_id, commands)

    def _pass_on(self, stream_id: int, stream: _Stream, event: BytesMessage, now: int) -> Sequence[Command]:
        data = bytes(event.data)
        if stream.messages is not None:
            data = stream.messages.add(data, event.message_finished)
            if stream.messages.fault:
                self._refused("websocket", FRAME_TOO_LARGE)
                return self._close(stream_id, stream, TOO_LARGE, now)
        return stream.inner.receive(data, now) if data else ()

    def _close(self, stream_id: int, stream: _Stream, code: int, now: int) -> Sequence[Command]:
        """Send a close frame unless one was sent, remove the stream, and end the stream of the inner connection."""
        if not stream.gone and stream.frames.state in (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING):
            self._reply.send(stream_id, stream.frames.send(CloseConnection(code)), True)
        return self._end_input(stream_id, stream, now)

    def _end_input(self, stream_id: int, stream: _Stream, now: int) -> Sequence[Command]:
        """End the stream of the inner connection, which is kept while its input waits."""
        stream.over = True
        self._streams.pop(stream_id, None)
        commands = () if stream.inner.closed else stream.inner.receive(b"", now)
        if stream.unhandled and not stream.inner.closed:
            self._parted[stream_id] = stream
        return commands

    def _flush(self, stream_id: int, stream: _Stream) -> None:
        """Send the bytes of the inner connection in one frame, and a close frame when it is closed."""
        said = stream.inner.outgoing()
        if stream.over or stream.gone:
            return
        for each in [b"".join(said)] if stream.messages is None else said:
            if each:
                self._reply.send(stream_id, stream.frames.send(BytesMessage(each)), False)
        if stream.inner.closed:
            stream.over = True
            del self._streams[stream_id]
            self._reply.send(stream_id, stream.frames.send(CloseConnection(NORMAL)), True)

    def _wrap(self, stream_id: int, commands: Sequence[Command]) -> list[Command]:
        return [ChannelCommand((self, stream_id), command) for command in commands]

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        """Handle END_STREAM without a close frame, which is like the end of a TCP connection (5)."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return ()
        self._reply.send(stream_id, b"", True)
        return self.cancelled(stream_id, now)

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """Handle RST_STREAM or the loss of the connection: end the stream of the inner connection."""
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return ()
        stream.gone = True
        if stream.held and not stream.inner.closed:
            self._parted[stream_id] = stream
            return ()
        return self._wrap(stream_id, self._end_input(stream_id, stream, now))

    def answer(self, event: Event, now: int) -> None:
        """Pass an event to the stream that its ticket names. Events without a channel are ignored."""
        if not isinstance(event, ChannelEvent | ReadingPaused):
            return
        stream_id: int = event.ticket[1]  # type: ignore[index]
        stream = self._streams.get(stream_id) or self._parted.get(stream_id)
        if stream is None:
            return
        if isinstance(event, ReadingPaused):
            stream.rest_until = max(stream.rest_until, event.until_ns)
            return
        if event.event is None:
            self._pending += self._end(stream_id, stream, now)
            return
        stream.inner.answer(event.event, now)
        self._flush(stream_id, stream)

    def _end(self, stream_id: int, stream: _Stream, now: int) -> Sequence[Command]:
        """End a stream for the gateway: send the inner connection's last bytes and a close frame, return its last commands."""
        self._flush(stream_id, stream)
        parted = self._parted.pop(stream_id, None) is not None
        if not parted:
            if stream.over:
                return ()
            stream.over = True
            del self._streams[stream_id]
            self._reply.send(stream_id, stream.frames.send(CloseConnection(NORMAL)), True)
        commands = [*stream.inner.expire(now), *stream.inner.receive(b"", now)]
        if not stream.inner.closed:  # its input waits, and would for longer
            commands.append(Disconnected(CLOSED_BY_NODE))
        return self._wrap(stream_id, commands)

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: every client gets its protocol's message for it, and a close frame."""
        commands: list[Command] = []
        for stream_id, stream in [*self._streams.items(), *self._parted.items()]:
            verb = getattr(stream.inner, "drain", None)
            if verb is not None:
                commands += self._wrap(stream_id, verb(now))
            if stream_id in self._streams or not stream.inner.closed:
                commands += self._end(stream_id, stream, now)
            self._parted.pop(stream_id, None)
        return commands

    def deadline(self) -> int | None:
        """The earliest deadline of the streams; 0 while commands are pending or held bytes can be decoded."""
        earliest: int | None = 0 if self._pending else None
        for stream in (*self._streams.values(), *self._parted.values()):
            at = stream.deadline()
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest

    def expire(self, now: int) -> Sequence[Command]:
        """Handle deadlines that have passed, and decode held bytes of streams that are read again."""
        commands, self._pending = self._pending, []
        for stream_id, stream in [*self._streams.items(), *self._parted.items()]:
            if stream.rest_until:
                # The node does not read this client: its silence must not count against the keep-alive.
                stream.inner.answer(ReadingResumed(), now)
                stream.rest_until = stream.rest_until if stream.rest_until > now else 0
            at = stream.inner.deadline()
            if at is not None and at <= now:
                commands += self._wrap(stream_id, stream.inner.expire(now))
                self._flush(stream_id, stream)
            if stream.paused and stream.reading and not stream.over:
                commands += self._decode_held(stream_id, stream, now)
            if stream.inner.closed:
                self._parted.pop(stream_id, None)
        return commands

    def _decode_held(self, stream_id: int, stream: _Stream, now: int) -> Sequence[Command]:
        """Decode a held piece; enlarge the window again behind the last, unless the inner connection has stopped reading."""
        commands: list[Command] = []
        spent = 0
        while stream.held and spent < HELD_BYTES_PER_TURN and stream.reading and not stream.over:
            piece, last = stream.held.popleft()
            spent = HELD_BYTES_PER_TURN if last else spent + len(piece)
            commands += self._read(stream_id, stream, piece, now)
        if not stream.held and stream.outline.fault and not stream.over:
            self._refused("websocket", FRAME_TOO_LARGE)
            return [*commands, *self._wrap(stream_id, self._close(stream_id, stream, TOO_LARGE, now))]
        if stream.gone:
            if not stream.held and not stream.over:
                commands += self._wrap(stream_id, self._end_input(stream_id, stream, now))
        elif stream.reading and not stream.over and not stream.held:
            stream.paused = False
            self._reply.resume(stream_id)
        return commands
