"""The official Python SDK against a running node. All scenarios run at once, since they mostly wait."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.interop.grpc.setup import make_group, make_retries, make_topic, python_client
from tests.interop.lite_setup import make_lite_group
from tests.interop.node import Node

pytestmark = pytest.mark.interop
ENGINES = {"simple": "NORMAL", "push": "NORMAL", "fifo": "FIFO"}
"""Scenario -> the type of its topic: scenarios that each HTTP/2 engine has to serve."""
SCENARIOS = {
    **ENGINES, "sql": "NORMAL", "delay": "DELAY", "spaces": "NORMAL", "priority": "PRIORITY", "dead": "NORMAL",
    "transaction": "TRANSACTION", "recall": "DELAY", "lite": "LITE",
}  # fmt: skip


class Played:
    """Scenarios that are played on a node at the same time."""

    def __init__(self, node: Node, scenarios: dict[str, str], folder: Path, pool: ThreadPoolExecutor) -> None:
        self.node = node
        for name, kind in scenarios.items():
            make_topic(node, name, kind)
            make_group(node, f"{name}-group", orderly=kind == "FIFO")
        if "dead" in scenarios:
            make_retries(node, "dead-group", 1)
            make_lite_group(node, "lite-group", "lite")
        self._runs: dict[str, Future[dict[str, Any]]] = {}
        for name in scenarios:
            (folder / name).mkdir()
            self._runs[name] = pool.submit(python_client, node, name, name, f"{name}-group", folder / name)

    def found(self, name: str) -> dict[str, Any]:
        """What a scenario printed."""
        return self._runs[name].result()


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """On a node as it is built here."""
    with Node(tmp_path_factory.mktemp("node")) as node, ThreadPoolExecutor(len(SCENARIOS)) as pool:
        yield Played(node, SCENARIOS, tmp_path_factory.mktemp("default"), pool)


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """On a node without compiled modules: the other HTTP/2 engine."""
    folder = tmp_path_factory.mktemp("pure")
    with Node(folder, environment={"HEADGATE_PURE": "1"}) as node, ThreadPoolExecutor(len(ENGINES)) as pool:
        yield Played(node, ENGINES, folder, pool)


@pytest.fixture(params=["default", "pure"])
def played(request: pytest.FixtureRequest) -> Played:
    found: Played = request.getfixturevalue(request.param)
    return found


def test_simple_consumer_receives_by_tag_acknowledges_and_gives_back(played: Played) -> None:
    found = played.found("simple")
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


def test_push_consumer_gets_a_failed_message_again(played: Played) -> None:
    attempts: dict[str, list[int]] = {}
    for message in played.found("push")["seen"]:
        attempts.setdefault(message["body"], []).append(message["attempt"])
    assert attempts.pop("body 3") == [1, 2]
    assert attempts == {f"body {at}": [1] for at in range(30) if at != 3}


def test_fifo_consumer_sees_each_group_in_order(played: Played) -> None:
    found = played.found("fifo")
    for group in range(3):
        bodies = [message["body"] for message in found["seen"] if message["group"] == f"group-{group}"]
        first = list(dict.fromkeys(bodies))
        assert first == [f"body {at}" for at in range(group, 30, 3)]


def test_simple_consumer_receives_by_sql_filter(default: Played) -> None:
    found = default.found("sql")
    assert sorted(message["body"] for message in found["seen"]) == ["body 19", *(f"body {at}" for at in range(5, 10))]
    assert found["rest"] == 0


def test_delayed_message_arrives_when_it_is_due(default: Played) -> None:
    found = default.found("delay")
    (message,) = found["seen"]
    assert message["id"] == found["sent"][0]
    assert 2 <= message["at"] - found["started"] <= 15


def test_namespaces_are_apart(default: Played) -> None:
    assert default.found("spaces") == {name: [f"{name}{at}" for at in range(3)] for name in ("", "shop", "yard")}


def test_the_highest_priority_comes_first(default: Played) -> None:
    assert default.found("priority") == {"seen": [[f"{each}", each] for each in (3, 3, 2, 1, 0, 0)]}


def test_a_message_that_always_fails_becomes_a_dead_letter(default: Played) -> None:
    assert default.found("dead") == {"attempts": [1, 2], "letters": ["poison"]}


def test_committed_messages_come_once_and_orphans_are_asked_about(default: Played) -> None:
    found = default.found("transaction")
    assert sorted(found["asked"]) == [f"orphan {at}" for at in range(20, 26)]
    wanted = sorted([*(f"commit {at}" for at in range(10)), *(f"orphan {at}" for at in (20, 22, 24))])
    assert sorted(message["body"] for message in found["seen"]) == wanted


def test_a_recalled_timer_never_comes(default: Played) -> None:
    found = default.found("recall")
    assert len(found["recalled"]) == 3
    assert sorted(message["body"] for message in found["seen"]) == ["timer 1", "timer 3", "timer 5"]


def test_two_lite_topics_of_three_come_each_in_order(default: Played) -> None:
    seen = default.found("lite")["seen"]
    for at, name in enumerate("ab"):
        assert [int(number) for lite, number in seen if lite == name] == list(range(at, 18, 3))
    assert len(seen) == 12


def test_what_was_acknowledged_to_the_sender_survives_a_kill(default: Played, tmp_path: Path) -> None:
    for name in SCENARIOS:
        default.found(name)
    make_topic(default.node, "kept", "NORMAL")
    sent = python_client(default.node, "send", "kept", "-", tmp_path)["sent"]
    default.node.kill()
    default.node.start()
    seen = python_client(default.node, "drain", "kept", "late-group", tmp_path)["seen"]
    assert sorted(message["id"] for message in seen) == sorted(sent)
