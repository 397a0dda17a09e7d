"""Controllers that are parts of processes with other roles."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.client.link import Link
from gateway.node.node import Node
from protocols.remoting import codes
from tests.gateway.node.running import config, until
from tests.interop.node import free_ports

GET_CLUSTER_INFO = 106


async def asked(port: int, code: int) -> dict[str, str]:
    """The ext fields that a port answers with."""

    def ask() -> dict[str, str]:
        link = Link(f"127.0.0.1:{port}", 10)
        (frame,) = link.ask([(code, {"a": "b"}, b"")])
        link.close()
        return {"code": str(frame.code), **(frame.fields() or {})}

    return await asyncio.get_running_loop().run_in_executor(None, ask)


def leads(node: Node) -> bool:
    """True when the controller of this process leads."""
    return node.snapshot().counters["controller_leads"] == 1


@pytest.mark.parametrize("roles", ["nameserver,controller", "gateway,store,nameserver,controller"])
def test_three_processes_with_a_controller_each_elect_one_and_serve_their_other_roles(tmp_path: Path, roles: str) -> None:
    ports = [free_ports()["controller"] for _ in range(3)]
    peers = [f"127.0.0.1:{port}" for port in ports]

    async def start(number: int) -> Node:
        where = {"ports.controller": ports[number], "controller.peers": peers}
        node = Node(config(tmp_path / f"node-{number}", roles=roles, **where))
        await node.start()
        return node

    async def run() -> None:
        nodes = [await start(number) for number in range(3)]
        await until(lambda: sum(map(leads, nodes)) == 1)
        for node in nodes:
            assert node.ports["controller"] in ports
            assert (await asked(node.ports["controller"], codes.GET_CONTROLLER_METADATA))["group"] == "headgate"
            assert (await asked(node.ports["nameserver"], GET_CLUSTER_INFO))["code"] == "0"
            assert node.snapshot().store, "the figures of the store with messages or names"
            assert any(what == "controller group" for what, _ in node.details())
        first = next(node for node in nodes if leads(node))
        await first.stop()
        rest = [node for node in nodes if node is not first]
        await until(lambda: sum(map(leads, rest)) == 1)
        again = await start(nodes.index(first))
        await until(lambda: again.snapshot().counters["controller_in_group"] == 1)
        for node in (*rest, again):
            await node.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", ports[0]), 1)

    asyncio.run(run())


def test_a_process_whose_controller_cannot_start_frees_its_ports_and_data(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(ConfigError, match=r"controller\.peers is empty"):
            await Node(config(tmp_path / "data", roles="nameserver,controller")).start()
        node = Node(config(tmp_path / "data", roles="nameserver"))
        await node.start()
        await node.stop()

    asyncio.run(run())
