"""Applications on HTTP/2: one for each connection, called with the events of its streams, answering through `Reply`.

The connection handles frames, flow control and limits; an application handles requests. Calls come in the order `opened`,
`data`*, `ended` for a whole request, or `cancelled` at any point after `opened`. After `cancelled`, and after the end of its
own response, an application gets no further call for a stream.

Every ticket of an application is a tuple whose element 0 is the application itself, by which the connection routes events.
Events without a ticket (None) go to every application of the connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from domain.command import Command
from domain.event import Event
from protocols.adapter import Peer
from protocols.http2.head import Headers, RequestHead


class StreamReply(Protocol):
    """Answers on streams. Calls for a stream that has ended are ignored."""

    def respond(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Send the response header fields, `:status` first. `end`: the response has no body and no trailers."""

    def send(self, stream_id: int, data: bytes, end: bool) -> None:
        """Send a part of the body, as the peer's windows allow. `end`: it is the last, and there are no trailers."""

    def trailers(self, stream_id: int, headers: Headers) -> None:
        """End the response with trailer fields, after the data of `send`."""

    def reset(self, stream_id: int, code: int) -> None:
        """Reset the stream with an RFC 9113 error code (section 7)."""

    def pending(self, stream_id: int) -> int:
        """Bytes passed to `send` that have not been sent: of one stream, or of all streams for stream 0."""

    def pause(self, stream_id: int) -> None:
        """Stop returning the window of a stream: at most STREAM_WINDOW_BYTES more arrive on it. Other streams go on."""

    def resume(self, stream_id: int) -> None:
        """Return the window withheld since `pause`; without `pause` it does nothing."""


class Reply(StreamReply, Protocol):
    """Answers of an application, and its share of the bounds."""

    def is_full(self) -> bool:
        """True when no more large answers should be made: too many bytes of them wait for this peer to read."""

    def hold(self, size: int) -> None:
        """Count `size` more bytes of complete requests that wait for their turn of the loop; `size` below 0: fewer.

        Nothing is read while there are any, and they share the bound of the incomplete ones (protocols.host_shares).
        """


class Application(Protocol):
    """One application on one connection. Its methods never raise for bytes of a peer."""

    def accepts(self, head: RequestHead) -> bool:
        """True when this application answers a request with this head."""

    def opened(self, stream_id: int, head: RequestHead, now: int) -> Sequence[Command]:
        """A request has begun."""

    def data(self, stream_id: int, data: bytes, now: int) -> Sequence[Command]:
        """A part of the request body, in order; any split."""

    def ended(self, stream_id: int, now: int) -> Sequence[Command]:
        """The request is complete. Trailers of requests are discarded."""

    def cancelled(self, stream_id: int, now: int) -> Sequence[Command]:
        """The peer has reset the stream, or the connection is closed: send no answer."""

    def answer(self, event: Event, now: int) -> None:
        """The event of a command of this application, or an event without a ticket."""

    def deadline(self) -> int | None:
        """Monotonic ns at which to call `expire`; None for never. It is not asked before the first of the other calls."""

    def expire(self, now: int) -> Sequence[Command]:
        """The deadline has passed."""


class Draining(Application, Protocol):
    """An application with a message for its clients when the node stops. The method is optional."""

    def drain(self, now: int) -> Sequence[Command]:
        """Send that message on every stream. Called at most once."""


class ApplicationFactory(Protocol):
    """Makes applications: one factory for the node, made by its declaration (`protocols.declaration`).

    A factory whose applications accept nothing but an extended CONNECT (RFC 8441) has an attribute `tunnels`, which is True:
    they are not asked about other requests.
    """

    name: str

    def open(self, reply: Reply, peer: Peer, now: int) -> Application:
        """The application of a new connection, which is element 0 of each of its tickets."""
