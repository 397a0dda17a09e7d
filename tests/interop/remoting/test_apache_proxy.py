"""Apache's proxy 5.5.0 in CLUSTER mode, with a node as its name server and broker.

The Go and Java SDKs use the proxy over gRPC, the Java client over remoting.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.grpc.test_go import client, run
from tests.interop.lite_setup import LiteClient, make_lite_group
from tests.interop.node import Node
from tests.interop.remoting.java import build
from tests.interop.remoting.java import run as scenes
from tests.interop.rocketmq.proxy import ApacheProxy
from tests.interop.test_java_scenes import GRPC

pytestmark = pytest.mark.interop
CLIENT_S = 150

__all__ = ["client"]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, node: Node) -> Iterator[ApacheProxy]:
    """A running proxy."""
    with ApacheProxy(tmp_path_factory.mktemp("proxy"), f"127.0.0.1:{node.port('nameserver')}") as running:
        yield running


@pytest.mark.parametrize(
    ("scenario", "kind", "tls"),
    [("simple", "NORMAL", False), ("push", "NORMAL", True), ("fifo", "FIFO", True), ("delay", "DELAY", True),
     ("transact", "TRANSACTION", True)],
)  # fmt: skip
def test_a_grpc_client_of_the_proxy(
    client: Path, node: Node, proxy: ApacheProxy, scenario: str, kind: str, tls: bool, tmp_path: Path
) -> None:
    topic = f"proxied-{scenario}"
    make_topic(node, topic, kind)
    make_group(node, f"{topic}-group", orderly=kind == "FIFO")
    run(client, scenario, proxy.grpc, topic, tmp_path, tls)


def test_the_java_sdk_over_grpc_through_the_proxy(
    node: Node, proxy: ApacheProxy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Filters, timers and their recall, waiting receives, changed invisible times."""
    wanted = ("sql", "recall", "waiting")
    for scene in wanted:
        make_topic(node, f"JavaGrpc-{scene}", GRPC[scene])
        make_group(node, f"JavaGrpc-{scene}-group", orderly=False)
    command = compiled(tmp_path_factory.mktemp("grpc"))
    told = scenes([*command, "GrpcSuite", "features", f"127.0.0.1:{proxy.grpc}", *wanted])
    assert {name: text.split()[0] for name, text in told.items()} == dict.fromkeys(wanted, "OK"), told


@pytest.mark.parametrize(("scenario", "kind"), [("push", "NORMAL"), ("fifo", "FIFO")])
def test_push_consumers_of_the_java_sdk(
    node: Node, proxy: ApacheProxy, scenario: str, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Redelivery after a failure, without TLS; each message group in order, with TLS."""
    topic, transport = f"proxied-java-{scenario}", "tls" if kind == "FIFO" else "plain"
    make_topic(node, topic, kind)
    make_group(node, f"{topic}-group", orderly=kind == "FIFO")
    command = compiled(tmp_path_factory.mktemp("grpc"))
    seen = said(node, [*command, "GrpcClient", f"127.0.0.1:{proxy.grpc}", transport, scenario, topic, f"{topic}-group"])
    if kind == "FIFO":
        for group in range(3):
            found = [line[1] for line in seen if line[0] == "seen" and line[5] == f"group-{group}"]
            assert found == [f"body {at}" for at in range(group, 30, 3)]
    else:
        assert [int(line[2]) for line in seen if line[1] == "body 3"] == [1, 2]
        assert sorted(line[1] for line in seen if line[0] == "seen") == sorted([*(f"body {at}" for at in range(30)), "body 3"])


def test_transactions_of_the_java_sdk(node: Node, proxy: ApacheProxy, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commit, rollback, and undecided: the node checks with the proxy, which asks the producer."""
    make_topic(node, "proxied-java-orders", "TRANSACTION")
    make_group(node, "proxied-java-orders-group", orderly=False)
    command = compiled(tmp_path_factory.mktemp("grpc"))
    endpoint = f"127.0.0.1:{proxy.grpc}"
    lines = said(node, [*command, "GrpcTransaction", endpoint, "proxied-java-orders", "proxied-java-orders-group"])
    assert sorted(body for kind, body in lines if kind == "asked") == [f"orphan {at}" for at in range(20, 26)]
    wanted = sorted([*(f"commit {at}" for at in range(10)), *(f"orphan {at}" for at in (20, 22, 24))])
    assert sorted(body for kind, body in lines if kind == "seen") == wanted


def said(node: Node, command: list[str]) -> list[list[str]]:
    """The fields of the lines that a client printed."""
    done = subprocess.run(command, capture_output=True, timeout=CLIENT_S, check=False)
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, f"{output}\n{done.stderr.decode()[-4000:]}\n{node.text()[-2000:]}"
    return [line.split("\t") for line in output.splitlines() if "\t" in line]


def test_lite_topics_through_the_proxy(node: Node, proxy: ApacheProxy, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Messages in order and not, a redelivery, a takeover of a topic, too many topics, a group that is not bound."""
    for topic in ("lite-sessions", "lite-unbound"):
        make_topic(node, topic, "LITE")
    make_topic(node, "lite-ranked", "PRIORITY")
    make_group(node, "lite-ranked-group", orderly=False)
    make_lite_group(node, "lite-ordered", "lite-sessions")
    make_lite_group(node, "lite-own", "lite-sessions", lite_sub_model="Exclusive")
    make_lite_group(node, "lite-few", "lite-sessions", lite_sub_client_quota="3")
    make_group(node, "lite-nowhere", orderly=False)
    scenes = (
        "priority:lite-ranked:lite-ranked-group", "lite:lite-sessions:lite-ordered", "exclusive:lite-sessions:lite-own",
        "quota:lite-sessions:lite-few", "unbound:lite-unbound:lite-nowhere",
    )  # fmt: skip
    command = compiled(tmp_path_factory.mktemp("lite"))
    client = LiteClient(command, f"127.0.0.1:{proxy.grpc}", scenes, tmp_path_factory.mktemp("home"))
    try:
        client.wait_ready()
        client.go_on()
        seen = client.seen()
    finally:
        client.end()
    assert [line for line in seen["lite-ordered"] if line[0] == "done"] == [["done", "true", "a,b"], ["done", "true"]], seen
    bodies = [line[0] for line in seen["lite-ordered"] if len(line) == 4]
    assert [body for body in bodies if body[0] == "a"] == [f"a {at}" for at in range(11)]
    assert [body for body in bodies if body[0] == "b"] == [f"b {at}" for at in (0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9)]
    assert ["first", "0", "1"] in seen["lite-own"]
    assert [line for line in seen["lite-own"] if line[0] == "second"] == [["second", f"own {at}"] for at in range(5)]
    assert ["LiteSubscriptionQuotaExceededException", "3"] in seen["lite-few"]
    assert seen["lite-nowhere"][0][0].endswith("Exception"), seen
    ranked = [line[1] for line in seen["lite-ranked-group"] if line[0][:4] == "body"]
    assert "".join(ranked) == "333222111000"


def test_the_java_client_over_remoting_through_the_proxy(
    node: Node, proxy: ApacheProxy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """All kinds of sends, pulled from assigned queues; two members that share the queues, a retry, queues in order."""
    for scene in ("send", "push", "orderly"):
        make_topic(node, f"Java-proxied-{scene}", "NORMAL")
        make_group(node, f"cg-proxied-{scene}", orderly=scene == "orderly")
    address = f"127.0.0.1:{proxy.remoting}"
    told = build(tmp_path_factory.mktemp("java")).scenes("proxied", address, address)
    assert {name: text.split()[0] for name, text in told.items()} == dict.fromkeys(("send", "push", "orderly"), "OK"), told
