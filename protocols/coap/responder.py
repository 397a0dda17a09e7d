"""The interface between resources and the message layer, and the states of requests that wait for an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, final

from domain.command import Command
from domain.message.receipt import Receipt
from protocols.coap.exchange.exchange import Exchange, Remote
from protocols.coap.message.message import Pairs
from protocols.coap.observe.observations import Observation


class Responder(Protocol):
    """The message layer as resources use it."""

    @property
    def confirms(self) -> bool:
        """True when notifications are confirmable messages."""

    def enter(self, exchange: Exchange, now: int) -> bool:
        """Add a request that must not be executed twice to the duplicate table. False: no room; the request is refused."""

    def reply(self, exchange: Exchange, code: int, pairs: Pairs, payload: bytes, now: int) -> None:
        """Answer a request. Later answers to the same exchange are ignored."""

    def emit(self, exchange: Exchange, code: int, options: bytes, payload: bytes, now: int) -> None:
        """As `reply`, with encoded options, for requests without Block1."""

    def release(self, exchange: Exchange) -> None:
        """End the exchange without a response."""

    def challenge(self, exchange: Exchange, now: int) -> None:
        """Answer 4.01 with Echo, since only a verified address gets a response of that size (RFC 9175 section 2.4)."""

    def room(self, exchange: Exchange, total: int, now: int) -> int:
        """Limit on the bytes of a response that is part of a body of `total` bytes."""

    def count(self, why: str) -> None:
        """Count a refusal under a reason."""

    def proved(self, remote: Remote, now: int) -> bool:
        """True when the address is verified, or needs no verification."""

    def separate(self, exchange: Exchange) -> None:
        """Make the response a separate confirmable message, whose ACK verifies the address."""

    def abandon(self, observation: Observation, now: int) -> None:
        """Drop the notifications of a removed observation."""


@final
class Condition:
    """A request with If-Match or If-None-Match that waits for the latest value. `then` creates its command if they hold."""

    __slots__ = ("then",)

    def __init__(self, then: Callable[[], Command]) -> None:
        self.then = then


@final
class Check:
    """Ticket of the QueryLatest for the liveness check of a silent observer (RFC 7641 section 4.5)."""

    __slots__ = ("observation",)

    def __init__(self, observation: Observation) -> None:
        self.observation = observation


@final
class Publishing:
    """A PUT in execution, and the ticket of the QueryLatest before it. `first`: True: there was no value before."""

    __slots__ = ("first",)

    def __init__(self, first: bool) -> None:
        self.first = first


@final
class Lease:
    """Lease of the message in a response to a GET with `group=`; it ends if the response does not arrive."""

    __slots__ = ("group", "receipt", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt) -> None:
        self.group = group
        self.topic = topic
        self.receipt = receipt
