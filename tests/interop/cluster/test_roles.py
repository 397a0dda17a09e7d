"""Every subset of roles, as a process of its own, does what each of its roles does alone. `./test` runs those of two roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

import pytest

from gateway.client.client import Client
from tests.interop.cluster.cluster import ROLES
from tests.interop.cluster.test_nameserver import SOON_S, at, await_route
from tests.interop.http_api import call
from tests.interop.node import Node, free_ports
from tests.interop.warm import headgate
from tests.patience import until
from tests.store.faults.soak import SOAK

pytestmark = pytest.mark.interop
ALL = ("gateway", "store", "nameserver")
SUBSETS = [subset for count in (1, 2, 3) for subset in combinations(ALL, count) if SOAK or len(subset) == 2]
REGISTRATION = "HEADGATE_REGISTRATION_NAMESERVERS"


def other_store(folder: Path, broker: str, names: Node | None = None) -> Node:
    """A store alone, with another name, registered at a name server."""
    environment = {"HEADGATE_BROKER": broker}
    if names is not None:
        environment[REGISTRATION] = f'["{at(names)}"]'
    return Node(folder, ROLES, "store", environment=environment, verb="run")


@pytest.mark.parametrize("roles", SUBSETS, ids="-".join)
def test_a_process_does_what_each_of_its_roles_does_alone(roles: tuple[str, ...], tmp_path: Path) -> None:
    with ExitStack() as stack:
        options = [ROLES, ",".join(roles)]
        far = None
        if roles[0] == "gateway" and "store" not in roles:
            far = stack.enter_context(other_store(tmp_path / "far", "far"))
            options += ["--store", f"127.0.0.1:{far.port('remoting')}"]
        node = stack.enter_context(Node(tmp_path / "node", *options, verb="run"))
        if "store" in roles:
            with Client(f"127.0.0.1:{node.port('remoting')}") as client:
                sent = client.send("direct", b"x")
                assert client.bounds([sent.queue])[sent.queue].after == sent.offset + 1
        if "gateway" in roles:
            call(node, "/v1/topics/through/messages", b"hello")
            at_which = far or node
            with Client(f"127.0.0.1:{at_which.port('remoting')}") as client:
                ends = client.bounds(list(client.route("through").queues))
            assert sum(bound.after for bound in ends.values()) == 1
        if "nameserver" in roles:
            registered = stack.enter_context(other_store(tmp_path / "other", "other", node))
            with Client(f"127.0.0.1:{registered.port('remoting')}") as client:
                client.send("elsewhere", b"x")
            await_route(at(node), "elsewhere")
            with Client(at(node)) as client:
                assert client.route("elsewhere").addresses == {"other": f"127.0.0.1:{registered.port('remoting')}"}
                (frame,) = client._connections.link(at(node)).ask([(100, {"namespace": "n", "key": "k", "value": "v"}, b"")])
                assert frame.code == 0
            assert "headgate_nameserver_brokers 1.0" in node.admin("/metrics") or "store" in roles
        assert node.stop() == 0
        if "nameserver" in roles:
            node.start()
            with Client(at(node)) as client:
                (frame,) = client._connections.link(at(node)).ask([(101, {"namespace": "n", "key": "k"}, b"")])
                assert (frame.fields() or {})["value"] == "v"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[Node, int]]:
    """A gateway with a name server, whose store does not run, and the port that the store has to have."""
    port = free_ports()["remoting"]
    node = Node(tmp_path / "node", ROLES, "gateway,nameserver", "--store", f"127.0.0.1:{port}", verb="run")
    node.folder.mkdir()
    node.spawn()
    try:
        yield node, port
    finally:
        node.stop()


def test_a_name_server_beside_a_gateway_does_not_wait_for_the_gateways_store(waiting: tuple[Node, int], tmp_path: Path) -> None:
    node, port = waiting
    until(lambda: "waits for the store" in node.text(), SOON_S, node.text)
    with other_store(tmp_path / "other", "other", node) as other, Client(f"127.0.0.1:{other.port('remoting')}") as client:
        client.send("elsewhere", b"x")
        await_route(at(node), "elsewhere")
    environment = {REGISTRATION: f'["{at(node)}"]'}
    with Node(tmp_path / "store", ROLES, "store", "--port", f"remoting={port}", environment=environment, verb="run") as store:
        assert node.ready(), node.text()
        call(node, "/v1/topics/orders/messages", b"by the gateway")
        await_route(at(node), "orders")
        with Client(at(node)) as client:
            assert client.route("orders").addresses == {"broker-a": f"127.0.0.1:{port}"}
        figures = node.admin("/metrics")
        assert "headgate_nameserver_brokers 1.0" in figures
        assert "headgate_gateway_store_connected 1.0" in figures
        assert len(figures.splitlines()) == len(set(figures.splitlines()))
        assert store.stop() == 0
        until(lambda: "connection was" in node.text().rsplit("connected to the store", 1)[1], SOON_S)
        with Client(at(node)) as client:
            (frame,) = client._connections.link(at(node)).ask([(206, {}, b"")])
            assert frame.code == 0


def test_a_gateway_with_a_name_server_and_no_store_named_ends_with_one_line(tmp_path: Path) -> None:
    ports = [f"--port={name}={number}" for name, number in free_ports().items()]
    done = headgate("run", ROLES, "gateway,nameserver", "--data", str(tmp_path / "d"), *ports)
    assert done.returncode == 2
    assert "--store" in done.stderr
    assert "Traceback" not in done.stderr
