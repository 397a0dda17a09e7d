"""One message of the unmodified Java client in several lite queues of its topic, before and after a kill -9 of the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.message.record import Record
from gateway.brokers.pull_reply import split
from gateway.client.link import Link
from protocols.remoting import codes
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop
TOPIC = "Java-clients-several"


def test_a_message_is_in_every_lite_queue_that_its_producer_names(java: JavaClient, tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        java.scenario("several", f"127.0.0.1:{node.port('nameserver')}")
        for again in (False, True):
            if again:
                node.kill()
                node.restart()
            assert {name: bodies(node, name) for name in "abc"} == {"a": ["a,b"], "b": ["a,b", "b,c"], "c": ["b,c"]}


def bodies(node: Node, name: str) -> list[str]:
    """The messages of a lite queue."""
    fields = {
        "consumerGroup": "looker", "topic": f"%LMQ%${TOPIC}${name}", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32",
        "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    link = Link(f"127.0.0.1:{node.port('remoting')}", 10)
    try:
        (reply,) = link.ask([(codes.PULL, fields, b"")])
    finally:
        link.close()
    assert reply.code == 0, reply.remark
    return [Record(data).body.decode() for data in split(reply.body)]
