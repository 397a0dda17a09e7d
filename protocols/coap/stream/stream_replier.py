"""Responses over a stream: one message each, as soon as they are ready, without message ids (RFC 8323, 3.3)."""

from __future__ import annotations

from typing import Final, final

from protocols.coap.exchange.exchange import Exchange, Remote
from protocols.coap.message import message
from protocols.coap.message.frame import Framing
from protocols.coap.message.message import Pairs
from protocols.coap.observe.observations import Observation
from protocols.coap.stream.streams import Streams

READS: Final = (message.GET, message.FETCH)
"""Methods whose answers are values, which may be large. What a protected request asks for is not known when it begins."""
HEAD_BYTES: Final = 8
"""Bytes of a message besides its token, options and payload, at most."""


@final
class StreamReplier:
    """The `Responder` of one connection.

    streams             what all connections share
    framing             encodes messages
    out                 encoded messages that wait to be written
    unwritten           their bytes
    open                requests in execution, oldest first; True: it counts in `reads`
    reads               how many of them are answered with values
    message_bytes_max   the largest message that the peer takes
    """

    __slots__ = ("framing", "message_bytes_max", "open", "out", "reads", "streams", "unwritten")

    def __init__(self, streams: Streams, framing: Framing, message_bytes_max: int) -> None:
        self.streams = streams
        self.framing = framing
        self.message_bytes_max = message_bytes_max
        self.out: list[bytes] = []
        self.unwritten = 0
        self.open: dict[Exchange, bool] = {}
        self.reads = 0

    @property
    def confirms(self) -> bool:
        """False: a stream has no acknowledgements."""
        return False

    def write(self, code: int, token: bytes, options: bytes, payload: bytes) -> None:
        """Queue one message."""
        data = self.framing.encode(code, token, options, payload)
        self.unwritten += len(data)
        self.out.append(data)

    def begin(self, exchange: Exchange) -> None:
        """Count a request in execution."""
        reads = exchange.code in READS or exchange.options.oscore is not None
        self.open[exchange] = reads
        self.reads += reads
        exchange.remote.executing += 1

    def enter(self, exchange: Exchange, now: int) -> bool:
        """True: a stream repeats nothing, so that there are no duplicates."""
        return True

    def reply(self, exchange: Exchange, code: int, pairs: Pairs, payload: bytes, now: int) -> None:
        """Answer a request. A second answer to the same exchange is ignored."""
        self.emit(exchange, code, exchange.encoded(pairs), payload, now)

    def emit(self, exchange: Exchange, code: int, options: bytes, payload: bytes, now: int) -> None:
        """As `reply`, with encoded options. Classes that No-Response names are not answered (RFC 7967)."""
        if exchange.settled:
            return
        self.release(exchange)
        if exchange.waives(code):
            return
        found = exchange.response(code, options, payload, self.message_bytes_max - HEAD_BYTES)
        if found is None:
            self.count("oscore-numbers")
        else:
            self.write(found[0], exchange.token, found[1], found[2])

    def release(self, exchange: Exchange) -> None:
        """End the exchange without a response."""
        if not exchange.settled:
            exchange.settled = True
            exchange.remote.executing -= 1
            self.reads -= self.open.pop(exchange)

    def challenge(self, exchange: Exchange, now: int) -> None:
        """4.01: the response does not fit into the largest message that the peer takes."""
        self.reply(exchange, message.UNAUTHORIZED, [], b"the response needs a larger Max-Message-Size", now)

    def room(self, exchange: Exchange, total: int, now: int) -> int:
        """Bytes that the response may have: the peer's Max-Message-Size."""
        return self.message_bytes_max - HEAD_BYTES - exchange.overhead

    def count(self, why: str) -> None:
        """Count a refusal under a reason."""
        self.streams.count(why)

    def proved(self, remote: Remote, now: int) -> bool:
        """True: the peer has sent what nobody else could have sent."""
        return True

    def separate(self, exchange: Exchange) -> None:
        """Nothing: a stream has no acknowledgements of its own."""

    def notify(self, observation: Observation, now: int) -> bool:
        """True: the connection sends notifications when its peer reads."""
        return True

    def abandon(self, observation: Observation, now: int) -> None:
        """Nothing waits: notifications are encoded when they are written."""
