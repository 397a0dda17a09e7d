"""One HTTP/1.1 connection: requests in, responses out in the order of their requests (RFC 9112, section 9).

waiting   no byte of a request has arrived   10 s for the first request, then 60 s (keep-alive)
head      part of a head has arrived         10 s from its first byte, else 408
content   the head is complete               10 s, and 1 s more for each 32 KiB received, else 408
handled   the command is in progress         no deadline; further requests may be read
stream    a response is written in parts      that of its flow (protocols/http/flow.py); responses behind it wait

In one turn of the loop a connection handles REQUESTS_PER_TURN_MAX requests; the rest of a segment waits for the next turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.command import Command, Disconnected
from domain.event import Event
from domain.refusal import Ending
from protocols.adapter import Peer
from protocols.http.handler import Outcome
from protocols.http.http1.context import ConnectionContext
from protocols.http.http1.exchange import Exchange
from protocols.http.http1.flow_output import FlowOutput
from protocols.http.http1.patience import Patience
from protocols.http.http1.reader import Reader
from protocols.http.http1.unread import UnreadResponses
from protocols.http.problem import draining, too_slow
from protocols.http.response import CONTINUE, Response, http1
from protocols.http.site import readable_by

EXCHANGES_MAX: Final = 64
"""Unanswered requests at which reading stops."""
HELD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of content of unanswered requests at which reading stops."""


@final
class HttpConnection:
    """Sans-IO; `protocols.adapter.Connection`. A ticket is the Exchange itself.

    _undo_commands   commands for the next `expire`: they undo commands whose answer is not sent
    _waiting         complete requests behind the one that is handled in slices
    _held            bytes of content of unanswered requests
    """

    def __init__(self, context: ConnectionContext, peer: Peer, now: int) -> None:
        self._refused = context.refused
        self._reader = Reader(context.router, context.heads, peer)
        self._date = context.date
        self._exchanges: list[Exchange] = []  # few; a deque takes 700 bytes of each connection
        self._out: list[bytes] = []
        self._unread = UnreadResponses(context.unread, peer.host)
        self._undo_commands: list[Command] = []
        self._patience = Patience(now)
        self._half_closed = False
        self._held = 0
        self._sliced: Exchange | None = None
        self._waiting: list[Exchange] = []
        self._stream: FlowOutput | None = None
        self._reason = "closed"
        self._now = now
        self.closed = False

    @property
    def reading(self) -> bool:
        """False while bytes are not parsed yet, and while EXCHANGES_MAX requests or HELD_BYTES_MAX of content wait."""
        return self._may_parse and not self._reader.behind

    @property
    def unhandled(self) -> bool:
        """True while received requests wait for a later turn, or for answers to earlier ones."""
        return not self.closed and (self._reader.behind or self._sliced is not None or len(self._waiting) > 0)

    @property
    def _may_parse(self) -> bool:
        current = self._reader.current
        if current is not None and current.feeds and current.pieces:
            return False
        if self._stream is not None and not self._stream.flow.reading:
            return False
        return self._sliced is None and len(self._exchanges) < EXCHANGES_MAX and self._held < HELD_BYTES_MAX

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Bytes of requests; b"" when the peer has sent all.

        After b"" unanswered requests are still answered, unless one of them is a long poll: that client has hung up, and a
        message leased for it could not be delivered until the lease ends.
        """
        self._now = now
        if self.closed:
            return ()
        if not data:
            return self._end_of_stream()
        if self._stream is not None and self._stream.raw:
            self._stream.flow.feed(data, now)
            return self._stream.flow.expire(now)
        return self._parse(data)

    def _parse(self, data: bytes) -> list[Command]:
        """Parse `data`, or the rest of earlier bytes for b"", as far as one turn allows."""
        reader, now = self._reader, self._now
        begun, current = reader.begun, reader.current
        if not data:
            reader.resume()
        else:
            reader.feed(data)
        commands: list[Command] = []
        if reader.done:
            self._start_all(commands)
            begun = False
            self._patience.silent = False
        if reader.begun and (not begun or reader.current is not current):
            self._patience.begin(now)
        self._flush()
        if self._stream is not None and self._stream.exchange.feeds:
            commands += self._stream.pass_on(now)
        return self._with_end(commands)

    def _with_end(self, commands: list[Command]) -> list[Command]:
        """The commands of a turn, and Disconnected behind them when the connection is closed."""
        if self.closed:
            commands.append(Disconnected(self._reason, self._reason == "closed"))
        return commands

    def _start_all(self, commands: list[Command]) -> None:
        """Start the requests that the reader has done, up to one that is handled in slices."""
        waiting, self._reader.done = self._reader.done, []
        if self._waiting:
            waiting = [*self._waiting, *waiting]
        at = 0
        while at < len(waiting) and self._sliced is None:
            exchange = waiting[at]
            at += 1
            self._exchanges.append(exchange)
            self._started(exchange, exchange.start(exchange, self._reader.share, self._now), commands)
        self._waiting = waiting[at:]

    def _started(self, exchange: Exchange, outcome: Outcome, commands: list[Command]) -> None:
        """A request is carried out, or one slice of it; the requests behind it wait until its last slice."""
        command, response = outcome
        if command is not None:
            commands.append(command)
        if exchange.steps is not None:
            self._sliced = exchange
            return
        self._sliced = None
        self._held += exchange.held
        if response is not None:
            self._respond(exchange, response)

    def _respond(self, exchange: Exchange, response: Response) -> None:
        if exchange.origin:
            response.fields = [*response.fields, *readable_by(exchange.origin)]
        keep_alive = exchange.keep_alive and not (exchange.http10 and response.flow is not None)
        exchange.output = http1(response, self._date.at(self._now), exchange.head_only, keep_alive, exchange.http10)
        if response.flow is None:
            exchange.keep_alive = exchange.keep_alive and not exchange.feeds  # the content is not read
        elif exchange.head_only:
            self._undo_commands += response.flow.gone(self._now)
        else:
            exchange.flow = response.flow
            if exchange.feeds and self._reader.expects:  # the client waits for 100 before it sends
                self._reader.expects = False
                exchange.output = CONTINUE + exchange.output
        exchange.handler = None
        self._held -= exchange.held
        self._unread.made(len(exchange.output))
        if response.refusal:
            self._refused("http", response.refusal)

    def answer(self, event: Event, now: int) -> None:
        """The event of a command. Events without a request of this connection are discarded."""
        ticket = getattr(event, "ticket", None)
        part = isinstance(ticket, tuple) and len(ticket) > 0
        exchange = ticket[0] if isinstance(ticket, tuple) and part else ticket
        if not isinstance(exchange, Exchange):
            return
        if exchange.flow is not None:
            exchange.flow.answer(event, now)
            if exchange.flow.over:
                self._undo_commands += exchange.flow.expire(now)
            return
        handler = exchange.handler
        if handler is None:
            return
        self._now = now
        if part:
            collected = handler.collect(event)
            if collected is None:
                return
            response = collected
        elif handler.repeatable:
            unread = self._unread
            response, undo = exchange.repeatable_response(handler, event, exchange, unread.room, unread.bytes)
            self._undo_commands += undo
        else:
            response = handler.finish(event)
        self._respond(exchange, response)
        self._flush()

    def _flush(self) -> None:
        """Move responses to the output, up to the first unanswered request."""
        exchanges = self._exchanges
        while exchanges and exchanges[0].output:
            exchange = exchanges[0]
            self._out.append(exchange.output)
            if exchange.flow is not None:
                exchange.output = b""
                self._stream = FlowOutput(exchange, exchange.flow, exchange.flow.uploads and not exchange.feeds)
                return
            del exchanges[0]
            if not exchange.keep_alive:
                if exchange.refusal is not None:
                    self._reason = f"refused-{exchange.refusal.status}"
                exchanges.clear()
                self._close()
                return
        if not exchanges:
            self._patience.rest(self._now)
            if self._reader.expects:
                self._reader.expects = False
                self._out.append(CONTINUE)
                self._unread.made(len(CONTINUE))
            if self._half_closed and not self._reader.behind:
                self._close()

    def _close(self) -> None:
        self.closed = True
        self._sliced = None
        self._reader.share.release()

    def _end_of_stream(self) -> Sequence[Command]:
        self._half_closed = True
        waiting = any(one.handler is not None and one.handler.long_poll for one in self._exchanges)
        waiting = waiting or any(one.flow is not None and not one.fed for one in self._exchanges)
        if (self._exchanges or self._reader.behind) and not waiting:
            return ()
        undone = [command for one in self._exchanges if one.flow is not None for command in one.flow.gone(self._now)]
        self._close()
        begun = self._reader.begun
        return (*undone, Disconnected("cut-short" if begun else "end-of-stream", not begun))

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: requests in progress are answered, an incomplete one with 503, with Connection: close; no others."""
        self._now = now
        if self.closed:
            return ()
        commands: list[Command] = []
        self._reader.stop(draining())
        self._start_all(commands)
        for last in [*self._exchanges, *self._waiting][-1:]:
            last.keep_alive = False
        for one in self._exchanges:
            if one.flow is not None:
                one.flow.drain()
        self._flush()
        if not self._exchanges and not self.closed:
            self._reason = Ending.SHUTTING_DOWN.value
            self._close()
        if self.closed:
            commands.append(Disconnected(self._reason, True))
        return commands

    def outgoing(self) -> Sequence[bytes]:
        """Responses to write, in order."""
        out, self._out = self._out, []
        stream = self._stream
        if stream is not None:
            part = stream.take()
            if part:
                out.append(part)
            self._unread.written_part(len(part), out, stream.flow.held)
        elif out:
            self._unread.written(out, self.closed)
        return out

    def deadline(self) -> int | None:
        """Monotonic ns by the table above; 0 while an undo command or bytes that may be parsed are queued; None for never."""
        if self.closed:
            return None
        reader = self._reader
        if self._undo_commands or (reader.behind and self._may_parse):
            return 0
        if self._sliced is not None and self._sliced.steps is not None:
            return self._sliced.due
        late = self._patience.deadline(reader, len(self._exchanges) > 0)
        if self._stream is None:
            return late
        due = self._stream.deadline()
        return due if late is None or (due is not None and due < late) else late

    def expire(self, now: int) -> Sequence[Command]:
        """Too slow: 408 when a request has begun, else the connection is closed without a response."""
        self._now = now
        due = self.deadline()
        if due is None or now < due:
            return ()
        if self._undo_commands:
            undo_commands, self._undo_commands = self._undo_commands, []
            return undo_commands
        commands: list[Command] = []
        sliced = self._sliced
        if sliced is not None:
            self._started(sliced, sliced.next_slice(self._reader.share, now), commands)
            self._start_all(commands)
            self._flush()
            return self._with_end(commands)
        if self._reader.behind and self._may_parse:
            return self._parse(b"")
        if self._stream is not None:
            late = self._patience.deadline(self._reader, len(self._exchanges) > 0)
            if late is None or now < late:
                return self._run_stream(self._stream, now)
        if self._reader.begun:
            self._reader.refuse(too_slow())
            self._start_all(commands)
            self._flush()
            return self._with_end(commands)
        self._close()
        silent = self._patience.silent
        return (Disconnected("silent" if silent else "idle", not silent),)

    def _run_stream(self, stream: FlowOutput, now: int) -> Sequence[Command]:
        """Take the commands of the stream, or go on behind the end of its response."""
        if not stream.ended:
            return stream.expire(now)
        self._stream = None
        exchange = self._exchanges.pop(0)
        commands = [*stream.flow.expire(now)]
        if stream.flow.refusal:
            self._refused("http", stream.flow.refusal)
        if exchange.keep_alive and (exchange.fed or not exchange.feeds):
            self._flush()
        else:
            self._exchanges.clear()
            self._close()
        return self._with_end(commands)
