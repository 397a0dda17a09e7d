"""Client of this gateway whose commands another node handles."""

from __future__ import annotations

from typing import final

from domain.admin.data_topic import JoinDataTopic
from domain.command import Watch
from gateway.connection.client_connection import ClientConnection


@final
class ForwardedClient:
    """One connection of a client.

    number       number of the client on the wire
    tickets      number -> ticket of a command without an answer; of a Receive, also under a claim: the Receive
    watches      number of a command that is answered again and again -> the command
    numbers      its ticket -> its number
    reads_wait   True: nothing is read from it, because reads of messages wait at the store's node
    departed     True: it has gone; the store's node has still to confirm that
    """

    __slots__ = ("connection", "departed", "number", "numbers", "reads_wait", "tickets", "watches")

    def __init__(self, number: int, connection: ClientConnection) -> None:
        self.number = number
        self.connection = connection
        self.tickets: dict[int, object] = {}
        self.watches: dict[int, Watch | JoinDataTopic] = {}
        self.numbers: dict[object, int] = {}
        self.reads_wait = False
        self.departed = False

    def watch_of(self, ticket: object) -> int:
        """The number of the command in `watches` with this ticket, 0: there is none."""
        return self.numbers.get(ticket, 0)

    def watch(self, number: int, command: Watch | JoinDataTopic) -> None:
        """Register a command that is answered repeatedly."""
        self.watches[number] = command
        self.numbers[command.ticket] = number
        self.tickets[number] = command.ticket

    def unwatch(self, number: int) -> None:
        """Remove a command that is not answered any more. No effect for the number of another command."""
        watch = self.watches.pop(number, None)
        if watch is not None:
            del self.numbers[watch.ticket]
