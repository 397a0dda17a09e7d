"""`/v1/groups`: consumer groups, how far they are, and their positions."""

from __future__ import annotations

from typing import Any, ClassVar, Final, final

import orjson

from domain.admin.group import DeleteGroup, FindGroup, GroupFound, GroupList, ListGroups, PutGroup, RedriveGroup
from domain.admin.position import PositionsReset, Progress, QueryProgress, ResetPositions
from domain.admin.subscription import Redriven
from domain.errors import ErrorCode
from domain.event import Event
from domain.topic.topic import Group
from protocols.cloudevents.instant import instant_ms
from protocols.http.argument import group, number, parameters, topic
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.handlers.content import flag, members, whole
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response

BODY_BYTES_MAX: Final = 64 * 1024
GROUPS_MAX: Final = 1_000
REDRIVE_MAX: Final = 10_000
RETRY_MAX: Final = 10_000
RETRY_QUEUES_MAX: Final = 1_024
MEMBERS: Final = ("orderly", "consume", "broadcast", "retry_max", "retry_queues", "attributes")


def _document(found: Group) -> dict[str, Any]:
    return {
        "name": found.name,
        "orderly": found.orderly,
        "consume": found.consume_enable,
        "broadcast": found.broadcast_enable,
        "retry_max": found.retry_max,
        "retry_queues": found.retry_queues,
        "attributes": found.attributes,
    }


@final
class GetGroups(Handler):
    """`GET /v1/groups`."""

    description: ClassVar[str] = (
        "Groups by name. Parameters: `after` (begin after this name), `max` (1 to 1000, 1000). `next` is present when there "
        "are more: the `after` of the next request."
    )

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._after = ""
        self._max = GROUPS_MAX

    def start(self, request: Request, ticket: object) -> Outcome:
        """ListGroups, with one group more: that there are more is said."""
        asked = parameters(self._match, "after", "max")
        self._after = asked.get("after", "")
        self._max = number("max", asked.get("max"), 1, GROUPS_MAX, GROUPS_MAX)
        return ListGroups(ticket, self._after, self._max + 1), None

    def finish(self, event: Event) -> Response:
        """GroupList or Refused."""
        if not isinstance(event, GroupList):
            return super().finish(event)
        found = event.page(self._after, self._max + 1)
        out: dict[str, Any] = {"groups": [_document(each) for each in found[: self._max]]}
        if len(found) > self._max:
            out["next"] = found[self._max - 1].name
        return Response(200, [JSON], orjson.dumps(out))


@final
class GetGroup(Handler):
    """`GET /v1/groups/{group}`."""

    description: ClassVar[str] = (
        "One group: `name orderly consume broadcast retry_max retry_queues attributes`; 404 when it does not exist."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """FindGroup: a QueryGroup might make the group."""
        parameters(self._match)
        return FindGroup(ticket, group(self._match)), None

    def finish(self, event: Event) -> Response:
        """GroupFound or Refused."""
        if not isinstance(event, GroupFound):
            return super().finish(event)
        return Response(200, [JSON], orjson.dumps(_document(event.group)))


@final
class PutGroupDocument(Handler):
    """`PUT /v1/groups/{group}`."""

    description: ClassVar[str] = (
        "Create a group or change it: a JSON object with the members that `getGroup` has, except `name`. A member that is "
        "absent gets its default: `orderly` false, `consume` true, `broadcast` true, `retry_max` 16, `retry_queues` 1. "
        "Attributes that are absent stay; one that is null is dropped."
    )
    body_max = BODY_BYTES_MAX

    def start(self, request: Request, ticket: object) -> Outcome:
        """PutGroup."""
        parameters(self._match)
        found = members(request, MEMBERS, '{"retry_max": 5}')
        attributes = found.get("attributes", {})
        if not isinstance(attributes, dict) or not all(
            value is None or isinstance(value, str) for value in attributes.values()
        ):
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "attributes is an object of texts; null drops one", member="attributes")
        changes = {f"-{name}" if value is None else f"+{name}": value or "" for name, value in attributes.items()}
        made = Group(
            group(self._match),
            flag(found, "orderly", False),
            flag(found, "consume", True),
            broadcast_enable=flag(found, "broadcast", True),
            retry_max=whole(found, "retry_max", 0, RETRY_MAX, 16),
            retry_queues=whole(found, "retry_queues", 0, RETRY_QUEUES_MAX, 1),
            attributes=changes,
        )
        return PutGroup(ticket, made), None


@final
class RemoveGroup(Handler):
    """`DELETE /v1/groups/{group}`."""

    description: ClassVar[str] = "DELETE: 204; the group is deleted with its positions and leases."

    def start(self, request: Request, ticket: object) -> Outcome:
        """DeleteGroup."""
        parameters(self._match)
        return DeleteGroup(ticket, group(self._match)), None


@final
class GetProgress(Handler):
    """`GET /v1/groups/{group}/progress`."""

    description: ClassVar[str] = (
        "How far a group is, queue by queue: `topic queue next position lag`, and `perSecond`. Parameter: `topic` (all)."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryProgress."""
        asked = parameters(self._match, "topic")
        return QueryProgress(ticket, group(self._match), asked.get("topic", "")), None

    def finish(self, event: Event) -> Response:
        """Progress or Refused."""
        if not isinstance(event, Progress):
            return super().finish(event)
        queues = [
            {"topic": name, "queue": queue, "next": after, "position": at, "lag": max(0, after - at)}
            for name, queue, after, at in event.queues
        ]
        out = {
            "queues": queues,
            "lag": sum(max(0, after - at) for _, _, after, at in event.queues),
            "perSecond": event.per_second,
        }
        return Response(200, [JSON], orjson.dumps(out))


@final
class ResetGroup(Handler):
    """`POST /v1/groups/{group}/topics/{topic}:reset`."""

    description: ClassVar[str] = (
        "`:reset?to=`: go on at the first message stored at or after an instant: RFC 3339, epoch milliseconds, or `end`."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """ResetPositions."""
        to_ms = instant(parameters(self._match, "to").get("to", ""))
        return ResetPositions(ticket, topic(self._match), group(self._match), to_ms), None

    def finish(self, event: Event) -> Response:
        """PositionsReset or Refused."""
        return positions(event) if isinstance(event, PositionsReset) else super().finish(event)


@final
class RedriveDeadLetters(Handler):
    """`POST /v1/groups/{group}:redrive`."""

    description: ClassVar[str] = (
        "`:redrive`: dead letters of the group are delivered again, to this group alone. Parameter: `max` (1 to 10000, "
        "1000). 200 with `redriven`, their number. The next call goes on behind them."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """RedriveGroup."""
        asked = parameters(self._match, "max")
        return RedriveGroup(ticket, group(self._match), number("max", asked.get("max"), 1, REDRIVE_MAX, 1_000)), None

    def finish(self, event: Event) -> Response:
        """Redriven or Refused."""
        if isinstance(event, Redriven):
            return Response(200, [JSON], orjson.dumps({"redriven": event.count}))
        return super().finish(event)


def instant(text: str) -> int:
    """The parameter `to` of a reset in epoch ms, -1 for `end`. Raises RefusalError."""
    ms = -1 if text == "end" else instant_ms(text.encode())
    if ms < 0 and text != "end":
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "to is an instant of RFC 3339, epoch milliseconds, or end", parameter="to")
    return ms


def positions(event: PositionsReset) -> Response:
    """200 with the positions after a reset."""
    found = [{"queue": queue, "offset": offset} for queue, offset in event.offsets]
    return Response(200, [JSON], orjson.dumps({"queues": found}))
