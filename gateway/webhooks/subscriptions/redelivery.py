"""Redelivery for a subscription: of its dead letters, and of the messages from another time on."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain import address
from domain.admin.position import PositionsReset, ResetPositions
from domain.admin.subscription import Redrive, Redriven, ResetSubscription
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from domain.message import property as properties
from domain.message.record import Record
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.redrive import Redriving
from gateway.usecase.handler import Verbs, answered_with
from gateway.usecase.membership.reset import POSITION_BYTES
from gateway.usecase.waiting.fan_in import FanIn
from gateway.webhooks.internal_client import InternalClient
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions


@final
class SubscriptionRedelivery:
    """The verbs Redrive and ResetSubscription.

    Redrive moves dead letters of a subscription to the retry topic that its deliverer leases from. ResetSubscription is
    ResetPositions for its group and its topics.
    """

    def __init__(self, book: WebhookSubscriptions, redriving: Redriving, client: InternalClient) -> None:
        """`client`: sends ResetPositions."""
        self._book = book
        self._redriving = redriving
        self._client = client
        self.verbs: Verbs = {Redrive: self._redrive, ResetSubscription: self._reset}

    def _redrive(self, connection: ClientConnection, command: Redrive) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return

        group, own = found.group, not found.dead_letter_topic
        dead = found.dead_letter_topic or address.dead_letter_topic(group)

        def target(record: Record) -> str:
            """The retry topic for a dead letter; "": skip it. A dead-letter topic that the subscription names may have messages
            that are not its dead letters."""
            if not own and properties.text(record.properties, properties.HG_DLQ_GROUP) != group:
                return ""
            origin = properties.text(record.properties, properties.DLQ_ORIGIN_TOPIC)
            return address.pop_retry_topic(group, origin if found.wild and address.is_topic(origin) else found.topic)

        done = answered_with(connection, command.ticket, Redriven)
        self._redriving.redrive(group, dead, command.limit, target, done, connection.wrote)

    def _reset(self, connection: ClientConnection, command: ResetSubscription) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        offsets: list[tuple[int, int]] = []

        def reset(topic: str, then: Callable[[PositionsReset | Failure], None]) -> None:
            def answered(event: Event) -> None:
                then(event if isinstance(event, PositionsReset) else _failure(event))

            self._client.ask(lambda ticket: ResetPositions(ticket, topic, found.group, command.to_ms), answered)

        def done(answers: dict[tuple[str], PositionsReset], failure: Failure | None) -> None:
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            for each in answers.values():
                offsets.extend(each.offsets)
            connection.wrote(POSITION_BYTES * len(offsets))
            connection.answer(PositionsReset(command.ticket, offsets))

        ask: FanIn[PositionsReset, str] = FanIn(reset, done)
        ask.start((topic,) for topic in self._book.topics(found))


def _failure(event: Event) -> Failure:
    return event.failure if isinstance(event, Refused) else Failure(ErrorCode.INTERNAL, "the store gave another answer")
