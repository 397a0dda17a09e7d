"""One client connection as the use cases see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from domain.access.principal import Principal
from domain.client.mqtt_session import EndsAt
from domain.errors import Failure
from domain.event import Event, Refused


class ConnectionDriver(Protocol):
    """Driver of a connection, which sends its answers: a pump."""

    def answer(self, event: Event) -> None:
        """Give `event` to the protocol; its bytes are written at the end of this turn of the loop."""

    def close(self) -> None:
        """Close the connection when the queued bytes have been written."""

    def throttle(self, until_ns: int) -> None:
        """Pause reading from this connection until monotonic `until_ns`."""

    def revoke_access(self, failure: Failure) -> None:
        """Notify the client in its protocol that its principal has lost access, and close."""


class ClosedDriver:
    """The driver of a closed connection: does nothing."""

    def answer(self, event: Event) -> None:
        """Discards the event: the connection is closed."""

    def close(self) -> None:
        """Does nothing: the connection is closed."""

    def throttle(self, until_ns: int) -> None:
        """Does nothing: a closed connection is not read."""

    def revoke_access(self, failure: Failure) -> None:
        """Does nothing: the connection is closed."""


CLOSED_DRIVER: Final = ClosedDriver()


WATCHED_MAX: Final = 256
"""Commands of one connection whose answers are written down, and that are not answered."""


class ClientConnection:
    """One client connection.

    host            network of the peer (`domain.address.network_of_host`); "" when the connection stands for many peers
    protocol        label of the protocol, for counters and logs
    driver          what carries answers out
    principal       who the connection belongs to, for commands that carry no principal; None: not known yet
    client_id       client id of an attached MQTT session, "" otherwise
    last_principal  principal of the last command, maintained by access revocation
    shared          True: the connection stands for all peers of a datagram port
    sender          address of the peer whose command is handled, in the form that records store, when it is not a message; b"":
                    not shared, or not known
    forwarded       True: the client is at a gateway, and reaches no other port of the cluster
    ends_at         refusals of messages at which the protocol ends the connection
    refusal         the refusal at which it ends: messages that come behind the refused one are not stored; None: it goes on
    known_elsewhere True: whether the client has authenticated is known to those only to whom its bytes are passed on
    closed          True: the connection has ended, and answers are discarded
    stalled         True: the peer does not read, and senders wait with what can wait
    reads_waiting   reads of messages that wait for a later turn; nothing more is read from the socket meanwhile
    watched         (ticket, what is called with the answer) of commands that are written down; None: there is none
    on_close        called once in order when the connection ends: removes parked polls, watches, memberships
    on_stalled      called when the peer no longer reads; None: nobody waits for that
    on_writable     called when a stalled peer reads again; None: nobody waits for that
    """

    __slots__ = (
        "_written", "client_id", "closed", "driver", "ends_at", "forwarded", "host", "known_elsewhere", "last_principal",
        "on_close", "on_stalled", "on_writable", "principal", "protocol", "reads_waiting", "refusal", "sender", "shared",
        "stalled", "watched",
    )  # fmt: skip

    def __init__(
        self, protocol: str, driver: ConnectionDriver, principal: Principal | None = None, shared: bool = False
    ) -> None:
        self.protocol = protocol
        self.driver: ConnectionDriver = driver
        self.principal = principal
        self.client_id = ""
        self.host = ""
        self.last_principal: Principal | None = None
        self.shared = shared
        self.sender = b""
        self.forwarded = False
        self.ends_at = EndsAt.NONE
        self.refusal: Failure | None = None
        self.known_elsewhere = False
        self.closed = False
        self.stalled = False
        self.reads_waiting: int = 0
        self.watched: list[tuple[object, Callable[[Event | None], None]]] | None = None
        self.on_close: list[Callable[[], None]] = []
        self.on_stalled: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self._written: Callable[[int], None] | None = None

    def answer(self, event: Event) -> None:
        """Send an event to the client; discarded when the connection is closed."""
        if self.watched is not None:
            self._tell_watchers(event)
        if not self.closed:
            self.driver.answer(event)

    def watch_answer(self, ticket: object, answered: Callable[[Event | None], None]) -> None:
        """Call `answered` with the answer to the command of `ticket`; with None when the connection ends before, or when more
        than WATCHED_MAX answers are waited for."""
        watched = self.watched
        if watched is None:
            watched = self.watched = []
        watched.append((ticket, answered))
        if len(watched) > WATCHED_MAX:
            watched.pop(0)[1](None)

    def _tell_watchers(self, event: Event) -> None:
        for at, (ticket, answered) in enumerate(self.watched or ()):
            if ticket is event.ticket:
                watched = self.watched
                assert watched is not None
                del watched[at]
                if not watched:
                    self.watched = None
                answered(event)
                return

    def refuse(self, ticket: object, failure: Failure) -> None:
        """Refuse a command that is to store messages. If the connection ends at that, it takes no more messages from now on:
        its client sends the refused one again, which has to come before them."""
        self.stop_messages(failure)
        self.answer(Refused(ticket, failure))

    def stop_messages(self, failure: Failure) -> None:
        """Messages are refused with `failure`, or will be: as `refuse`, without an answer."""
        if self.refusal is None and self.ends_at.covers(failure):
            self.refusal = failure

    def became_stalled(self) -> None:
        """The peer does not read any more."""
        self.stalled = True
        if self.on_stalled is not None and not self.closed:
            self.on_stalled()

    def became_writable(self) -> None:
        """The peer reads again after it was stalled."""
        self.stalled = False
        if self.on_writable is not None and not self.closed:
            self.on_writable()

    def count_writes(self, written: Callable[[int], None]) -> None:
        """Call `written`, instead of an earlier one, with bytes that are written for a command in a later turn, also after the
        end of the connection."""
        self._written = written

    def wrote(self, size: int) -> None:
        """`size` bytes are written for a command of it in a later turn than that in which it came, or at its end."""
        if self._written is not None:
            self._written(size)

    def end(self) -> None:
        """The connection has ended: call `on_close`, and discard answers from now on."""
        if self.closed:
            return
        self.closed = True
        watched, self.watched = self.watched, None
        for _, answered in watched or ():
            answered(None)
        for undo in self.on_close:
            undo()
        self.on_close.clear()
        # The driver refers to this connection too: without the cycle, the memory of both is freed at once.
        self.on_stalled = None
        self.on_writable = None
        self.driver = CLOSED_DRIVER
