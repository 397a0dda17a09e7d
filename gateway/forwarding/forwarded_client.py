"""A client of this gateway whose commands are carried out by another node."""

from __future__ import annotations

from typing import final

from domain.command import Watch
from gateway.connection.client_connection import ClientConnection


@final
class ForwardedClient:
    """One connection of a client.

    number       on the wire
    tickets      number -> ticket of a command without an answer; of a Receive: the command
    watches      number of a watch -> the command
    reads_wait   True: nothing is read from it, because reads of messages wait at the store's node
    departed     True: it has gone; the store's node has still to say that it has heard so
    """

    __slots__ = ("connection", "departed", "number", "reads_wait", "tickets", "watches")

    def __init__(self, number: int, connection: ClientConnection) -> None:
        self.number = number
        self.connection = connection
        self.tickets: dict[int, object] = {}
        self.watches: dict[int, Watch] = {}
        self.reads_wait = False
        self.departed = False

    def watch_of(self, ticket: object) -> int:
        """The number of the watch with this ticket, 0: there is none."""
        return next((number for number, watch in self.watches.items() if watch.ticket == ticket), 0)
