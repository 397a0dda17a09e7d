"""Leases that stand behind deliveries to members of groups: renewed while the client is there, settled, given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, MessageStore
from domain.receipt import Receipt
from gateway.usecase.consume.dead_letters import DeadLetters
from gateway.usecase.sessions.mqtt_session import BURIED, HELD, RETURNED, SETTLED, Claim

LEASE_MS: Final = 60_000
"""How long a lease runs: what a node that is killed keeps from the other members. A client that is there has no such limit."""
RENEW_MS: Final = 40_000
"""Leases that end within this are renewed."""
LOOK_NS: Final = 15_000 * MILLISECOND_NS


class Claims:
    """All leases of sessions.

    A lease that is being renewed has no valid receipt until the store has answered: what becomes of it meanwhile is noted
    as its fate, and done then.
    """

    def __init__(self, store: MessageStore, clock: Clock, dead_letters: DeadLetters) -> None:
        self._store = store
        self._clock = clock
        self._dead_letters = dead_letters
        self._held: dict[Claim, None] = {}
        self._settling: dict[tuple[str, str], list[Receipt]] = {}
        self._looking = False

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, claim: Claim) -> None:
        """Renew this one from now on."""
        self._held[claim] = None
        if not self._looking:
            self._looking = True
            self._clock.call_at(self._clock.monotonic_ns() + LOOK_NS, self._look)

    def settle(self, claim: Claim) -> None:
        """Its message has done its duty. All of one turn are one call of the store."""
        if not self._ends(claim, SETTLED):
            return
        if not self._settling:
            self._clock.call_soon(self._settle_all)
        self._settling.setdefault((claim.group, claim.topic), []).append(claim.receipt)

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Free for whoever comes next, each after its delay."""
        found: dict[tuple[str, str, int], list[Receipt]] = {}
        for claim in claims:
            if self._ends(claim, RETURNED):
                found.setdefault((claim.group, claim.topic, claim.delay_ms), []).append(claim.receipt)
        for (group, topic, delay_ms), receipts in found.items():
            self._store.extend(group, topic, receipts, delay_ms, _ignore)

    def bury(self, claim: Claim) -> None:
        """Nobody else may have it, and its client will not come back for it: to the dead-letter topic."""
        if self._ends(claim, BURIED):
            self._dead_letters.move_leased(claim.group, claim.topic, claim.receipt, _ignore)

    def _ends(self, claim: Claim, fate: int) -> bool:
        """Note what becomes of it; True when that can be done now."""
        self._held.pop(claim, None)
        claim.fate = fate
        return not claim.renewing

    def _settle_all(self) -> None:
        settling, self._settling = self._settling, {}
        for (group, topic), receipts in settling.items():
            self._store.settle(group, topic, receipts, _ignore)

    def _look(self) -> None:
        self._looking = False
        if not self._held:
            return
        soon = self._clock.wall_ms() + RENEW_MS
        due: dict[tuple[str, str], list[Claim]] = {}
        for claim in self._held:
            if claim.end_ms < soon and not claim.renewing:
                due.setdefault((claim.group, claim.topic), []).append(claim)
        for (group, topic), claims in due.items():
            self._renew(group, topic, claims)
        self._looking = True
        self._clock.call_at(self._clock.monotonic_ns() + LOOK_NS, self._look)

    def _renew(self, group: str, topic: str, claims: list[Claim]) -> None:
        for claim in claims:
            claim.renewing = True

        def renewed(result: list[Receipt | Failure] | Failure) -> None:
            end_ms = self._clock.wall_ms() + LEASE_MS
            outcomes = [result] * len(claims) if isinstance(result, Failure) else result
            for claim, outcome in zip(claims, outcomes, strict=True):
                claim.renewing = False
                if isinstance(outcome, Receipt):
                    claim.receipt = outcome
                    claim.end_ms = end_ms
                else:
                    # It is another's by now, or the store takes no writes: there is nothing left to renew.
                    self._held.pop(claim, None)
                self._act(claim)

        self._store.extend(group, topic, [claim.receipt for claim in claims], LEASE_MS, renewed)

    def _act(self, claim: Claim) -> None:
        """Do what has been decided while the lease was being renewed."""
        if claim.fate == SETTLED:
            self.settle(claim)
        elif claim.fate == RETURNED:
            self.give_back([claim])
        elif claim.fate == BURIED:
            self.bury(claim)
        else:
            assert claim.fate == HELD


def _ignore(_: object) -> None:
    """Where the store does not take it, the lease ends in its own time and the message comes again."""
