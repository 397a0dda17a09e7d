"""Inquiries to gRPC members: mqadmin 5.5.0 requests connections, stacks and direct consumption (Java SDK 5.2.0)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.member import Member
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(tmp_path_factory.mktemp("sdk"))


@pytest.fixture(scope="module")
def member(node: Node, sdk: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    with Member(sdk, node, tmp_path_factory.mktemp("member"), "Asked", "askable", count=4) as there:
        yield there


def admin(java: JavaClient, node: Node, *words: str) -> str:
    return java.admin(*words, "-n", f"127.0.0.1:{node.port('nameserver')}")


def connections(text: str) -> list[list[str]]:
    """The client lines in the output of consumerConnection."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("#ClientId")) + 1
    return [line.split() for line in lines[start : lines.index("", start)]]


@pytest.fixture(scope="module")
def client(java: JavaClient, node: Node, member: Member) -> str:
    """The client id of the consumer, from the output of mqadmin."""
    text = admin(java, node, "consumerConnection", "-g", "askable")
    (words,) = connections(text)
    assert words[1].startswith("127.0.0.1:"), text
    assert words[2:] == ["JAVA", "V5_2_0"], text
    assert "Asked" in text
    assert "CONSUME_PASSIVELY" in text
    return words[0]


def test_a_producer_has_its_place_language_and_version(java: JavaClient, node: Node, member: Member) -> None:
    text = admin(java, node, "producerConnection", "-g", "Asked", "-t", "Asked")
    line = next(line for line in text.splitlines() if line.startswith("0001"))
    assert "127.0.0.1:" in line
    assert line.split()[-2:] == ["JAVA", "V5_2_0"]


def test_a_consumer_tells_how_it_is_and_what_its_threads_do(java: JavaClient, node: Node, client: str) -> None:
    text = admin(java, node, "consumerStatus", "-g", "askable", "-i", client)
    assert "PROP_CLIENT_VERSION" in text
    assert "Asked" in text
    assert "Exception" not in text
    text = admin(java, node, "consumerStatus", "-g", "askable", "-i", client, "-s")
    assert "java.lang.Thread" in text or "RocketmqMessageConsumption" in text, text[-3000:]


def test_a_message_is_consumed_directly(java: JavaClient, node: Node, member: Member, client: str) -> None:
    before = len([line for line in member.lines() if line[0] == "seen"])
    message = next(line[1] for line in member.lines() if line[0] == "sent")
    text = admin(java, node, "queryMsgByUniqueKey", "-i", message, "-g", "askable", "-d", client, "-t", "Asked")
    assert "CR_SUCCESS" in text, text
    member.until(lambda lines: len([line for line in lines if line[0] == "seen"]) == before + 1)


def test_who_is_not_there_and_who_has_no_queues_is_told_in_words(java: JavaClient, node: Node, client: str) -> None:
    text = admin(java, node, "consumerStatus", "-g", "askable", "-i", "nobody")
    assert "not online" in text, text


def test_grpc_namespaces_are_those_of_remoting(java: JavaClient, node: Node, sdk: list[str], tmp_path: Path) -> None:
    with (
        Member(sdk, node, tmp_path, "Spaced", "cg", namespace="shop", count=3) as shop,
        Member(sdk, node, tmp_path, "Spaced", "cg", namespace="yard", count=3) as yard,
        Member(sdk, node, tmp_path, "Spaced", "cg", count=3) as bare,
    ):
        admin(java, node, "sendMessage", "-t", "shop%Spaced", "-p", "from a tool")
        shop.until(lambda lines: any("from a tool" in line for line in lines))
        for member, name in ((shop, "shop"), (yard, "yard"), (bare, "")):
            seen = [line for line in member.lines() if line[0] == "seen"]
            assert {topic for _, topic, *_ in seen} == {"Spaced"}
            bodies = {body for _, _, body, _ in seen} - {"from a tool"}
            assert bodies == {f"{name} {at}" for at in range(3)}
        text = admin(java, node, "consumerConnection", "-g", "shop%cg")
        assert "shop%Spaced" in text
        assert len(connections(text)) == 1
