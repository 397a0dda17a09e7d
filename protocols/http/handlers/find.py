"""`GET /v1/topics/{topic}/messages?key=&id=&from=&to=&max=`: messages by key or id."""

from __future__ import annotations

from typing import ClassVar, Final, final

import orjson

from domain import address, limits
from domain.admin.message import TIME_MAX_MS, MessagesFound, QueryMessages
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Event
from domain.message.record import Record
from protocols.cloudevents.instant import rfc3339_ms
from protocols.http.argument import number, parameters
from protocols.http.handler import Handler, Outcome
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response
from protocols.http.translate_out import documents

MAX: Final = 32


@final
class FindMessages(Handler):
    """`GET /v1/topics/{path…}/messages`."""

    description: ClassVar[str] = (
        '200 with `{"messages"}`, newest first; an empty list when none is found. Parameters: `key` (one word of the '
        "message's key) or `id`, not both; `from`, `to` (store time: RFC 3339 or epoch milliseconds, both included), `max` "
        "(1 to 64, 32)."
    )
    repeatable = True

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryMessages."""
        asked = parameters(self._match, "key", "id", "from", "to", "max")
        topic = self._match.path or self._match.topic
        if not address.is_topic(topic):
            raise refuse(ErrorCode.TOPIC_ILLEGAL, "keys are looked up by topic: name the first level of the path alone")
        unique = "id" in asked
        sought = asked["id"] if unique else asked.get("key", "")
        if unique == ("key" in asked) or not sought or (" " in sought and not unique):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "a search needs a key of one word, or an id, and not both")
        command: Command = QueryMessages(
            ticket,
            topic,
            sought,
            _instant("from", asked.get("from"), 0),
            _instant("to", asked.get("to"), TIME_MAX_MS),
            number("max", asked.get("max"), 1, limits.QUERY_MESSAGES_MAX, MAX),
            unique,
        )
        return command, None

    def content_bytes(self, event: Event) -> int:
        """The records of a MessagesFound."""
        return sum(map(len, event.records)) * 4 // 3 if isinstance(event, MessagesFound) else 0

    def finish(self, event: Event) -> Response:
        """MessagesFound or Refused."""
        if not isinstance(event, MessagesFound):
            return super().finish(event)
        return Response(200, [JSON], orjson.dumps({"messages": documents(map(Record, event.records))}))


def _instant(name: str, text: str | None, otherwise: int) -> int:
    """Epoch milliseconds; `otherwise` when the parameter is absent. Raises RefusalError."""
    if text is not None and "T" in text.upper():
        found = rfc3339_ms(text.encode())
        if found >= 0:
            return found
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is RFC 3339 or epoch milliseconds", parameter=name)
    return number(name, text, 0, TIME_MAX_MS, otherwise)
