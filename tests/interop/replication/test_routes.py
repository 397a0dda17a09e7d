"""Where clients find the leader of a store group: at its own name server port, at name servers apart, and at a gateway."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.client.answer import ClientError
from gateway.client.client import Client
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post, registering_at
from tests.patience import until

pytestmark = pytest.mark.interop
SOON_S = 60.0
POST = b"\x40\x02\x12\x34\xb2mq"
UNAVAILABLE = b"\x60\xa3\x12\x34\xd1\x01\x02"
"""5.03 with Max-Age 2."""
STREAMS = ("remoting", "nameserver", "grpc", "http", "mqtt", "mqtts", "websocket")


def leader_by(nameserver: Node, topic: str) -> str:
    """The address in the route that a name server tells; "": none."""
    try:
        with Client(f"127.0.0.1:{nameserver.port('nameserver')}", retry_s=0) as client:
            return client.route(topic).addresses.get("broker-a", "")
    except (ClientError, OSError):
        return ""


def address(node: Node) -> str:
    return f"127.0.0.1:{node.port('remoting')}"


def test_routes_name_the_leader_and_who_leads_next(tmp_path: Path) -> None:
    names = Node(tmp_path / "names", "--roles", "nameserver", verb="run")
    with names:
        settings = registering_at(names, tmp_path / "replica.toml")
        with StoreGroupNodes(tmp_path, 2, "--config", str(settings)) as group:
            group.await_members(1, 2)
            gateway = group.gateway(tmp_path / "gateway")
            old = group.leader()
            [follower] = [node for node in group.nodes if node is not old]
            group.send("orders", "makes the topic")
            until(lambda: leader_by(names, "orders") == address(old), SOON_S)
            assert leader_by(old, "orders") == address(old)
            assert leader_by(gateway, "orders") == address(gateway)
            refuses_clients(follower)

            group.kill(old)
            until(lambda: leader_by(names, "orders") == address(follower), SOON_S)
            assert leader_by(follower, "orders") == address(follower)
            until(lambda: post(gateway, "orders", "by the gateway"), SOON_S)
            assert leader_by(gateway, "orders") == address(gateway), "clients of a gateway stay there"

            group.start(old)
            group.await_members(1, 2)
            assert leader_by(names, "orders") == address(follower), "a follower takes no route"
            refuses_clients(old)


def refuses_clients(follower: Node) -> None:
    """Ports for clients are closed: connections are refused at once, and requests of CoAP get 5.03."""
    for name in STREAMS:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", follower.port(name)), 10).close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect(("127.0.0.1", follower.port("coap")))
        client.send(POST)
        assert client.recv(100) == UNAVAILABLE
