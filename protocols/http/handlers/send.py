"""`POST /v1/topics/{path…}/messages`: the body is the message."""

from __future__ import annotations

from typing import ClassVar, Final

import orjson

from domain import limits
from domain.command import Send
from domain.errors import ErrorCode
from domain.event import Event, Sent
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, Message
from protocols.cloudevents.instant import instant_ms
from protocols.http.argument import flag, idempotency, number, parameters
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.handlers.place import due_of, place
from protocols.http.path import decode
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response, field_value
from protocols.http.translate_in import Draft

_KNOWN_FIELDS: Final = frozenset(
    (b"mq-key", b"mq-tag", b"mq-message-group", b"mq-properties", b"mq-deliver-at", b"mq-expires-at", b"mq-retain", b"mq-queue")
)


class PostMessage(Handler):
    """`POST /v1/topics/{path…}/messages`."""

    description: ClassVar[str] = (
        "One message, whose body is the content: 201 with id, topic, queue and offset when it is stored."
    )
    __slots__ = ("_due_ms",)
    body_max = limits.BODY_BYTES_MAX

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._due_ms = 0

    def start(self, request: Request, ticket: object) -> Outcome:
        """Fields and parameters become properties -> one Send."""
        match = self._match
        draft = Draft(match.context.wall_ms, match.path)
        queue_id, retain = -1, RETAIN_NONE
        for name, raw in request.fields:
            if name[:3] == b"mq-":
                if name == b"mq-queue":
                    queue_id = number("mq-queue", decode(raw), 0, limits.QUEUES_PER_TOPIC_MAX - 1, -1)
                elif name == b"mq-retain":
                    retain = draft.retain(flag("mq-retain", decode(raw)))
                else:
                    _field(draft, name, raw)
        draft.trace(request.trace())
        content_type = request.field(b"content-type")
        if content_type:
            draft.put(properties.HG_CONTENT_TYPE, content_type.decode("latin-1"))
        if match.query:
            asked = parameters(match, "delay_ms", "ttl_ms")
            draft.delay(number("delay_ms", asked.get("delay_ms"), 0, limits.DELAY_MS_MAX, 0))
            draft.ttl(number("ttl_ms", asked.get("ttl_ms"), 0, limits.DELAY_MS_MAX, 0))
        message = Message(
            match.topic, request.body, draft.stored(), queue_id=queue_id, born_host=request.peer.born_host, retain=retain
        )
        self._due_ms = due_of(message)
        return Send(ticket, [message], once=idempotency(request)), None

    def finish(self, event: Event) -> Response:
        """Sent or Refused."""
        if not isinstance(event, Sent):
            return super().finish(event)
        placed = event.placed[0]
        topic = self._match.topic
        fields = [JSON]
        if not self._due_ms:
            where = f"/v1/topics/{topic}/queues/{placed.queue_id}?offset={placed.queue_offset}&max=1".encode()
            fields.append((b"location", field_value(where)))
        return Response(201, fields, orjson.dumps({"topic": topic, **place(placed, self._due_ms)}))


def _field(draft: Draft, name: bytes, raw: bytes) -> None:
    """One `mq-` field; its value is UTF-8, percent-decoded once."""
    value = decode(raw)
    if name == b"mq-key":
        draft.key(value)
    elif name == b"mq-tag":
        draft.tag(value)
    elif name == b"mq-message-group":
        draft.message_group(value)
    elif name == b"mq-deliver-at":
        draft.deliver_at(instant_ms(value.encode()))
    elif name == b"mq-expires-at":
        draft.expires_at(instant_ms(value.encode()))
    elif name == b"mq-properties":
        try:
            found = orjson.loads(value)
        except orjson.JSONDecodeError:
            found = None
        draft.user_all(found)
    elif name[:8] == b"mq-prop-":
        draft.user(name[8:].decode("latin-1"), value)
    else:
        known = ", ".join(sorted(field.decode() for field in _KNOWN_FIELDS))
        shown = name.decode("latin-1")
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"field {shown} is unknown; there are mq-prop-*, {known}", field=shown)
