"""A replica that is deposed follows again in the same process: nothing of the life before is left."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from domain.store.store_event import StoreEvent, StoreEventKind
from gateway.node.node import Node
from gateway.node.part import Part
from gateway.node.roles.controller import ControllerRole
from gateway.node.roles.replica import ReplicaRole
from gateway.node.settings import Config
from gateway.observe.health import SERVING, Health
from gateway.runtime import process
from gateway.runtime.admin.server import AdminServer
from tests.gateway.node import running
from tests.interop.node import free_ports

LIVES = 100 if os.environ.get("SOAK") else 4


def config_of(folder: Path) -> Config:
    """A node that is the only controller, and the only replica of its group."""
    port = free_ports()["controller"]
    here = f"127.0.0.1:{port}"
    return running.config(
        folder / "data", roles="gateway,store,nameserver,controller",
        **{"ports.controller": port, "controller.peers": [here], "replication.controllers": [here]},
    )  # fmt: skip


def replica_of(node: Node) -> ReplicaRole:
    """The part that replicates."""
    role = node.parts["replica"].role
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


@pytest.mark.parametrize("goes_on", [True, False], ids=["the controller goes on", "the controller ends too"])
def test_nothing_is_left_of_the_lives_before(tmp_path: Path, goes_on: bool) -> None:
    config = config_of(tmp_path)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        nodes: list[weakref.ref[Node]] = []
        facts: list[tuple[int, int, int, int]] = []
        controller: Part | None = None
        admin: AdminServer | None = None
        for _ in range(LIVES):
            node = Node(config, controller=controller, admin=admin)
            await node.start()
            life = replica_of(node).replica
            assert life is not None
            life.end("another replica leads")
            await asyncio.wait_for(node.over.wait(), 10)
            await node.stop(goes_on)
            controller, admin = node.controller, node.admin if goes_on else None
            nodes.append(weakref.ref(node))
            del node, life
            await asyncio.sleep(0.2)
            gc.collect()
            left = timers(loop)
            facts.append((sum(each() is not None for each in nodes), len(left), threading.active_count(), len(open_files())))
            print(facts[-1], *left, sep="\n   ")
        most = tuple(map(max, *facts[:2]))
        assert all(each <= bound for fact in facts[2:] for each, bound in zip(fact, most, strict=True)), facts
        if controller is not None:
            await controller.stop()
        if admin is not None:
            await admin.close()

    asyncio.run(run())


def test_a_controller_goes_on_while_the_replica_beside_it_begins_anew(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    at = ("127.0.0.1", config.port("controller"))

    async def run() -> None:
        node = Node(config)
        await node.start()
        role = node.parts["controller"].role
        assert isinstance(role, ControllerRole)
        member = role.requests.member
        assert member is not None
        term, life = member.term, replica_of(node).replica
        assert life is not None
        with socket.create_connection(at, 5) as connected:
            life.end("another replica leads")
            await asyncio.wait_for(node.over.wait(), 10)
            await node.stop(goes_on=True)
            assert member.leads, "while nothing else of the process is there"
            socket.create_connection(at, 5).close()
            after = Node(node.next, kept=node.kept, controller=node.controller)
            await after.start()
            assert role.requests.member is member
            assert (member.leads, member.term) == (True, term)
            found = after.snapshot().counters
            assert (found["controller_leads"], found["replica_leads"]) == (1, 1)
            connected.setblocking(False)
            with pytest.raises(BlockingIOError):  # it is open, and nothing has come
                connected.recv(1)
        await after.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(at, 5)

    asyncio.run(run())


def test_the_process_hands_its_controller_from_life_to_life_and_ends_it_last(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    at = ("127.0.0.1", config.port("controller"))
    nodes: list[Node] = []
    members: list[object] = []

    def make(before: Node | None) -> Node:
        nodes.append(process._node(config, lambda: config, before, None))
        return nodes[-1]

    async def lives() -> None:
        for number in range(3):
            while len(nodes) <= number or nodes[number].health.phase != SERVING:
                await asyncio.sleep(0.02)
            role = nodes[number].parts["controller"].role
            assert isinstance(role, ControllerRole)
            members.append(role.requests.member)
            socket.create_connection(at, 5).close()
            if number < 2:
                life = replica_of(nodes[number]).replica
                assert life is not None
                life.end("another replica leads")
        os.kill(os.getpid(), signal.SIGTERM)

    async def run() -> None:
        lived = asyncio.ensure_future(lives())
        served = asyncio.ensure_future(process._serve(make, asyncio.get_running_loop(), ""))
        assert await asyncio.wait_for(served, 120) == 0
        await lived

    asyncio.run(run())
    assert len(members) == 3
    assert all(each is members[0] for each in members)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(at, 5)


def test_a_start_that_the_end_of_a_life_breaks_off_leaves_the_controller(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    elsewhere = replace(config, tables={**config.tables, "replication": {"controllers": ["127.0.0.1:1"]}})

    async def run() -> None:
        for is_over in (True, False):
            node = Node(elsewhere)  # it waits for controllers for ever
            starting = asyncio.ensure_future(node.start())
            while "replica" not in node.parts:
                await asyncio.sleep(0.02)
            controller = node.controller
            assert controller is not None
            if is_over:
                node.over.set()
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert node.controller is (controller if is_over else None), "it ends with a node that nobody follows"
            if node.controller is not None:
                await node.controller.stop()

    asyncio.run(run())


def test_a_fault_of_the_controller_is_one_of_the_process() -> None:
    health, beside = Health(time.monotonic_ns), Health(time.monotonic_ns)
    health.phase, health.beside = SERVING, (beside,)
    assert health.readiness()["ready"]
    beside.heard(StoreEvent(StoreEventKind.FULL, "a file", "no room", ""))
    assert health.reasons() == ["a file: no room"]


def test_a_level_that_may_be_lost_with_its_node_says_so(tmp_path: Path) -> None:
    port = free_ports()["controller"]
    here = f"127.0.0.1:{port}"
    alone = {"roles": "gateway,store,nameserver,controller", "ports.controller": port, "controller.peers": [here]}

    async def said(given: dict[str, object]) -> str:
        node = Node(running.config(tmp_path / "data", **given))
        await node.start()
        found = dict(node.own.role.lines())["durability"]
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
