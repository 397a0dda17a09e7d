"""The process that delivers: its means to send requests and commands, and its counters, which all deliveries share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from domain.ports import Clock, Entropy
from domain.subscription.courier import Courier
from gateway.webhooks.delivery.outbox import DeliveryOutbox
from gateway.webhooks.internal_client import InternalClient


@final
class ClaimExpiry:
    """Expiry that all claims of a process share. A process that was paused checks it before its timers run.

    until_ns   monotonic ns from which nothing is leased or sent any more; 0: there are no claims
    """

    __slots__ = ("until_ns",)

    def __init__(self) -> None:
        self.until_ns = 0

    def holds(self, now: int) -> bool:
        """True while the claims hold at monotonic ns `now`."""
        return now < self.until_ns


@final
@dataclass(slots=True, eq=False)
class DeliveryProcess:
    """One process that delivers. To the store it is `client`.

    origin     WebHook-Request-Origin, to which sinks consent
    callback   start of the URL at which sinks may consent later; "": sinks receive none
    counters   counts by the names in `deliverers.COUNTED`
    """

    courier: Courier
    clock: Clock
    entropy: Entropy
    origin: str
    callback: str
    counters: dict[str, int]
    term: ClaimExpiry
    client: InternalClient
    outbox: DeliveryOutbox
