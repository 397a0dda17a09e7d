"""Requests in flight to a sink, and the attempts recorded for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from domain.admin.subscription import Attempt
from domain.event import Leased
from domain.limits import MILLISECOND_NS
from domain.subscription.courier import SinkAnswer
from gateway.webhooks.delivery.batches import Item

ANSWER_SHOWN_BYTES: Final = 1_024
"""Bytes of an answer's content that are recorded in its attempt."""


@dataclass(slots=True, eq=False)
class Try:
    """One request in flight.

    leased   its messages; empty for a test
    identity webhook-id
    number   of the try, from 1
    began    start of the request, monotonic ns
    at_ms    start of the request, epoch ms
    end      aborts the request
    test     serial number of a test delivery; 0: none
    key      partition key of its chain; None: its messages have no order
    rest     further batches of its chain
    until    monotonic ns at which the leases of the whole chain end
    """

    topic: str
    leased: list[Leased]
    identity: str
    number: int
    began: int
    at_ms: int
    end: Callable[[], None]
    test: int = 0
    key: bytes | None = None
    rest: list[list[Item]] = field(default_factory=list)
    until: int = 0


def attempt_of(found: Try, now: int, answer: SinkAnswer, outcome: str, next_ms: int = 0) -> Attempt:
    """The attempt of a request that ended at monotonic ns `now`; `next_ms`: epoch ms of the next try, 0: there is none."""
    return Attempt(
        found.at_ms, found.identity, max(1, len(found.leased)), found.number, answer.status,
        (now - found.began) // MILLISECOND_NS, outcome, answer.text, answer.body[:ANSWER_SHOWN_BYTES], next_ms,
    )  # fmt: skip
