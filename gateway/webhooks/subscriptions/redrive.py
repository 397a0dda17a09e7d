"""Redrive of a subscription: its dead letters are delivered to its group again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain import address
from domain.admin.subscription import Redrive, Redriven
from domain.command import Command
from domain.errors import Failure
from domain.event import Refused
from domain.message import property as properties
from domain.message.record import Record
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.redrive import Redriving
from gateway.usecase.handler import Verb
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions


@final
class SubscriptionRedrive:
    """The verb Redrive: moves dead letters of a subscription to the retry topic that its deliverer leases from."""

    def __init__(self, book: WebhookSubscriptions, redriving: Redriving) -> None:
        self._book = book
        self._redriving = redriving

    def verbs(self) -> Mapping[type[Command], Verb]:
        """Redrive."""
        return {Redrive: self._redrive}

    def _redrive(self, connection: ClientConnection, command: Redrive) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return

        def done(result: int | Failure) -> None:
            if isinstance(result, Failure):
                connection.answer(Refused(command.ticket, result))
            else:
                connection.answer(Redriven(command.ticket, result))

        group, own = found.group, not found.dead_letter_topic
        dead = found.dead_letter_topic or address.dead_letter_topic(group)

        def target(record: Record) -> str:
            """The retry topic for a dead letter; "": skip it. A dead-letter topic that the subscription names may have messages
            that are not its dead letters."""
            if not own and properties.text(record.properties, properties.HG_DLQ_GROUP) != group:
                return ""
            origin = properties.text(record.properties, properties.DLQ_ORIGIN_TOPIC)
            return address.pop_retry_topic(group, origin if found.wild and address.is_topic(origin) else found.topic)

        self._redriving.redrive(group, dead, command.limit, target, done)
