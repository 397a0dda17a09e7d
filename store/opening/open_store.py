"""The open store: its ports, and the parts that they stand on."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from domain.errors import Failure
from domain.histogram import Histogram
from domain.lite import LiteQueues
from domain.store.backup import Backups
from domain.store.outlook import Outlook
from domain.store.store_ports import DeadLetterMoves, GroupPositions, Leases, MemberPulls, MessageLog, Metadata, State
from domain.transaction import Timers, Transactions
from store.lease.leases import StoredLeases
from store.lease.lite_queues import StoredLiteQueues
from store.lease.member_pulls import StoredMemberPulls
from store.lease.peek import LeasePeek
from store.lease.positions import StoredPositions
from store.opening.backup import HeldBackups
from store.opening.counters import figures
from store.opening.housekeeping import Housekeeping
from store.opening.message_log import StoredLog
from store.opening.parts import StoreParts
from store.state.metadata import Catalogue
from store.state.port import StoredState


@final
class LogStore:
    """`domain.store.message_store.MessageStore` over one log. The attributes without a comment are its ports. See `open_store`.

    parts   the parts under the ports
    """

    def __init__(
        self,
        parts: StoreParts,
        housekeeping: Housekeeping,
        log: StoredLog,
        leases: StoredLeases,
        positions: StoredPositions,
        pulls: StoredMemberPulls,
        metadata: Catalogue,
        lite_queues: StoredLiteQueues,
        lease_peek: LeasePeek,
        state: StoredState,
        backups: HeldBackups,
    ) -> None:
        self.parts = parts
        self._housekeeping = housekeeping
        self.log: MessageLog = log
        self.leases: Leases = leases
        self.dead_letters: DeadLetterMoves | None = None
        self.positions: GroupPositions = positions
        self.pulls: MemberPulls = pulls
        self.metadata: Metadata = metadata
        self.state: State = state
        self.transactions: Transactions = parts.open_transactions
        self.timers: Timers = parts.recall
        self.lite_queues: LiteQueues = lite_queues
        self.outlook: Outlook = lease_peek
        self.backups: Backups = backups

    def drain(self, done: Callable[[], None]) -> None:
        """MessageStore.drain."""
        self._housekeeping.drain(done)

    def close(self) -> None:
        """MessageStore.close."""
        self._housekeeping.close()

    def timed(self) -> tuple[int, int]:
        """MessageStore.timed."""
        return self.parts.wheel.parked, self.parts.wheel.delivered

    def figures(self) -> dict[str, float]:
        """MessageStore.figures."""
        return figures(self.parts)

    def unanswered_bytes(self) -> int:
        """MessageStore.unanswered_bytes."""
        return self.parts.commit.unanswered_bytes()

    def histograms(self) -> dict[str, Histogram]:
        """MessageStore.histograms."""
        return {"append_seconds": self.parts.commit.appends, "sync_seconds": self.parts.commit.sync_times}

    @property
    def broken(self) -> Failure | None:
        """MessageStore.broken."""
        return self.parts.commit.refusal() or self.parts.commit.stalled
