"""Clients of this gateway whose commands another node handles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from domain.admin.data_topic import DataTopicJoined, JoinDataTopic, LeaveDataTopic
from domain.admin.subscription import LeaseDeliveries
from domain.client.mqtt_session import ReadingResumed
from domain.command import Command, Receive, Unwatch, Watch
from domain.errors import ErrorCode, Failure
from domain.event import Event, Received, Refused, WatchedMessages, WatchStarted
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from protocols.remoting.nodes.calls.octets import I64, Reader
from protocols.remoting.nodes.calls.values import FAILURE
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.kind import EVENT_KINDS, Kind

_WATCHING: Final = frozenset({WatchedMessages, WatchStarted, DataTopicJoined})
_BEFORE_TICKETS: Final = 1
"""Numbers of tickets start after this one."""


@final
class ForwardedClient:
    """One connection of a client.

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

    def refuse(self, ticket: object, failure: Failure) -> None:
        """Answer the command of `ticket`, a value of `tickets`, with a failure."""
        self.connection.answer(Refused(ticket.ticket if isinstance(ticket, Receive) else ticket, failure))

    def resume_reading(self) -> None:
        """Read from it again, if nothing is read because of the store's node."""
        if self.reads_wait:
            self.reads_wait = False
            self.connection.reads_waiting -= 1
            self.connection.answer(ReadingResumed())


@final
class ForwarderClients:
    """All clients on one stream, and what the store's node does with their connections.

    of         the clients that are connected
    numbered   number on the wire -> client, also of one that has gone until the store's node confirms it
    """

    def __init__(self, clock: Clock, give_back: Callable[[Receive, Received], None]) -> None:
        """`give_back` is called with the messages that arrive for a disconnected client, and with its Receive command."""
        self.of: dict[ClientConnection, ForwardedClient] = {}
        self.numbered: dict[int, ForwardedClient] = {}
        self._clock = clock
        self._give_back = give_back
        self._ticket_number = _BEFORE_TICKETS
        self._doubt = ""

    def take_doubt(self) -> str:
        """Text of the newest refusal since the last call that another replica might not give; "": there was none."""
        found, self._doubt = self._doubt, ""
        return found

    def items(self) -> dict[int, Callable[[Reader], None]]:
        """Kind of an item that the store's node sends about a client -> what takes it."""
        return {
            item.EVENT: self._event,
            item.CLOSE: self._close,
            item.THROTTLE: self._throttle,
            item.REVOKE: self._revoke,
            item.READS_WAIT: self._reads_wait,
            item.GONE: self._gone,
        }

    def ticket(self, client: ForwardedClient, kind: Kind, command: Command) -> int:
        """The number that stands for the command's ticket; NO_TICKET: no answer is expected."""
        of = type(command)
        if of is Unwatch or of is LeaveDataTopic:
            assert isinstance(command, Unwatch | LeaveDataTopic)
            number = client.watch_of(command.ticket)
            client.unwatch(number)
            client.tickets.pop(number, None)
            return number
        asked: Any = command
        if not kind.ticketed or (kind.waits and not asked.wait):
            return item.NO_TICKET
        ticket: object = asked.ticket
        if of is Watch or of is JoinDataTopic:
            assert isinstance(command, Watch | JoinDataTopic)
            number = client.watch_of(ticket)
            if not number:
                self._ticket_number += 1
                number = self._ticket_number
            client.watch(number, command)
            return number
        self._ticket_number += 1
        if ticket is not None:
            lease = asked.lease if of is LeaseDeliveries else command
            client.tickets[self._ticket_number] = lease if isinstance(lease, Receive) else ticket
        return self._ticket_number

    def unanswered(self) -> int:
        """Number of unanswered commands, without receives and watches, which may wait for messages."""
        return sum(
            number not in client.watches and not isinstance(ticket, Receive)
            for client in self.numbered.values()
            for number, ticket in client.tickets.items()
        )

    def refuse_waiting(self, failure: Failure) -> None:
        """Refuse all unanswered commands, since this gateway stops. Messages that arrive for them later are given back."""
        for client in list(self.numbered.values()):
            if client.departed:
                continue
            client.departed = True
            for number, ticket in list(client.tickets.items()):
                if number in client.watches:
                    continue
                if not isinstance(ticket, Receive):
                    del client.tickets[number]
                client.refuse(ticket, failure)

    def _event(self, reader: Reader) -> None:
        number, ticket_number = reader.unpack(item.OF_EVENT)
        event: Event = EVENT_KINDS.get(reader)
        if type(event) is Refused and _is_doubtful(event.failure):
            self._doubt = event.failure.text
        client = self.numbered.get(number)
        if client is None:
            return
        ticket: object = None
        if ticket_number:
            ticket = client.tickets.get(ticket_number)
            if ticket is None:
                return  # a watch that has ended, or an answer that nobody expects
            if type(event) not in _WATCHING:
                del client.tickets[ticket_number]
                client.unwatch(ticket_number)
        if isinstance(ticket, Receive):
            if client.departed:
                if isinstance(event, Received) and event.messages:
                    self._give_back(ticket, event)
                return
            ticket = ticket.ticket
        answer: Any = event
        answer.ticket = ticket
        client.connection.answer(event)

    def _client(self, reader: Reader) -> ForwardedClient | None:
        return self.numbered.get(I64.get(reader))

    def _close(self, reader: Reader) -> None:
        client = self._client(reader)
        if client is not None and not client.departed:
            client.connection.driver.close()

    def _throttle(self, reader: Reader) -> None:
        client, wait_ns = self._client(reader), I64.get(reader)
        if client is not None:
            client.connection.driver.throttle(self._clock.monotonic_ns() + max(wait_ns, MILLISECOND_NS))

    def _revoke(self, reader: Reader) -> None:
        client, failure = self._client(reader), FAILURE.get(reader)
        if client is not None and not client.departed:
            client.connection.driver.revoke_access(failure)

    def _reads_wait(self, reader: Reader) -> None:
        client, waits = self._client(reader), reader.take(1) != b"\x00"
        if client is None or client.departed or waits == client.reads_wait:
            return
        if waits:
            client.reads_wait = True
            client.connection.reads_waiting += 1
        else:
            client.resume_reading()

    def _gone(self, reader: Reader) -> None:
        self.numbered.pop(I64.get(reader), None)


def _is_doubtful(failure: Failure) -> bool:
    """True for the refusals of a leader that cannot confirm, as one that was replaced."""
    return failure.code is ErrorCode.STORE_UNAVAILABLE or (failure.code is ErrorCode.FLUSH_TIMEOUT and failure.copies)
