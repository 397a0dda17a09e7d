"""A node in the benchmark's own process, with transports that do nothing: no cost of sockets is measured."""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.process import memory_kib
from domain.ports import Disk
from domain.topic.topic import Durability
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.pump import Pump
from gateway.node.composition import Parts, StorePlace, compose
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from gateway.runtime.clock import LoopClock, new_loop
from gateway.runtime.collector import Collector
from gateway.runtime.disk import DataDirectory
from gateway.runtime.entropy import SystemEntropy
from gateway.runtime.machine import hot_bytes
from tests.place import place_of

CONNECTIONS_MAX = 1_000_000
T = TypeVar("T")
Rows = Coroutine[Any, Any, list[tuple[str, str]]]
"""Measures, and returns (what was measured, figure)."""


def resident(pid: int | str = "self") -> int:
    """Anonymous resident memory of a process, in bytes."""
    return memory_kib(pid, "RssAnon") * 1024


def text(value: str) -> bytes:
    """An encoded MQTT string."""
    return len(value).to_bytes(2, "big") + value.encode()


def packet(kind: int, body: bytes) -> bytes:
    """An encoded MQTT packet of less than 128 bytes."""
    return bytes((kind, len(body))) + body


def connect_packet(client_id: str, persistent: bool) -> bytes:
    """CONNECT of MQTT 3.1.1, keep-alive 60 s."""
    return packet(0x10, text("MQTT") + bytes((4, 0 if persistent else 2, 0, 60)) + text(client_id))


def subscribe_packet(name: str) -> bytes:
    """SUBSCRIBE of MQTT 3.1.1 to one filter, QoS 1."""
    return packet(0x82, b"\x00\x01" + text(name) + b"\x01")


class Wire:
    """A transport that does nothing.

    heard   bytes that were written to it; stays empty without `keeps`
    """

    __slots__ = ("heard", "keeps", "number")

    def __init__(self, number: int = 0, keeps: bool = False) -> None:
        self.number = number
        self.keeps = keeps
        self.heard = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The peer's address."""
        return (f"127.0.{self.number % 250}.1", 10_000 + self.number % 50_000)

    def write(self, data: bytes) -> None:
        """Record the bytes if `keeps` is set."""
        if self.keeps:
            self.heard += data

    def writelines(self, parts: Any) -> None:
        """Record the parts as `write` does."""
        if self.keeps:
            self.heard += b"".join(parts)

    def get_write_buffer_size(self) -> int:
        """0: there is no write buffer."""
        return 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Do nothing: there is no write buffer."""

    def pause_reading(self) -> None:
        """Do nothing: no bytes are in flight."""

    def resume_reading(self) -> None:
        """Do nothing, as `pause_reading`."""

    def close(self) -> None:
        """Do nothing: there is no socket."""

    def abort(self) -> None:
        """Do nothing, as `close`."""


class Node:
    """The parts of a node with its files in `folder`. `watch(disk)` is what the node uses in place of the disk."""

    def __init__(self, folder: Path, watch: Callable[[Disk], Disk] = lambda disk: disk) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LoopClock(loop)
        self._disk = DataDirectory(folder, loop)
        disk = watch(self._disk)
        config = Config(data=str(folder), durability=Durability.PAGE)
        gc.disable()
        self.parts: Parts = compose(
            place_of(config, {}, "127.0.0.1", self.clock, SystemEntropy()), StorePlace(disk, hot_bytes())
        )
        Collector(loop.call_later).begin()
        self._connection_context = ConnectionContext(
            self.parts.gate, self.clock, CounterRegistry(), ConnectionLimits(CONNECTIONS_MAX)
        )

    def dial(self, wire: Wire, first: bytes) -> Pump:
        """Open an MQTT connection, whose first bytes are `first`. Returns its pump."""
        pump = Pump(self._connection_context, "mqtt", self.parts.adapters.streams["mqtt"].connect)
        pump.connection_made(wire)
        pump.data_received(first)
        return pump

    async def stop(self) -> None:
        """Write everything to disk and close the store."""
        drained: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.parts.store.drain(lambda: drained.set_result(None))
        await drained
        self.parts.store.close()
        self._disk.close()


class Stalls:
    """Measures the longest delay of a due timer of the event loop."""

    GRAIN_S = 0.001

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            asked = time.monotonic()
            await asyncio.sleep(self.GRAIN_S)
            self.longest_s = max(self.longest_s, time.monotonic() - asked - self.GRAIN_S)

    def end(self) -> float:
        """Stop measuring. Returns the longest delay in seconds."""
        self._task.cancel()
        return self.longest_s


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end on the event loop that a node uses."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(work)


def table(rows: list[tuple[str, str]]) -> None:
    """Print (what was measured, figure) rows."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}", flush=True)


def two_parts(
    module: str, what: str, count: int, fill: Callable[[Path, int], Rows], restart: Callable[[Path, int], Rows], about: str
) -> None:
    """The command of a benchmark that fills a folder, and starts a node with the same files in a new process.

    `what`: things that are counted, `count` by default; `about`: the text of `--help`.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=count, help=f"{what} ({count})")
    parser.add_argument("--over", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.over is not None:
        table(run(restart(given.over, given.count)))
        return
    with tempfile.TemporaryDirectory(prefix=f"{module}-") as folder:
        table(run(fill(Path(folder), given.count)))
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", str(given.count), "--over", folder], check=True)
