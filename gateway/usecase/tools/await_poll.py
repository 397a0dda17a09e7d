"""One AwaitMessages command: it asks whether its group has something to receive, and waits for that."""

from __future__ import annotations

from typing import final

from domain import address
from domain.command import AwaitMessages
from domain.event import MessagesWaiting
from domain.store.outlook import Outlook
from domain.store.store_ports import Metadata
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.long_polls import LongPolls, WaitingCall


@final
class AwaitPoll(WaitingCall[AwaitMessages]):
    """A call that asks whether its group has something to receive."""

    __slots__ = ("_metadata", "_outlook")

    def __init__(
        self, outlook: Outlook, metadata: Metadata, polls: LongPolls, connection: ClientConnection, command: AwaitMessages
    ) -> None:
        super().__init__(polls, connection, command)
        self._outlook = outlook
        self._metadata = metadata

    def start(self) -> None:
        """Answer at once when there are messages or the command does not wait, else park the call."""
        command = self.command
        if self.attempt():
            return
        if command.wait_ms <= 0:
            self.expire()
        elif not self.park((command.group, command.topic, command.queue_id), command.wait_ms):
            self.answer(MessagesWaiting(command.ticket, False, full=True))

    def attempt(self) -> bool:
        """Ask again. Returns True when there are messages and the call is answered."""
        there = self._is_waiting()
        if there:
            self.answer(MessagesWaiting(self.command.ticket, there))
        return there

    def expire(self) -> None:
        """Answer that there is nothing."""
        self.answer(MessagesWaiting(self.command.ticket, False))

    def _is_waiting(self) -> bool:
        """True when a Receive would find messages now, in the topic or in the group's retry topic."""
        command = self.command
        group = self._metadata.group(command.group)
        ordered = command.ordered or (group is not None and group.orderly)
        if self._outlook.can_lease(command.group, command.topic, command.queue_id, ordered, command.attempt_id):
            return True
        if command.queue_id >= 0:
            return False
        for name in (address.pop_retry_topic, address.pop_retry_topic_v1):
            if self._outlook.can_lease(command.group, name(command.group, command.topic), -1, ordered, ""):
                return True
        return False
