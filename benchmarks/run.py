"""Server CPU per message of Headgate and its peers: same machine, same load, one side at a time, sides alternating.

    python -m benchmarks.run remoting-send --durability page --rounds 3
    python -m benchmarks.run mqtt-qos1 --only headgate
    python -m benchmarks.run --all --minutes 20 --markdown docs/performance.md
    python -m benchmarks.run --list

Every round starts each server with its own ports and folder, warms it up (Apache's JVM until a run costs no less CPU), and
measures user and system time of all server processes over the answered messages. The same run counts messages that are lost,
duplicate or out of order. Rows in which a peer is better are printed like all others.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from benchmarks import report
from benchmarks.measure import SIDES, Terms, half_load, measure
from benchmarks.report import Finding
from benchmarks.servers import AbsentError
from benchmarks.shapes import HALF, SHAPES

FULL_PASS_MINUTES = 45
"""Approximate duration of one round of all shapes and sides at scale 1; a shorter time gives a smaller scale."""
ROUNDS_MAX = 9


class Comparison:
    """Compares shapes, round after round, until all rounds are done or the time is up."""

    def __init__(self, names: Sequence[str], only: Sequence[str], terms: Terms, end: float, markdown: Path | None) -> None:
        self._only, self._terms, self._end, self._markdown = only, terms, end, markdown
        self._took: dict[tuple[str, str], float] = {}
        self._absent: set[str] = set()
        self._whole: set[str] = set()
        self.found = {name: Finding(name, terms.durability) for name in names}

    def run(self, rounds: int) -> None:
        """Run all rounds. A shape is run on all its sides or not at all; its table is printed after its last round."""
        for number in range(rounds):
            for name, finding in self.found.items():
                if self._fits(name, number):
                    self._shape(name, finding)
                if len(self.found) > 1 or number == rounds - 1:
                    self._publish(name, number == rounds - 1)
        for name in self.found:
            self._publish(name, True)
        missed = [name for name, finding in self.found.items() if not finding.rounds and not finding.failures]
        if missed:
            print(f"\nno time for: {' '.join(missed)}", flush=True)

    def _sides(self, name: str) -> list[str]:
        return [side for side in SHAPES[name].sides if (not self._only or side in self._only) and side not in self._absent]

    def _fits(self, name: str, number: int) -> bool:
        needed = sum(self._took.get((name, side), 0.0) for side in self._sides(name))
        return time.monotonic() + needed < self._end

    def _shape(self, name: str, finding: Finding) -> None:
        shape = SHAPES[name]
        if shape.rate == HALF and not self._terms.rate:
            self._terms = replace(self._terms, rate=half_load(self._terms))
        finding.rate = self._terms.rate if shape.rate == HALF else 0
        for side in self._sides(name):
            began = time.monotonic()
            try:
                finding.rounds.setdefault(side, []).append(measure(side, shape, self._terms))
            except AbsentError as absent:
                self._absent.add(side)
                print(absent, file=sys.stderr)
            except (OSError, RuntimeError, subprocess.SubprocessError, ValueError) as error:
                finding.failures[side] = f"came to nothing: {error}"[:300]
            self._took[name, side] = time.monotonic() - began
        self._whole.discard(name)

    def _publish(self, name: str, last: bool) -> None:
        """Print the table at the end. Write the Markdown row after each round, so that a stopped run keeps its results."""
        finding = self.found[name]
        if not finding.rounds and not finding.failures:
            return
        if self._markdown is not None:
            report.write(self._markdown, finding)
        if last and name not in self._whole:
            self._whole.add(name)
            print(report.table(finding), flush=True)


def _list() -> None:
    for name, shape in SHAPES.items():
        print(f"{name:25}{shape.flying:>12}{shape.count:>11,}   {shape.unit:20}{' / '.join(shape.sides):38}{shape.text}")


def _stopped(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="shapes to run")
    parser.add_argument("--all", action="store_true", help="every shape, the rounds outermost")
    parser.add_argument("--durability", choices=("page", "flushed"), default="page")
    parser.add_argument("--rounds", type=int, default=0, help="3, or with --minutes as many as there is time for")
    parser.add_argument("--minutes", type=float, help="stop starting rounds that would not end in this time")
    parser.add_argument("--scale", type=float, help="share of the usual number of messages: 1, or what --minutes allow")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds after which a JVM has warmed up enough in any case")
    parser.add_argument("--rate", type=int, default=0, help="messages a second at half load, instead of measuring it")
    parser.add_argument("--only", action="append", choices=sorted(SIDES), default=[], help="only this side; repeatable")
    parser.add_argument("--markdown", type=Path, help="a file whose rows of these shapes are replaced")
    parser.add_argument("--list", action="store_true", help="name the shapes")
    options = parser.parse_args()
    for name in options.shapes:
        if name not in SHAPES:
            parser.error(f"no shape {name!r}; --list names them")
    if not (options.shapes or options.all or options.list):
        parser.error("name shapes, or say --all or --list")
    return options


def main() -> None:
    """Run the command line."""
    options = _options()
    if options.list:
        _list()
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # servers and generator inherit the limit
    signal.signal(signal.SIGTERM, _stopped)
    names = list(SHAPES) if options.all else options.shapes
    budget = options.minutes * 60 if options.minutes else float("inf")
    rounds = options.rounds or (ROUNDS_MAX if options.minutes else 3)
    whole = FULL_PASS_MINUTES * len(names) / len(SHAPES)
    scale = options.scale or (max(0.05, min(1.0, options.minutes / whole)) if options.minutes else 1.0)
    terms = Terms(options.durability, scale, min(options.warm, budget / 60), options.rate)
    Comparison(names, options.only, terms, time.monotonic() + budget, options.markdown).run(rounds)


if __name__ == "__main__":
    main()
