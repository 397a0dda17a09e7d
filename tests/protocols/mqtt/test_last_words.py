"""Connections that the server ends before CONNACK: it sends no DISCONNECT before CONNACK (MQTT-3.14.0-1)."""

from __future__ import annotations

import pytest

from domain.client.mqtt_session import AccessRevoked, SessionTakenOver
from domain.command import Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Event
from protocols.mqtt.connect import Connack, Connect, Disconnect
from protocols.mqtt.connection import MqttConnection
from protocols.mqtt.packet import Decoder, Packet, encode
from protocols.mqtt.property import NONE
from tests.protocols.mqtt.stage import PEER, Broker

pytestmark = pytest.mark.usefixtures("near_and_late")

GONE = AccessRevoked(Failure(ErrorCode.NOT_AUTHENTICATED, "the user was deleted"))
LESS = AccessRevoked(Failure(ErrorCode.NOT_ALLOWED, "the token has expired"))


def attaching(broker: Broker, version: int) -> MqttConnection:
    """A connection whose CONNECT is not answered yet."""
    connection = broker.adapter.connect(PEER, 0)
    connect = Connect(version, "c", True, 0, None, None, None, NONE)
    assert len(connection.receive(encode(connect, version), 0)) == 1
    return connection


def said(connection: MqttConnection, version: int) -> list[Packet]:
    return Decoder(1 << 20, version, client=True).feed(b"".join(connection.outgoing()))


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("event", "codes", "reason"),
    [(SessionTakenOver(), [], "taken-over"), (GONE, [(4, 4), (5, 0x86)], "revoked"), (LESS, [(4, 5), (5, 0x87)], "revoked")],
    ids=["taken over", "user gone", "token over"],
)
def test_who_is_sent_away_before_connack_hears_connack_or_nothing(
    version: int, event: Event, codes: list[tuple[int, int]], reason: str
) -> None:
    connection = attaching(Broker(), version)
    connection.answer(event, 0)
    answers = said(connection, version)
    assert [type(answer) for answer in answers] == [Connack] * bool(codes)
    assert [answer.code for answer in answers if isinstance(answer, Connack)] == [code for at, code in codes if at == version]
    assert [command.reason for command in connection.expire(0) if isinstance(command, Disconnected)] == [reason]
    assert connection.closed


@pytest.mark.parametrize(
    ("version", "options", "code"),
    [(5, {}, 0x88), (4, {}, 3), (5, {"server_reference": "other:1883"}, 0x9C)],
    ids=["5.0", "3.1.1", "elsewhere"],
)
def test_a_stop_before_connack_is_told_by_connack(version: int, options: dict[str, object], code: int) -> None:
    connection = attaching(Broker(**options), version)
    connection.drain(0)
    (answer,) = said(connection, version)
    assert isinstance(answer, Connack)
    assert answer.code == code


def test_behind_connack_disconnect_says_it(broker: Broker) -> None:
    first, second = broker.client(5), broker.client(5)
    first.connect("c")
    second.connect("c")
    broker.run()
    assert [packet.code for packet in first.take() if isinstance(packet, Disconnect)] == [0x8E]


def test_a_client_that_is_overtaken_at_the_door_never_hears_disconnect(broker: Broker) -> None:
    first, second = broker.client(5), broker.client(5)
    first.put(Connect(5, "c", False, 0, None, None, None, NONE), wait=False)
    second.put(Connect(5, "c", False, 0, None, None, None, NONE))
    broker.run()
    heard = first.take()
    assert not heard or isinstance(heard[0], Connack)
    assert any(isinstance(packet, Connack) and packet.code == 0 for packet in second.take())
