"""`POST /v1/topics/{path…}/messages:stream`: one message a line, stored as they come, and one result a line, in their order.

    up     {"text":"one"}\\n{"text":"two"}\\n               members as of `messages:batch`; an empty line keeps the stream open
    down   {"seq":0,"topic":"t","id":"…","queue":1,"offset":7}\\n{"seq":1,"error":{"status":400,"code":"…","detail":"…"}}\\n

The messages that have arrived are stored together, with one command, while the next ones arrive: there is one such command in
flight, so their order is kept. A record that is refused does not end the stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

import orjson

from domain import limits
from domain.command import Command, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused, Sent
from domain.message import Message
from domain.principal import Principal
from protocols.host_shares import HostShare
from protocols.http.argument import parameters
from protocols.http.batch import item_of, message_of
from protocols.http.flow import PART_BYTES_MAX, Flow
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.place import due_of, place
from protocols.http.problem import RefusalError, of_failure, problem, refuse
from protocols.http.request import Request, no_room
from protocols.http.response import Response

RECORD_BYTES_MAX: Final = limits.ENVELOPE_BYTES_MAX
"""One line."""
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
    _batch      results of the records of the command in flight, in order; None: not known yet
    _pending    its messages; stored one by one when all of them together were refused
    _sending    messages of the command in flight
    _seq        number of the next record
    _out        results that the client has not taken
    _began      monotonic ns of the first byte of the incomplete record
    _heard_at   monotonic ns of the last byte
    _ended      True: no more content comes
    _fault      the problem document of invalid content; b"": it is valid
    _alone      True: the messages in flight are stored one by one
    """

    __slots__ = (
        "_alone",
        "_batch",
        "_began",
        "_due_ms",
        "_ended",
        "_fault",
        "_handler",
        "_heard_at",
        "_line_bytes",
        "_lines",
        "_out",
        "_out_bytes",
        "_pending",
        "_request",
        "_sending",
        "_seq",
        "_share",
        "_tail",
    )  # fmt: skip
    uploads = True

    def __init__(self, ticket: object, principal: Principal | None, match: Match, request: Request) -> None:
        super().__init__(ticket, principal)
        self._handler = match
        self._request = request
        self._lines: deque[bytes] = deque()
        self._line_bytes = 0
        self._tail = bytearray()
        self._share = HostShare(match.context.uploads, request.peer.host)
        self._batch: list[dict[str, object] | None] = []
        self._pending: deque[Message] = deque()
        self._due_ms: deque[int] = deque()
        self._sending = 0
        self._alone = False
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
            self.fail(_too_large())

    def _keep(self, lines: list[bytes], consumed: int) -> None:
        """Complete records that took `consumed` bytes with what was between them."""
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
        """The content is invalid: it is said behind the results of what was read before."""
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
        if self._ended and not self._lines and not self._batch and not self.over:
            self.over = True
            if self._fault:
                self._say(orjson.dumps({"seq": self._seq, **_error(orjson.loads(self._fault))}) + b"\n")

    # Commands

    def _send(self) -> None:
        """Make the next command of the records that wait."""
        messages = self._pending
        size = 0
        while self._lines and len(self._batch) < BATCH_RECORDS_MAX and size < BATCH_BYTES_MAX:
            line = self._lines.popleft()
            size += len(line)
            self._line_bytes -= len(line)
            self._share.give(len(line))
            try:
                if len(line) > RECORD_BYTES_MAX:
                    raise RefusalError(_too_large())
                message = message_of(self._handler, item_of(line), self._request)
            except RefusalError as refusal:
                self._batch.append(_error(orjson.loads(refusal.response.body)))
                continue
            self._batch.append(None)
            messages.append(message)
            self._due_ms.append(due_of(message))
        self._alone = False
        self._dispatch()

    def _dispatch(self) -> None:
        """Send what is pending, one by one after a refusal; say the results when all are known."""
        if not self._pending:
            self._say_batch()
            return
        messages = [self._pending[0]] if self._alone else list(self._pending)
        self._sending = len(messages)
        self._ask(Send(self.ticket, messages))

    def answer(self, event: Event, now: int) -> None:
        """Sent or Refused."""
        count, self._sending = self._sending, 0
        if isinstance(event, Refused) and count > 1 and event.failure.code is not ErrorCode.FLUSH_TIMEOUT:
            # None of them was stored: which one the reason is about shows when each is sent by itself.
            self._alone = True
        elif isinstance(event, Sent):
            for placed in event.placed:
                self._pending.popleft()
                self._put({"topic": self._handler.topic, **place(placed, self._due_ms.popleft())})
        else:
            failure = event.failure if isinstance(event, Refused) else Failure(ErrorCode.INTERNAL)
            for _ in range(count):
                self._pending.popleft()
                self._due_ms.popleft()
                self._put(_error(orjson.loads(of_failure(failure).body)))
        self._dispatch()

    def _put(self, result: dict[str, object]) -> None:
        self._batch[self._batch.index(None)] = result

    def _say_batch(self) -> None:
        lines: list[bytes] = []
        for result in self._batch:
            lines.append(orjson.dumps({"seq": self._seq, **(result or {})}))
            self._seq += 1
        self._batch.clear()
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
        return bool(self._lines) and not self._batch and self._out_bytes < UNREAD_BYTES_MAX

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
        """Store what waits, or end a stream that is too slow."""
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
        """Say that the node stops, behind the results of what was read."""
        if not self._ended:
            response = problem(503, ErrorCode.DRAINING.value, "the node stops: send the rest to another node")
            response.refusal = ""
            self.fail(response)


@final
class PostStream(Handler):
    """200 with results, while messages arrive."""

    __slots__ = ()
    body_max = STREAM_BYTES_MAX
    uploads = True

    def in_slices(self, request: Request, ticket: object, body_max: int, share: HostShare, now: int) -> None:
        """None: the content is not there yet."""

    def start(self, request: Request, ticket: object) -> Outcome:
        """The head of the request: `application/x-ndjson`."""
        parameters(self._match)
        kind = request.field(b"content-type").partition(b";")[0].strip().lower()
        if kind not in (b"application/x-ndjson", b"application/ndjson", b"application/jsonl"):
            raise refuse(ErrorCode.MEDIA_TYPE, "a stream is application/x-ndjson: one message a line")
        if request.field(b"content-encoding").lower() not in (b"", b"identity"):
            raise refuse(ErrorCode.MEDIA_TYPE, "a stream is not compressed")
        response = Response(200, [(b"content-type", b"application/x-ndjson"), (b"x-accel-buffering", b"no")])
        response.flow = ProduceFlow(ticket, self.principal, self._match, request)
        return None, response


def _error(document: dict[str, object]) -> dict[str, object]:
    return {"error": {name: value for name, value in document.items() if name not in ("type", "title")}}


def _too_large() -> Response:
    detail = f"a record is above {RECORD_BYTES_MAX} bytes"
    return problem(413, ErrorCode.MESSAGE_TOO_LARGE.value, detail, limit=RECORD_BYTES_MAX)
