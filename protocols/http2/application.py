"""What speaks above HTTP/2: an application a connection, told of its streams, answering through `Reply`.

The connection owns frames, flow control and abuse limits; an application owns the meaning of requests. Calls come in the order
`opened`, `data`*, `ended` for a whole request, or `cancelled` at any point after `opened`; after `cancelled`, and after the end
of its own response, an application hears nothing more of a stream.

Every ticket that an application mints is a tuple whose element 0 is the application itself: so the connection routes events.
Unasked events (ticket None) go to every application of the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from domain.command import Command
from domain.event import Event
from protocols.adapter import Peer

Headers = list[tuple[bytes, bytes]]
"""Header fields in order, names in lower case, pseudo-header fields (`:method`, `:path`, …) among them and first."""


class Reply(Protocol):
    """How an application answers. Calls for a stream that is gone are ignored: its peer no longer listens."""

    def respond(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Send the response header fields, `:status` first; `end`: there is no body and there are no trailers."""

    def send(self, stream_id: int, data: bytes, end: bool) -> None:
        """Send a piece of the body, as the peer's windows allow; `end`: it was the last, without trailers."""

    def trailers(self, stream_id: int, headers: Headers) -> None:
        """End the response with trailer fields, after what `send` still holds."""

    def reset(self, stream_id: int, code: int) -> None:
        """Give the stream up with an RFC 9113 error code (section 7)."""

    def pending(self, stream_id: int) -> int:
        """Body bytes given to `send` that have not left yet; of stream 0, the connection: those of all streams."""

    def pause(self, stream_id: int) -> None:
        """Give the peer no more room on a stream than it has: at most STREAM_WINDOW_BYTES more arrive. Others go on."""

    def resume(self, stream_id: int) -> None:
        """Give back all the room that arrived since `pause`; harmless without it."""


class Application(Protocol):
    """One connection's share of one application. Nothing here raises for what a peer sends."""

    def accepts(self, headers: Headers) -> bool:
        """True when a request with these header fields is for this application."""

    def opened(self, stream_id: int, headers: Headers, now: int) -> Sequence[Command]:
        """A request has begun."""

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """A piece of its body, in order, split anywhere."""

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        """The request is complete. Trailers of a request are read and dropped."""

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """The peer reset the stream, or the connection is lost: answer no more."""

    def answer(self, event: Event, now: int) -> None:
        """The event of a command of this application, or an unasked one."""

    def deadline(self) -> int | None:
        """Monotonic ns at which `expire` wants to be called; None for never."""

    def expire(self, now: int) -> Sequence[Command]:
        """The deadline has come."""


class Draining(Application, Protocol):
    """An application that can say in its own words that the node stops. The verb is optional."""

    def drain(self, now: int) -> Sequence[Command]:
        """Say goodbye on every stream. Called at most once."""


class ApplicationFactory(Protocol):
    """An application as the node knows it: one for the whole node, made by its declaration (`protocols.declaration`)."""

    name: str

    def open(self, reply: Reply, peer: Peer, now: int) -> Application:
        """Its share of a new connection. Element 0 of each ticket minted by it is what this returns."""
