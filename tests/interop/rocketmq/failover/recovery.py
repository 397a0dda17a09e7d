"""How long senders had to wait around kills: pure functions of recorded times, and the table of a run.

All times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple


class Acknowledged(NamedTuple):
    """A message whose sending was answered with success.

    asked_s     when its sender began
    answered_s  when the answer was there
    """

    body: str
    asked_s: float
    answered_s: float


@dataclass(frozen=True, slots=True)
class Kill:
    """A master was killed.

    group      the broker group whose master it was
    killed_s   when the signal had been sent
    elected_s  when the controller named another master
    in_sync_s  when the killed broker, started again, was in sync
    """

    group: str
    killed_s: float
    elected_s: float
    in_sync_s: float


def longest_gap_s(sent: Sequence[Acknowledged], begin_s: float, end_s: float) -> float:
    """The longest time without an acknowledgement that overlaps with [begin, end).

    A time that began before counts from its begin, one that ends behind `end_s` to its end. Without an acknowledgement on one
    of the two sides, from `begin_s` or to `end_s`.
    """
    times = sorted(each.answered_s for each in sent)
    before = max((each for each in times if each <= begin_s), default=begin_s)
    behind = min((each for each in times if each >= end_s), default=end_s)
    points = [before, *(each for each in times if begin_s < each < end_s), behind]
    return max(later - earlier for earlier, later in pairwise(points))


def first_again_s(sent: Sequence[Acknowledged], groups: Mapping[str, set[str]], kill: Kill) -> float | None:
    """From a kill to the first acknowledgement of a message that was sent afterwards and is in the killed group's log.

    None: there is none. `groups`: body -> broker groups that have it; a message that two have says nothing, as a gateway sends
    to another group what one does not answer.
    """
    times = (
        each.answered_s - kill.killed_s
        for each in sent
        if each.asked_s >= kill.killed_s and groups.get(each.body) == {kill.group}
    )
    return min(times, default=None)


def table(sent: Mapping[str, Sequence[Acknowledged]], groups: Mapping[str, set[str]], kills: Sequence[Kill]) -> str:
    """A table in Markdown: a row for each protocol, seconds. `sent`: by protocol."""
    rows = [
        "| In by | Acknowledged | Longest wait for an acknowledgement, p50 / worst of the kills "
        "| First message at the killed group again, p50 / worst |",
        "|---|---|---|---|",
    ]
    for protocol, messages in sent.items():
        gaps = [longest_gap_s(messages, kill.killed_s, kill.in_sync_s) for kill in kills]
        firsts = [first_again_s(messages, groups, kill) for kill in kills]
        again = [each for each in firsts if each is not None]
        never = f"; {len(firsts) - len(again)} times none" if len(again) < len(firsts) else ""
        rows.append(f"| {protocol} | {len(messages)} | {_both(gaps)} | {_both(again)}{never} |")
    elected = [kill.elected_s - kill.killed_s for kill in kills]
    in_sync = [kill.in_sync_s - kill.killed_s for kill in kills]
    rows.append(f"| Apache's controller names another master | | | {_both(elected)} |")
    rows.append(f"| the killed broker, started again, is in sync | | | {_both(in_sync)} |")
    return "\n".join(rows)


def _both(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.1f} / {max(seconds):.1f} s" if seconds else "-"
