"""Watching leases: a reader that leases messages on one connection learns that they are settled on another."""

from __future__ import annotations

from typing import Final, final

from domain import limits
from domain.command import AwaitSettled
from domain.errors import ErrorCode, Failure
from domain.event import LeasesEnded, Refused
from domain.message.receipt import Receipt
from domain.ports import Clock, Timer
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs
from gateway.usecase.waiting.long_polls import RightsCheck

WATCHED_PER_CONNECTION_MAX: Final = 65_536
"""Leases that one connection may have watched."""

_Lease = tuple[str, str, int, int, int, int]
"""(group, topic, retry flag, queue, offset, pop time)."""


@final
class _Holder:
    """The leases of one reader.

    ends      lease -> wall ms at which its time is over
    ended     leases that have ended since the last answer
    waiting   the command that waits; None: none does
    timer     runs when its wait time, or that of the lease that ends next, is over
    """

    __slots__ = ("connection", "due_ns", "ended", "ends", "timer", "waiting")

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.ends: dict[_Lease, int] = {}
        self.ended = 0
        self.waiting: AwaitSettled | None = None
        self.timer: Timer | None = None
        self.due_ns = 0


@final
class LeaseWatches:
    """The verb AwaitSettled. `Settling` reports the leases that were settled, released and extended at this node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._holders: dict[ClientConnection, dict[str, _Holder]] = {}
        self._of: dict[_Lease, _Holder] = {}
        self.verbs: Verbs = {AwaitSettled: self._await}

    @property
    def watched(self) -> int:
        """Leases that are watched."""
        return len(self._of)

    def review(self, check: RightsCheck) -> None:
        """Refuse the waits that `check` forbids, and watch their leases no more: rights have changed."""
        for holder in [each for holders in self._holders.values() for each in holders.values()]:
            command = holder.waiting
            failure = None if command is None else check(holder.connection, command)
            if command is not None and failure is not None:
                self._end_all(holder)
                holder.connection.answer(Refused(command.ticket, failure))

    def settled(self, group: str, topic: str, receipt: Receipt) -> None:
        """A lease is settled or released."""
        if self._of:
            self._end(_lease(group, topic, receipt))

    def extended(self, group: str, topic: str, old: Receipt, new: Receipt) -> None:
        """A lease goes on under another receipt."""
        holder = self._of.pop(_lease(group, topic, old), None) if self._of else None
        if holder is not None:
            del holder.ends[_lease(group, topic, old)]
            self._add(holder, group, topic, new)

    def _await(self, connection: ClientConnection, command: AwaitSettled) -> None:
        holders = self._holders.get(connection)
        if holders is None:
            holders = self._holders[connection] = {}
            connection.on_close.append(lambda: self._close(connection))
        watched = sum(len(each.ends) for each in holders.values())
        if watched + len(command.receipts) > WATCHED_PER_CONNECTION_MAX:
            text = f"a connection may watch {WATCHED_PER_CONNECTION_MAX} leases"
            connection.answer(Refused(command.ticket, Failure(ErrorCode.QUOTA, text)))
            return
        holder = holders.get(command.holder)
        if holder is None:
            holder = holders[command.holder] = _Holder(connection)
        for receipt in command.receipts:
            self._add(holder, command.group, command.topic, receipt)
        earlier, holder.waiting = holder.waiting, command
        if earlier is not None:
            connection.answer(LeasesEnded(earlier.ticket, 0))
        wait_ms = min(command.wait_ms, limits.WAIT_MS_MAX)
        holder.due_ns = self._clock.monotonic_ns() + wait_ms * limits.MILLISECOND_NS
        self._poll(holder)

    def _add(self, holder: _Holder, group: str, topic: str, receipt: Receipt) -> None:
        lease = _lease(group, topic, receipt)
        holder.ends[lease] = receipt.pop_ms + receipt.invisible_ms
        self._of[lease] = holder

    def _end(self, lease: _Lease) -> None:
        holder = self._of.pop(lease, None)
        if holder is None:
            return
        del holder.ends[lease]
        holder.ended += 1
        if holder.waiting is not None and holder.ended == 1:
            # Receipts are settled many at a time: they are reported together, in the next turn.
            self._set_timer(holder, self._clock.monotonic_ns())

    def _poll(self, holder: _Holder) -> None:
        """Report the leases that have ended, or wait for the next end."""
        command = holder.waiting
        if command is None:
            return
        now_ms, now_ns = self._clock.wall_ms(), self._clock.monotonic_ns()
        for lease in [lease for lease, end in holder.ends.items() if end <= now_ms]:
            del holder.ends[lease], self._of[lease]
            holder.ended += 1
        if holder.ended or holder.due_ns <= now_ns:
            ended, holder.ended, holder.waiting = holder.ended, 0, None
            self._set_timer(holder, None)
            holder.connection.answer(LeasesEnded(command.ticket, ended))
            return
        soonest = min(holder.ends.values(), default=now_ms + limits.WAIT_MS_MAX) - now_ms
        self._set_timer(holder, min(holder.due_ns, now_ns + soonest * limits.MILLISECOND_NS))

    def _set_timer(self, holder: _Holder, due_ns: int | None) -> None:
        if holder.timer is not None:
            holder.timer.cancel()
        holder.timer = None if due_ns is None else self._clock.call_at(due_ns, lambda: self._due(holder))

    def _due(self, holder: _Holder) -> None:
        holder.timer = None
        self._poll(holder)

    def _close(self, connection: ClientConnection) -> None:
        for holder in self._holders.pop(connection, {}).values():
            self._end_all(holder)

    def _end_all(self, holder: _Holder) -> None:
        self._set_timer(holder, None)
        holder.waiting = None
        for lease in holder.ends:
            del self._of[lease]
        holder.ends.clear()


def _lease(group: str, topic: str, receipt: Receipt) -> _Lease:
    return group, topic, receipt.retry, receipt.queue_id, receipt.queue_offset, receipt.pop_ms
