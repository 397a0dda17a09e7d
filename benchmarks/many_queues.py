"""A node with many queues, and each kind of maintenance of it, in the benchmark's own process."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from benchmarks.inside import Node, Wire, resident
from benchmarks.turns import WatchedSelector
from domain.message.message import Message
from domain.ports import Disk
from domain.store.store_ports import LeaseResult
from domain.store.store_request import LeaseRequest, LeaseTerms
from domain.topic.topic import Durability, Topic
from gateway.connection.pump import Pump
from store.opening.open_store import OpenStore

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

    def __init__(
        self, folder: Path, queues: int, selector: WatchedSelector, watch: Callable[[Disk], Disk] = lambda disk: disk
    ) -> None:
        """`watch(disk)` is what the node uses in place of the disk."""
        self._selector = selector
        self.queues = queues
        self.node = Node(folder, watch)
        self.store = cast(OpenStore, self.node.parts.store)

    async def measured(self, what: str, work: Awaitable[None], each: int = 0) -> None:
        """Await `work`, and print its time, the longest turn and, with `each`, the memory for each of so many."""
        before = resident()
        self._selector.reset()
        began, began_cpu = time.perf_counter(), time.process_time()
        await work
        took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        cpu, searching = self._selector.longest_cpu_s * 1000, self._selector.collector_s
        undisturbed = self._selector.undisturbed_s * 1000
        longest = self._selector.reset()
        memory = f"{(resident() - before) / each:.0f} B" if each else ""
        print(
            f"| {what} | {took:.1f} s, CPU {took_cpu:.1f} | {longest * 1000:.1f} ms | {cpu:.1f} ms | {undisturbed:.1f} ms"
            f" | {searching * 1000:.1f} ms | {memory} |",
            flush=True,
        )
        self._selector.reset()

    async def create(self) -> None:
        """Make the topics."""

        def start(number: int, done: Callable[..., None]) -> None:
            topic = Topic(name(number), 1, 1, durability=Durability.PAGE, created_ms=self.node.clock.wall_ms())
            self.store.metadata.put_topic(topic, done)

        await Many().run(self.queues, start)

    async def route(self) -> None:
        """Ask for the route of each topic, as an SDK does."""
        context = self.node._connection_context
        pump = Pump(context, "remoting", self.node.parts.adapters.streams["remoting"].connect)
        pump.connection_made(Wire())
        for number in range(self.queues):
            head = {"code": 105, "language": "JAVA", "version": 453, "opaque": number, "flag": 0}
            header = json.dumps({**head, "extFields": {"topic": name(number)}}).encode()
            pump.data_received((len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
            if number % 50 == 0:
                await asyncio.sleep(0)

    async def send(self) -> None:
        """Send a message to each."""

        def start(number: int, done: Callable[..., None]) -> None:
            self.store.log.append([Message(name(number), b"x" * 100, b"", queue_id=0)], done)

        await Many().run(self.queues, start)

    async def consume(self) -> None:
        """Lease and settle the message of each."""

        def start(number: int, done: Callable[..., None]) -> None:
            def leased(result: LeaseResult | Any) -> None:
                receipts = [message.receipt for message in result.messages]
                assert len(receipts) == 1, (number, result)
                self.store.leases.settle("readers", name(number), receipts, done)

            self.store.leases.lease(LeaseRequest("readers", name(number), 1, LeaseTerms(60_000), from_first=True), leased)

        await Many().run(self.queues, start)

    async def exchange(self) -> None:
        """Send a message to each, while a message of each is leased and settled."""
        await asyncio.gather(self.send(), self.consume())

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
        parts.commit.accepted.roll()
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

    async def large_topic(self) -> None:
        """Make a topic of a tenth as many queues, which a group has consumed."""
        count = self.queues // 10
        topic = Topic("large", count, count, durability=Durability.PAGE)
        made = asyncio.get_running_loop().create_future()
        self.store.metadata.put_topic(topic, made.set_result)
        await made

        def start(number: int, done: Callable[..., None]) -> None:
            def sent(_: object) -> None:
                self.store.positions.commit("readers", [("large", number, 1)], done)

            self.store.log.append([Message("large", b"x", b"", queue_id=number)], sent)

        await Many().run(count, start)

    async def pop(self) -> None:
        """Receive 1,000 times from any queue of the large topic, of which one has a message."""
        for number in range(1_000):
            ended = asyncio.get_running_loop().create_future()
            self.store.log.append([Message("large", b"x", b"", queue_id=number)], ended.set_result)
            await ended
            while True:
                got: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self.store.leases.lease(LeaseRequest("readers", "large", 1, LeaseTerms(60_000)), got.set_result)
                result = await got
                await asyncio.sleep(0)
                if result.messages:
                    break

    async def others(self) -> None:
        """Let a second group have a position on each queue of the large topic."""
        count = self.queues // 10

        def start(number: int, done: Callable[..., None]) -> None:
            self.store.positions.commit("others", [("large", number, 1)], done)

        await Many().run(count, start)

    async def drop_group(self) -> None:
        """Delete the second group."""
        ended = asyncio.get_running_loop().create_future()
        self.store.positions.drop_group("others", ended.set_result)
        await ended

    async def drop(self) -> None:
        """Delete the large topic."""
        ended = asyncio.get_running_loop().create_future()
        self.store.metadata.delete_topic("large", ended.set_result)
        await ended
        while self.store.parts.index.deleted or self.store.parts.ledger.tables.removals:
            await asyncio.sleep(0.1)

    async def fill(self, size: int) -> None:
        """Append messages of 1 KiB, 32 at a time, until the log has `size` bytes."""
        segments, body = self.store.parts.segments, b"x" * 1024
        number = 0
        while segments.end - segments.first < size:
            for _ in range(8):
                number += 1
                topic = name(number * 97 % min(self.queues, 20_000))
                self.store.log.append([Message(topic, body, b"", queue_id=0) for _ in range(32)], _ignored)
            await asyncio.sleep(0)

    async def scrape(self) -> None:
        """Ask for the figures ten times."""
        for _ in range(10):
            self.store.figures()
            await asyncio.sleep(0)


def _ignored(_: object) -> None:
    """An answer that nobody waits for."""


async def trial(folder: Path, queues: int, gigabytes: float, selector: WatchedSelector) -> None:
    """Make the queues, and do every kind of maintenance once."""
    run = Trial(folder, queues, selector)
    before = resident()
    print(
        "| | Time | Longest turn | Its processor time | Without the host's | Longest search for cycles | Memory of each |\n"
        "|---|---|---|---|---|---|---|"
    )
    await run.measured("create", run.create(), queues)
    await run.measured("route", run.route(), queues)
    await run.measured("send one message", run.send(), queues)
    await run.measured("consume it", run.consume(), queues)
    await run.measured("30 s without clients", run.quiet())
    await run.measured("checkpoint with snapshot", run.checkpoint())
    print(f"| all of a queue | | | | | | {(resident() - before) / queues:.0f} B |", flush=True)
    await run.measured("retention, all state carried forward", run.retain())
    await run.measured("figures, ten times", run.scrape())
    await run.measured(f"create a topic of {queues // 10} queues, and commit positions", run.large_topic())
    await run.measured("1,000 receives from it", run.pop())
    await run.measured("positions of another group", run.others())
    await run.measured("delete that group", run.drop_group())
    await run.measured("delete the topic", run.drop())
    await run.measured(f"fill the log to {gigabytes} GB", run.fill(int(gigabytes * 1e9)))
    print(f"| all of a queue | | | | | | {(resident() - before) / queues:.0f} B |", flush=True)


async def start(folder: Path, selector: WatchedSelector) -> None:
    """Open the directory, and print how long that takes."""
    before, began, began_cpu = resident(), time.perf_counter(), time.process_time()
    node = Node(folder)
    took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    store = cast(OpenStore, node.parts.store)
    count = len(store.parts.index.topics)
    print(
        f"| start after kill -9: {count} topics, {(store.parts.segments.end - store.parts.segments.first) / 1e9:.1f} GB,"
        f" {store.parts.recovered.batches} batches read | {took:.1f} s, CPU {took_cpu:.1f} | | | | |"
        f" {(resident() - before) / count:.0f} B |",
        flush=True,
    )
    selector.reset()
    await asyncio.sleep(5)
    cpu, undisturbed = selector.longest_cpu_s * 1000, selector.undisturbed_s * 1000
    longest = selector.reset() * 1000
    print(f"| five seconds after it | | {longest:.1f} ms | {cpu:.1f} ms | {undisturbed:.1f} ms | | |", flush=True)
