"""More messages than the node can deliver at once: who sends is slowed, and only who does not read loses messages."""

from __future__ import annotations

from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream

V311 = 4
PAIRS = 4
COUNT = 800
BODY = b"x" * 8_000


def client(node: SharedNode, name: str) -> PeerStream:
    stream = node.connect("mqtt")
    stream.send(encode(Connect(V311, name, True, 0, None, None, None, NONE), V311))
    return stream


def subscriber(node: SharedNode, number: int) -> PeerStream:
    stream = client(node, f"sub-{number}")
    stream.send(encode(Subscribe(1, [(f"over/{number}", 0)]), V311))
    return stream


def message(number: int) -> bytes:
    return encode(Publish(f"over/{number}".encode(), BODY, 0, False, False, 0, NONE), V311)


def flood(node: SharedNode, publishers: list[PeerStream]) -> None:
    """Send COUNT messages by each publisher, as fast as the node reads them."""
    for number, stream in enumerate(publishers):
        stream.send(message(number) * COUNT)
    for _ in range(400):
        load = node.run(10)
        load.check()
        if not any(stream.arriving for stream in publishers):
            return
    raise AssertionError("the publishers are slowed for ever")


def test_publishers_are_slowed_and_subscribers_that_read_get_everything() -> None:
    with SharedNode() as node:
        subscribers = [subscriber(node, number) for number in range(PAIRS)]
        publishers = [client(node, f"pub-{number}") for number in range(PAIRS)]
        node.run(20)
        before = [stream.taken for stream in subscribers]
        flood(node, publishers)
        node.run(50)
        got = [(stream.taken - taken) / len(message(0)) for stream, taken in zip(subscribers, before, strict=True)]
        assert got == [COUNT] * PAIRS
        assert node.parts.adapters.streams["mqtt"].lost["slow-reader"] == 0  # type: ignore[attr-defined]


def test_a_subscriber_that_does_not_read_loses_its_own_and_slows_nobody() -> None:
    with SharedNode() as node:
        subscribers = [subscriber(node, number) for number in range(PAIRS)]
        publishers = [client(node, f"pub-{number}") for number in range(PAIRS)]
        node.run(20)
        subscribers[0].reads = False
        before = [stream.taken for stream in subscribers]
        flood(node, publishers)
        node.run(50)
        got = [(stream.taken - taken) / len(message(0)) for stream, taken in zip(subscribers, before, strict=True)]
        assert got[1:] == [COUNT] * (PAIRS - 1)
        assert node.parts.adapters.streams["mqtt"].lost["slow-reader"] > 0  # type: ignore[attr-defined]
