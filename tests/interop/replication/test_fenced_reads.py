"""A real leader that stood still while another one was elected answers no older position, bound or latest value."""

from __future__ import annotations

import http.client
import os
import signal
import time
from pathlib import Path
from typing import Final

import pytest

from gateway.client.answer import ClientError
from gateway.client.link import Link
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.interop.controller.controllers import until
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post

pytestmark = pytest.mark.interop

TOPIC: Final = "fenced"
PATH: Final = f"/v1/latest/{TOPIC}/value"
POSITION: Final = (codes.QUERY_OFFSET, {"consumerGroup": "g", "topic": TOPIC, "queueId": "0"}, b"")
END: Final = (codes.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": "0"}, b"")
REFUSED: Final = "headgate_replica_fence_refused_total"
WAKE_S: Final = 0.3
"""Time for requests to arrive in the sockets of a process that stands still."""


def commit(link: Link, offset: int) -> None:
    """Store a position, and wait until it is confirmed."""
    fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": "0", "commitOffset": str(offset)}
    (reply,) = link.ask([(codes.UPDATE_OFFSET, fields, b"")])
    assert reply.code == 0, reply.remark


def number(reply: Frame) -> int:
    """The offset of an answer."""
    assert reply.code == 0, reply.remark
    return int((reply.fields() or {})["offset"])


class Latest:
    """One HTTP connection that sets and reads the latest value of a path."""

    def __init__(self, node: Node) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=20)

    def put(self, value: str) -> None:
        """Set the value, durably."""
        self._connection.request("POST", f"/v1/topics/{TOPIC}/value/messages", body=value, headers={"mq-retain": "true"})
        answer = self._connection.getresponse()
        assert answer.status == 201, answer.read()
        answer.read()

    def ask(self) -> None:
        """Send the question."""
        self._connection.request("GET", PATH)

    def take(self) -> tuple[int, str]:
        """(status, body) of its answer."""
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_leader_that_stood_still_answers_nothing_older(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        old = group.leader()
        for at in range(8):
            group.send(TOPIC, f"before {at}")
        first = Link(f"127.0.0.1:{old.port('remoting')}", 20)
        before = Latest(old)
        before.put("one")
        commit(first, 2)
        position, end = map(number, first.ask([POSITION, END]))
        before.ask()
        assert before.take() == (200, "one")
        assert position == 2
        assert old.pid is not None
        os.kill(old.pid, signal.SIGSTOP)
        try:
            other = next(node for node in group.nodes if node is not old)
            until(lambda: post(other, TOPIC, "after"), "the other replica leads")
            for at in range(20):
                group.send(TOPIC, f"later {at}")
            second = Link(f"127.0.0.1:{other.port('remoting')}", 20)
            commit(second, 5)
            Latest(other).put("two")
            newer, farther = map(number, second.ask([POSITION, END]))
            assert (newer, farther > end) == (5, True)
            waiting = first.post([POSITION, END])
            before.ask()
            time.sleep(WAKE_S)
        finally:
            os.kill(old.pid, signal.SIGCONT)
        try:
            answers = first.take(waiting)
        except (OSError, ClientError):
            answers = []  # its clients are sent away before they are answered
        assert [each.code for each in answers] in ([], [codes.SERVICE_NOT_AVAILABLE] * 2), [each.fields() for each in answers]
        try:
            status, value = before.take()
        except (OSError, http.client.HTTPException):
            status, value = 503, ""
        assert status == 503, value


def test_a_new_leader_answers_soon_and_takes_messages_before(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        old = group.leader()
        group.send(TOPIC, "first")
        link = Link(f"127.0.0.1:{old.port('remoting')}", 20)
        commit(link, 1)
        other = next(node for node in group.nodes if node is not old)
        group.kill(old)
        until(lambda: post(other, TOPIC, "after"), "the other replica leads")
        began = time.monotonic()
        link = Link(f"127.0.0.1:{other.port('remoting')}", 20)
        assert number(link.ask([POSITION])[0]) == 1
        assert time.monotonic() - began < 5, "it waits for the fence of the one before, not for others"
        page = other.admin("/metrics").splitlines()
        assert [line for line in page if line.startswith("headgate_replica_fence_refused")] in (
            [f"{REFUSED} 0"],
            [f"{REFUSED} 0.0"],
        )
