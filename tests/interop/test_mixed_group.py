"""RocketMQ clients that pull and a receiver over HTTP are members of one group and share the messages of a topic."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.http_api import acknowledge, body_of, call, receive
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient
from tests.interop.remoting.test_go import client
from tests.patience import until

__all__ = ["client"]
pytestmark = pytest.mark.interop
COUNT = 400


@pytest.fixture
def node(tmp_path: Path, client: Path) -> Iterator[Node]:
    with Node(tmp_path / "node", "--durability", "page") as running:
        yield running


class Receiver(threading.Thread):
    """Receives a few messages at a time and acknowledges each."""

    def __init__(self, node: Node, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._node, self._group, self._topic = node, group, topic
        self.over = False
        self.got: list[str] = []

    def run(self) -> None:
        while not self.over:
            for message in receive(self._node, self._group, self._topic, 4):
                self.got.append(body_of(message).decode())
                time.sleep(0.005)
                acknowledge(self._node, self._group, self._topic, [message["receipt"]])


def lag(node: Node, group: str) -> str:
    start = f'headgate_group_lag{{group="{group}",topic="Mixed"}}'
    return next((line for line in node.admin("/metrics").split("\n") if line.startswith(start)), "")


def test_a_push_consumer_and_a_receiver_share_a_group(client: Path, node: Node, tmp_path: Path) -> None:
    for number in range(20):
        call(node, "/v1/topics/Mixed/messages", f"early{number}".encode())
    arguments = [
        str(client), "mixed", f"127.0.0.1:{node.port('nameserver')}", "Mixed", f"127.0.0.1:{node.port('remoting')}",
    ]  # fmt: skip
    pushed: list[str] = []
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        lines = process.stdout
        said = (line.split()[1] for line in lines if line.startswith("got "))
        reader = threading.Thread(target=lambda: pushed.extend(said), daemon=True)
        reader.start()
        try:
            until(lambda: len(pushed) > 0, 60)
            receiver = Receiver(node, "cg_Mixed", "Mixed")
            receiver.start()
            for number in range(COUNT):
                call(node, "/v1/topics/Mixed/messages", str(number).encode())
            wanted = {f"early{number}" for number in range(20)} | {str(number) for number in range(COUNT)}
            until(lambda: wanted <= {*pushed, *receiver.got}, 60)
            until(lambda: lag(node, "cg_Mixed").endswith(" 0.0"), 40)
            receiver.over = True
            receiver.join(10)
            process.stdin.write("\n")
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()
            reader.join(10)
    assert [body for body, times in Counter(pushed + receiver.got).items() if times > 1] == []
    assert set(pushed) - {f"early{number}" for number in range(20)}, "the push consumer had its share"
    assert receiver.got, "and so had the receiver"


def test_a_lite_pull_consumer_gets_what_a_receiver_leaves_behind_it(java: JavaClient, node: Node, tmp_path: Path) -> None:
    """A receiver leases some messages and leaves; the consumer has passed their offsets when the leases end."""
    command = [*java.command("MixedLite"), f"127.0.0.1:{node.port('nameserver')}", "Mixed", "cg_Mixed"]
    wanted = [f"m{number}" for number in range(20)]
    for body in wanted:
        call(node, "/v1/topics/Mixed/messages", body.encode())
    pulled: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said = (line.split()[1] for line in process.stdout if line.startswith("got "))
        reader = threading.Thread(target=lambda: pulled.extend(said), daemon=True)
        reader.start()
        try:
            until(lambda: set(wanted) <= set(pulled), 60)
            taken: list[str] = []
            # While the consumer is paused, its waiting pull takes one answer at most: later messages are the receiver's.
            process.send_signal(signal.SIGSTOP)
            while len(taken) < 4:
                wanted.append(f"m{len(wanted)}")
                assert len(wanted) < 100
                call(node, "/v1/topics/Mixed/messages", wanted[-1].encode())
                taken += [body_of(each).decode() for each in receive(node, "cg_Mixed", "Mixed", 4, 0, 20_000)]
            process.send_signal(signal.SIGCONT)
            for number in range(len(wanted), 60):
                wanted.append(f"m{number}")
                call(node, "/v1/topics/Mixed/messages", wanted[-1].encode())
            until(lambda: set(wanted) - set(taken) <= set(pulled), 60)
            until(lambda: set(wanted) <= set(pulled), 60)
            for number in range(24):
                call(node, "/v1/topics/Mixed/messages", f"last{number}".encode())
            until(lambda: lag(node, "cg_Mixed").endswith(" 0.0"), 60)
            process.stdin.write("\n")
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()
            reader.join(10)
