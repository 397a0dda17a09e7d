"""The record of figures: bounded, and the same verdicts when it is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from controller.slow_replicas import record
from controller.slow_replicas.detector import GreyDetector
from controller.slow_replicas.ports import Move, PassedOver, Verdict
from controller.slow_replicas.record import FiguresRecord
from controller.slow_replicas.replay import replay
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures, Standing
from tests.controller.slow_replicas.group import ENOUGH, ToldGroup
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk


class Recorded:
    """A judge whose work is recorded."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.record = FiguresRecord(disk)
        self._judge = GreyDetector()
        self.wall_ms = 0

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        self.record.heard(group, replica, leads, figures, now_ms)
        self._judge.heard(group, replica, leads, figures, now_ms)

    def poll(self, groups: Iterable[StoreGroup], alive: Iterable[tuple[str, int]], now_ms: int) -> list[Verdict]:
        known = list(groups)
        verdicts = self._judge.poll(known, alive, now_ms)
        self.record.looked(known, verdicts, now_ms, self.wall_ms)
        self.record.flush()
        return verdicts

    def moved(self, move: Move, is_done: bool, now_ms: int) -> None:
        self._judge.moved(move, is_done, now_ms)

    def ticked(self, wall_ms: int, now_ms: int) -> None:
        self.wall_ms = wall_ms
        self._judge.ticked(wall_ms, now_ms)

    def standing(self, group: str, replica: int) -> Standing:
        return self._judge.standing(group, replica)

    def out(self) -> int:
        return self._judge.out()


def test_a_replay_decides_what_was_decided() -> None:
    disk = MemoryDisk(VirtualClock())
    judge = Recorded(disk)
    told = ToldGroup(judge)
    told.run(ENOUGH)
    told.slow(1, sync_us=900_000)
    told.run(100)
    told.slow(1, sync_us=3_000)
    told.run(30)
    judge.record.close()
    compared = replay(record.read(disk), GreyDetector())
    moves = [each for each in told.verdicts if isinstance(each, Move)]
    assert [each[1:] for each in compared.recorded] == [(each.group, each.source, each.target) for each in moves]
    assert [verdict for _, verdict in compared.decided] == told.verdicts
    assert moves


def test_a_replay_passes_over_who_was_passed_over() -> None:
    disk = MemoryDisk(VirtualClock())
    judge = Recorded(disk)
    told = ToldGroup(judge)
    told.run(ENOUGH)
    told.paths[2] = 700_000
    told.run(20)
    told.paths[2] = 4_000
    told.run(100)
    told.slow(3, sync_us=900_000)
    told.run(20)
    judge.record.close()
    compared = replay(record.read(disk), GreyDetector())
    assert [verdict for _, verdict in compared.decided] == told.verdicts
    over = [each for each in told.verdicts if isinstance(each, PassedOver)]
    assert [each.replica for each in over] == [2, 3]
    assert [each[1:] for each in compared.passed_over] == [(each.group, each.replica) for each in over]


class Learned(Recorded):
    """Another judge: it has learned from a record how long the syncs of each replica take, and moves leadership at once."""

    def __init__(self, lines: Iterable[Mapping[str, Any]]) -> None:
        super().__init__(MemoryDisk(VirtualClock()))
        self._usual: dict[tuple[str, int], int] = {}
        self._newest: dict[tuple[str, int], int] = {}
        for line in lines:
            if "figures" in line:
                place = (str(line["of"][0]), int(line["of"][1]))
                self._usual[place] = max(self._usual.get(place, 0), ReplicaFigures(*line["figures"]).sync_us)

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        self._newest[group, replica] = figures.sync_us

    def poll(self, groups: Iterable[StoreGroup], alive: Iterable[tuple[str, int]], now_ms: int) -> list[Verdict]:
        living = set(alive)
        return [
            Move(group.name, group.leader, other, (), 0)
            for group in groups
            if self._newest.get((group.name, group.leader), 0) > 2 * self._usual[group.name, group.leader]
            for other in [each.id for each in group.replicas if each.id != group.leader and (group.name, each.id) in living][:1]
        ]


def test_a_model_that_learned_from_one_record_is_compared_over_another() -> None:
    ordinary, disk = MemoryDisk(VirtualClock()), MemoryDisk(VirtualClock())
    for where, is_slow in ((ordinary, False), (disk, True)):
        judge = Recorded(where)
        told = ToldGroup(judge)
        told.run(ENOUGH)
        if is_slow:
            told.slow(1, sync_us=900_000)
        told.run(30)
        judge.record.close()
    compared = replay(record.read(disk), Learned(record.read(ordinary)))
    moves = [(at_ms, each.source) for at_ms, each in compared.decided if isinstance(each, Move)]
    assert [each[2] for each in compared.recorded] == [1], "what the detector did"
    assert moves[0][1] == 1
    assert moves[0][0] < compared.recorded[0][0], "the model would have been sooner"
    still = replay(record.read(ordinary), Learned(record.read(ordinary)))
    assert (still.recorded, still.decided) == ([], [])


def test_a_record_is_bounded_and_a_torn_line_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FILE_BYTES", 20_000)
    disk = MemoryDisk(VirtualClock())
    judge = Recorded(disk)
    told = ToldGroup(judge)
    told.run(1_000)
    judge.record.close()
    sizes = [disk.size(f"figures/{which}") for which in (0, 1)]
    assert all(0 < size <= 20_000 for size in sizes)
    lines = record.read(disk)
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)  # type: ignore[type-var]
    assert any("group" in line for line in lines[: len(lines) // 2])
    disk.open("figures/0").append(b'{"at": 12, "of"')
    assert len(record.read(disk)) == len(lines)
    assert replay(record.read(disk), GreyDetector()).decided == []


def test_a_disk_that_refuses_costs_lines_and_nothing_else() -> None:
    disk = MemoryDisk(VirtualClock())
    judge = Recorded(disk)

    def refuse(operation: object) -> None:
        raise OSError(28, "No space left on device")

    disk.watch = refuse
    ToldGroup(judge).run(5)
    assert judge.record.dropped > 0


def test_lines_that_wait_are_bounded() -> None:
    judge = Recorded(MemoryDisk(VirtualClock()))
    for number in range(10_000):
        judge.record.heard("broker-a", number, False, ReplicaFigures(), number)
    assert judge.record.dropped > 0
    judge.record.flush()
    assert judge.record._bytes == 0
