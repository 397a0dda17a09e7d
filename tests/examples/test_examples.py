"""Every example runs against a real node and prints what it should."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.weather import check
from examples.weather.reading import SEATTLE, readings
from tests.gateway.connectors.spark.session import SLOW_WORKER
from tests.interop.node import ROOT, Node
from tests.interop.workshop import java_classpath
from tests.store.faults.soak import SOAK

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("node")) as node:
        yield node


def run(*command: str) -> str:
    while True:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode and SLOW_WORKER in done.stderr:
            continue
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.parametrize(
    ("name", "port", "says"),
    [
        ("mqtt_sensor", "mqtt", ["home/kitchen/temperature: 21.5"]),
        ("coap_sensor", "coap", ["GET 61", "observed 64"]),
        ("cloudevents_door", "http", ["binary: 20", "structured: 20"]),
        ("rocketmq_orders", "grpc", ["received one bicycle"]),
        ("remoting_ledger", "nameserver", ["read 42.00 EUR"]),
    ],
)
def test_an_example_runs_as_a_module_and_as_a_file(node: Node, name: str, port: str, says: list[str]) -> None:
    for way in (["-m", f"examples.{name}"], [f"examples/{name}.py"]):
        said = run(sys.executable, *way, f"127.0.0.1:{node.port(port)}")
        for line in says:
            assert line in said


def test_the_shell_example_runs(node: Node) -> None:
    said = run("bash", "examples/http_shop.sh", f"127.0.0.1:{node.port('http')}")
    assert "dHdvIGJpY3ljbGVz" in said


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    names = [
        path.name
        for path in (ROOT / "examples").iterdir()
        if path.suffix in (".py", ".sh") and path.stem not in ("__init__", "ports")
    ]
    assert len(names) == 6  # examples/webhooks has a test of its own
    assert all(name.removesuffix(".py") in here for name in names)


def test_the_weather_example_is_right_about_its_own_table() -> None:
    said = run(sys.executable, "-m", "examples.weather", "--readings", "300")
    assert "300 readings in, every count and sum in the table is right" in said


def test_the_cluster_example_outlives_a_gateway() -> None:
    said = run(sys.executable, "-m", "examples.cluster")
    assert "published at gateway 1, received at gateway 2: hall/telephone: hello" in said
    assert "acknowledged at gateway 3" in said
    assert "gateway 1 has nothing left to deliver" in said


@pytest.mark.skipif(not SOAK, reason="the example of an Apache cluster takes a minute of two processors: make soak runs it")
def test_the_example_of_an_apache_cluster_goes_both_ways() -> None:
    java_classpath(ROOT / "benchmarks" / "apache", "Apache RocketMQ")
    said = run(sys.executable, "-m", "examples.rocketmq_cluster")
    assert "by MQTT: rooms/kitchen: 21.5" in said
    assert "Apache's brokers have 1 message of topic rooms" in said
    assert "by MQTT: rooms: sent at Apache's own side" in said


def test_the_weather_example_notices_a_wrong_table() -> None:
    sent = readings(SEATTLE, 50)
    names = ("readings", "degrees", "lowest", "highest", "cold", "heat", "calibration")
    rows = [
        {"station": station, "month": month, **dict(zip(names, row, strict=True))}
        for (station, month), row in check.expected(sent).items()
    ]
    assert check.differences(sent, rows) == []
    rows[3]["cold"] = 99
    assert len(check.differences(sent, rows)) == 1
    assert len(check.differences(sent, rows[1:])) == 2
