"""Namespaces with unmodified clients: equal names in different namespaces are separate, over every protocol."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop
TOPIC = "Shared"
COUNT = 6
BODIES = {"0", "1", "2", "3", "4", "half"}
CLIENTS = (("v1", "shop"), ("v2", "yard"), ("none", "nowhere"))


@pytest.fixture(scope="module")
def seen(java: JavaClient, node: Node) -> dict[str, list[list[str]]]:
    """Lines of the clients of each kind, which run at the same time."""
    nameserver = f"127.0.0.1:{node.port('nameserver')}"

    def run(client: tuple[str, str]) -> list[list[str]]:
        done = java.run("Namespaced", *client, nameserver, TOPIC, str(COUNT))
        assert f"OK {client[0]}" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
        return [line.split("\t")[1:] for line in done.stdout.splitlines() if line.startswith("seen\t")]

    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        return dict(zip((name for name, _ in CLIENTS), pool.map(run, CLIENTS), strict=True))


@pytest.mark.parametrize(("version", "namespace"), CLIENTS)
def test_a_remoting_client_sees_what_was_sent_in_its_namespace(
    seen: dict[str, list[list[str]]], version: str, namespace: str
) -> None:
    assert {topic for topic, _ in seen[version]} == {TOPIC}
    assert sorted(body for _, body in seen[version]) == sorted(f"{namespace} {each}" for each in BODIES)


def test_tools_see_the_stored_names(java: JavaClient, node: Node, seen: dict[str, list[list[str]]]) -> None:
    text = java.admin("topicList", "-n", f"127.0.0.1:{node.port('nameserver')}")
    names = set(text.split())
    assert {"shop%Shared", "yard%Shared", "Shared", "%RETRY%shop%cg", "%RETRY%yard%cg", "%RETRY%cg"} <= names
    for group in ("shop%cg", "yard%cg", "cg"):
        said = java.admin("consumerProgress", "-g", group, "-n", f"127.0.0.1:{node.port('nameserver')}")
        assert "Consume Diff Total: 0" in said, said
