"""The detector: compares what a leader measures with its peers and with its own past, and moves leadership away from it.

    ordinary --out of the ordinary--> suspicious --SUSPICIONS looks in a row, a better member, and room--> moved, source out
    out --its time is over, PROBES ordinary looks in a row--> fit

Comparable with outlier ejection of load balancers: deviations from the median, a growing time out, a bound on how many are out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

from controller.grey.ejections import Ejections, Place
from controller.grey.history import FiguresHistory
from controller.grey.measure import MEASURES, Excess, Measure, excess_of, level_of
from controller.grey.verdict import Held, Move, Returned, Verdict
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures

SUSPICIONS: Final = 5
"""Looks in a row at which a leader has to be out of the ordinary."""
BETWEEN_MS: Final = 60_000
"""Time between two moves of one group at least: a move costs its clients a moment."""
BETTER: Final = 0.5
"""A target's figure is at most this share of the leader's, where both have one."""
STALE_MS: Final = 5_000
"""Figures that are older say nothing about now."""
PLACES_MAX: Final = 16_384
"""Replicas whose figures are kept."""


@final
class GreyDetector:
    """`controller.grey.verdict.ReplicaJudge` by statistics. `now_ms`: monotonic milliseconds, handed in.

    _histories    figures of replicas
    _suspicions   looks in a row at which the leader of a group was suspicious
    _moved_ms     when leadership of a group was last moved, or a move was last attempted
    """

    def __init__(self) -> None:
        self._histories: dict[Place, FiguresHistory] = {}
        self._suspicions: dict[str, int] = {}
        self._moved_ms: dict[str, int] = {}
        self._ejections = Ejections()

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        """ReplicaJudge.heard."""
        found = self._histories.get((group, replica))
        if found is None:
            if len(self._histories) >= PLACES_MAX:
                return
            found = self._histories[group, replica] = FiguresHistory()
        found.add(figures, leads, now_ms)

    def is_fit(self, group: str, replica: int) -> bool:
        """ReplicaJudge.is_fit."""
        return not self._ejections.is_out((group, replica))

    def out(self) -> int:
        """How many replicas are out."""
        return self._ejections.count()

    def look(self, groups: Iterable[StoreGroup], alive: Iterable[Place], now_ms: int) -> list[Verdict]:
        """ReplicaJudge.look."""
        known = list(groups)
        self._forget(known)
        living = set(alive)
        replicas = sum(len(each.replicas) for each in known)
        verdicts: list[Verdict] = []
        for group in known:
            verdicts += self._probed(group, now_ms)
            verdict = self._judged(group, living, replicas, now_ms)
            if verdict is not None:
                verdicts.append(verdict)
        return verdicts

    def moved(self, move: Move, is_done: bool, now_ms: int) -> None:
        """ReplicaJudge.moved. A move that failed is tried again after BETWEEN_MS; who was to be ejected stays out."""
        self._moved_ms[move.group] = now_ms

    def _forget(self, groups: Sequence[StoreGroup]) -> None:
        """Forget what is of no group any more."""
        places = {(group.name, each.id) for group in groups for each in group.replicas}
        for place in [each for each in self._histories if each not in places]:
            del self._histories[place]
        self._ejections.keep(places)
        names = {group.name for group in groups}
        for kept in (self._suspicions, self._moved_ms):
            for name in [each for each in kept if each not in names]:
                del kept[name]

    def _probed(self, group: StoreGroup, now_ms: int) -> list[Verdict]:
        """The replicas of a group that have become fit again."""
        return [
            Returned(group.name, each.id)
            for each in group.replicas
            if self._ejections.looked((group.name, each.id), self._is_ordinary(group, each.id, now_ms), now_ms)
        ]

    def _is_ordinary(self, group: StoreGroup, replica: int, now_ms: int) -> bool:
        history = self._fresh(group.name, replica, now_ms)
        return history is not None and not self._excesses(group, replica, history, now_ms)

    def _judged(self, group: StoreGroup, alive: set[Place], replicas: int, now_ms: int) -> Verdict | None:
        """What becomes of the leader of a group; None: nothing."""
        leader, name = group.leader, group.name
        history = self._fresh(name, leader, now_ms) if leader else None
        excesses = self._excesses(group, leader, history, now_ms) if history is not None else []
        if not excesses:
            self._suspicions.pop(name, None)
            return None
        count = self._suspicions[name] = self._suspicions.get(name, 0) + 1
        if count < SUSPICIONS or (count - SUSPICIONS) % SUSPICIONS:
            return None
        last_ms = self._moved_ms.get(name)
        if last_ms is not None and now_ms - last_ms < BETWEEN_MS:
            return Held(name, leader, excesses, "it was moved, or was to be moved, less than a minute ago")
        if not self._ejections.has_room(replicas):
            return Held(name, leader, excesses, f"{self._ejections.count()} of {replicas} replicas are out already")
        target = self._target(group, excesses, alive, now_ms)
        if not target:
            return Held(name, leader, excesses, "no other member of the SyncStateSet is better")
        del self._suspicions[name]
        self._moved_ms[name] = now_ms
        return Move(name, leader, target, excesses, self._ejections.eject((name, leader), now_ms))

    def _fresh(self, group: str, replica: int, now_ms: int) -> FiguresHistory | None:
        found = self._histories.get((group, replica))
        return found if found is not None and found.is_full and now_ms - found.heard_ms <= STALE_MS else None

    def _excesses(self, group: StoreGroup, replica: int, history: FiguresHistory, now_ms: int) -> list[Excess]:
        """How a replica is out of the ordinary; empty: it is not."""
        peers: list[ReplicaFigures] = []
        for each in group.replicas:
            other = self._fresh(group.name, each.id, now_ms) if each.id != replica else None
            if other is not None:
                peers += other.recent
        found = (excess_of(each, history.recent, peers if each.by_peers else history.past) for each in MEASURES)
        return [each for each in found if each is not None]

    def _target(self, group: StoreGroup, excesses: Sequence[Excess], alive: set[Place], now_ms: int) -> int:
        """The best member of the SyncStateSet to lead instead; 0: there is none."""
        wrong = {each.name: each for each in excesses}
        measures = [each for each in MEASURES if each.name in wrong]
        best, best_rank = 0, float("inf")
        for each in group.replicas:
            history = self._fresh(group.name, each.id, now_ms)
            if (
                each.id == group.leader
                or history is None
                or not group.is_in_sync(each)
                or (group.name, each.id) not in alive
                or not self.is_fit(group.name, each.id)
                or self._excesses(group, each.id, history, now_ms)
            ):
                continue
            shares = [_share(measure, wrong[measure.name].level, history) for measure in measures]
            if max(shares) <= BETTER and sum(shares) < best_rank:
                best, best_rank = each.id, sum(shares)
        return best


def _share(measure: Measure, of: float, history: FiguresHistory) -> float:
    """The figure of a replica as a share of another's; 0 where it has none, since it does not do that yet."""
    level = level_of(measure, history.recent)
    return 0.0 if level is None else level / of
