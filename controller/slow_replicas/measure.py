"""Measured figures of replicas, and the limits beyond which a figure is extraordinary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple

from domain.controller.health import UNMEASURED, ReplicaFigures

DEVIATIONS: Final = 6.0
"""Deviations above the ordinary from which on a figure is suspicious."""
_TO_SIGMA: Final = 1.4826
"""Median absolute deviation -> standard deviation, where figures are normal."""


class Measure(NamedTuple):
    """One figure of a replica.

    name       as in logs and records
    read       reads the figure from a replica's report
    floor      least difference from the ordinary, in the unit of the figure: small figures vary
    ratio      least multiple of the ordinary
    by_peers   True: the ordinary is that of the other replicas of the group; False: that of this replica's past, since the
               others do different work
    """

    name: str
    read: Callable[[ReplicaFigures], int]
    floor: float
    ratio: float
    by_peers: bool


MEASURES: Final = (
    Measure("sync_us", lambda figures: figures.sync_us, 50_000, 4.0, True),
    Measure("ack_us", lambda figures: figures.ack_us, 250_000, 4.0, False),
    Measure("turn_us", lambda figures: figures.turn_us, 200_000, 4.0, False),
    Measure("errors", lambda figures: figures.errors, 0.5, 1.0, True),
)


PATH: Final = Measure("path_us", lambda figures: UNMEASURED, 250_000, 4.0, True)
"""Time from a write of the leader to the answer of one follower, as the leader measures it (ReplicaFigures.paths): it is
compared with that of the other followers."""


class Excess(NamedTuple):
    """A figure that is out of the ordinary.

    level      the figure: the median of the newest samples
    ordinary   the median of the compared samples
    bound      the bound that the figure exceeds
    """

    name: str
    level: float
    ordinary: float
    bound: float


def level_of(measure: Measure, samples: Sequence[ReplicaFigures]) -> float | None:
    """The median of a figure over samples; None when nothing was measured."""
    found = [value for each in samples if (value := measure.read(each)) != UNMEASURED]
    return median(found) if found else None


def excess_of(measure: Measure, recent: Sequence[ReplicaFigures], ordinary: Sequence[ReplicaFigures]) -> Excess | None:
    """Excess of a replica's `recent` samples over the `ordinary` ones; None without one, or when they cannot be compared."""
    found = [value for each in ordinary if (value := measure.read(each)) != UNMEASURED]
    return excess_over(measure, level_of(measure, recent), found)


def excess_over(measure: Measure, level: float | None, ordinary: Sequence[int]) -> Excess | None:
    """Excess of `level` over the `ordinary` figures; None without one, or when one of both is unknown."""
    if level is None or not ordinary:
        return None
    middle = median(ordinary)
    spread = median([abs(value - middle) for value in ordinary]) * _TO_SIGMA
    bound = max(middle + measure.floor, middle + DEVIATIONS * spread, middle * measure.ratio)
    return Excess(measure.name, level, middle, bound) if level > bound else None
