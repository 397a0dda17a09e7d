"""More messages than the node can deliver at once: who sends is slowed, and only who does not read loses messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.connection.intake import UNFINISHED_BYTES_MAX
from protocols.coap.message import message as coap_message
from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe
from protocols.remoting import codes
from tests.neighbours.grpc_peer import GrpcPeer, framed
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream
from tests.neighbours.test_coap import request as datagram
from tests.neighbours.test_grpc import batch
from tests.neighbours.test_remoting import SEND_FIELDS
from tests.neighbours.test_remoting import request as frame

V311 = 4
PAIRS = 4
COUNT = 800
BODY = b"x" * 8_000
LARGE = b"x" * 64_000
STREAMS = 128
OFFERED_BYTES = STREAMS * len(LARGE)
PART = b"x" * 12_000
CONNECTIONS = 512
"""Connections with one message of PART each: three times what the node may have unfinished, and a turn's bytes."""
TURN_BYTES_MAX = 1024 * 1024
"""Bytes of messages that one turn takes beyond the bound: slices of 64 KiB, and what arrives of HTTP/2 in one window."""


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


def mqtt(qos: int) -> Callable[[SharedNode], None]:
    """One publisher of QoS 0 or 1, to a topic without subscribers."""

    def begin(node: SharedNode) -> None:
        stream = client(node, "pub")
        one = encode(Publish(b"over/0", LARGE, qos, False, False, 1 if qos else 0, NONE), V311)
        stream.send(one * (OFFERED_BYTES // len(LARGE)))

    return begin


def remoting(node: SharedNode) -> None:
    """One producer that does not wait for answers."""
    one = frame(codes.SEND, 8, SEND_FIELDS, LARGE)
    node.connect("remoting").send(one * (OFFERED_BYTES // len(LARGE)))


def http(node: SharedNode) -> None:
    """One client that sends requests behind each other."""
    one = b"POST /v1/topics/flood/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(LARGE)
    node.connect("http").send((one + LARGE) * (OFFERED_BYTES // len(LARGE)))


def grpc(node: SharedNode) -> Callable[[], None]:
    """One client that does not wait for answers: as many calls as it may have, within the windows that it is given."""
    peer = GrpcPeer(node)
    data = framed(batch(1, LARGE))
    left = [(peer.open("SendMessage"), data) for _ in range(STREAMS)]

    def more() -> None:
        peer.read()
        while left:
            stream, rest = left.pop(0)
            sent = peer.send_some(stream, rest)
            if sent < len(rest):
                left.insert(0, (stream, rest[sent:]))
                break
        peer.stream.send(peer.take_output())

    return more


def coap(node: SharedNode) -> None:
    """Ports of one host that do not wait for answers."""
    for number in range(OFFERED_BYTES // 1_000):
        data = datagram(coap_message.NON, coap_message.POST, number, "mq/t/flood", bytes(1_000))
        node.datagram(data, port=5_000 + number % 200)


def mqtt_each(qos: int) -> Callable[[SharedNode], Callable[[], None]]:
    """Clients that connect and publish one message each, in one segment."""

    def one(node: SharedNode, number: int) -> PeerStream:
        stream = client(node, f"each-{number}")
        stream.send(encode(Publish(b"over/0", PART, qos, False, False, 1 if qos else 0, NONE), V311))
        return stream

    return each(one)


def remoting_one(node: SharedNode, _: int) -> PeerStream:
    stream = node.connect("remoting")
    stream.send(frame(codes.SEND, 8, SEND_FIELDS, PART))
    return stream


def http_one(node: SharedNode, _: int) -> PeerStream:
    stream = node.connect("http")
    head = b"POST /v1/topics/flood/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(PART)
    stream.send(head + PART)
    return stream


def grpc_one(node: SharedNode, _: int) -> PeerStream:
    peer = GrpcPeer(node)
    peer.send_some(peer.open("SendMessage"), framed(batch(1, PART)))
    peer.stream.send(peer.take_output())
    return peer.stream


def each(one: Callable[[SharedNode, int], PeerStream]) -> Callable[[SharedNode], Callable[[], None]]:
    """A new connection for each message; some of them in each turn, since a node has no more than so many new ones at once."""

    def begin(node: SharedNode) -> Callable[[], None]:
        open_ = 0

        def more() -> None:
            nonlocal open_
            for _ in range(4):
                if open_ < CONNECTIONS:
                    one(node, open_)
                    open_ += 1

        return more

    return begin


@pytest.mark.parametrize(
    "offer",
    [mqtt_each(0), mqtt_each(1), each(remoting_one), each(http_one), each(grpc_one)],
    ids=["mqtt-0", "mqtt-1", "remoting", "http", "grpc"],
)
def test_connections_with_one_message_each_do_not_go_around_it(offer: Callable[[SharedNode], Callable[[], None]]) -> None:
    with SharedNode(measures=False) as node:
        node.disk.sync_ms = 1_000.0
        goes_on = offer(node)
        most = 0
        for _ in range(250):
            goes_on()
            node.turn()
            most = max(most, node.parts.unfinished_bytes())
        assert UNFINISHED_BYTES_MAX < most <= UNFINISHED_BYTES_MAX + TURN_BYTES_MAX


@pytest.mark.parametrize(
    "offer", [mqtt(0), mqtt(1), remoting, http, grpc, coap], ids=["mqtt-0", "mqtt-1", "remoting", "http", "grpc", "coap"]
)
def test_no_more_is_taken_than_the_store_takes(offer: Callable[[SharedNode], Callable[[], None] | None]) -> None:
    with SharedNode(measures=False) as node:
        node.disk.sync_ms = 1_000.0
        goes_on = offer(node)
        most = 0
        for _ in range(1_000):
            if goes_on is not None:
                goes_on()
            node.turn()
            most = max(most, node.parts.unfinished_bytes())
        assert UNFINISHED_BYTES_MAX < most <= UNFINISHED_BYTES_MAX + TURN_BYTES_MAX
