"""One message to thousands of subscribers: neighbours are served between them, and each subscriber gets all in order."""

from __future__ import annotations

import pytest

from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream

V311, V5 = 4, 5
SUBSCRIBERS = 3_000
MESSAGES = 4


def subscriber(node: SharedNode, number: int, qos: int) -> PeerStream:
    stream = node.connect("mqtt")
    stream.send(
        encode(Connect(V311, f"sub-{number}", True, 0, None, None, None, NONE), V311)
        + encode(Subscribe(1, [("fan/#", qos)]), V311)
    )
    return stream


@pytest.mark.parametrize("qos", [0, 1])
def test_a_message_to_thousands_of_subscribers_is_delivered_in_slices(qos: int) -> None:
    with SharedNode() as node:
        streams = []
        for number in range(SUBSCRIBERS):
            streams.append(subscriber(node, number, qos))
            if number % 50 == 49:
                node.turn()
        for _ in range(30):
            node.turn()
        before = [stream.taken for stream in streams]
        publisher = node.connect("mqtt")
        publisher.send(encode(Connect(V5, "pub", True, 0, None, None, None, Properties()), V5))
        for number in range(MESSAGES):
            publisher.send(encode(Publish(b"fan/x", b"number-%d" % number, qos, False, False, number + 1, Properties()), V5))
        for _ in range(16):
            node.run(5).check()
        wanted = [b"number-%d" % number for number in range(MESSAGES)]
        for stream, taken in zip(streams, before, strict=True):
            assert stream.taken > taken
            places = [bytes(stream.received).find(each) for each in wanted]
            assert min(places) >= 0
            assert places == sorted(places)
