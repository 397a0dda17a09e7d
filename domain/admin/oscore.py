"""The security contexts of users for OSCORE (RFC 8613): how they are managed, and how processes take their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.access.oscore import OscoreContext
from domain.command import TicketedCommand
from domain.event import TicketedEvent

RUN_BITS: Final = 14
"""Bits of a Partial IV of this node that count within a run: 16,384 numbers. The 26 bits above them are the run."""
RUNS_MAX: Final = (1 << (40 - RUN_BITS)) - 1


@dataclass(slots=True)
class PutOscoreContext(TicketedCommand):
    """Set the security context of a user, which replaces an existing one -> Done.

    Errors: ARGUMENT_ILLEGAL (no such user; a field is not valid; another user has its identifiers).
    """

    context: OscoreContext


@dataclass(slots=True)
class DeleteOscoreContext(TicketedCommand):
    """Remove the security context of a user -> Done, also when there is none."""

    user: str


@dataclass(slots=True)
class QueryOscoreContext(TicketedCommand):
    """The security context of a user, without its secret and its salt -> OscoreContextFound."""

    user: str


@dataclass(slots=True)
class OscoreContextFound(TicketedEvent):
    """The security context of a user, without its secret and its salt; None: it has none."""

    context: OscoreContext | None


@dataclass(slots=True)
class ReserveOscoreRun(TicketedCommand):
    """Take a run of sender sequence numbers of a user's context, which no process has ever had -> OscoreRunReserved.

    Sent by the node itself. The run is durable before the event.

    Errors: ARGUMENT_ILLEGAL (the user has no context), QUOTA (there are no more numbers: the context has to be replaced).
    """

    user: str


@dataclass(slots=True)
class OscoreRunReserved(TicketedEvent):
    """The sender sequence numbers from `run << RUN_BITS` on, 2^RUN_BITS of them."""

    run: int


@dataclass(slots=True)
class HoldOscoreContext(TicketedCommand):
    """From now on the process that sends this executes the requests of a user's context -> Done.

    Sent by the node itself, when a request was proven to be fresh: the replay windows of all other processes end.

    holder   a number of its own, which nobody has used before
    before   the number of the process that did so until now; 0: none did

    Errors: ARGUMENT_ILLEGAL (the user has no context), CHANGED (another process was faster).
    """

    user: str
    holder: int
    before: int
