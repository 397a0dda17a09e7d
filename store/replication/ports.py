"""Ports of the state machines of replication: connections and controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from domain.controller.answer import GroupAnswer
from domain.controller.change import AlterSet
from domain.replication.message import Follow, FollowAccepted, FollowRefused, LogBytes, LogHeld


class FollowerConnection(Protocol):
    """A follower's connection, at the leader's end."""

    def send(self, event: FollowAccepted | FollowRefused | LogBytes) -> None:
        """Send; ignored after the end of the connection."""

    def close(self, reason: str) -> None:
        """End the connection; `Leading.lost` need not be called."""


class LeaderConnection(Protocol):
    """A follower's connection to its leader, at the follower's end."""

    def send(self, command: Follow | LogHeld) -> None:
        """Send; ignored after the end of the connection."""

    def close(self, reason: str, rest_ms: int = 0) -> None:
        """End the connection; `Following.lost` is called, and a new connection follows after at least `rest_ms`."""


class SetKeeper(Protocol):
    """The controllers."""

    def alter(self, change: AlterSet, done: Callable[[GroupAnswer | None], None]) -> None:
        """Request another SyncStateSet. `done` gets None when the outcome is unknown."""

    def poll(self) -> None:
        """Query the state of the group soon: `Leading.group_heard` is called with it, and `ReadFence.confirmed`."""
