"""Replicated sends beside Apache RocketMQ in controller mode: CPU and latency, catch-up of a follower, failover.

    python -m benchmarks.replication sends --rounds 3
    python -m benchmarks.replication catchup --megabytes 500
    python -m benchmarks.replication failover --rounds 20

Sides alternate, round by round; a row has the medians. Each side has three controllers, and as many replicas as the row says.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.catchup import HEAD as CATCHUP_HEAD
from benchmarks.catchup import catch_up
from benchmarks.catchup import row as catchup_row
from benchmarks.generator import Figures, arguments, load
from benchmarks.measure import STEADY
from benchmarks.process import Process
from benchmarks.replicas import LEVELS, ReplicaGroup, replicas
from benchmarks.servers import AbsentError
from benchmarks.shapes import SHAPES, Shape

SEND = SHAPES["remoting-send"]
WARM_S = 30.0
STORED_S = 5.0
SENDING_S = 2.0
"""Time of the load before a kill."""
FAILOVER_S = 60.0
RATES = (5_000, 0)
"""Messages a second while a follower catches up; 0: as many as the leader answers."""


@contextmanager
def started(side: str, count: int, level: str) -> Iterator[ReplicaGroup]:
    """A fresh group of so many replicas, all in sync."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-group-"))
    try:
        with replicas(side, folder, count, level) as group:
            yield group
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sends(side: str, count: int, level: str, messages: int) -> Figures:
    """One round of sends over 8 connections, 16 in flight on each."""
    with started(side, count, level) as group:
        group.make_topic("bench", level)
        warm(group, SEND, messages)
        stored = _stored(group)
        found = measured(group, SEND, messages)
        end = time.monotonic() + STORED_S
        while _stored(group) < stored + found["messages"] and time.monotonic() < end:
            time.sleep(0.1)
        found["lost"] = stored + found["messages"] - _stored(group)
        return found


def _stored(group: ReplicaGroup) -> int:
    return int(load(group.server(), Shape("", "rocketmq", "remoting-stored", "remoting", 1, 1, 1, ()), 1)["messages"])


def measured(group: ReplicaGroup, shape: Shape, messages: int) -> Figures:
    """Run the load, and add the CPU of a message: of all replicas, of the leader, and of the controllers."""
    server = group.server()
    leader = group.leader().process
    assert leader is not None
    parts: dict[str, list[Process]] = {"cpu_us": group.stores, "leader_us": [leader], "controllers_us": group.controllers}
    before = {name: sum(each.cpu_s() for each in part) for name, part in parts.items()}
    found = load(server, shape, messages)
    for name, part in parts.items():
        found[name] = (sum(each.cpu_s() for each in part) - before[name]) * 1e6 / max(1, found["messages"])
    return found


def warm(group: ReplicaGroup, shape: Shape, messages: int) -> None:
    """Run the warm-up: a JVM until a run costs no less CPU, or its time is up."""
    if group.side == "headgate":
        load(group.server(), shape, messages // 4)
        return
    last, end = 0.0, time.monotonic() + WARM_S
    while time.monotonic() < end:
        used = measured(group, shape, messages)["cpu_us"]
        if last and used > STEADY * last:
            return
        last = used


def send_rows(rounds: int, counts: list[int], levels: list[int], sides: list[str], messages: int) -> None:
    """Print the table of sends."""
    print("| Replicas | Level | Server | Replicas us | Leader us | Controllers us | Messages/s | p50 ms | p99 ms |")
    print("|---" * 9 + "|", flush=True)
    for count in counts:
        for level in levels:

            def once(side: str, count: int = count, at: int = level) -> Figures:
                return sends(side, count, LEVELS[side][at], messages)

            for side, found in alternate(rounds, sides, once).items():
                print(send_row(count, LEVELS[side][level], side, found), flush=True)


def alternate(rounds: int, sides: list[str], once: Callable[[str], Figures]) -> dict[str, list[Figures]]:
    """All rounds of each side, A B A B."""
    found: dict[str, list[Figures]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            try:
                found[side].append(once(side))
            except (AbsentError, OSError, RuntimeError, ValueError, StopIteration) as error:
                print(f"{side}: {error!r}", file=sys.stderr)
            else:
                print(f"  {side}: {found[side][-1]}", file=sys.stderr)
    return {side: each for side, each in found.items() if each}


def send_row(count: int, level: str, side: str, rounds: list[Figures]) -> str:
    """One line of the table, in Markdown."""

    def middle(key: str) -> float:
        return statistics.median(each[key] for each in rounds)

    wrong = "".join(
        f", {total:.0f} {kind}" for kind in ("lost", "errors") if (total := sum(each.get(kind, 0) for each in rounds))
    )
    lowest, highest = min(each["cpu_us"] for each in rounds), max(each["cpu_us"] for each in rounds)
    return (
        f"| {count} | `{level}` | {side} | {middle('cpu_us'):.1f} ({lowest:.1f}-{highest:.1f}) | {middle('leader_us'):.1f} | "
        f"{middle('controllers_us'):.2f} | {middle('per_second'):,.0f}{wrong} | {middle('p50_us') / 1000:.2f} | "
        f"{middle('p99_us') / 1000:.2f} |"
    )


def failover(side: str, level: str, kills: int) -> list[float]:
    """Milliseconds from the last acknowledgement of a killed leader to the first one of the next, for each kill."""
    took: list[float] = []
    shape = replace(SEND, mode="remoting-failover", conns=1, window=1)
    with started(side, 3, level) as group:
        group.make_topic("bench", level)
        warm(group, SEND, 30_000)
        server = group.server()
        server.beside = [{"remoting": each.port} for each in group.replicas if each.port != server.ports["remoting"]]
        while len(took) < kills:
            group.until_in_sync(3)
            load_process = subprocess.Popen(arguments(server, shape, 1, 0), stdout=subprocess.PIPE, text=True)
            try:
                time.sleep(SENDING_S)
                killed = group.leader()
                killed.kill()
                notified, _ = load_process.communicate(timeout=FAILOVER_S)
            finally:
                load_process.kill()
                load_process.wait()
            took.append(json.loads(notified)["max_us"] / 1000)
            killed.start()
    return took


def failover_row(level: str, side: str, took: list[float]) -> str:
    """One line of the table, in Markdown."""
    ranked = sorted(took)
    high = ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))]
    return f"| `{level}` | {side} | {len(took)} | {statistics.median(took):,.0f} | {high:,.0f} | {ranked[-1]:,.0f} |"


def catchup_rows(options: argparse.Namespace, levels: list[int], sides: list[str]) -> None:
    """Print the table of catch-ups."""
    print(CATCHUP_HEAD, flush=True)
    for count, level, rate in itertools.product(options.replicas or (2, 3), levels, options.rate or RATES):

        def once(side: str, count: int = count, at: int = level, rate: int = rate) -> Figures:
            with started(side, count, LEVELS[side][at]) as group:
                group.make_topic("bench", LEVELS[side][at])
                warm(group, SEND, 60_000)
                return catch_up(group, SEND, options.megabytes, rate)

        for side, found in alternate(options.rounds, sides, once).items():
            print(catchup_row(count, LEVELS[side][level], rate, side, found), flush=True)


def failover_rows(kills: int, levels: list[int], sides: list[str]) -> None:
    """Print the table of failovers."""
    print("| Level | Server | Kills | Median ms | p99 ms | Longest ms |\n" + "|---" * 6 + "|", flush=True)
    for level in levels:
        for side in sides:
            print(failover_row(LEVELS[side][level], side, failover(side, LEVELS[side][level], kills)), flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sends", "catchup", "failover"))
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each row; failover: kills")
    parser.add_argument("--replicas", type=int, action="append", default=[], help="only so many replicas; repeatable")
    parser.add_argument("--level", type=int, action="append", default=[], choices=(0, 1), help="0: with flushes, 1: without")
    parser.add_argument("--only", choices=sorted(LEVELS), help="only this side")
    parser.add_argument("--messages", type=int, default=120_000)
    parser.add_argument("--rate", type=int, action="append", default=[], help="only this load of catchup; repeatable")
    parser.add_argument("--megabytes", type=int, default=500)
    options = parser.parse_args()
    sides = [options.only] if options.only else list(LEVELS)
    levels = options.level or [0, 1]
    if options.what == "sends":
        send_rows(options.rounds, options.replicas or [1, 2, 3], levels, sides, options.messages)
    elif options.what == "failover":
        failover_rows(options.rounds, levels, sides)
    else:
        catchup_rows(options, levels, sides)


if __name__ == "__main__":
    main()
