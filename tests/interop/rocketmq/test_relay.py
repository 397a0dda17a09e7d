"""Unmodified clients and tools of RocketMQ through relays to brokers of Apache RocketMQ 5.5.0."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gateway.client.client import Client
from tests.interop.remoting.java import PROJECT, JavaClient, build, run
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.relays import RelayNode
from tests.interop.workshop import CLIENTS, go_program
from tests.patience import until
from tests.store.faults.soak import SOAK
from tests.stored_records import stored_bodies

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not SOAK, reason="three minutes of old and new clients of brokers: make soak runs them"),
]
RUN_S = 200
SCENES = (
    "lite-assign", "pull", "compressed", "characters", "selectors", "pop-orderly", "levels", "dead-orderly", "transaction",
    "callbacks", "request",
)  # fmt: skip
"""Scenes of the Java client 5.5.0 that hold for two brokers. Not in it: those that count on one broker, on our limits, or that
change the settings of a broker which others use."""
OLDER = ("send", "pull", "orderly", "broadcast", "sql", "request", "query", "limit", "levels")
"""The same of 4.9.8. `transaction` expects the first check-back after a time that these brokers do not wait."""
GO = ("send", "push", "orderly", "broadcast", "pull")
"""Its requests are answered at any broker, of which those that it has not told of itself yet do not know it."""


@pytest.fixture(scope="module")
def relays(tmp_path_factory: pytest.TempPathFactory, apache: ApacheCluster) -> Iterator[tuple[RelayNode, RelayNode]]:
    """Two gateways before the same cluster."""
    folder = tmp_path_factory.mktemp("relays")
    with (
        RelayNode(folder / "one", apache.nameserver.address) as one,
        RelayNode(folder / "two", apache.nameserver.address) as two,
    ):
        yield one, two


@pytest.fixture(scope="module")
def told(java: JavaClient, relays: tuple[RelayNode, RelayNode]) -> dict[str, str]:
    """Scene -> what the Java client says of it. All run at the same time, since they mostly wait."""
    return java.scenes("clients", relays[0].nameserver, relays[0].at(0), *SCENES)


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_of_the_java_client(told: dict[str, str], scene: str) -> None:
    assert told.get(scene, "nothing was said").startswith("OK "), told.get(scene)


def test_sends_by_binary_headers(java: JavaClient, relays: tuple[RelayNode, RelayNode]) -> None:
    java.scenario("send", relays[0].nameserver, options=("-Drocketmq.serialize.type=ROCKETMQ",))


class Member:
    """One member of a group, in a JVM of its own, which prints what it gets."""

    def __init__(
        self, java: JavaClient, kind: str, relay: RelayNode, group: str, topic: str, folder: Path, nameservers: str = ""
    ) -> None:
        self._out = folder / f"{kind}{relay.node.port('nameserver')}"
        broker = relay.at(0) if kind == "pop" else "any"
        command = [*java.command("Member"), kind, nameservers or relay.nameserver, broker, group, topic]
        with self._out.open("wb") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def done(self) -> list[str]:
        """Bodies of the messages that it has handled."""
        return [line.split()[1] for line in self._out.read_text(errors="replace").splitlines() if line.startswith("done ")]

    @property
    def ready(self) -> bool:
        return "ready -" in self._out.read_text(errors="replace")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("kind", ["push", "pop"])
def test_members_at_two_gateways_share_a_group(
    java: JavaClient, relays: tuple[RelayNode, RelayNode], apache: ApacheCluster, tmp_path: Path, kind: str
) -> None:
    """Each gets a part; when one is killed, the other one gets the rest."""
    topic, group = f"RelayedShare{kind}", f"relayed-share-{kind}"
    apache.make_topic(topic, queues=4)
    apache.make_group(group)
    if kind == "pop":
        output = java.admin("setConsumeMode", "-c", "DefaultCluster", "-t", topic, "-g", group, "-m", "POP", "-q", "0",
                            "-n", relays[0].nameserver)  # fmt: skip
        assert "success" in output
    members = [Member(java, kind, relay, group, topic, tmp_path) for relay in relays]
    try:
        until(lambda: all(each.ready for each in members), 120)
        sent = 0

        def both_work() -> bool:
            nonlocal sent
            java.admin("sendMessage", "-t", topic, "-p", f"m{sent}", "-n", relays[sent % 2].nameserver)
            sent += 1
            return all(each.done() for each in members)

        until(both_work, 120)
        members[1].kill()
        for _ in range(8):
            java.admin("sendMessage", "-t", topic, "-p", f"m{sent}", "-n", relays[0].nameserver)
            sent += 1
        until(
            lambda: {*members[0].done(), *members[1].done()} >= {f"m{number}" for number in range(sent)},
            120,
        )  # fmt: skip
    finally:
        for each in members:
            each.kill()


def admin(java: JavaClient, relay: RelayNode, *arguments: str) -> str:
    return java.admin(*arguments, "-n", relay.nameserver)


def test_mqadmin_through_the_gateways_address(
    java: JavaClient, relays: tuple[RelayNode, RelayNode], apache: ApacheCluster
) -> None:
    """Commands that go to the name server, to each broker, to one of them, and to what only one broker knows."""
    relay = relays[0]
    first, second = relay.at(0), relay.at(1)
    listed = admin(java, relay, "clusterList")
    assert [line.split()[1:4] for line in listed.splitlines() if line.startswith("DefaultCluster")] == [
        ["broker-a", "0", first], ["broker-b", "0", second]
    ], listed  # fmt: skip
    assert f"create topic to {first} success" in admin(
        java, relay, "updateTopic", "-c", "DefaultCluster", "-t", "RelayedTools", "-r", "2", "-w", "2"
    )
    until(lambda: admin(java, relay, "topicStatus", "-t", "RelayedTools").count("broker-") == 4, 60)
    assert first in admin(java, relay, "topicRoute", "-t", "RelayedTools")
    sent = admin(java, relay, "sendMessage", "-t", "RelayedTools", "-p", "hello", "-k", "key", "-b", "broker-b", "-i", "1")
    assert "SEND_OK" in sent
    row = next(line.split() for line in sent.splitlines() if "SEND_OK" in line)
    assert row[:2] == ["broker-b", "1"]
    unique = row[-1]

    def found(*command: str) -> bool:
        return "broker-b" in (said := admin(java, relay, *command)) or unique in said

    until(lambda: found("queryMsgByUniqueKey", "-t", "RelayedTools", "-i", unique), 60)
    until(lambda: found("queryMsgByKey", "-t", "RelayedTools", "-k", "key"), 60)
    assert unique in admin(java, relay, "queryMsgById", "-t", "RelayedTools", "-i", unique)
    assert unique in admin(java, relay, "queryMsgByOffset", "-t", "RelayedTools", "-b", "broker-b", "-i", "1", "-o", "0")
    for address, broker in ((first, "broker-a"), (second, "broker-b")):
        assert f"brokerName={broker}" in admin(java, relay, "getBrokerConfig", "-b", address).replace(" ", "")
    assert "success" in admin(java, relay, "updateSubGroup", "-c", "DefaultCluster", "-g", "relayed-tools")
    assert "relayed-tools" in admin(java, relay, "getConsumerConfig", "-g", "relayed-tools")
    assert "wipe write perm of broker[broker-b]" in admin(java, relay, "wipeWritePerm", "-b", "broker-b")
    assert "add write perm of broker[broker-b]" in admin(java, relay, "addWritePerm", "-b", "broker-b")
    assert "success" in admin(java, relay, "deleteTopic", "-c", "DefaultCluster", "-t", "RelayedTools")
    until(lambda: "CODE: 17" in admin(java, relay, "topicRoute", "-t", "RelayedTools"), 60)


def test_progress_and_connections_of_a_group(
    java: JavaClient, relays: tuple[RelayNode, RelayNode], apache: ApacheCluster, tmp_path: Path
) -> None:
    """A consumer at one gateway is seen at the other, with its offsets, which a tool resets."""
    one, two = relays
    apache.make_topic("RelayedProgress", queues=2)
    member = Member(java, "push", one, "relayed-progress", "RelayedProgress", tmp_path)
    try:
        until(lambda: member.ready, 120)
        until(lambda: "#Client" in admin(java, two, "consumerConnection", "-g", "relayed-progress"), 60)
        for number in range(4):
            assert "SEND_OK" in admin(java, two, "sendMessage", "-t", "RelayedProgress", "-p", f"m{number}")
        until(lambda: len(set(member.done())) == 4, 120, lambda: f"{member.done()} {one.text()}")
        until(
            lambda: "Diff Total: 0" in admin(java, two, "consumerProgress", "-g", "relayed-progress").replace("Consume ", ""),
            60,
        )  # fmt: skip
    finally:
        member.kill()


def test_a_lost_broker_is_passed_over_and_used_again(
    java: JavaClient, relays: tuple[RelayNode, RelayNode], apache: ApacheCluster
) -> None:
    """Sends of a client go to the other broker; what was sent is there when the broker is back."""
    apache.make_topic("RelayedLoss", queues=2)
    relay = relays[0]
    apache.brokers["broker-b"].kill()
    try:
        for number in range(6):
            assert "SEND_OK" in admin(java, relay, "sendMessage", "-t", "RelayedLoss", "-p", f"m{number}")
    finally:
        apache.restart("broker-b")
    until(
        lambda: "SEND_OK" in admin(java, relay, "sendMessage", "-t", "RelayedLoss", "-p", "x", "-b", "broker-b", "-i", "0"),
        120,
    )  # fmt: skip
    assert "broker-b" in relay.text()


def test_a_member_goes_on_at_the_gateway_that_is_left(java: JavaClient, apache: ApacheCluster, tmp_path: Path) -> None:
    """It knows both as name servers. Each is killed once, so it was at one that is killed."""
    apache.make_topic("RelayedMoves", queues=2)
    before = apache.nameserver.address
    with RelayNode(tmp_path / "one", before) as one, RelayNode(tmp_path / "two", before) as two:
        member = Member(java, "push", one, "relayed-moves", "RelayedMoves", tmp_path, f"{one.nameserver};{two.nameserver}")
        sent: list[str] = []

        def gets() -> None:
            for _ in range(4):
                sent.append(f"m{len(sent)}")
                assert "SEND_OK" in java.admin("sendMessage", "-t", "RelayedMoves", "-p", sent[-1], "-n", before)
            until(lambda: {*member.done()} >= {*sent}, 180, lambda: f"{member.done()} {one.text()} {two.text()}")

        try:
            until(lambda: member.ready, 120)
            gets()
            for each in (one, two):
                each.node.kill()
                gets()
                each.__enter__()
        finally:
            member.kill()


# Other clients


def test_our_own_client(relays: tuple[RelayNode, RelayNode], apache: ApacheCluster) -> None:
    """That of connectors and tools: what Apache does not know of it is answered as not supported, and done otherwise."""
    apache.make_topic("RelayedOwn", queues=2)
    with Client(relays[0].nameserver) as client:
        for number in range(20):
            client.send("RelayedOwn", b"body %d" % number)
        assert {queue.broker for queue in client.route("RelayedOwn").queues} == {"broker-a", "broker-b"}
        assert {b"body %d" % number for number in range(20)} <= set(stored_bodies(client, "RelayedOwn"))


def test_the_java_client_4_9_8(relays: tuple[RelayNode, RelayNode], tmp_path: Path) -> None:
    """It does not name the broker in its requests: the port does."""
    java = build(tmp_path, PROJECT.parent / "remoting4")
    said = run([*java.command("Older"), "clients", relays[0].nameserver, "Older498"])
    assert {name: said.get(name, "").split()[:1] for name in OLDER} == {name: ["OK"] for name in OLDER}, said


def test_the_go_client_2_1_2(relays: tuple[RelayNode, RelayNode], tmp_path: Path) -> None:
    program = go_program(CLIENTS / "go" / "remoting", "rocketmq-client-go")

    def scenario(name: str) -> str:
        command = [str(program), name, relays[0].nameserver, f"RelayedGo{name}", relays[0].at(0)]
        (tmp_path / name).mkdir()
        home = {**os.environ, "HOME": str(tmp_path / name)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=home)
        return f"{done.returncode} {done.stdout[-4000:]}{done.stderr[-4000:]}"

    with ThreadPoolExecutor(len(GO)) as pool:
        said = dict(zip(GO, pool.map(scenario, GO), strict=True))
    assert {name: text[: len(f"0 OK {name}")] for name, text in said.items()} == {name: f"0 OK {name}" for name in GO}, said


def test_brokers_by_name_at_one_port(java: JavaClient, apache: ApacheCluster, tmp_path: Path) -> None:
    """Without ports for brokers, the Java client 5.5.0 says which broker it wants, in sends, pulls and offsets."""
    with RelayNode(tmp_path / "relay", apache.nameserver.address, by_name=True) as relay:
        java.scenario("send", relay.nameserver)
