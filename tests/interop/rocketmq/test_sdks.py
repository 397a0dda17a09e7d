"""Unmodified gRPC SDKs and HTTP clients through gateways before a real Apache cluster: the messages are in its brokers."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from domain.message.receipt import parse
from tests.interop.grpc import java as java_sdk
from tests.interop.grpc.setup import python_client
from tests.interop.grpc.stub_consumer import StubConsumer
from tests.interop.grpc.test_go import PROJECT as GO_PROJECT
from tests.interop.grpc.test_go import run as run_go
from tests.interop.http_api import acknowledge, receive
from tests.interop.node import Node
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.near import NearGateway, run, send
from tests.interop.workshop import go_program

CLIENT_S = 200
GRPC = Path(__file__).parents[1] / "grpc"


@pytest.fixture(scope="module")
def gateways(apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """Two gateways before the cluster, with nothing in common besides it."""
    folders = [tmp_path_factory.mktemp(f"gateway{at}") for at in range(2)]
    nodes = [gateway_before(apache.nameserver.address, folder, verb="up") for folder in folders]
    try:
        for node in nodes:
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.stop()


PYTHON = {
    "simple": "NORMAL", "sql": "NORMAL", "push": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION",
    "recall": "DELAY",
}  # fmt: skip
"""Scenario -> the type of its topic."""
GO = {"simple": "NORMAL", "push": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "transact": "TRANSACTION", "sql": "NORMAL"}
JAVA = {"simple": "NORMAL", "push": "NORMAL", "fifo": "FIFO"}


@pytest.fixture(scope="module")
def played(apache: ApacheCluster, gateways: list[Node], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Any]:
    """(SDK, scenario) -> what the scenario gave. All run at the same time, since most of their time is waiting."""
    program = go_program(GO_PROJECT, "the gRPC SDK for Go")
    java = java_sdk.compiled(tmp_path_factory.mktemp("java"))
    given: dict[tuple[str, str], Any] = {}

    def play(sdk: str, scenario: str) -> None:
        topic = f"{sdk}-{scenario}"
        folder = tmp_path_factory.mktemp(topic)
        try:
            if sdk == "python":
                found: Any = python_client(gateways[0], scenario, topic, f"{topic}-group", folder)
            elif sdk == "go":
                run_go(program, scenario, gateways[1].port("grpc"), topic, folder, tls=False)
                found = "OK"
            else:
                endpoint = f"127.0.0.1:{gateways[0].port('grpc')}"
                command = [*java, "GrpcClient", endpoint, "plain", scenario, topic, f"{topic}-group"]
                done = subprocess.run(command, capture_output=True, timeout=CLIENT_S, cwd=folder, check=False)
                output = done.stdout.decode("utf-8", "replace")
                assert done.returncode == 0, f"{output}\n{done.stderr.decode()[-4000:]}"
                found = [line.split("\t") for line in output.splitlines() if line.startswith("seen\t")]
        except (AssertionError, subprocess.TimeoutExpired) as error:
            found = error
        given[sdk, scenario] = found

    plays = [("python", name, kind) for name, kind in PYTHON.items()]
    plays += [("go", name, kind) for name, kind in GO.items()] + [("java", name, kind) for name, kind in JAVA.items()]
    for sdk, name, kind in plays:
        apache.make_topic(f"{sdk}-{name}", kind)
        apache.make_group(f"{sdk}-{name}-group", orderly=kind == "FIFO")
    with ThreadPoolExecutor(6) as pool:
        for sdk, name, _ in plays:
            pool.submit(play, sdk, name)

    def result(sdk: str, scenario: str) -> Any:
        found = given[sdk, scenario]
        if isinstance(found, BaseException):
            raise AssertionError(str(found)) from found
        return found

    return result


Played = Callable[[str, str], Any]
Found = TypeVar("Found")


def attempts_of(seen: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for message in seen:
        found.setdefault(message["body"], []).append(message["attempt"])
    return found


def test_a_simple_consumer_receives_by_tag_acknowledges_and_gives_back(played: Played) -> None:
    found = played("python", "simple")
    first = {message["body"]: message for message in found["first"]}
    assert sorted(first) == sorted(f"body {at}" for at in range(0, 20, 2))
    one = first["body 4"]
    assert (one["tag"], one["keys"], one["place"], one["attempt"]) == ("even", ["key-4"], "Zürich", 1)
    (again,) = found["again"]
    assert (again["id"], again["attempt"]) == (found["first"][0]["id"], 2)
    assert found["rest"] == 0


def test_a_simple_consumer_receives_by_sql_filter(played: Played) -> None:
    found = played("python", "sql")
    assert sorted(message["body"] for message in found["seen"]) == ["body 19", *(f"body {at}" for at in range(5, 10))]


def test_a_push_consumer_gets_a_failed_message_again(played: Played) -> None:
    attempts = attempts_of(played("python", "push")["seen"])
    assert attempts.pop("body 3") == [1, 2]
    assert attempts == {f"body {at}": [1] for at in range(30) if at != 3}


def test_a_fifo_consumer_sees_each_group_in_order(played: Played) -> None:
    found = played("python", "fifo")
    for group in range(3):
        bodies = [message["body"] for message in found["seen"] if message["group"] == f"group-{group}"]
        assert list(dict.fromkeys(bodies)) == [f"body {at}" for at in range(group, 30, 3)]


def test_a_delayed_message_arrives_when_it_is_due(played: Played) -> None:
    found = played("python", "delay")
    (message,) = found["seen"]
    assert message["id"] == found["sent"][0]
    assert message["at"] - found["started"] >= 2


def test_transactions_are_committed_rolled_back_and_asked_about(played: Played) -> None:
    found = played("python", "transaction")
    wanted = [f"commit {at}" for at in range(10)] + [f"orphan {at}" for at in range(20, 26) if at % 2 == 0]
    assert sorted({message["body"] for message in found["seen"]}) == sorted(wanted)
    assert set(found["asked"]) >= {f"orphan {at}" for at in range(20, 26)}


def test_recalled_messages_do_not_arrive(played: Played) -> None:
    found = played("python", "recall")
    assert sorted(message["body"] for message in found["seen"]) == ["timer 1", "timer 3", "timer 5"]


@pytest.mark.parametrize("scenario", GO)
def test_a_scenario_of_the_go_sdk_over_a_cluster(played: Played, scenario: str) -> None:
    assert played("go", scenario) == "OK"


def test_scenarios_of_the_java_sdk(played: Played) -> None:
    simple: dict[str, list[int]] = {}
    for _, name, attempt, *_ in played("java", "simple"):
        simple.setdefault(name, []).append(int(attempt))
    assert sorted(simple) == sorted(f"body {at}" for at in range(0, 20, 2))
    push: dict[str, list[int]] = {}
    for _, name, attempt, *_ in played("java", "push"):
        push.setdefault(name, []).append(int(attempt))
    assert push.pop("body 3") == [1, 2]
    assert push == {f"body {at}": [1] for at in range(30) if at != 3}
    for group in range(3):
        bodies = [line[1] for line in played("java", "fifo") if line[5] == f"group-{group}"]
        assert list(dict.fromkeys(bodies)) == [f"body {at}" for at in range(group, 30, 3)]


def found_in(seconds: float, look: Callable[[], Found]) -> Found:
    """What `look` finds, as soon as it finds something."""
    limit = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < limit, f"nothing within {seconds:g} s"
        time.sleep(0.1)
    return found


def test_a_lease_of_one_gateway_is_settled_at_another_by_another_protocol(apache: ApacheCluster, gateways: list[Node]) -> None:
    apache.make_topic("shared")
    send(apache, "broker-b", "shared", ["one", "two"])
    with StubConsumer(gateways[0], "shared", "shared-group") as consumer:
        messages = found_in(60, lambda: consumer.attempt("", 32))
    receipts = [message.system_properties.receipt_handle for message in messages]
    assert [None if (each := parse(text)) is None else each.broker for text in receipts] == ["broker-b"] * len(messages)
    assert [each["ok"] for each in acknowledge(gateways[1], "shared-group", "shared", receipts)] == [True] * len(receipts)


def test_a_receipt_of_a_gateway_is_one_of_apaches(apache: ApacheCluster, gateways: list[Node]) -> None:
    """What HTTP was given is settled by the broker itself, asked as Apache's proxy asks it."""
    apache.make_topic("http-lease")
    send(apache, "broker-a", "http-lease", ["mine"])
    [message] = receive(gateways[0], "http-group", "http-lease", 10, 20_000, 10_000)

    async def play(apart: NearGateway) -> None:
        await apart.know("http-lease")
        receipt = parse(message["receipt"])
        assert receipt is not None
        assert await apart.ask(apart.leases.settle, "http-group", "http-lease", [receipt]) == [None]

    run(play, apache)


def test_messages_of_one_broker_go_on_while_the_other_is_killed(apache: ApacheCluster, gateways: list[Node]) -> None:
    apache.make_topic("half-dead")
    apache.brokers["broker-b"].kill()
    try:
        send(apache, "broker-a", "half-dead", ["alive"])
        [message] = receive(gateways[0], "dead-group", "half-dead", 10, 20_000, 30_000)
        assert acknowledge(gateways[1], "dead-group", "half-dead", [message["receipt"]])[0]["ok"]
    finally:
        apache.restart("broker-b")
    send(apache, "broker-b", "half-dead", ["back"])
    found = found_in(60, lambda: receive(gateways[0], "dead-group", "half-dead", 10, 20_000, 30_000))
    assert len(found) == 1


def test_members_are_shown_by_apaches_tools(apache: ApacheCluster, gateways: list[Node]) -> None:
    apache.make_topic("waited")
    apache.make_group("waited-group")
    receive(gateways[0], "waited-group", "waited", 1, 0)
    shown = found_in(90, lambda: _online(apache.mqadmin("consumerConnection", "-g", "waited-group")))
    assert "@headgate" in shown


def _online(text: str) -> str:
    return text if "CLUSTERING" in text else ""
