"""A day of a store group of three: figures as machines have them, and now and then a disk or a path that is really slow.

    python -m tests.controller.slow_replicas.day HOURS [SEED]     what the detector has decided, and how much of it was false

Figures vary by lot: by the replica, by the hour, from second to second, and in bursts of a few seconds that are no failure
(checkpoints, collections of garbage, other processes of a machine). A decision is true when its replica has a failure at
that time, or had one until a moment ago.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from controller.slow_replicas.history import RECENT
from controller.slow_replicas.ports import Held, Move, PassedOver, Returned, Verdict
from domain.controller.group import SetMember
from domain.controller.health import UNMEASURED, Fitness, ReplicaFigures
from tests.controller.slow_replicas.group import SECOND_MS, WALL_MS, ToldGroup

HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
AFTER_S: Final = RECENT
"""Seconds after the end of a failure for which the newest figures still show it."""
BETWEEN_S: Final = 40 * 60
"""Time from one failure to the next, on average."""
LONG_S: Final = (120, 600)
"""How long a failure lasts."""
DISK_US: Final = (150_000, 700_000)
"""Time of a sync of a failing disk."""
PATH_US: Final = (400_000, 1_500_000)
"""What a failing network adds to each way to and from its machine."""
QUIET: Final = 0.1
"""Share of the seconds of a night in which nothing is sent."""
MEMBERS_MIN: Final = 2


@dataclass
class Failure:
    """A real failure. `figure`: `sync_us` or `path_us`; `us`: of that."""

    replica: int
    figure: str
    us: int
    until_s: int
    decided: bool = False
    elsewhere: bool = False


@dataclass
class Burst:
    """Some seconds in which a figure is a multiple of itself. `replica` 0: of all."""

    replica: int
    figure: str
    times: float
    until_s: int


@dataclass
class DayCounts:
    """What was decided.

    failures      real failures
    moves         leaderships that have left a replica with a failure
    passed_over   followers with a failure that were passed over
    false_moves   moves away from a replica without one
    false_others  followers without one that were passed over
    held          decisions without a consequence
    unnoticed     failures of which nothing was decided, on a replica that counted
    returned      replicas that have become fit again
    """

    failures: int = 0
    moves: int = 0
    passed_over: int = 0
    false_moves: int = 0
    false_others: int = 0
    held: int = 0
    unnoticed: int = 0
    returned: int = 0
    false: list[str] = field(default_factory=list)


class Day(ToldGroup):
    """Replicas that say figures as those of machines, once a second. Who is slow leaves the SyncStateSet until it is fit."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        chance = self._chance = Random(seed)
        self.counts = DayCounts()
        self._usual = {each: chance.uniform(1_500, 6_000) for each in self.figures}
        self._drift = dict.fromkeys(self.figures, 0.0)
        self._bursts: list[Burst] = []
        self._failures: list[Failure] = []
        self._ended: dict[int, int] = {}
        self._next_s = self._after(BETWEEN_S)

    @property
    def second(self) -> int:
        """Seconds since the beginning."""
        return self.now_ms // SECOND_MS

    def live(self, seconds: int) -> DayCounts:
        """Let time pass, and judge what is decided."""
        for _ in range(seconds):
            self._happen()
            for verdict in self.run(1):
                self._count(verdict)
            self._keep_members()
        return self.counts

    # What happens

    def _after(self, average_s: float) -> int:
        return self.second + 1 + int(self._chance.expovariate(1 / average_s))

    def _happen(self) -> None:
        now, chance = self.second, self._chance
        self._bursts = [each for each in self._bursts if each.until_s > now]
        for each in [each for each in self._failures if each.until_s <= now]:
            self._failures.remove(each)
            self._ended[each.replica] = now
            self.counts.unnoticed += not (each.decided or each.elsewhere)
        for replica in self.figures:
            self._drift[replica] = 0.999 * self._drift[replica] + chance.gauss(0, 0.01)
            for figure, every_s, times, long_s in (
                ("sync_us", 600, (10, 80), (1, 3)), ("path_us", 900, (20, 150), (1, 4)), ("turn_us", 300, (20, 120), (1, 2)),
            ):  # fmt: skip
                if chance.random() < 1 / every_s:
                    self._bursts.append(Burst(replica, figure, chance.uniform(*times), now + chance.randint(*long_s)))
        if chance.random() < 1 / HOUR_S:  # a neighbour of all three
            figure = chance.choice(("sync_us", "path_us", "turn_us"))
            self._bursts.append(Burst(0, figure, chance.uniform(10, 60), now + chance.randint(10, 60)))
        if now >= self._next_s and not self._failures:
            self._fail(now)

    def _fail(self, now: int) -> None:
        chance = self._chance
        self.counts.failures += 1
        figure = chance.choice(("sync_us", "path_us"))
        micros = chance.randint(*(DISK_US if figure == "sync_us" else PATH_US))
        until_s = now + chance.randint(*LONG_S)
        self._failures.append(Failure(chance.choice(sorted(self.figures)), figure, micros, until_s))
        self._next_s = until_s + int(chance.expovariate(1 / BETWEEN_S))

    def _keep_members(self) -> None:
        """The leader leaves out who is slow, as long as two members stay, and takes in who is fit."""
        known = {each.id: each for each in self.group.replicas}
        fit = [
            each for each in known
            if each == self.group.leader or self.judge.standing(self.group.name, each).fitness is Fitness.FIT
        ]  # fmt: skip
        if len(fit) < MEMBERS_MIN:
            fit = [each.id for each in self.group.members]
        members: tuple[SetMember, ...] = tuple(known[each].member for each in fit)
        if members != self.group.members:
            self.group = replace(self.group, members=members)
        for each in self._failures:
            # Nobody waits for a replica outside the set: nothing is to be decided about it.
            each.elsewhere |= each.replica not in fit

    # What the replicas say

    def _times(self, replica: int, figure: str) -> float:
        found = 1.0
        for each in self._bursts:
            if each.figure == figure and each.replica in (0, replica):
                found *= each.times
        return found

    def _failing(self, replica: int, figure: str) -> int:
        return sum(each.us for each in self._failures if each.replica == replica and each.figure == figure)

    def _load(self) -> float:
        """More at noon than at midnight."""
        return 1.0 + 0.6 * math.sin(2 * math.pi * (self.second % DAY_S) / DAY_S - math.pi / 2)

    def _is_quiet(self) -> bool:
        return self._load() < 0.6 and self._chance.random() < QUIET

    def _sync_us(self, replica: int) -> int:
        chance = self._chance
        usual = self._usual[replica] * math.exp(self._drift[replica]) * self._load() * self._times(replica, "sync_us")
        return int((usual + self._failing(replica, "sync_us")) * math.exp(chance.gauss(0, 0.4)))

    def _path_us(self, leader: int, follower: int, sync_us: int) -> int:
        chance = self._chance
        way = 1_200 * self._load() * max(self._times(leader, "path_us"), self._times(follower, "path_us"))
        way += self._failing(leader, "path_us") + self._failing(follower, "path_us")
        return int(way * math.exp(chance.gauss(0, 0.5))) + sync_us

    def _said(self, replica: int, leads: bool) -> ReplicaFigures:
        chance = self._chance
        turn_us = int(4_000 * math.exp(chance.gauss(0, 0.7)) * self._times(replica, "turn_us"))
        errors = chance.choice((0,) * 5_000 + (1, 2))
        wall_ms = WALL_MS + self.now_ms - chance.choice((0, 1, 2, 5, 20))
        if self._is_quiet():
            return ReplicaFigures(UNMEASURED, UNMEASURED, turn_us, errors, wall_ms, 500)
        sync_us = self._sync_us(replica)
        paths = [
            (each, self._path_us(replica, each, self._sync_us(each))) for each in self.figures if leads and each != replica
        ]
        ack_us = min((micros for _, micros in paths), default=UNMEASURED)
        return ReplicaFigures(sync_us, ack_us, turn_us, errors, wall_ms, 500, paths)

    # What is decided

    def _count(self, verdict: Verdict) -> None:
        counts = self.counts
        if isinstance(verdict, Held):
            counts.held += 1
        elif isinstance(verdict, Returned):
            counts.returned += 1
        elif isinstance(verdict, Move | PassedOver):
            replica = verdict.source if isinstance(verdict, Move) else verdict.replica
            failing = [each for each in self._failures if each.replica == replica]
            for each in failing:
                each.decided = True
            is_true = bool(failing) or self.second - self._ended.get(replica, -DAY_S) <= AFTER_S
            if isinstance(verdict, Move):
                counts.moves += is_true
                counts.false_moves += not is_true
            else:
                counts.passed_over += is_true
                counts.false_others += not is_true
            if not is_true:
                counts.false.append(f"second {self.second}: {verdict}")


def main(words: list[str]) -> int:
    """Run hours of one seed. Returns the number of false decisions."""
    hours, seed = int(words[0]), int(words[1]) if len(words) > 1 else 1
    counts = Day(seed).live(hours * HOUR_S)
    print(
        f"{hours} h, seed {seed}: {counts.failures} failures, {counts.moves} moves and {counts.passed_over} followers passed "
        f"over for them, {counts.unnoticed} unnoticed, {counts.false_moves} false moves, {counts.false_others} followers "
        f"passed over falsely, {counts.held} held, {counts.returned} returned"
    )
    for each in counts.false:
        print(each)
    return counts.false_moves + counts.false_others


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
