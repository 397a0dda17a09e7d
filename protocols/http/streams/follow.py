"""`GET /v1/topics/{path…}:consume`: the messages of a topic or a path as they arrive, by offset and without a group."""

from __future__ import annotations

from typing import ClassVar, Final, final

from domain import limits
from domain.access.principal import Principal
from domain.address import topic_of_path
from domain.command import FollowTopic
from domain.errors import ErrorCode
from domain.event import Event, TopicFollowed
from domain.filter.path_matching import is_filter
from domain.message.record import Record
from protocols.http.argument import filter_of, number, parameters
from protocols.http.documents import Documents
from protocols.http.handler import Match, Outcome
from protocols.http.handlers.pull import OFFSET_MAX
from protocols.http.problem import RefusalError, problem, refuse
from protocols.http.request import Request
from protocols.http.response import Response
from protocols.http.streams import cursor as cursors
from protocols.http.streams.consume import COMMON, ConsumeHandler
from protocols.http.streams.source import Source
from protocols.http.streams.writer import Writer

BATCH_MESSAGES_MAX: Final = 256
"""Messages that are read at once for one reader."""
BATCH_BYTES_MAX: Final = 128 * 1024
"""Bytes of records that are read at once for one reader, unless one message is larger."""
INVALID: Final = "event-id-invalid"
EXPIRED: Final = "event-id-expired"


@final
class FollowSource(Source):
    """A reader by offset: it asks for more when the client has room for it, and leaves nothing out.

    _asking    True: a FollowTopic is not answered
    _command   the FollowTopic that begins the stream; the next ones have its filters
    _offsets   queue id -> offset behind the records that were read
    _at        queue id -> offset behind the records that were taken; `_offsets` itself when all are
    _text      True: bodies that are UTF-8 are sent as text
    """

    def __init__(
        self, command: FollowTopic, principal: Principal | None, writer: Writer, credit: int, text: bool, documents: Documents
    ) -> None:
        super().__init__(command.ticket, principal, writer, credit)
        self._command = command
        self._text = text
        self._documents = documents
        self._records: list[bytes] = []
        self._bytes = 0
        self._offsets: dict[int, int] = {}
        self._at: dict[int, int] = {}
        self._epoch = 0
        self._first_queue = 0
        self._asking = True

    def position(self) -> str:
        """The cursor behind the taken messages."""
        return cursors.encode(self._command.topic, self._command.queue_id, self._epoch, self._at)

    def _cursor(self) -> str:
        return self.position()

    def answer(self, event: Event, now: int) -> None:
        """TopicFollowed, or an event that ends the stream."""
        if not isinstance(event, TopicFollowed):
            super().answer(event, now)
            return
        self._asking = False
        if self.over:
            return
        fault = fault_of(event)
        if fault is not None:
            self.end(fault)
            return
        self._epoch = event.epoch
        self._offsets = event.offsets
        self._at = dict(event.offsets) if event.records else event.offsets
        for data in reversed(event.records):
            record = Record(data)
            self._at[record.queue_id] = record.queue_offset
            self._bytes += len(data)
        self._records.extend(event.records)
        self._first_queue = max(event.next_queue, 0)

    def _next(self) -> bytes:
        if not self._records or self.credit == 0:
            return b""
        if self.credit > 0:
            self.credit -= 1
        data = self._records.pop(0)
        self._bytes -= len(data)
        record = Record(data)
        if self._records:
            self._at[record.queue_id] = record.queue_offset + 1
        else:
            self._at = self._offsets
        return self._writer.message(self._documents.encode(data, self._text), self.position())

    def _more(self) -> None:
        if not self._idle:
            return
        self._asking = True
        first = self._command
        self._ask(
            FollowTopic(
                self.ticket, first.topic, self._offsets, "", first.queue_id, self._first_queue, BATCH_MESSAGES_MAX,
                BATCH_BYTES_MAX, limits.WAIT_MS_MAX, first.filter, first.pattern, self._epoch,
            )
        )  # fmt: skip

    @property
    def _idle(self) -> bool:
        return not (self._asking or self._records or self.over or self.credit == 0)

    @property
    def message_bytes(self) -> int:
        """Bytes of messages that are not taken yet."""
        return self._bytes

    def _drop(self) -> None:
        self._records.clear()
        self._bytes = 0


@final
class ConsumeTopic(ConsumeHandler):
    """`GET /v1/topics/{path…}:consume`."""

    description: ClassVar[str] = (
        "A stream of every message of a topic, or of one path in it. Parameters: `from` (`first`, `last`, a cursor, or with "
        "`queue` an offset; last), `queue` (all), `path` (a filter with `+` and `#`), `tag` or `filter`, `format`, `text`, "
        "`credit`. The field Last-Event-ID, a cursor, comes before `from`."
    )
    __slots__ = ("_command",)

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._command: FollowTopic | None = None

    def start(self, request: Request, ticket: object) -> Outcome:
        """The first FollowTopic, which does not wait."""
        match = self._match
        asked = parameters(match, "from", "queue", "path", "tag", "filter", *COMMON)
        self._form(request, asked)
        queue_id = number("queue", asked.get("queue"), 0, limits.QUEUES_PER_TOPIC_MAX - 1, -1)
        pattern = asked.get("path", match.path)
        if "path" in asked and (match.path or not is_filter(pattern) or not _may_match(pattern, match.topic)):
            raise refuse(ErrorCode.FILTER_ILLEGAL, "path is a filter over the paths of the topic", parameter="path")
        command = FollowTopic(
            ticket, match.topic, {}, "", queue_id, 0, BATCH_MESSAGES_MAX, BATCH_BYTES_MAX, 0, filter_of(match, asked), pattern
        )  # fmt: skip
        begin = request.field(b"last-event-id").decode("latin-1") or asked.get("from", "last")
        self._begin(command, begin)
        self._command = command
        return command, None

    def _begin(self, command: FollowTopic, begin: str) -> None:
        if begin in ("first", "last"):
            command.start = begin
            return
        command.start = "resume"
        if begin.isascii() and begin.isdigit():
            if command.queue_id < 0:
                raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "an offset belongs to one queue: name it with queue", parameter="from")
            command.offsets = {command.queue_id: number("from", begin, 0, OFFSET_MAX, 0)}
            return
        found = cursors.decode(command.topic, command.queue_id, begin)
        if found is None:
            detail = "this is no position in this topic: begin with from=first or from=last"
            raise RefusalError(problem(400, INVALID, detail))
        command.epoch, command.offsets = found

    def finish(self, event: Event) -> Response:
        """TopicFollowed or Refused."""
        command = self._command
        if not isinstance(event, TopicFollowed) or command is None:
            return super().finish(event)
        fault = fault_of(event)
        if fault is not None:
            return fault
        source = FollowSource(
            command, self.principal, self._writer, self._first_credit, self._text, self._match.context.documents
        )
        source.answer(event, 0)
        return self._response(source, source.position())


def _may_match(pattern: str, topic: str) -> bool:
    """True when messages of the topic can be on paths that match."""
    return pattern[0] in "+#" or topic_of_path(pattern) == topic


def fault_of(event: TopicFollowed) -> Response | None:
    """The refusal of a position that the topic has not; None: it has it."""
    if event.status == "TOO_LARGE":
        return problem(400, INVALID, "the position is behind the end of the topic: begin with from=first or from=last")
    if event.status == "TOO_SMALL":
        detail = "messages behind this position were deleted by retention: begin with from=first, or go on with from=last"
        return problem(410, EXPIRED, detail)
    if event.status == "OTHER_EPOCH":
        return problem(410, EXPIRED, "the topic was deleted and made again: begin with from=first or from=last")
    return None
