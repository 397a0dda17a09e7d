"""What a real node writes to its log for the commands of a session with many filters, over a socket."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

import pytest

from protocols.mqtt import property as props
from protocols.mqtt.connect import Connack, Connect, Disconnect
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe, Unsubscribe
from tests.interop.node import Node

pytestmark = pytest.mark.interop
FILTERS: Final = [f"q/{number:04}/".ljust(3_900, "x") for number in range(1_000)]
LATER_S: Final = 0.5
"""Progress of a session is stored after 0.2 s."""


class Wire:
    """An MQTT 5.0 client of a session that is kept, over a blocking socket. It counts the bytes that it sends."""

    def __init__(self, node: Node) -> None:
        self.socket = socket.create_connection(("127.0.0.1", node.port("mqtt")), 60)
        self.decoder = Decoder(1 << 28, 5, client=True)
        properties = Properties()
        properties.numbers[props.SESSION_EXPIRY] = 1_000
        self.sent = 0
        answer = self.ask(Connect(5, "rich", False, 0, None, None, None, properties))
        assert isinstance(answer, Connack)
        self.present = answer.present

    def send(self, packet: Packet) -> None:
        data = encode(packet, 5)
        self.sent += len(data)
        self.socket.sendall(data)

    def ask(self, packet: Packet) -> Packet:
        """Send a packet and return its answer."""
        self.send(packet)
        while True:
            data = self.socket.recv(1 << 16)
            assert data, "the server has closed the connection"
            for found in self.decoder.feed(data):
                return found

    def leave(self) -> None:
        self.send(Disconnect(0, NONE))
        self.socket.close()


class Growth:
    """Bytes by which the log of a node has grown since the last look."""

    def __init__(self, node: Node) -> None:
        self._folder = node.data / "log"
        self._before = self._size()

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._folder.iterdir())

    def poll(self) -> int:
        time.sleep(LATER_S)
        grown, self._before = self._size() - self._before, self._size()
        return grown


def test_commands_write_what_they_change(tmp_path: Path) -> None:
    with Node(tmp_path, "--durability", "page") as node:
        wire = Wire(node)
        growth = Growth(node)
        for first in range(0, len(FILTERS), 125):
            answer = wire.ask(Subscribe(1, [(name, 0) for name in FILTERS[first : first + 125]], NONE))
            assert isinstance(answer, Suback)
        assert growth.poll() < 1.5 * wire.sent

        assert isinstance(wire.ask(Subscribe(1, [("orders/a", 0)], NONE)), Suback)
        growth.poll()
        for number in range(50):
            assert isinstance(wire.ask(Subscribe(1 + number, [("orders/a", 0)], NONE)), Suback)
            assert isinstance(wire.ask(Unsubscribe(1 + number, ["not/there"], NONE)), Suback)
        assert growth.poll() == 0, "nothing has changed"

        def bounded(commands: int, sent: int) -> None:
            assert growth.poll() <= 4_096 * commands + 4 * sent

        before = wire.sent
        for number in range(50):
            assert isinstance(wire.ask(Subscribe(1 + number, [("orders/a", 1 - number % 2)], NONE)), Suback)
        bounded(50, wire.sent - before)
        before = wire.sent
        for number in range(50):
            assert isinstance(wire.ask(Publish(b"orders/x", b"x", 2, False, False, 100 + number, NONE)), Ack)
            assert isinstance(wire.ask(Ack(6, 100 + number)), Ack)
        bounded(100, wire.sent - before)
        sent = 0
        for _ in range(20):
            wire.leave()
            wire = Wire(node)
            assert wire.present
            sent += wire.sent
        bounded(40, sent)
        wire.leave()
        node.kill()
        node.start()
        wire = Wire(node)
        assert wire.present
        growth.poll()
        assert isinstance(wire.ask(Subscribe(1, [(FILTERS[0], 0)], NONE)), Suback)
        assert growth.poll() == 0, "the filters are known after the start"
        wire.leave()
