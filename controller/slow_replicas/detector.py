"""The detector of slow replicas: it compares figures with those of peers and of the past, and judges who should not lead.

    ordinary --out of the ordinary--> suspicious --SUSPICIONS polls in a row, room, and a better member--> out
             the leadership is moved away from a leader that is out; a follower is passed over
    out --its time is over, PROBES ordinary polls in a row--> fit

Comparable with outlier ejection of load balancers: deviations from the median, growing ejection times, a limit on ejections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, final

from controller.slow_replicas.ejections import Ejections, Place
from controller.slow_replicas.history import FiguresHistory
from controller.slow_replicas.measure import MEASURES, PATH, Excess, Measure, excess_of, excess_over, level_of
from controller.slow_replicas.ports import ClockOff, Held, Move, PassedOver, Returned, Verdict, excess_text
from domain.controller.group import StoreGroup
from domain.controller.health import UNMEASURED, Fitness, ReplicaFigures, Standing

SUSPICIONS: Final = 5
"""Polls in a row at which a replica must be out of the ordinary."""
BETWEEN_MS: Final = 60_000
"""Time between two moves of one group at least: a move costs its clients a moment."""
BETTER: Final = 0.5
"""A target's figure is at most this share of the leader's, where both have one."""
STALE_MS: Final = 5_000
"""Age beyond which figures are ignored."""
PLACES_MAX: Final = 16_384
"""Limit on replicas whose figures are kept."""
CLOCKS_MIN: Final = 3
"""Least number of clocks for a comparison."""
NAME: Final = "clock_ms"
"""Name of the excess of a clock: its deviation from the median, negative when it is late."""


@final
class ClockWatch:
    """Deviations of wall clocks from the median of all known clocks, that of the controller included, as of the last poll.

    Clocks affect only convenience (leases, timers), within the bound that replicas report. Of two clocks, the wrong one is
    unknown.

    off   replica -> deviation
    """

    def __init__(self) -> None:
        self.off: dict[Place, Excess] = {}
        self._own_ms: int | None = None

    def ticked(self, wall_ms: int, now_ms: int) -> None:
        """The controller's own clock, and its monotonic time."""
        self._own_ms = wall_ms - now_ms if wall_ms != UNMEASURED else None

    def poll(self, histories: Iterable[tuple[Place, FiguresHistory]]) -> None:
        """Compare the clocks of replicas with recent heartbeats."""
        known = [(place, each.clock_ms, each.skew_ms) for place, each in histories if each.clock_ms is not None]
        clocks = [clock for _, clock, _ in known if clock is not None]
        if self._own_ms is not None:
            clocks.append(self._own_ms)
        self.off = {}
        if len(clocks) < CLOCKS_MIN:
            return
        middle = median(clocks)
        for place, clock, bound in known:
            if clock is not None and bound != UNMEASURED and abs(clock - middle) > bound:
                self.off[place] = Excess(NAME, clock - middle, 0, bound)


@final
class GreyDetector:
    """`controller.slow_replicas.ports.ReplicaJudge` by statistics. `now_ms`: monotonic milliseconds from the caller.

    _suspicions   polls in a row at which a replica was suspicious
    _moved_ms     time of the last move, or attempt, of the leadership of a group
    _why          figures by which a replica was ejected, for the operator
    _clocks_told  replicas whose clocks were reported as deviating
    """

    def __init__(self) -> None:
        self._histories: dict[Place, FiguresHistory] = {}
        self._suspicions: dict[Place, int] = {}
        self._moved_ms: dict[str, int] = {}
        self._why: dict[Place, str] = {}
        self._ejections = Ejections()
        self._clocks = ClockWatch()
        self._clocks_told: set[Place] = set()

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        """Take the figures of one heartbeat, as in ReplicaJudge."""
        found = self._histories.get((group, replica))
        if found is None:
            if len(self._histories) >= PLACES_MAX:
                return
            found = self._histories[group, replica] = FiguresHistory()
        found.add(figures, leads, now_ms)
        for follower, micros in figures.paths if leads else ():
            known = self._histories.get((group, follower))
            if known is not None:
                known.add_path(micros, now_ms)

    def ticked(self, wall_ms: int, now_ms: int) -> None:
        """ReplicaJudge.ticked."""
        self._clocks.ticked(wall_ms, now_ms)
        self._clocks.poll((place, each) for place, each in self._histories.items() if now_ms - each.heard_ms <= STALE_MS)

    def standing(self, group: str, replica: int) -> Standing:
        """ReplicaJudge.standing."""
        place = group, replica
        off = self._clocks.off.get(place)
        if off is not None:
            return Standing(Fitness.CLOCK_OFF, excess_text([off]))
        if self._ejections.is_out(place):
            return Standing(Fitness.SLOW, self._why.get(place, ""))
        return Standing()

    def out(self) -> int:
        """ReplicaJudge.out."""
        return self._ejections.count()

    def poll(self, groups: Iterable[StoreGroup], alive: Iterable[Place], now_ms: int) -> list[Verdict]:
        """ReplicaJudge.poll."""
        known = list(groups)
        self._forget(known)
        living = set(alive)
        replicas = sum(len(each.replicas) for each in known)
        verdicts: list[Verdict] = []
        for group in known:
            verdicts += self._probed(group, now_ms)
            verdicts += self._clock_changes(group)
            for each in group.replicas:
                verdict = self._judged(group, each.id, living, replicas, now_ms)
                if verdict is not None:
                    verdicts.append(verdict)
        return verdicts

    def moved(self, move: Move, is_done: bool, now_ms: int) -> None:
        """ReplicaJudge.moved. A failed move is retried after BETWEEN_MS; the replica stays ejected."""
        self._moved_ms[move.group] = now_ms

    def _forget(self, groups: Sequence[StoreGroup]) -> None:
        """Forget replicas that are in no group."""
        places = {(group.name, each.id) for group in groups for each in group.replicas}
        of_replicas: tuple[dict[Place, FiguresHistory] | dict[Place, int] | dict[Place, str], ...] = (
            self._histories, self._suspicions, self._why,
        )  # fmt: skip
        for table in of_replicas:
            for place in [each for each in table if each not in places]:
                del table[place]
        self._ejections.keep(places)
        self._clocks_told &= places
        names = {group.name for group in groups}
        for name in [each for each in self._moved_ms if each not in names]:
            del self._moved_ms[name]

    def _probed(self, group: StoreGroup, now_ms: int) -> list[Verdict]:
        """The replicas of a group that have become fit again."""
        return [
            Returned(group.name, each.id)
            for each in group.replicas
            if self._ejections.looked((group.name, each.id), self._is_ordinary(group, each.id, now_ms), now_ms)
        ]

    def _clock_changes(self, group: StoreGroup) -> list[Verdict]:
        """Replicas whose clocks deviate since this poll, and those whose clocks are right again."""
        found: list[Verdict] = []
        for each in group.replicas:
            place = group.name, each.id
            off = self._clocks.off.get(place)
            if (off is not None) != (place in self._clocks_told):
                self._clocks_told ^= {place}
                found.append(ClockOff(*place, () if off is None else (off,)))
        return found

    def _is_ordinary(self, group: StoreGroup, replica: int, now_ms: int) -> bool:
        history = self._fresh(group.name, replica, now_ms)
        return history is not None and not self._excesses(group, replica, history, now_ms)

    def _judged(self, group: StoreGroup, replica: int, alive: set[Place], replicas: int, now_ms: int) -> Verdict | None:
        """Verdict on a replica; None: none. Followers that do not count for confirmed positions slow nothing down."""
        place, leads = (group.name, replica), replica == group.leader
        history = self._fresh(group.name, replica, now_ms)
        known = group.replica(replica)
        counts = known is not None and group.is_in_sync(known)
        excesses = self._excesses(group, replica, history, now_ms) if history is not None and counts else []
        if leads and place in self._clocks.off:
            excesses.append(self._clocks.off[place])
        if not excesses or (not leads and self._ejections.is_out(place)):
            self._suspicions.pop(place, None)
            return None
        count = self._suspicions[place] = self._suspicions.get(place, 0) + 1
        if count < SUSPICIONS or (count - SUSPICIONS) % SUSPICIONS:
            return None
        last_ms = self._moved_ms.get(group.name) if leads else None
        if last_ms is not None and now_ms - last_ms < BETWEEN_MS:
            return Held(group.name, replica, excesses, "it was moved, or was to be moved, less than a minute ago")
        if not self._ejections.is_out(place) and not self._ejections.has_room(replicas):
            return Held(group.name, replica, excesses, f"{self._ejections.count()} of {replicas} replicas are out already")
        target = self._target(group, replica, excesses, alive, now_ms)
        if not target:
            return Held(group.name, replica, excesses, "no other member of the SyncStateSet is better")
        del self._suspicions[place]
        self._why[place] = excess_text(excesses)
        out_ms = self._ejections.eject(place, now_ms)
        if not leads:
            return PassedOver(group.name, replica, excesses, out_ms)
        self._moved_ms[group.name] = now_ms
        return Move(group.name, replica, target, excesses, out_ms)

    def _fresh(self, group: str, replica: int, now_ms: int) -> FiguresHistory | None:
        found = self._histories.get((group, replica))
        return found if found is not None and found.is_full and now_ms - found.heard_ms <= STALE_MS else None

    def _excesses(self, group: StoreGroup, replica: int, history: FiguresHistory, now_ms: int) -> list[Excess]:
        """Figures of a replica that are out of the ordinary; empty: it is not slow."""
        peers: list[ReplicaFigures] = []
        for each in group.replicas:
            other = self._fresh(group.name, each.id, now_ms) if each.id != replica else None
            if other is not None:
                peers += other.recent
        found = [excess_of(each, history.recent, peers if each.by_peers else history.past) for each in MEASURES]
        found.append(self._path_excess(group, replica, history, now_ms))
        return [each for each in found if each is not None]

    def _path_excess(self, group: StoreGroup, replica: int, history: FiguresHistory, now_ms: int) -> Excess | None:
        """Excess of the leader's path to a replica over those to the other followers."""
        since_ms = now_ms - STALE_MS
        own = history.paths(since_ms)
        if not own or replica == group.leader:
            return None
        others: list[int] = []
        for each in group.replicas:
            known = self._histories.get((group.name, each.id))
            if known is not None and each.id not in (replica, group.leader):
                others += known.paths(since_ms)
        return excess_over(PATH, median(own), others)

    def _target(self, group: StoreGroup, instead: int, excesses: Sequence[Excess], alive: set[Place], now_ms: int) -> int:
        """The best other member of the SyncStateSet; 0: none is better."""
        wrong = {each.name: each for each in excesses}
        measures = [each for each in MEASURES if each.name in wrong]
        best, best_rank = 0, float("inf")
        for each in group.replicas:
            history = self._fresh(group.name, each.id, now_ms)
            if (
                each.id == instead
                or history is None
                or not group.is_in_sync(each)
                or (group.name, each.id) not in alive
                or self.standing(group.name, each.id).fitness is not Fitness.FIT
                or self._excesses(group, each.id, history, now_ms)
            ):
                continue
            shares = [_share(measure, wrong[measure.name].level, history) for measure in measures]
            if max(shares, default=0.0) <= BETTER and sum(shares) < best_rank:
                best, best_rank = each.id, sum(shares)
        return best


def _share(measure: Measure, of: float, history: FiguresHistory) -> float:
    """The figure of a replica as a share of another's; 0 where it has none, since it does not do that yet."""
    level = level_of(measure, history.recent)
    return 0.0 if level is None else level / of
