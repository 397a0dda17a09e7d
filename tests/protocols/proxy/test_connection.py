"""A connection that a proxy forwards has the client's address, protocol and first byte."""

from __future__ import annotations

import pytest

from domain import limits
from domain.address import host_bytes
from domain.admin.topic import ListTopics
from domain.command import Disconnected
from protocols.adapter import Peer
from protocols.proxy.connection import ProxiedConnection
from protocols.registry import Opening
from tests.protocols.proxy.test_header import BAD, IP4, v2
from tests.protocols.test_registry import MQTT, RECOGNISER, OneAdapter

PROXY = Peer("127.0.0.1", 9, host_bytes("127.0.0.1", 9), "127.0.0.1", 1_883)
CLIENT = Peer("10.0.0.1", 56_324, host_bytes("10.0.0.1", 56_324), "10.0.0.2", 1_883)
CONNECT = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd"
HEADER_1 = b"PROXY TCP4 10.0.0.1 10.0.0.2 56324 1883\r\n"


class Stage:
    """A proxied connection whose next connection recognises MQTT."""

    def __init__(self, required: bool = False) -> None:
        self.adapter = OneAdapter(MQTT)
        self.adapter.connection.commands = [ListTopics(1)]
        self.fronted = ProxiedConnection(
            lambda peer, now: Opening(RECOGNISER, {MQTT: self.adapter}, None, peer, now), required, PROXY, 0
        )

    def feed(self, data: bytes, pieces: int) -> list[object]:
        """Pass `data` in pieces of `pieces` bytes to the chosen connection, as the pump does."""
        commands: list[object] = []
        for at in range(0, len(data), pieces):
            commands += self.fronted.chosen.receive(data[at : at + pieces], at)
        return commands


@pytest.mark.parametrize("header", [HEADER_1, v2(1, 0x11, IP4)])
@pytest.mark.parametrize("pieces", [1, 7, 1_000])
def test_client_is_whom_the_header_names(header: bytes, pieces: int) -> None:
    stage = Stage()
    assert stage.feed(header + CONNECT, pieces) == [ListTopics(1)]
    assert stage.adapter.peers == [CLIENT]
    assert stage.fronted.peer == CLIENT
    assert stage.fronted.protocol == MQTT
    assert stage.fronted.chosen is stage.adapter.connection
    assert b"".join(stage.adapter.connection.received) == CONNECT


@pytest.mark.parametrize("header", [b"PROXY UNKNOWN\r\n", v2(0, 0, b""), v2(1, 0, b""), b""])
def test_without_an_address_it_is_the_proxy_itself(header: bytes) -> None:
    stage = Stage()
    assert stage.feed(header + CONNECT, 1) == [ListTopics(1)]
    assert stage.adapter.peers == [PROXY]


def test_header_can_be_required() -> None:
    stage = Stage(required=True)
    assert stage.feed(CONNECT, 1_000) == [Disconnected("proxy-missing")]
    assert stage.fronted.closed
    assert stage.fronted.outgoing() == ()


@pytest.mark.parametrize("data", BAD)
def test_header_that_is_none_ends_the_connection(data: bytes) -> None:
    stage = Stage()
    assert stage.feed(data, 1_000) == [Disconnected("proxy-malformed")]
    assert stage.fronted.closed
    assert stage.adapter.peers == []


def test_one_header_is_enough() -> None:
    stage = Stage()
    assert stage.feed(HEADER_1 + HEADER_1, 1_000) == [Disconnected("proxy-refused")]


def test_header_has_ten_seconds() -> None:
    stage = Stage()
    stage.feed(HEADER_1[:-1], 1_000)
    assert stage.fronted.deadline() == limits.HANDSHAKE_NS
    assert stage.fronted.expire(limits.HANDSHAKE_NS) == (Disconnected("handshake-deadline"),)
    assert Stage().fronted.expire(limits.HANDSHAKE_NS) == (Disconnected("silent"),)


def test_end_of_stream_inside_the_header() -> None:
    stage = Stage()
    stage.feed(HEADER_1[:9], 1_000)
    assert stage.fronted.receive(b"", 1) == (Disconnected("proxy-malformed"),)


def test_what_stands_behind_has_its_own_ten_seconds() -> None:
    stage = Stage()
    stage.fronted.receive(HEADER_1, 5)
    assert stage.fronted.deadline() == 5 + limits.HANDSHAKE_NS
    assert stage.fronted.expire(5 + limits.HANDSHAKE_NS) == (Disconnected("unrecognised-late"),)
