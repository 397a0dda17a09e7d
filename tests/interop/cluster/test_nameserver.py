"""Name servers apart from brokers, each a process of its own: ours alone, Apache's, several of them, and none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.client.answer import ClientError, UnknownTopicError
from gateway.client.client import Client
from tests.interop import certificates
from tests.interop.cluster.cluster import ROLES
from tests.interop.http_api import call
from tests.interop.node import Node, free_ports
from tests.interop.remoting.java import JavaClient
from tests.interop.remoting.test_go import PROJECT
from tests.interop.rocketmq.apache import JavaServer
from tests.interop.workshop import go_program
from tests.patience import until

pytestmark = pytest.mark.interop
SOON_S = 60
"""A node registers within a heartbeat interval of 30 s."""
CLIENT_S = 150


def nameserver(folder: Path, *options: str) -> Node:
    """A name server alone."""
    return Node(folder, ROLES, "nameserver", *options, verb="run")


def at(*nodes: Node) -> str:
    """The name servers' addresses, as clients write them."""
    return ";".join(f"127.0.0.1:{each.port('nameserver')}" for each in nodes)


def broker(folder: Path, nameservers: str, *options: str, verb: str = "up", **environment: str) -> Node:
    """A node that registers at name servers."""
    listed = ", ".join(f'"{each}"' for each in nameservers.split(";"))
    return Node(folder, *options, environment={"HEADGATE_REGISTRATION_NAMESERVERS": f"[{listed}]", **environment}, verb=verb)


def await_route(nameservers: str, topic: str) -> None:
    """Wait until a name server has a route of a topic."""

    def known() -> bool:
        try:
            with Client(nameservers, retry_s=0) as client:
                return bool(client.route(topic).queues)
        except ClientError:
            return False

    until(known, SOON_S)


def gone(nameservers: str, topic: str) -> bool:
    """True when a name server answers that there is no such topic."""
    with Client(nameservers, retry_s=0) as client:
        try:
            client.route(topic)
        except UnknownTopicError:
            return True
    return False


def test_a_node_is_found_through_a_name_server_alone_goes_on_without_it_and_leaves_it(tmp_path: Path) -> None:
    key = {"namespace": "n", "key": "k", "value": "v"}
    with nameserver(tmp_path / "ns") as names, broker(tmp_path / "node", at(names)) as node:
        await_route(at(names), "TBW102")
        with Client(at(node)) as direct:
            direct.send("orders", b"one")
        await_route(at(names), "orders")
        with Client(at(names)) as client:
            sent = client.send("orders", b"two")
            assert client.route("orders").addresses == {"broker-a": f"127.0.0.1:{node.port('remoting')}"}
            assert client.bounds([sent.queue])[sent.queue].after == sent.offset + 1
            figures = names.admin("/metrics")
            assert "headgate_nameserver_brokers 1.0" in figures
            assert "headgate_nameservers_registered 1.0" in node.admin("/metrics")
            (frame,) = client._connections.link(at(names)).ask([(100, key, b"")])
            assert frame.code == 0
            names.kill()
            for number in range(20):
                sent = client.send("orders", b"%d" % number)
                assert client.bounds([sent.queue])[sent.queue].after == sent.offset + 1
            names.start()
            await_route(at(names), "orders")
        until(lambda: node.text().count("headgate.registration: registered") == 2, SOON_S, lambda: "no route is back")
        assert node.text().count("headgate.registration: not registered") == 1
        with Client(at(names)) as client:
            (frame,) = client._connections.link(at(names)).ask([(101, key, b"")])
            assert (frame.fields() or {})["value"] == "v", "keys survive"
            (frame,) = client._connections.link(at(names)).ask([(310, {"a": "x"}, b"")])
            assert frame.code != 0
        assert node.stop() == 0
        assert gone(at(names), "orders"), "a stop is told before the node is gone"
        node.start()
        await_route(at(names), "orders")
        node.kill()
        until(lambda: gone(at(names), "orders"), SOON_S)


def test_a_node_registers_by_tls_with_an_access_key(tmp_path: Path) -> None:
    """At a name server with access control that takes TLS only. The key is read again for each connection."""
    certificate, private = certificates.write(tmp_path / "tls", 1)
    key = tmp_path / "key"
    key.write_text("node:wrong\n")
    secure = ("--certificate", str(certificate), "--key", str(private), "--tls-only", "--admin", "root:wonderland")
    environment = {"HEADGATE_REGISTRATION_ACCESS_KEY_FILE": str(key), "HEADGATE_REGISTRATION_CA": str(certificate)}
    with nameserver(tmp_path / "ns", *secure) as names, broker(tmp_path / "node", at(names), **environment) as node:
        until(lambda: "not registered at the name server" in node.text(), SOON_S)
        assert "it answers code 16" in node.text()
        key.write_text("root:wonderland\n")
        until(lambda: "headgate.registration: registered" in node.text(), SOON_S)
        assert "headgate_nameserver_brokers 1.0" in names.admin("/metrics")
    with broker(tmp_path / "plain", at(names)) as node:
        until(lambda: "not registered at the name server" in node.text(), SOON_S)


@pytest.fixture(scope="module")
def go() -> Path:
    return go_program(PROJECT, "rocketmq-client-go")


def scene(go: Path, scenario: str, nameservers: str, node: Node, folder: Path) -> str:
    """What the Go client says of a scenario."""
    command = [str(go), scenario, nameservers, f"Go{scenario}", f"127.0.0.1:{node.port('remoting')}"]
    home = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_S, check=False, env=home)
    return f"{done.returncode} {done.stdout[-4000:]}{done.stderr[-4000:]}"


def test_the_go_client_sends_and_receives_through_two_name_servers_one_of_which_dies(go: Path, tmp_path: Path) -> None:
    with (
        nameserver(tmp_path / "n1") as first,
        nameserver(tmp_path / "n2") as second,
        broker(tmp_path / "node", at(first, second)) as node,
    ):
        for each in (first, second):
            await_route(at(each), "TBW102")
        assert scene(go, "send", at(first), node, tmp_path).startswith("0 OK send")
        first.kill()
        assert scene(go, "push", at(second), node, tmp_path).startswith("0 OK push")
        first.start()
        await_route(at(first), "Gopush")


def test_the_java_client_finds_a_store_through_a_name_server_alone_and_a_gateway_serves_the_rest(
    java: JavaClient, tmp_path: Path
) -> None:
    """A process for each role: what the Java client sends is received at the gateway, and pulled by the Java client."""
    with nameserver(tmp_path / "ns") as names, broker(tmp_path / "store", at(names), ROLES, "store", verb="run") as store:
        gateway = Node(tmp_path / "gateway", ROLES, "gateway", "--store", f"127.0.0.1:{store.port('remoting')}", verb="run")
        with gateway:
            await_route(at(names), "TBW102")
            java.scenario("send", at(names))
            with Client(at(names)) as client:
                ends = client.bounds(list(client.route("Java-clients-send").queues))
                assert set(client.route("Java-clients-send").addresses.values()) == {f"127.0.0.1:{store.port('remoting')}"}
            count = sum(bound.after for bound in ends.values())
            assert count
            seen = 0
            while seen < count:
                path = "/v1/groups/by-http/topics/Java-clients-send:receive?max=32&wait_ms=20000&invisible_ms=60000&from=first"
                found = call(gateway, path)
                assert found
                seen += len(found["messages"])
            java.scenario("push", at(names))
            assert "headgate_nameserver_brokers 1.0" in names.admin("/metrics")


@contextmanager
def running(server: JavaServer) -> Iterator[None]:
    """A server of Apache, until the end of the block."""
    server.spawn()
    try:
        server.ready()
        yield
    finally:
        server.stop()


def test_a_node_registers_at_apaches_name_server(java: JavaClient, go: Path, tmp_path: Path) -> None:
    """Topics of several pages, changes, clients and tools, a name server that comes back, and the end."""
    apache = JavaServer("ns", tmp_path / "ns", free_ports()["nameserver"], "namesrv.NamesrvStartup", {})
    names = apache.address
    with broker(tmp_path / "node", names) as node, Client(at(node)) as direct:
        many = [f"topic-{number:04}" for number in range(1_200)]
        for name in many:
            direct.send(name, b"made")
        with running(apache):
            await_route(names, many[-1])
            with Client(names) as client:
                assert set(many) <= set(client.topics())
            until(lambda: "headgate.registration: registered" in node.text(), SOON_S)
            told = java.admin("clusterList", "-n", names)
            assert f"127.0.0.1:{node.port('remoting')}" in told, told
            told = java.admin("updateTopic", "-n", names, "-c", "DefaultCluster", "-t", "by-tool", "-r", "3", "-w", "3")
            assert "success" in told, told
            await_route(names, "by-tool")
            with Client(names) as client:
                assert len(client.route("by-tool").queues) == 3
            for scenario in ("send", "push"):
                assert scene(go, scenario, names, node, tmp_path).startswith(f"0 OK {scenario}")
        with running(apache):
            await_route(names, many[0])
            await_route(names, many[-1])
            assert node.stop() == 0
            until(lambda: gone(names, many[0]), SOON_S)
