"""Large packets and frames that are not completed: what they hold is bounded over all connections, and none is lost by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocols.host_shares import REQUESTS_BYTES_MAX
from protocols.mqtt.packet import encode as packet
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.remoting import codes
from protocols.remoting.wire.frame import encode as frame
from protocols.remoting.wire.header import JSON
from tests.neighbours.node import SharedNode
from tests.neighbours.socket import PeerStream
from tests.neighbours.test_mqtt import V311, connect
from tests.neighbours.test_remoting import SEND_FIELDS

BODY = bytes(4 * 1024 * 1024 - 1024)
COUNT = 24
REST = 10


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as running:
        yield running


def opened(node: SharedNode, protocol: str, host: str, number: int = 0) -> PeerStream:
    stream = node.connect(protocol, host)
    if protocol == "mqtt":
        stream.send(connect(f"{host}-{number}"))
    node.run(5)
    return stream


def message(protocol: str) -> bytes:
    """A message of 4 MiB that is answered."""
    if protocol == "mqtt":
        return packet(Publish(b"flood/a", BODY, 1, False, False, 7, NONE), V311)
    return frame(codes.SEND, 7, fields=SEND_FIELDS, body=BODY, serialize=JSON)


def until_answered(node: SharedNode, streams: list[PeerStream], before: list[int]) -> None:
    for _ in range(200):
        node.run(5).check()
        if all(stream.taken > taken for stream, taken in zip(streams, before, strict=True)):
            return
        node.idle(0.2)
    raise AssertionError([(stream.arriving, stream.closed) for stream in streams])


@pytest.mark.parametrize("protocol", ["mqtt", "remoting"])
def test_packets_that_are_not_completed_share_one_bound_and_wait_for_room(node: SharedNode, protocol: str) -> None:
    whole = message(protocol)
    streams = [opened(node, protocol, "10.0.0.66", number) for number in range(COUNT)]
    before = [stream.taken for stream in streams]
    for stream in streams:
        stream.send(whole[:-REST])
    for _ in range(30):
        node.run(10).check()
    held = node.parts.uploads.bytes_held
    assert 0 < held <= REQUESTS_BYTES_MAX // 2
    assert 0 < sum(stream.arriving == 0 for stream in streams) <= held // len(whole)

    other = opened(node, protocol, "10.0.0.67")
    taken = other.taken
    other.send(whole)
    until_answered(node, [other], [taken])

    for stream in streams:
        stream.send(whole[-REST:])
    until_answered(node, streams, before)
    assert node.parts.uploads.bytes_held == 0


def test_who_waits_for_room_may_leave(node: SharedNode) -> None:
    whole = message("mqtt")
    streams = [opened(node, "mqtt", "10.0.0.66", number) for number in range(COUNT)]
    for stream in streams:
        stream.send(whole[:-REST])
    node.run(100)
    for stream in streams:
        stream.hang_up(reset=True)
    node.idle(1)
    node.run(20)
    assert node.parts.uploads.bytes_held == 0
