"""`POST /v1/topics/{path…}/messages:batch`: a JSON array or NDJSON of messages."""

from __future__ import annotations

import binascii
import re
from typing import Any, ClassVar, Final, final

import msgspec
import orjson

from domain import limits
from domain.command import Send
from domain.errors import ErrorCode
from domain.event import Event, Sent
from domain.message import property as properties
from domain.message.message import Message
from protocols.cloudevents import json as envelope
from protocols.cloudevents.event import CloudEventError
from protocols.cloudevents.instant import instant_ms
from protocols.host_shares import HostShare
from protocols.http.argument import KEY_MEMBER, idempotency, number, parameters
from protocols.http.handler import Handler, Match, Outcome, Steps
from protocols.http.handlers.place import due_of, place
from protocols.http.problem import RefusalError, refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response
from protocols.http.translate_in import Draft

MESSAGES_MAX: Final = 512
"""Messages of a batch: they are stored all or none, so the store takes them in one turn of the loop."""
AT_ONCE_BYTES: Final = 64 * 1024
"""Content up to this size is decoded in one turn; a larger one in slices."""
SLICE_MEMBERS: Final = 512
"""Members of messages that are decoded in one slice, by their colons: some 2 ms when nothing is compiled."""
SLICE_BYTES: Final = 1024 * 1024
"""Bytes of messages after which a slice ends."""
PROPERTIES_JSON_BYTES_MAX: Final = 6 * limits.PROPERTIES_BYTES_MAX
"""Most bytes of JSON that the properties of a message can have: an escape is six times its character."""

_MEMBERS: Final = (
    "body", "text", "key", "tag", "messageGroup", "properties", "deliverAt", "expiresAt", "delay_ms", "ttl_ms", "contentType",
    "retain",
)  # fmt: skip
_KNOWN: Final = frozenset(_MEMBERS)
_OF_RECORDS: Final = (*_MEMBERS, KEY_MEMBER)
"""Members of a record of an upload: a batch is stored whole, and has one key for all its messages."""
_NDJSON: Final = (b"application/x-ndjson", b"application/ndjson", b"application/jsonl")
_BLANK: Final = re.compile(rb"[ \t\r\n]*+")
_RAW: Final[Any] = msgspec.json.Decoder(
    msgspec.defstruct("RawMessage", [(name, msgspec.Raw, msgspec.Raw(b"")) for name in _OF_RECORDS], forbid_unknown_fields=True)
)
"""Finds the members of a large message without building what they hold: a few bytes of JSON become an object of 56."""
_TEXTS: Final[Any] = msgspec.json.Decoder(dict[str, str])


@final
class PostBatch(Handler):
    """`POST /v1/topics/{path…}/messages:batch`."""

    description: ClassVar[str] = (
        "Several messages of one path, stored all or none: 200 with one result for each message. An element: `body` "
        "(base64) or `text`, and `key tag messageGroup properties deliverAt expiresAt delay_ms ttl_ms contentType retain`."
    )
    __slots__ = ("_due_ms",)
    body_max = limits.ENVELOPE_BYTES_MAX

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._due_ms: list[int] = []

    def in_slices(self, request: Request, ticket: object, body_max: int, share: HostShare) -> Steps | None:
        """A large batch takes longer than one turn."""
        self.sliced = len(request.body) > AT_ONCE_BYTES
        return super().in_slices(request, ticket, body_max, share)

    def start(self, request: Request, ticket: object) -> Outcome:
        """Decode a JSON array (application/json) or one object a line (application/x-ndjson) -> one Send."""
        try:
            if self._is_ndjson(request):
                lines = [line for line in request.body.split(b"\n") if line.strip()]
                items: object = [orjson.loads(line) for line in lines[: MESSAGES_MAX + 1]]
            else:
                items = orjson.loads(request.body)
        except orjson.JSONDecodeError:
            raise _not_json() from None
        if not isinstance(items, list) or not 0 < len(items) <= MESSAGES_MAX:
            raise _wrong_size()
        messages: list[Message] = []
        for item in items:
            self._append(messages, item, request)
        return Send(ticket, messages, once=idempotency(request)), None

    def steps(self, request: Request, ticket: object) -> Steps:
        """`start` in slices."""
        found: list[bytes] = []
        if self._is_ndjson(request):
            _lines(request.body, found)
        else:
            try:
                for _ in envelope.elements(request.body, MESSAGES_MAX, found):
                    yield None
            except CloudEventError as error:
                raise (_wrong_size() if error.too_large else _not_json()) from None
        if not 0 < len(found) <= MESSAGES_MAX:
            raise _wrong_size()
        yield None
        messages: list[Message] = []
        colons = size = 0
        for element in found:
            self._append(messages, item_of(element), request)
            colons += 2 + min(SLICE_MEMBERS, element.count(b":"))
            size += len(element)
            if colons >= SLICE_MEMBERS or size >= SLICE_BYTES:
                colons = size = 0
                yield None
        yield Send(ticket, messages, once=idempotency(request))
        return None

    def _is_ndjson(self, request: Request) -> bool:
        parameters(self._match)
        kind = request.field(b"content-type").partition(b";")[0].strip().lower()
        if kind not in _NDJSON and kind != b"application/json":
            raise refuse(ErrorCode.MEDIA_TYPE, "a batch is application/json or application/x-ndjson")
        return kind in _NDJSON

    def _append(self, messages: list[Message], item: object, request: Request) -> None:
        try:
            message = message_of(self._match, item, request)
        except RefusalError as refusal:
            document = orjson.loads(refusal.response.body)
            document["index"] = len(messages)
            refusal.response.body = orjson.dumps(document)
            raise
        self._due_ms.append(due_of(message))
        messages.append(message)

    def finish(self, event: Event) -> Response:
        """Sent or Refused."""
        if not isinstance(event, Sent):
            return super().finish(event)
        results = [place(placed, due_ms) for placed, due_ms in zip(event.placed, self._due_ms, strict=True)]
        return Response(200, [JSON], orjson.dumps({"topic": self._match.topic, "results": results}))


def message_of(match: Match, item: object, request: Request) -> Message:
    """One element of a batch, or one record of a stream. Raises RefusalError."""
    if not isinstance(item, dict):
        raise refuse(ErrorCode.MESSAGE_ILLEGAL, "a message is a JSON object")
    for name in item:
        if name not in _KNOWN:
            raise refuse(ErrorCode.MESSAGE_ILLEGAL, f"member {name} is unknown", member=name)
    draft = Draft(match.context.wall_ms, match.path)
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
    retain = draft.retain(item.get("retain", False) is True)
    body = _body(item)
    return Message(match.topic, body, draft.stored(), born_host=request.peer.born_host, retain=retain)


def item_of(element: bytes) -> object:
    """The members of one message from its JSON. Raises RefusalError."""
    try:
        return orjson.loads(element) if len(element) <= AT_ONCE_BYTES else _large(element)
    except (orjson.JSONDecodeError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise _not_json() from None


def _lines(data: bytes, found: list[bytes]) -> None:
    """Append the lines that are not blank to `found`, at most one more than MESSAGES_MAX."""
    at = 0
    while len(found) <= MESSAGES_MAX:
        blank = _BLANK.match(data, at)
        at = at if blank is None else blank.end()
        if at >= len(data):
            return
        end = data.find(b"\n", at)
        if end < 0:
            end = len(data)
        found.append(data[at:end])
        at = end


def _large(element: bytes) -> object:
    """The members of a message whose text is large; a member that cannot be large is not decoded. Raises RefusalError."""
    try:
        raw = _RAW.decode(element)
    except msgspec.ValidationError as error:
        raise refuse(ErrorCode.MESSAGE_ILLEGAL, f"this is no message: {error}") from None
    item: dict[str, object] = {}
    for name in _OF_RECORDS:
        text = bytes(getattr(raw, name))
        if not text:
            continue
        if name in ("text", "body"):
            item[name] = orjson.loads(text) if text[:1] == b'"' else None
        elif len(text) > PROPERTIES_JSON_BYTES_MAX:
            raise refuse(ErrorCode.PROPERTIES_TOO_LARGE, f"member {name} is larger than the properties of a message can be")
        elif name == "properties":
            try:
                item[name] = _TEXTS.decode(text)
            except msgspec.ValidationError:
                item[name] = None
        else:
            item[name] = orjson.loads(text) if text[:1] not in (b"[", b"{") else None
    return item


def _not_json() -> RefusalError:
    return refuse(ErrorCode.MESSAGE_ILLEGAL, "the content is not valid JSON")


def _wrong_size() -> RefusalError:
    return refuse(ErrorCode.MESSAGE_ILLEGAL, f"a batch is an array of 1 to {MESSAGES_MAX} messages")


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
