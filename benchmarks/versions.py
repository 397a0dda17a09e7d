"""Server CPU or instructions per message of this tree and of another checkout of Headgate: the effect of a change.

    python -m benchmarks.versions ../headgate-before
    python -m benchmarks.versions ../headgate-before remoting-send mqtt-qos1 --rounds 9 --scale 0.1 --markdown table.md
    python -m benchmarks.versions ../headgate-before http --instructions --rounds 3 --scale 0.03
    python -m benchmarks.versions ../headgate-before remoting-send --instructions --replicas 3 --durability replicated

The other checkout needs its own `.venv`, and compiled modules if this tree has them (`make compile` in each). One server of
each side runs; their rounds are interleaved, and the side that is first alternates, so that other load on the machine affects
both sides equally. After every third round both servers are started anew. A path is called dearer only when its median is above
the highest round of the other side.

`--instructions` counts those of the server, without the kernel's, by valgrind. Other load changes this figure by NOISE at
most. It takes forty times as long, so few rounds and a small scale are enough.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.callgrind import SLOWER, counted
from benchmarks.measure import SIDES, Loaded, Terms
from benchmarks.replicas import store_group
from benchmarks.servers import AbsentError, Server, headgate
from benchmarks.shapes import SHAPES, Shape

BEFORE = "before"
AFTER = "headgate"
PATHS = (
    "remoting-send", "remoting-pull", "remoting-pop", "remoting-timer-insert", "remoting-transaction", "grpc-send",
    "grpc-receive", "mqtt-qos0", "mqtt-qos1", "mqtt-qos2", "mqtt-fan-out-qos0", "mqtt-fan-out-qos1", "mqtt-fan-in",
    "mqtt-connect", "coap", "http",
)  # fmt: skip
"""Shapes measured in CPU, one for each path through a node."""
CPU = "cpu_us"
"""us of CPU, the kernel's included."""
INSTRUCTIONS = "instructions"
"""Thousands of instructions, without the kernel's."""
NOISE = 0.04
"""Share by which two counts of the same tree may differ on a busy machine: by how requests fall into turns of the loop."""
WINDOW_MAX = 16
ROUNDS_OF_A_SERVER = 3
FAILURES = (AbsentError, OSError, RuntimeError, subprocess.SubprocessError, ValueError)
HEAD = "| Name | Shape | Before | After | After / before, round by round | |\n|---|---|---|---|---|---|"


def verdict(before: Sequence[float], after: Sequence[float], noise: float = 0.0) -> str:
    """`dearer` or `cheaper` when the median of `after` is outside the range of `before`, by a share `noise`; else `same`."""
    if statistics.median(after) > max(before) * (1 + noise):
        return "dearer"
    return "cheaper" if statistics.median(after) < min(before) * (1 - noise) else "same"


def row(name: str, found: dict[str, list[float]], noise: float = 0.0) -> str:
    """One row of Markdown: medians with the lowest and highest round, a message or connection.

    The ratio is the median of the ratios of the rounds: both sides of a round meet the same speed of the machine.
    """
    before, after = found[BEFORE], found[AFTER]
    cells = [f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})" for each in (before, after)]
    ratio = statistics.median(one / other for other, one in zip(before, after, strict=True))
    return f"| `{name}` | {SHAPES[name].text} | {cells[0]} | {cells[1]} | {ratio:.2f} | {verdict(before, after, noise)} |"


def compare(names: Sequence[str], rounds: int, terms: Terms, figure: str = CPU) -> dict[str, dict[str, list[float]]]:
    """CPU or INSTRUCTIONS by shape and side. A round that fails is reported on stderr and left out on both sides."""
    found: dict[str, dict[str, list[float]]] = {name: {BEFORE: [], AFTER: []} for name in names}
    for name in names:
        for first in range(0, rounds, ROUNDS_OF_A_SERVER):
            numbers = range(first, min(first + ROUNDS_OF_A_SERVER, rounds))
            try:
                shape = _slowly(SHAPES[name]) if figure == INSTRUCTIONS else SHAPES[name]
                with Loaded(BEFORE, shape, terms) as before, Loaded(AFTER, shape, terms) as after:
                    for number in numbers:
                        _round(name, number, {BEFORE: before, AFTER: after}, found[name], figure)
            except FAILURES as error:
                print(f"{name}, rounds {numbers[0] + 1} to {numbers[-1] + 1}: {error}", file=sys.stderr, flush=True)
    return found


def _slowly(shape: Shape) -> Shape:
    """The shape for a server that is as slow as one whose instructions are counted: it would lose messages of QoS 0, and fall
    behind a rate."""
    return replace(shape, window=min(shape.window, WINDOW_MAX), rate=shape.rate // SLOWER)


def _round(name: str, number: int, servers: dict[str, Loaded], found: dict[str, list[float]], figure: str) -> None:
    order = (BEFORE, AFTER) if number % 2 == 0 else (AFTER, BEFORE)
    try:
        figures = {side: servers[side].round()[figure] for side in order}
    except FAILURES as error:
        print(f"{name}, round {number + 1}: {error}", file=sys.stderr, flush=True)
        return
    for side, spent in figures.items():
        found[side].append(spent)
    print(f"{number + 1} {name}: before {figures[BEFORE]:.1f}, after {figures[AFTER]:.1f}", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="the other checkout")
    parser.add_argument("shapes", nargs="*", default=PATHS, help="shapes counted in CPU; else one for each path")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scale", type=float, default=0.1, help="share of the usual number of messages")
    parser.add_argument("--durability", choices=("page", "flushed", "replicated", "replicated+flushed"), default="page")
    parser.add_argument("--replicas", type=int, default=0, help="count a store group of so many, all of its replicas together")
    parser.add_argument("--markdown", type=Path, help="write the table here too")
    parser.add_argument("--instructions", action="store_true", help="count thousands of instructions instead of us of CPU")
    options = parser.parse_args()
    python = options.checkout.resolve() / ".venv" / "bin" / "python"
    if not python.exists():
        parser.error(f"{options.checkout} has no .venv: run './up' or 'make compile' there first")
    for name in options.shapes:
        if name not in SHAPES or not SHAPES[name].unit.startswith("CPU"):
            parser.error(f"{name!r} is no shape that is counted in CPU; 'python -m benchmarks.run --list' names them")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    start: Callable[..., Server] = counted if options.instructions else headgate
    if options.replicas:
        start = partial(store_group, count=options.replicas, counting=options.instructions)
    SIDES[BEFORE] = partial(start, root=options.checkout.resolve(), python=str(python))
    SIDES[AFTER] = start
    figure = INSTRUCTIONS if options.instructions else CPU
    found = compare(options.shapes, options.rounds, Terms(options.durability, options.scale), figure)
    noise = NOISE if options.instructions else 0.0
    rows = [row(name, sides, noise) for name, sides in found.items() if sides[BEFORE]]
    text = "\n".join([HEAD, *rows])
    print(f"\n{text}", flush=True)
    if options.markdown is not None:
        options.markdown.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
