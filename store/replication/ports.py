"""What the machines of replication talk to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld


class FollowerConnection(Protocol):
    """A connection that a follower has made to its leader."""

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        """Send; nothing happens once the connection has ended."""

    def close(self, reason: str) -> None:
        """End it; `Leading.lost` need not be called."""


class LeaderConnection(Protocol):
    """A follower's connection to its leader."""

    def send(self, command: Follow | LogHeld) -> None:
        """Send; nothing happens once the connection has ended."""

    def close(self, reason: str, rest_ms: int = 0) -> None:
        """End it; `Following.lost` is called, and another one is made soon, after `rest_ms` at least."""


class SetKeeper(Protocol):
    """The controllers."""

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        """Ask for another SyncStateSet. `done` gets None when nobody knows whether it was made."""

    def poll(self) -> None:
        """Ask soon how the group is: `Leading.group_heard` is called."""
