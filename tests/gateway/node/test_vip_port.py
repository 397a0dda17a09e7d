"""The port of the VIP channel: a second port of remoting, where old Java clients send (`brokerVIPChannel` of MixAll)."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.node.node import Node
from protocols.remoting import codes
from protocols.remoting.wire.frame import encode
from tests.gateway.node.running import served
from tests.interop.node import free_ports


def answered(port: int) -> bool:
    """Ask for the routes of the cluster's own topic by remoting."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(encode(codes.GET_ROUTE, 7, fields={"topic": "DefaultCluster"}))
        return b"brokerDatas" in client.recv(65_536)


def test_it_serves_what_the_port_of_remoting_serves(tmp_path: Path) -> None:
    remoting = free_ports()["remoting"]

    async def scene(node: Node) -> None:
        assert node.ports["vip"] == remoting - 2
        assert ("vip", f"127.0.0.1:{remoting - 2}", "RocketMQ remoting, VIP channel") in node.lines()
        assert await asyncio.to_thread(answered, remoting - 2)
        await node.stop()

    served(tmp_path, scene, **{"ports.remoting": remoting, "ports.vip": None})


def test_one_that_is_taken_is_left_out_unless_it_is_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    remoting = free_ports()["remoting"]

    async def scene(node: Node) -> None:
        assert "vip" not in node.ports
        await node.stop()

    with socket.socket() as other:
        other.bind(("127.0.0.1", remoting - 2))
        other.listen()
        with caplog.at_level(logging.WARNING):
            served(tmp_path, scene, **{"ports.remoting": remoting, "ports.vip": None})
        assert f"port vip is not opened, for clients that compute it from port remoting: port {remoting - 2}" in caplog.text
        with pytest.raises(ConfigError, match=r"\(vip\) is taken by another process"):
            served(tmp_path, scene, **{"ports.remoting": remoting, "ports.vip": remoting - 2})


def test_it_takes_no_port_that_another_listener_is_given(tmp_path: Path) -> None:
    remoting = free_ports()["remoting"]

    async def scene(node: Node) -> None:
        assert node.ports["grpc"] == remoting - 2
        assert "vip" not in node.ports
        await node.stop()

    served(tmp_path, scene, **{"ports.remoting": remoting, "ports.vip": None, "ports.grpc": remoting - 2})
