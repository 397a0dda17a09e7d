"""Lite topics and priorities with the Java SDK for gRPC 5.2.0 and mqadmin, on a node that is killed once.

All scenes run at once in one process. The node is killed when all scenes but one have ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.client.link import Link
from protocols.remoting import codes
from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import make_topic
from tests.interop.lite_setup import LiteClient, make_lite_group
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, build
from tests.patience import until

pytestmark = pytest.mark.interop
SETTLED_S = 20
COMMANDS = (
    "updateTopic -b {broker} -t made -r 2 -w 2 -a +message.type=LITE,+lite.topic.expiration=60",
    "updateSubGroup -b {broker} -g made-group --attributes +lite.bind.topic=made",
    "getBrokerLiteInfo -b {broker} -d",
    "getParentTopicInfo -p made",
    "getLiteTopicInfo -p sessions -l kept",
    "getLiteTopicInfo -p sessions -l here -s",
    "getLiteGroupInfo -p sessions -g killed",
    "getLiteGroupInfo -p sessions -g killed -l kept",
    "getLiteClientInfo -p sessions -g stay -c {client-id} -s",
    "triggerLiteDispatch -p sessions -g stay",
)
"""Commands of mqadmin after all scenes but one have ended; ten messages of that one are not consumed yet."""


@dataclass(frozen=True)
class Told:
    """Results: group -> the fields of its lines; command -> its output; the id of the client that stays connected."""

    seen: dict[str, list[list[str]]]
    tools: dict[str, str]
    client_id: str


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], JavaClient]]:
    """The commands of the gRPC client and of mqadmin, built at the same time."""
    with ThreadPoolExecutor() as pool:
        client = pool.submit(compiled, tmp_path_factory.mktemp("grpc"))
        tools = pool.submit(build, tmp_path_factory.mktemp("tools"))
        yield client.result(), tools.result()


@pytest.fixture(scope="module")
def told(java: tuple[list[str], JavaClient], tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Run all scenes and commands; the node is killed once."""
    command, tools = java
    with Node(tmp_path_factory.mktemp("node")) as node, ThreadPoolExecutor() as pool:
        make_topic(node, "ranked", "PRIORITY")
        for topic in ("sessions", "loose", "unbound"):
            make_topic(node, topic, "LITE")
        for group in ("ordered", "killed", "stay"):
            make_lite_group(node, group, "sessions")
        make_lite_group(node, "exclusive", "sessions", lite_sub_model="Exclusive")
        make_lite_group(node, "quota", "sessions", lite_sub_client_quota="3")
        make_lite_group(node, "unordered", "loose", orderly=False)
        scenes = (
            "priority:ranked:ranked-group", "lite:sessions:ordered", "lite:loose:unordered", "killed:sessions:killed",
            "exclusive:sessions:exclusive", "quota:sessions:quota", "unbound:unbound:unbound", "stay:sessions:stay",
        )  # fmt: skip
        client = LiteClient(command, f"127.0.0.1:{node.port('grpc')}", scenes, tmp_path_factory.mktemp("home"))
        try:
            client.wait_ready()
            client_id = subscriber(node)
            wait_until_settled(node)
            printed: Future[dict[str, str]] = pool.submit(admin, tools, node, client_id, tmp_path_factory.mktemp("commands"))
            texts = printed.result()
            node.kill()
            node.start()
            client.go_on()
            seen = client.seen()
        finally:
            client.end()
    return Told(seen, texts, client_id)


def question(node: Node, code: int, fields: dict[str, str]) -> dict[str, Any]:
    """Send a request of a tool. Returns the answer's JSON."""
    link = Link(f"127.0.0.1:{node.port('remoting')}", 10)
    try:
        (reply,) = link.ask([(code, fields, b"")])
        assert reply.code == 0, reply.remark
        found: dict[str, Any] = json.loads(reply.body)
        return found
    finally:
        link.close()


def subscriber(node: Node) -> str:
    """The id of the client that has subscribed to "here"."""
    told = question(node, codes.GET_LITE_TOPIC, {"parentTopic": "sessions", "liteTopic": "here"})
    (found,) = [each["clientId"] for each in told["subscriber"] if each["group"] == "stay"]
    return str(found)


def wait_until_settled(node: Node) -> None:
    """Wait until the first ten messages are acknowledged: acknowledgements are sent after a listener has returned."""

    def left() -> int:
        return int(question(node, codes.GET_LITE_GROUP, {"group": "killed", "liteTopic": "kept"})["totalLagCount"])

    until(lambda: left() <= 10, SETTLED_S, lambda: "the first ten messages were not settled")


def admin(tools: JavaClient, node: Node, client_id: str, folder: Path) -> dict[str, str]:
    """Command -> the output of mqadmin."""
    nameserver, broker = f"127.0.0.1:{node.port('nameserver')}", f"127.0.0.1:{node.port('remoting')}"
    lines = [each.replace("{broker}", broker).replace("{client-id}", client_id) for each in COMMANDS]
    file = folder / "commands"
    file.write_text("".join("\t".join([*line.split(), "-n", nameserver]) + "\n" for line in lines))
    done = tools.run("Tools", "commands", nameserver, "Beside", str(file))
    parts = done.stdout.split("=== ")[1:-1]
    assert len(parts) == len(COMMANDS), done.stdout[-4000:] + done.stderr[-4000:]
    return {command: part.partition("\n")[2] for command, part in zip(COMMANDS, parts, strict=True)}


def test_priorities_are_told_and_the_highest_comes_first(told: Told) -> None:
    seen = told.seen["ranked-group"]
    assert (seen[0][0], seen[-1]) == ("refused", ["over"])
    messages = seen[1:-1]
    assert [int(priority) for _, priority in messages] == [3] * 3 + [2] * 3 + [1] * 3 + [0] * 3
    assert {int(body.split()[1]) % 4 == int(priority) for body, priority in messages} == {True}


def test_a_lite_push_consumer_gets_what_it_has_subscribed_to_in_order(told: Told) -> None:
    seen = told.seen["ordered"]
    assert [line for line in seen if line[0] in ("done", "over")] == [["done", "true", "a,b"], ["done", "true"], ["over"]]
    messages = [line for line in seen if len(line) == 4]
    assert {(lite, topic) for _, lite, _, topic in messages} == {("a", "sessions"), ("b", "sessions")}
    bodies = {name: [body for body, lite, *_ in messages if lite == name] for name in ("a", "b")}
    assert bodies["a"] == [f"a {at}" for at in range(11)]
    assert bodies["b"] == [f"b {at}" for at in (0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9)]
    assert [int(attempt) for body, _, attempt, _ in messages if body == "b 4"] == [1, 2]


def test_a_message_that_fails_in_a_group_without_order_comes_again(told: Told) -> None:
    seen = told.seen["unordered"]
    assert ["done", "true", "a,b"] in seen
    bodies = sorted(line[0] for line in seen if len(line) == 4)
    assert bodies == sorted([f"{name} {at}" for name in "ab" for at in range(10)] + ["a 10", "b 4"])
    assert [int(line[2]) for line in seen if line[0] == "b 4"] == [1, 2]


def test_what_was_acknowledged_stays_so_when_the_node_is_killed(told: Told) -> None:
    assert [line for line in told.seen["killed"] if len(line) == 3] == [[f"kept {at}", "kept", "1"] for at in range(20)]


def test_the_newest_subscriber_takes_a_lite_topic_of_an_exclusive_group(told: Told) -> None:
    seen = told.seen["exclusive"]
    assert ["first", "0", "1"] in seen
    assert [line for line in seen if line[0] == "second"] == [["second", f"own {at}"] for at in range(5)]


def test_a_client_has_as_many_lite_topics_as_its_group_allows(told: Told) -> None:
    wanted = [["ok", "0"], ["ok", "1"], ["ok", "2"], ["LiteSubscriptionQuotaExceededException", "3"]]
    assert told.seen["quota"][:4] == wanted
    assert told.seen["quota"][4][1] == "illegal"


def test_a_group_that_is_not_bound_is_told_how_to_be(told: Told) -> None:
    assert told.seen["unbound"][-2][1:] == ["true"]


def test_mqadmin_makes_and_shows_lite_topics(told: Told) -> None:
    made, bound, node, parent, kept, here, group, lag, client, dispatched = (told.tools[each] for each in COMMANDS)
    for text in told.tools.values():
        assert "Exception" not in text, text
    assert "success" in made
    assert "success" in bound
    assert '"made":60' in node
    assert " 60 " in parent
    words = kept.split()
    assert words[words.index("broker-a") + 1 : words.index("broker-a") + 3] == ["0", "20"]
    assert told.client_id in here
    assert "Total Lag Count: 10" in group
    assert "10" in lag.split()
    assert "dispatched" in dispatched
    assert "[sessions]" in client
    words = client.split()
    assert words[words.index("broker-a") + 1] == "2", client
    assert {"here", "there"} <= set(client.replace("$", " ").replace(",", " ").replace("[", " ").replace("]", " ").split())
