"""Leases of messages that are delivered by shared subscriptions: renewed while the client is connected, then ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.message.receipt import Receipt
from domain.ports import Clock
from domain.store.store_ports import Leases
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.sessions.in_flight import DEAD_LETTERED, HELD, RETURNED, SETTLED, DeliveryLease

LEASE_MS: Final = 60_000
"""Length of a lease: for so long a crash of the node delays redelivery. Leases of connected clients are renewed."""
RENEW_BEFORE_END_MS: Final = 40_000
"""A lease is renewed when it ends within this time."""
RENEWAL_CHECK_NS: Final = 15_000 * MILLISECOND_NS
"""Time between two checks for leases to renew."""


class DeliveryLeases:
    """The leases of all sessions.

    A lease that is being renewed has no valid receipt until the store has answered. An outcome that is decided in between is
    carried out after the answer.
    """

    def __init__(self, leases: Leases, clock: Clock, dead_letters: DeadLetters) -> None:
        self._leases = leases
        self._clock = clock
        self._dead_letters = dead_letters
        self._held: dict[DeliveryLease, None] = {}
        self._to_settle: dict[tuple[str, str], list[Receipt]] = {}
        self._renewal_scheduled = False

    def __len__(self) -> int:
        return len(self._held)

    def track(self, lease: DeliveryLease) -> None:
        """Renew `lease` from now on, until it is settled, given back or dead-lettered."""
        self._held[lease] = None
        if not self._renewal_scheduled:
            self._renewal_scheduled = True
            self._clock.call_at(self._clock.monotonic_ns() + RENEWAL_CHECK_NS, self._renew_due)

    def settle(self, lease: DeliveryLease) -> None:
        """Settle the message. Settlements of one turn are one call of the store for each group and topic."""
        if not self._ends(lease, SETTLED):
            return
        if not self._to_settle:
            self._clock.call_soon(self._settle_all)
        self._to_settle.setdefault((lease.group, lease.topic), []).append(lease.receipt)

    def give_back(self, leases: Iterable[DeliveryLease]) -> None:
        """Return messages to their groups for redelivery, each after its `delay_ms`."""
        found: dict[tuple[str, str, int], list[Receipt]] = {}
        for lease in leases:
            if self._ends(lease, RETURNED):
                found.setdefault((lease.group, lease.topic, lease.delay_ms), []).append(lease.receipt)
        for (group, topic, delay_ms), receipts in found.items():
            self._leases.extend(group, topic, receipts, delay_ms, _ignore)

    def dead_letter(self, lease: DeliveryLease) -> None:
        """Move the message to the dead-letter topic of its group."""
        if self._ends(lease, DEAD_LETTERED):
            self._dead_letters.move_leased(lease.group, lease.topic, lease.receipt, _ignore)

    def _ends(self, lease: DeliveryLease, outcome: int) -> bool:
        """Record the outcome. True when it can be carried out now, False when a renewal is under way."""
        self._held.pop(lease, None)
        lease.outcome = outcome
        return not lease.renewing

    def _settle_all(self) -> None:
        settling, self._to_settle = self._to_settle, {}
        for (group, topic), receipts in settling.items():
            self._leases.settle(group, topic, receipts, _ignore)

    def _renew_due(self) -> None:
        self._renewal_scheduled = False
        if not self._held:
            return
        soon = self._clock.wall_ms() + RENEW_BEFORE_END_MS
        due: dict[tuple[str, str], list[DeliveryLease]] = {}
        for lease in self._held:
            if lease.end_ms < soon and not lease.renewing:
                due.setdefault((lease.group, lease.topic), []).append(lease)
        for (group, topic), leases in due.items():
            self._renew(group, topic, leases)
        self._renewal_scheduled = True
        self._clock.call_at(self._clock.monotonic_ns() + RENEWAL_CHECK_NS, self._renew_due)

    def _renew(self, group: str, topic: str, leases: list[DeliveryLease]) -> None:
        for lease in leases:
            lease.renewing = True

        def renewed(result: list[Receipt | Failure] | Failure) -> None:
            end_ms = self._clock.wall_ms() + LEASE_MS
            outcomes = [result] * len(leases) if isinstance(result, Failure) else result
            for lease, outcome in zip(leases, outcomes, strict=True):
                lease.renewing = False
                if isinstance(outcome, Receipt):
                    lease.receipt = outcome
                    lease.end_ms = end_ms
                else:
                    # The lease has ended, or the store takes no writes: do not renew again.
                    self._held.pop(lease, None)
                self._carry_out(lease)

        self._leases.extend(group, topic, [lease.receipt for lease in leases], LEASE_MS, renewed)

    def _carry_out(self, lease: DeliveryLease) -> None:
        """Carry out the outcome that was decided while the renewal was under way."""
        if lease.outcome == SETTLED:
            self.settle(lease)
        elif lease.outcome == RETURNED:
            self.give_back([lease])
        elif lease.outcome == DEAD_LETTERED:
            self.dead_letter(lease)
        else:
            assert lease.outcome == HELD


def _ignore(_: object) -> None:
    """Ignores the result: if the store refuses, the lease expires and the message is redelivered."""
