"""`GET /v1/topics/{topic}/queues/{queue}?offset=&max=`: read by offset, without a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, final

import orjson

from domain import limits
from domain.command import Pull
from domain.event import Event, Pulled
from domain.message.record import Record
from protocols.cloudevents.http import BATCH_JSON, PROTOBUFS
from protocols.http.argument import filter_of, number, parameters, topic
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.request import Request
from protocols.http.response import JSON, Response
from protocols.http.translate_out import documents, structured_batch

OFFSET_MAX: Final = (1 << 63) - 1


@final
class PullMessages(Handler):
    """`GET /v1/topics/{topic}/queues/{queue}`."""

    description: ClassVar[str] = (
        '200 with `{"messages", "next", "min", "max", "status"}`; `next` is the next offset to read, also after one out of '
        "range. Parameters: `offset` (0), `max` (1 to 32, 32), `wait_ms` (to 30 s, 0), `tag` or `filter`. With `Accept: "
        "application/cloudevents-batch+json`, or `+protobuf`, the CloudEvents are sent as a batch, `next` in "
        "`mq-next-offset`."
    )
    __slots__ = ("_batch",)
    repeatable = True

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._batch = b""

    def start(self, request: Request, ticket: object) -> Outcome:
        """Pull, without a group."""
        asked = parameters(self._match, "offset", "max", "wait_ms", "tag", "filter")
        self._batch = BATCH_JSON if request.accepts(BATCH_JSON) else PROTOBUFS if request.accepts(PROTOBUFS) else b""
        wait_ms = number("wait_ms", asked.get("wait_ms"), 0, limits.WAIT_MS_MAX, 0)
        self.long_poll = wait_ms > 0
        command = Pull(
            ticket,
            "",
            topic(self._match),
            number("queue", self._match.names["queue"], 0, limits.QUEUES_PER_TOPIC_MAX - 1, 0),
            number("offset", asked.get("offset"), 0, OFFSET_MAX, 0),
            number("max", asked.get("max"), 1, limits.RECEIVE_MESSAGES_MAX, limits.RECEIVE_MESSAGES_MAX),
            limits.PULL_BYTES_MAX,
            wait_ms,
            filter_of(self._match, asked),
        )
        return command, None

    def content_bytes(self, event: Event) -> int:
        """The records of a Pulled."""
        return sum(map(len, event.records)) * 4 // 3 if isinstance(event, Pulled) else 0

    def finish(self, event: Event) -> Response:
        """Pulled or Refused."""
        if not isinstance(event, Pulled):
            return super().finish(event)
        records = [Record(record) for record in event.records]
        if self._batch:
            batch, looked = structured_batch(records, self._batch)
            fields = [(b"content-type", self._batch), (b"mq-next-offset", b"%d" % _next(event, records, looked))]
            return Response(200, fields, batch)
        found = documents(records)
        out = {
            "messages": found,
            "next": _next(event, records, len(found)),
            "min": event.min_offset,
            "max": event.max_offset,
            "status": event.status,
        }
        return Response(200, [JSON], orjson.dumps(out))


def _next(event: Pulled, records: Sequence[Record], returned: int) -> int:
    """The offset of the next pull, when the response has the first `notified` of the `records`."""
    return event.next_offset if returned == len(records) else records[returned].queue_offset
