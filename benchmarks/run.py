"""Server CPU per message, ours beside the peer's: same machine, same load, one side at a time, A B A B.

    python -m benchmarks.run remoting-send --durability page --rounds 3
    python -m benchmarks.run --list

Every round starts each server afresh, warms it up (Apache's JVM with as many messages as are counted), then counts: user
and system time of all server processes over the messages that were answered. A row that is lost is printed like a row that
is won.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.servers import ROOT, SIDES, Server


@dataclass(frozen=True)
class Shape:
    """One load: what the generator is told, the port it goes to, and who is compared. `before` fills the topic first."""

    mode: str
    port: str
    conns: int
    window: int
    count: int
    sides: tuple[str, ...]
    size: int = 1024
    before: str = ""
    topic: str = "bench"


CREATE_TOPIC = Shape("create-topic", "remoting", 1, 1, 1, ())
OWN = ("headgate",)
ROCKETMQ = ("headgate", "apache")
MQTT = ("headgate", "mosquitto")
SHAPES = {
    "remoting-send": Shape("remoting-send", "remoting", 8, 16, 300_000, ROCKETMQ),
    "remoting-send-1x1": Shape("remoting-send", "remoting", 1, 1, 20_000, ROCKETMQ),
    "remoting-send-32x1": Shape("remoting-send", "remoting", 32, 1, 160_000, ROCKETMQ),
    "remoting-pull": Shape("remoting-pull", "remoting", 4, 1, 2_000_000, ROCKETMQ, before="remoting-send"),
    "remoting-pop": Shape("remoting-pop", "remoting", 4, 1, 100_000, ROCKETMQ, before="remoting-send"),
    "remoting-e2e": Shape("remoting-e2e", "remoting", 1, 1, 5_000, ROCKETMQ),
    "grpc-send": Shape("grpc-send", "grpc", 8, 32, 120_000, ROCKETMQ),
    "grpc-send-1x1": Shape("grpc-send", "grpc", 1, 1, 10_000, ROCKETMQ),
    "grpc-send-32x1": Shape("grpc-send", "grpc", 32, 1, 80_000, ROCKETMQ),
    "grpc-receive": Shape("grpc-receive", "grpc", 8, 4, 60_000, ROCKETMQ, before="grpc-send"),
    "grpc-e2e": Shape("grpc-e2e", "grpc", 1, 1, 5_000, ROCKETMQ),
    "mqtt": Shape("mqtt", "mqtt", 4, 64, 200_000, MQTT),
    "mqtt-1x1": Shape("mqtt", "mqtt", 1, 1, 20_000, MQTT),
    "mqtt-32x1": Shape("mqtt", "mqtt", 32, 1, 160_000, MQTT),
    "mqtt-e2e": Shape("mqtt-e2e", "mqtt", 1, 1, 5_000, MQTT),
    "coap": Shape("coap-post", "coap", 256, 1, 120_000, OWN),
    "coap-1x1": Shape("coap-post", "coap", 1, 1, 20_000, OWN),
    "coap-32x1": Shape("coap-post", "coap", 32, 1, 80_000, OWN),
    "http": Shape("http-ce", "http", 16, 1, 120_000, OWN),
    "http-1x1": Shape("http-ce", "http", 1, 1, 20_000, OWN),
    "http-32x1": Shape("http-ce", "http", 32, 1, 120_000, OWN),
}


def generator() -> Path:
    """The load generator, built by Go when it is older than its sources."""
    binary = ROOT / ".deps" / "load"
    sources = sorted((ROOT / "benchmarks" / "load").glob("*.go"))
    if not binary.exists() or binary.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        binary.parent.mkdir(exist_ok=True)
        subprocess.run(["go", "build", "-o", str(binary), "."], cwd=ROOT / "benchmarks" / "load", check=True)
    return binary


def load(server: Server, shape: Shape, count: int, rate: int = 500) -> dict[str, float]:
    """One run of the generator: its JSON line."""
    command = [
        str(generator()), "-mode", shape.mode, "-addr", f"127.0.0.1:{server.ports[shape.port]}", "-conns", str(shape.conns),
        "-window", str(shape.window), "-count", str(count), "-size", str(shape.size), "-topic", shape.topic, "-rate", str(rate),
    ]  # fmt: skip
    out = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    result: dict[str, float] = json.loads(out.stdout)
    return result


def measure(side: str, shape: Shape, durability: str, scale: float) -> dict[str, float]:
    """One round of one side: a fresh server, a warm-up, then the counted run."""
    folder = Path(tempfile.mkdtemp(prefix="headgate-bench-"))
    server = SIDES[side](folder, durability)
    try:
        count = int(shape.count * scale)
        if "remoting" in server.ports and load(server, CREATE_TOPIC, 1)["errors"]:
            raise SystemExit(f"{side} would not make the topic")
        if shape.mode in ("grpc-receive", "grpc-e2e"):
            load(server, replace(shape, mode="grpc-prime", conns=1), 1)
        if shape.before:
            first = SHAPES[shape.before]
            load(server, first, int(first.count * scale))
        if not shape.mode.endswith(("e2e", "grpc-receive", "remoting-pop")):
            # A JVM compiles what is hot while it runs: it is given as much to warm up as is counted.
            load(server, shape, count if side == "apache" else max(count // 5, shape.conns))
        before = server.cpu_s()
        result = load(server, shape, count)
        result["cpu_us"] = (server.cpu_s() - before) * 1e6 / max(1, result["messages"])
        result["anonymous_mb"] = server.anonymous_mb()
        return result
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def compare(name: str, durability: str, rounds: int, scale: float, sides: tuple[str, ...]) -> None:
    """All rounds of one shape, alternating sides; a table of medians with their spread."""
    shape = SHAPES[name]
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            found[side].append(measure(side, shape, durability, scale))
    print(f"\n{name}, {durability}: {shape.conns} connections x {shape.window} in flight, {shape.size} bytes, {rounds} rounds")
    print(f"{'side':12}{'CPU us/message':>24}{'messages/s':>14}{'p50 us':>10}{'p99 us':>10}{'errors':>8}")
    for side in sides:
        cpu = sorted(result["cpu_us"] for result in found[side])
        rate, p50, p99 = (statistics.median(r[key] for r in found[side]) for key in ("per_second", "p50_us", "p99_us"))
        errors = sum(result["errors"] for result in found[side])
        spread = f"{statistics.median(cpu):.1f} ({cpu[0]:.1f} to {cpu[-1]:.1f})"
        print(f"{side:12}{spread:>24}{rate:>14,.0f}{p50:>10,.0f}{p99:>10,.0f}{errors:>8.0f}", flush=True)
        notes = {str(result["note"]) for result in found[side] if result["note"]}
        for note in sorted(notes):
            print(f"{'':12}{note}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", help="shapes to run; all of them when none is named")
    parser.add_argument("--durability", choices=("page", "flushed"), default="page")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual number of messages")
    parser.add_argument("--only", action="append", choices=sorted(SIDES), help="only this side; repeatable")
    parser.add_argument("--list", action="store_true", help="name the shapes")
    options = parser.parse_args()
    if options.list:
        for name, shape in SHAPES.items():
            print(f"{name:22}{shape.conns:4} x {shape.window:<4}{shape.count:>10,} messages   {' / '.join(shape.sides)}")
        return
    for name in options.shapes or SHAPES:
        if name not in SHAPES:
            parser.error(f"no shape {name!r}; --list names them")
        sides = tuple(side for side in SHAPES[name].sides if not options.only or side in options.only)
        compare(name, options.durability, options.rounds, options.scale, sides)


if __name__ == "__main__":
    main()
