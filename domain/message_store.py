"""The message store: all ports of one store together, as a storage engine hands them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from domain.errors import Failure
from domain.lite import LiteQueues
from domain.store_ports import GroupPositions, Leases, MemberPulls, MessageLog, Metadata, Outlook, State
from domain.transaction import Timers, Transactions


class MessageStore(Protocol):
    """An open store. A use case takes the ports that it needs; the composition and the node take the store."""

    @property
    def log(self) -> MessageLog:
        """The messages of all queues."""

    @property
    def leases(self) -> Leases:
        """Messages that are received and not settled."""

    @property
    def positions(self) -> GroupPositions:
        """Committed offsets."""

    @property
    def pulls(self) -> MemberPulls:
        """Pulls by members of a group."""

    @property
    def metadata(self) -> Metadata:
        """Topics and groups."""

    @property
    def state(self) -> State:
        """Small values by key."""

    @property
    def transactions(self) -> Transactions:
        """Half messages."""

    @property
    def timers(self) -> Timers:
        """Delayed messages."""

    @property
    def lite_queues(self) -> LiteQueues:
        """Queues of lite topics."""

    @property
    def outlook(self) -> Outlook:
        """What a group could lease, without leasing it."""

    @property
    def broken(self) -> Failure | None:
        """Why the store takes no more writes, None as long as it does."""

    def timed(self) -> tuple[int, int]:
        """Messages kept for a later delivery, and messages delivered at their time, both since the start."""

    def figures(self) -> dict[str, float]:
        """Numbers for the metrics page, by name; those that end in `_total` only grow."""

    def drain(self, done: Callable[[], None]) -> None:
        """Refuse new writes and make the earlier ones durable; then call `done`. `close` may follow."""

    def close(self) -> None:
        """Close the files. Without `drain` before, nothing that was acknowledged is lost."""
