"""Roles of a process: their names, and the ports that it opens for them."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.node.node import Node
from gateway.node.protocols import installed
from gateway.node.roles.role_names import ALL, APACHE, REPLICA, listeners_of, parts_of, role_behind, roles_of
from tests.gateway.node.running import served


def test_roles_are_a_list_with_commas() -> None:
    assert roles_of("store") == {"store"}
    assert roles_of(" gateway , nameserver,") == {"gateway", "nameserver"}


def test_one_role_is_behind_the_ports_of_a_process() -> None:
    assert role_behind(frozenset(ALL), False) == "store"
    assert role_behind(frozenset({"gateway", "nameserver"}), False) == "gateway"
    assert role_behind(frozenset({"nameserver"}), False) == "nameserver"
    assert role_behind(frozenset({"controller"}), False) == "controller"
    assert role_behind(frozenset({REPLICA}), False) == REPLICA
    assert role_behind(frozenset({"gateway"}), True) == APACHE


@pytest.mark.parametrize("text", ["", " , ", "broker", "gateway;store", "gateway,Store"])
def test_other_roles_are_refused_with_the_names_that_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match="gateway, store, nameserver"):
        roles_of(text)


def test_each_role_has_its_ports() -> None:
    known = installed().ports
    served = [name for name in known if name not in ("controller", "replication", "readers")]
    assert listeners_of(frozenset(ALL), known) == served
    assert listeners_of(frozenset({"gateway"}), known) == served
    assert sorted(listeners_of(frozenset({"controller"}), known)) == ["admin", "controller"]
    assert sorted(listeners_of(frozenset({"store"}), known)) == ["admin", "remoting", "vip"]
    assert sorted(listeners_of(frozenset({"nameserver"}), known)) == ["admin", "nameserver"]
    assert sorted(listeners_of(frozenset({"store", "nameserver"}), known)) == ["admin", "nameserver", "remoting", "vip"]


def test_roles_that_share_nothing_are_parts_of_their_own() -> None:
    assert parts_of(frozenset(ALL)) == []
    assert parts_of(frozenset({"controller"})) == []
    assert parts_of(frozenset({"gateway", "nameserver"})) == ["nameserver"]
    assert parts_of(frozenset({"nameserver", "controller"})) == ["controller"]
    assert parts_of(frozenset({*ALL, "controller"})) == ["controller"]
    assert parts_of(frozenset({"gateway", "nameserver", "controller"})) == ["controller", "nameserver"]


def test_a_store_alone_opens_its_own_port_and_that_for_administration(tmp_path: Path) -> None:
    async def scene(node: Node) -> None:
        assert sorted(node.ports) == ["admin", "remoting", "vip"]
        socket.create_connection(("127.0.0.1", node.ports["remoting"])).close()
        assert node.snapshot().store
        await asyncio.wait_for(node.stop(), 30)

    served(tmp_path, scene, roles="store")
