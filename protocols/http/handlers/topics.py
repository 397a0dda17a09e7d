"""`GET /v1/topics`, `GET`, `PUT` and `DELETE /v1/topics/{topic}`, and its queues."""

from __future__ import annotations

from typing import ClassVar, Final, final

import orjson

from domain.admin.topic import (
    Bounds,
    ChangeTopic,
    DeleteTopic,
    ListTopics,
    QueryBounds,
    QueryTopic,
    TopicChange,
    TopicFound,
    TopicList,
)
from domain.errors import ErrorCode
from domain.event import Event
from domain.topic import attribute
from domain.topic.topic import Topic
from protocols.http.argument import number, parameters, topic
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response

TOPICS_MAX: Final = 1_000
"""Topics in one response."""
BODY_BYTES_MAX: Final = 64 * 1024
_FIELDS: Final = {
    "type": "message.type",
    "durability": "durability",
    "retention_ms": attribute.RETENTION_MS,
    "retention_bytes": attribute.RETENTION_BYTES,
}
"""Member of the document of a topic -> attribute."""


def _document(found: Topic) -> dict[str, object]:
    return {
        "name": found.name,
        "type": found.type,
        "queues": found.read_queues,
        "durability": found.durability.value,
        "retention_ms": found.retention_ms,
        "retention_bytes": found.retention_bytes,
        "attributes": found.attributes,
    }


class _TopicsHandler(Handler):
    """A request about topics; without content or parameters it is `command` with the topic."""

    command: ClassVar[type[QueryTopic | QueryBounds | DeleteTopic]] = QueryTopic

    def start(self, request: Request, ticket: object) -> Outcome:
        """`command`."""
        parameters(self._match)
        return self.command(ticket, topic(self._match)), None

    def finish(self, event: Event) -> Response:
        """200 with a JSON object; 204 after a change."""
        if isinstance(event, TopicFound):
            out: dict[str, object] = _document(event.topic)
        elif isinstance(event, Bounds):
            out = {"queues": [{"queue": queue, "min": first, "max": after} for queue, first, after in event.queues]}
        else:
            return super().finish(event)
        return Response(200, [JSON], orjson.dumps(out))


@final
class GetTopics(_TopicsHandler):
    """`GET /v1/topics`."""

    description: ClassVar[str] = (
        "Topics by name, each as `getTopic` has it. Parameters: `after` (begin after this name), `max` (1 to 1000, 1000). "
        "`next` is present when there are more: the `after` of the next request."
    )

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._after = ""
        self._max = TOPICS_MAX

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListTopics."""
        asked = parameters(self._match, "after", "max")
        self._after = asked.get("after", "")
        self._max = number("max", asked.get("max"), 1, TOPICS_MAX, TOPICS_MAX)
        return ListTopics(ticket, self._after, self._max + 1), None

    def finish(self, event: Event) -> Response:
        """TopicList or Refused."""
        if not isinstance(event, TopicList):
            return super().finish(event)
        found = event.topics
        out: dict[str, object] = {"topics": [_document(one) for one in found[: self._max]]}
        if len(found) > self._max:
            out["next"] = found[self._max - 1].name
        return Response(200, [JSON], orjson.dumps(out))


@final
class GetTopic(_TopicsHandler):
    """`GET /v1/topics/{topic}`."""

    description: ClassVar[str] = (
        "One topic: `name type queues durability retention_ms retention_bytes attributes`; 404 when it does not exist."
    )


@final
class PutTopicDocument(_TopicsHandler):
    """`PUT /v1/topics/{topic}`."""

    description: ClassVar[str] = (
        "Create a topic or change it: a JSON object with any of the members that `getTopic` has, except `name`. A member "
        "that is absent stays as it is. An attribute that is null is dropped. `retention_ms` 0: the default of the store; "
        "`retention_bytes` 0: no bound."
    )
    body_max = BODY_BYTES_MAX

    def start(self, request: Request, ticket: object) -> Outcome:
        """ChangeTopic."""
        parameters(self._match)
        try:
            found = orjson.loads(request.body) if request.body else {}
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, 'the content is a JSON object: {"retention_ms": 3600000}')
        attributes, dropped = _attributes(found.pop("attributes", {}))
        queues = found.pop("queues", None)
        if queues is not None and (isinstance(queues, bool) or not isinstance(queues, int)):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "queues is a whole number", member="queues")
        for name, value in found.items():
            if name not in _FIELDS:
                known = ", ".join(("queues", *_FIELDS, "attributes"))
                raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"member {name} is unknown; a topic has {known}", member=name)
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"{name} is a text or a whole number", member=name)
            attributes[_FIELDS[name]] = str(value)
        change = TopicChange(topic(self._match), queues, queues, None, None, None, attributes, dropped)
        return ChangeTopic(ticket, change), None


@final
class RemoveTopic(_TopicsHandler):
    """`DELETE /v1/topics/{topic}`."""

    description: ClassVar[str] = "DELETE: 204; the topic is deleted with its messages."
    command = DeleteTopic


@final
class GetQueues(_TopicsHandler):
    """`GET /v1/topics/{topic}/queues`."""

    description: ClassVar[str] = "First offset (`min`) and next offset (`max`) of each queue of a topic."
    command = QueryBounds


def _attributes(found: object) -> tuple[dict[str, str], list[str]]:
    """The member `attributes` -> (to set, to drop). Raises RefusalError."""
    if not isinstance(found, dict) or not all(value is None or isinstance(value, str) for value in found.values()):
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "attributes is an object of texts; null drops one", member="attributes")
    put = {name: value for name, value in found.items() if value is not None}
    return put, [name for name in found if name not in put]
