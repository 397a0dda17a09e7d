"""`POST /v1/topics/{path…}/messages:stream`: one message a line, stored as they come, and one result a line, in their order.

    up     {"text":"one"}\\n{"text":"two"}\\n               members as of `messages:batch`, and `idempotencyKey`;
                                                       an empty line keeps the stream open
    down   {"seq":0,"topic":"t","id":"…","queue":1,"offset":7}\\n{"seq":1,"error":{"status":400,"code":"…","detail":"…"}}\\n

The messages that have arrived are stored together while the next ones arrive: there is one such batch in flight, so their order
is kept. A record that is refused does not end the stream, and one whose key is known gets the answer that it got first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final, final

import orjson

from domain import limits
from domain.access.principal import Principal
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Event
from protocols.host_shares import HostShare
from protocols.http.argument import KEY_MEMBER, parameters
from protocols.http.flow import PART_BYTES_MAX, Flow
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.problem import problem, refuse
from protocols.http.request import Request, no_room
from protocols.http.response import Response
from protocols.http.streams.records import RECORD_BYTES_MAX, RecordBatch, error_of, too_large

STREAM_BYTES_MAX: Final = 999_999_999_999
"""Content of one stream: the largest Content-Length that is read."""
WAITING_RECORDS_MAX: Final = 1_024
WAITING_BYTES_MAX: Final = 1024 * 1024
"""Records and bytes that wait for the store, at which reading stops."""
UNREAD_BYTES_MAX: Final = 256 * 1024
"""Results that the client has not read, at which reading stops."""
BATCH_RECORDS_MAX: Final = 128
BATCH_BYTES_MAX: Final = 256 * 1024
"""Records, and bytes of them, that are stored with one command."""
IDLE_NS: Final = 120 * limits.SECOND_NS
"""Time without a byte after which a stream ends."""
RECORD_BYTES_PER_S: Final = 32 * 1024


@final
class ProduceFlow(Flow):
    """An upload of messages.

    _lines      complete records that wait
    _tail       the incomplete record
    _share      bytes of both, in the bound of unfinished requests
    _batch      the records that are being stored; None: there are none
    _out        results that the client has not taken
    _began      monotonic ns of the first byte of the incomplete record
    _fault      the problem document of invalid content; b"": it is valid
    """

    uploads = True

    def __init__(self, ticket: object, principal: Principal | None, match: Match, request: Request) -> None:
        super().__init__(ticket, principal)
        self._handler = match
        self._request = request
        self._lines: deque[bytes] = deque()
        self._line_bytes = 0
        self._tail = bytearray()
        self._share = HostShare(match.context.uploads, request.peer.host)
        self._batch: RecordBatch | None = None
        self._fault = b""
        self._seq = 0
        self._out: deque[bytes] = deque()
        self._out_bytes = 0
        self._began = self._heard_at = 0
        self._ended = False

    # Content

    @property
    def reading(self) -> bool:
        """False while enough waits for the store, or enough results for the client."""
        return (
            len(self._lines) < WAITING_RECORDS_MAX
            and self._line_bytes < WAITING_BYTES_MAX
            and self._out_bytes < UNREAD_BYTES_MAX
        )

    def feed(self, data: bytes, now: int) -> None:
        """A part of the content."""
        if self._ended:
            return
        self._heard_at = now
        if not self._share.take(len(data)):
            self.fail(no_room().response)
            return
        if not self._tail:
            self._began = now
        head, end, rest = data.rpartition(b"\n")
        if end:
            # Split at once: a peer can send thousands of empty lines in one segment.
            lines = (bytes(self._tail) + head).split(b"\n")
            consumed = len(self._tail) + len(head) + 1
            self._tail = bytearray()
            self._began = now
            self._keep([line for line in lines if line and not line.isspace()], consumed)
        self._tail += rest
        if len(self._tail) > RECORD_BYTES_MAX:
            self.fail(too_large())

    def _keep(self, lines: list[bytes], consumed: int) -> None:
        """Complete records that took `consumed` bytes with the separators between them."""
        size = sum(map(len, lines))
        self._share.give(consumed - size)
        self._lines.extend(lines)
        self._line_bytes += size

    def fed_all(self, now: int) -> None:
        """The content is complete; its last line may have no end."""
        if not self._ended:
            self._ended = True
            last = bytes(self._tail)
            self._tail = bytearray()
            self._keep([last] if last and not last.isspace() else [], len(last))
            self._finish()

    def cut(self, document: bytes) -> None:
        """The content is invalid: the problem is sent behind the results of the records before it."""
        if self._ended:
            return
        self._fault = document
        self._ended = True
        self._share.give(len(self._tail))
        self._tail = bytearray()
        self._finish()

    def fail(self, response: Response) -> None:
        """Say why the stream ends."""
        self.refusal = response.refusal
        self.cut(response.body)

    def _finish(self) -> None:
        if self._ended and not self._lines and self._batch is None and not self.over:
            self.over = True
            if self._fault:
                self._say(orjson.dumps({"seq": self._seq, **error_of(self._fault)}) + b"\n")

    # Commands

    def _send(self) -> None:
        """Store the records that wait."""
        batch = self._batch = RecordBatch(self._handler, self._request)
        size = 0
        while self._lines and len(batch) < BATCH_RECORDS_MAX and size < BATCH_BYTES_MAX:
            line = self._lines.popleft()
            size += len(line)
            self._line_bytes -= len(line)
            self._share.give(len(line))
            batch.add(line)
        self._put(batch.commands(self.ticket))

    def answer(self, event: Event, now: int) -> None:
        """Sent or Refused."""
        if self._batch is not None:
            self._put(self._batch.answer(event, self.ticket))

    def _put(self, commands: Sequence[Command]) -> None:
        """Queue commands of the batch; send its results when all are known."""
        for command in commands:
            self._ask(command)
        batch = self._batch
        if batch is None or not batch.known:
            return
        self._batch = None
        lines: list[bytes] = []
        for result in batch.results:
            lines.append(orjson.dumps({"seq": self._seq, **(result or {})}))
            self._seq += 1
        if lines:
            self._say(b"\n".join(lines) + b"\n")
        self._finish()

    def _say(self, part: bytes) -> None:
        self._out.append(part)
        self._out_bytes += len(part)

    # Output and time

    @property
    def wants_room(self) -> bool:
        """True while there are results."""
        return bool(self._out)

    @property
    def held(self) -> int:
        """Bytes of results."""
        return self._out_bytes

    def take(self) -> bytes:
        """Results."""
        parts: list[bytes] = []
        size = 0
        while self._out and size < PART_BYTES_MAX:
            parts.append(self._out.popleft())
            size += len(parts[-1])
        self._out_bytes -= size
        return b"".join(parts)

    @property
    def _may_send(self) -> bool:
        return bool(self._lines) and self._batch is None and self._out_bytes < UNREAD_BYTES_MAX

    def deadline(self) -> int | None:
        """0 when there is something to store; else when the record has to be complete, or the stream is idle for too long."""
        if self._commands or self._may_send:
            return 0
        if self._ended:
            return None
        if self._tail:
            return self._began + limits.FRAME_NS + len(self._tail) * limits.SECOND_NS // RECORD_BYTES_PER_S
        return self._heard_at + IDLE_NS

    def expire(self, now: int) -> Sequence[Command]:
        """Store waiting records, or end a stream that is too slow."""
        if not self._heard_at:
            self._heard_at = now
        due = self.deadline()
        if self._may_send:
            self._send()
        elif due and due <= now and self.reading:
            what = (
                "the record did not arrive in time" if self._tail else "no record came in time: send an empty line now and then"
            )
            self.fail(problem(408, "request-timeout", what))
        elif due and due <= now:
            self._heard_at = self._began = now
        return super().expire(now)

    def gone(self, now: int) -> Sequence[Command]:
        """Messages that were not passed to the store are dropped; who sent them got no result."""
        self._ended = self.over = True
        self._lines.clear()
        self._share.release()
        return ()

    def drain(self) -> None:
        """Notify the client that the node stops, behind the results of the records so far."""
        if not self._ended:
            response = problem(503, ErrorCode.DRAINING.value, "the node stops: send the rest to another node")
            response.refusal = ""
            self.fail(response)


@final
class PostStream(Handler):
    """`POST /v1/topics/{path…}/messages:stream`."""

    description: ClassVar[str] = (
        "Messages, one a line, stored as they come: 200 with one result a line, while the request goes on. Members of a "
        "message as of `postBatch`, and `idempotencyKey`: a record that comes again with its key is stored once, and gets "
        "the result that it got first; another record with that key is refused in its place (422)."
    )
    __slots__ = ()
    body_max = STREAM_BYTES_MAX
    uploads = True

    def in_slices(self, request: Request, ticket: object, body_max: int, share: HostShare) -> None:
        """None: the content is not there yet."""

    def start(self, request: Request, ticket: object) -> Outcome:
        """The head of the request: `application/x-ndjson`."""
        parameters(self._match)
        kind = request.field(b"content-type").partition(b";")[0].strip().lower()
        if kind not in (b"application/x-ndjson", b"application/ndjson", b"application/jsonl"):
            raise refuse(ErrorCode.MEDIA_TYPE, "a stream is application/x-ndjson: one message a line")
        if request.field(b"content-encoding").lower() not in (b"", b"identity"):
            raise refuse(ErrorCode.MEDIA_TYPE, "a stream is not compressed")
        if request.has(b"idempotency-key"):
            detail = f"a stream may end anywhere, so its records have keys of their own: member {KEY_MEMBER}"
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, detail, field="idempotency-key")
        response = Response(200, [(b"content-type", b"application/x-ndjson"), (b"x-accel-buffering", b"no")])
        response.flow = ProduceFlow(ticket, self.principal, self._match, request)
        return None, response
