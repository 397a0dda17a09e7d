"""`/subscriptions`: webhooks out (CloudEvents Subscriptions API 0.1-wip, contract section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, final

import orjson

from domain.access.principal import GATEWAY
from domain.admin.position import PositionsReset
from domain.admin.subscription import (
    Attempt,
    AttemptList,
    ChangeStatus,
    DeleteSubscription,
    GrantConsent,
    PutSubscription,
    QueryAttempts,
    QuerySubscriptions,
    Redrive,
    Redriven,
    ResetSubscription,
    SubscriptionFound,
    SubscriptionList,
    TestSubscription,
)
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Event
from domain.subscription.document import decode, document, parse
from domain.subscription.filters import SubscriptionError
from domain.subscription.sink import Network, literal_refusal, sink
from domain.subscription.subscription import Scheme, Status, WebhookSubscription, granted_rate
from protocols.cloudevents.instant import rfc3339
from protocols.http.argument import number, parameters
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.handlers.groups import instant, positions
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response

BODY_BYTES_MAX: Final = 128 * 1024
LIST_MAX: Final = 1_000
ATTEMPTS_MAX: Final = 1_000
REDRIVE_MAX: Final = 10_000
PRIVATE: Final = (b"cache-control", b"private, no-store")


def _shown(record: bytes) -> dict[str, Any]:
    return document(decode(record))


class SubscriptionHandler(Handler):
    """A request about a subscription; without content or parameters it is `command` with its id."""

    body_max = BODY_BYTES_MAX
    command: ClassVar[type[QuerySubscriptions | DeleteSubscription | TestSubscription]] = QuerySubscriptions

    @property
    def _id(self) -> str:
        return self._match.names["id"]

    def start(self, request: Request, ticket: object) -> Outcome:
        """`command`."""
        parameters(self._match)
        return self.command(ticket, self._id), None

    def finish(self, event: Event) -> Response:
        """SubscriptionFound, AttemptList, Redriven or Done."""
        if isinstance(event, SubscriptionFound):
            return Response(200, [JSON, PRIVATE], orjson.dumps(_shown(event.record)))
        if isinstance(event, AttemptList):
            out: dict[str, Any] = {"breaker": event.breaker, "attempts": [_attempt(each) for each in event.attempts]}
            if event.lag >= 0:
                out["lag"] = event.lag
            return Response(200, [JSON, PRIVATE], orjson.dumps(out))
        if isinstance(event, Redriven):
            return Response(200, [JSON], orjson.dumps({"redriven": event.count}))
        return super().finish(event)


def _attempt(found: Attempt) -> dict[str, Any]:
    out: dict[str, Any] = {
        "at": rfc3339(found.at_ms),
        "messageId": found.message_id,
        "messages": found.messages,
        "number": found.number,
        "status": found.status,
        "ms": found.took_ms,
        "outcome": found.outcome,
    }
    if found.text:
        out["text"] = found.text
    if found.answer:
        out["answer"] = found.answer.decode("utf-8", "replace")
    if found.next_ms:
        out["next"] = rfc3339(found.next_ms)
    return out


def _judge(made: WebhookSubscription, allow: Sequence[Network] | None) -> None:
    """Raise SubscriptionError for an address that deliveries may not go to; names are judged when they are resolved."""
    if allow is None:
        return
    given = made.credential
    urls = {"sink": made.sink}
    if given is not None and given.scheme is Scheme.OAUTH2:
        urls["sinkcredential.token_url"] = given.values["token_url"]
    for member, url in urls.items():
        why = literal_refusal(sink(url), allow)
        if why:
            raise SubscriptionError(member, why)


def _put(request: Request, ticket: object, identity: str, allow: Sequence[Network] | None) -> Command:
    try:
        found = orjson.loads(request.body)
        made = parse(found, identity or "new")
        _judge(made, allow)
    except orjson.JSONDecodeError:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, 'the content is JSON: {"source": "orders", "sink": "https://…"}') from None
    except SubscriptionError as error:
        raise refuse(ErrorCode.ARGUMENT_ILLEGAL, str(error), member=error.member) from None
    given = found.get("config", {}).get("group", "")
    topics = [topic for topic in (made.reply_topic, made.dead_letter_topic) if topic]
    return PutSubscription(ticket, request.body, made.source, given, topics, identity)


@final
class MakeSubscription(SubscriptionHandler):
    """`POST /subscriptions`."""

    description: ClassVar[str] = (
        "201 with Location. The sink gets what is sent after the answer; `config.from` = `first`: what is kept, too."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """PutSubscription."""
        parameters(self._match)
        return _put(request, ticket, "", self._match.context.sinks), None

    def finish(self, event: Event) -> Response:
        """SubscriptionFound."""
        if not isinstance(event, SubscriptionFound):
            return super().finish(event)
        shown = _shown(event.record)
        location = (b"location", b"/subscriptions/" + shown["id"].encode())
        return Response(201, [JSON, PRIVATE, location], orjson.dumps(shown))


@final
class ReplaceSubscription(SubscriptionHandler):
    """`PUT /subscriptions/{id}`."""

    description: ClassVar[str] = (
        "The whole document anew. Group, user and time stay; without `sinkcredential` there is none any more."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """PutSubscription."""
        parameters(self._match)
        return _put(request, ticket, self._id, self._match.context.sinks), None


@final
class GetSubscription(SubscriptionHandler):
    """`GET /subscriptions/{id}`."""

    description: ClassVar[str] = "One subscription, without its credential."


@final
class GetSubscriptions(SubscriptionHandler):
    """`GET /subscriptions`."""

    description: ClassVar[str] = (
        "Subscriptions of the user by id. Parameters: `after`, `max` (1 to 1000, 1000). `next` is present when there are "
        "more: the `after` of the next request."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """QuerySubscriptions."""
        asked = parameters(self._match, "after", "max")
        return QuerySubscriptions(
            ticket, "", asked.get("after", ""), number("max", asked.get("max"), 1, LIST_MAX, LIST_MAX)
        ), None

    def finish(self, event: Event) -> Response:
        """SubscriptionList."""
        if not isinstance(event, SubscriptionList):
            return super().finish(event)
        found = [_shown(record) for record in event.records]
        out: dict[str, Any] = {"subscriptions": found}
        if event.more:
            out["next"] = found[-1]["id"]
        return Response(200, [JSON, PRIVATE], orjson.dumps(out))


@final
class RemoveSubscription(SubscriptionHandler):
    """`DELETE /subscriptions/{id}`."""

    description: ClassVar[str] = "204. What has not been delivered is not delivered any more."
    command = DeleteSubscription


@final
class PauseSubscription(SubscriptionHandler):
    """`POST /subscriptions/{id}:pause`."""

    description: ClassVar[str] = "`:pause`: messages wait."

    def start(self, request: Request, ticket: object) -> Outcome:
        """ChangeStatus."""
        parameters(self._match)
        return ChangeStatus(ticket, self._id, Status.PAUSED.value, "paused by request"), None


@final
class ResumeSubscription(SubscriptionHandler):
    """`POST /subscriptions/{id}:resume`."""

    description: ClassVar[str] = (
        "`:resume`: deliver again, after a pause or a suspension; a sink that has to consent is asked first."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """ChangeStatus."""
        parameters(self._match)
        return ChangeStatus(ticket, self._id, Status.ACTIVE.value), None


class ConsentHandler(SubscriptionHandler):
    """A sink consents at the callback URL of the handshake (HTTP WebHook 1.0.2, 4.1.3), whose key is its credential."""

    def admit(self, request: Request) -> None:
        """The key is checked where the subscription is."""

    def start(self, request: Request, ticket: object) -> Outcome:
        """GrantConsent."""
        key = parameters(self._match, "key").get("key", "")
        rate = next((value for name, value in request.fields if name == b"webhook-allowed-rate"), b"*")
        command: Command = GrantConsent(ticket, self._id, key, granted_rate(rate.decode("latin-1").strip()))
        command.principal = GATEWAY
        return command, None

    def finish(self, event: Event) -> Response:
        """Done."""
        response = super().finish(event)
        response.fields.append(PRIVATE)
        return response


@final
class GetConsent(ConsentHandler):
    """`GET /subscriptions/{id}:consent`."""

    description: ClassVar[str] = (
        "A sink consents at the callback URL of the handshake, by a person with a browser. Parameter: `key`."
    )


@final
class PostConsent(ConsentHandler):
    """`POST /subscriptions/{id}:consent`."""

    description: ClassVar[str] = (
        "A sink consents at the callback URL of the handshake. Parameter: `key`. Field: WebHook-Allowed-Rate."
    )


@final
class TestDelivery(SubscriptionHandler):
    """`POST /subscriptions/{id}:test`."""

    description: ClassVar[str] = (
        "`:test`: one event of type `io.headgate.test` to the sink, outside the log; the answer has its attempt."
    )
    command = TestSubscription

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self.long_poll = True


@final
class GetAttempts(SubscriptionHandler):
    """`GET /subscriptions/{id}/attempts`."""

    description: ClassVar[str] = "Attempts, the newest first. Parameter: `max` (1 to 1000, 100)."

    def start(self, request: Request, ticket: object) -> Outcome:
        """QueryAttempts."""
        asked = parameters(self._match, "max")
        return QueryAttempts(ticket, self._id, number("max", asked.get("max"), 1, ATTEMPTS_MAX, 100), lag=True), None


@final
class RedriveSubscription(SubscriptionHandler):
    """`POST /subscriptions/{id}:redrive`."""

    description: ClassVar[str] = (
        "`:redrive`: dead letters are delivered again, to this subscription alone. Parameter: `max` (1 to 10000, 1000)."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """Redrive."""
        asked = parameters(self._match, "max")
        return Redrive(ticket, self._id, number("max", asked.get("max"), 1, REDRIVE_MAX, 1_000)), None


@final
class ResetTo(SubscriptionHandler):
    """`POST /subscriptions/{id}:reset`."""

    description: ClassVar[str] = (
        "`:reset?to=`: go on at the first message stored at or after an instant: RFC 3339, epoch milliseconds, or `end`."
    )

    def start(self, request: Request, ticket: object) -> Outcome:
        """ResetSubscription."""
        to_ms = instant(parameters(self._match, "to").get("to", ""))
        return ResetSubscription(ticket, self._id, to_ms), None

    def finish(self, event: Event) -> Response:
        """PositionsReset."""
        if not isinstance(event, PositionsReset):
            return super().finish(event)
        return positions(event)
