"""`/v1/latest/{path…}`: the latest value of one exact path."""

from __future__ import annotations

from typing import ClassVar, final

from domain.command import DeleteLatest, QueryLatest
from domain.event import Event, LatestValue
from domain.message.record import Record
from protocols.cloudevents.http import AVRO, PROTOBUF, STRUCTURED_JSON
from protocols.http.argument import parameters
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.problem import problem
from protocols.http.request import Request
from protocols.http.response import Response
from protocols.http.translate_out import bare, structured


@final
class GetLatest(Handler):
    """`GET /v1/latest/{path…}`."""

    description: ClassVar[str] = (
        "GET: 200 with the value as a bare body and `mq-` fields, 404 when the path has none. With `Accept: "
        "application/cloudevents+json` a value that is a CloudEvent is sent in structured mode, as with `+protobuf` and "
        "`+avro`."
    )
    repeatable = True

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._structured = b""

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryLatest."""
        parameters(self._match)
        for media_type in (STRUCTURED_JSON, PROTOBUF, AVRO):
            if not self._structured and request.accepts(media_type):
                self._structured = media_type
        return QueryLatest(ticket, self._match.path or self._match.topic), None

    def finish(self, event: Event) -> Response:
        """LatestValue or Refused."""
        if not isinstance(event, LatestValue):
            return super().finish(event)
        if event.record is None:
            return problem(404, "value-not-found", "this path has no latest value")
        record = Record(event.record)
        content = structured(record, self._structured) if self._structured else None
        return bare(record, []) if content is None else Response(200, [(b"content-type", self._structured)], content)


@final
class RemoveLatest(Handler):
    """`DELETE /v1/latest/{path…}`."""

    description: ClassVar[str] = "DELETE: 204; removes the latest value of the path. No message is stored."

    def start(self, request: Request, ticket: object) -> Outcome:
        """DeleteLatest."""
        parameters(self._match)
        return DeleteLatest(ticket, self._match.path or self._match.topic), None
