"""A gateway in a process before a real Apache cluster: every protocol in, Apache's own side out, and the reverse."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from typing import Any

import aiocoap
import pytest

from gateway.brokers.empty_body import MARKED_BODY
from gateway.client.client import Client
from gateway.client.link import Link
from protocols.remoting import codes
from tests.interop.coap.one_request import coap_request
from tests.interop.http_api import request
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node
from tests.interop.rocketmq.apache import ApacheCluster
from tests.interop.rocketmq.gateway import gateway_before
from tests.interop.rocketmq.near import send
from tests.patience import until
from tests.stored_records import stored_bodies

WAIT_S = 30.0


@pytest.fixture(scope="module")
def gateway(apache: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A gateway before the cluster."""
    node = gateway_before(apache.nameserver.address, tmp_path_factory.mktemp("gateway"))
    node.start()
    try:
        yield node
    finally:
        node.kill()


class Subscriber(PahoClient):
    """A client whose session outlives its connections."""

    def __init__(self, node: Node, name: str, *filters: str, clean: bool = False, expiry_s: int = 3_600, **more: Any) -> None:
        super().__init__(node, name, *filters, clean=clean, expiry_s=expiry_s, **more)


def test_what_every_protocol_sends_is_at_apaches_own_side(apache: ApacheCluster, gateway: Node, near: Client) -> None:
    apache.make_topic("inbound", "NORMAL")
    assert request(gateway, "POST", "/v1/topics/inbound/messages", b"http")[0] == 201
    event = {"ce_id": "1", "ce_source": "/here", "ce_type": "made", "ce_specversion": "1.0", "content_type": "text/plain"}
    assert request(gateway, "POST", "/ce/inbound", b"cloudevent", **event)[0] == 204
    publisher = Subscriber(gateway, "publisher")
    for qos in range(3):
        publisher.publish("inbound/of/mqtt", b"qos%d" % qos, qos)
    publisher.leave()
    assert coap_request(gateway, aiocoap.POST, "/mq/inbound/of/coap", b"coap").code == aiocoap.CREATED
    wanted = [b"cloudevent", b"coap", b"http", b"qos0", b"qos1", b"qos2"]
    until(lambda: sorted(stored_bodies(near, "inbound")) == wanted, WAIT_S, lambda: str(stored_bodies(near, "inbound")))


def test_messages_without_a_body_pass_the_cluster(apache: ApacheCluster, gateway: Node, near: Client) -> None:
    """Brokers store none of them: each has a marked body there, and none at the gateway."""
    apache.make_topic("bodiless", "NORMAL")
    listener = Subscriber(gateway, "empty-listener", "bodiless/#")
    publisher = Subscriber(gateway, "empty-publisher")
    publisher.publish("bodiless/kept", b"value", 1, retain=True)
    for qos in range(3):
        publisher.publish("bodiless/kept", b"", qos, retain=True)
    until(lambda: listener.bodies() == [b"value", b"", b"", b""], WAIT_S, lambda: str(listener.bodies()))
    assert coap_request(gateway, aiocoap.POST, "/mq/bodiless/kept", b"").code == aiocoap.CREATED
    assert request(gateway, "POST", "/v1/topics/bodiless/messages", b"")[0] == 201
    event = {"ce_id": "1", "ce_source": "/here", "ce_type": "made", "ce_specversion": "1.0"}
    assert request(gateway, "POST", "/ce/bodiless", b"", **event)[0] == 204
    late = Subscriber(gateway, "empty-late", "bodiless/#")
    assert late.bodies() == []
    for client in (listener, publisher, late):
        client.leave()
    found: list[bytes] = []

    def receive() -> bool:
        path = "/v1/groups/empty-readers/topics/bodiless:receive?max=8&wait_ms=1000&invisible_ms=60000"
        code, answer = request(gateway, "POST", path)
        found.extend(base64.b64decode(each["body"]) for each in (json.loads(answer)["messages"] if code == 200 else ()))
        return len(found) == 7

    until(receive, WAIT_S, lambda: str(found))
    assert sorted(found) == [b""] * 6 + [b"value"]
    queues = near.bounds(near.route("bodiless").queues).items()
    kept = b"".join(pull.body for queue, edges in queues for pull in near.scan(queue, edges.first, edges.after))
    assert kept.count(MARKED_BODY) == 6, kept


def test_what_apaches_side_sends_is_received_and_acknowledged_over_http(
    apache: ApacheCluster, gateway: Node, near: Client
) -> None:
    apache.make_topic("outbound", "NORMAL")
    for number in range(10):
        near.send("outbound", b"m%d" % number)
    found: set[bytes] = set()
    path = "/v1/groups/readers/topics/outbound"

    def receive() -> bool:
        code, answer = request(gateway, "POST", f"{path}:receive?max=8&wait_ms=1000&invisible_ms=60000")
        if code != 200:
            return False
        messages = json.loads(answer)["messages"]
        found.update(base64.b64decode(each["body"]) for each in messages)
        receipts = json.dumps({"receipts": [each["receipt"] for each in messages]}).encode()
        assert all(each["ok"] for each in json.loads(request(gateway, "POST", f"{path}:ack", receipts)[1])["results"])
        return len(found) == 10

    until(receive, WAIT_S, lambda: str(found))


def lag_of(node: Node, name: str, group: str, topic: str) -> float:
    """A row of the metrics page; -1: there is none."""
    begin = f'headgate_{name}{{group="{group}",topic="{topic}"}}'
    rows = [row for row in node.admin("/metrics").splitlines() if row.startswith(begin)]
    return float(rows[0].split()[-1]) if rows else -1


MODELS = {"CLUSTERING": 4, "BROADCASTING": 0}
"""Model of a group -> messages that it lacks."""


@pytest.fixture(scope="module")
def behind(apache: ApacheCluster, gateway: Node) -> Iterator[None]:
    """Groups that lack messages. Figures of groups are looked for every 30 s: those of all tests at once."""
    apache.make_topic("outside", "NORMAL")
    apache.make_group("outsiders")
    send(apache, "broker-a", "outside", [f"m{number}" for number in range(10)])
    position = {"consumerGroup": "outsiders", "topic": "outside", "queueId": "0", "commitOffset": "3"}
    apache.ask(apache.brokers["broker-a"].address, codes.UPDATE_OFFSET, position)
    links = []
    for model in MODELS:
        topic = f"relayed-{model}"
        apache.make_topic(topic, "NORMAL")
        send(apache, "broker-a", topic, [f"m{number}" for number in range(4)])
        subscription = {
            "topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 1, "tagsSet": [], "codeSet": [],
        }  # fmt: skip
        consumer = {
            "groupName": f"relayed-lag-{model}", "consumeType": "CONSUME_PASSIVELY", "messageModel": model, "unitMode": False,
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
        }  # fmt: skip
        body = {"clientID": f"me@{model}", "producerDataSet": [], "consumerDataSet": [consumer], "heartbeatFingerprint": 0}
        links.append(Link(f"127.0.0.1:{gateway.port('remoting')}", 10))
        (answer,) = links[-1].ask([(codes.HEARTBEAT, {"a": "b"}, json.dumps(body).encode())])
        assert answer.code == codes.SUCCESS, answer.remark
    yield
    for link in links:
        link.close()


@pytest.mark.usefixtures("behind")
def test_the_lag_of_a_group_that_has_never_received_here_is_on_the_metrics_page(gateway: Node) -> None:
    """Nobody is online: the group has a position at a broker, and no more."""
    until(lambda: lag_of(gateway, "group_lag", "outsiders", "outside") == 7, WAIT_S * 6, gateway.text)
    assert 0 < lag_of(gateway, "group_lag_seconds", "outsiders", "outside") < 3_600


@pytest.mark.usefixtures("behind")
@pytest.mark.parametrize("model", MODELS)
def test_the_lag_of_a_relayed_remoting_client_is_on_the_metrics_page(gateway: Node, model: str) -> None:
    """It is online, and has no position yet. A group that broadcasts never has one: its members keep theirs."""
    group, topic = f"relayed-lag-{model}", f"relayed-{model}"
    until(lambda: lag_of(gateway, "group_lag", group, topic) == MODELS[model], WAIT_S * 6, gateway.text)


def test_the_lag_of_a_group_is_on_the_metrics_page(apache: ApacheCluster, gateway: Node, near: Client) -> None:
    """Before and after the group receives, what is delivered again included, as the brokers tell it."""
    apache.make_topic("lagged", "NORMAL")
    path = "/v1/groups/laggards/topics/lagged"
    assert request(gateway, "POST", f"{path}:receive?max=8&wait_ms=0&invisible_ms=60000")[0] == 204

    def lag(name: str) -> float:
        return lag_of(gateway, name, "laggards", "lagged")

    until(lambda: lag("group_lag") == 0, WAIT_S * 2, gateway.text)
    for number in range(10):
        near.send("lagged", b"m%d" % number)
    until(lambda: lag("group_lag") == 10, WAIT_S * 2, gateway.text)
    until(lambda: 0 < lag("group_lag_seconds") < 3_600, WAIT_S, gateway.text)
    given_back: set[str] = set()

    def receive_all() -> bool:
        messages = json.loads(request(gateway, "POST", f"{path}:receive?max=8&wait_ms=100&invisible_ms=60000")[1] or b"{}")
        for each in messages.get("messages", ()):
            verb = "ack" if given_back else "nack"
            given_back.add(each["id"])
            answer = request(gateway, "POST", f"{path}:{verb}", json.dumps({"receipts": [each["receipt"]]}).encode())
            assert json.loads(answer[1])["results"][0]["ok"], answer
        return lag("group_lag") == 0

    until(receive_all, WAIT_S * 4, gateway.text)


def test_mqtt_gets_what_apaches_side_sends_live_and_while_it_was_away(
    apache: ApacheCluster, gateway: Node, near: Client
) -> None:
    apache.make_topic("watched", "NORMAL")
    subscriber = Subscriber(gateway, "watcher", "watched/#", clean=True)
    near.send("watched", b"live")
    subscriber.until(b"live")
    subscriber.leave()
    for number in range(20):
        near.send("watched", b"away%d" % number)
    back = Subscriber(gateway, "watcher")
    back.until(*(b"away%d" % number for number in range(20)))
    near.send("watched", b"live again")
    back.until(b"live again")
    assert len(back.got) == 21
    back.leave()


def test_an_offline_session_gets_its_messages_after_the_gateway_was_killed(
    apache: ApacheCluster, gateway: Node, near: Client
) -> None:
    apache.make_topic("survived", "NORMAL")
    subscriber = Subscriber(gateway, "survivor", "survived/#", clean=True)
    near.send("survived", b"before")
    subscriber.until(b"before")
    subscriber.leave()
    for number in range(10):
        near.send("survived", b"a%d" % number)
    gateway.kill()
    for number in range(10):
        near.send("survived", b"b%d" % number)
    gateway.start()
    back = Subscriber(gateway, "survivor")
    back.until(*(b"a%d" % number for number in range(10)), *(b"b%d" % number for number in range(10)))
    near.send("survived", b"after")
    back.until(b"after")
    back.leave()


def test_members_of_a_shared_subscription_share_what_apaches_side_sends(
    apache: ApacheCluster, gateway: Node, near: Client
) -> None:
    apache.make_topic("divided", "NORMAL")
    members = [Subscriber(gateway, f"member-{number}", "$share/crew/divided/#", clean=True) for number in range(2)]
    sent = [b"s%d" % number for number in range(20)]
    for body in sent:
        near.send("divided", body)
    until(lambda: sum(len(each.got) for each in members) >= 20, WAIT_S)
    assert sorted(body for each in members for body in each.bodies()) == sorted(sent)
    for each in members:
        each.leave()


def test_an_observer_gets_what_apaches_side_sends(apache: ApacheCluster, gateway: Node, near: Client) -> None:
    apache.make_topic("observed", "NORMAL")

    async def observe() -> bytes:
        context = await aiocoap.Context.create_client_context()
        uri = f"coap://127.0.0.1:{gateway.port('coap')}/mq/observed"
        request = context.request(aiocoap.Message(code=aiocoap.GET, uri=uri, observe=0))
        assert (await request.response).code == aiocoap.CONTENT
        assert request.observation is not None
        notifications = aiter(request.observation)
        await asyncio.to_thread(near.send, "observed", b"seen")
        found = bytes((await asyncio.wait_for(anext(notifications), WAIT_S)).payload)
        await context.shutdown()
        return found

    assert asyncio.run(observe()) == b"seen"


def test_a_dead_broker_delays_nobody_and_is_used_again_when_it_is_back(
    apache: ApacheCluster, gateway: Node, near: Client
) -> None:
    apache.make_topic("failing", "NORMAL")
    broker = apache.brokers["broker-b"]
    broker.kill()
    try:
        for number in range(12):
            code, answer = request(gateway, "POST", "/v1/topics/failing/messages", b"f%d" % number)
            assert code == 201, answer
    finally:
        apache.restart("broker-b")
    route = near.route("failing")

    def is_used() -> bool:
        request(gateway, "POST", "/v1/topics/failing/messages", b"again")
        return any(queue.broker == "broker-b" and edges.after for queue, edges in near.bounds(route.queues).items())

    until(is_used, WAIT_S * 2)
    assert {b"f%d" % number for number in range(12)} <= set(stored_bodies(near, "failing"))


def test_what_the_cluster_has_no_place_for_is_refused_by_name(gateway: Node) -> None:
    code, answer = request(gateway, "PUT", "/v1/topics/short", b'{"retention_ms":1000}', content_type="application/json")
    assert (code, b"retention_ms" in answer) == (501, True)
    code, answer = request(gateway, "PUT", "/v1/topics/lites", b'{"type":"LITE"}', content_type="application/json")
    assert (code, b"LITE" in answer) == (501, True)
    document = b'{"source":"orders","sink":"https://example.com/hook","protocol":"HTTP"}'
    for method, path, body in (
        ("POST", "/subscriptions", document), ("GET", "/subscriptions", None), ("GET", "/subscriptions/x", None),
        ("PUT", "/subscriptions/x", document), ("POST", "/subscriptions/x:test", b""), ("POST", "/v1/groups/g:redrive", b""),
    ):  # fmt: skip
        code, answer = request(gateway, method, path, body)
        assert (code, b"Apache RocketMQ cluster" in answer) == (501, True), answer
    text = gateway.text()
    assert "not to be had" in text
    assert "ASYNC_FLUSH" in text
    assert json.loads(gateway.admin("/readyz"))["ready"] is True
