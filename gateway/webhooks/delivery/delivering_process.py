"""The process that delivers: its means to send requests, its origin, and its counters, which all deliveries share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from domain.ports import Clock, Entropy
from domain.subscription.courier import Courier
from gateway.webhooks.delivery.claim_expiry import ClaimExpiry


@final
@dataclass(slots=True, eq=False)
class DeliveringProcess:
    """One process that delivers.

    origin     WebHook-Request-Origin, to which sinks consent
    callback   start of the URL at which sinks may consent later; "": sinks receive none
    counters   counts by the names in `deliverers.COUNTED`
    term       expiry of all its claims
    """

    courier: Courier
    clock: Clock
    entropy: Entropy
    origin: str
    callback: str
    counters: dict[str, int]
    term: ClaimExpiry
