"""Where access is controlled, messages get the user as a property; those of remoting clients get no origin properties."""

from __future__ import annotations

import pytest

from domain.access.principal import Principal
from domain.client.mqtt_session import Attach, SendOnce, Will
from domain.command import Send
from domain.message.message import Message
from domain.message.property import decode
from gateway.connection.client_connection import ClientConnection
from tests.gateway.access.test_gate import HOST, Scene

ORIGIN = b"UNIQ_KEY\x01ID\x02HG_PROTOCOL\x01mqtt\x02"


def sent(scene: Scene, protocol: str, user: str = "alice") -> dict[str, str]:
    scene.connection = ClientConnection(protocol, scene.connection.driver)
    message = Message("t1", b"", ORIGIN)
    assert scene.ask(user, Send(1, [message])) is None
    return decode(message.properties)


@pytest.mark.parametrize("user", ["alice", "root"])
def test_a_message_says_whose_it_is(user: str) -> None:
    scene = Scene()
    for protocol in ("mqtt", "http2", "coap"):
        found = sent(scene, protocol, user)
        assert found == {"UNIQ_KEY": "ID", "HG_PROTOCOL": "mqtt", "HG_PRINCIPAL": user}
    assert "HG_PRINCIPAL" not in sent(scene, "remoting", user)


def test_exactly_once_and_wills_say_it_too() -> None:
    scene = Scene()
    once = SendOnce(1, [Message("t1", b"", ORIGIN)], [7])
    assert scene.ask("alice", once) is None
    assert decode(once.messages[0].properties)["HG_PRINCIPAL"] == "alice"
    will = Will(Message("t1", b"", ORIGIN))
    attach = Attach(2, "c", True, 0, 16, will=will)
    assert scene.ask("alice", attach) is None
    assert decode(will.message.properties)["HG_PRINCIPAL"] == "alice"


def test_a_name_that_cannot_be_stored_is_left_out() -> None:
    scene = Scene()
    message = Message("t1", b"", ORIGIN)
    command = Send(1, [message])
    command.principal = Principal("a\x01b", HOST, privileged=True, epoch=scene.records.epoch)
    scene.connection = ClientConnection("mqtt", scene.connection.driver)
    scene.gate.handle(scene.connection, command)
    assert message.properties == ORIGIN
