"""A follower that was away while much was written: how fast it catches up, and what that costs its leader.

Leader, controllers and load share one processor, and the followers have the other one, as if it were a machine of its own:
what is measured is the leader's own work for the one that is behind. Of three replicas the third one stays in sync meanwhile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

from benchmarks import generator
from benchmarks.generator import Figures, arguments
from benchmarks.process import Process
from benchmarks.replicas import Replica, ReplicaGroup, ask, pin
from benchmarks.shapes import Shape
from gateway.client.answer import ClientError

CALM_S = 5.0
"""Time that is measured before the follower comes back, when it is in sync, and when it is gone again."""
WAIT_S = 180.0
BEHIND_NICE = 10
"""How the follower that is behind is scheduled beside one that is in sync and has the same processor here."""
POLL_S = 0.05
SLICE_S = 0.1
LEADERS, FOLLOWERS = 0, 1
"""Processors."""
HEAD = (
    "| Replicas | Level | Load | Server | MB behind | Catch-up MB/s | Until in sync s | Sends/s without it | while behind | "
    "in sync | Loss % | of in sync % | Leader us without | while | in sync | p99 ms without | while | in sync |\n"
    + "|---" * 18
    + "|"
)
_GET_RUNTIME_INFO = 28


class Slice(TypedDict):
    """A tenth of a second of the load, as the generator prints it."""

    count: int
    late: list[int]


class Look(NamedTuple):
    """One look: epoch seconds, bytes that the follower's log has, processor seconds of the leader."""

    at: float
    bytes: int
    cpu_s: float


class Span(NamedTuple):
    """A load between two looks: sends a second, their p99 in ms, and the leader's microseconds of CPU a message."""

    sends: float
    p99: float
    us: float


@dataclass
class Timeline:
    """What a load did, tenth of a second by tenth of a second.

    begun   when it began, epoch seconds
    """

    begun: float = 0.0
    slices: list[Slice] = field(default_factory=list)

    def span(self, begin: Look, end: Look) -> Span:
        """What the whole slices between two looks come to."""
        first, last = int((begin.at - self.begun) / SLICE_S) + 1, int((end.at - self.begun) / SLICE_S)
        found = self.slices[first : max(last, first + 1)]
        late = sorted(each for one in found for each in one["late"])
        per_second = sum(each["count"] for each in found) / (SLICE_S * max(1, len(found)))
        used = (end.cpu_s - begin.cpu_s) * 1e6 / (per_second * (end.at - begin.at))
        return Span(per_second, late[int(0.99 * (len(late) - 1))] / 1000 if late else 0.0, used)


@contextmanager
def sending(group: ReplicaGroup, shape: Shape, rate: int) -> Iterator[Timeline]:
    """Send for as long as the block lasts: `rate` a second, or, for 0, as fast as the leader answers."""
    timeline = Timeline()
    command = arguments(group.server(), replace(shape, mode="remoting-timeline"), 1, rate)
    process = subprocess.Popen(
        ["taskset", "-c", str(LEADERS), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield timeline
        notified, _ = process.communicate("\n", timeout=30)
    finally:
        process.kill()
        process.wait()
    found = json.loads(notified)
    timeline.begun, timeline.slices = found["begun_ms"] / 1000, found["slices"]


def catch_up(group: ReplicaGroup, shape: Shape, megabytes: int, rate: int) -> Figures:
    """Stop a follower, write so much, and start it again while so many messages a second are sent."""
    leader = group.leader()
    follower = next(each for each in group.replicas if each is not leader)
    follower.kill()
    group.until_in_sync(len(group.replicas) - 1)
    generator.load(group.server(), shape, megabytes * 1_000_000 // shape.size)
    assert leader.process is not None
    for process in (leader.process, *group.controllers):
        pin(process, LEADERS)
    for each in group.replicas:
        if each is not leader and each.process is not None:
            pin(each.process, FOLLOWERS)
    with sending(group, shape, rate) as timeline:
        time.sleep(1)
        before = _rest(group.side, leader.process, follower)
        began = time.time()
        process = follower.start(FOLLOWERS)
        os.setpriority(os.PRIO_PROCESS, process.pid, BEHIND_NICE)
        looks = _watch(group, leader.process, follower)
        joined = time.time()
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 0)
        time.sleep(1)
        after = _rest(group.side, leader.process, follower)
        follower.kill()
        group.until_in_sync(len(group.replicas) - 1)
        time.sleep(1)
        again = _rest(group.side, leader.process, follower)
        time.sleep(0.5)
    moved = _moving(looks)
    alone = [timeline.span(*before), timeline.span(*again)]  # sends slow while files fill the page cache
    calm = Span(*(statistics.mean(each) for each in zip(*alone, strict=True)))
    busy, settled = timeline.span(moved[0], moved[-1]), timeline.span(*after)
    lasted = moved[-1].at - moved[0].at
    return {
        "behind_mb": float(megabytes), "mb_s": (moved[-1].bytes - moved[0].bytes) / 1e6 / lasted, "in_sync_s": joined - began,
        "seconds": lasted, "calm": calm.sends, "calm_before": alone[0].sends, "busy": busy.sends, "settled": settled.sends,
        "loss": 100 * (1 - busy.sends / calm.sends), "over_settled": 100 * (1 - busy.sends / settled.sends),
        "calm_us": calm.us, "busy_us": busy.us, "settled_us": settled.us,
        "calm_p99": calm.p99, "busy_p99": busy.p99, "settled_p99": settled.p99,
    }  # fmt: skip


def _rest(side: str, leader: Process, follower: Replica) -> tuple[Look, Look]:
    """Looks at the begin and the end of CALM_S, in which nothing but the load changes."""
    first = _poll(side, leader, follower)
    time.sleep(CALM_S)
    return first, _poll(side, leader, follower)


def _watch(group: ReplicaGroup, leader: Process, follower: Replica) -> list[Look]:
    """Look until all replicas are in sync."""
    looks = [_poll(group.side, leader, follower)]
    end = time.monotonic() + WAIT_S
    asked = 0.0
    while time.monotonic() < end:
        time.sleep(POLL_S)
        looks.append(_poll(group.side, leader, follower))
        if time.monotonic() - asked > 0.25:
            asked = time.monotonic()
            state = group.state()
            if state is not None and state.in_sync == len(group.replicas):
                return looks
    raise TimeoutError(f"the follower is not in sync after {WAIT_S:g} s: it has {looks[-1].bytes:,} bytes")


def _moving(looks: list[Look]) -> list[Look]:
    """The looks while the follower has between 5 and 95 % of what it had to get."""
    least, most = next(each.bytes for each in looks if each.bytes), looks[-1].bytes
    low, high = least + (most - least) * 0.05, least + (most - least) * 0.95
    found = [each for each in looks if low <= each.bytes <= high]
    if len(found) < 2:
        raise RuntimeError(f"the catch-up was too short to be measured: {most - least:,} bytes")
    return found


def _poll(side: str, leader: Process, follower: Replica) -> Look:
    return Look(time.time(), _log_bytes(side, follower), leader.cpu_s())


def _log_bytes(side: str, follower: Replica) -> int:
    """Bytes of a follower's log: by its files, which Apache makes longer in advance; its broker tells it."""
    if side == "headgate":
        return sum(each.stat().st_size for each in (follower.folder / "data" / "log").iterdir())
    with suppress(OSError, ClientError, RuntimeError, KeyError):
        return int(json.loads(ask(f"127.0.0.1:{follower.port}", _GET_RUNTIME_INFO, {}, b"")[1])["table"]["commitLogMaxOffset"])
    return 0


def row(replicas: int, level: str, rate: int, side: str, rounds: list[Figures]) -> str:
    """One line of the table, in Markdown."""

    def middle(key: str) -> float:
        return statistics.median(each[key] for each in rounds)

    load = f"{rate:,}/s" if rate else "full"
    places = {"behind_mb": 0, "mb_s": 0, "in_sync_s": 1, "calm": 0, "busy": 0, "settled": 0, "loss": 0, "over_settled": 0}
    places |= dict.fromkeys(("calm_us", "busy_us", "settled_us", "calm_p99", "busy_p99", "settled_p99"), 1)
    found = " | ".join(f"{middle(key):,.{places[key]}f}" for key in places)
    return f"| {replicas} | `{level}` | {load} | {side} | {found} |"
