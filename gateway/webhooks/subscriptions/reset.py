"""Reset of a subscription: its group continues at the messages of another time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from domain.admin.position import PositionsReset, ResetPositions
from domain.admin.subscription import ResetSubscription
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verb
from gateway.usecase.waiting.fan_in import FanIn
from gateway.webhooks.internal_client import InternalClient
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions


@final
class SubscriptionReset:
    """The verb ResetSubscription: ResetPositions for the group and the topics of a subscription."""

    def __init__(self, book: WebhookSubscriptions, asker: InternalClient) -> None:
        """`asker`: sends ResetPositions."""
        self._book = book
        self._asker = asker

    def verbs(self) -> Mapping[type[Command], Verb]:
        """ResetSubscription."""
        return {ResetSubscription: self._reset}

    def _reset(self, connection: ClientConnection, command: ResetSubscription) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        offsets: list[tuple[int, int]] = []

        def reset(topic: str, then: Callable[[PositionsReset | Failure], None]) -> None:
            def answered(event: Event) -> None:
                then(event if isinstance(event, PositionsReset) else _failure(event))

            self._asker.ask(lambda ticket: ResetPositions(ticket, topic, found.group, command.to_ms), answered)

        def done(answers: dict[tuple[str], PositionsReset], failure: Failure | None) -> None:
            if failure is not None:
                connection.answer(Refused(command.ticket, failure))
                return
            for each in answers.values():
                offsets.extend(each.offsets)
            connection.answer(PositionsReset(command.ticket, offsets))

        ask: FanIn[PositionsReset, str] = FanIn(reset, done)
        ask.start((topic,) for topic in self._book.topics(found))


def _failure(event: Event) -> Failure:
    return event.failure if isinstance(event, Refused) else Failure(ErrorCode.INTERNAL, "the store gave another answer")
