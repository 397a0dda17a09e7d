"""Damage to the log of a replica that runs: a flipped bit, or a missing file, of what all replicas have.

One file at a time, so that the others have what one needs. It has to be as it was again, without anybody's help.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.interop.node import Node
from tests.interop.replication.logs import flip, log_files

KEPT: Final = 6
"""The newest files that are left alone: what is older is covered by a checkpoint, so that it is fetched and not set aside."""


class Damage:
    """What was damaged, and whether it is whole.

    done    files that were damaged
    whole   of these, files that have their bytes again
    gone    of these, files that their replica has deleted: its log has begun anew behind them
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._file: Path | None = None
        self._bytes = b""
        self.done = self.whole = self.gone = 0

    @property
    def is_repaired(self) -> bool:
        """True when nothing is damaged any more; looks at the file."""
        file = self._file
        if file is None:
            return True
        if _read(file) == self._bytes:
            self.whole += 1
        elif _first(file) > int(file.name):
            self.gone += 1
        else:
            return False
        self._file = None
        return True

    def what(self) -> str:
        """The file that is damaged, for people; "": none."""
        return "" if self._file is None else str(self._file)

    def do(self, node: Node, chance: random.Random) -> str:
        """Damage a file of a replica's log. Returns what was done; "": there is none, or another one is damaged."""
        files = _files(node)[1:-KEPT]
        if not self.is_repaired or not files:
            return ""
        file = chance.choice(files)
        data = _read(file)
        others = [_read(each.data / "log" / file.name) for each in self._nodes if each is not node]
        if not data or any(each != data for each in others):
            return ""
        self._file, self._bytes = file, data
        self.done += 1
        if chance.random() < 0.3:
            file.unlink()
            return f"file {file.name} of its log is deleted"
        at = chance.randrange(len(data))
        flip(file, at)
        return f"a bit of its log is flipped, in file {file.name} at {at}"


def _files(node: Node) -> list[Path]:
    try:
        return log_files(node)
    except OSError:  # a log that begins anew
        return []


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _first(file: Path) -> int:
    """Where the log of `file` begins by now; 0 while it has no file."""
    try:
        return min((int(each.name) for each in file.parent.iterdir() if each.name.isdigit()), default=0)
    except OSError:
        return 0
