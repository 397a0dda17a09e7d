"""What an idle MQTT connection costs: bytes of server memory for each.

    python -m benchmarks.connections real 19000      a node, and as many real connections; sources spread over 127.0.0.0/8
    python -m benchmarks.connections objects 100000  connections in this process, with transports of no cost: what is ours

Each sends CONNECT (keep-alive 60 s) and, with `--subscribe`, one filter of its own. `--persistent` keeps its session.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.servers import headgate

SOURCE_PORTS = 20_000
SETTLE_S = 12
"""Handshake timers are over by then."""


def resident(pid: int | str = "self") -> int:
    """Anonymous resident bytes of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def connect_packet(client_id: str, persistent: bool) -> bytes:
    body = text("MQTT") + bytes((4, 0 if persistent else 2, 0, 60)) + text(client_id)
    return bytes((0x10, len(body))) + body


def subscribe_packet(name: str) -> bytes:
    body = b"\x00\x01" + text(name) + b"\x01"
    return bytes((0x82, len(body))) + body


def real(count: int, subscribe: bool, persistent: bool) -> None:
    """A node as a process of its own."""
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
        after = resident(pid)
        each_bytes = (after - before) / count
        print(f"{count} connections in {took:.1f} s: {before >> 20} -> {after >> 20} MiB, {each_bytes:.0f} bytes each")
    finally:
        server.stop()


class Wire:
    """A transport of no cost."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (f"127.0.{self.number % 250}.1", 10_000 + self.number % 50_000)

    def write(self, data: bytes) -> None:
        pass

    def writelines(self, parts: Any) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


async def objects(count: int, subscribe: bool, persistent: bool) -> None:
    """In this process."""
    from gateway.composition import compose
    from gateway.config import Config
    from gateway.house import PumpHouse
    from gateway.observe.figures import Ledger
    from gateway.pump import Pump
    from gateway.runtime.clock import LoopClock
    from gateway.runtime.disk import DataDirectory
    from gateway.runtime.entropy import SystemEntropy
    from protocols.registry import Opening

    folder = Path(tempfile.mkdtemp(prefix="connections-"))
    config = Config(data=str(folder))
    clock = LoopClock(asyncio.get_running_loop())
    disk = DataDirectory(folder, asyncio.get_running_loop())
    parts = compose(config, {}, "127.0.0.1", disk, clock, SystemEntropy())
    await asyncio.sleep(1)
    house = PumpHouse(parts.gate, clock, Ledger(), count + 1)
    adapters = {"mqtt": parts.streams["mqtt"]}
    gc.collect()
    before = resident()
    pumps = []
    began = time.monotonic()
    for number in range(count):
        pump = Pump(house, "mqtt", lambda peer, now: Opening(adapters, None, peer, now), {"mqtt": "mqtt"})
        pump.connection_made(Wire(number))
        pump.data_received(connect_packet(f"device-{number:06}", persistent))
        if subscribe:
            pump.data_received(subscribe_packet(f"fleet/device-{number:06}/+"))
        pumps.append(pump)
        if number % 1000 == 999:
            await asyncio.sleep(0)
    took = time.monotonic() - began
    await asyncio.sleep(SETTLE_S)
    gc.collect()
    after = resident()
    each_bytes = (after - before) / count
    print(f"{count} connections in {took:.1f} s: {before >> 20} -> {after >> 20} MiB, {each_bytes:.0f} bytes each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("real", "objects"))
    parser.add_argument("count", type=int)
    parser.add_argument("--subscribe", action="store_true")
    parser.add_argument("--persistent", action="store_true")
    given = parser.parse_args()
    if given.kind == "real":
        real(given.count, given.subscribe, given.persistent)
    else:
        asyncio.run(objects(given.count, given.subscribe, given.persistent))
