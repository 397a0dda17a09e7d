"""Requests that adapters refuse before they make a command: each refusal is counted once, by its reason."""

from __future__ import annotations

import asyncio
import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import aiocoap
import grpc
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from gateway.client.link import Link
from protocols.grpc.messages import messaging_pb2 as pb
from tests.interop.node import Node
from tests.interop.test_reload import Client
from tests.patience import until

pytestmark = pytest.mark.interop
SERVICE = "/apache.rocketmq.v2.MessagingService/"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("refusals"), "--durability", "page") as running:
        yield running


def counted(node: Node) -> dict[tuple[str, str], int]:
    """All refusals, by protocol and reason."""
    rows = re.findall(r'^headgate_refusals_total{protocol="([^"]+)",reason="([^"]+)"} (\d+)', node.admin("/metrics"), re.M)
    return {(protocol, reason): int(count) for protocol, reason, count in rows}


def added(node: Node, before: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """The refusals counted since `before`."""
    return {key: count - before.get(key, 0) for key, count in counted(node).items() if count != before.get(key, 0)}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("GET", "/nowhere", None, 404, "not-supported"),
        ("DELETE", "/v1/topics/t/messages", None, 405, "not-supported"),
        ("POST", "/v1/groups/g/topics/t:receive?max=many", b"", 400, "argument-illegal"),
        ("POST", "/v1/groups/g/topics/t:ack", b"no JSON", 400, "argument-illegal"),
    ],
)
def test_http(node: Node, method: str, path: str, body: bytes | None, status: int, reason: str) -> None:
    before = counted(node)
    connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=5)
    connection.request(method, path, body)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == status
    assert added(node, before) == {("http", reason): 1}
    connection.close()


def test_a_refusal_of_http_that_ends_the_connection_is_counted_once(node: Node) -> None:
    before = counted(node)
    connection = http.client.HTTPConnection("127.0.0.1", node.port("http"), timeout=5)
    connection.request("GET", "/" + "x" * 100_000)
    assert connection.getresponse().status in (414, 431)
    connection.close()
    until(lambda: bool(added(node, before)), 30)
    assert sum(added(node, before).values()) == 1


@pytest.mark.parametrize(
    ("verb", "request_", "answer", "reason"),
    [
        ("SendMessage", pb.SendMessageRequest(), pb.SendMessageResponse, "message-illegal"),
        ("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="no topic")), pb.QueryRouteResponse, "topic-illegal"),
        ("Heartbeat", pb.HeartbeatRequest(), pb.HeartbeatResponse, "client-unknown"),
    ],
)  # fmt: skip
def test_grpc(node: Node, verb: str, request_: object, answer: type, reason: str) -> None:
    before = counted(node)
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel:
        call = channel.unary_unary(SERVICE + verb, lambda m: m.SerializeToString(), answer.FromString)  # type: ignore[attr-defined]
        assert call(request_, timeout=5, metadata=[("x-mq-client-id", "me")]).status.code != pb.OK
        assert added(node, before) == {("grpc", reason): 1}


@pytest.mark.parametrize(("method", "reason"), [("Nothing", "not-supported"), ("QueryRoute", "malformed")])
def test_grpc_status(node: Node, method: str, reason: str) -> None:
    before = counted(node)
    with grpc.insecure_channel(f"127.0.0.1:{node.port('grpc')}") as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary(SERVICE + method)(b"\xff\xff", timeout=5, metadata=[("x-mq-client-id", "me")])
    assert added(node, before) == {("grpc", reason): 1}


@pytest.mark.parametrize(
    ("code", "fields", "reason"),
    [(29_999, {}, "not-supported"), (11, {"topic": "t"}, "argument-illegal"), (15, {}, "argument-illegal")],
)
def test_remoting(node: Node, code: int, fields: dict[str, str], reason: str) -> None:
    before = counted(node)
    link = Link(f"127.0.0.1:{node.port('remoting')}", 5)
    (reply,) = link.ask([(code, fields, b"")])
    assert reply.code != 0
    assert added(node, before) == {("remoting", reason): 1}
    link.close()


def test_mqtt(node: Node) -> None:
    before = counted(node)
    client = Client(node)
    bad = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    bad.PayloadFormatIndicator = 1
    client.client.publish("t", b"\xff", 1, properties=bad)
    client.client.publish("$SYS/x", b"", 1)
    until(lambda: sorted(client.codes) == [0x87, 0x99], 30)
    client.client.subscribe("$share//t", 1)
    until(lambda: client.granted == [0x8F], 30)
    assert added(node, before) == {("mqtt", "media-type"): 1, ("mqtt", "not-allowed"): 1, ("mqtt", "filter-illegal"): 1}
    client.close()


def test_coap(node: Node) -> None:
    async def ask() -> aiocoap.Message:
        context = await aiocoap.Context.create_client_context()
        try:
            uri = f"coap://127.0.0.1:{node.port('coap')}/mq/a%2Bb"
            return await context.request(aiocoap.Message(code=aiocoap.PUT, uri=uri, payload=b"x")).response
        finally:
            await context.shutdown()

    before = counted(node)
    assert asyncio.run(ask()).code is aiocoap.BAD_REQUEST
    assert added(node, before) == {("coap", "argument-illegal"): 1}


def test_a_connection_that_is_refused_is_counted_once(node: Node, tmp_path: Path) -> None:
    before = counted(node)
    codes: list[int] = []
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "x" * 2_000, protocol=paho.MQTTv5, reconnect_on_failure=False)  # type: ignore[attr-defined]
    client.on_connect = lambda _c, _u, _f, reason, _p: codes.append(reason.value)
    client.connect("127.0.0.1", node.port("mqtt"))
    client.loop_start()
    until(lambda: codes == [0x85], 30)
    client.loop_stop()
    until(lambda: bool(added(node, before)), 30)
    assert added(node, before) == {("mqtt", "client-id"): 1}
