"""Between the message layer and the resources: what a resource may ask of it, and what a request that waits is waiting for."""

from __future__ import annotations

from typing import Protocol, final

from domain.receipt import Receipt
from protocols.coap.exchange import Exchange
from protocols.coap.message import Pairs
from protocols.coap.observe import Observation


class Responder(Protocol):
    """What a resource needs of the message layer."""

    def enter(self, exchange: Exchange, now: int) -> bool:
        """Note a request that must not be executed twice; False when there is no room and it has been refused."""

    def reply(self, exchange: Exchange, code: int, pairs: Pairs, payload: bytes, now: int) -> None:
        """Answer, once; later answers to the same exchange are dropped."""

    def emit(self, exchange: Exchange, code: int, options: bytes, payload: bytes, now: int) -> None:
        """The same with encoded options, for requests without Block1."""

    def release(self, exchange: Exchange) -> None:
        """End the exchange without an answer."""

    def challenge(self, exchange: Exchange, now: int) -> None:
        """Answer 4.01 with Echo: the address must prove itself before it gets that much (RFC 9175 section 2.4)."""

    def room(self, exchange: Exchange, total: int, now: int) -> int:
        """Bytes that the answer may have, when it is part of a body of `total` bytes."""

    def count(self, why: str) -> None:
        """One more refused for this reason."""

    def notify(self, observation: Observation, now: int) -> None:
        """The observation has something to say."""

    def abandon(self, observation: Observation, now: int) -> None:
        """The observation has gone."""


@final
class Condition:
    """A request with If-Match or If-None-Match waits for the present value; `body` is what it then stores."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


@final
class Check:
    """The ticket of a look at the present value for an observer that was silent for a day (RFC 7641 section 4.5)."""

    __slots__ = ("observation",)

    def __init__(self, observation: Observation) -> None:
        self.observation = observation


@final
class Lease:
    """A message handed out with `group=`, until its DELETE."""

    __slots__ = ("group", "receipt", "topic")

    def __init__(self, group: str, topic: str, receipt: Receipt) -> None:
        self.group = group
        self.topic = topic
        self.receipt = receipt
