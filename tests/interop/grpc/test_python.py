"""The official Python SDK against a running node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc.setup import make_group, make_topic, python_client
from tests.interop.node import Node


@pytest.fixture(params=["", "1"], ids=["default", "pure"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """A node as it is built here, and one without compiled modules: the other HTTP/2 engine."""
    with Node(tmp_path, environment={"HEADGATE_PURE": request.param}) as running:
        yield running


def test_simple_consumer_receives_by_tag_acknowledges_and_gives_back(node: Node, tmp_path: Path) -> None:
    found = python_client(node, "simple", "orders", "simple-group", tmp_path)
    assert len(found["sent"]) == 20
    first = {message["body"]: message for message in found["first"]}
    assert sorted(first) == sorted(f"body {at}" for at in range(0, 20, 2))
    assert {message["id"] for message in found["first"]} <= set(found["sent"])
    one = first["body 4"]
    assert (one["tag"], one["keys"], one["place"], one["attempt"]) == ("even", ["key-4"], "Zürich", 1)
    (again,) = found["again"]
    assert again["id"] == found["first"][0]["id"]
    assert again["attempt"] == 2
    assert found["rest"] == 0


def test_simple_consumer_receives_by_sql_filter(node: Node, tmp_path: Path) -> None:
    found = python_client(node, "sql", "orders", "sql-group", tmp_path)
    assert sorted(message["body"] for message in found["seen"]) == ["body 19", *(f"body {at}" for at in range(5, 10))]
    assert found["rest"] == 0


def test_push_consumer_gets_a_failed_message_again(node: Node, tmp_path: Path) -> None:
    found = python_client(node, "push", "jobs", "push-group", tmp_path)
    attempts: dict[str, list[int]] = {}
    for message in found["seen"]:
        attempts.setdefault(message["body"], []).append(message["attempt"])
    assert attempts.pop("body 3") == [1, 2]
    assert attempts == {f"body {at}": [1] for at in range(30) if at != 3}


def test_fifo_consumer_sees_each_group_in_order(node: Node, tmp_path: Path) -> None:
    make_topic(node, "ledger", "FIFO")
    make_group(node, "fifo-group", orderly=True)
    found = python_client(node, "fifo", "ledger", "fifo-group", tmp_path)
    for group in range(3):
        bodies = [message["body"] for message in found["seen"] if message["group"] == f"group-{group}"]
        first = list(dict.fromkeys(bodies))
        assert first == [f"body {at}" for at in range(group, 30, 3)]


def test_delayed_message_arrives_when_it_is_due(node: Node, tmp_path: Path) -> None:
    make_topic(node, "reminders", "DELAY")
    found = python_client(node, "delay", "reminders", "delay-group", tmp_path)
    (message,) = found["seen"]
    assert message["id"] == found["sent"][0]
    assert 2 <= message["at"] - found["started"] <= 15


def test_what_was_acknowledged_to_the_sender_survives_a_kill(node: Node, tmp_path: Path) -> None:
    sent = python_client(node, "send", "ledger", "-", tmp_path)["sent"]
    node.kill()
    node.start()
    seen = python_client(node, "drain", "ledger", "late-group", tmp_path)["seen"]
    assert sorted(message["id"] for message in seen) == sorted(sent)
