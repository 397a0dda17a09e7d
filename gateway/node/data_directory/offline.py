"""`headgate check DIR` and `headgate repair DIR`: tools for a data directory that no node has open."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.member.identity import set_aside
from domain.admin.text_table import aligned
from domain.errors import ConfigError
from gateway.node.data_directory.set_aside import folders
from gateway.runtime.disk import DataDirectory
from gateway.runtime.entropy import SystemEntropy
from store.offline.check import Check, CheckFinding, Severity
from store.offline.repair import Repair, Repaired

CLEAN, FOUND = 0, 1


def check(folder: str, as_json: bool, say: Callable[[str], None]) -> int:
    """Check a data directory; the exit status: 0 without findings that need something to be done, else 1.

    Raises ConfigError when it is none, or in use, OSError.
    """
    findings = opened(folder, lambda disk: Check(disk, ProgressLine()).run())
    serious = [found for found in findings if found.severity is not Severity.NOTE]
    if as_json:
        found = {"data": folder, "findings": [_plain(each) for each in findings], "setAside": folders(folder)}
        say(json.dumps(found, indent=2))
    else:
        for line in _table(findings):
            say(line)
        say(_summary(folder, findings, serious))
        aside = folders(folder)
        if aside:
            say(f"{folder}: {len(aside)} folders were set aside, see headgate set-aside list {folder}: {', '.join(aside)}")
    return FOUND if serious else CLEAN


def repair(folder: str, as_json: bool, say: Callable[[str], None]) -> int:
    """Repair a data directory; the exit status: 0. Raises ConfigError when it is none, or in use, StoreError, OSError."""
    name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    done: Repaired = opened(folder, lambda disk: Repair(disk, name, new_incarnation(), ProgressLine()).run())
    if as_json:
        facts = {"data": folder, "done": done.done, "records": done.records, "bytes": done.size, "folder": done.folder}
        say(json.dumps(facts, indent=2))
        return CLEAN
    for step in done.done:
        say(step)
    if not done.done:
        say(f"{folder}: nothing to repair")
    elif done.records:
        say(f"{folder}: repaired; at most {done.records:,} records are lost, and what is left of them is in {done.folder}")
    else:
        say(f"{folder}: repaired; no record is lost")
    return CLEAN


def renew_controller(folder: str, say: Callable[[str], None]) -> int:
    """Set the log of a controller aside; the exit status: 0. Raises ConfigError when there is none, or it is in use;
    OSError."""
    if not (Path(folder) / "controller").is_dir():
        raise ConfigError(f"nothing was changed: {folder} has no folder controller/")
    aside = opened(folder, set_aside, any_folder=True)
    say(f"the log of the controller is set aside in {folder}/{aside}: start the node, and it comes back as a new member")
    return CLEAN


class ProgressLine:
    """Says on stderr how far a long run is, once a second from the second second on."""

    def __init__(self) -> None:
        self._printed_s = time.monotonic()

    def __call__(self, part: str, done: int, size: int) -> None:
        """Part, and bytes or files of it."""
        if time.monotonic() - self._printed_s >= 1 and size:
            self._printed_s = time.monotonic()
            print(f"{part}: {done / size:.0%}", file=sys.stderr)


def new_incarnation() -> int:
    """A new identity for a log, 1 to 2^63 - 1."""
    return int.from_bytes(SystemEntropy().token(8), "big") >> 1 | 1


def opened(folder: str, run: Callable[[DataDirectory], Any], any_folder: bool = False) -> Any:
    """The result of `run` on a data directory that no node has open; `any_folder`: it may be another folder too.

    Raises ConfigError, OSError, and what `run` raises.
    """
    with opened_directory(folder, any_folder) as disk:
        return run(disk)


@contextmanager
def opened_directory(folder: str, any_folder: bool = False) -> Iterator[DataDirectory]:
    """A data directory that no node has open, locked meanwhile. Raises ConfigError, OSError."""
    if not any_folder and not any((Path(folder) / part).is_dir() for part in ("log", "promise", "checkpoint")):
        raise ConfigError(f"{folder} is no data directory: it has neither log/ nor promise/ nor checkpoint/")
    loop = asyncio.new_event_loop()
    try:
        disk = DataDirectory(Path(folder), loop)
        try:
            yield disk
        finally:
            disk.close()
    finally:
        loop.close()


def _plain(found: CheckFinding) -> dict[str, object]:
    return {**found._asdict(), "severity": found.severity.value}


def _table(findings: list[CheckFinding]) -> list[str]:
    if not findings:
        return []
    rows = [("SEVERITY", "FILE", "BYTES", "RECORDS", "CAUSE", "REMEDY")]
    for found in findings:
        records = "-" if found.records < 0 else f"{found.records:,}" if found.exact else f"<= {found.records:,}"
        span = f"{found.begin:,}-{found.end:,}"
        rows.append((found.severity.value, found.file, span, records, found.cause, found.remedy))
    return aligned(rows)


def _summary(folder: str, findings: list[CheckFinding], serious: list[CheckFinding]) -> str:
    if any(found.severity is Severity.DAMAGE for found in findings):
        return f"{folder}: what was promised is damaged, and a node does not start: run headgate repair {folder}"
    if serious:
        return f"{folder}: no record is damaged; what is can be made again: run headgate repair {folder}"
    return f"{folder}: nothing is damaged"
