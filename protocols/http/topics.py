"""`GET /v1/topics`, `/v1/topics/{topic}` and its queues."""

from __future__ import annotations

from typing import Final, final

import orjson

from domain.admin.topic import Bounds, ListTopics, QueryBounds, QueryTopic, TopicFound, TopicList
from domain.event import Event
from domain.topic import Topic
from protocols.http.argument import number, parameters, topic
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.request import Request
from protocols.http.response import JSON, Response

TOPICS_MAX: Final = 1_000
"""Topics in one response."""


def _document(found: Topic) -> dict[str, object]:
    return {
        "name": found.name,
        "type": found.type,
        "queues": found.read_queues,
        "durability": found.durability.value,
    }


class _TopicsHandler(Handler):
    """A request about topics, without content."""

    __slots__ = ()

    def finish(self, event: Event) -> Response:
        """200 with a JSON object."""
        if isinstance(event, TopicFound):
            out: dict[str, object] = _document(event.topic)
        elif isinstance(event, Bounds):
            out = {"queues": [{"queue": queue, "min": first, "max": after} for queue, first, after in event.queues]}
        else:
            return super().finish(event)
        return Response(200, [JSON], orjson.dumps(out))


@final
class GetTopics(_TopicsHandler):
    """Topics by name: `name`, `type`, `queues`, `durability` of each.

    Parameters: `after` (begin after this name), `max` (1 to 1000, 1000).
    `next` is present when there are more: the `after` of the next request.
    """

    __slots__ = ("_after", "_max")

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._after = ""
        self._max = TOPICS_MAX

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListTopics."""
        asked = parameters(self._match, "after", "max")
        self._after = asked.get("after", "")
        self._max = number("max", asked.get("max"), 1, TOPICS_MAX, TOPICS_MAX)
        return ListTopics(ticket), None

    def finish(self, event: Event) -> Response:
        """TopicList or Refused."""
        if not isinstance(event, TopicList):
            return super().finish(event)
        found = [one for one in event.topics if one.name > self._after]
        out: dict[str, object] = {"topics": [_document(one) for one in found[: self._max]]}
        if len(found) > self._max:
            out["next"] = found[self._max - 1].name
        return Response(200, [JSON], orjson.dumps(out))


@final
class GetTopic(_TopicsHandler):
    """One topic; 404 when it does not exist."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryTopic, which creates nothing."""
        parameters(self._match)
        return QueryTopic(ticket, topic(self._match)), None


@final
class GetQueues(_TopicsHandler):
    """First offset (`min`) and next offset (`max`) of each queue of a topic."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryBounds."""
        parameters(self._match)
        return QueryBounds(ticket, topic(self._match)), None
