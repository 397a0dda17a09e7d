"""Two gateways before a real Apache cluster with one state node: what their clients have is the same at both."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gateway.client.client import Client
from gateway.client.link import Link
from gateway.client.security import KeyPlace
from protocols.remoting import codes
from tests.interop.grpc.stub_consumer import StubConsumer, bodies
from tests.interop.http_api import request
from tests.interop.node import Node
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.test_gateway import WAIT_S, Subscriber
from tests.patience import until
from tests.stored_records import stored_bodies


def state_node(apache: ApacheCluster, folder: Path, *options: str) -> Node:
    """A node that has the state of gateways before the cluster. It is not started."""
    return Node(folder, "--roles", "store", "--store", f"rocketmq://{apache.nameserver.address}", *options, verb="run")


class Common(NamedTuple):
    """A state node, and two gateways that have it in common."""

    state: Node
    a: Node
    b: Node


@pytest.fixture(scope="module")
def common(apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Common]:
    """All of it started once. A test that kills one of them starts it again."""
    state = state_node(apache, tmp_path_factory.mktemp("state"))
    nodes = [state]
    try:
        state.start()
        where = f"127.0.0.1:{state.port('remoting')}"
        for name in "ab":
            folder = tmp_path_factory.mktemp(f"gateway-{name}")
            nodes.append(gateway_before(apache.nameserver.address, folder, "--state", where).start())
        yield Common(*nodes)
    finally:
        for node in reversed(nodes):
            node.kill()


def test_a_session_goes_on_at_the_other_gateway(apache: ApacheCluster, common: Common, near: Client) -> None:
    apache.make_topic("moved", "NORMAL")
    first = Subscriber(common.a, "mover", "moved/#", clean=True)
    first.publish("moved/x", b"qos2 out", 2)
    first.until(b"qos2 out")
    first.leave()
    near.send("moved", b"apache")
    assert request(common.b, "POST", "/v1/topics/moved/messages", b"http")[0] == 201
    second = Subscriber(common.b, "mover")
    second.until(b"apache", b"http")
    near.send("moved", b"live")
    second.until(b"live")
    assert sorted(second.bodies()) == [b"apache", b"http", b"live"]
    second.leave()


def test_qos_2_messages_for_a_session_arrive_once_over_two_gateways(apache: ApacheCluster, common: Common) -> None:
    apache.make_topic("exact", "NORMAL")
    first = Subscriber(common.a, "exact-reader", clean=True)
    first.client.subscribe("exact/#", 2)
    until(lambda: bool(first.subscribed), WAIT_S)
    first.leave()
    sender = Subscriber(common.b, "exact-sender", clean=True)
    sent = [b"e%d" % number for number in range(30)]
    for body in sent[:15]:
        sender.publish("exact/one", body, 2)
    second = Subscriber(common.b, "exact-reader")
    second.until(*sent[:15])
    for body in sent[15:]:
        sender.publish("exact/one", body, 2)
    second.until(*sent)
    assert sorted(second.bodies()) == sorted(sent)
    for each in (second, sender):
        each.leave()


def test_a_client_that_connects_at_the_other_gateway_takes_its_session_over(common: Common, apache: ApacheCluster) -> None:
    apache.make_topic("taken", "NORMAL")
    first = Subscriber(common.a, "taker", "taken/#", clean=True)
    first.client.reconnect_delay_set(3_600, 3_600)
    second = Subscriber(common.b, "taker")
    until(lambda: bool(first.lost), WAIT_S)
    assert request(common.a, "POST", "/v1/topics/taken/messages", b"for the second")[0] == 201
    second.until(b"for the second")
    assert first.got == []
    first.client.loop_stop()
    second.leave()


def test_a_retained_value_that_is_set_at_one_gateway_is_seen_at_the_other(common: Common, apache: ApacheCluster) -> None:
    apache.make_topic("kept", "NORMAL")
    publisher = Subscriber(common.a, "keeper", clean=True)
    publisher.publish("kept/room", b"21", 1, retain=True)
    publisher.leave()
    assert request(common.b, "GET", "/v1/latest/kept/room") == (200, b"21")
    sent = request(common.b, "POST", "/v1/topics/kept/room/messages", b"22", mq_retain="true")
    assert sent[0] == 201, sent
    late = Subscriber(common.a, "late", "kept/#", clean=True, port="websocket")
    late.until(b"22")
    late.leave()
    assert request(common.a, "DELETE", "/v1/latest/kept/room")[0] == 204
    assert request(common.b, "GET", "/v1/latest/kept/room")[0] == 404


def test_members_at_both_gateways_share_a_subscription(common: Common, apache: ApacheCluster, near: Client) -> None:
    apache.make_topic("halved", "NORMAL")
    members = [Subscriber(node, f"half-{at}", "$share/halves/halved/#", clean=True) for at, node in enumerate(common[1:])]
    sent = [b"h%d" % number for number in range(40)]
    for body in sent:
        near.send("halved", body)
    until(lambda: sum(len(each.got) for each in members) >= 40, WAIT_S, lambda: str([each.bodies() for each in members]))
    assert sorted(body for each in members for body in each.bodies()) == sorted(sent)
    assert all(each.got for each in members)
    for each in members:
        each.leave()


def test_an_idempotency_key_counts_at_both_gateways(common: Common, apache: ApacheCluster, near: Client) -> None:
    apache.make_topic("once", "NORMAL")
    answers = [
        request(node, "POST", "/v1/topics/once/messages", b"only", idempotency_key='"k-1"')
        for node in (common.a, common.b, common.a)
    ]
    assert [status for status, _ in answers] == [201, 201, 201]
    assert len({json.loads(body)["id"] for _, body in answers}) == 1
    assert request(common.b, "POST", "/v1/topics/once/messages", b"another", idempotency_key='"k-1"')[0] == 422
    assert stored_bodies(near, "once") == [b"only"]


def test_a_will_is_sent_when_the_gateway_of_its_client_is_killed(common: Common, apache: ApacheCluster, near: Client) -> None:
    apache.make_topic("last", "NORMAL")
    mourner = Subscriber(common.b, "mourner", "last/#", clean=True)
    mortal = Subscriber(common.a, "mortal", clean=True, will=("last/words", b"gone"), expiry_s=0)
    mortal.client.reconnect_delay_set(3_600, 3_600)
    common.a.kill()
    try:
        mourner.until(b"gone")
    finally:
        common.a.start()
    mortal.client.loop_stop()
    mourner.leave()


def test_nothing_acknowledged_is_lost_when_a_gateway_and_the_state_node_are_killed(
    common: Common, apache: ApacheCluster, near: Client
) -> None:
    apache.make_topic("tried", "NORMAL")
    reader = Subscriber(common.a, "tried-reader", "tried/#", clean=True)
    sender = Subscriber(common.b, "tried-sender", clean=True)
    accepted: list[bytes] = []
    unsure: dict[int, bytes] = {}
    answers: dict[int, bool] = {}
    sender.client.on_publish = lambda _client, _data, mid, code, _props: answers.update({mid: not code.is_failure})

    def accept(*bodies: bytes) -> None:
        for at, body in enumerate(bodies):
            assert request(common.b, "POST", "/v1/topics/tried/messages", body)[0] == 201
            near.send("tried", b"near " + body)
            accepted.extend((body, b"near " + body))
            if at % 2:
                # Answered when the state node is there, or refused when it is given up.
                unsure[sender.client.publish("tried/x", b"mqtt " + body, 1 + at % 4 // 2).mid] = b"mqtt " + body

    accept(*(b"whole %d" % number for number in range(4)))
    reader.until(*accepted)
    reader.client.loop_stop()  # it would come back with a clean start
    common.a.kill()
    accept(*(b"without the gateway %d" % number for number in range(8)))
    common.state.kill()
    accept(*(b"without both %d" % number for number in range(8)))
    common.state.start()
    accept(*(b"without the gateway again %d" % number for number in range(4)))
    common.state.kill()
    common.state.start()
    common.a.start()
    until(lambda: unsure.keys() <= answers.keys(), WAIT_S)
    accepted.extend(body for mid, body in unsure.items() if answers[mid])
    assert b"mqtt without the gateway 1" in accepted
    back = Subscriber(common.a, "tried-reader")
    wanted = set(accepted)
    until(lambda: wanted <= {*reader.bodies(), *back.bodies()}, WAIT_S, lambda: str(back.bodies()))
    back.leave()
    sender.leave()


def test_without_the_state_node_what_needs_none_goes_on(common: Common, apache: ApacheCluster) -> None:
    apache.make_topic("ongoing", "NORMAL")
    apache.make_group("ongoing-group")
    path = "/v1/topics/ongoing/messages"
    watcher = Subscriber(common.a, "waiting", "ongoing/#", clean=True)
    watcher.client.reconnect_delay_set(3_600, 3_600)
    assert request(common.a, "POST", path, b"with key", idempotency_key='"o-1"')[0] == 201
    common.state.kill()
    try:
        with StubConsumer(common.a, "ongoing", "ongoing-group") as grpc:
            until(lambda: bool(watcher.lost), WAIT_S)
            for number in range(5):
                grpc.send(b"g%d" % number)
            assert request(common.b, "POST", path, b"http")[0] == 201
            wanted = {b"with key", b"http", *(b"g%d" % number for number in range(5))}
            got: set[bytes] = set()
            limit = time.monotonic() + WAIT_S
            while got != wanted:
                assert time.monotonic() < limit, got
                messages = grpc.attempt(f"attempt-{len(got)}-{time.monotonic()}", 8)
                grpc.acknowledge(messages)
                got |= set(bodies(messages))
        assert request(common.a, "GET", "/v1/latest/ongoing/x")[0] == 503
        assert request(common.a, "POST", path, b"again", idempotency_key='"o-1"')[0] == 503
        assert json.loads(common.a.admin("/readyz"))["ready"] is True
        assert "headgate_gateway_store_connected 0" in common.a.admin("/metrics")
    finally:
        common.state.start()
    watcher.client.loop_stop()
    watcher = Subscriber(common.b, "waiting")
    watcher.until(b"http", *(b"g%d" % number for number in range(5)))
    until(lambda: request(common.a, "POST", path, b"with key", idempotency_key='"o-1"')[0] == 201, WAIT_S)
    watcher.leave()


def test_users_of_the_state_node_count_at_a_gateway(apache: ApacheCluster, tmp_path: Path) -> None:
    admin = "root:r00t-and-branch"
    key = tmp_path / "key"
    key.write_text(f"{admin}\n")
    apache.make_topic("guarded", "NORMAL")
    with state_node(apache, tmp_path / "state", "--admin", admin) as state:
        where = f"127.0.0.1:{state.port('remoting')}"
        folder = tmp_path / "gateway"
        with gateway_before(apache.nameserver.address, folder, "--state", where, state_access_key_file=key) as gateway:
            link = Link(where, WAIT_S, None, KeyPlace(str(key)))

            def administer(code: int, fields: dict[str, str], body: object = None) -> None:
                [answer] = link.ask([(code, fields, json.dumps(body).encode() if body else b"")])
                assert answer.code == 0, answer.remark

            def sent(user: str, **more: str) -> int:
                authorization = "Basic " + base64.b64encode(user.encode()).decode()
                return request(gateway, "POST", "/v1/topics/guarded/messages", b"m", authorization=authorization, **more)[0]

            alice = "alice:a-password"
            assert sent(admin) == 201
            assert sent(alice) == 401
            user = {"username": "alice", "password": "a-password", "userType": "Normal", "userStatus": "enable"}
            administer(codes.CREATE_USER, {"username": "alice"}, user)
            until(lambda: sent(alice) == 403, WAIT_S)
            entry = {"resource": "Topic:guarded", "actions": ["Pub"], "decision": "Allow"}
            policies = [{"policyType": "Custom", "entries": [entry]}]
            administer(codes.CREATE_ACL, {"subject": "User:alice"}, {"subject": "User:alice", "policies": policies})
            until(lambda: sent(alice) == 201, WAIT_S)
            assert sent(alice, mq_retain="true") == 201
            state.kill()
            assert sent(alice) == 201
            state.start()
            link.close()
            link = Link(where, WAIT_S, None, KeyPlace(str(key)))
            administer(codes.DELETE_USER, {"username": "alice"})
            until(lambda: sent(alice) == 401, WAIT_S)
            link.close()
