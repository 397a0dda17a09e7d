"""`[access] users = "cluster"`: clients of all protocols are checked by the users and policies of a real secured cluster."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import aiocoap
import paho.mqtt.client as paho
import pytest

from gateway.client.link import Link
from gateway.client.security import KeyPlace, Tls
from protocols.remoting import codes
from tests.interop.coap.one_request import coap_request
from tests.interop.grpc.java import compiled
from tests.interop.grpc.setup import python_client
from tests.interop.http_api import request
from tests.interop.node import Node
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.secured import ADMIN, SecuredCluster
from tests.interop.test_access import Mqtt
from tests.patience import until

pytestmark = pytest.mark.interop
WAIT_S = 60.0
RUN_S = 150
PASSWORD = "password-of-alice"
BASE_POLICIES = [
    ("Topic:verdict*", ["Pub", "Sub"], "Allow", "Custom", []),
    ("Topic:verdict-literal", ["Pub"], "Deny", "Custom", []),
    ("Topic:verdict-long*", ["Pub"], "Deny", "Custom", []),
    ("Topic:verdict-longer*", ["All"], "Allow", "Custom", []),
    ("Topic:verdict-elsewhere", ["Pub"], "Deny", "Custom", ["10.0.0.0/8"]),
    ("Topic:verdict-here", ["Pub"], "Deny", "Custom", ["127.0.0.0/8"]),
    ("Topic:verdict-reader", ["Sub"], "Deny", "Custom", []),
    ("Topic:spare*", ["Pub"], "Allow", "Default", []),
    ("Topic:spare-denied", ["Pub"], "Deny", "Default", []),
    ("Topic:spare-custom", ["Sub"], "Allow", "Custom", []),
    ("*", ["Get"], "Allow", "Custom", []),
]
"""Policies of one user: (resource, actions, decision, kind, sources)."""
VERDICTS = [
    "verdict-plain", "verdict-literal", "verdict-long", "verdict-long-1", "verdict-longer", "verdict-elsewhere",
    "verdict-here", "verdict-reader", "spare-plain", "spare-denied", "spare-custom", "unnamed",
]  # fmt: skip


def gateway(secured: SecuredCluster, folder: Path, *options: str, access: str = "") -> Node:
    """A gateway with the key of the cluster's administrator. It is not started. `access`: more of its settings in [access]."""
    folder.mkdir(exist_ok=True)
    file = folder / "headgate.toml"
    file.write_text(f'[access]\nusers = "cluster"\n{access}')
    key, authority = secured.key_file, secured.certificate
    where = secured.nameserver.address
    return gateway_before(where, folder, "--config", str(file), *options, access_key_file=key, ca=authority)


@pytest.fixture(scope="module")
def node(secured: SecuredCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A gateway that has the users of the cluster."""
    secured.add_policy("alice", "Group:readers*", "Sub")
    with gateway(secured, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def send(node: Node, topic: str, user: str, password: str) -> int:
    """The status of a message that is sent by HTTP; `user` "": without credentials."""
    fields = {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()} if user else {}
    return request(node, "POST", f"/v1/topics/{topic}/messages", b"x", **fields)[0]


def test_a_user_of_the_cluster_sends_and_receives_by_http(node: Node) -> None:
    assert send(node, "orders", "alice", PASSWORD) == 201
    assert send(node, "orders", "alice", "wrong") == 401
    assert send(node, "orders", "mallory", PASSWORD) == 401
    assert send(node, "orders", "", "") == 401
    assert send(node, "others", "alice", PASSWORD) == 403
    fields = {"Authorization": "Basic " + base64.b64encode(f"alice:{PASSWORD}".encode()).decode()}
    path = "/v1/groups/{}/topics/orders:receive?max=8&wait_ms=1000"
    until(lambda: request(node, "POST", path.format("readers-http"), None, **fields)[0] == 200, WAIT_S, node.text)
    assert request(node, "POST", path.format("strangers"), None, **fields)[0] == 403


def test_the_python_sdk_signs_with_a_user_of_the_cluster(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT_ACCESS_KEY", "alice")
    monkeypatch.setenv("CLIENT_SECRET_KEY", PASSWORD)
    assert len(python_client(node, "simple", "orders", "readers-grpc", tmp_path)["sent"]) == 20
    with pytest.raises(AssertionError, match=r"failed to fetch topic:others route"):
        python_client(node, "send", "others", "readers-grpc", tmp_path)
    monkeypatch.setenv("CLIENT_SECRET_KEY", "wrong")
    with pytest.raises(AssertionError, match=r"failed to fetch topic:orders route"):
        python_client(node, "send", "orders", "readers-grpc", tmp_path)


def java_sdk(node: Node, command: list[str], topic: str, group: str, user: str, password: str) -> str:
    """What `GrpcGuarded` prints: it sends, and receives unless `group` is ""."""
    arguments = ["GrpcGuarded", f"127.0.0.1:{node.port('grpc')}", topic, group, user, password]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=RUN_S, check=False)
    return done.stdout + done.stderr


def test_the_java_sdk_signs_with_a_user_of_the_cluster(node: Node, tmp_path: Path) -> None:
    command = compiled(tmp_path)
    assert "DONE" in java_sdk(node, command, "orders", "readers-java", "alice", PASSWORD)
    for topic, user, password in (
        ("others", "alice", PASSWORD),
        ("orders", "bob", "password-of-bob"),
        ("orders", "alice", "wrong"),
        ("orders", "mallory", PASSWORD),
    ):
        said = java_sdk(node, command, topic, "", user, password)
        assert "DONE" not in said
        assert "UnauthorizedException" in said, said
    # A consumer of this SDK whose group is refused does not start, and does not say why.
    said = java_sdk(node, command, "orders", "strangers-java", "alice", PASSWORD)
    assert "DONE" not in said
    assert "REFUSED" in said, said


def coap(node: Node, code: aiocoap.Code, topic: str) -> str:
    """The code of the answer to a request for a topic by CoAP, which has no credentials."""
    return str(coap_request(node, code, f"/mq/{topic}", b"x" if code is aiocoap.POST else b"").code.dotted)


def test_coap_clients_are_the_user_of_the_cluster_that_anonymous_names(
    secured: SecuredCluster, node: Node, tmp_path: Path
) -> None:
    (broker,) = secured.brokers.values()
    assert coap(node, aiocoap.POST, "orders") == "4.01"
    secured.make_user("guest", "password-of-guest", "Topic:orders", "Pub")
    with gateway(secured, tmp_path, access='anonymous = "guest"\n') as open_node:
        until(lambda: coap(open_node, aiocoap.POST, "orders") == "2.01", WAIT_S, open_node.text)
        assert coap(open_node, aiocoap.POST, "others") == "4.03"
        assert coap(open_node, aiocoap.GET, "orders") == "4.03"
        given = ("-s", "User:guest", "-r", "Topic:others", "-a", "Pub", "-d", "Allow")
        assert "success" in secured.mqadmin("createAcl", "-b", broker.address, *given)
        until(lambda: coap(open_node, aiocoap.POST, "others") == "2.01", WAIT_S, open_node.text)
        assert "success" in secured.mqadmin("deleteUser", "-b", broker.address, "-u", "guest")
        # A name that no user has any more has no rights.
        until(lambda: coap(open_node, aiocoap.POST, "orders") == "4.03", WAIT_S, open_node.text)


def test_an_mqtt_client_is_a_user_of_the_cluster(node: Node) -> None:
    assert Mqtt(node, paho.MQTTv5, "m1").code == 0x86
    assert Mqtt(node, paho.MQTTv5, "m1", "alice", "wrong").code == 0x86
    client = Mqtt(node, paho.MQTTv5, "m1", "alice", PASSWORD)
    assert client.code == 0
    assert client.subscribe("orders/#", "others/#") == [1, 0x87]
    assert client.publish("orders/x") == 0
    assert client.publish("others/x") == 0x87
    client.client.disconnect()


def test_a_user_who_is_removed_at_the_broker_is_disconnected(secured: SecuredCluster, node: Node) -> None:
    (broker,) = secured.brokers.values()
    secured.make_user("carol", "password-of-carol", "Topic:orders", "Pub", "Sub")
    until(lambda: send(node, "orders", "carol", "password-of-carol") == 201, WAIT_S, node.text)
    client = Mqtt(node, paho.MQTTv5, "m-carol", "carol", "password-of-carol")
    assert client.subscribe("orders/#") == [1]
    ended: list[int] = []
    client.client.on_disconnect = lambda _client, _data, _flags, code, _properties: ended.append(code.value)
    said = secured.mqadmin("deleteUser", "-b", broker.address, "-u", "carol")
    assert "success" in said, said
    until(lambda: bool(client.client.loop(0.05) is not None and ended), WAIT_S, node.text)
    assert ended == [0x98]
    assert send(node, "orders", "carol", "password-of-carol") == 401
    assert Mqtt(node, paho.MQTTv5, "m-carol", "carol", "password-of-carol").code == 0x86


def test_what_mqadmin_changes_holds_without_a_restart(secured: SecuredCluster, node: Node) -> None:
    (broker,) = secured.brokers.values()
    at = ("-b", broker.address)
    secured.make_user("dora", "first-password", "Topic:orders", "Pub")
    until(lambda: send(node, "orders", "dora", "first-password") == 201, WAIT_S, node.text)
    assert "success" in secured.mqadmin("updateUser", *at, "-u", "dora", "-p", "second-password")
    until(lambda: send(node, "orders", "dora", "second-password") == 201, WAIT_S, node.text)
    assert send(node, "orders", "dora", "first-password") == 401
    assert send(node, "others", "dora", "second-password") == 403
    given = ("-s", "User:dora", "-r", "Topic:others", "-a", "Pub", "-d", "Allow")
    assert "success" in secured.mqadmin("createAcl", *at, *given)
    until(lambda: send(node, "others", "dora", "second-password") == 201, WAIT_S, node.text)
    assert "success" in secured.mqadmin("updateUser", *at, "-u", "dora", "-s", "disable")
    until(lambda: send(node, "others", "dora", "second-password") == 401, WAIT_S, node.text)


def test_policies_decide_as_at_the_broker(secured: SecuredCluster, node: Node) -> None:
    secured.make_user("judge", "password-of-judge", "Topic:unused", "Pub")
    for resource, actions, decision, kind, sources in BASE_POLICIES:
        secured.add_policy("judge", resource, *actions, decision=decision, kind=kind, sources=sources)
    for topic in VERDICTS:
        secured.make_topic(topic)
    until(lambda: send(node, "verdict-plain", "judge", "password-of-judge") == 201, WAIT_S, node.text)
    (broker,) = secured.brokers.values()
    tls, key = Tls(str(secured.certificate)), KeyPlace(str(secured.key_of("judge", "password-of-judge")))
    theirs: dict[str, bool] = {}
    link = Link(broker.address, 10, tls, key)
    try:
        for topic in VERDICTS:
            fields = {
                "a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0",
                "k": "false", "m": "false", "n": "broker-a",
            }  # fmt: skip
            (reply,) = link.ask([(codes.SEND_V2, fields, f"verdict {random.random()}".encode())])
            assert reply.code in (codes.SUCCESS, codes.NO_PERMISSION), reply.remark
            theirs[topic] = reply.code == codes.SUCCESS
    finally:
        link.close()

    def ours() -> dict[str, bool]:
        return {topic: send(node, topic, "judge", "password-of-judge") == 201 for topic in VERDICTS}

    # The policies are made one by one, and a gateway may have read them in between.
    until(lambda: ours() == theirs, WAIT_S, lambda: f"{ours()} at the gateway, {theirs} at the broker")
    assert set(theirs.values()) == {True, False}


def test_a_super_user_of_the_cluster_administers_the_gateway(node: Node) -> None:
    page = node.admin("/metrics", ":".join(ADMIN))
    assert "headgate_cluster_users " in page
    assert "headgate_relay_clients " in page
    with pytest.raises(urllib.error.HTTPError, match="403"):
        node.admin("/metrics", f"alice:{PASSWORD}")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        node.admin("/metrics")


def test_a_gateway_with_a_state_node_has_the_users_of_the_cluster_too(secured: SecuredCluster, tmp_path: Path) -> None:
    state = gateway(secured, tmp_path / "state")
    state = Node(
        state.folder, "--roles", "store", "--store", f"rocketmq://{secured.nameserver.address}", *state.options[-2:],
        environment=state.environment, verb="run",
    )  # fmt: skip
    with state:
        more = {"HEADGATE_STORE_STATE_ACCESS_KEY_FILE": str(secured.key_file)}
        front = gateway(secured, tmp_path / "front", "--state", f"127.0.0.1:{state.port('remoting')}")
        front.environment.update(more)
        with front:
            assert Mqtt(front, paho.MQTTv5, "m2", "alice", "wrong").code == 0x86
            client = Mqtt(front, paho.MQTTv5, "m2", "alice", PASSWORD)
            assert client.code == 0
            assert client.subscribe("orders/#", "others/#") == [1, 0x87]
            assert client.publish("orders/x") == 0
            client.client.disconnect()
            assert send(front, "others", "alice", PASSWORD) == 403


def test_what_keeps_users_from_being_told_is_said_while_the_gateway_waits(secured: SecuredCluster, tmp_path: Path) -> None:
    other = gateway(secured, tmp_path / "gateway")
    other.environment["HEADGATE_STORE_ACCESS_KEY_FILE"] = str(secured.key_of("alice", PASSWORD))
    other.spawn()
    try:

        def notified() -> bool:
            try:
                other.admin("/readyz")
            except urllib.error.HTTPError as error:
                reasons = json.loads(error.read())
                return "does not tell its users" in str(reasons)
            except OSError:
                pass
            return False

        until(notified, WAIT_S, other.text)
    finally:
        other.kill()
