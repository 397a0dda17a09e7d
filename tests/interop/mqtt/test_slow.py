"""Subscribers that stop reading while many messages arrive: the server's memory does not grow, and no message is lost."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Subscribe
from tests.interop.node import Node

pytestmark = [pytest.mark.interop, pytest.mark.slow]
COUNT = 100_000
BODY = 500
GROWTH_MAX = 48 * 1024 * 1024
"""Two sessions are behind by 50 MB of bodies each; besides, the store's cache of the newest records fills up."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, "--durability", "page", environment={"HEADGATE_STORE_CACHE_BYTES": "8388608"}) as running:
        yield running


class Wire:
    """An MQTT 3.1.1 client over a blocking socket with small buffers."""

    def __init__(self, node: Node, client_id: str) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", node.port("mqtt")))
        self.decoder = Decoder(1 << 28, 4, client=True)
        self.send(Connect(4, client_id, True, 0, None, None, None, NONE))
        self.receive()

    def send(self, *packets: Packet) -> None:
        self.socket.sendall(b"".join(encode(packet, 4) for packet in packets))

    def receive(self) -> list[Packet]:
        """Packets of at least one read; the connection must be there."""
        data = self.socket.recv(1 << 20)
        assert data, "the server has closed the connection"
        return self.decoder.feed(data)

    def subscribe(self, pattern: str, qos: int) -> None:
        self.send(Subscribe(1, [(pattern, qos)], NONE))
        self.receive()


def resident(node: Node) -> list[int]:
    """Anonymous resident bytes, of each process of the server."""
    found = [re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in node.pids]
    return [int(each[1]) * 1024 for each in found if each is not None]


def test_a_hundred_thousand_messages_for_subscribers_that_do_not_read(node: Node) -> None:
    source = Wire(node, "source")
    source.send(Publish(b"flood/first", b"x", 1, False, False, 1, NONE))
    source.receive()
    kept, shed = Wire(node, "kept"), Wire(node, "shed")
    kept.subscribe("flood/+", 1)
    shed.subscribe("flood/+", 0)
    before = resident(node)
    for first in range(0, COUNT, 50):
        batch = range(first, first + 50)
        source.send(*(Publish(b"flood/x", b"%07d" % at + b"." * BODY, 1, False, False, 1 + at % 50, NONE) for at in batch))
        left = 50
        while left:
            left -= sum(isinstance(packet, Ack) for packet in source.receive())
    assert max(now - then for now, then in zip(resident(node), before, strict=True)) < GROWTH_MAX
    got: list[int] = []
    while len(got) < COUNT:
        found = [packet for packet in kept.receive() if isinstance(packet, Publish)]
        got += [int(packet.body[:7]) for packet in found]
        if found:
            kept.send(*(Ack(4, packet.packet_id) for packet in found))
    assert got == list(range(COUNT)), "in order, each once"
    (lost,) = re.findall(r"^headgate_mqtt_lost_total.reason=.slow-reader.. (\d+)", node.admin("/metrics"), re.MULTILINE)
    assert COUNT // 2 < int(lost) < COUNT, "of what was sent at QoS 0 a bounded part waits, the rest is shed and counted"


def test_a_member_of_a_group_that_does_not_read_loses_nothing_for_it(node: Node) -> None:
    """At QoS 0: what its sockets do not take goes to the other member."""
    source = Wire(node, "source")
    source.send(Publish(b"shared/first", b"x", 1, False, False, 1, NONE))
    source.receive()
    quick, slow = Wire(node, "quick"), Wire(node, "slow")
    for member in (quick, slow):
        member.subscribe("$share/g/shared/+", 0)
    count, body = 10_000, b"." * 4_000
    got: list[int] = []
    for first in range(0, count, 50):
        batch = range(first, first + 50)
        source.send(*(Publish(b"shared/x", b"%07d" % at + body, 1, False, False, 1 + at % 50, NONE) for at in batch))
        left = 50
        while left:
            left -= sum(isinstance(packet, Ack) for packet in source.receive())
        quick.socket.settimeout(0.01)
        got += heard(quick)
    quick.socket.settimeout(1)
    got += heard(quick)
    assert len(got) > count // 2, "the other one carries it"
    slow.socket.settimeout(1)
    got += heard(slow)
    got += heard(quick)
    assert sorted(got) == list(range(count))
    assert 'headgate_mqtt_lost_total{reason="slow-reader"} 0.0\n' in node.admin("/metrics")


def heard(wire: Wire) -> list[int]:
    """Numbers of the messages received until none arrives for a while."""
    found: list[int] = []
    while True:
        try:
            packets = wire.receive()
        except TimeoutError:
            return found
        found += [int(packet.body[:7]) for packet in packets if isinstance(packet, Publish) and packet.body != b"x"]
