"""Cost of disconnected MQTT sessions with a pending will and a pending expiry: memory, and the start of a node.

    python -m benchmarks.sessions 100000

Each session is made by an MQTT 5 client with a filter of its own, a will delay of an hour, and a session expiry of a day.
The second part runs in a new process with the same files. Durability `page`.
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path

from benchmarks.inside import Node, Stalls, Wire, packet, resident, text, two_parts
from domain.errors import Failure
from gateway.usecase.sessions.snapshot import PARTS, SPACE

EXPIRY_S = 86_400
WILL_DELAY_S = 3_600
BATCH = 500
SETTLE_S = 12
"""Seconds before memory is measured; handshake timers have ended by then."""


def connect(number: int) -> bytes:
    """CONNECT of MQTT 5 with a will at QoS 1."""
    name = f"device-{number:06}"
    head = text("MQTT") + bytes((5, 0x0C, 0, 60)) + b"\x05\x11" + EXPIRY_S.to_bytes(4, "big")
    will = b"\x05\x18" + WILL_DELAY_S.to_bytes(4, "big") + text(f"fleet/{name}/gone") + text("lost")
    return packet(0x10, head + text(name) + will)


def subscribe(number: int) -> bytes:
    """SUBSCRIBE of MQTT 5."""
    return packet(0x82, b"\x00\x01\x00" + text(f"fleet/device-{number:06}/+") + b"\x01")


async def fill(folder: Path, count: int) -> list[tuple[str, str]]:
    """Make the sessions and measure their memory."""
    node = Node(folder)
    await asyncio.sleep(0.5)
    before, began = resident(), time.monotonic()
    for first in range(0, count, BATCH):
        pumps = []
        for number in range(first, min(first + BATCH, count)):
            pumps.append(node.dial(Wire(number), connect(number)))
            pumps[-1].data_received(subscribe(number))
        await asyncio.sleep(0.01)
        for pump in pumps:
            pump.connection_lost(None)
        await asyncio.sleep(0)
    took = time.monotonic() - began
    await asyncio.sleep(SETTLE_S)
    gc.collect()
    sizes: list[tuple[int, int] | Failure] = []
    for space in (SPACE, PARTS):
        node.parts.store.state.size(space, sizes.append)
    found = [each for each in sizes if not isinstance(each, Failure)]
    keys, size = sum(each[0] for each in found), sum(each[1] for each in found)
    each = (resident() - before) / count
    await node.stop()
    return [
        ("connect, subscribe and lose each of them", f"{took:.1f} s, {took / count * 1e6:.0f} us each"),
        ("state records of a session", f"{keys / count:.1f} keys, {size / count:.0f} bytes on record"),
        ("memory of a session that is away", f"{each:.0f} bytes"),
    ]


async def restart(folder: Path, count: int) -> list[tuple[str, str]]:
    """Start a node with the stored sessions; the client of the session that is recovered last connects at once."""
    before, began = resident(), time.monotonic()
    node = Node(folder)
    ready = time.monotonic() - began
    stalls = Stalls()
    wire = Wire(0, keeps=True)
    node.dial(wire, connect(count - 1))
    while not wire.heard:
        await asyncio.sleep(0.0005)
    first = time.monotonic() - began - ready
    present = wire.heard[2] == 1
    while node.parts.sessions.recovering:
        await asyncio.sleep(0.005)
    over = time.monotonic() - began - ready
    longest = stalls.end()
    await asyncio.sleep(1)
    gc.collect()
    each = (resident() - before) / count
    await node.stop()
    return [
        ("start until it serves", f"{ready:.2f} s"),
        ("the last session's client, who comes at once", f"{first * 1e3:.1f} ms, session {'kept' if present else 'LOST'}"),
        ("until all sessions have had their turn", f"{over:.2f} s"),
        ("longest time that others waited meanwhile", f"{longest * 1e3:.0f} ms"),
        ("memory of a session, started anew", f"{each:.0f} bytes"),
    ]


if __name__ == "__main__":
    two_parts("sessions", "sessions", 100_000, fill, restart, __doc__ or "")
