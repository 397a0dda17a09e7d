"""How long a disconnected session waits for its missed messages when its filter matches few of all messages.

    python -m benchmarks.resume 1000000

Two sessions have the filter `fleet/+/alarm`, which matches 10 of the messages. The first session is resumed while the filter
index of disconnected sessions is in memory; the second in a new process with the same files, before the log has been read
again. Durability `page`.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.inside import Node, Wire, connect_packet, subscribe_packet, two_parts
from domain.errors import Failure
from domain.message.message import LOCAL_HOST, Message, Placed

NEEDLES = 10
BATCH = 1_000
DEVICES = 5_000
LIMIT_S = 300


def message(number: int, every: int) -> Message:
    """Message `number`; one in `every` matches the sessions' filter."""
    rare = number % every == every // 2
    path = f"fleet/{number % DEVICES}/{'alarm' if rare else 'state'}"
    stored = f"TAGS\x01MQTT_COMMON\x02originMqttTopic\x01{path}\x02qosLevel\x011\x02".encode()
    return Message("fleet", b"needle" if rare else b"%0100d" % number, stored, born_host=LOCAL_HOST)


async def send(node: Node, messages: list[Message]) -> None:
    """Store the messages."""
    stored: asyncio.Future[list[Placed] | Failure] = asyncio.get_running_loop().create_future()
    node.parts.handler.sending.submit(messages, stored.set_result)
    outcome = await stored
    if isinstance(outcome, Failure):
        raise SystemExit(f"refused: {outcome}")


async def resume(node: Node, client_id: str) -> float:
    """Seconds from CONNECT to the last missed message."""
    wire = Wire(keeps=True)
    began = time.monotonic()
    pump = node.dial(wire, connect_packet(client_id, True))
    while wire.heard.count(b"needle") < NEEDLES:
        await asyncio.sleep(0.0005)
        if time.monotonic() > began + LIMIT_S:
            raise SystemExit(f"only {wire.heard.count(b'needle')} came within {LIMIT_S} s")
    took = time.monotonic() - began
    pump.connection_lost(None)
    await asyncio.sleep(0.3)
    return took


async def fill(folder: Path, count: int) -> list[tuple[str, str]]:
    """Disconnect two sessions, store messages, resume the first session."""
    node = Node(folder)
    await asyncio.sleep(0.5)
    await send(node, [message(0, count)])
    for client_id in ("first", "second"):
        pump = node.dial(Wire(), connect_packet(client_id, True) + subscribe_packet("fleet/+/alarm"))
        await asyncio.sleep(0.5)
        pump.connection_lost(None)
    await asyncio.sleep(0.5)
    began = time.monotonic()
    for first in range(0, count, BATCH):
        await send(node, [message(number, count // NEEDLES) for number in range(first, min(first + BATCH, count))])
    filled = time.monotonic() - began
    took = await resume(node, "first")
    await node.stop()
    return [
        ("store the messages", f"{filled:.1f} s, {count / filled:,.0f} a second"),
        ("return with a light queue", f"{took * 1e3:.1f} ms"),
    ]


async def restart(folder: Path, count: int) -> list[tuple[str, str]]:
    """Start a node and resume the second session at once: the node reads the log for it."""
    node = Node(folder)
    took = await resume(node, "second")
    await node.stop()
    return [("return to a node that has just started", f"{took * 1e3:.1f} ms")]


if __name__ == "__main__":
    two_parts("resume", "messages", 1_000_000, fill, restart, __doc__ or "")
