"""CloudEvents over HTTP: `POST /ce/{path…}` in binary, structured and batch mode, and the WebHook handshake."""

from __future__ import annotations

from typing import Final, final

import orjson

from domain import limits
from domain import property as properties
from domain.command import Command, Send
from domain.event import Event, Sent
from domain.message import RETAIN_NONE, RETAIN_SET, Message, Placed
from protocols.cloudevents import http as binding
from protocols.cloudevents import json as envelope
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent, CloudEventError
from protocols.http.argument import flag
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.path import decode
from protocols.http.place import due_of, place
from protocols.http.problem import RefusalError, event_error, of_event_error, problem
from protocols.http.request import Request
from protocols.http.response import JSON, Response

_CONTENT_BYTES_MAX: Final = (limits.BODY_BYTES_MAX, limits.ENVELOPE_BYTES_MAX, limits.CLOUDEVENTS_BATCH_BYTES_MAX)
"""Most bytes of content, by content mode: BINARY, STRUCTURED, BATCH."""


@final
class PostEvents(Handler):
    """Store events: 204 when they are stored with the durability of the topic.

    `Prefer: return=representation` is answered 200 with the place of the event, `Prefer: respond-async` 202 at once. A batch is
    answered 200 with one result for each event, 207 when some were refused, 400 when all were. Each event is stored on its own.
    """

    __slots__ = ("_due_ms", "_mode", "_results", "_retain", "_with_place")

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._results: list[dict[str, object] | None] | None = None
        self._retain = RETAIN_NONE
        self._with_place = False
        self._due_ms: list[int] = []
        self._mode = binding.BINARY

    def content_limit(self, request: Request) -> int:
        """Most bytes of content, by content mode. Raises RefusalError with 415 for an unknown event format."""
        try:
            self._mode = binding.mode(request.field(b"content-type"))
        except CloudEventError as error:
            raise RefusalError(of_event_error(error)) from None
        return _CONTENT_BYTES_MAX[self._mode]

    def start(self, request: Request, ticket: object) -> Outcome:
        """Decode the events by content mode -> one Send."""
        try:
            if request.has(b"mq-retain"):
                self._retain = RETAIN_SET if flag("mq-retain", decode(request.field(b"mq-retain"))) else RETAIN_NONE
            if self._mode == binding.BINARY:
                event = binding.decode(request.fields, request.field(b"content-type"), request.body)
                messages = [self._message(event, request)]
            elif self._mode == binding.STRUCTURED:
                messages = [self._message(envelope.decode(request.body), request)]
            else:
                messages = self._batch(envelope.decode_batch(request.body, limits.BATCH_MESSAGES_MAX), request)
        except CloudEventError as error:
            return None, of_event_error(error)
        if not messages:
            return None, self._batch_response([])
        wait = True
        if request.has(b"prefer"):
            wait = not request.prefers(b"respond-async")
            self._with_place = request.prefers(b"return=representation")
        if self._with_place or self._results is not None:
            self._due_ms = [due_of(message) for message in messages]
        command: Command = Send(ticket, messages, wait)
        if wait:
            return command, None
        return command, Response(202, [(b"preference-applied", b"respond-async")])

    def _message(self, event: CloudEvent, request: Request) -> Message:
        message = mapping.encode(event, self._match.topic, self._match.path, request.peer.born_host, self._retain)
        for name, value in request.trace():
            if not properties.find(message.properties, properties.start_of(name)):
                message.properties += properties.entry(name, value)
        return message

    def _batch(self, batch: list[CloudEvent | CloudEventError], request: Request) -> list[Message]:
        results: list[dict[str, object] | None] = []
        messages: list[Message] = []
        for index, event in enumerate(batch):
            if isinstance(event, CloudEvent):
                try:
                    messages.append(self._message(event, request))
                    results.append(None)
                    continue
                except CloudEventError as error:
                    refused = error
            else:
                refused = event
            status, code = event_error(refused)
            result: dict[str, object] = {"index": index, "status": status, "code": code.value, "detail": refused.text}
            if refused.attribute:
                result["attribute"] = refused.attribute
            results.append(result)
        self._results = results
        return messages

    def finish(self, event: Event) -> Response:
        """Sent or Refused."""
        if not isinstance(event, Sent):
            return super().finish(event)
        if self._results is not None:
            return self._batch_response(event.placed)
        placed = event.placed[0]
        if self._with_place:
            body = orjson.dumps(place(placed, self._due_ms[0]))
            return Response(200, [JSON, (b"preference-applied", b"return=representation")], body)
        return Response(204, [(b"mq-message-id", placed.message_id.encode())])

    def _batch_response(self, placed: list[Placed]) -> Response:
        results: list[dict[str, object]] = []
        stored = iter(zip(placed, self._due_ms, strict=True))
        for index, refused in enumerate(self._results or ()):
            results.append(refused if refused is not None else {"index": index, "status": 200, **place(*next(stored))})
        failures = len(results) - len(placed)
        if results and not placed:
            detail = f"none of the {failures} events could be stored"
            return problem(400, "message-illegal", detail, results=results)
        return Response(207 if failures else 200, [JSON], orjson.dumps({"results": results}))


@final
class WebhookHandshake(Handler):
    """OPTIONS: the handshake of WebHook senders (CloudEvents HTTP WebHook 1.0.2, section 4), and Allow."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """204 with Allow; with the WebHook fields when `webhook_origins` has the origin."""
        fields = [(b"allow", self._match.allow)]
        asked = {name: value for name, value in request.fields if name[:8] == b"webhook-"}
        origin = asked.get(b"webhook-request-origin", b"")
        context = self._match.context
        allowed = context.webhook_origins
        if origin and ("*" in allowed or origin.decode("latin-1") in allowed):
            fields.append((b"webhook-allowed-origin", origin))
            if b"webhook-request-rate" in asked:
                rate = b"%d" % context.webhook_rate if context.webhook_rate else b"*"
                fields.append((b"webhook-allowed-rate", rate))
        return None, Response(204, fields)
