"""Messages that clients send in one turn of the loop, each with a command of its own.

Appended one by one, each costs an append with an answer of its own. Together they cost one, as those of one command do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import Failure
from domain.event import Sent
from domain.message.message import Message, Placed
from domain.store.store_ports import MessageLog
from gateway.connection.client_connection import ClientConnection

RECORD_BYTES: Final = 256
"""Bytes counted for a message beside its body and its properties."""
GATHERED_BODY_BYTES_MAX: Final = 16 * 1024
"""Messages with larger bodies are appended alone: beside such a body an append costs little."""
GATHERED_BYTES_MAX: Final = 128 * 1024
"""Bytes of gathered messages; above it they are appended before the end of the turn."""


@final
class GatheredSends:
    """Accepted messages of one topic, to be appended at the end of the turn.

    Whoever appends anything else appends these first (`append`), so that the order of arrival is that of the log. A store that
    is one log refuses them all alike: it is full, it does not lead, or too few replicas are in sync.

    bytes   of those that are not appended yet
    """

    __slots__ = ("_call_soon", "_log", "_messages", "_senders", "bytes")

    def __init__(self, log: MessageLog, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._log = log
        self._call_soon = call_soon
        self._messages: list[Message] = []
        self._senders: list[tuple[ClientConnection | None, object]] = []
        self.bytes = 0

    def add(self, connection: ClientConnection, ticket: object, message: Message, wait: bool) -> None:
        """Append an accepted message at the end of the turn. `wait`: Sent or Refused answers `connection`."""
        if not self._messages:
            self._call_soon(self.append)
        elif self._messages[0].topic != message.topic:
            self.append()
        if connection.refusal is not None:
            if wait:
                connection.refuse(ticket, connection.refusal)
            return
        self._messages.append(message)
        self._senders.append((connection if wait else None, ticket))
        self.bytes += RECORD_BYTES + len(message.body) + len(message.properties)
        if self.bytes > GATHERED_BYTES_MAX:
            self.append()

    def append(self) -> None:
        """Append the gathered messages; nothing else was appended since the first of them came."""
        if not self._messages:
            return
        messages, senders = self._messages, self._senders
        self._messages, self._senders = [], []
        self.bytes = 0

        def done(result: list[Placed] | Failure) -> None:
            for at, (connection, ticket) in enumerate(senders):
                if connection is None:
                    continue
                if isinstance(result, Failure):
                    connection.refuse(ticket, result)
                else:
                    connection.answer(Sent(ticket, [result[at]]))

        self._log.append(messages, done)
