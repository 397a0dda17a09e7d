"""Processor time of a message by role: one process, a gateway before a store, and before Apache's broker Apache's proxy or our
gateway, one and two of each.

    python -m benchmarks.roles
    python -m benchmarks.roles grpc-send --scale 0.2 --rounds 3 --only "gateway and store"

Each round starts fresh servers, warms them up and checks the messages, as benchmarks.run does. A row is of the cheapest round.
Shapes of latency, as remoting-e2e, are measured at Apache's broker without a gateway too, which tells what a gateway adds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace

from benchmarks.generator import Figures
from benchmarks.measure import Terms, measure
from benchmarks.servers import AbsentError
from benchmarks.shapes import SHAPES, Shape

NAMES = ("remoting-send", "grpc-send", "grpc-receive", "mqtt-qos1")
OURS = ("headgate", "gateway and store")
PROXIES = ("apache proxy", "two apache proxies")
GATEWAYS = ("gateway and apache", "two gateways and apache")
"""Before Apache's name server and broker."""
BROKER = "apache"
"""Apache's name server and broker, with the gRPC proxy in the broker's process."""


def sides_of(shape: Shape) -> tuple[str, ...]:
    """Who is compared: Apache has no MQTT. A single client, as in shapes of latency, has one gateway.

    Apache's proxy is left out for latency over remoting: the load does not end there.
    """
    if shape.unit == "latency":
        proxies = () if shape.port in ("mqtt", "remoting") else (PROXIES[0],)
        return (*OURS, *proxies, GATEWAYS[0], *(() if shape.port == "mqtt" else (BROKER,)))
    return (*OURS, *GATEWAYS) if shape.port == "mqtt" else (*OURS, *PROXIES, *GATEWAYS)


def seen_by(side: str, shape: Shape) -> Shape:
    """The shape at the port of the gateway."""
    return replace(shape, port="proxy") if side in PROXIES + GATEWAYS and shape.port == "remoting" else shape


def row(name: str, side: str, found: Figures) -> str:
    """One line of the table, in Markdown."""
    roles = [f"{found[key]:.1f}" if (key := f"{role}_us") in found else "" for role in ("gateway", "store")]
    wrong = "".join(f", {int(found[kind])} {kind}" for kind in ("lost", "duplicates", "errors") if found.get(kind))
    late = f"{found['p50_us'] / 1000:.2f} | {found['p99_us'] / 1000:.2f}" if found.get("p99_us") else "|"
    return f"| {name} | {side} | {roles[0]} | {roles[1]} | {found['cpu_us']:.1f} | {found['per_second']:,.0f}{wrong} | {late} |"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=NAMES, help=f"shapes of benchmarks.run (default: {' '.join(NAMES)})")
    parser.add_argument("--durability", choices=("page", "flushed"), default="page")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=0.2, help="share of the usual number of messages")
    parser.add_argument("--only", action="append", default=[], help="only this side; repeatable")
    options = parser.parse_args()
    terms = Terms(options.durability, options.scale)
    print("| Shape | Server | Gateway us | Store us | All us | Messages/s | p50 ms | p99 ms |\n" + "|---" * 8 + "|", flush=True)
    for name in options.shapes:
        for side in sides_of(SHAPES[name]):
            if options.only and side not in options.only:
                continue
            rounds: list[Figures] = []
            for _ in range(options.rounds):
                try:
                    rounds.append(measure(side, seen_by(side, SHAPES[name]), terms))
                except AbsentError as absent:
                    print(absent, file=sys.stderr)
                    break
                except (OSError, RuntimeError, subprocess.SubprocessError, ValueError) as error:
                    print(f"{name}, {side}: {error}", file=sys.stderr)
            if rounds:
                print(row(name, side, min(rounds, key=lambda found: found["cpu_us"])), flush=True)


if __name__ == "__main__":
    main()
