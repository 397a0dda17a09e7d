"""Listeners of Python, Node and Go that work longer than a lease, members of Python and Node that are killed while their
orderly group consumes, and TLS for SDKs that do not use it by default. All run at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop import certificates
from tests.interop.grpc.setup import make_group, make_topic
from tests.interop.node import Node
from tests.interop.ordered_members import Members, judge, killed_in_between
from tests.interop.workshop import CLIENTS, go_program, node_scripts

pytestmark = pytest.mark.interop
HERE = Path(__file__).parent
RUN_S = 170
SCENES = ("python-slow", "python-tls", "node-slow", "node-tls", "go-slow")
ORDERED = ("python", "node")


@dataclass(frozen=True)
class Told:
    """What the clients printed, or why one was not run.

    runs      scene -> its process
    ordered   SDK -> what the members of an orderly group received, and the number of the killed one
    """

    runs: dict[str, Future[subprocess.CompletedProcess[str]] | str]
    ordered: dict[str, Future[tuple[Members, int]] | str]

    def of(self, scene: str) -> subprocess.CompletedProcess[str]:
        """The process of a scene, which must have succeeded."""
        run = self.runs[scene]
        if isinstance(run, str):
            pytest.skip(run)
        done = run.result()
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done

    def found(self, scene: str) -> dict[str, Any]:
        """The last line that a scene printed, as JSON."""
        seen: dict[str, Any] = json.loads(self.of(scene).stdout.splitlines()[-1])
        return seen


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = certificates.write(folder, 1)
    trusted = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate), "NODE_EXTRA_CA_CERTS": str(certificate)}

    def program(scene: str) -> list[str]:
        client, _, scenario = scene.partition("-")
        if client == "python":
            return [sys.executable, str(HERE / "python_client.py"), endpoint, scenario]
        if client == "node":
            return ["node", str(node_scripts(CLIENTS / "nodejs", "the gRPC SDK for Node") / "client.js"), scenario, endpoint]
        return [str(go_program(CLIENTS / "go" / "grpc", "the gRPC SDK for Go")), scenario, endpoint]

    def begin(pool: ThreadPoolExecutor, scene: str) -> Future[subprocess.CompletedProcess[str]] | str:
        home = tmp_path_factory.mktemp(scene)
        more = {"HOME": str(home), "rocketmq.client.logRoot": str(home), "rocketmq.client.enableSsl": "false"}
        try:
            command = [*program(scene), scene, f"{scene}-group"]
        except pytest.skip.Exception as absent:
            return str(absent)
        return pool.submit(
            subprocess.run, command, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=home,
            env={**os.environ, **trusted, **more},
        )  # fmt: skip

    def killed(pool: ThreadPoolExecutor, client: str) -> Future[tuple[Members, int]] | str:
        topic = f"{client}-ordered"
        make_topic(node, topic, "FIFO")
        make_group(node, f"{topic}-group", orderly=True)
        try:
            script = node_scripts(CLIENTS / "nodejs", "the gRPC SDK for Node") / "ordered.js" if client == "node" else Path()
        except pytest.skip.Exception as absent:
            return str(absent)
        python = [sys.executable, str(HERE / "python_client.py"), endpoint, "ordered"]
        command = ["node", str(script), endpoint] if client == "node" else python
        home = f"HOME={tmp_path_factory.mktemp(topic)}"
        return pool.submit(killed_in_between, ["env", home, *command, topic, f"{topic}-group"])

    pair = ("--certificate", str(certificate), "--key", str(key))
    with Node(tmp_path_factory.mktemp("node"), *pair) as node, ThreadPoolExecutor() as pool:
        endpoint = f"127.0.0.1:{node.port('grpc')}"
        for scene in SCENES:
            make_topic(node, scene, "NORMAL")
        ordered = {client: killed(pool, client) for client in ORDERED}
        yield Told({scene: begin(pool, scene) for scene in SCENES}, ordered)


@pytest.mark.parametrize("scene", ["python-slow", "node-slow"])
def test_a_message_stays_with_who_works_on_it_longer_than_its_lease(told: Told, scene: str) -> None:
    assert told.found(scene) == {"attempts": [1]}


def test_a_message_stays_with_a_go_listener_that_works_longer_than_its_lease(told: Told) -> None:
    assert "OK slow" in told.of("go-slow").stdout


@pytest.mark.parametrize("scene", ["python-tls", "node-tls"])
def test_an_sdk_that_is_told_to_uses_tls(told: Told, scene: str) -> None:
    assert told.found(scene) == {"seen": ["over TLS"]}


@pytest.mark.parametrize("client", ORDERED)
def test_order_per_key_holds_when_one_of_three_members_is_killed(told: Told, client: str) -> None:
    run = told.ordered[client]
    if isinstance(run, str):
        pytest.skip(run)
    members, victim = run.result()
    again = judge(members.seen(), victim)
    print(f"{client}: {len(members.seen(victim))} by the killed member, {again} again")
