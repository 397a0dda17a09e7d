"""The contract between a protocol and the gateway.

One turn of the event loop: the shell (`gateway.connection`) passes the received bytes to `receive`, the gateway executes the
commands that it returns, events go to `answer`, and the shell writes the bytes of `outgoing` with one call. Messages have no
task of their own, and an adapter never calls the gateway.

`receive` does not raise for any input of a peer: an error of the peer queues the protocol's error answer, sets `closed` and
returns `Disconnected(reason)`. An exception from an adapter is a bug of the adapter; it closes that one connection only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from domain.access.access import Credentials
from domain.command import Command
from domain.event import Event


def ignore_refusal(protocol: str, word: str) -> None:
    """Ignore a refusal: the default of `Setting.refused`, for adapters whose refusals are not counted."""


class Peer(NamedTuple):
    """The remote end of a connection, or the source of a datagram. Made for each connection: a tuple is made fastest.

    host         its IP address
    born_host    its address and port in the form that records store
    local_host   the address of this end
    tls          True: the connection is inside TLS
    principal    the name in its verified client certificate, "" without one
    credentials  the credentials that its session has proven, None: none
    source       identifies its session, b"": its address does
    """

    host: str
    port: int
    born_host: bytes
    local_host: str = "127.0.0.1"
    local_port: int = 0
    tls: bool = False
    principal: str = ""
    credentials: Credentials | None = None
    source: bytes = b""


class Connection(Protocol):
    """One stream connection of one client."""

    @property
    def reading(self) -> bool:
        """False: do not read the socket (backpressure). The shell checks it after every call."""

    @property
    def closed(self) -> bool:
        """True: write the bytes of `outgoing`, then close the socket."""

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes from the peer and return their commands; b"" is end of stream. Never raises for input of a peer."""

    def answer(self, event: Event, now: int) -> None:
        """Encode an event for a ticket of this connection, or one without a ticket (None); `outgoing` returns the bytes."""

    def outgoing(self) -> Sequence[bytes]:
        """Take all bytes to be written, in order; the next call does not return them again."""

    def deadline(self) -> int | None:
        """Monotonic ns at which `expire` is due; None for never. The shell reads it after every other call."""

    def expire(self, now: int) -> Sequence[Command]:
        """Handle deadlines that have passed (keep-alive, handshake, retransmission) and return the commands they cause."""


class Parking(Connection, Protocol):
    """A connection in which received input may wait, for an answer or for a later turn. Optional.

    The end of the stream is behind that input: `receive(b"")` ends nothing yet then, and what waits is handled by `answer` and
    `expire`, whose commands end with Disconnected. That is also so when the socket is closed meanwhile.
    """

    @property
    def unhandled(self) -> bool:
        """True while received input waits. It does not wait for ever: `deadline` says how long at most."""


class Draining(Connection, Protocol):
    """A connection whose protocol has a message for "the server stops". Optional: other connections are closed without it."""

    def drain(self, now: int) -> Sequence[Command]:
        """Queue that message. The connection becomes `closed` now, or with the answer to its last command.

        Called at most once, after all appends in flight are answered. Parked calls are refused with DRAINING after it.
        """


class Adapter(Protocol):
    """A stream protocol, made by its declaration (`protocols.declaration`)."""

    name: str

    def connect(self, peer: Peer, now: int) -> Connection:
        """A new connection; its handshake deadline starts at `now` (monotonic ns)."""


@runtime_checkable
class CarriedApart(Protocol):
    """A stream adapter that has another one for WebSockets. Optional: others are carried as a stream of bytes."""

    @property
    def over_websockets(self) -> Adapter:
        """The adapter that a WebSocket carries at the protocol's path."""


@runtime_checkable
class Losing(Protocol):
    """An adapter that counts messages which it dropped instead of delivering them. Optional."""

    @property
    def lost(self) -> Mapping[str, int]:
        """Number of dropped messages by reason; always the same mapping, updated in place."""


class Endpoint(Protocol):
    """One bound socket of a datagram protocol, with all its peers. The methods of Connection, with the peer as a parameter."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of dropped and refused datagrams by reason; always the same mapping, updated in place."""

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        """Decode one datagram and return its commands. Never raises for input of a peer."""

    def answer(self, event: Event, now: int) -> None:
        """As for Connection; the peer is found by the event's ticket."""

    def outgoing(self) -> Sequence[tuple[bytes, tuple[str, int]]]:
        """Take all (datagram, (host, port)) pairs to be sent, in order."""

    def deadline(self) -> int | None:
        """As for Connection."""

    def expire(self, now: int) -> Sequence[Command]:
        """As for Connection."""


@runtime_checkable
class SecuredEndpoint(Endpoint, Protocol):
    """An endpoint that can be inside DTLS. Its peers then have a `source`, and the number of their session as `port`."""

    def forget(self, peer: Peer, now: int) -> Sequence[Command]:
        """The session of this peer has ended: forget it. Answers to its requests are discarded."""


@runtime_checkable
class DrainedEndpoint(Endpoint, Protocol):
    """An endpoint that notifies its peers of its end."""

    def drain(self, now: int) -> None:
        """The node stops, and nothing is received any more: queue a notification of the peers, behind the answers."""


class DatagramAdapter(Protocol):
    """A datagram protocol, made by its declaration."""

    name: str

    def bind(self, now: int) -> Endpoint:
        """State for one bound socket."""
