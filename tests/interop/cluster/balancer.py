"""A balancer on loopback, as a process of its own: each TCP connection goes to the next gateway, each UDP peer stays at one.

    python -m tests.interop.cluster.balancer HOST TARGET,TARGET tcp:PORT udp:PORT ...

The gateways listen on other loopback addresses, on the same ports. A gateway that does not accept is passed over. Gateways see
the loopback address that a client connects from.
"""

from __future__ import annotations

import asyncio
import itertools
import resource
import sys
from typing import Final, cast

CHUNK: Final = 256 * 1024


class Balancer:
    """Forwards the ports of one address to those of others."""

    def __init__(self, host: str, targets: list[str]) -> None:
        self._host = host
        self._targets = targets
        self._next = itertools.count()

    async def open(self, kind: str, port: int) -> None:
        """Serve one port."""
        if kind == "tcp":
            await asyncio.start_server(lambda reader, writer: self._serve(reader, writer, port), self._host, port, backlog=1024)
        else:
            loop = asyncio.get_running_loop()
            await loop.create_datagram_endpoint(lambda: Datagrams(self, port), (self._host, port))

    def order(self) -> list[str]:
        """The gateways, the next one first."""
        at = next(self._next) % len(self._targets)
        return self._targets[at:] + self._targets[:at]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        peer = writer.get_extra_info("peername")[0]
        for target in self.order():
            try:
                far_reader, far_writer = await asyncio.open_connection(target, port, local_addr=(peer, 0))
            except OSError:
                continue
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
            return
        writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction; an end is passed on, an error resets."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


class Datagrams(asyncio.DatagramProtocol):
    """One UDP port: each peer has a socket of its own to its gateway."""

    def __init__(self, balancer: Balancer, port: int) -> None:
        self._balancer = balancer
        self._port = port
        self.transport: asyncio.DatagramTransport
        self._peers: dict[tuple[str, int], asyncio.Task[asyncio.DatagramTransport]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        task = self._peers.get(address)
        if task is None:
            task = self._peers[address] = asyncio.ensure_future(self._reached(address))
        task.add_done_callback(lambda done: done.result().sendto(data))

    async def _reached(self, address: tuple[str, int]) -> asyncio.DatagramTransport:
        target = self._balancer.order()[0]
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: Back(self, address), remote_addr=(target, self._port), local_addr=(address[0], 0)
        )
        return transport


class Back(asyncio.DatagramProtocol):
    """What a gateway answers to one peer."""

    def __init__(self, port: Datagrams, address: tuple[str, int]) -> None:
        self._port = port
        self._address = address

    def datagram_received(self, data: bytes, _address: tuple[str, int]) -> None:
        self._port.transport.sendto(data, self._address)


async def main(host: str, targets: str, *ports: str) -> None:
    """Forward until the process is ended."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    balancer = Balancer(host, targets.split(","))
    for port in ports:
        kind, _, number = port.partition(":")
        await balancer.open(kind, int(number))
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
