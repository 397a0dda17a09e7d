"""A node with many positions of groups, and walks over their lag, in the benchmark's own process."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from pathlib import Path
from typing import cast

from benchmarks.inside import resident
from benchmarks.many_queues import Trial, name
from benchmarks.turns import WatchedSelector
from domain.message.message import Message
from gateway.observe.lag import COST_MAX, ROWS_MAX, Lags
from store.lease import journal
from store.lease.idle_tables import CHUNK_ROWS, Chunk
from store.lease.lag import LagReader

WATCHED_S = 60
"""Time for which the node itself reads the lag."""


def fill(run: Trial, groups: int) -> None:
    """A position of each group at the end of each topic, as a start loads them from a checkpoint."""
    rows = run.store.parts.ledger.tables.rows
    names = [f"group-{number:04d}" for number in range(groups)]
    keys: list[bytes] = []
    for topic in range(run.queues):
        keys += [journal.key(group, name(topic), 0) for group in names]
        while len(keys) >= CHUNK_ROWS or (keys and topic == run.queues - 1):
            part, keys = keys[:CHUNK_ROWS], keys[CHUNK_ROWS:]
            size = len(part)
            rows.load(Chunk(part, array("q", [1] * size), array("q", [0] * size), array("q", [0] * size)))


async def walk(run: Trial, what: str) -> None:
    """One walk in slices of the greatest cost, and what it takes."""
    lags = cast(LagReader, run.store.outlook.lags(ROWS_MAX))
    over, longest, spent, slices = False, 0.0, 0.0, 0
    while not over:
        began = time.thread_time()
        over = lags.step(COST_MAX)
        took = time.thread_time() - began
        longest, spent, slices = max(longest, took), spent + took, slices + 1
        await asyncio.sleep(0)
    rows, others = lags.result()
    total = sum(row.messages for row in rows) + (0 if others is None else others.messages)
    print(
        f"| {what} | {spent:.2f} s in {slices} slices | {longest * 1000:.1f} ms | {lags.visited:,} of {lags.passed:,}"
        f" | {total:,} |",
        flush=True,
    )


async def send(run: Trial, topics: range | list[int]) -> None:
    """A message to each of these topics."""
    for at, topic in enumerate(topics):
        run.store.log.append([Message(name(topic), b"x", b"", queue_id=0)], lambda _: None)
        if at % 100 == 99:
            await asyncio.sleep(0.001)
    await asyncio.sleep(1)


async def commit(run: Trial, groups: int, count: int, chance: random.Random) -> None:
    """Commit so many positions of random groups in random topics."""
    for at in range(count):
        group = f"group-{chance.randrange(groups):04d}"
        run.store.positions.commit(group, [(name(chance.randrange(run.queues)), 0, 1 + chance.randrange(2))], None)
        if at % 100 == 99:
            await asyncio.sleep(0.001)
    await asyncio.sleep(1)


async def trial(folder: Path, topics: int, groups: int, selector: WatchedSelector) -> None:
    """Make the positions, walk over them after each kind of change, and let the node walk while messages arrive."""
    run = Trial(folder, topics, selector)
    chance = random.Random(1)
    await run.create()
    await run.send()
    before = resident()
    fill(run, groups)
    count = topics * groups
    print(f"{(resident() - before) / count:.0f} B of memory for a position\n")
    print("| Walk | Processor time | Longest slice | Rows read | Lag |\n|---|---|---|---|---|")
    before = resident()
    await walk(run, "the first")
    remembered = (resident() - before) / count
    await walk(run, "nothing has changed")
    await send(run, range(topics))
    await walk(run, "a message in each topic")
    await walk(run, "nothing has changed")
    await send(run, range(topics))
    await walk(run, "a message in each topic")
    await commit(run, groups, 10_000, chance)
    await walk(run, "10,000 positions anywhere have changed")
    await walk(run, "nothing has changed")
    print(f"\n{remembered:.1f} B of memory for a position are for the walk")
    lags = Lags(run.store.outlook, run.node.clock)
    selector.reset()
    began, spent, oldest = time.monotonic(), time.thread_time(), 0.0
    lags.start()
    while time.monotonic() - began < WATCHED_S:
        await send(run, [chance.randrange(topics) for _ in range(1_000)])
        oldest = max(oldest, lags.age_s())
    cpu = time.thread_time() - spent
    lags.stop()
    longest, took = selector.longest_s * 1000, selector.longest_cpu_s * 1000
    print(
        f"\n{WATCHED_S} s with some 1,000 messages a second: at most {oldest:.1f} s old, longest turn {longest:.1f} ms,"
        f" most processor time of a turn {took:.1f} ms,"
        f" processor time of the whole process {cpu:.1f} s"
    )
