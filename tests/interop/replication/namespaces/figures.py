"""What the rounds of a run have measured, as a table: how long clients wait for service, for each kind of fault.

The wait at a moment is the time from then to the first acknowledgement of what was sent afterwards. The longest wait of a time
counts: a leader that serves on for some seconds after a fault, and is replaced then, is a wait at that moment.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple


class Round(NamedTuple):
    """One fault.

    kind      its name
    first_s   longest wait during the fault of a client that sends at all gateways that the fault does not hit itself, seconds
    all_s     longest wait during the fault at one of these gateways
    healed_s  longest wait at one of all gateways from the end of the fault until all is well
    whole_s   seconds from the end of the fault until all replicas are in sync
    """

    kind: str
    first_s: float
    all_s: float
    healed_s: float
    whole_s: float


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below `share` of all: a measured one, never between two."""
    ascending = sorted(values)
    return ascending[max(math.ceil(share * len(ascending)) - 1, 0)]


def table(rounds: Sequence[Round]) -> str:
    """A row for each kind, by name, and one for all: p50 and p99 of each figure."""
    kinds: dict[str, list[Round]] = defaultdict(list)
    for each in rounds:
        kinds[each.kind].append(each)
    rows = [
        "| Fault | Rounds | Longest wait at any gateway, p50 / p99 | At each gateway | After its end | All in sync again |",
        "|---|---|---|---|---|---|",
    ]
    for kind, found in [*sorted(kinds.items()), ("all", list(rounds))]:
        columns = (
            [each.first_s for each in found], [each.all_s for each in found],
            [each.healed_s for each in found], [each.whole_s for each in found],
        )  # fmt: skip
        cells = [f"{quantile(column, 0.5):.2f} / {quantile(column, 0.99):.2f} s" for column in columns] if found else [""] * 4
        rows.append(f"| {kind} | {len(found)} | {' | '.join(cells)} |")
    return "\n".join(rows)
