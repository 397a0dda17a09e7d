"""Many queues on one node: what each costs, and the longest turn of the loop in each kind of maintenance.

    python -m benchmarks.maintenance --queues 1000000 DIR

makes that many topics of one queue, asks for the route of each, sends a message to each and lets a group consume it; then
writes a checkpoint, deletes old segments, loads a bucket of timers, deletes a topic of many queues, scrapes the figures, dies
without a clean end, and starts again in a new process. DIR must not exist.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from benchmarks.inside import Node, Wire, resident
from benchmarks.turns import WatchedSelector, watched_loop
from domain.message import Message
from domain.store_ports import LeaseResult
from domain.store_request import LeaseRequest
from domain.topic import Durability, Topic
from gateway.connection.pump import Pump
from store.engine import LogStore

AT_ONCE = 100
"""Calls under way at the same time: about as many as a busy node has in one turn."""


class Many:
    """Runs many calls, AT_ONCE at a time, each of which ends with a callback."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)

    async def run(self, count: int, start: Callable[[int, Callable[..., None]], None]) -> None:
        """Call `start(number, done)` for all numbers below `count`; returns when each `done` has been called."""

        def done(*_: object) -> None:
            self._free.release()

        for number in range(count):
            await self._free.acquire()
            start(number, done)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        for _ in range(AT_ONCE):
            await self._free.acquire()
        for _ in range(AT_ONCE):
            self._free.release()


def name(number: int) -> str:
    """The name of a topic."""
    return f"device-{number:07d}"


class Trial:
    """One node with many queues."""

    def __init__(self, folder: Path, queues: int, selector: WatchedSelector) -> None:
        self._selector = selector
        self._queues = queues
        self.node = Node(folder)
        self.store = cast(LogStore, self.node.parts.store)
        self._many = Many()

    async def measured(self, what: str, work: Awaitable[None], each: int = 0) -> None:
        """Await `work`, and print its time, the longest turn and, with `each`, the memory for each of so many."""
        gc.collect()
        before = resident()
        self._selector.reset()
        began = time.perf_counter()
        await work
        took = time.perf_counter() - began
        cpu = self._selector.longest_cpu_s
        longest = self._selector.reset()
        gc.collect()
        memory = f"{(resident() - before) / each:7.0f} B each" if each else ""
        print(
            f"{what:<34} {took:8.2f} s   longest turn {longest * 1000:7.1f} ms, CPU {cpu * 1000:6.1f} ms   {memory}", flush=True
        )
        self._selector.reset()

    async def create(self) -> None:
        """Make the topics."""

        def start(number: int, done: Callable[..., None]) -> None:
            topic = Topic(name(number), 1, 1, durability=Durability.PAGE)
            self.store.metadata.put_topic(topic, done)

        await self._many.run(self._queues, start)

    async def route(self) -> None:
        """Ask for the route of each topic, as an SDK does."""
        context = self.node._connection_context
        pump = Pump(context, "remoting", self.node.parts.adapters.streams["remoting"].connect)
        pump.connection_made(Wire())
        for number in range(self._queues):
            head = {"code": 105, "language": "JAVA", "version": 453, "opaque": number, "flag": 0}
            header = json.dumps({**head, "extFields": {"topic": name(number)}}).encode()
            pump.data_received((len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
            if number % 50 == 0:
                await asyncio.sleep(0)

    async def send(self) -> None:
        """Send a message to each."""

        def start(number: int, done: Callable[..., None]) -> None:
            self.store.log.append([Message(name(number), b"x" * 100, b"")], done)

        await self._many.run(self._queues, start)

    async def consume(self) -> None:
        """Lease and settle the message of each."""

        def start(number: int, done: Callable[..., None]) -> None:
            def leased(result: LeaseResult | Any) -> None:
                receipts = [message.receipt for message in result.messages]
                assert len(receipts) == 1, (number, result)
                self.store.leases.settle("readers", name(number), receipts, done)

            self.store.leases.lease(LeaseRequest("readers", name(number), 1, 60_000, from_first=True), leased)

        await self._many.run(self._queues, start)

    async def quiet(self) -> None:
        """Wait until what is idle has been made small."""
        await asyncio.sleep(30)

    async def checkpoint(self) -> None:
        """Write a checkpoint with a snapshot."""
        ended = asyncio.get_running_loop().create_future()
        self.store.parts.checkpointer.begin(True, lambda: ended.set_result(None))
        await ended

    async def retain(self) -> None:
        """Delete all segments but the newest: all state is carried forward."""
        parts = self.store.parts
        parts.commit.roll()
        await asyncio.sleep(0.1)
        retention = parts.retention
        first = parts.segments.active.base
        for segment in parts.segments.all[:-1]:
            segment.newest_ms = 1
        retention._last_ns = 0
        while parts.segments.first < first:
            await asyncio.sleep(0.05)
            if not retention._running:
                retention._last_ns = 0

    async def park(self) -> None:
        """Park a tenth as many timers in one bucket."""
        now = self.node.clock.wall_ms()
        due = max((now // (1 << 20) + 1 << 20) + 1, now + 120_000)
        count = self._queues // 10
        properties = b"TIMER_DELIVER_MS\x01%d\x02" % due

        def start(number: int, done: Callable[..., None]) -> None:
            self.store.log.append([Message(name(number), b"x", properties)], done)

        await self._many.run(count, start)

    async def timers(self) -> None:
        """Wait until the bucket is loaded, and all is delivered."""
        wheel = self.store.parts.wheel
        while wheel.delivered < self._queues // 10:
            await asyncio.sleep(0.01)

    async def large_topic(self) -> None:
        """Make a topic of a tenth as many queues, which a group has consumed."""
        count = self._queues // 10
        topic = Topic("large", count, count, durability=Durability.PAGE)
        made = asyncio.get_running_loop().create_future()
        self.store.metadata.put_topic(topic, made.set_result)
        await made

        def start(number: int, done: Callable[..., None]) -> None:
            def sent(_: object) -> None:
                self.store.positions.commit("readers", [("large", number, 1)], done)

            self.store.log.append([Message("large", b"x", b"", queue_id=number)], sent)

        await self._many.run(count, start)

    async def pop(self) -> None:
        """Receive 1,000 times from any queue of the large topic, of which one has a message."""
        for number in range(1_000):
            ended = asyncio.get_running_loop().create_future()
            self.store.log.append([Message("large", b"x", b"", queue_id=number)], ended.set_result)
            await ended
            while True:
                got: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self.store.leases.lease(LeaseRequest("readers", "large", 1, 60_000), got.set_result)
                result = await got
                await asyncio.sleep(0)
                if result.messages:
                    break

    async def drop(self) -> None:
        """Delete the large topic."""
        ended = asyncio.get_running_loop().create_future()
        self.store.metadata.delete_topic("large", ended.set_result)
        await ended
        await asyncio.sleep(1)

    async def scrape(self) -> None:
        """Ask for the figures ten times."""
        for _ in range(10):
            self.store.figures()
            await asyncio.sleep(0)


async def trial(folder: Path, queues: int, selector: WatchedSelector) -> None:
    """Make the queues, and do every kind of maintenance once."""
    run = Trial(folder, queues, selector)
    before = resident()
    await run.measured("create", run.create(), queues)
    await run.measured("route", run.route(), queues)
    await run.measured("send", run.send(), queues)
    await run.measured("consume", run.consume(), queues)
    await run.measured("quiet", run.quiet())
    print(f"{'all of a queue':<34} {(resident() - before) / queues:8.0f} B", flush=True)
    await run.measured("checkpoint", run.checkpoint())
    await run.measured("retention, state carried forward", run.retain())
    await run.measured("figures", run.scrape())
    await run.measured(f"create a topic of {queues // 10} queues", run.large_topic())
    await run.measured("1,000 receives from it", run.pop())
    await run.measured("delete it", run.drop())
    await run.measured("checkpoint", run.checkpoint())
    await run.measured(f"park {queues // 10} timers", run.park())


async def start(folder: Path, selector: WatchedSelector) -> None:
    """Open the directory, and print how long that takes."""
    began = time.perf_counter()
    node = Node(folder)
    opened = time.perf_counter() - began
    store = cast(LogStore, node.parts.store)
    gc.collect()
    print(
        f"{'start after kill -9':<34} {opened:8.2f} s   {len(store.parts.index.topics)} topics,"
        f" {(store.parts.segments.end - store.parts.segments.first) / 2**30:.2f} GiB of log,"
        f" {store.parts.recovered.batches} batches read, {resident() / 2**20:.0f} MiB",
        flush=True,
    )
    selector.reset()
    await asyncio.sleep(5)
    print(f"{'five seconds after it':<34}              longest turn {selector.reset() * 1000:7.1f} ms", flush=True)


def main(arguments: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintenance", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queues", type=int, default=1_000_000)
    parser.add_argument("--start", action="store_true", help="only open the directory that an earlier run has left")
    options = parser.parse_args(arguments)
    loop, selector = watched_loop()
    asyncio.set_event_loop(loop)
    if options.start:
        loop.run_until_complete(start(options.folder, selector))
    else:
        loop.run_until_complete(trial(options.folder, options.queues, selector))
        sys.stdout.flush()
        command = [sys.executable, "-m", "benchmarks.maintenance", str(options.folder), "--start"]
        os.close(cast(Any, loop)._csock.fileno())
        pid = os.fork()
        if pid:  # the parent dies as by kill -9, its lock with it
            os._exit(0)
        subprocess.run(["sleep", "1"], check=True)
        os.execv(sys.executable, command)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
