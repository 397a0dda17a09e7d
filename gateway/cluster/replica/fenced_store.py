"""The store of a leader, whose reads of positions, bounds and state wait until the fence of the leadership is open.

A leader that was replaced, and does not know it yet, would answer with older ones. Messages need no fence: what is readable is
confirmed, and a record never changes; that a queue ends before an offset is a bound, and waits. Nor do writes: they wait until
they are confirmed. See docs/decisions/0111-fenced-reads.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from domain.errors import Failure
from domain.histogram import Histogram
from domain.store.backup import BackedUp, Backups
from domain.store.message_store import MessageStore
from domain.store.store_ports import GroupPositions, MemberPulls, MessageLog, ReadResult, State, StatePairs
from domain.store.store_request import PullRequest, ReadRequest
from store.replication.fence import ReadFence

Read = Callable[[ReadResult | Failure], None]


def _fenced(fence: ReadFence, ask: Callable[[Callable[[Any], None]], None], done: Callable[[Any], None]) -> None:
    """Carry out the read `ask(done)`, now or when the fence opens."""
    if fence.passes():
        ask(done)
    else:
        fence.wait(partial(ask, done), done)


@final
class BoundedReads:
    """Reads of messages, of which only those beyond the end of their queue wait for the fence."""

    def __init__(self, fence: ReadFence) -> None:
        self._fence = fence

    def read(self, ask: Callable[[Read], None], done: Read) -> None:
        """`ask(done)` reads."""
        ask(done if self._fence.passes() else partial(self._checked, ask, done))

    def _checked(self, ask: Callable[[Read], None], done: Read, result: ReadResult | Failure) -> None:
        if isinstance(result, Failure) or result.status != "TOO_LARGE":
            done(result)
        else:
            self._fence.wait(partial(ask, done), done)


@final
class FencedLog:
    """`MessageLog` of a leader. Its other methods are those of the log itself."""

    def __init__(self, log: MessageLog, fence: ReadFence) -> None:
        self._log = log
        self._fence = fence
        self._reads = BoundedReads(fence)
        self.listen = log.listen
        self.append = log.append
        self.append_once = log.append_once
        self.record_at = log.record_at
        self.find = log.find
        self.notified = log.notified
        self.late_ms = log.late_ms

    def read(self, request: ReadRequest, done: Read) -> None:
        """MessageLog.read."""
        self._reads.read(partial(self._log.read, request), done)

    def bounds(self, topic: str, queue_id: int, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """MessageLog.bounds."""
        _fenced(self._fence, partial(self._log.bounds, topic, queue_id), done)

    def is_hot(self, topic: str, queue_id: int, done: Callable[[bool | Failure], None]) -> None:
        """MessageLog.is_hot."""
        _fenced(self._fence, partial(self._log.is_hot, topic, queue_id), done)

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool, done: Callable[[int | Failure], None]) -> None:
        """MessageLog.search."""
        _fenced(self._fence, partial(self._log.search, topic, queue_id, timestamp_ms, upper), done)


@final
class FencedPositions:
    """`GroupPositions` of a leader. Its other methods are those of the positions themselves."""

    def __init__(self, positions: GroupPositions, fence: ReadFence) -> None:
        self._positions = positions
        self._fence = fence
        self.commit = positions.commit
        self.reset = positions.reset
        self.drop_group = positions.drop_group

    def offset(self, group: str, topic: str, queue_id: int, done: Callable[[int | Failure], None]) -> None:
        """GroupPositions.offset."""
        _fenced(self._fence, partial(self._positions.offset, group, topic, queue_id), done)


@final
class FencedPulls:
    """`MemberPulls` of a leader. Its other methods are those of the pulls themselves."""

    def __init__(self, pulls: MemberPulls, fence: ReadFence) -> None:
        self._pulls = pulls
        self._reads = BoundedReads(fence)
        self.report = pulls.report
        self.renew = pulls.renew
        self.release = pulls.release

    def pull(self, request: PullRequest, done: Read) -> None:
        """MemberPulls.pull."""
        self._reads.read(partial(self._pulls.pull, request), done)


@final
class FencedState:
    """`State` of a leader. Its other methods are those of the state itself."""

    def __init__(self, state: State, fence: ReadFence) -> None:
        self._state = state
        self._fence = fence
        self.put = state.put
        self.follow = state.follow

    def get(self, space: str, key: bytes, done: Callable[[bytes | None | Failure], None]) -> None:
        """State.get."""
        _fenced(self._fence, partial(self._state.get, space, key), done)

    def pairs(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[StatePairs | Failure], None]) -> None:
        """State.pairs."""
        _fenced(self._fence, partial(self._state.pairs, space, prefix, start, limit), done)

    def keys(self, space: str, prefix: bytes, start: bytes, limit: int, done: Callable[[list[bytes] | Failure], None]) -> None:
        """State.keys."""
        _fenced(self._fence, partial(self._state.keys, space, prefix, start, limit), done)

    def size(self, space: str, done: Callable[[tuple[int, int] | Failure], None]) -> None:
        """State.size."""
        _fenced(self._fence, partial(self._state.size, space), done)


@final
class FencedStore:
    """The `MessageStore` of a leader. Ports without such reads, and everything else, are those of the store itself."""

    def __init__(self, store: MessageStore, fence: ReadFence) -> None:
        self._store = store
        self.log: MessageLog = FencedLog(store.log, fence)
        self.leases = store.leases
        self.dead_letters = store.dead_letters
        self.positions: GroupPositions = FencedPositions(store.positions, fence)
        self.pulls: MemberPulls = FencedPulls(store.pulls, fence)
        self.metadata = store.metadata
        self.state: State = FencedState(store.state, fence)
        self.transactions = store.transactions
        self.timers = store.timers
        self.lite_queues = store.lite_queues
        self.outlook = store.outlook
        self.timed = store.timed
        self.figures = store.figures
        self.unanswered_bytes = store.unanswered_bytes
        self.accepted_bytes = store.accepted_bytes
        self.histograms: Callable[[], dict[str, Histogram]] = store.histograms
        self.drain = store.drain
        self.close = store.close
        if isinstance(store, BackedUp):
            self.backups: Backups = store.backups

    @property
    def broken(self) -> Failure | None:
        """MessageStore.broken."""
        return self._store.broken
