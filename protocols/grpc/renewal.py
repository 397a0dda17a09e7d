"""Renewal of push consumers' leases while their messages are being processed (RocketMQ's DefaultReceiptHandleManager).

    leased for 60 s -> due 10 s before the lease ends -> extended by 60 s, repeatedly, until
        the client settles or releases it, or leaves        (ended)
        the store refuses the extension                     (ended)
        the lease is three hours old                        (extended once more, by the group's retry policy)
    connection closed: not extended any more, so the message is free within 60 s

All leases have the same duration, so the order of a deque is the order of their ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from domain import limits
from domain.command import Command, Extend
from domain.event import Event, Extended, Leased
from domain.message.receipt import Receipt
from protocols.grpc.session import Client, RenewedLease

INVISIBLE_MS: Final = 60_000
RENEW_AHEAD_NS: Final = 10 * limits.SECOND_NS
SCAN_NS: Final = 5 * limits.SECOND_NS
AGE_MAX_NS: Final = 3 * 3600 * limits.SECOND_NS
BATCH_LEASES_MAX: Final = 256
COMPACT_LEASES_MIN: Final = 4096
"""Length of the deque below which ended leases are not removed before their turn."""

_INVISIBLE_NS = INVISIBLE_MS * limits.MILLISECOND_NS


@final
class Renewals:
    """The leases under renewal of one connection. `owner` is element 0 of every ticket.

    due_at        monotonic ns of the next renewal; None without leases
    _leases       leases in the order of their ends; ended ones among them
    _compact_at   length at which ended leases are removed
    """

    def __init__(self, owner: object) -> None:
        self._owner = owner
        self._leases: deque[RenewedLease] = deque()
        self._compact_at = COMPACT_LEASES_MIN
        self.due_at: int | None = None

    def add(self, client: Client, handle: str, leased: Leased, group: str, topic: str, now: int) -> None:
        """Renew a lease that was given at `now` for INVISIBLE_MS. Ignored when its client has too many."""
        lease = RenewedLease(client, handle, leased, group, topic, now, now + _INVISIBLE_NS)
        if client.add_lease(lease, now):
            if len(self._leases) >= self._compact_at:
                self._leases = deque(known for known in self._leases if not known.ended)
                self._compact_at = max(COMPACT_LEASES_MIN, 2 * len(self._leases))
            self._leases.append(lease)
            if self.due_at is None:
                self.due_at = lease.ends_ns - RENEW_AHEAD_NS

    def expire(self, now: int) -> Sequence[Command]:
        """Extend the leases that are due: one command for consecutive leases of the same group and topic."""
        commands: list[Command] = []
        leases = self._leases
        batch: list[RenewedLease] = []
        while leases and (leases[0].ended or leases[0].ends_ns - RENEW_AHEAD_NS <= now):
            lease = leases.popleft()
            if lease.ended:
                continue
            if now - lease.since_ns >= AGE_MAX_NS:
                delay_ms = min(lease.client.retry.delay_ms(lease.attempt - 1), limits.INVISIBLE_MS_MAX)
                lease.client.remove_lease(lease.handle)
                commands.append(Extend((self._owner, ()), lease.group, lease.topic, [lease.receipt], delay_ms))
                continue
            if batch and (lease.group != batch[0].group or lease.topic != batch[0].topic or len(batch) >= BATCH_LEASES_MAX):
                commands.append(self._extend(batch))
                batch = []
            batch.append(lease)
        if batch:
            commands.append(self._extend(batch))
        self.due_at = max(leases[0].ends_ns - RENEW_AHEAD_NS, now + SCAN_NS) if leases else None
        return commands

    def extended(self, batch: Sequence[RenewedLease], event: Event, now: int) -> None:
        """The event of an extension: new receipts, or the end of a renewal. `batch` is empty for the last extension."""
        if not batch:
            return
        outcomes = event.outcomes if isinstance(event, Extended) else [None] * len(batch)
        for lease, outcome in zip(batch, outcomes, strict=True):
            if lease.ended:
                continue
            if not isinstance(outcome, Receipt):
                lease.client.remove_lease(lease.handle)
                continue
            lease.receipt = outcome
            lease.ends_ns = now + _INVISIBLE_NS
            self._leases.append(lease)
            if self.due_at is None:
                self.due_at = lease.ends_ns - RENEW_AHEAD_NS

    def _extend(self, batch: list[RenewedLease]) -> Extend:
        receipts = [lease.receipt for lease in batch]
        return Extend((self._owner, tuple(batch)), batch[0].group, batch[0].topic, receipts, INVISIBLE_MS)
