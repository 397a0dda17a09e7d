"""The store of one node behind the ports of domain/ports.py: log, index, state, leases and timers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import final

from domain import limits
from domain.errors import ErrorCode, Failure
from domain.filter.filter import Filter
from domain.lite import LiteQueues
from domain.message import SYS_PREPARED, Message
from domain.outlook import Outlook
from domain.ports import Clock, Disk, LeaseResult, Metadata, ReadResult, State, StateChange, StoreListener
from domain.receipt import Receipt
from domain.transaction import Timers, Transactions
from store.config import StoreConfig
from store.core import Core
from store.counters import figures
from store.delay import parking
from store.log.commit import Done
from store.transaction import half


@final
class LogStore:
    """MessageStore over one log. `metadata` and what follows are its other faces. See `open_store`."""

    metadata: Metadata
    state: State
    transactions: Transactions
    timers: Timers
    lights: LiteQueues
    outlook: Outlook

    def __init__(self, core: Core, clock: Clock) -> None:
        self._core = core
        self._clock = clock
        self.metadata = core.metadata
        self.state = core.state
        self.transactions = core.book
        self.timers = core.recalling
        self.lights = core.lights
        self.outlook = core.look

    def listen(self, listener: StoreListener) -> None:
        """Add a listener."""
        self._core.listeners.append(listener)

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

    def append(self, messages: Sequence[Message], done: Done | None, changes: Sequence[StateChange] = ()) -> None:
        """MessageStore.append. Messages with a delay and half messages are kept out of sight; their Placed tells where."""
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
        changes = self._core.book.begin(halves) if halves else []
        return changes if isinstance(changes, Failure) else (out, changes)

    # MessageStore: reading

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        limit: int,
        max_bytes: int,
        wanted: Filter | None,
        done: Callable[[ReadResult | Failure], None],
    ) -> None:
        """MessageStore.read."""
        core = self._core
        if core.held is not None:
            core.held.append(partial(self.read, topic, queue_id, offset, limit, max_bytes, wanted, done))
            return
        done(core.reading.read(topic, queue_id, offset, limit, max_bytes, wanted))

    def record_at(self, physical_offset: int, done: Callable[[bytes | Failure], None]) -> None:
        """MessageStore.record_at."""
        core = self._core
        if core.held is not None:
            core.held.append(partial(self.record_at, physical_offset, done))
            return
        done(core.reading.at(physical_offset, core.commit.written))

    def find(
        self,
        topic: str,
        key: str,
        begin_ms: int,
        end_ms: int,
        limit: int,
        max_bytes: int,
        unique: bool,
        done: Callable[[list[bytes] | Failure], None],
    ) -> None:
        """MessageStore.find."""
        core = self._core
        if core.held is not None:
            core.held.append(partial(self.find, topic, key, begin_ms, end_ms, limit, max_bytes, unique, done))
            return
        done(core.key_search.find(topic, key, begin_ms, end_ms, limit, max_bytes, unique))

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageStore.bounds."""
        core = self._core
        queue = core.index.queue(topic, queue_id)
        done((0, 0) if queue is None else (queue.first, queue.visible))

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """MessageStore.is_hot."""
        core = self._core
        if core.held is not None:
            core.held.append(partial(self.is_hot, topic, queue_id, done))
            return
        queue = core.index.queue(topic, queue_id)
        done(queue is None or queue.next == 0 or core.is_hot(queue))

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageStore.search."""
        core = self._core
        done(core.reading.search(topic, queue_id, timestamp_ms, upper))

    # MessageStore: leases and positions

    def lease(
        self,
        group: str,
        topic: str,
        queue_id: int,
        limit: int,
        invisible_ms: int,
        wanted: Filter | None,
        from_first: bool,
        ordered: bool,
        attempt_id: str,
        fleeting: bool,
        done: Callable[[LeaseResult | Failure], None],
    ) -> None:
        """MessageStore.lease."""
        core = self._core
        if core.held is not None:
            core.held.append(
                partial(
                    self.lease, group, topic, queue_id, limit, invisible_ms, wanted, from_first, ordered, attempt_id,
                    fleeting, done,
                )
            )  # fmt: skip
            return
        core.ledger.lease(group, topic, queue_id, limit, invisible_ms, wanted, from_first, ordered, attempt_id, fleeting, done)

    def withdraw(self, group: str, topic: str, receipts: Sequence[Receipt], wake: bool = False) -> None:
        """MessageStore.withdraw."""
        self._core.early.withdraw(group, topic, receipts, wake)

    def lapse(self) -> None:
        """MessageStore.lapse."""
        core = self._core
        if core.held is not None:
            core.held.append(self.lapse)
            return
        core.early.lapse()

    def settle(
        self, group: str, topic: str, receipts: Sequence[Receipt], done: Callable[[list[Failure | None] | Failure], None]
    ) -> None:
        """MessageStore.settle."""
        core = self._core
        core.ledger.settle(group, topic, receipts, done)

    def extend(
        self,
        group: str,
        topic: str,
        receipts: Sequence[Receipt],
        invisible_ms: int,
        done: Callable[[list[Receipt | Failure] | Failure], None],
    ) -> None:
        """MessageStore.extend."""
        core = self._core
        core.ledger.extend(group, topic, receipts, invisible_ms, done)

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """MessageStore.offset."""
        core = self._core
        done(core.ledger.offset(group, topic, queue_id))

    def commit(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MessageStore.commit."""
        core = self._core
        core.ledger.commit(group, offsets, done)

    def pull(
        self,
        group: str,
        member: str,
        retry_topic: str,
        topic: str,
        queue_id: int,
        offset: int,
        limit: int,
        max_bytes: int,
        wanted: Filter | None,
        done: Callable[[ReadResult | Failure], None],
    ) -> None:
        """MessageStore.pull."""
        core = self._core
        if core.held is not None:
            core.held.append(
                partial(self.pull, group, member, retry_topic, topic, queue_id, offset, limit, max_bytes, wanted, done)
            )
            return
        core.sharing.pull(group, member, retry_topic, topic, queue_id, offset, limit, max_bytes, wanted, done)

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MessageStore.report."""
        self._core.sharing.report(group, offsets, done)

    def renew(self, group: str, member: str, anew: bool) -> None:
        """MessageStore.renew."""
        self._core.sharing.renew(group, member, anew)

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """MessageStore.release."""
        self._core.sharing.release(group, member, kept)

    def reset(self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None]) -> None:
        """MessageStore.reset."""
        self._core.ledger.reset(group, offsets, done)

    def drop_group(self, group: str, done: Callable[[None | Failure], None]) -> None:
        """MessageStore.drop_group."""
        core = self._core
        core.ledger.drop_group(group, done)


def open_store(disk: Disk, clock: Clock, config: StoreConfig) -> LogStore:
    """Open the store in `disk`'s data directory, recovering what a crash left. Raises StoreError when a person has to look.

    It reads the log from the last checkpoint on before it returns. Reads and leases wait until what was found is durable.
    """
    return LogStore(Core(disk, clock, config), clock)
