"""Goodput under overload, beside the best that the server reaches: sends on every protocol, and MQTT to its subscribers.

    python -m benchmarks.overload                       every load; mosquitto too if it is installed; some six minutes
    python -m benchmarks.overload mqtt --scale 3        the loads whose name contains "mqtt", with three times the messages
    python -m benchmarks.overload gRPC --apart          server and generator have a processor each

The generator sends with a window: of a small and a large one, where it has several, the one with the higher rate. Runs under
overload take turns with these, and the medians of three are compared: a program that runs beside them for some seconds then
disturbs both. Under overload senders do not wait for answers: with a rate, they offer twice the best; without one, as much as
the connections take. "kept" is the rate under overload over the best; below 90 % it is lost. "refused" were answered with a
refusal, "lost" were not answered, or did not reach their subscribers. Where other programs use the processors too, compare the
CPU of a message: "kept, by CPU" is what the overload leaves of the messages that the node can handle in the same processor
time. A client that does more under overload takes a processor from the server; with --apart it cannot.

gRPC calls are prepared HTTP/2 frames with the stream's id put in (`benchmarks/load/frames.go`). A client library, Go's too,
spends more on a call than the server: with it twice the best cannot be offered on the same machine. Beyond the streams that the
server allows on a connection, calls wait in the client.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.brokers import mosquitto
from benchmarks.generator import Figures, load
from benchmarks.servers import AbsentError, Server, headgate
from benchmarks.shapes import SHAPES, Shape

SIDES: dict[str, Callable[[Path, str], Server]] = {"headgate": headgate, "mosquitto": mosquitto}
PROCESSORS = sorted(os.sched_getaffinity(0))
AS_FAST_AS_POSSIBLE = 10_000_000
"""A rate that no generator reaches."""
TIMES = 2
"""The load that is offered, in multiples of the best."""
KEPT_MIN = 0.9
ROUNDS = 3
SECONDS = 4.0
"""Length of a run with a window at scale 1; one under overload offers so much more that it is longer."""
COLUMNS = "Server | Load | Best | Offered | Answered | Kept | Kept, by CPU | Refused | Lost | CPU us a message | MB"
HEAD = f"| {COLUMNS} |\n|" + "---|" * 11


@dataclass(frozen=True)
class Overload:
    """One load.

    shape    the load with which the best is measured
    count    messages of the first run, which says how many the others have, at scale 1
    rate     True: twice the best is offered; False: as much as the connections take
    window   messages in flight on each connection under overload; 0: the generator does not wait for answers
    each     the rate is that of each publisher
    times    windows with which the best is sought, in multiples of the shape's
    """

    shape: str
    count: int
    rate: bool = True
    window: int = 0
    each: bool = False
    mode: str = ""
    times: tuple[int, ...] = (1, 4)

    @property
    def within(self) -> Shape:
        """The shape of the first run."""
        shape = SHAPES[self.shape]
        return replace(shape, mode=self.mode) if self.mode else shape

    @property
    def tried(self) -> list[Shape]:
        """The shapes of which one is the best's."""
        return [replace(self.within, window=self.within.window * each) for each in self.times]

    def over(self, best: float) -> tuple[Shape, int]:
        """The shape and the rate of the overload."""
        shape = self.within
        if self.window:
            return replace(shape, window=self.window), 0
        if not self.rate:
            return shape, AS_FAST_AS_POSSIBLE
        return shape, max(1, round(TIMES * best / (shape.publishers if self.each else 1)))


LOADS = {
    "remoting send": Overload("remoting-send", 120_000),
    "gRPC send": Overload("grpc-send", 40_000, mode="grpc-frames"),
    "gRPC send, 4,096 calls at once": Overload("grpc-send", 40_000, window=512, mode="grpc-frames"),
    "HTTP POST": Overload("http-32x1", 40_000, times=(1,)),
    "CoAP POST": Overload("coap", 60_000, times=(1,)),
    "mqtt, QoS 0": Overload("mqtt-qos0", 100_000, rate=False),
    "mqtt, QoS 1": Overload("mqtt-qos1", 80_000, rate=False),
    "mqtt, QoS 1, shared": Overload("mqtt-fan-in", 40_000, each=True),
}


def row(side: str, name: str, scale: float, durability: str) -> str:
    """Measure one server under one load. Returns a row of the table. Raises AbsentError, subprocess.SubprocessError."""
    wanted = LOADS[name]
    with tempfile.TemporaryDirectory() as folder:
        server = SIDES[side](Path(folder), durability)
        try:
            first = measured(server, wanted.within, round(wanted.count * scale))
            count = round(SECONDS * scale * first.rate)
            best = max([measured(server, shape, count) for shape in wanted.tried], key=lambda run: run.rate)
            shape, rate = wanted.over(best.rate)
            bests, overs = [], []
            for _ in range(ROUNDS):
                bests.append(measured(server, best.shape, count))
                overs.append(measured(server, shape, TIMES * count, rate))
            return _row(side, name, bests, overs, server.anonymous_mb())
        finally:
            server.stop()


@dataclass(frozen=True)
class Run:
    """One run of the generator: its figures, and the CPU of the server in microseconds for each message."""

    shape: Shape
    figures: Figures
    cpu_us: float

    @property
    def rate(self) -> float:
        """Messages in a second."""
        return self.figures["per_second"]


def measured(server: Server, shape: Shape, count: int, rate: int = 0) -> Run:
    """Run the generator once."""
    cpu_s = server.cpu_s()
    figures = load(server, shape, count, rate)
    return Run(shape, figures, (server.cpu_s() - cpu_s) * 1e6 / max(1, figures["messages"]))


def _row(side: str, name: str, bests: list[Run], overs: list[Run], megabytes: float) -> str:
    wanted = LOADS[name]
    offered = f"{wanted.window} in flight" if wanted.window else f"{TIMES} x" if wanted.rate else "all"
    rate, reached = median([run.rate for run in bests]), median([run.rate for run in overs])
    cpu_us, over_us = median([run.cpu_us for run in bests]), median([run.cpu_us for run in overs])
    kept, by_cpu = _kept(reached / rate), _kept(cpu_us / over_us)
    refused, lost = (sum(run.figures[figure] for run in overs) for figure in ("errors", "lost"))
    return (
        f"| {side} | {name} | {rate:,.0f}/s, {bests[0].shape.flying} | {offered} | {reached:,.0f}/s | {kept} | {by_cpu} "
        f"| {refused:,} | {lost:,} | {cpu_us:.1f}, {over_us:.1f} | {megabytes:.0f} |"
    )


def _on_its_own(start: Callable[[Path, str], Server], folder: Path, durability: str) -> Server:
    """Start a server on the first processor; what this process starts later runs on the others."""
    os.sched_setaffinity(0, PROCESSORS[:1])
    try:
        return start(folder, durability)
    finally:
        os.sched_setaffinity(0, PROCESSORS[1:] or PROCESSORS)


def _kept(share: float) -> str:
    return f"{share:.0%}" if share >= KEPT_MIN else f"**{share:.0%}, lost**"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="", help="a part of the loads' names")
    parser.add_argument("--scale", type=float, default=1.0, help="multiple of the messages")
    parser.add_argument("--durability", choices=("page", "flushed"), default="flushed")
    parser.add_argument("--apart", action="store_true", help="a processor for the server, and the others for the generator")
    options = parser.parse_args()
    if options.apart:
        SIDES.update({side: partial(_on_its_own, start) for side, start in SIDES.items()})
    print(f"{time.strftime('%d %B %Y %H:%M UTC', time.gmtime())}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
    print(HEAD, flush=True)
    for side in SIDES:
        for name in LOADS:
            if options.part not in name or (side != "headgate" and not name.startswith("mqtt")):
                continue
            try:
                print(row(side, name, options.scale, options.durability), flush=True)
            except AbsentError as absent:
                print(absent)
                break


if __name__ == "__main__":
    main()
