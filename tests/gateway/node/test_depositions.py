"""A replica that is deposed follows again in the same process: nothing of the life before is left."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from pathlib import Path

from gateway.node.composition import known
from gateway.node.config import Config, load
from gateway.node.node import Node
from gateway.node.protocols import installed
from gateway.node.remote.replica_role import ReplicaRole
from tests.interop.node import free_ports

LIVES = 100 if os.environ.get("SOAK") else 4


def config_of(folder: Path) -> Config:
    """A node that is the only controller, and the only replica of its group."""
    parts = known(installed())
    port = free_ports()["controller"]
    here = f"127.0.0.1:{port}"
    given = {
        "data": str(folder / "data"), "roles": "gateway,store,nameserver,controller",
        **{f"ports.{name}": 0 for name in parts.ports}, "ports.controller": port, "controller.peers": [here],
        "replication.controllers": [here],
    }  # fmt: skip
    return load(given, {}, parts)


def replica_of(node: Node) -> ReplicaRole:
    """The part that replicates."""
    role = node._parts["replica"].role
    assert isinstance(role, ReplicaRole)
    return role


def timers(loop: asyncio.AbstractEventLoop) -> list[str]:
    """What is scheduled in a loop."""
    scheduled = loop._scheduled  # type: ignore[attr-defined]
    return sorted(repr(each._callback)[:150] for each in scheduled if not each.cancelled())


def open_files() -> list[str]:
    """What this process has open below /work or /tmp."""
    found = []
    for each in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{each}"))
        except OSError:
            continue
    return found


def test_nothing_is_left_of_the_lives_before(tmp_path: Path) -> None:
    config = config_of(tmp_path)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        nodes: list[weakref.ref[Node]] = []
        facts: list[tuple[int, int, int, int]] = []
        for _ in range(LIVES):
            node = Node(config)
            await node.start()
            life = replica_of(node).replica
            assert life is not None
            life._end("another replica leads")
            await asyncio.wait_for(node.over.wait(), 10)
            await node.stop()
            nodes.append(weakref.ref(node))
            del node, life
            await asyncio.sleep(0.2)
            gc.collect()
            left = timers(loop)
            facts.append((sum(each() is not None for each in nodes), len(left), threading.active_count(), len(open_files())))
            print(facts[-1], *left, sep="\n   ")
        assert max(facts[1:]) <= max(facts[:2]), facts

    asyncio.run(run())


def test_a_level_that_may_be_lost_with_its_node_says_so(tmp_path: Path) -> None:
    parts = known(installed())
    zero = {**{f"ports.{name}": 0 for name in parts.ports}, "data": str(tmp_path / "data")}
    port = free_ports()["controller"]
    here = f"127.0.0.1:{port}"
    alone = {"roles": "gateway,store,nameserver,controller", "ports.controller": port, "controller.peers": [here]}

    async def said(given: dict[str, object]) -> str:
        node = Node(load({**zero, **given}, {}, parts))
        await node.start()
        found = dict(node.role.lines())["durability"]
        await node.stop()
        return found

    async def run() -> None:
        replica = {**alone, "replication.controllers": [here]}
        default = await said(replica)
        assert default.startswith("replicated+flushed: ")
        assert "lost with its node" not in default
        assert "may be lost with its node" in await said({**replica, "durability": "flushed"})
        assert "lost with its node" not in await said({"durability": "flushed"})

    asyncio.run(run())
