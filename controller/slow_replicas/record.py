"""The record of the figures of replicas and of the decisions, as lines of JSON, for a later replay with another judge.

    figures/0, figures/1   the newer one is written; when it is full, the other one is emptied and used

    {"at": ms, "group": name, "leader": id, "epoch": n, "replicas": [ids], "in_sync": [ids]}      when it has changed
    {"at": ms, "of": [group, id], "leads": bool, "figures": [sync_us, ack_us, turn_us, errors, wall_ms, skew_ms, paths]}    each
        heartbeat; paths: of a leader, [[id, us of the path to this follower], ...]
    {"at": ms, "look": true, "wall": ms}                                                         each poll, and the own clock
    {"at": ms, "move": [group, source, target], "out_ms": n, "excesses": [[name, level, ordinary, bound], ...]}
    {"at": ms, "passed_over": [group, id], "out_ms": n, "excesses": [...]}
    {"at": ms, "held": [group, source], "reason": text, "excesses": [...]} and {"at": ms, "returned": [group, id]}
    {"at": ms, "clock": [group, id], "excesses": [...]}                                          none: it is right again

Times are monotonic milliseconds of the process. Nothing is synced: a record that a power failure has cut can be replayed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from controller.slow_replicas.measure import Excess
from controller.slow_replicas.ports import ClockOff, Held, Move, PassedOver, Verdict
from domain.controller.group import StoreGroup
from domain.controller.health import ReplicaFigures
from domain.ports import Disk, File

FOLDER: Final = "figures"
FILE_BYTES: Final = 8 * 1024 * 1024
"""Size of one of the two files."""
BUFFER_BYTES: Final = 64 * 1024
"""Lines that wait for `flush` at most; further ones are dropped and counted."""


@final
class FiguresRecord:
    """Writes the record. A disk that refuses costs the record, and nothing else.

    dropped   lines that were not written
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._which = 1 if disk.size(f"{FOLDER}/1") > 0 and not disk.size(f"{FOLDER}/0") > 0 else 0
        self._file: File | None = None
        self._lines: list[bytes] = []
        self._bytes = 0
        self._groups: dict[str, bytes] = {}
        self.dropped = 0

    def heard(self, group: str, replica: int, leads: bool, figures: ReplicaFigures, now_ms: int) -> None:
        """A replica has said how it is."""
        self._add({"at": now_ms, "of": [group, replica], "leads": leads, "figures": list(figures)})

    def looked(self, groups: Iterable[StoreGroup], verdicts: Sequence[Verdict], now_ms: int, wall_ms: int) -> None:
        """The judge has looked at the groups. Groups are written when they have changed."""
        for group in groups:
            facts = _facts(group)
            line = json.dumps(facts).encode()
            if self._groups.get(group.name) != line and self._add({"at": now_ms, **facts}):
                self._groups[group.name] = line
        self._add({"at": now_ms, "look": True, "wall": wall_ms})
        for verdict in verdicts:
            self._add({"at": now_ms, **_entry(verdict)})

    def flush(self) -> None:
        """Write the lines that wait."""
        data, self._lines, self._bytes = b"".join(self._lines), [], 0
        if not data:
            return
        try:
            self._opened(len(data)).append(data)
        except OSError:
            self.dropped += data.count(b"\n")

    def close(self) -> None:
        """Write the waiting lines, and close the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, facts: Mapping[str, object]) -> bool:
        line = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
        if self._bytes + len(line) > BUFFER_BYTES:
            self.dropped += 1
            return False
        self._lines.append(line)
        self._bytes += len(line)
        return True

    def _opened(self, size: int) -> File:
        """The file to write `size` bytes to. Raises OSError."""
        file = self._file
        if file is None:
            file = self._file = self._disk.open(f"{FOLDER}/{self._which}")
        if file.size() and file.size() + size > FILE_BYTES:
            file.close()
            self._which = 1 - self._which
            file = self._file = self._disk.open(f"{FOLDER}/{self._which}")
            file.truncate(0)
            # The state of the groups is in the other file: the next poll writes it again.
            self._groups.clear()
        return file


def read(disk: Disk) -> list[dict[str, object]]:
    """Lines of a record in the order of their time, without torn ones. Times restart with each process."""
    found: list[list[dict[str, object]]] = []
    for which in (0, 1):
        lines: list[dict[str, object]] = []
        for line in (disk.read_all(f"{FOLDER}/{which}") or b"").splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict) and isinstance(value.get("at"), int):
                lines.append(value)
        found.append(lines)
    found.sort(key=lambda lines: int(str(lines[0]["at"])) if lines else 0)
    return [line for lines in found for line in lines]


def _facts(group: StoreGroup) -> dict[str, object]:
    return {
        "group": group.name, "leader": group.leader, "epoch": group.leader_epoch,
        "replicas": [each.id for each in group.replicas],
        "in_sync": [each.id for each in group.replicas if group.is_in_sync(each)],
    }  # fmt: skip


def _entry(verdict: Verdict) -> dict[str, object]:
    if isinstance(verdict, Move):
        move = [verdict.group, verdict.source, verdict.target]
        return {"move": move, "out_ms": verdict.out_ms, "excesses": _listed(verdict.excesses)}
    if isinstance(verdict, PassedOver):
        over = [verdict.group, verdict.replica]
        return {"passed_over": over, "out_ms": verdict.out_ms, "excesses": _listed(verdict.excesses)}
    if isinstance(verdict, ClockOff):
        return {"clock": [verdict.group, verdict.replica], "excesses": _listed(verdict.excesses)}
    if isinstance(verdict, Held):
        held = [verdict.group, verdict.source]
        return {"held": held, "reason": verdict.reason, "excesses": _listed(verdict.excesses)}
    return {"returned": [verdict.group, verdict.replica]}


def _listed(excesses: Iterable[Excess]) -> list[list[object]]:
    return [list(each) for each in excesses]
