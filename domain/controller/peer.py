"""Messages between the controllers of one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from domain.command import Command, TicketedCommand
from domain.controller.group import StoreGroup
from domain.event import Event, TicketedEvent

RUNS_LEVEL: Final = 1
IDENTITY_LEVEL: Final = 2
ACKS_LEVEL: Final = 3
KEEPING_LEVEL: Final = 4
LEVEL: Final = KEEPING_LEVEL
"""What this version of a controller reads in the log of the controllers. 0: versions that say nothing; 1: runs of replicas; 2:
identities of store groups; 3: their `acks`, promotions of learners, and ids of lost directories; 4: elections that keep the
dead in a SyncStateSet."""


@dataclass(slots=True)
class GreetController(TicketedCommand):
    """A controller says who it is -> ControllerGreeted (request code 30020 of Headgate).

    node       identity of its log
    founders   identities of the first voters of its group, ascending; empty: it knows of no group
    book       addresses of all controllers, when their number has been changed (`controller_list`); empty: unknown
    level      LEVEL of its version
    """

    node: int
    founders: tuple[int, ...]
    book: tuple[str, ...] = ()
    level: int = 0


@dataclass(slots=True)
class ControllerGreeted(TicketedEvent):
    """The answer to GreetController: who the other one is."""

    node: int
    founders: tuple[int, ...]
    book: tuple[str, ...] = ()
    level: int = 0


@dataclass(slots=True)
class TellController(Command):
    """A message of raft (request code 30021). No answer.

    data   controller.peers.message_bytes
    """

    data: bytes


@dataclass(slots=True)
class LeaderChanged(Event):
    """Notice to the replicas of a store group, on the connections of their heartbeats; ticket None."""

    ticket: None
    group: StoreGroup
