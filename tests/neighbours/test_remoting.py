"""One remoting peer floods, inflates and names thousands of things in one request, at either of its ports."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import orjson
import pytest

from protocols.remoting import codes
from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import FLAG_ONEWAY, JSON
from tests.neighbours.node import SharedNode

SEND_FIELDS = {
    "producerGroup": "p", "topic": "flood", "queueId": "0", "sysFlag": "0", "bornTimestamp": "0", "flag": "0",
    "properties": "", "reconsumeTimes": "0", "unitMode": "false",
}  # fmt: skip


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def request(code: int, opaque: int = 1, fields: dict[str, str] | None = None, body: bytes = b"", flag: int = 0) -> bytes:
    return encode(code, opaque, fields=fields or {}, body=body, flag=flag, serialize=JSON)


def heartbeat(client_id: str, groups: int, topics: int) -> bytes:
    subscriptions = [{"topic": f"t{number}", "subString": "*"} for number in range(topics)]
    consumers = [{"groupName": f"{client_id}-{number}", "subscriptionDataSet": subscriptions} for number in range(groups)]
    return request(codes.HEARTBEAT, body=orjson.dumps({"clientID": client_id, "consumerDataSet": consumers}))


@pytest.mark.parametrize(
    "body",
    [
        b'{"clientID":"a","x":[' + b"[]," * 1_000_000 + b"1]}",
        b"{a:[" + b"1," * 50_000 + b"]}",
        b"{a:[" + b"1," * 15_000 + b"]}",
        b"{" + b"{}:1," * 8_000 + b"}",
        b"{'a':" + b"[" * 100_000,
        b'{"a":"' + b"\\u0000" * 100_000,
    ],
    ids=["lists", "dialect", "dialect-small", "object-keys", "depth", "escapes"],
)
def test_bodies_of_many_values_are_refused_before_they_are_read(node: SharedNode, body: bytes) -> None:
    stream = node.connect("remoting")
    stream.send(request(codes.HEARTBEAT, body=body) + request(codes.LOCK_QUEUES, body=body))
    node.run(25).check()
    assert stream.taken > 0


def test_locks_of_many_queues_are_refused_and_fewer_are_answered(node: SharedNode) -> None:
    stream = node.connect("remoting")
    for count in (40_000, 2_048):
        queues = [{"brokerName": "b", "topic": f"t{number}", "queueId": number} for number in range(count)]
        stream.send(request(codes.LOCK_QUEUES, body=orjson.dumps({"consumerGroup": "g", "clientId": "c", "mqSet": queues})))
        node.run(20).check()


def test_headers_of_many_fields_end_the_connection(node: SharedNode) -> None:
    for count in (100_000, 5_000):
        stream = node.connect("remoting")
        stream.send(request(codes.GET_CLUSTER, fields={f"k{number}": "" for number in range(count)}))
        node.run(10).check()
        assert stream.ended


def test_a_heartbeat_of_many_new_groups_takes_many_turns(node: SharedNode) -> None:
    stream = node.connect("remoting")
    stream.send(heartbeat("a", 300, 4) + heartbeat("b", 300, 4))
    node.run(45).check()
    assert stream.taken > 0


def test_a_list_of_topics_is_created_over_many_turns(node: SharedNode) -> None:
    stream = node.connect("remoting")
    for batch in range(2):
        configs = [{"topicName": f"many-{batch}-{number}", "perm": 6} for number in range(500)]
        stream.send(request(codes.UPDATE_TOPIC_LIST, body=orjson.dumps({"topicConfigList": configs})))
    node.run(70).check()
    assert stream.taken > 0


def test_small_requests_pipelined_wait_for_their_turns(node: SharedNode) -> None:
    stream = node.connect("remoting")
    stream.send(b"".join(request(codes.GET_CLUSTER, number) for number in range(4_000)))
    node.run(20).check()


def test_oneway_messages_pipelined_wait_for_their_turns(node: SharedNode) -> None:
    stream = node.connect("remoting")
    stream.send(b"".join(request(codes.SEND, number, SEND_FIELDS, b"x", FLAG_ONEWAY) for number in range(2_000)))
    node.run(20).check()


REGISTRATION = {"brokerName": "other", "brokerAddr": "10.0.0.66:10911", "clusterName": "c", "brokerId": "0"}


def piece(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def packed(count: int) -> bytes:
    topics = b"".join(piece(b"t%d 8 8 6 0" % number) for number in range(count))
    return zlib.compress(piece(b'{"counter":1}') + count.to_bytes(4, "big") + topics)


def plain(count: int) -> bytes:
    config = {"order": False, "perm": 6, "readQueueNums": 8, "writeQueueNums": 8, "topicSysFlag": 0}
    topics = {f"t{number}": config for number in range(count)}
    return orjson.dumps({"topicConfigSerializeWrapper": {"dataVersion": {"counter": 1}, "topicConfigTable": topics}})


@pytest.mark.parametrize(("body", "compressed"), [(packed(10_000), "true"), (plain(8_000), "false"), (plain(40_000), "false")])
def test_a_registration_of_many_topics_takes_many_turns(node: SharedNode, body: bytes, compressed: str) -> None:
    stream = node.connect("nameserver")
    stream.send(request(codes.REGISTER_BROKER, fields={**REGISTRATION, "compressed": compressed}, body=body))
    node.run(60).check()
    assert stream.taken > 0
    for code in (codes.GET_TOPICS, codes.WIPE_WRITE, codes.UNREGISTER_BROKER):
        stream.send(request(code, fields=REGISTRATION) * 20)
        node.run(5).check()
