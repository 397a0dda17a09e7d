"""`POST /v1/topics/{path…}/messages`: the body is the message. `…/messages:batch`: a JSON array or NDJSON of messages."""

from __future__ import annotations

import binascii
from typing import Final, final

import orjson

from domain import limits
from domain import property as properties
from domain.command import Send
from domain.errors import ErrorCode
from domain.event import Event, Sent
from domain.message import RETAIN_NONE, RETAIN_SET, Message
from protocols.cloudevents.instant import instant_ms
from protocols.http.argument import flag, idempotency, number, parameters
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.path import decode
from protocols.http.place import due_of, place
from protocols.http.problem import RefusalError, refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response, field_value
from protocols.http.translate_in import Draft

_KNOWN_FIELDS: Final = frozenset(
    (b"mq-key", b"mq-tag", b"mq-message-group", b"mq-properties", b"mq-deliver-at", b"mq-expires-at", b"mq-retain", b"mq-queue")
)
_ITEM_MEMBERS: Final = frozenset(
    (
        "body",
        "text",
        "key",
        "tag",
        "messageGroup",
        "properties",
        "deliverAt",
        "expiresAt",
        "delay_ms",
        "ttl_ms",
        "contentType",
        "retain",
    )
)
_NDJSON: Final = (b"application/x-ndjson", b"application/ndjson", b"application/jsonl")


@final
class PostMessage(Handler):
    """One message, whose body is the content: 201 with id, topic, queue and offset when it is stored."""

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
                    retain = RETAIN_SET if flag("mq-retain", decode(raw)) else RETAIN_NONE
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


@final
class PostBatch(Handler):
    """Several messages of one path, stored all or none: 200 with one result for each message.

    An element: `body` (base64) or `text`, and `key tag messageGroup properties deliverAt expiresAt delay_ms ttl_ms contentType
    retain`.
    """

    __slots__ = ("_due_ms",)
    body_max = limits.ENVELOPE_BYTES_MAX

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._due_ms: list[int] = []

    def start(self, request: Request, ticket: object) -> Outcome:
        """Decode a JSON array (application/json) or one object a line (application/x-ndjson) -> one Send."""
        parameters(self._match)
        kind = request.field(b"content-type").partition(b";")[0].strip().lower()
        try:
            if kind in _NDJSON:
                lines = [line for line in request.body.split(b"\n") if line.strip()]
                items: object = [orjson.loads(line) for line in lines[: limits.BATCH_MESSAGES_MAX + 1]]
            elif kind == b"application/json":
                items = orjson.loads(request.body)
            else:
                raise refuse(ErrorCode.MEDIA_TYPE, "a batch is application/json or application/x-ndjson")
        except orjson.JSONDecodeError:
            raise refuse(ErrorCode.MESSAGE_ILLEGAL, "the content is not valid JSON") from None
        if not isinstance(items, list) or not 0 < len(items) <= limits.BATCH_MESSAGES_MAX:
            raise refuse(ErrorCode.MESSAGE_ILLEGAL, f"a batch is an array of 1 to {limits.BATCH_MESSAGES_MAX} messages")
        messages: list[Message] = []
        for index, item in enumerate(items):
            try:
                messages.append(self._message(item, request))
            except RefusalError as refusal:
                document = orjson.loads(refusal.response.body)
                document["index"] = index
                refusal.response.body = orjson.dumps(document)
                raise
        self._due_ms = [due_of(message) for message in messages]
        return Send(ticket, messages, once=idempotency(request)), None

    def _message(self, item: object, request: Request) -> Message:
        if not isinstance(item, dict):
            raise refuse(ErrorCode.MESSAGE_ILLEGAL, "a message is a JSON object")
        for name in item:
            if name not in _ITEM_MEMBERS:
                raise refuse(ErrorCode.MESSAGE_ILLEGAL, f"member {name} is unknown", member=name)
        draft = Draft(self._match.context.wall_ms, self._match.path)
        texts = (
            ("key", draft.key),
            ("tag", draft.tag),
            ("messageGroup", draft.message_group),
            ("contentType", lambda value: draft.put(properties.HG_CONTENT_TYPE, value)),
            ("deliverAt", lambda value: draft.deliver_at(instant_ms(value.encode()))),
            ("expiresAt", lambda value: draft.expires_at(instant_ms(value.encode()))),
        )
        for name, put in texts:
            if name in item:
                put(_text(item, name))
        for name, spend in (("delay_ms", draft.delay), ("ttl_ms", draft.ttl)):
            if name in item:
                spend(number(name, str(item[name]), 0, limits.DELAY_MS_MAX, 0))
        if "properties" in item:
            draft.user_all(item["properties"])
        draft.trace(request.trace())
        retain = RETAIN_SET if item.get("retain", False) is True else RETAIN_NONE
        body = _body(item)
        return Message(self._match.topic, body, draft.stored(), born_host=request.peer.born_host, retain=retain)

    def finish(self, event: Event) -> Response:
        """Sent or Refused."""
        if not isinstance(event, Sent):
            return super().finish(event)
        results = [place(placed, due_ms) for placed, due_ms in zip(event.placed, self._due_ms, strict=True)]
        return Response(200, [JSON], orjson.dumps({"topic": self._match.topic, "results": results}))


def _text(item: dict[str, object], name: str) -> str:
    value = item[name]
    if not isinstance(value, str):
        raise refuse(ErrorCode.MESSAGE_ILLEGAL, f"member {name} must be a string", member=name)
    return value


def _body(item: dict[str, object]) -> bytes:
    if ("body" in item) == ("text" in item):
        raise refuse(ErrorCode.MESSAGE_ILLEGAL, "a message has either body (base64) or text", member="body")
    if "text" in item:
        body = _text(item, "text").encode()
    else:
        try:
            body = binascii.a2b_base64(_text(item, "body"), strict_mode=True)
        except (binascii.Error, ValueError):
            raise refuse(ErrorCode.MESSAGE_ILLEGAL, "member body is not valid base64", member="body") from None
    if len(body) > limits.BODY_BYTES_MAX:
        raise refuse(ErrorCode.MESSAGE_TOO_LARGE, f"a body has at most {limits.BODY_BYTES_MAX} bytes")
    return body
