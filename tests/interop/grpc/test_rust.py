"""The official Rust SDK `rocketmq` 5.0.0, unmodified, against a node, without TLS, which it does not support.

It has no push consumer, no recall, no priority, no namespace that can be set, and no call that changes the invisible time of
a message it has.
"""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.grpc.setup import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask, make_group, make_topic
from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, rust_program

pytestmark = pytest.mark.interop
RUN_S = 150
SCENES = {
    "fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION", "sql": "NORMAL", "invisible": "NORMAL", "dead": "NORMAL",
}  # fmt: skip
"""Scene -> the type of its topic."""


class Told(NamedTuple):
    """The fields of all lines that the client printed: of its simple consumer, and of its scenes."""

    simple: list[list[str]]
    scenes: list[list[str]]


@pytest.fixture(scope="module")
def client() -> Path:
    return rust_program(CLIENTS / "rust", "the gRPC SDK for Rust")


@pytest.fixture(scope="module")
def told(client: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """All scenes run at once, since they mostly wait."""
    folder = tmp_path_factory.mktemp("rust")
    with Node(folder) as node:
        for scene, kind in SCENES.items():
            make_topic(node, f"rust-{scene}", kind)
            make_group(node, f"rust-{scene}-group", orderly=kind == "FIFO")
        body = {"groupName": "rust-dead-group", "retryMaxTimes": 1, "retryQueueNums": 1}
        ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())
        make_topic(node, "crates", "NORMAL")

        def run(*arguments: str) -> list[list[str]]:
            command = [str(client), f"127.0.0.1:{node.port('grpc')}", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=folder)
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:] + node.text()[-2000:]
            return [line.split("\t") for line in done.stdout.splitlines()]

        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(run, "crates", "rust-group"), pool.submit(run)]
        return Told(*(each.result() for each in runs))


def seen(told: Told, scene: str) -> list[list[str]]:
    """Body, message group, attempt and time of each message of a scene."""
    return [line[1:] for line in told.scenes if line[0] == f"rust-{scene}"]


def test_simple_consumer_receives_by_tag_what_the_producer_sent(told: Told) -> None:
    ids = [line[1] for line in told.simple if line[0] == "sent"]
    seen = sorted(line[1:] for line in told.simple if line[0] == "seen")
    assert seen == sorted([f"body {at}", "even", f"key-{at}", "Zürich", ids[at]] for at in range(0, 20, 2))


def test_each_message_group_is_in_order(told: Told) -> None:
    for group in range(3):
        bodies = [line[0] for line in seen(told, "fifo") if line[1] == f"group-{group}"]
        assert bodies == [f"body {at}" for at in range(group, 18, 3)]


def test_a_delayed_message_comes_once_and_not_early(told: Told) -> None:
    ((_, due),) = [line for line in told.scenes if line[0] == "due"]
    lines = seen(told, "delay")
    assert sorted(line[0] for line in lines) == ["body 0", "body 1", "body 2"]
    assert all(int(line[3]) >= int(due) * 1000 for line in lines)


def test_transactions_are_decided_or_asked_about(told: Told) -> None:
    assert sorted(line[1] for line in told.scenes if line[0] == "asked") == ["body 4", "body 5"]
    assert sorted(line[0] for line in seen(told, "transaction")) == ["body 0", "body 1", "body 4"]


def test_a_sql_filter_selects(told: Told) -> None:
    assert sorted(line[0] for line in seen(told, "sql")) == ["body 4", "body 5", "body 6"]


def test_what_is_not_acknowledged_comes_again_after_its_invisible_time(told: Told) -> None:
    first, second = seen(told, "invisible")
    assert (first[0], first[2], second[0], second[2]) == ("body 0", "1", "body 0", "2")
    assert int(second[3]) - int(first[3]) > 9_000


def test_what_is_never_acknowledged_becomes_a_dead_letter(told: Told) -> None:
    assert [(line[0], line[2]) for line in seen(told, "dead")] == [("body 0", "1"), ("body 0", "2")]
    letters = [line[1] for line in told.scenes if line[0] == "%DLQ%rust-dead-group"]
    assert letters == ["body 0"]
