"""How long a small node needs after kill -9: from exec to ready, and for the recovery of its store alone.

    python -m benchmarks.recovery --messages 100000 --rounds 5

starts a node, sends messages by HTTP, lets a group receive and acknowledge a part of them, kills the node and starts it again:
the time from exec until /readyz answers 200 and its processor time; the same of a node without data, which is what imports and
listeners cost; and what the store alone needs to open a copy of the directory in this process, whose modules are imported.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import shutil
import signal
import statistics
import tempfile
import time
from pathlib import Path

from gateway.runtime.compiled import activate

RUNNING = activate()  # before the modules of the node are imported

from benchmarks import servers  # noqa: E402
from benchmarks.servers import Server  # noqa: E402

BATCH = 100
TAKEN = 10
"""One in so many messages is received and acknowledged."""


def fill(server: Server, count: int, size: int) -> None:
    """Send `count` messages of `size` bytes, and consume a part of them."""
    wire = http.client.HTTPConnection("127.0.0.1", server.ports["http"])
    body = json.dumps([{"text": "x" * size}] * BATCH)

    def ask(path: str, content: str = "") -> bytes:
        wire.request("POST", path, content, {"Content-Type": "application/json"})
        answer = wire.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{path}: {answer.status} {data[:200]!r}")
        return data

    wire.request("PUT", "/v1/topics/small", json.dumps({"queues": 4}))
    wire.getresponse().read()
    for _ in range(count // BATCH):
        ask("/v1/topics/small/messages:batch", body)
    for _ in range(count // TAKEN // 32):
        found = json.loads(ask("/v1/groups/g/topics/small:receive?max=32&invisible_ms=600000"))
        ask("/v1/groups/g/topics/small:ack", json.dumps({"receipts": [each["receipt"] for each in found["messages"]]}))
    wire.close()


def started(folder: Path) -> tuple[Server, float, float]:
    """(a node that is ready, seconds from exec to ready, its processor time until then)."""
    began = time.monotonic()
    server = servers.headgate(folder, "flushed")
    return server, time.monotonic() - began, server.cpu_s()


def kill(server: Server) -> None:
    """kill -9."""
    os.kill(server.processes[0].pid, signal.SIGKILL)
    server.stop()


async def opened(folder: Path) -> tuple[float, float]:
    """(seconds, processor time) that the store needs to open `folder`."""
    from domain.store.store_event import unheard
    from gateway.runtime.clock import LoopClock
    from gateway.runtime.disk import DataDirectory
    from store.engine import open_store
    from store.settings import StoreSettings

    loop = asyncio.get_running_loop()
    disk = DataDirectory(folder, loop)
    began, began_cpu = time.perf_counter(), time.process_time()
    store = open_store(disk, LoopClock(loop), StoreSettings(), unheard)
    took = time.perf_counter() - began, time.process_time() - began_cpu
    figures = store.figures()
    print(f"{figures['recovered_batches']:.0f} batches read, {figures['recovered_copied_bytes']:,.0f} bytes copied", flush=True)
    store.close()
    disk.close()
    return took


def line(what: str, found: list[tuple[float, float]]) -> None:
    """Print the median and the range of (seconds, processor time)."""
    took, cpu = sorted(each[0] for each in found), sorted(each[1] for each in found)
    print(
        f"| {what} | {statistics.median(took):.2f} s ({took[0]:.2f}-{took[-1]:.2f})"
        f" | {statistics.median(cpu):.2f} s ({cpu[0]:.2f}-{cpu[-1]:.2f}) |",
        flush=True,
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000, help="before each kill")
    parser.add_argument("--size", type=int, default=100, help="bytes of each")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"{RUNNING}, load {os.getloadavg()[0]:.1f}")
    after: list[tuple[float, float]] = []
    empty: list[tuple[float, float]] = []
    alone: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="recovery-") as name:
        folder = Path(name)
        server, _, _ = started(folder / "node")
        for number in range(given.rounds):
            fill(server, given.messages, given.size)
            kill(server)
            copy = shutil.copytree(folder / "node" / "data", folder / f"copy-{number}")
            alone.append(asyncio.run(opened(copy)))
            shutil.rmtree(copy)
            server, took, cpu = started(folder / "node")
            after.append((took, cpu))
            other, took, cpu = started(folder / f"empty-{number}")
            empty.append((took, cpu))
            kill(other)
        kill(server)
    print("| | By the clock | Processor time |\n|---|---|---|")
    line("exec to ready after kill -9", after)
    line("exec to ready, a new node", empty)
    line("the store alone", alone)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
