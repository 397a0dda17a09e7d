"""Which leases were broken: a pure check of what consumers were told and when, that names no lease unless it is proven.

All times are seconds of one monotonic clock. A lease begins at some instant between the request for it and its answer; none is
assumed where these leave it open, and nothing else is forgiven.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from math import inf


class Answer(Enum):
    """To a change of a lease.

    DONE     with success
    REFUSED  that the lease does not hold, or that its message is settled
    NONE     there was none, or one that does not say what has become of it
    """

    DONE = "done"
    REFUSED = "refused"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class LeaseChange:
    """An acknowledgement, or another invisible time.

    invisible_s  from the change on; None: it is an acknowledgement
    """

    asked_s: float
    answered_s: float
    answer: Answer
    invisible_s: float | None = None


@dataclass(slots=True)
class Handout:
    """A message as one consumer got it: a lease.

    message      what it is known by in every delivery; copies that are stored twice are two messages
    receipt      of its lease
    asked_s      when the consumer sent its request
    answered_s   when it had the message
    invisible_s  how long nobody else may get it
    changes      in the order in which the consumer made them
    """

    message: Hashable
    asked_s: float
    answered_s: float
    invisible_s: float
    receipt: str = ""
    changes: list[LeaseChange] = field(default_factory=list)

    def held_until_s(self) -> float:
        """Nobody else may get the message before; infinity: it is settled.

        The lease began when it was asked for, at the earliest: it is not claimed to last longer than from then on.
        """
        until_s = self.asked_s + self.invisible_s
        for change in self.changes:
            if change.answer is Answer.REFUSED:
                return min(until_s, change.asked_s)
            in_time = change.answer is Answer.DONE and change.answered_s <= until_s
            if change.invisible_s is None:
                # One that was answered too late, or not at all, may have settled the message or not: the lease held anyway.
                until_s = inf if in_time else until_s
            else:
                changed_s = change.asked_s + change.invisible_s
                until_s = changed_s if in_time else min(until_s, changed_s)
        return until_s


@dataclass(frozen=True, slots=True)
class BrokenLease:
    """Two deliveries of one message, whichever of them was first, of which the second came while the first one's lease held.

    early_s  how much too early, at least; infinity: it was acknowledged
    """

    one: Handout
    other: Handout
    early_s: float

    def was_settled(self) -> bool:
        """The message came again after its acknowledgement had been answered with success."""
        return self.early_s == inf


def broken(handouts: Iterable[Handout]) -> list[BrokenLease]:
    """The leases that were certainly broken, by the time of the delivery that broke them."""
    deliveries: dict[Hashable, list[Handout]] = {}
    for each in handouts:
        deliveries.setdefault(each.message, []).append(each)
    found: list[BrokenLease] = []
    for several in deliveries.values():
        for one, other in combinations(sorted(several, key=lambda each: each.answered_s), 2):
            early_s = _early_s(one, other)
            if other.asked_s <= one.answered_s:
                # Their requests overlap, so that either lease may have begun first: both orders have to be impossible.
                early_s = min(early_s, _early_s(other, one))
            if early_s > 0:
                found.append(BrokenLease(one, other, early_s))
    return sorted(found, key=lambda each: each.other.answered_s)


def given_twice(handouts: Iterable[Handout]) -> list[tuple[Handout, Handout]]:
    """The leases that two receives were given, whatever the store has forgotten meanwhile: two leases have two receipts."""
    seen: dict[tuple[Hashable, str], Handout] = {}
    found: list[tuple[Handout, Handout]] = []
    for each in handouts:
        other = seen.setdefault((each.message, each.receipt), each)
        if other is not each:
            found.append((other, each))
    return found


def _early_s(first: Handout, second: Handout) -> float:
    """How much too early the second one is, at least, when it began after the first one."""
    return first.held_until_s() - second.answered_s
