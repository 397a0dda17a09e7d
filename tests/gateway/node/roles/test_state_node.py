"""A gateway before a cluster whose state is at a state node: what it waits for, and whom it lets in."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.node.node import Node
from tests.gateway.node.running import config, served, until
from tests.interop.node import free_ports


def gateway(folder: Path, state: int, **options: object) -> Node:
    """A gateway before a cluster that is not there, with a state node at this port."""
    store = {"store.kind": "rocketmq", "store.nameservers": [f"127.0.0.1:{free_ports()['nameserver']}"]}
    where = {"store.state.address": f"127.0.0.1:{state}"}
    return Node(config(folder / "gateway", roles="gateway", **store, **where, **options))


def test_a_gateway_waits_for_its_state_node_and_then_for_the_cluster(tmp_path: Path) -> None:
    port = free_ports()["remoting"]

    async def run() -> None:
        waiting = gateway(tmp_path, port)
        starting = asyncio.get_running_loop().create_task(waiting.start())
        await until(lambda: waiting.health.waits.startswith(f"waits for the state node at 127.0.0.1:{port}: no connection"))
        state = Node(config(tmp_path / "state", roles="store", **{"ports.remoting": port}))
        await state.start()
        await until(lambda: waiting.health.waits.startswith("waits for the cluster at"))
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        await state.stop()

    asyncio.run(run())


def test_a_gateway_that_others_reach_needs_a_state_node_that_controls_access(tmp_path: Path) -> None:
    async def scene(state: Node) -> None:
        with pytest.raises(ConfigError, match="no access control"):
            await gateway(tmp_path, state.ports["remoting"], host="0.0.0.0").start()
        await state.stop()

    served(tmp_path, scene, roles="store")
