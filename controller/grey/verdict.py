"""What a judge of replicas decides, and who judges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from controller.grey.measure import Excess
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures


@dataclass(frozen=True, slots=True)
class Move:
    """Leadership should go elsewhere.

    group      store group
    source     the leader that is slow
    target     the member of the SyncStateSet that should lead
    excesses   why
    out_ms     how long the source leads nothing, at least
    """

    group: str
    source: int
    target: int
    excesses: Sequence[Excess]
    out_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """Leadership would have been moved, and was not.

    group      store group
    source     the leader that is slow
    excesses   how it is slow
    reason     why it was left, for people
    """

    group: str
    source: int
    excesses: Sequence[Excess]
    reason: str


@dataclass(frozen=True, slots=True)
class Returned:
    """A replica may lead again."""

    group: str
    replica: int


Verdict = Move | Held | Returned


class ReplicaJudge(Protocol):
    """Decides by figures. Another one can be compared over the same record (`controller/grey/replay.py`)."""

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        """A replica has said how it is."""

    def look(self, groups: Iterable[StoreGroup], alive: Iterable[tuple[str, int]], now_ms: int) -> list[Verdict]:
        """Decide. Call it about once a second. `alive`: (group, replica id) of the replicas that were heard in time."""

    def moved(self, move: Move, is_done: bool, now_ms: int) -> None:
        """A move that was decided has been carried out, or could not be."""

    def is_fit(self, group: str, replica: int) -> bool:
        """False for a replica that should not be preferred in an election."""
