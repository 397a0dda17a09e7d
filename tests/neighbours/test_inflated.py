"""Small compressed messages of an SDK that become large for devices: neither memory nor neighbours pay for it."""

from __future__ import annotations

import zlib

import pytest

from domain.message.message import SYS_COMPRESSED
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe
from protocols.remoting import codes
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream
from tests.neighbours.test_remoting import SEND_FIELDS, request

V311 = 4
MESSAGES = 40
PLAIN = 2 * 1024 * 1024
GROWN_MIB = 40


def subscriber(node: SharedNode, name: str, qos: int) -> PeerStream:
    stream = node.connect("mqtt")
    stream.send(encode(Connect(V311, name, True, 0, None, None, None, NONE), V311))
    stream.send(encode(Subscribe(1, [("flood/#", qos)]), V311))
    return stream


def body(number: int) -> bytes:
    return b"number-%03d." % number + bytes(PLAIN)


@pytest.mark.parametrize("qos", [0, 1])
def test_compressed_messages_are_inflated_as_they_are_read(qos: int) -> None:
    with SharedNode() as node:
        streams = [subscriber(node, "reads", qos), subscriber(node, "reads-too", qos)]
        deaf = subscriber(node, "deaf", qos)
        node.run(10)
        deaf.reads = False
        sender = node.connect("remoting")
        fields = {**SEND_FIELDS, "sysFlag": str(SYS_COMPRESSED), "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
        sender.send(b"".join(request(codes.SEND, at, fields, zlib.compress(body(at))) for at in range(MESSAGES)))
        before = [stream.taken for stream in streams]
        for _ in range(30):
            load = node.run(5)
            load.check()
            assert load.grown_bytes < GROWN_MIB << 20, load
        sizes = [len(encode(Publish(b"flood", body(at), qos, False, False, 1, NONE), V311)) for at in range(MESSAGES)]
        assert [stream.taken - taken for stream, taken in zip(streams, before, strict=True)] == [sum(sizes)] * 2
