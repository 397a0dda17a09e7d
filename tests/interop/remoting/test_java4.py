"""The Java client of RocketMQ 4.9.8, unmodified, on a whole node: many scenarios at once.

With JSON headers, and with binary ones by the VIP channel.
"""

from __future__ import annotations

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import PROJECT, build, run

pytestmark = pytest.mark.interop
OLDER = PROJECT.parent / "remoting4"
SCENES = (
    "send", "pull", "subscribe", "retry", "orderly", "broadcast", "levels", "sql", "transaction", "request", "trace",
    "dead", "dead-orderly", "limit", "query", "reset", "spaces", "from-where", "running",
)  # fmt: skip


BINARY_BY_VIP = ("-Drocketmq.serialize.type=ROCKETMQ", "-Dcom.rocketmq.sendMessageWithVIPChannel=true")
"""The second property was the default of clients before 4.5.1: producers send to the port two below the broker's."""


@pytest.fixture(scope="module", params=[(), BINARY_BY_VIP], ids=["json", "binary-vip"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Scene -> "OK …", or "FAILED …" with its reason."""
    folder = tmp_path_factory.mktemp("java4")
    java = build(folder, OLDER)
    with Node(folder / "node") as node:
        return run([*java.command("Older", *request.param), "clients", f"127.0.0.1:{node.port('nameserver')}", "Older"])


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_of_a_4x_client(told: dict[str, str], scene: str) -> None:
    assert told.get(scene, "nothing was said").startswith("OK "), told.get(scene)
