"""The contract between a protocol and the gateway.

One loop turn: the shell hands in what arrived, the gateway handles the commands that come back, events go to `answer`,
and the shell drains `outgoing` into one write. There is no task a message and no callback into the gateway.

A hostile peer cannot raise out of `receive`: its fault queues the protocol's goodbye, sets `closed` and yields
`Disconnected(reason)`. An exception out of an adapter is our bug; it costs the peer its connection and nobody else anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from domain.command import Command
from domain.event import Event


def unheard(protocol: str, word: str) -> None:
    """Where nobody counts refusals."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end.

    born_host   the address in record form
    principal   the name in its verified certificate, "" when it has shown none
    """

    host: str
    port: int
    born_host: bytes
    local_host: str = "127.0.0.1"
    local_port: int = 0
    tls: bool = False
    principal: str = ""


class Connection(Protocol):
    """One stream connection of one client."""

    @property
    def reading(self) -> bool:
        """False: stop reading the socket. Backpressure is a fact that the shell looks at after every call."""

    @property
    def closed(self) -> bool:
        """True: write what `outgoing` still has, then close."""

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Bytes from the peer; b"" is end of stream. Never raises for what a peer sends."""

    def answer(self, event: Event, now: int) -> None:
        """An event for a ticket of this connection, or an unasked one (ticket None); becomes bytes in `outgoing`."""

    def outgoing(self) -> Sequence[bytes]:
        """All bytes to be written, in order; they are the shell's now."""

    def deadline(self) -> int | None:
        """Monotonic ns at which `expire` wants to be called; None for never. Looked at after every other call."""

    def expire(self, now: int) -> Sequence[Command]:
        """The deadline has come: keep-alive, handshake, retransmission."""


class Draining(Connection, Protocol):
    """A connection that can say in its protocol's words that the node stops. The verb is optional: others are just closed."""

    def drain(self, now: int) -> Sequence[Command]:
        """Queue the goodbye and end. Called at most once, when everything in flight has been answered."""


class Adapter(Protocol):
    """A stream protocol, made by its declaration (`protocols.declaration`)."""

    name: str

    def connect(self, peer: Peer, now: int) -> Connection:
        """A new connection; its handshake deadline runs from `now`."""


@runtime_checkable
class Losing(Protocol):
    """An adapter that counts messages which did not reach its clients. Optional."""

    @property
    def lost(self) -> Mapping[str, int]:
        """Messages by reason; one mapping for the adapter's life, growing."""


class Endpoint(Protocol):
    """One bound socket of a datagram protocol, all its peers together. The same verbs, with the peer beside the bytes."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What came to nothing, by reason; one mapping for the endpoint's life, growing."""

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        """One datagram. Never raises for what a peer sends."""

    def answer(self, event: Event, now: int) -> None:
        """As for Connection; the ticket knows the peer."""

    def outgoing(self) -> Sequence[tuple[bytes, tuple[str, int]]]:
        """(datagram, address) pairs to be sent, in order."""

    def deadline(self) -> int | None:
        """As for Connection."""

    def expire(self, now: int) -> Sequence[Command]:
        """As for Connection."""


class DatagramAdapter(Protocol):
    """A datagram protocol, made by its declaration."""

    name: str

    def bind(self, now: int) -> Endpoint:
        """State for one bound socket."""
