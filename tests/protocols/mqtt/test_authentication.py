"""Enhanced authentication, and the other ways of authentication (MQTT 5, 4.12, 3.15; 3.1.4)."""

from __future__ import annotations

import base64
import dataclasses
import hmac

import jwt
import pytest

from domain.access.access import AccessPolicy, User
from gateway.access.authority import Access
from gateway.access.gate import Gate
from gateway.access.records import AccessRecords
from gateway.access.settings import AccessSettings, AccessTable
from gateway.node.settings_tables import read
from protocols.mqtt import property as props
from protocols.mqtt.adapter import MqttAdapter
from protocols.mqtt.connect import Auth, Connack, Connect, Disconnect
from protocols.mqtt.packet import Ping
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.settings import MqttSettings
from tests.gateway.access.test_scram import ScramClient
from tests.protocols.mqtt.stage import Broker, Client
from tests.stored_state import memory_state

SECRET = "0123456789abcdef0123456789abcdef"


class Guarded(Broker):
    """A broker that controls access: `ann` with `secret`, `bob` with `hidden`, and tokens."""

    def start(self) -> None:
        super().start()
        self.book = AccessRecords(memory_state())
        for user in (User("ann", "secret"), User("bob", "hidden")):
            self.book.put_user(user, lambda _: None)
            self.book.put_policies(user.name, [AccessPolicy("*", ("All",))], lambda _: None)
        access = Access(self.book, AccessSettings.of(AccessTable(jwt_secret=SECRET)), self.clock.wall_ms)
        self.handler = Gate(access, self.handler)  # type: ignore[assignment]
        setting = dataclasses.replace(self.adapter._setting, authority=access)
        self.adapter = MqttAdapter(setting, read(MqttSettings, "mqtt", self.options, {}))


def said(method: str, data: bytes = b"") -> Properties:
    out = Properties()
    out.texts[props.AUTH_METHOD] = method
    if data:
        out.blobs[props.AUTH_DATA] = data
    return out


def begin(broker: Broker, properties: Properties, client_id: str = "c") -> Client:
    client = broker.client(5)
    client.put(Connect(5, client_id, True, 0, None, None, None, properties))
    return client


def prove(client: Client, scram: ScramClient, code: int = 0x18) -> None:
    """Send the client's final SCRAM message."""
    challenge = client.only(Auth)
    assert (challenge.code, challenge.properties.texts[props.AUTH_METHOD]) == (0x18, "SCRAM-SHA-256")
    client.put(Auth(code, said("SCRAM-SHA-256", scram.final(challenge.properties.blobs[props.AUTH_DATA]))))


def entered(broker: Broker) -> Client:
    scram = ScramClient("ann", "secret")
    client = begin(broker, said("SCRAM-SHA-256", scram.first()))
    prove(client, scram)
    client.take()
    return client


def test_scram_lets_a_client_in_and_proves_the_server() -> None:
    """4.12: CONNECT, AUTH 0x18, AUTH 0x18, CONNACK with the method and the last data."""
    broker = Guarded()
    scram = ScramClient("ann", "secret")
    client = begin(broker, said("SCRAM-SHA-256", scram.first()))
    prove(client, scram)
    answer = client.only(Connack)
    assert answer.code == 0
    assert answer.properties.texts[props.AUTH_METHOD] == "SCRAM-SHA-256"
    assert answer.properties.blobs[props.AUTH_DATA] == b"v=" + base64.b64encode(scram.signature)
    client.publish("t")
    assert [ack.code for ack in client.take() if isinstance(ack, Ack)] == [0]
    assert client.client_connection.principal is not None
    assert client.client_connection.principal.user == "ann"


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "secret")])
def test_a_wrong_proof_is_refused(user: str, password: str) -> None:
    scram = ScramClient(user, password)
    client = begin(Guarded(), said("SCRAM-SHA-256", scram.first()))
    prove(client, scram)
    answer = client.only(Connack)
    assert (answer.code, client.gone, client.reason) == (0x86, True, "not-authenticated")


@pytest.mark.parametrize(("method", "code"), [("KERBEROS", 0x8C), ("", 0x8C), ("scram-sha-256", 0x8C)])
def test_a_method_that_is_not_offered(method: str, code: int) -> None:
    client = begin(Guarded(), said(method, b"x"))
    answer = client.only(Connack)
    assert (answer.code, client.gone) == (code, True)


def test_data_without_a_method_is_a_protocol_error() -> None:
    lonely = Properties()
    lonely.blobs[props.AUTH_DATA] = b"x"
    client = begin(Guarded(), lonely)
    assert client.only(Connack).code == 0x82


@pytest.mark.parametrize(
    "packet",
    [
        Ping(), Publish(b"t", b"x", 0, False, False, 0, NONE), Auth(0x18), Auth(0x19, said("SCRAM-SHA-256")),
        Auth(0x18, said("X")),
    ],
    ids=["ping", "publish", "no method", "re-authenticate", "another method"],
)  # fmt: skip
def test_nothing_but_the_proof_comes_before_connack(packet: object) -> None:
    """3.1.2-30 and 4.12.0: AUTH with the method of CONNECT, or DISCONNECT."""
    client = begin(Guarded(), said("SCRAM-SHA-256", ScramClient("ann", "secret").first()))
    client.take()
    client.put(packet)  # type: ignore[arg-type]
    answer = client.only(Connack)
    assert (answer.code, client.gone) == (0x82, True)


def test_a_client_may_give_up() -> None:
    client = begin(Guarded(), said("SCRAM-SHA-256", ScramClient("ann", "secret").first()))
    client.take()
    client.put(Disconnect(0))
    assert (client.take(), client.gone, client.reason) == ([], True, "goodbye")


def test_the_whole_proof_has_ten_seconds() -> None:
    broker = Guarded()
    client = begin(broker, said("SCRAM-SHA-256", ScramClient("ann", "secret").first()))
    broker.run(9_000)
    assert not client.gone
    broker.run(1_500)
    assert (client.gone, client.reason) == (True, "no-connect")


def test_what_is_sent_along_with_the_last_proof_waits_for_connack() -> None:
    broker = Guarded()
    scram = ScramClient("ann", "secret")
    client = begin(broker, said("SCRAM-SHA-256", scram.first()))
    challenge = client.only(Auth)
    final = Auth(0x18, said("SCRAM-SHA-256", scram.final(challenge.properties.blobs[props.AUTH_DATA])))
    client.put(final, Publish(b"t", b"x", 1, False, False, 1, NONE))
    assert [type(packet).__name__ for packet in client.take()] == ["Connack", "Ack"]


def test_re_authentication() -> None:
    """4.12.1: AUTH 0x19, and other packets may come in between."""
    broker = Guarded()
    client = entered(broker)
    scram = ScramClient("ann", "secret", "xyz")
    client.put(Auth(0x19, said("SCRAM-SHA-256", scram.first())))
    challenge = client.only(Auth)
    client.put(Ping())
    assert len(client.take()) == 1
    client.put(Auth(0x18, said("SCRAM-SHA-256", scram.final(challenge.properties.blobs[props.AUTH_DATA]))))
    success = client.only(Auth)
    assert (success.code, success.properties.blobs[props.AUTH_DATA]) == (0, b"v=" + base64.b64encode(scram.signature))
    assert not client.gone


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("bob", "hidden")])
def test_re_authentication_that_fails_or_is_somebody_else_ends_the_connection(user: str, password: str) -> None:
    client = entered(Guarded())
    scram = ScramClient(user, password)
    client.put(Auth(0x19, said("SCRAM-SHA-256", scram.first())))
    prove(client, scram)
    goodbye = client.only(Disconnect)
    assert (goodbye.code, client.gone) == (0x87, True)


@pytest.mark.parametrize(
    "packet",
    [Auth(0x18, said("SCRAM-SHA-256", b"x")), Auth(0x00, said("SCRAM-SHA-256")), Auth(0x19, said("JWT", b"x")), Auth(0x19)],
)
def test_auth_out_of_turn_is_a_protocol_error(packet: Auth) -> None:
    client = entered(Guarded())
    client.put(packet)
    goodbye = client.only(Disconnect)
    assert (goodbye.code, client.gone) == (0x82, True)


def test_auth_where_connect_named_no_method_is_a_protocol_error() -> None:
    client = Broker().joined("c", 5)
    client.put(Auth(0x19, said("SCRAM-SHA-256", b"x")))
    assert client.only(Disconnect).code == 0x82


def token(broker: Broker, user: str, life_s: int) -> bytes:
    return jwt.encode({"sub": user, "exp": broker.clock.wall_ms() // 1000 + life_s}, SECRET, "HS256").encode()


def test_a_token_is_refreshed_before_it_runs_out() -> None:
    broker = Guarded()
    client = begin(broker, said("JWT", token(broker, "ann", 60)))
    answer = client.only(Connack)
    assert (answer.code, answer.properties.texts[props.AUTH_METHOD]) == (0, "JWT")
    client.put(Auth(0x19, said("JWT", token(broker, "ann", 3600))))
    assert client.only(Auth).code == 0
    broker.run(120_000)
    client.publish("t")
    assert [ack.code for ack in client.take() if isinstance(ack, Ack)] == [0]
    old = begin(broker, said("JWT", token(broker, "ann", -100)), "old")
    assert old.only(Connack).code == 0x86


def signed(client_id: str, secret: str) -> bytes:
    return base64.b64encode(hmac.digest(secret.encode(), client_id.encode(), "sha1"))


@pytest.mark.parametrize(
    ("taken", "client_id", "password", "code"),
    [
        (True, "c", signed("c", "secret"), 0), (True, "c", b"secret", 0), (True, "c", signed("d", "secret"), 4),
        (True, "c", signed("c", "other"), 4), (False, "c", signed("c", "secret"), 4), (False, "c", b"secret", 0),
        (True, "c", b"x" * 28, 4), (True, "c", b"*" * 28, 4),
    ],
)  # fmt: skip
def test_a_password_may_be_a_signature_of_the_client_id(taken: bool, client_id: str, password: bytes, code: int) -> None:
    """rocketmq-mqtt's sample: user name and Base64 of HMAC-SHA1 of the client id by the user's secret."""
    client = Guarded(hmac_passwords=taken).client(4)
    client.put(Connect(4, client_id, True, 0, None, "ann", password, NONE))
    assert client.only(Connack).code == code
