"""Where the listeners of a node are bound."""

from __future__ import annotations

from pathlib import Path

from gateway.node.node import Node
from tests.gateway.node.running import served


def test_the_admin_port_is_on_loopback_whatever_the_host_is(tmp_path: Path) -> None:
    found: list[str] = []

    async def scene(node: Node) -> None:
        assert node.admin is not None
        sockets = [node.admin.bound, *(listener.socket for listener in node.own.clients._streams)]
        found.extend(each.getsockname()[0] for each in sockets)
        await node.stop()

    served(tmp_path, scene, host="0.0.0.0", insecure=True)
    assert found[0] == "127.0.0.1"
    assert set(found[1:]) == {"0.0.0.0"}
