"""Goodput under overload: MQTT messages that reach their subscribers, beside the best that the server reaches.

    python -m benchmarks.overload                       QoS 0 and 1; mosquitto too if it is installed
    python -m benchmarks.overload --count 600000 --durability page

Four publishers with a subscriber each. First they send as their subscribers receive (a window), then as fast as they can: what
they send more than the server delivers is the overload. "kept" is the second figure over the first; below 90 % it is lost.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.brokers import mosquitto
from benchmarks.generator import load
from benchmarks.servers import AbsentError, Server, headgate
from benchmarks.shapes import SHAPES

SIDES: dict[str, Callable[[Path, str], Server]] = {"headgate": headgate, "mosquitto": mosquitto}
AS_FAST_AS_POSSIBLE = 10_000_000
"""A rate that no generator reaches."""
KEPT_MIN = 0.9
HEAD = "| Server | QoS | Window | As fast as possible | Kept | Lost | CPU us a message | MB |\n|" + "---|" * 8


def row(side: str, qos: int, count: int, durability: str) -> str:
    """Measure one server at one QoS. Returns a row of the table. Raises AbsentError, subprocess.SubprocessError."""
    shape = replace(SHAPES[f"mqtt-qos{qos}"])
    with tempfile.TemporaryDirectory() as folder:
        server = SIDES[side](Path(folder), durability)
        try:
            load(server, shape, count // 10)
            best = load(server, shape, count)
            cpu_s = server.cpu_s()
            over = load(server, shape, count, AS_FAST_AS_POSSIBLE)
            cpu_us = (server.cpu_s() - cpu_s) * 1e6 / max(1, over["messages"])
            kept = over["per_second"] / best["per_second"]
            verdict = f"{kept:.0%}" if kept >= KEPT_MIN else f"**{kept:.0%}, lost**"
            return (
                f"| {side} | {qos} | {best['per_second']:,.0f}/s | {over['per_second']:,.0f}/s | {verdict} | {over['lost']:,} "
                f"| {cpu_us:.1f} | {server.anonymous_mb():.0f} |"
            )
        finally:
            server.stop()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300_000, help="messages of each run")
    parser.add_argument("--durability", choices=("page", "flushed"), default="flushed")
    options = parser.parse_args()
    print(HEAD, flush=True)
    for side in SIDES:
        for qos in (0, 1):
            try:
                print(row(side, qos, options.count, options.durability), flush=True)
            except AbsentError as absent:
                print(absent)
                break


if __name__ == "__main__":
    main()
