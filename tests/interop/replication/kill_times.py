"""How long clients had to wait when a leader was killed: pure functions of recorded times, and the table of a run.

All times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from statistics import median

from tests.interop.rocketmq.failover.recovery import Acknowledged


def first_again_s(sent: Sequence[Acknowledged], killed_s: float) -> float:
    """From a kill to the first acknowledgement of a message that was sent after it. ValueError: there is none."""
    return min(each.answered_s for each in sent if each.asked_s >= killed_s) - killed_s


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def table(sent: Mapping[str, Sequence[Acknowledged]], kills: Sequence[float], lost: Mapping[str, int]) -> str:
    """A table in Markdown: a row for each protocol.

    kills   their moments
    lost    how many acknowledged messages are not stored
    """
    rows = ["| Sent by | Acknowledged | Lost | Kill to first acknowledged send: p50 | p99 | max |", "|---|---|---|---|---|---|"]
    for name, messages in sent.items():
        waits = [first_again_s(messages, kill) for kill in kills]
        times = " | ".join(f"{each:.2f} s" for each in (median(waits), percentile(waits, 0.99), max(waits)))
        rows.append(f"| {name} | {len(messages)} | {lost[name]} | {times} |")
    return "\n".join(rows)
