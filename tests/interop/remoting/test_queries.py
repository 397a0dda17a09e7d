"""Messages found by the Java client of RocketMQ 5.5.0, by mqadmin and over HTTP; the trace of a producer."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop
BINARY = ("-Drocketmq.serialize.type=ROCKETMQ",)


@pytest.fixture(scope="module")
def traced(java: JavaClient, node: Node) -> list[str]:
    """Unique id, offset id, queue and offset of a message that was sent with a trace."""
    return lookup(java, node, "Traced")


def lookup(java: JavaClient, node: Node, topic: str, options: tuple[str, ...] = ()) -> list[str]:
    done = java.run("Lookup", f"127.0.0.1:{node.port('nameserver')}", topic, options=options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    return line.split()[1:]


def admin(java: JavaClient, node: Node, *arguments: str) -> str:
    printed = java.admin(*arguments, "-n", f"127.0.0.1:{node.port('nameserver')}")
    assert "Exception" not in printed, printed
    return printed


def test_the_client_finds_by_key_by_unique_id_and_by_place(java: JavaClient, node: Node) -> None:
    lookup(java, node, "LookedUp", BINARY)


def test_mqadmin_prints_a_message_by_each_of_its_names(java: JavaClient, node: Node, traced: list[str]) -> None:
    unique, place, queue, offset = traced
    for arguments in (
        ("queryMsgById", "-i", place, "-t", "Traced"),
        ("queryMsgByUniqueKey", "-i", unique, "-t", "Traced"),
        ("queryMsgByOffset", "-t", "Traced", "-b", "broker-a", "-i", queue, "-o", offset),
    ):
        printed = admin(java, node, *arguments)
        assert "Keys:                [traced]" in printed
        assert f"UNIQ_KEY={unique}" in printed
    printed = admin(java, node, "queryMsgByKey", "-t", "Traced", "-k", "traced")
    assert unique in printed
    assert "no message" in java.admin(
        "queryMsgByKey", "-t", "Traced", "-k", "unknown", "-n", f"127.0.0.1:{node.port('nameserver')}"
    )


def test_a_trace_is_found_by_the_id_of_its_message(java: JavaClient, node: Node, traced: list[str]) -> None:
    printed = admin(java, node, "queryMsgTraceById", "-i", traced[0])
    assert "Pub" in printed
    assert "success" in printed


def test_keys_are_found_after_a_kill_and_over_http(java: JavaClient, node: Node, traced: list[str]) -> None:
    node.kill()
    node.start()
    assert f"UNIQ_KEY={traced[0]}" in admin(java, node, "queryMsgByUniqueKey", "-i", traced[0], "-t", "Traced")
    address = f"http://127.0.0.1:{node.port('http')}/v1/topics/Traced/messages"
    with urllib.request.urlopen(f"{address}?key=blue&max=1", timeout=5) as answer:
        assert [each["key"] for each in json.load(answer)["messages"]] == ["green blue"]
    with urllib.request.urlopen(f"{address}?id={traced[0]}&from=2020-01-01T00:00:00Z", timeout=5) as answer:
        assert [each["id"] for each in json.load(answer)["messages"]] == [traced[0]]
