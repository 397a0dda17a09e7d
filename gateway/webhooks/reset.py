"""Reset of a subscription: its group goes on at another time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from domain.address import topic_of_path
from domain.admin.position import ResetPositions
from domain.admin.subscription import ResetSubscription
from domain.command import Command
from domain.errors import Failure
from domain.event import Refused
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.usecase.handler import Verb
from gateway.webhooks.book import SubscriptionBook


@final
class SubscriptionReset:
    """The verb ResetSubscription: ResetPositions for the group and the topic of a subscription."""

    def __init__(self, book: SubscriptionBook, dispatcher: Handler) -> None:
        self._book = book
        self._dispatcher = dispatcher

    def verbs(self) -> Mapping[type[Command], Verb]:
        """ResetSubscription."""
        return {ResetSubscription: self._reset}

    def _reset(self, connection: ClientConnection, command: ResetSubscription) -> None:
        found = self._book.visible(command, command.id)
        if isinstance(found, Failure):
            connection.answer(Refused(command.ticket, found))
            return
        topic = topic_of_path(found.source)
        self._dispatcher.handle(connection, ResetPositions(command.ticket, topic, found.group, command.to_ms))
