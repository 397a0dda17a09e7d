"""The rows of a batch and of each task, computed from positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from gateway.client.answer import Epoch, QueueRoute

SMALL_ROWS: Final = 2_000
"""Ranges of fewer rows are combined into tasks of up to this many rows: a task costs more than reading them."""


class Range(NamedTuple):
    """Offsets [start, end) of one queue.

    epoch   epoch of the topic that the offsets belong to; None: not known
    """

    queue: QueueRoute
    start: int
    end: int
    epoch: Epoch | None = None


def limit_rows(lags: Mapping[QueueRoute, int], most: int) -> dict[QueueRoute, int]:
    """Distribute `most` rows over the queues with lag: queue -> rows, at least 1 each.

    The shares are equal; rows that a queue does not need go to the others. The sum exceeds `most` only when more than
    `most` queues have lag.
    """
    out: dict[QueueRoute, int] = {}
    left = most
    lagging = sorted((lag, queue) for queue, lag in lags.items() if lag > 0)
    for at, (lag, queue) in enumerate(lagging):
        share = max(left // (len(lagging) - at), 1)
        out[queue] = min(lag, share)
        left = max(left - out[queue], 0)
    return out


def divide(ranges: Sequence[Range], partition_rows: int, partitions_min: int) -> list[list[Range]]:
    """Ranges -> the ranges of each task. Large ranges are split, small ones combined; ranges of one queue keep their order."""
    total = sum(one.end - one.start for one in ranges)
    if total == 0:
        return []
    size = max(min(partition_rows, -(-total // partitions_min)), 1)
    tasks: list[list[Range]] = []
    small: list[Range] = []
    small_rows = 0
    for one in ranges:
        rows = one.end - one.start
        if rows == 0:
            continue
        if rows < min(SMALL_ROWS, size):
            if small_rows + rows > min(SMALL_ROWS, size):
                tasks.append(small)
                small, small_rows = [], 0
            small.append(one)
            small_rows += rows
            continue
        pieces = -(-rows // size)
        edges = [one.start + rows * piece // pieces for piece in range(pieces + 1)]
        tasks += [[one._replace(start=low, end=high)] for low, high in pairwise(edges)]
    return [*tasks, small] if small else tasks
