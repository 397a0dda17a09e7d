"""One AwaitMessages command from its first look at the store to its answer."""

from __future__ import annotations

from typing import final

from domain import address, limits
from domain.command import AwaitMessages
from domain.errors import Failure
from domain.event import MessagesWaiting, Refused
from domain.store_ports import Metadata, Outlook
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.waiting.long_polls import LongPoll, LongPolls


@final
class AwaitPoll:
    """A call that asks whether its group has something to receive. It is parked while `_poll` is set."""

    __slots__ = ("_long_polls", "_metadata", "_outlook", "_poll", "command", "connection")

    def __init__(
        self, outlook: Outlook, metadata: Metadata, long_polls: LongPolls, connection: ClientConnection,
        command: AwaitMessages,
    ) -> None:  # fmt: skip
        self._outlook = outlook
        self._metadata = metadata
        self._long_polls = long_polls
        self.connection = connection
        self.command = command
        self._poll: LongPoll | None = None

    def start(self) -> None:
        """Answer at once when there are messages or the command does not wait, else park the call."""
        command = self.command
        if self._is_waiting():
            self._answer(there=True)
        elif command.wait_ms <= 0:
            self._answer(there=False)
        else:
            key = (command.group, command.topic, command.queue_id)
            self._poll = self._long_polls.park(key, min(command.wait_ms, limits.WAIT_MS_MAX), self)
            if self._poll is None:
                self._answer(there=False, full=True)
            else:
                self.connection.on_close.append(self.abandon)

    def attempt(self) -> bool:
        """Look again. Returns True when there are messages and the call is answered."""
        there = self._is_waiting()
        if there:
            self._answer(there=True)
        return there

    def expire(self) -> None:
        """Answer that there is nothing: the wait time is over."""
        self._answer(there=False)

    def refuse(self, failure: Failure) -> None:
        """Answer Refused: the client may not receive these messages any more."""
        self._tell(Refused(self.command.ticket, failure))

    def abandon(self) -> None:
        """Leave the long polls: the connection has closed."""
        if self._poll is not None:
            self._long_polls.leave(self._poll)

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

    def _answer(self, *, there: bool, full: bool = False) -> None:
        self._tell(MessagesWaiting(self.command.ticket, there, full))

    def _tell(self, event: MessagesWaiting | Refused) -> None:
        if self._poll is not None and self.abandon in self.connection.on_close:
            self.connection.on_close.remove(self.abandon)
        self.connection.answer(event)
