"""Runs commands of mqadmin at both sides, and compares what they say."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final

from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.mqadmin.commands import Row
from tests.interop.rocketmq.mqadmin.sides import Side, files

PATIENCE_S = 60.0
PAUSE_S = 0.1
EXCEPTION = re.compile(r"Exception:|^\tat ", re.MULTILINE)
WORDS = re.compile(r"[\s\[\]{},]+")
MOVING: Final = frozenset({"brokerConsumeStats", "brokerStatus", "consumerProgress", "consumerStatus", "printMsg", "statsAll"})
"""Commands that read figures which go on by themselves: asked again at both sides when they differ."""
TRIES: Final = 5
CUT: Final = "RemotingSendRequestException"
"""In what a command says when its connection has ended before the answer, which a busy machine brings about now and then. The
command is given once more then, at either side: a side that always ends its connections is found out."""
Told = tuple[str, str]
"""What a command has said straight, and through the gateway."""


def run(java: JavaClient, both: tuple[Side, Side], block: str, rows: Sequence[Row]) -> dict[tuple[str, int], Told]:
    """Run a block at one side and then at the other -> (block, number of the row) -> what it said."""
    straight, through = ([_said(java, side, row) for row in rows] for side in both)
    for at, row in enumerate(rows):
        for _ in range(TRIES if row.command.split(" ")[0] in MOVING else 0):
            if _is_alike(row, (straight[at], through[at]), both):
                break
            time.sleep(1)
            straight[at], through[at] = (_said(java, side, row) for side in both)
    return {(block, number): told for number, told in enumerate(zip(straight, through, strict=True))}


def alike(row: Row, told: Told, both: tuple[Side, Side]) -> None:
    """Fails when a command does not say what it must, or says anything else at one side than at the other."""
    compared: list[list[str]] = []
    for side, said in zip(both, told, strict=True):
        for wanted in row.wanted:
            assert side.filled(wanted) in said, f"{side.name}: no {wanted!r} in\n{said[:4000]}"
        assert bool(EXCEPTION.search(said)) is row.refused, f"{side.name}:\n{said[:4000]}"
        compared.append(_masked(row, side.neutral(said)))
    straight, through = compared
    for here, there in row.differs:
        assert any(here in line for line in through), f"no {here!r} through the gateway: {row.command} is alike there"
        through = sorted(line.replace(here, there) for line in through)
    assert straight == through, "\n".join(unified_diff(straight, through, "straight", "through the gateway", lineterm=""))


def _is_alike(row: Row, told: Told, both: tuple[Side, Side]) -> bool:
    try:
        alike(row, told, both)
    except AssertionError:
        return False
    return True


def _said(java: JavaClient, side: Side, row: Row) -> str:
    words = side.filled(row.command).split(" ")
    if "-n" not in words:
        words += ["-n", side.nameserver]
    limit = time.monotonic() + PATIENCE_S
    cut = False
    while True:
        said = java.admin(*words)
        if CUT in said and not row.refused and not cut:
            cut = True
            continue
        if not row.patient or time.monotonic() > limit or all(side.filled(wanted) in said for wanted in row.wanted):
            break
        time.sleep(PAUSE_S)
    written = Path(words[words.index("-f") + 1]) if words[0].startswith("export") and "-f" in words else None
    return said if written is None else said + "\n" + files(written)


def _masked(row: Row, lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    for mask in row.masks:
        text = re.sub(mask, "*", text)
    return sorted(WORDS.split(text) if row.words else text.split("\n"))
