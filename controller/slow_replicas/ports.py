"""The port of the judge of replicas, and its verdicts. The judge by statistics: detector.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.slow_replicas.measure import Excess
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures, Standing


@dataclass(frozen=True, slots=True)
class Move:
    """Leadership should go elsewhere.

    source     the leader that is out of the ordinary
    target     the member of the SyncStateSet that should lead
    excesses   figures of the source that are out of the ordinary
    out_ms     least time for which the source is passed over
    """

    group: str
    source: int
    target: int
    excesses: Sequence[Excess]
    out_ms: int


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A follower is slow: it should not lead, and its leader should not wait for it.

    excesses   figures that are out of the ordinary
    out_ms     least time of that
    """

    group: str
    replica: int
    excesses: Sequence[Excess]
    out_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """A replica is out of the ordinary, without a consequence.

    excesses   figures that are out of the ordinary
    """

    group: str
    source: int
    excesses: Sequence[Excess]
    reason: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A replica is as fast as the others again."""

    group: str
    replica: int


@dataclass(frozen=True, slots=True)
class ClockOff:
    """The wall clock of a replica deviates, or is right again.

    excesses   the deviation; empty: it is right again
    """

    group: str
    replica: int
    excesses: Sequence[Excess]


Verdict = Move | PassedOver | Held | Returned | ClockOff


class ReplicaJudge(Protocol):
    """Decides by figures. Another one can be compared over the same record (`controller/slow_replicas/replay.py`)."""

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        """A replica has said how it is."""

    def ticked(self, wall_ms: int, now_ms: int) -> None:
        """The controller's own wall clock, each second, whether it leads or not; UNMEASURED: it is not known."""

    def poll(self, groups: Iterable[StoreGroup], alive: Iterable[tuple[str, int]], now_ms: int) -> list[Verdict]:
        """Decide. Call it about once a second. `alive`: (group, replica id) of the replicas with a valid heartbeat."""

    def moved(self, move: Move, is_done: bool, now_ms: int) -> None:
        """Take the result of a decided move: it was carried out, or could not be."""

    def standing(self, group: str, replica: int) -> Standing:
        """Fitness of a replica to lead."""

    def out(self) -> int:
        """Number of replicas that should not lead because they were slow."""


def excess_text(excesses: Iterable[Excess]) -> str:
    """Figures of a verdict, for people."""
    return ", ".join(f"{each.name} {each.level:,.0f}, usual {each.ordinary:,.0f}, bound {each.bound:,.0f}" for each in excesses)
