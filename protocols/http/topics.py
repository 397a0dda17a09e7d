"""`GET /v1/topics`, `/v1/topics/{topic}` and its queues: what there is to read."""

from __future__ import annotations

from typing import final

import orjson

from domain.command import ListTopics, QueryBounds, QueryTopic
from domain.event import Bounds, Event, TopicFound, TopicList
from domain.topic import Topic
from protocols.http.argument import parameters, topic
from protocols.http.handler import Handler, Outcome
from protocols.http.request import Request
from protocols.http.response import JSON, Response


def _document(found: Topic) -> dict[str, object]:
    return {
        "name": found.name,
        "type": found.type,
        "queues": found.read_queues,
        "durability": found.durability.value,
    }


class _Listing(Handler):
    """One question about topics, without a body."""

    __slots__ = ()

    def finish(self, event: Event) -> Response:
        """200 with a JSON object."""
        if isinstance(event, TopicList):
            out: dict[str, object] = {"topics": [_document(found) for found in event.topics]}
        elif isinstance(event, TopicFound):
            out = _document(event.topic)
        elif isinstance(event, Bounds):
            out = {"queues": [{"queue": queue, "min": first, "max": after} for queue, first, after in event.queues]}
        else:
            return super().finish(event)
        return Response(200, [JSON], orjson.dumps(out))


@final
class List(_Listing):
    """All topics: `name`, `type`, `queues`, `durability`."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListTopics."""
        parameters(self._match)
        return ListTopics(ticket), None


@final
class Describe(_Listing):
    """One topic; 404 when it does not exist."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryTopic, which makes nothing."""
        parameters(self._match)
        return QueryTopic(ticket, topic(self._match)), None


@final
class Queues(_Listing):
    """First offset (`min`) and next offset (`max`) of each queue of a topic."""

    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryBounds."""
        parameters(self._match)
        return QueryBounds(ticket, topic(self._match)), None
