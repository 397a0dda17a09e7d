"""The store of one node behind the ports of domain/store_ports.py: log, index, state, leases and timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.lite import LiteQueues
from domain.message import SYS_PREPARED, Message
from domain.outlook import Outlook
from domain.ports import Clock, Disk
from domain.receipt import Receipt
from domain.storage_engine import StorageEngine
from domain.store_ports import LeaseResult, Metadata, ReadResult, State, StateChange, StoreListener
from domain.store_request import KeyQuery, LeaseRequest, ReadRequest
from domain.transaction import Timers, Transactions
from store.config import StoreConfig
from store.core import Core
from store.counters import figures
from store.delay import parking
from store.log.open_batch import Done
from store.transaction import half


@final
class StoredLog:
    """domain.store_ports.MessageLog over one log."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self._clock = clock

    def listen(self, listener: StoreListener) -> None:
        """MessageLog.listen."""
        self._core.listeners.append(listener)

    def append(self, messages: Sequence[Message], done: Done | None, changes: Sequence[StateChange] = ()) -> None:
        """MessageLog.append. Messages with a delay and half messages are kept out of sight; their Placed tells where."""
        failure = self._core.refusal()
        if failure is None:
            for message in messages:
                if message.sys_flag & SYS_PREPARED or parking.may_be_parked(message.properties):
                    parked = self._parked(messages)
                    if isinstance(parked, Failure):
                        failure = parked
                    else:
                        messages, halves = parked
                        changes = [*changes, *halves]
                    break
        if failure is None:
            self._core.appender.add(messages, changes, done, not messages and self._core.flushed_default)
        elif done is not None:
            done(failure)

    def _parked(self, messages: Sequence[Message]) -> tuple[list[Message], list[StateChange]] | Failure:
        """Messages as they are to be stored, some of them out of sight, and the transactions that they open."""
        out: list[Message] = []
        halves: list[Message] = []
        now = self._clock.wall_ms()
        for message in messages:
            if message.sys_flag & SYS_PREPARED:
                out.append(half.prepared(message))
                halves.append(out[-1])
            elif parking.may_be_parked(message.properties) and not parking.is_parking_topic(message.topic):
                parked = parking.park(message, now, self._core.wheel.due_min_ms())
                if isinstance(parked, Failure):
                    return parked
                out.append(parked)
            else:
                out.append(message)
            if len(out[-1].properties) > limits.PROPERTIES_BYTES_MAX:
                return Failure(ErrorCode.PROPERTIES_TOO_LARGE, "no room for what a delayed or prepared message has to carry")
        changes = self._core.open_transactions.begin(halves) if halves else []
        return changes if isinstance(changes, Failure) else (out, changes)

    def read(self, request: ReadRequest, done: Callable[[ReadResult | Failure], None]) -> None:
        """MessageLog.read."""
        core = self._core
        if core.held.holding:
            core.held.add(self.read, request, done)
            return
        done(core.reading.read(request))

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageLog.record_at."""
        core = self._core
        if core.held.holding:
            core.held.add(self.record_at, physical_offset, done)
            return
        done(core.reading.at(physical_offset, core.commit.written))

    def find(self, query: KeyQuery, done: Callable[[list[bytes] | Failure], None]) -> None:
        """MessageLog.find."""
        core = self._core
        if core.held.holding:
            core.held.add(self.find, query, done)
            return
        done(core.key_search.find(query))

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds."""
        queue = self._core.index.queue(topic, queue_id)
        done((0, 0) if queue is None else (queue.first, queue.visible))

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """MessageLog.is_hot."""
        core = self._core
        if core.held.holding:
            core.held.add(self.is_hot, topic, queue_id, done)
            return
        queue = core.index.queue(topic, queue_id)
        done(queue is None or queue.next == 0 or core.is_hot(queue))

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageLog.search."""
        done(self._core.reading.search(topic, queue_id, timestamp_ms, upper))


@final
class StoredLeases:
    """domain.store_ports.Leases over the ledger."""

    def __init__(self, core: Core) -> None:
        self._held = core.held
        self._ledger = core.ledger
        self._lease_release = core.lease_release

    def lease(self, request: LeaseRequest, done: Callable[[LeaseResult | Failure], None]) -> None:
        """Leases.lease."""
        if self._held.holding:
            self._held.add(self.lease, request, done)
            return
        self._ledger.lease(request, done)

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """Leases.withdraw."""
        self._lease_release.withdraw(group, topic, receipts, wake)

    def lapse(self) -> None:
        """Leases.lapse."""
        if self._held.holding:
            self._held.add(self.lapse)
            return
        self._lease_release.lapse()

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """Leases.settle."""
        self._ledger.settle(group, topic, receipts, done)

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """Leases.extend."""
        self._ledger.extend(group, topic, receipts, invisible_ms, done)


@final
class LogStore:
    """domain.message_store.MessageStore over one log. See `open_store`."""

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self.log = StoredLog(core, clock)
        self.leases = StoredLeases(core)
        self.positions = core.ledger
        self.pulls = core.member_pulls
        self.metadata: Metadata = core.metadata
        self.state: State = core.state
        self.transactions: Transactions = core.open_transactions
        self.timers: Timers = core.timer_recall
        self.lite_queues: LiteQueues = core.lite_queues
        self.outlook: Outlook = core.lease_peek

    def drain(self, done: Callable[[], None]) -> None:
        """The clean end, first half: refuse what is new, make durable what is there, checkpoint; then `done`."""
        self._core.drain(done)

    def close(self) -> None:
        """The end: let go of the files. Without `drain`, nothing acknowledged is lost, the next start only reads more."""
        self._core.close()

    def timed(self) -> tuple[int, int]:
        """Messages that were put aside for later and messages that were delivered at their time, since the start."""
        wheel = self._core.wheel
        return wheel.parked, wheel.delivered

    def figures(self) -> dict[str, float]:
        """Numbers for the metrics page, by name; those that end in `_total` only grow."""
        return figures(self._core)

    @property
    def broken(self) -> Failure | None:
        """Why the store takes no more writes, None as long as it does."""
        return self._core.commit.broken


def open_store(disk: Disk, clock: Clock, config: StoreConfig) -> LogStore:
    """Open the store in `disk`'s data directory, recovering what a crash left. Raises StoreError when a person has to look.

    It reads the log from the last checkpoint on before it returns. Reads and leases wait until what was found is durable.
    """
    return LogStore(Core(disk, clock, config), clock)


LOG: Final = StorageEngine(StoreConfig, open_store)
"""The entry point `log` of the group `gateway.stores`."""
