"""The Go SDK `rocketmq-clients/golang/v5` v5.1.3, unmodified, against a node: over TLS (its default) and in the clear."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.grpc.setup import make_group, make_retries, make_topic
from tests.interop.node import Node
from tests.interop.ordered_members import Members, judge, killed_in_between
from tests.interop.workshop import CLIENTS, go_program

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "go" / "grpc"
RUN_S = 150


@pytest.fixture(scope="module")
def client() -> Path:
    return go_program(PROJECT, "the gRPC SDK for Go")


def run(client: Path, scenario: str, port: int, topic: str, home: Path, tls: bool) -> None:
    """Run one scenario, which prints OK when it succeeds. Its group is named after the topic."""
    environment = {
        **os.environ, "HOME": str(home), "rocketmq.client.logRoot": str(home), "rocketmq.client.enableSsl": str(tls).lower(),
    }  # fmt: skip
    command = [str(client), scenario, f"127.0.0.1:{port}", topic, f"{topic}-group"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"OK {scenario}" in done.stdout


SCENARIOS = (
    ("simple", "NORMAL", True), ("simple", "NORMAL", False), ("push", "NORMAL", True), ("fifo", "FIFO", True),
    ("delay", "DELAY", True), ("transact", "TRANSACTION", True), ("sql", "NORMAL", False), ("dead", "NORMAL", False),
    ("spaces", "NORMAL", False), ("transact", "MIXED", False),
)  # fmt: skip
"""Scenario, the type of its topic, and whether over TLS."""


@dataclass(frozen=True)
class Told:
    """What the client printed.

    failures   scenario -> its error
    ordered    what the members of an orderly group received, and the number of the killed one
    """

    failures: dict[str, str]
    ordered: tuple[Members, int]


@pytest.fixture(scope="module")
def told(client: Path, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """All scenarios run at the same time, since most of their time is waiting."""
    failures: dict[str, str] = {}

    def play(scenario: str, kind: str, tls: bool) -> None:
        name = f"go-{scenario}-{'tls' if tls else 'clear'}"
        make_topic(node, name, kind)
        make_group(node, f"{name}-group", orderly=kind == "FIFO")
        if scenario == "dead":
            make_retries(node, f"{name}-group", 1)
        try:
            run(client, scenario, node.port("grpc"), name, tmp_path_factory.mktemp(name), tls)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failures[name] = str(error)

    make_topic(node, "go-ordered", "FIFO")
    make_group(node, "go-ordered-group", orderly=True)
    home = tmp_path_factory.mktemp("ordered")
    settings = (f"HOME={home}", f"rocketmq.client.logRoot={home}", "rocketmq.client.enableSsl=false")
    member = ["env", *settings, str(client), "ordered", f"127.0.0.1:{node.port('grpc')}", "go-ordered", "go-ordered-group"]
    with ThreadPoolExecutor(len(SCENARIOS) + 1) as pool:
        ordered = pool.submit(killed_in_between, member)
        for row in SCENARIOS:
            pool.submit(play, *row)
    return Told(failures, ordered.result())


@pytest.mark.parametrize(("scenario", "kind", "tls"), SCENARIOS)
def test_a_scenario_of_the_go_sdk(told: Told, scenario: str, kind: str, tls: bool) -> None:
    name = f"go-{scenario}-{'tls' if tls else 'clear'}"
    assert name not in told.failures, told.failures[name]


def test_order_per_key_holds_when_one_of_three_members_is_killed(told: Told) -> None:
    members, victim = told.ordered
    again = judge(members.seen(), victim)
    print(f"{len(members.seen(victim))} by the killed member, {again} again")
