"""Responses and notifications over a stream: one message each, when they are ready, without message ids (RFC 8323, 3.3)."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from protocols.coap.exchange.exchange import Exchange, Remote
from protocols.coap.message import message
from protocols.coap.message.frame import Framing
from protocols.coap.message.message import Pairs
from protocols.coap.observe.observations import Observation, Observations
from protocols.coap.responses import Responses
from protocols.coap.stream.streams import Streams

NOTIFIED_BYTES: Final = 64 * 1024
"""Bytes of notifications encoded per turn."""
READS: Final = (message.GET, message.FETCH)
"""Methods whose responses are values, which may be large. The method of a protected request is not known when it starts."""
HEAD_BYTES: Final = 8
"""Bytes of a message besides token, options and payload, at most."""


@final
class StreamReplier:
    """The `Responder` of one connection.

    unwritten           bytes of `out`
    open                requests in execution, oldest first -> True when counted in `reads`
    reads               number of requests in execution that may be answered with values
    message_bytes_max   largest message that the peer accepts
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
        """Always False: a stream has no acknowledgements."""
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
        """Always True: a stream has no duplicates."""
        return True

    def reply(self, exchange: Exchange, code: int, pairs: Pairs, payload: bytes, now: int) -> None:
        """Answer a request. A second answer to the same exchange is ignored."""
        self.emit(exchange, code, exchange.encoded(pairs), payload, now)

    def emit(self, exchange: Exchange, code: int, options: bytes, payload: bytes, now: int) -> None:
        """As `reply`, with encoded options. Response classes that No-Response names are not sent (RFC 7967)."""
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
        """Answer 4.01, since the response does not fit into the peer's Max-Message-Size."""
        self.reply(exchange, message.UNAUTHORIZED, [], b"the response needs a larger Max-Message-Size", now)

    def room(self, exchange: Exchange, total: int, now: int) -> int:
        """Limit on the bytes of a response, from the peer's Max-Message-Size."""
        return self.message_bytes_max - HEAD_BYTES - exchange.overhead

    def count(self, why: str) -> None:
        """Count a refusal under a reason."""
        self.streams.count(why)

    def proved(self, remote: Remote, now: int) -> bool:
        """Always True: the connection proves the address."""
        return True

    def separate(self, exchange: Exchange) -> None:
        """Do nothing: a stream has no acknowledgements."""

    def abandon(self, observation: Observation, now: int) -> None:
        """Do nothing: notifications are encoded only when they are written."""


@final
class StreamNotifier:
    """Encodes the notifications of one connection."""

    __slots__ = ("_observations", "_outcomes", "_replier", "ready")

    def __init__(self, replier: StreamReplier, outcomes: Responses, observations: Observations) -> None:
        self._replier = replier
        self._outcomes = outcomes
        self._observations = observations
        self.ready: deque[Observation] = deque()

    def notify(self, now: int) -> bool:
        """Encode notifications, one of each observer in turn; True when more are left for the next turn."""
        replier = self._replier
        before = replier.unwritten
        while self.ready and replier.unwritten - before < NOTIFIED_BYTES:
            observation = self.ready.popleft()
            found = observation.notification(now)
            if found is not None:
                replier.write(found[0], observation.token, found[1], found[2])
            if observation.refused and not observation.cancelled:
                self._outcomes.later.extend(self._outcomes.cancel(observation, now))
            elif not observation.cancelled:
                if observation.waiting:
                    self.ready.append(observation)
                else:
                    self._observations.settled(observation)
        return len(self.ready) > 0
