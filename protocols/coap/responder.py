"""The interface between resources and the message layer, and what a request in execution keeps for its response."""

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
        """True: notifications are confirmable messages, whose ACK acknowledges them."""

    def enter(self, exchange: Exchange, now: int) -> bool:
        """Add a request that must not be executed twice to the duplicate table. False: no room, and it was refused."""

    def reply(self, exchange: Exchange, code: int, pairs: Pairs, payload: bytes, now: int) -> None:
        """Answer a request. Later answers to the same exchange are ignored."""

    def emit(self, exchange: Exchange, code: int, options: bytes, payload: bytes, now: int) -> None:
        """As `reply`, with encoded options, for requests without Block1."""

    def release(self, exchange: Exchange) -> None:
        """End the exchange without a response."""

    def challenge(self, exchange: Exchange, now: int) -> None:
        """Answer 4.01 with Echo: the address must be verified before it gets a response of that size (RFC 9175 section 2.4)."""

    def room(self, exchange: Exchange, total: int, now: int) -> int:
        """Bytes that the response may have, when it is part of a body of `total` bytes."""

    def count(self, why: str) -> None:
        """Count a refusal under a reason."""

    def proved(self, remote: Remote, now: int) -> bool:
        """True when the address is verified, or when no address has to be."""

    def separate(self, exchange: Exchange) -> None:
        """Make the response a confirmable message of its own, whose ACK verifies the address."""

    def notify(self, observation: Observation, now: int) -> bool:
        """The observation has a value to send. False: it cannot be sent, too much waits already."""

    def abandon(self, observation: Observation, now: int) -> None:
        """The observation was removed: drop its notifications."""


@final
class Condition:
    """A request with If-Match or If-None-Match that waits for the latest value. `then` makes its command when they hold."""

    __slots__ = ("then",)

    def __init__(self, then: Callable[[], Command]) -> None:
        self.then = then


@final
class Check:
    """The ticket of the QueryLatest that makes a notification for an observer silent for a day (RFC 7641 section 4.5)."""

    __slots__ = ("observation",)

    def __init__(self, observation: Observation) -> None:
        self.observation = observation


@final
class Publishing:
    """A PUT that is being stored, and the ticket of the QueryLatest before it. `first`: there was no value before."""

    __slots__ = ("first",)

    def __init__(self, first: bool) -> None:
        self.first = first


@final
class Lease:
    """The lease of a message in a response to a GET with `group=`, until the response has arrived."""

    __slots__ = ("group", "receipt", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt) -> None:
        self.group = group
        self.topic = topic
        self.receipt = receipt
