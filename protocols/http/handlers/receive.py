"""`POST /v1/groups/{group}/topics/{topic}:receive`: lease messages, with a long poll on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

import orjson

from domain import limits
from domain.command import Command, Extend, Receive
from domain.errors import ErrorCode
from domain.event import Event, Leased, Received
from protocols.http.argument import filter_of, flag, group, number, parameters, topic
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response
from protocols.http.translate_out import bare_leased, leased_documents

INVISIBLE_MS = 30_000
INVISIBLE_MS_MIN = 10
BARE = b"application/octet-stream"


@final
class ReceiveMessages(Handler):
    """`POST /v1/groups/{group}/topics/{topic}:receive`."""

    description: ClassVar[str] = (
        "200 with messages, 204 when none arrived in time. Parameters: `max` (1 to 32, 1), `wait_ms` (to 30 s, 0), "
        "`invisible_ms` (10 ms to 12 h, 30 s), `tag` (`A || B`) or `filter` (SQL92 over properties), `queue`, `from` "
        "(`first` or `last`: where a group without a position begins; first), `ordered` (true: one at a time from each "
        "queue). With `max=1` and `Accept: application/octet-stream` the response is the bare body and `mq-` fields."
    )
    __slots__ = ("_bare", "_left")
    repeatable = True

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._bare = False
        self._left: Sequence[Leased] = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """Receive."""
        asked = parameters(self._match, "max", "wait_ms", "invisible_ms", "tag", "filter", "queue", "from", "ordered")
        begin = asked.get("from", "first")
        if begin not in ("first", "last"):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "from is first or last", parameter="from")
        limit = number("max", asked.get("max"), 1, limits.RECEIVE_MESSAGES_MAX, 1)
        wait_ms = number("wait_ms", asked.get("wait_ms"), 0, limits.WAIT_MS_MAX, 0)
        self.long_poll = wait_ms > 0
        self._bare = limit == 1 and request.accepts(BARE)
        command = Receive(
            ticket,
            group(self._match),
            topic(self._match),
            limit,
            number("invisible_ms", asked.get("invisible_ms"), INVISIBLE_MS_MIN, limits.INVISIBLE_MS_MAX, INVISIBLE_MS),
            wait_ms,
            number("queue", asked.get("queue"), 0, limits.QUEUES_PER_TOPIC_MAX - 1, -1),
            filter_of(self._match, asked),
            from_first=begin == "first",
            ordered=flag("ordered", asked.get("ordered")),
        )
        return command, None

    def content_bytes(self, event: Event) -> int:
        """The records of a Received."""
        if not isinstance(event, Received):
            return 0
        size = sum([len(leased.record) for leased in event.messages])
        return size if self._bare else size * 4 // 3

    def finish(self, event: Event) -> Response:
        """Received or Refused."""
        if not isinstance(event, Received):
            return super().finish(event)
        if not event.messages:
            return Response(204, [])
        if self._bare:
            return bare_leased(event.messages[0])
        found = leased_documents(event.messages)
        self._left = event.messages[len(found) :]
        return Response(200, [JSON], orjson.dumps({"messages": found}))

    def left_out(self, ticket: object) -> Command | None:
        """Release the leases of messages that were too large for the response."""
        return self._release(self._left, ticket)

    def undo(self, event: Event, ticket: object) -> Command | None:
        """Release leases for a client that has hung up or has too many unread answers."""
        return self._release(event.messages, ticket) if isinstance(event, Received) else None

    def _release(self, messages: Sequence[Leased], ticket: object) -> Command | None:
        if not messages:
            return None
        receipts = [leased.receipt for leased in messages]
        return Extend(ticket, group(self._match), topic(self._match), receipts, 0, untold=True)
