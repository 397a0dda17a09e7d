"""Webhooks to many sinks: deliveries for each second of the node's processor time, latency, and what one sink that hangs costs.

    python -m benchmarks.webhooks --sinks 1000 --rate 400 --seconds 20

Each sink has a topic and a subscription of its own. Messages are sent to all topics in turn; a delivery's latency is counted
from the send to the arrival at the sink. The second run has one sink that takes requests and never answers.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from benchmarks.process import cpu_s
from tests.interop.webhooks.api import hooked

HEAD = "| Sinks | Run | Deliveries/s | Node us a delivery | Deliveries a CPU second | p50 ms | p99 ms |\n" + "|---" * 7 + "|"
SETTLE_S = 5.0
AT_ONCE = 32


@dataclass
class Sinks:
    """All sinks, in one server.

    late_ms   (sink, latency) of each delivery
    hangs     the sink that does not answer; -1: none
    """

    late_ms: list[tuple[int, float]] = field(default_factory=list)
    hangs: int = -1

    async def take(self, request: web.Request) -> web.Response:
        """One delivery."""
        number = int(request.match_info["number"])
        body = await request.read()
        if number == self.hangs:
            await asyncio.sleep(3_600)
        self.late_ms.append((number, (time.time() - float(body)) * 1_000))
        return web.Response(status=204)


async def subscribe(session: aiohttp.ClientSession, url: str, sink: str, sinks: int) -> None:
    """A topic and a subscription for each sink."""
    ready = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        document = {
            "source": f"hook{number}", "sink": f"{sink}/{number}", "protocol": "HTTP",
            "config": {"verify": False, "timeout": "PT5S", "retry": 1},
        }  # fmt: skip
        async with ready, session.put(f"{url}/v1/topics/hook{number}", json={"queues": 1, "durability": "page"}) as made:
            assert made.status in (200, 201, 204), await made.text()
        async with ready, session.post(f"{url}/subscriptions", json=document) as made:
            assert made.status == 201, await made.text()

    await asyncio.gather(*(one(number) for number in range(sinks)))


async def send(session: aiohttp.ClientSession, url: str, sinks: int, rate: int, seconds: float) -> int:
    """So many messages a second, to all topics in turn. Returns how many."""
    ready = asyncio.Semaphore(256)
    begun = time.monotonic()

    async def one(number: int) -> None:
        async with (
            ready,
            session.post(f"{url}/v1/topics/hook{number % sinks}/messages", data=repr(time.time()).encode()) as answer,
        ):
            assert answer.status == 201, await answer.text()

    tasks: list[asyncio.Task[None]] = []
    while (now := time.monotonic() - begun) < seconds:
        while len(tasks) < now * rate:
            tasks.append(asyncio.create_task(one(len(tasks))))
        await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    return len(tasks)


def row(sinks: Sinks, count: int, run: str, used_s: float, seconds: float) -> str:
    """One line of the table, of the sinks that answer."""
    late = sorted(ms for number, ms in sinks.late_ms if number != sinks.hangs)
    p99 = late[int(0.99 * (len(late) - 1))]
    us = used_s * 1e6 / max(1, len(late))
    p50 = statistics.median(late)
    return f"| {count} | {run} | {len(late) / seconds:,.0f} | {us:.0f} | {1e6 / us:,.0f} | {p50:.1f} | {p99:.1f} |"


async def run(options: argparse.Namespace) -> None:
    """Both runs, on one node."""
    sinks = Sinks()
    application = web.Application()
    application.router.add_post("/{number}", sinks.take)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    with tempfile.TemporaryDirectory() as folder:
        node = hooked(Path(folder), "--durability", "page")
        node.start()
        try:
            url = f"http://127.0.0.1:{node.port('http')}"
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=256)) as session:
                await subscribe(session, url, f"http://127.0.0.1:{port}", options.sinks)
                await asyncio.sleep(SETTLE_S)
                print(HEAD, flush=True)
                for name, hangs in (("all answer", -1), ("one hangs", 0)):
                    sinks.late_ms.clear()
                    sinks.hangs = hangs
                    before = cpu_s(node.pid)
                    await send(session, url, options.sinks, options.rate, options.seconds)
                    await asyncio.sleep(SETTLE_S)
                    print(row(sinks, options.sinks, name, cpu_s(node.pid) - before, options.seconds), flush=True)
        finally:
            node.kill()
            await runner.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sinks", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=400, help="messages a second")
    parser.add_argument("--seconds", type=float, default=20)
    asyncio.run(run(parser.parse_args()))
