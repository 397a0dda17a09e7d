"""Memory of an idle MQTT connection: bytes in the server for each connection.

    python -m benchmarks.connections real 19000      a node and 19,000 TCP connections, from addresses of 127.0.0.0/8
    python -m benchmarks.connections objects 100000  connections in this process, without sockets

Each connection sends CONNECT (keep-alive 60 s) and, with `--subscribe`, one subscription with a filter of its own.
`--persistent` connects with a persistent session.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import tempfile
import time
from pathlib import Path

from benchmarks.inside import Node, Wire, connect_packet, resident, run, subscribe_packet, table
from benchmarks.servers import headgate

SOURCE_PORTS = 20_000
SETTLE_S = 12
"""Seconds before memory is measured; handshake timers have ended by then."""


def report(count: int, took: float, before: int, after: int) -> None:
    """Print the result."""
    each = (after - before) / count
    table([("connect", f"{took:.1f} s for {count}"), ("memory of a connection", f"{each:.0f} bytes")])


def real(count: int, subscribe: bool, persistent: bool) -> None:
    """Measure a node in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="connections-"))
    server = headgate(folder, "page")
    pid, port = server.processes[0].pid, server.ports["mqtt"]
    try:
        time.sleep(2)
        before = resident(pid)
        clients: list[socket.socket] = []
        began = time.monotonic()
        for number in range(count):
            client = socket.socket()
            client.bind((f"127.0.{number // SOURCE_PORTS}.{2 + number % 200}", 0))
            client.connect(("127.0.0.1", port))
            client.sendall(connect_packet(f"device-{number:06}", persistent))
            if subscribe:
                client.sendall(subscribe_packet(f"fleet/device-{number:06}/+"))
            clients.append(client)
            if number % 500 == 499:
                for each in clients[-500:]:
                    each.settimeout(30)
                    assert each.recv(4)[0] == 0x20
        took = time.monotonic() - began
        time.sleep(SETTLE_S)
        report(count, took, before, resident(pid))
    finally:
        server.stop()


async def objects(count: int, subscribe: bool, persistent: bool) -> None:
    """Measure connections in this process."""
    with tempfile.TemporaryDirectory(prefix="connections-") as folder:
        node = Node(Path(folder))
        await asyncio.sleep(1)
        before, began = resident(), time.monotonic()
        pumps = []
        for number in range(count):
            pumps.append(node.dial(Wire(number), connect_packet(f"device-{number:06}", persistent)))
            if subscribe:
                pumps[-1].data_received(subscribe_packet(f"fleet/device-{number:06}/+"))
            if number % 1000 == 999:
                await asyncio.sleep(0)
        took = time.monotonic() - began
        await asyncio.sleep(SETTLE_S)
        gc.collect()
        report(count, took, before, resident())
        await node.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("real", "objects"))
    parser.add_argument("count", type=int, help="connections")
    parser.add_argument("--subscribe", action="store_true", help="each has a filter of its own")
    parser.add_argument("--persistent", action="store_true", help="each keeps its session")
    given = parser.parse_args()
    if given.kind == "real":
        real(given.count, given.subscribe, given.persistent)
    else:
        run(objects(given.count, given.subscribe, given.persistent))
