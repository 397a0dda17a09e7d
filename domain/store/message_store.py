"""The message store: all ports of one store together, as a storage engine hands them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from domain.errors import Failure
from domain.histogram import Histogram
from domain.store.outlook import Outlook
from domain.store.store_ports import DeadLetterMoves, GroupPositions, Leases, MemberPulls, MessageLog, Metadata, State
from domain.topic.lite import LiteQueues
from domain.transaction import Timers, Transactions


class MessageStore(Protocol):
    """An open store. A use case takes the ports that it needs; the composition and the node take the store.

    dead_letters   moves messages to dead-letter topics; None: they are copied by appending
    outlook        what a group could lease, without leasing it
    """

    log: MessageLog
    leases: Leases
    dead_letters: DeadLetterMoves | None
    positions: GroupPositions
    pulls: MemberPulls
    metadata: Metadata
    state: State
    transactions: Transactions
    timers: Timers
    lite_queues: LiteQueues
    outlook: Outlook

    @property
    def broken(self) -> Failure | None:
        """Why the store takes no more writes, None as long as it does."""

    def timed(self) -> tuple[int, int]:
        """Messages kept for a later delivery, and messages delivered at their time, both since the start."""

    def figures(self) -> dict[str, float]:
        """Numbers for the metrics page, by name; those that end in `_total` only grow."""

    def unanswered_bytes(self) -> int:
        """Bytes of appends that are accepted and not answered yet; the records of later appends are delivered after them."""

    def accepted_bytes(self) -> int:
        """Bytes of messages and changes of state that were accepted for the log; only grows, but for a little at times."""

    def histograms(self) -> dict[str, Histogram]:
        """Durations for the metrics page, by name: `append_seconds`, `sync_seconds`."""

    def drain(self, done: Callable[[], None]) -> None:
        """Refuse new writes and make the earlier ones durable; then call `done`. `close` may follow."""

    def close(self) -> None:
        """Close the files. Without `drain` before, nothing that was acknowledged is lost."""
