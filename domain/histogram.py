"""Durations counted by their length, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, final

BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets in seconds; a last bucket has what is longer."""


@final
class Histogram:
    """Counts of durations.

    counts   for each of BOUNDS_S, and for longer ones
    sum_s    all durations together, in seconds
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration, `times` times."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += times
        self.sum_s += seconds * times
