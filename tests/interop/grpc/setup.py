"""Set-up of tests with gRPC clients: topics and groups created as mqadmin creates them, and clients run in processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gateway.client.link import Link
from tests.interop.node import Node

UPDATE_AND_CREATE_TOPIC = 17
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
CLIENT_S = 150


def make_topic(node: Node, topic: str, kind: str) -> None:
    """Send the request of `mqadmin updateTopic -a +message.type=KIND`."""
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": f"+message.type={kind}",
        "force": "false",
    }  # fmt: skip
    ask(node, UPDATE_AND_CREATE_TOPIC, fields, b"")


def make_group(node: Node, group: str, orderly: bool) -> None:
    """Send the request of `mqadmin updateSubGroup -o true`."""
    body = {
        "groupName": group, "consumeEnable": True, "consumeMessageOrderly": orderly, "retryMaxTimes": 16, "retryQueueNums": 1,
    }  # fmt: skip
    ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())


def make_retries(node: Node, group: str, count: int) -> None:
    """Limit the retries of a group, a second each."""
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}
    body = {"groupName": group, "retryMaxTimes": count, "retryQueueNums": 1, "groupRetryPolicy": policy}
    ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())


def ask(node: Node, code: int, fields: dict[str, str], body: bytes) -> None:
    """Send one remoting request, which must succeed."""
    link = Link(f"127.0.0.1:{node.port('remoting')}", 10)
    try:
        (reply,) = link.ask([(code, fields, body)])
        assert reply.code == 0, reply.remark
    finally:
        link.close()


def python_client(node: Node, scenario: str, topic: str, group: str, folder: Path) -> dict[str, Any]:
    """Run one scenario of the official Python SDK."""
    script = Path(__file__).with_name("python_client.py")
    command = [sys.executable, str(script), f"127.0.0.1:{node.port('grpc')}", scenario, topic, group]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_S, cwd=folder, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{node.text()}"
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
