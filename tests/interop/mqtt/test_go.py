"""Eclipse Paho for Go, unmodified, against a whole node: paho.mqtt.golang (MQTT 3.1.1) and paho.golang (MQTT 5.0)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.workshop import CLIENTS, go_program

pytestmark = pytest.mark.interop
PROJECT = CLIENTS / "go" / "paho"
RUN_S = 120


@pytest.fixture(scope="module")
def client() -> Path:
    return go_program(PROJECT, "Eclipse Paho Go")


@pytest.fixture(scope="module", params=["3", "5"])
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, client: Path, version: str) -> Iterator[Node]:
    """A node for each version: its scenarios have topics and sessions of their own."""
    with Node(tmp_path_factory.mktemp(f"node-{version}"), "--durability", "page") as running:
        yield running


@pytest.mark.parametrize("scenario", ["qos", "retained", "will", "session", "shared"])
def test_a_scenario_of_paho_go(client: Path, node: Node, version: str, scenario: str) -> None:
    command = [str(client), version, scenario, f"127.0.0.1:{node.port('mqtt')}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert f"OK {scenario}" in done.stdout


@pytest.mark.parametrize("qos", [1, 2])
def test_paho_go_reconnects_to_a_server_that_was_killed(client: Path, node: Node, version: str, qos: int) -> None:
    """Nothing confirmed is lost, and at QoS 2 nothing comes twice, over two kill -9 amid traffic."""
    command = [str(client), version, f"killed{qos}", f"127.0.0.1:{node.port('mqtt')}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for order in ("on", "on", "stop"):
                said = process.stdout.readline()
                assert said == "going\n", said + process.communicate(timeout=RUN_S)[1][-4000:]
                if order == "on":
                    node.kill()
                    node.start()
                process.stdin.write(f"{order}\n")
                process.stdin.flush()
            out, errors = process.communicate(timeout=RUN_S)
        finally:
            process.kill()
    assert process.returncode == 0, out + errors[-4000:]
    assert f"OK killed{qos}" in out
