"""Replay of a record with another judge: its decisions beside the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controller.slow_replicas.detector import STALE_MS
from controller.slow_replicas.ports import Move, ReplicaJudge, Verdict
from domain.controller.group import StoreGroup, StoreReplica
from domain.controller.health import UNMEASURED, ReplicaFigures

_LOG = "recorded"
"""Incarnation of all replicas of a record, which has the replicas in sync without their logs."""


class Compared(NamedTuple):
    """The result of a replay.

    recorded      (ms, group, source, target) of the moves that were made
    passed_over   (ms, group, replica) of the followers that were passed over
    decided       (ms, verdict) of the judge
    """

    recorded: list[tuple[int, str, int, int]]
    passed_over: list[tuple[int, str, int]]
    decided: list[tuple[int, Verdict]]


def replay(lines: Iterable[Mapping[str, Any]], judge: ReplicaJudge) -> Compared:
    """Replay recorded figures to a judge, with the recorded polls. Its own moves do not happen: the record has the leaders."""
    result = Compared([], [], [])
    groups: dict[str, StoreGroup] = {}
    heard: dict[tuple[str, int], int] = {}
    for line in lines:
        now_ms = line["at"]
        if "figures" in line:
            name, replica = line["of"]
            heard[name, replica] = now_ms
            judge.heard(name, replica, line["leads"], ReplicaFigures(*line["figures"]), now_ms)
        elif "group" in line:
            groups[line["group"]] = _group(line)
        elif "look" in line:
            judge.ticked(line.get("wall", UNMEASURED), now_ms)
            alive = [place for place, at_ms in heard.items() if now_ms - at_ms <= STALE_MS]
            for verdict in judge.poll(groups.values(), alive, now_ms):
                result.decided.append((now_ms, verdict))
                if isinstance(verdict, Move):
                    judge.moved(verdict, False, now_ms)
        elif "move" in line:
            result.recorded.append((now_ms, *line["move"]))
        elif "passed_over" in line:
            result.passed_over.append((now_ms, *line["passed_over"]))
    return result


def _group(line: Mapping[str, Any]) -> StoreGroup:
    replicas = tuple(StoreReplica(each, "", "", _LOG) for each in line["replicas"])
    members = tuple(each.member for each in replicas if each.id in line["in_sync"])
    return StoreGroup("", line["group"], replicas=replicas, leader=line["leader"], leader_epoch=line["epoch"], members=members)
