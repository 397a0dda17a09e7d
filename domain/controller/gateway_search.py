"""The report of a gateway to the controllers while it has no store. No election reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from domain.command import TicketedCommand

SAID_CHARS_MAX: Final = 1_024
"""Characters of each text of a GatewaySearch; what is longer is cut."""


class GatewaySearch(NamedTuple):
    """A gateway that has no store.

    name      its host, for people
    seeks     host:port of the replicas that it tries, with commas between
    why       why the last one did not take it, for people
    waits_ms  milliseconds for which it has had none
    """

    name: str
    seeks: str
    why: str
    waits_ms: int


@dataclass(slots=True)
class HearGateway(TicketedCommand):
    """A gateway has no store -> Done. Every controller keeps it for itself, for a short time.

    life   random text of the gateway's process
    """

    life: str
    search: GatewaySearch
