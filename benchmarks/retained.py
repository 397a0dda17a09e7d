"""Cost of retained values: memory, start of a node, and a filter that has to be compared with each path.

    python -m benchmarks.retained 1000000

Values have 100 bytes and the path `fleet/<device>/state`; one in a thousand has `fleet/<device>/x`, which the filter `+/+/x`
matches. The second part runs in a new process with the same files. Durability `page`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

from benchmarks.inside import Node, resident, two_parts
from domain.errors import Failure
from domain.message.message import LOCAL_HOST, RETAIN_SET, Message, Placed
from gateway.usecase.publish.latest import LatestScan

BATCH = 1_000
RARE = 1_000
SLICE = 2_048
"""Paths that a session compares with its filter before other work gets a turn."""


def value(number: int) -> Message:
    """The latest value of one device."""
    name = f"device-{number:07}"
    path = f"fleet/{name}/{'x' if number % RARE == 0 else 'state'}"
    stored = (
        f"TAGS\x01MQTT_COMMON\x02originMqttTopic\x01{path}\x02qosLevel\x011\x02mqttRetain\x01true\x02"
        f"HG_PROTOCOL\x01mqtt\x02HG_CLIENT\x01{name}\x02"
    )
    return Message("fleet", b"%0100d" % number, stored.encode(), born_host=LOCAL_HOST, retain=RETAIN_SET)


async def fill(folder: Path, count: int) -> list[tuple[str, str]]:
    """Store the values and measure their memory."""
    node = Node(folder)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0.5)
    before, began = resident(), time.monotonic()
    for first in range(0, count, BATCH):
        stored: asyncio.Future[list[Placed] | Failure] = loop.create_future()
        messages = [value(number) for number in range(first, min(first + BATCH, count))]
        node.parts.handler.sending.submit(messages, stored.set_result)
        outcome = await stored
        if isinstance(outcome, Failure):
            raise SystemExit(f"refused: {outcome}")
    took = time.monotonic() - began
    gc.collect()
    each = (resident() - before) / count
    await node.stop()
    return [
        ("store each of them", f"{took:.1f} s, {count / took:,.0f} a second"),
        ("memory of a value", f"{each:.0f} bytes"),
    ]


async def restart(folder: Path, count: int) -> list[tuple[str, str]]:
    """Start a node with the stored values and subscribe with the filter."""
    before, began = resident(), time.monotonic()
    node = Node(folder)
    ready = time.monotonic() - began
    await asyncio.sleep(1)
    gc.collect()
    each = (resident() - before) / count
    began, longest, found = time.monotonic(), 0.0, 0
    paths: list[list[str] | Failure] = []
    walk = LatestScan(node.parts.store.state, "+/+/x")
    while walk.next_key is not None:
        at = time.monotonic()
        walk.slice(SLICE, paths.append)
        found += len(paths[-1]) if isinstance(paths[-1], list) else 0
        longest = max(longest, time.monotonic() - at)
    took = time.monotonic() - began
    await node.stop()
    return [
        ("start until it serves", f"{ready:.2f} s"),
        ("memory of a value, started anew", f"{each:.0f} bytes"),
        (f"walk of +/+/x, {found} found", f"{took:.2f} s, the longest slice {longest * 1e3:.0f} ms"),
    ]


if __name__ == "__main__":
    two_parts("retained", "values", 1_000_000, fill, restart, __doc__ or "")
