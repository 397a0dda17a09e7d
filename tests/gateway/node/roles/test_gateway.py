"""A gateway without a store: it waits for one, says so, and serves when it is there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from domain.errors import ConfigError
from domain.store.store_event import StoreEvent, StoreEventKind
from gateway.node.node import Node
from gateway.node.roles.gateway import GatewayRole
from gateway.node.roles.local_store import LocalStore
from gateway.node.settings import Config
from gateway.observe.health import SERVING, Health
from protocols.remoting import codes
from protocols.remoting.wire import frame
from tests.gateway.node.running import config, served, until
from tests.gateway.node.test_stop import PULL, answer, connected
from tests.interop.node import free_ports


def gateway_config(store: Node, folder: Path, **options: object) -> Config:
    """The configuration of a gateway before `store`."""
    where = f"127.0.0.1:{store.ports['remoting']}"
    return config(folder / "gateway", roles="gateway", **{"gateway.store": where}, **options)


def asked(port: int, path: str) -> tuple[int, dict[str, object]]:
    """Status and document of a GET on an admin port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def before(store: Node, folder: Path, scene: Callable[[Node], Awaitable[None]], **options: object) -> Awaitable[None]:
    """Run `scene` with a gateway before `store`, in this process too, and stop the gateway."""

    async def run() -> None:
        gateway = Node(gateway_config(store, folder, **options))
        await gateway.start()
        try:
            await scene(gateway)
        finally:
            await gateway.stop()

    return run()


def test_a_gateway_waits_for_its_store_and_says_for_whom(tmp_path: Path) -> None:
    port = free_ports()["remoting"]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        gateway = Node(config(tmp_path / "gateway", roles="gateway", **{"gateway.store": f"127.0.0.1:{port}"}))
        starting = loop.create_task(gateway.start())
        await until(lambda: gateway.health.waits)
        admin = gateway.ports["admin"]
        assert (await loop.run_in_executor(None, asked, admin, "/healthz"))[0] == 200
        status, document = await loop.run_in_executor(None, asked, admin, "/readyz")
        assert status == 503
        assert f"waits for the store at 127.0.0.1:{port}" in str(document["reasons"])
        client = socket.create_connection(("127.0.0.1", gateway.ports["mqtt"]))
        client.setblocking(False)
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(client, 1)
        client.close()
        store = Node(config(tmp_path / "store", roles="store", **{"ports.remoting": port}))
        await store.start()
        await asyncio.wait_for(starting, 60)
        socket.create_connection(("127.0.0.1", gateway.ports["mqtt"]), 5).close()
        assert (await loop.run_in_executor(None, asked, admin, "/readyz")) == (200, {"ready": True, "reasons": []})
        await store.stop()
        await until(lambda: gateway.health.waits)
        assert (await loop.run_in_executor(None, asked, admin, "/readyz"))[0] == 503
        await gateway.stop()

    asyncio.run(run())


def test_a_gateway_is_not_ready_while_its_store_takes_no_messages(tmp_path: Path) -> None:
    """Of whatever kind: the reasons are those of the store's own /readyz."""

    async def scene(store: Node) -> None:
        async def shown(gateway: Node) -> None:
            assert gateway.health.readiness()["ready"]
            store.health.heard(StoreEvent(StoreEventKind.FULL, "", "the disk is full"))
            await until(gateway.health.reasons)
            assert gateway.health.reasons() == [f"the store at 127.0.0.1:{store.ports['remoting']}: the disk is full"]
            store.health.heard(StoreEvent(StoreEventKind.RESUMED, "", "there is room"))
            await until(lambda: gateway.health.readiness()["ready"])

        await before(store, tmp_path, shown)
        await store.stop()

    served(tmp_path, scene, roles="store")


def test_a_lack_of_replicas_is_a_reason_where_new_topics_need_them(tmp_path: Path) -> None:
    async def run() -> None:
        for durability, ready in (("replicated+flushed", False), ("flushed", True)):
            place = config(tmp_path / durability, durability=durability, **{"replication.controllers": ["127.0.0.1:1"]})
            health = Health(lambda: 0)
            health.phase = SERVING
            local = LocalStore(place.data, health, place.durability)
            local.report(StoreEvent(StoreEventKind.SHORT, "", "the SyncStateSet has 1 of the 2 members"))
            assert health.readiness()["ready"] is ready
            local.disk.close()

    asyncio.run(run())


def test_a_gateway_that_waits_can_be_ended(tmp_path: Path) -> None:
    async def run() -> None:
        options = {"gateway.store": f"127.0.0.1:{free_ports()['remoting']}"}
        gateway = Node(config(tmp_path, roles="gateway", **options))
        starting = asyncio.get_running_loop().create_task(gateway.start())
        await until(lambda: gateway.health.waits)
        port = gateway.ports["mqtt"]
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        socket.create_server(("127.0.0.1", port)).close()

    asyncio.run(run())


def test_metrics_show_the_connection_to_the_store(tmp_path: Path) -> None:
    async def scene(store: Node) -> None:
        async def shown(gateway: Node) -> None:
            snapshot = gateway.snapshot()
            assert snapshot.counters["gateway_store_connected"] == 1
            assert snapshot.counters["gateway_store_attempts_total"] == 1
            assert not snapshot.store

        await before(store, tmp_path, shown)
        await store.stop()

    served(tmp_path, scene, roles="store")


def test_a_gateway_that_others_reach_needs_a_store_with_access_control(tmp_path: Path) -> None:
    async def scene(store: Node) -> None:
        async def nothing(_: Node) -> None: ...

        with pytest.raises(ConfigError, match="can be reached by others"):
            await before(store, tmp_path, nothing, host="0.0.0.0")
        await store.stop()

    served(tmp_path, scene, roles="store")


def test_an_access_key_of_a_super_user_opens_a_store_with_access_control(tmp_path: Path) -> None:
    key = tmp_path / "key"

    async def scene(store: Node) -> None:
        async def shown(gateway: Node) -> None:
            assert gateway.own.side.access is not None
            assert list(gateway.own.side.access.records.users) == ["gate"]

        key.write_text("gate:wrong word\n")
        starting = asyncio.ensure_future(before(store, tmp_path, shown, **{"gateway.access_key_file": str(key)}))
        await asyncio.sleep(0.2)
        assert not starting.done()
        key.write_text("gate:pass word\n")
        await starting
        await store.stop()

    served(tmp_path, scene, roles="store", admin="gate:pass word")


def test_what_waits_at_a_gateway_that_stops_is_told_to_go_elsewhere(tmp_path: Path) -> None:
    """A pull and a receive that wait are answered, and a message that comes then is another gateway's to deliver."""

    async def scene(store: Node) -> None:
        loop = asyncio.get_running_loop()
        told: list[bytes] = []

        async def waits(gateway: Node) -> None:
            puller, receiver = await connected(gateway, "remoting"), await connected(gateway, "http")
            await loop.sock_sendall(puller, frame.encode(codes.GET_ROUTE, 1, fields={"topic": "TBW102"}))
            await answer(puller)
            await loop.sock_sendall(
                puller, frame.encode(codes.PULL, 2, fields={**PULL, "topic": "BenchmarkTest", "queueOffset": "0"})
            )
            head = b"POST /v1/groups/g/topics/SELF_TEST_TOPIC:receive?wait_ms=30000 HTTP/1.1\r\nhost: localhost\r\n"
            await loop.sock_sendall(receiver, head + b"content-length: 0\r\n\r\n")
            await until(lambda: waiting(gateway) == 2)
            stopping = asyncio.ensure_future(gateway.stop())
            told.extend([await answer(puller), await answer(receiver)])
            await asyncio.wait_for(stopping, 30)
            puller.close()
            receiver.close()

        gateway = Node(gateway_config(store, tmp_path))
        await gateway.start()
        await waits(gateway)
        (pulled,) = frame.FrameDecoder().feed(told[0])
        assert (pulled.opaque, pulled.code) == (2, codes.SERVICE_NOT_AVAILABLE)
        assert told[1].startswith(b"HTTP/1.1 503"), told[1]
        await store.stop()

    served(tmp_path, scene, roles="store")


def waiting(gateway: Node) -> int:
    """Commands of clients that the store has got and not answered."""
    assert isinstance(gateway.own.role, GatewayRole)
    (forwarder,) = gateway.own.role._store.forwarders.each
    clients = [client for client in forwarder._numbered.values() if client.connection.protocol != "webhook"]
    return sum(len(client.tickets) for client in clients) if not forwarder.unanswered_bytes() else 0
