"""Reads served by a follower: messages, topics and state up to its confirmed position, without changes of them.

A request beyond that position is answered with the advice to ask another replica: a follower does not know the end of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from domain.errors import Failure
from domain.message.pull import PulledBy as PulledBy  # noqa: PLC0414, those who import it know no other place
from domain.store.store_ports import Metadata, ReadResult, State
from domain.store.store_request import ReadRequest

ELSEWHERE: Final = "ELSEWHERE"
"""Status of a PulledBy: another replica has to be asked, at the same offset."""


class LogReads(Protocol):
    """The reading part of `domain.store.store_ports.MessageLog`. Failure STORE_UNAVAILABLE once the replica follows no more."""

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MessageLog.read."""

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageLog.record_at."""

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds: the end is that of the confirmed position."""

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageLog.search."""


class FollowerReads(Protocol):
    """Reads of a replica that follows.

    log        messages
    metadata   topics and groups: read only
    state      small values by key: a change is refused
    """

    log: LogReads
    metadata: Metadata
    state: State

    def figures(self) -> dict[str, float]:
        """Numbers of its log, by the names of `MessageStore.figures`."""
