"""Leases of messages that are delivered by shared subscriptions: renewed while the client is connected, then ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from domain.errors import Failure
from domain.lazy_heap import LazyHeap
from domain.limits import MILLISECOND_NS
from domain.message.receipt import Receipt
from domain.store.store_ports import Leases
from domain.walk import Walk, Walks
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.sessions.in_flight import DEAD_LETTERED, HELD, RETURNED, SETTLED, DeliveryLease

LEASE_MS: Final = 60_000
"""Length of a lease: for so long a crash of the node delays redelivery. Leases of connected clients are renewed."""
RENEW_BEFORE_END_MS: Final = 40_000
"""A lease is renewed when it has been held until this long before its end, at the next check."""
RENEWAL_CHECK_NS: Final = 15_000 * MILLISECOND_NS
"""Time between two checks for leases to renew."""
RENEWED: Final = 64
"""Leases that one step of a check renews."""


class DeliveryLeases:
    """The leases of all sessions.

    A lease that is being renewed has no valid receipt until the store has answered. An outcome that is decided in between is
    carried out after the answer.

    _held     leases by the monotonic time from which on each is renewed
    _number   number of times that a lease was entered there
    """

    def __init__(self, leases: Leases, walks: Walks, dead_letters: DeadLetters) -> None:
        self._leases = leases
        self._walks = walks
        self._clock = walks.clock
        self._dead_letters = dead_letters
        self._held: LazyHeap[DeliveryLease] = LazyHeap()
        self._number = 0
        self._to_settle: dict[tuple[str, str], list[Receipt]] = {}
        self._renewal_scheduled = False

    def __len__(self) -> int:
        return len(self._held.places)

    def track(self, lease: DeliveryLease) -> None:
        """Renew `lease` from now on, until it is settled, given back or dead-lettered."""
        self._hold(lease)
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
        self._held.remove(lease)
        lease.outcome = outcome
        return not lease.renewing

    def _settle_all(self) -> None:
        settling, self._to_settle = self._to_settle, {}
        for (group, topic), receipts in settling.items():
            self._leases.settle(group, topic, receipts, _ignore)

    def _renew_due(self) -> None:
        self._renewal_scheduled = False
        if self._held.places:
            self._renewal_scheduled = True
            self._walks.begin(self._renew_all())

    def _renew_all(self) -> Walk:
        """Renew the leases that end soon, RENEWED in a step."""
        now = self._clock.monotonic_ns()
        first = self._held.first()
        while first is not None and first[0] <= now:
            due: dict[tuple[str, str], list[DeliveryLease]] = {}
            for _ in range(RENEWED):
                if first is None or first[0] > now:
                    break
                lease = first[2]
                self._hold(lease)
                first = self._held.first()
                if not lease.renewing:
                    due.setdefault((lease.group, lease.topic), []).append(lease)
            for (group, topic), leases in due.items():
                self._renew(group, topic, leases)
            yield
            first = self._held.first()
        self._clock.call_at(now + RENEWAL_CHECK_NS, self._renew_due)

    def _hold(self, lease: DeliveryLease) -> None:
        """Renew a lease later."""
        self._number += 1
        at = self._clock.monotonic_ns() + (LEASE_MS - RENEW_BEFORE_END_MS) * MILLISECOND_NS
        self._held.put(lease, at, self._number)

    def _renew(self, group: str, topic: str, leases: list[DeliveryLease]) -> None:
        for lease in leases:
            lease.renewing = True

        def renewed(result: list[Receipt | Failure] | Failure) -> None:
            outcomes = [result] * len(leases) if isinstance(result, Failure) else result
            for lease, outcome in zip(leases, outcomes, strict=True):
                lease.renewing = False
                if isinstance(outcome, Receipt):
                    lease.receipt = outcome
                else:
                    # The lease has ended, or the store takes no writes: do not renew again.
                    self._held.remove(lease)
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
