"""Where the minutes of a test run go: `pytest -p tests.costs` records them, `python -m tests.costs` prints them by folder.

Each worker writes a line for each test to a file in `.costs/`: its name, its time, and processor time of the worker and of the
processes whose end it has waited for. Those of a process that several tests share count for the test that ends it.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.interop.warm import processor_s

FOLDER: Final = Path(__file__).parent.parent / ".costs"
DIVIDED: Final = (["interop"], ["gateway"], ["protocols"])
"""Folders of tests whose folders are printed by themselves."""
LONGEST: Final = 25
"""Files that are printed by themselves."""


class Cost(NamedTuple):
    """Costs of some tests, in seconds.

    tests      how many there are
    time_s     time
    own_s      processor time of the worker
    others_s   processor time of the processes that it has waited for
    """

    tests: int = 0
    time_s: float = 0.0
    own_s: float = 0.0
    others_s: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """The sum."""
        return Cost(
            self.tests + other.tests, self.time_s + other.time_s, self.own_s + other.own_s, self.others_s + other.others_s
        )  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write a line for the test."""
    began, before, of_servers = time.monotonic(), os.times(), processor_s()
    found = yield
    after = os.times()
    own, others = (sum(after[at : at + 2]) - sum(before[at : at + 2]) for at in (0, 2))
    others += processor_s() - of_servers
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{os.getpid()}.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps([item.nodeid, time.monotonic() - began, own, others]) + "\n")
    return found


def main() -> None:
    """Print a table of folders and one of files, as Markdown, and remove what was recorded."""
    folders: defaultdict[str, Cost] = defaultdict(Cost)
    files: defaultdict[str, Cost] = defaultdict(Cost)
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            name, *seconds = json.loads(line)
            file = name.partition("::")[0]
            parts = file.split("/")[:-1]
            folder = "/".join(parts[: 3 if parts[1:2] in DIVIDED else 2])
            for table, key in ((folders, folder), (files, file)):
                table[key] = table[key].plus(Cost(1, *seconds))
        path.unlink()
    _print("Folder", folders, len(folders))
    _print("File", files, LONGEST)


def _print(what: str, table: dict[str, Cost], most: int) -> None:
    total = reduce(Cost.plus, table.values(), Cost())
    print(f"| {what} | Tests | Processor time, s | of these, of other processes | Time of a worker, s |\n|---|--:|--:|--:|--:|")
    rows = sorted(table.items(), key=lambda row: -(row[1].own_s + row[1].others_s))[:most]
    for name, cost in [*rows, ("all", total)]:
        print(f"| {name} | {cost.tests} | {cost.own_s + cost.others_s:.0f} | {cost.others_s:.0f} | {cost.time_s:.0f} |")
    print()


if __name__ == "__main__":
    main()
