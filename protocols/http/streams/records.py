"""Records of an upload that are stored together: their commands, and their results in the order of the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import orjson

from domain import limits
from domain.command import Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused, Sent
from domain.message import property as properties
from domain.message.message import Message
from protocols.http.argument import record_key
from protocols.http.handler import Match
from protocols.http.handlers.batch import item_of, message_of
from protocols.http.handlers.place import due_of, place
from protocols.http.problem import RefusalError, of_failure, problem
from protocols.http.request import Request
from protocols.http.response import Response

RECORD_BYTES_MAX: Final = limits.ENVELOPE_BYTES_MAX
"""One record."""


@final
class Record:
    """A record that is a message.

    once      its key, with the digest of the record; None: it has none
    """

    __slots__ = ("at", "due_ms", "message", "once")

    def __init__(self, at: int, message: Message, once: tuple[bytes, bytes] | None) -> None:
        self.at = at
        self.message = message
        self.due_ms = due_of(message)
        self.once = once


@final
class RecordBatch:
    """The records of one upload that are stored at the same time.

    Without keys they are one command, which is stored whole or refused whole. When it is refused, and when a record has a key,
    each is a command of its own, in the same order.

    results    of all records, in order; None: not known yet
    _each      True: each of these has a command of its own
    _left      commands without an answer
    """

    __slots__ = ("_each", "_left", "_match", "_records", "_request", "results")

    def __init__(self, match: Match, request: Request) -> None:
        self._match = match
        self._request = request
        self.results: list[dict[str, object] | None] = []
        self._records: list[Record] = []
        self._each = False
        self._left = 0

    def __len__(self) -> int:
        return len(self.results)

    @property
    def known(self) -> bool:
        """True when all results are known."""
        return not self._records

    def add(self, line: bytes) -> None:
        """Decode one more record; a bad one has its result."""
        try:
            record = self._decode(line)
        except RefusalError as refusal:
            self._match.context.refused("http", refusal.response.refusal)
            self.results.append(error_of(refusal.response.body))
            return
        self.results.append(None)
        self._records.append(record)

    def _decode(self, line: bytes) -> Record:
        if len(line) > RECORD_BYTES_MAX:
            raise RefusalError(too_large())
        item = item_of(line)
        once = record_key(item, self._match.path, line)
        message = message_of(self._match, item, self._request)
        if once is not None or properties.has(message.properties, properties.IDEMPOTENCY_KEY_START):
            # When messages with keys are refused together, some of them may be stored all the same.
            self._each = True
        return Record(len(self.results), message, once)

    def commands(self, ticket: object) -> Sequence[Send]:
        """The commands that store the messages; none when there are no messages."""
        records = self._records
        if not records:
            return ()
        if not self._each:
            self._left = 1
            return (Send(ticket, [record.message for record in records]),)
        self._left = len(records)
        base = ticket if isinstance(ticket, tuple) else (ticket,)
        return [Send((*base, at), [record.message], once=record.once) for at, record in enumerate(records)]

    def answer(self, event: Event, ticket: object) -> Sequence[Send]:
        """Sent or Refused. Returns the commands that follow, when the reason may be that of a single message."""
        if not self._left:
            return ()
        self._left -= 1
        records = self._records
        if self._each:
            asked = getattr(event, "ticket", None)
            at = asked[-1] if isinstance(asked, tuple) else 0
            records = records[at : at + 1]
        elif isinstance(event, Refused) and len(records) > 1 and _of_one(event.failure):
            # None of them was stored: which one the reason is about shows when each is sent by itself.
            self._each = True
            return self.commands(ticket)
        if isinstance(event, Sent):
            for record, placed in zip(records, event.placed, strict=True):
                self.results[record.at] = {"topic": self._match.topic, **place(placed, record.due_ms)}
        else:
            failure = event.failure if isinstance(event, Refused) else Failure(ErrorCode.INTERNAL)
            for record in records:
                self.results[record.at] = error_of(of_failure(failure).body)
        if not self._left:
            self._records = []
        return ()


def _of_one(failure: Failure) -> bool:
    """True for a reason that may be that of one message only. All have the same path, so a right to it is missing for all."""
    return failure.code not in (ErrorCode.FLUSH_TIMEOUT, ErrorCode.NOT_AUTHENTICATED) and not failure.denied


def error_of(problem_document: bytes) -> dict[str, object]:
    """The result of a record that is refused with the problem document."""
    document: dict[str, object] = orjson.loads(problem_document)
    return {"error": {name: value for name, value in document.items() if name not in ("type", "title")}}


def too_large() -> Response:
    """The refusal of a record above RECORD_BYTES_MAX."""
    detail = f"a record is above {RECORD_BYTES_MAX} bytes"
    return problem(413, ErrorCode.MESSAGE_TOO_LARGE.value, detail, limit=RECORD_BYTES_MAX)
