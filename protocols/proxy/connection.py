"""A connection that begins with a PROXY header: reads the header, then makes the next connection with the client's address."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, final

from domain import limits
from domain.address import host_bytes
from domain.command import Command, Disconnected
from domain.event import Event
from protocols.adapter import Connection, Peer
from protocols.proxy.header import Header, begins, read


class NextConnection(Connection, Protocol):
    """The connection after the header (`protocols.registry.Opening`)."""

    @property
    def protocol(self) -> str:
        """Name of the protocol, "" until it is recognised."""

    @property
    def chosen(self) -> Connection:
        """The connection that the shell calls from now on."""

    @property
    def peer(self) -> Peer:
        """The remote end of the connection."""


@final
class ProxiedConnection:
    """A `Connection` from a peer that is allowed to send a PROXY header.

    It is closed when the header, or other first bytes, have not arrived within 10 s. Then `chosen` is the next connection.

    required   True: a connection without a header is closed (`proxy-missing`)
    """

    __slots__ = ("_connect", "_deadline", "_inner", "_kept", "_peer", "_required", "closed", "reading")

    def __init__(self, connect: Callable[[Peer, int], NextConnection], required: bool, peer: Peer, now: int) -> None:
        self._connect = connect
        self._required = required
        self._peer = peer
        self._kept = b""
        self._deadline = now + limits.HANDSHAKE_NS
        self._inner: NextConnection | None = None
        self.reading = True
        self.closed = False

    @property
    def peer(self) -> Peer:
        """The client after the header, the proxy before."""
        return self._peer if self._inner is None else self._inner.peer

    @property
    def protocol(self) -> str:
        """Name of the protocol after the header, "" until it is recognised."""
        return "" if self._inner is None else self._inner.protocol

    @property
    def chosen(self) -> Connection:
        """This object until the header is complete, then the next connection."""
        return self if self._inner is None else self._inner.chosen

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes of the header, and pass the bytes after it to the next connection."""
        if self._inner is not None:
            return self._inner.chosen.receive(data, now)
        if not data:
            return self._end("proxy-malformed" if self._kept else "silent")
        self._kept += data
        begun = begins(self._kept)
        if begun is None:
            return ()
        if not begun:
            return self._end("proxy-missing") if self._required else self._connect_next(self._peer, self._kept, now)
        header = read(self._kept)
        if header is None:
            return ()
        if isinstance(header, str):
            return self._end("proxy-malformed")
        return self._connect_next(_peer_of(self._peer, header), self._kept[header.size :], now)

    def _connect_next(self, peer: Peer, rest: bytes, now: int) -> Sequence[Command]:
        self._kept = b""
        self._inner = self._connect(peer, now)
        return self._inner.receive(rest, now) if rest else ()

    def answer(self, event: Event, now: int) -> None:
        """Pass an event to the next connection."""
        if self._inner is not None:
            self._inner.chosen.answer(event, now)

    def outgoing(self) -> Sequence[bytes]:
        """Bytes of the next connection; none before the header is complete."""
        return () if self._inner is None else self._inner.chosen.outgoing()

    def deadline(self) -> int | None:
        """Monotonic ns: the end of the header's 10 s, then the deadline of the next connection."""
        return self._deadline if self._inner is None else self._inner.chosen.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """Close the connection when the header did not arrive in time."""
        if self._inner is not None:
            return self._inner.chosen.expire(now)
        return self._end("handshake-deadline" if self._kept else "silent")

    def _end(self, reason: str) -> Sequence[Command]:
        if self.closed:
            return ()
        self.closed = True
        return (Disconnected(reason),)


def _peer_of(proxy: Peer, header: Header) -> Peer:
    """The peer with the addresses of the header; the proxy itself when the header has none."""
    if header.source is None or header.destination is None:
        return proxy
    host, port = header.source
    local_host, local_port = header.destination
    born_host = host_bytes(host, port)
    return proxy._replace(host=host, port=port, born_host=born_host, local_host=local_host, local_port=local_port)
