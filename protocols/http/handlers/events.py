"""CloudEvents over HTTP: `POST /ce/{path…}` and `POST /`, in binary, structured and batch mode."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import ClassVar, Final, final

import orjson

from domain import limits
from domain.command import Command, Send
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused, Sent
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, RETAIN_SET, Message
from protocols.cloudevents import formats
from protocols.cloudevents import http as binding
from protocols.cloudevents import json as envelope
from protocols.cloudevents import message as mapping
from protocols.cloudevents.event import CloudEvent, CloudEventError
from protocols.cloudevents.json import AT_ONCE_BYTES, MEMBERS_MAX
from protocols.host_shares import HostShare
from protocols.http.access import identify
from protocols.http.argument import flag, idempotency
from protocols.http.handler import Handler, Match, Outcome, Steps
from protocols.http.handlers.place import due_of, place
from protocols.http.handlers.webhook import check_delivery, is_delivery
from protocols.http.path import decode, query
from protocols.http.problem import RefusalError, event_error, of_event_error, problem
from protocols.http.request import Request
from protocols.http.response import JSON, Response
from protocols.http.status import STATUS

_CONTENT_BYTES_MAX: Final = (
    limits.BODY_BYTES_MAX, limits.ENVELOPE_BYTES_MAX, limits.CLOUDEVENTS_BATCH_BYTES_MAX,
    limits.ENVELOPE_BYTES_MAX, limits.CLOUDEVENTS_BATCH_BYTES_MAX, limits.ENVELOPE_BYTES_MAX,
)  # fmt: skip
"""Most bytes of content, by content mode: BINARY, STRUCTURED, BATCH, and those of the binary formats."""
PART_EVENTS: Final = 64
"""Events of a batch that are decoded and stored in one turn of the loop."""
PART_BYTES: Final = 1024 * 1024
"""Bytes of events after which a part ends."""
SLICE_MEMBERS: Final = 512
"""Members of events that are decoded in one slice, by their colons: some 2 ms when nothing is compiled."""

_ASYNC: Final = (b"preference-applied", b"respond-async")


@final
class _Part:
    """The events of one Send of a batch.

    indexes    place of each event in the batch
    due_ms     delivery time of each, 0 for none
    messages   their messages, until they are sent
    """

    __slots__ = ("due_ms", "indexes", "messages")

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.due_ms: list[int] = []
        self.messages: list[Message] = []

    def add(self, index: int, message: Message) -> None:
        """Add one event."""
        self.indexes.append(index)
        self.due_ms.append(due_of(message))
        self.messages.append(message)


class PostEvents(Handler):
    """`POST /ce/{path…}`.

    A batch is decoded in slices, and stored in parts of PART_EVENTS."""

    description: ClassVar[str] = (
        "Store events: 204 when they are stored with the durability of the topic. `Prefer: return=representation` is "
        "answered 200 with the place of the event, `Prefer: respond-async` 202 as soon as they are accepted. A batch is "
        "answered 200 with one result for each event, 207 when some were refused, an error when all were. Each event is "
        "stored on its own."
    )
    __slots__ = (
        "_due_ms", "_early", "_failure", "_mode", "_once", "_parts", "_private", "_queues", "_results", "_retain",
        "_unanswered", "_with_place",
    )  # fmt: skip

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._results: list[dict[str, object]] = []
        self._parts: list[_Part] = []
        self._unanswered = 1  # parts without an answer, and one more until all are sent
        self._failure: Failure | None = None
        self._retain = RETAIN_NONE
        self._with_place = False
        self._early = False
        self._due_ms = 0
        self._once: tuple[bytes, bytes] | None = None
        self._mode = binding.BINARY
        self._private = False
        self._queues = 0

    def content_limit(self, request: Request) -> int:
        """Most bytes of content, by content mode. Raises RefusalError with 415 for an unknown event format."""
        try:
            self._mode = binding.mode(request.field(b"content-type"))
        except CloudEventError as error:
            raise RefusalError(of_event_error(error)) from None
        return _CONTENT_BYTES_MAX[self._mode]

    def admit(self, request: Request) -> None:
        """As every request; a sender of WebHooks may have its token in the query (HTTP WebHook, 3.3)."""
        context = self._match.context
        token = query(self._match.query).get("access_token", "") if self._match.query else ""
        check_delivery(request, token, context)
        self._queues = -1 if is_delivery(request, token) else 0  # a target that was deleted is gone (HTTP WebHook, 2.2)
        self._private = token != ""
        authority = context.authority
        if authority is not None:
            self.principal = identify(authority, request, token)

    def in_slices(self, request: Request, ticket: object, body_max: int, share: HostShare) -> Steps | None:
        """A batch, or a large event in structured mode, takes longer than one turn."""
        large = self._mode == binding.STRUCTURED and len(request.body) > AT_ONCE_BYTES
        self.sliced = large or formats.is_batch(self._mode)
        return super().in_slices(request, ticket, body_max, share)

    def start(self, request: Request, ticket: object) -> Outcome:
        """Decode the event by content mode -> one Send."""
        self._preferences(request)
        try:
            older = self._match.context.cloudevents_03
            if self._mode == binding.BINARY:
                event = binding.decode(request.fields, request.field(b"content-type"), request.body, older)
            else:
                event = formats.decode(self._mode, request.body, older)
            return self._one(event, request, ticket), None
        except CloudEventError as error:
            return None, of_event_error(error)

    def _one(self, event: CloudEvent, request: Request, ticket: object) -> Send:
        message = self._message(event, request)
        if self._with_place:
            self._due_ms = due_of(message)
        command = Send(ticket, [message], queues=self._queues)
        command.early, command.once = self._early, self._once
        return command

    def steps(self, request: Request, ticket: object) -> Steps:
        """Decode in slices -> a Send for each part of a batch, or for the event."""
        if formats.is_batch(self._mode):
            return (yield from self._batch_steps(request, ticket))
        if self._mode == binding.STRUCTURED:
            self._preferences(request)
            try:
                event = yield from envelope.decode_in_slices(request.body, self._match.context.cloudevents_03)
                command: Command | None = self._one(event, request, ticket)
            except CloudEventError as error:
                return of_event_error(error)
            yield command
            return None
        command, response = self.start(request, ticket)
        if command is not None:
            yield command
        return response

    def _batch_steps(self, request: Request, ticket: object) -> Steps:
        self._preferences(request)
        found: list[bytes] = []
        try:
            for _ in formats.elements(self._mode, request.body, limits.BATCH_MESSAGES_MAX, found):
                yield None
        except CloudEventError as error:
            return of_event_error(error)
        parts: dict[str, _Part] = {}
        count, size, colons = 0, 0, 0
        older = self._match.context.cloudevents_03
        for index, element in enumerate(found):
            size += len(element)
            colons += 1 + min(MEMBERS_MAX, element.count(b":"))
            if len(element) <= AT_ONCE_BYTES or self._mode == binding.BATCH_PROTOBUF:
                decoded = formats.decode_element(self._mode, element, older)
            else:
                decoded = yield from _large(element, older)
            message = self._element(index, decoded, request)
            if message is not None:
                count += 1
                parts.setdefault(message.topic, _Part()).add(index, message)
            if count >= PART_EVENTS or size >= PART_BYTES:
                if not parts:
                    yield None
                for command in self._sends(parts, ticket):
                    yield command
                count, size, colons = 0, 0, 0
            elif colons >= SLICE_MEMBERS:
                colons = 0
                yield None
        for command in self._sends(parts, ticket):
            yield command
        return self._answered()

    def _preferences(self, request: Request) -> None:
        if request.has(b"mq-retain"):
            self._retain = RETAIN_SET if flag("mq-retain", decode(request.field(b"mq-retain"))) else RETAIN_NONE
        if request.has(b"idempotency-key"):
            self._once = idempotency(request)
        if request.has(b"prefer"):
            self._early = request.prefers(b"respond-async")
            self._with_place = request.prefers(b"return=representation")

    def _message(self, event: CloudEvent, request: Request) -> Message:
        topic, path = self._place(event)
        now_ms = self._match.context.wall_ms() if b"deliverytime" in event.attributes else 0
        message = mapping.encode(event, topic, path, request.peer.born_host, self._retain, now_ms)
        for name, value in request.trace():
            if not properties.find(message.properties, properties.start_of(name)):
                message.properties += properties.entry(name, value)
        return message

    def _place(self, event: CloudEvent) -> tuple[str, str]:
        """(topic, path) that an event is stored under. Raises CloudEventError: no topic is chosen for the event."""
        return self._match.topic, self._match.path

    def _element(self, index: int, decoded: CloudEvent | CloudEventError, request: Request) -> Message | None:
        """The message of one element of a batch; None, with a result that has the reason, when it is refused."""
        result: dict[str, object] = {"index": index}
        self._results.append(result)
        try:
            if isinstance(decoded, CloudEventError):
                raise decoded
            return self._message(decoded, request)
        except CloudEventError as error:
            status, code = event_error(error)
            result.update(status=status, code=code.value, detail=error.text)
            if error.attribute:
                result["attribute"] = error.attribute
            return None

    def _sends(self, parts: dict[str, _Part], ticket: object) -> Iterator[Command]:
        """A Send for each topic, so that each answers for its own events alone. Empties `parts`."""
        for part in parts.values():
            yield self._send(part, ticket)
        parts.clear()

    def _send(self, part: _Part, ticket: object) -> Command:
        number = len(self._parts)
        self._parts.append(part)
        self._unanswered += 1
        once = None if self._once is None else (b"%s %d" % (self._once[0], number), self._once[1])
        ticket = (*ticket, number) if isinstance(ticket, tuple) else (ticket, number)
        messages, part.messages = part.messages, []
        return Send(ticket, messages, queues=self._queues, early=self._early, once=once)

    def collect(self, event: Event) -> Response | None:
        """Sent or Refused, of one part of a batch."""
        ticket = event.ticket
        assert isinstance(ticket, tuple)
        part = self._parts[ticket[-1]]
        for at, index in enumerate(part.indexes):
            result = self._results[index]
            if isinstance(event, Sent):
                result["status"] = 202 if self._early else 200
                if event.placed:
                    result.update(place(event.placed[at], part.due_ms[at]))
            else:
                failure = event.failure if isinstance(event, Refused) else Failure(ErrorCode.INTERNAL)
                self._failure = failure
                result.update(status=STATUS[failure.code], code=failure.code.value, detail=failure.text or failure.code.value)
        return self._answered()

    def _answered(self) -> Response | None:
        """One part is answered, or all are sent: the response when nothing is missing."""
        self._unanswered -= 1
        return self._marked(self._batch_response()) if self._unanswered == 0 else None

    def finish(self, event: Event) -> Response:
        """Sent or Refused, of one event."""
        return self._marked(self._finished(event))

    def _marked(self, response: Response) -> Response:
        if self._private:  # the token is in the target, by which an answer is cached (RFC 6750, 2.3)
            response.fields.append((b"cache-control", b"private"))
        return response

    def _finished(self, event: Event) -> Response:
        if not isinstance(event, Sent):
            return super().finish(event)
        if self._early:
            return Response(202, [_ASYNC])
        placed = event.placed[0]
        if self._with_place:
            body = orjson.dumps(place(placed, self._due_ms))
            return Response(200, [JSON, (b"preference-applied", b"return=representation")], body)
        return Response(204, [(b"mq-message-id", placed.message_id.encode())])

    def _batch_response(self) -> Response:
        results = self._results
        stored = sum(1 for result in results if result["status"] in (200, 202))
        if results and not stored:
            detail = f"none of the {len(results)} events could be stored"
            if self._failure is not None:
                return problem(STATUS[self._failure.code], self._failure.code.value, detail, results=results)
            return problem(400, "message-illegal", detail, results=results)
        status = 207 if stored < len(results) else 202 if self._early else 200
        fields = [JSON, _ASYNC] if self._early else [JSON]
        return Response(status, fields, orjson.dumps({"results": results}))


@final
class PostRoutedEvents(PostEvents):
    """`POST /`; `EventRoutes` chooses the topic of an event."""

    description: ClassVar[str] = (
        "Store events in the topics that rules of the setting `event_routes` choose by source and type; 404 when none fits. "
        "Otherwise as under `/ce`."
    )
    __slots__ = ()

    def _place(self, event: CloudEvent) -> tuple[str, str]:
        """Topic and path of the first rule that fits."""
        return self._match.context.event_routes.find(event)


def _large(element: bytes, older: bool) -> Generator[None, None, CloudEvent | CloudEventError]:
    """A large element of a batch in slices -> the event, or why it is none."""
    if len(element) > limits.ENVELOPE_BYTES_MAX:
        return CloudEventError("", f"an event has at most {limits.ENVELOPE_BYTES_MAX} bytes", too_large=True)
    try:
        return (yield from envelope.decode_in_slices(element, older))
    except CloudEventError as error:
        return error
