"""Lite topics and priorities: the official Java SDK for gRPC 5.2.0 against a running node that is killed on the way."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc_setup import ROOT, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, ask, make_topic
from tests.interop.node import Node
from tests.interop.remoting_java import JavaClient, build

PROJECT = ROOT / "tests" / "interop" / "java" / "grpc"
FETCH_S = 400
CLIENT_S = 120


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, compiled; its SDK comes from Maven."""
    if shutil.which("mvn") is None or shutil.which("javac") is None:
        pytest.skip("no mvn and javac: install maven and a JDK")
    library = tmp_path_factory.mktemp("java")
    fetch = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={library}"]
    done = subprocess.run(fetch, cwd=PROJECT, capture_output=True, text=True, timeout=FETCH_S, check=False)
    if done.returncode != 0:
        pytest.skip(f"Maven cannot fetch rocketmq-client-java: {done.stdout[-300:]}")
    source = PROJECT / "src" / "main" / "java" / "Lite.java"
    command = ["javac", "-encoding", "UTF-8", "-cp", f"{library}/*", "-d", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=CLIENT_S)
    return library


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node as it is built here."""
    with Node(tmp_path) as running:
        yield running


def run(node: Node, classes: Path, folder: Path, *arguments: str) -> list[list[str]]:
    """One scenario -> the fields of its lines."""
    options = ["-Xmx256m", "-Dfile.encoding=UTF-8", f"-Duser.home={folder}"]
    command = ["java", *options, "-cp", f"{classes}:{classes}/*", "Lite", f"127.0.0.1:{node.port('grpc')}", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=CLIENT_S, cwd=folder, check=False)
    output = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, f"{output}\n{done.stderr.decode()[-4000:]}\n{node.text()[-2000:]}"
    return [line.split("\t")[1:] for line in output.splitlines() if line.startswith("seen\t")]


def make_group(node: Node, group: str, orderly: bool = True, **attributes: str) -> None:
    """What `mqadmin updateSubGroup -o true --attributes +k=v` sends; `lite_bind_topic` stands for lite.bind.topic."""
    told = {f"+{key.replace('_', '.')}": value for key, value in attributes.items()}
    body = {"groupName": group, "consumeMessageOrderly": orderly, "attributes": told}
    ask(node, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps(body).encode())


def test_priorities_are_told_and_the_highest_comes_first(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "ranked", "PRIORITY")
    seen = run(node, classes, tmp_path, "priority", "ranked", "g")
    assert seen[0][0] == "refused"
    assert [int(priority) for _, priority in seen[1:]] == [3] * 3 + [2] * 3 + [1] * 3 + [0] * 3
    assert {int(body.split()[1]) % 4 == int(priority) for body, priority in seen[1:]} == {True}


def test_a_lite_push_consumer_gets_what_it_has_subscribed_to_in_order(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "sessions", "LITE")
    make_group(node, "agents", lite_bind_topic="sessions")
    seen = run(node, classes, tmp_path, "lite", "sessions", "agents")
    assert ["done", "true", "a,b"] in seen
    messages = [line for line in seen if line[0] != "done"]
    assert {(lite, topic) for _, lite, _, topic in messages} == {("a", "sessions"), ("b", "sessions")}
    bodies = {name: [body for body, lite, *_ in messages if lite == name] for name in ("a", "b")}
    assert bodies["a"] == [f"a {at}" for at in range(10)]
    assert bodies["b"] == [f"b {at}" for at in (0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9)]
    assert [int(attempt) for body, _, attempt, _ in messages if body == "b 4"] == [1, 2]


def test_a_message_that_fails_in_a_group_without_order_comes_again(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "sessions", "LITE")
    make_group(node, "agents", orderly=False, lite_bind_topic="sessions")
    seen = run(node, classes, tmp_path, "lite", "sessions", "agents")
    assert ["done", "true", "a,b"] in seen
    bodies = sorted(line[0] for line in seen if line[0] != "done")
    assert bodies == sorted([f"{name} {at}" for name in "ab" for at in range(10)] + ["b 4"])
    assert [int(line[2]) for line in seen if line[0] == "b 4"] == [1, 2]


def test_what_was_acknowledged_stays_so_when_the_node_is_killed(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "sessions", "LITE")
    make_group(node, "agents", lite_bind_topic="sessions")
    run(node, classes, tmp_path, "produce", "sessions", "agents")
    first = run(node, classes, tmp_path, "rest", "sessions", "agents", "10")
    assert [line[0] for line in first if line[0] != "done"] == [f"kept {at}" for at in range(10)]
    run(node, classes, tmp_path, "produce", "sessions", "agents")
    node.kill()
    node.start()
    second = run(node, classes, tmp_path, "rest", "sessions", "agents", "10")
    assert [line for line in second if line[0] != "done"] == [[f"kept {at}", "kept", "1"] for at in range(10)]


def test_the_newest_subscriber_takes_a_lite_topic_of_an_exclusive_group(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "sessions", "LITE")
    make_group(node, "agents", lite_bind_topic="sessions", lite_sub_model="Exclusive")
    seen = run(node, classes, tmp_path, "exclusive", "sessions", "agents")
    assert ["first", "0", "1"] in seen
    assert [line for line in seen if line[0] == "second"] == [["second", f"own {at}"] for at in range(5)]


def test_a_client_has_as_many_lite_topics_as_its_group_allows(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "sessions", "LITE")
    make_group(node, "agents", lite_bind_topic="sessions", lite_sub_client_quota="3")
    seen = run(node, classes, tmp_path, "quota", "sessions", "agents")
    assert seen[:4] == [["ok", "0"], ["ok", "1"], ["ok", "2"], ["LiteSubscriptionQuotaExceededException", "3"]]


def test_a_group_that_is_not_bound_is_told_how_to_be(node: Node, classes: Path, tmp_path: Path) -> None:
    make_topic(node, "sessions", "LITE")
    assert run(node, classes, tmp_path, "unbound", "sessions", "agents")[-1][1:] == ["true"]


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    """mqadmin of RocketMQ 5.5.0."""
    return build(tmp_path_factory.mktemp("tools"))


def test_mqadmin_makes_and_shows_lite_topics(node: Node, classes: Path, tools: JavaClient, tmp_path: Path) -> None:
    broker, nameserver = f"127.0.0.1:{node.port('remoting')}", f"127.0.0.1:{node.port('nameserver')}"

    def admin(*words: str) -> str:
        text = tools.admin(*words, "-n", nameserver)
        assert "Exception" not in text, text
        return text

    kind = "+message.type=LITE,+lite.topic.expiration=60"
    assert "success" in admin("updateTopic", "-b", broker, "-t", "sessions", "-r", "2", "-w", "2", "-a", kind)
    assert "success" in admin("updateSubGroup", "-b", broker, "-g", "agents", "--attributes", "+lite.bind.topic=sessions")
    run(node, classes, tmp_path, "produce", "sessions", "agents")
    assert " 60 " in admin("getParentTopicInfo", "-p", "sessions")
    assert "%LMQ%$sessions$kept" in admin("getLiteTopicInfo", "-p", "sessions", "-l", "kept")
    shown = admin("getLiteTopicInfo", "-p", "sessions", "-l", "kept").split()
    assert shown[shown.index("broker-a") + 1 : shown.index("broker-a") + 3] == ["0", "10"]
    run(node, classes, tmp_path, "rest", "sessions", "agents", "10")
    assert "Total Lag Count: 0" in admin("getLiteGroupInfo", "-p", "sessions", "-g", "agents")
    assert '"sessions":60' in admin("getBrokerLiteInfo", "-b", broker, "-d")
    assert "dispatched" in admin("triggerLiteDispatch", "-p", "sessions", "-g", "agents")
