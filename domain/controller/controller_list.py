"""List of the controllers, as decided by themselves, and its changes at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from domain.command import TicketedCommand
from domain.controller.answer import GroupRefusal
from domain.event import TicketedEvent


class ControllerPlace(NamedTuple):
    """One controller.

    address   host:port
    node      identity of its log; 0: it is to be taken in, and is no voter yet
    """

    address: str
    node: int


@dataclass(frozen=True, slots=True)
class ControllerList:
    """All controllers of the group.

    number   ascends with each change; 0: none was made, and the controllers are those of the settings
    places   in the order in which they were added; empty only with number 0
    """

    number: int = 0
    places: tuple[ControllerPlace, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """host:port of each."""
        return tuple(each.address for each in self.places)


@dataclass(frozen=True, slots=True)
class SetControllers:
    """The controllers agree on another book. It is made only if its number is the next one."""

    book: ControllerList


@dataclass(slots=True)
class ChangeControllers(TicketedCommand):
    """Add or remove one controller -> ControllersChanged, when the new book is committed (request code 30028 of Headgate).

    address   host:port
    remove    True: remove it
    """

    address: str
    remove: bool


@dataclass(slots=True)
class ControllersChanged(TicketedEvent):
    """The answer to ChangeControllers.

    refusal   None, or NOT_LEADING, or INVALID
    why       why not, for people; "": it is done
    """

    refusal: GroupRefusal | None
    why: str
