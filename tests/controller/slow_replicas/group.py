"""A store group whose replicas say what a test wants, once a second."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, cast

from controller.slow_replicas.detector import GreyDetector
from controller.slow_replicas.history import PAST_MIN, RECENT
from controller.slow_replicas.ports import Move, ReplicaJudge, Verdict
from domain.controller.group import StoreGroup, StoreReplica
from domain.controller.health import ReplicaFigures

SECOND_MS = 1_000
WALL_MS = 1_700_000_000_000
ENOUGH = RECENT + PAST_MIN


class ToldGroup:
    """Three replicas, all in sync; the first one leads. `figures` of each replica are what it says, with some noise.

    clocks   how far the wall clock of each replica is ahead, in milliseconds
    delays   how long heartbeats take, by lot, in milliseconds
    paths    how long the leader's path to each replica takes, in microseconds
    """

    def __init__(self, judge: ReplicaJudge | None = None, replicas: int = 3, name: str = "broker-a", seed: int = 1) -> None:
        self.judge = judge or GreyDetector()
        known = tuple(StoreReplica(each, "", "", f"log {each}") for each in range(1, replicas + 1))
        self.group = StoreGroup(
            "c", name, replicas=known, leader=1, leader_epoch=1, members=tuple(each.member for each in known)
        )
        self.figures = {each.id: ReplicaFigures(3_000, 4_000, 5_000, 0) for each in known}
        self.clocks = dict.fromkeys(self.figures, 0)
        self.delays: tuple[int, ...] = (0,)
        self.paths = dict.fromkeys(self.figures, 4_000)
        self.alive = {(name, each.id) for each in known}
        self.now_ms = 0
        self.verdicts: list[Verdict] = []
        self._random = random.Random(seed)
        self._on_paths = random.Random(seed)

    def slow(self, replica: int, **figures: int) -> None:
        """From now on a replica says so."""
        self.figures[replica] = self.figures[replica]._replace(**cast(dict[str, Any], figures))

    def run(self, seconds: int) -> list[Verdict]:
        """Let time pass, carry moves out. Returns what was decided meanwhile."""
        before = len(self.verdicts)
        for _ in range(seconds):
            self.now_ms += SECOND_MS
            for place in sorted(self.alive):
                leads = place[1] == self.group.leader
                self.judge.heard(*place, leads, self._said(place[1], leads), self.now_ms)
            self.judge.ticked(WALL_MS + self.now_ms, self.now_ms)
            for verdict in self.judge.poll([self.group], self.alive, self.now_ms):
                self.verdicts.append(verdict)
                if isinstance(verdict, Move):
                    self.lead(verdict.target)
                    self.judge.moved(verdict, True, self.now_ms)
        return self.verdicts[before:]

    def lead(self, replica: int) -> None:
        """Another replica leads."""
        self.group = replace(self.group, leader=replica, leader_epoch=self.group.leader_epoch + 1)

    def _said(self, replica: int, leads: bool) -> ReplicaFigures:
        figures = self.figures[replica]
        noisy = [value if value <= 0 else int(value * self._random.uniform(0.5, 2.0)) for value in figures[:3]]
        wall_ms = WALL_MS + self.now_ms + self.clocks[replica] - self._random.choice(self.delays)
        return ReplicaFigures(
            noisy[0], noisy[1] if leads else -1, noisy[2], figures.errors, wall_ms, 500, self._paths(replica) if leads else ()
        )

    def _paths(self, leader: int) -> list[tuple[int, int]]:
        return [(each, int(took * self._on_paths.uniform(0.5, 2.0))) for each, took in self.paths.items() if each != leader]
