"""Readers of one topic by server-sent events: memory for each, the cost of silence, and how soon a message is at all of them.

    python -m benchmarks.streams --readers 10000 --messages 20

Memory is the growth of the node's resident set (VmRSS) from no reader to all of them connected and waiting. A message's time
is from its send to its arrival at the last reader. The readers are one process on the same machine, and share its cores.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

from benchmarks.process import cpu_s, memory_kib
from tests.interop.node import Node

HEAD: Final = (
    "| Readers | Queues | KiB a reader | us a delivery | p50 ms to all | worst ms to all | CPU s for each s of silence |\n"
    + "|---" * 7
    + "|"
)
AT_ONCE: Final = 100
SILENCE_S: Final = 30.0


class Reader(asyncio.Protocol):
    """One EventSource."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(
            b"GET /v1/topics/crowd:consume?text=true HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )

    def data_received(self, data: bytes) -> None:
        """Count messages."""
        if not self.begun and b"retry:" in data:
            self.begun = True
            self.crowd.ready += 1
        self.crowd.arrived(data.count(b"\ndata: "))

    def connection_lost(self, exc: Exception | None) -> None:
        """No reader is lost in a run."""
        self.crowd.lost += 1


class Crowd:
    """All readers.

    ready    streams that have begun
    heard    deliveries of the present message
    """

    def __init__(self) -> None:
        self.ready = self.heard = self.lost = 0
        self.all_of = 0
        self.complete = asyncio.Event()

    def arrived(self, count: int) -> None:
        """Deliveries."""
        self.heard += count
        if count and self.heard >= self.all_of:
            self.complete.set()


def send(url: str, body: bytes) -> None:
    """One message."""
    request = urllib.request.Request(f"{url}/v1/topics/crowd/messages", data=body, headers={"Content-Type": "text/plain"})
    urllib.request.urlopen(request, timeout=60).close()


async def run(options: argparse.Namespace) -> None:
    """One node, one topic."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as folder:
        node = Node(Path(folder) / "node", "--durability", "page")
        node.start()
        try:
            url = f"http://127.0.0.1:{node.port('http')}"
            put = urllib.request.Request(f"{url}/v1/topics/crowd", data=b'{"queues": %d}' % options.queues, method="PUT")
            urllib.request.urlopen(put, timeout=60).close()
            await asyncio.to_thread(send, url, b"warm")
            crowd = Crowd()
            await asyncio.sleep(2)
            before = memory_kib(node.pid, "VmRSS")
            for at in range(0, options.readers, AT_ONCE):
                count = min(AT_ONCE, options.readers - at)
                made = [loop.create_connection(lambda: Reader(crowd), "127.0.0.1", node.port("http")) for _ in range(count)]
                await asyncio.gather(*made)
                while crowd.ready < at + count:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(3)
            each = (memory_kib(node.pid, "VmRSS") - before) / options.readers
            quiet = cpu_s(node.pid)
            await asyncio.sleep(SILENCE_S)
            quiet = (cpu_s(node.pid) - quiet) / SILENCE_S
            late: list[float] = []
            begun = cpu_s(node.pid)
            for number in range(options.messages):
                crowd.heard, crowd.all_of = 0, options.readers
                crowd.complete.clear()
                sent = time.monotonic()
                await asyncio.to_thread(send, url, b"x" * options.bytes + b"%d" % number)
                await asyncio.wait_for(crowd.complete.wait(), 120)
                late.append((time.monotonic() - sent) * 1_000)
            us = (cpu_s(node.pid) - begun) * 1e6 / (options.messages * options.readers)
            assert crowd.lost == 0, crowd.lost
            p50, worst = statistics.median(late), max(late)
            print(HEAD)
            print(f"| {options.readers:,} | {options.queues} | {each:.1f} | {us:.1f} | {p50:.0f} | {worst:.0f} | {quiet:.3f} |")
        finally:
            node.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readers", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--messages", type=int, default=20)
    parser.add_argument("--bytes", type=int, default=100)
    asyncio.run(run(parser.parse_args()))
