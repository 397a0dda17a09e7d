"""Connections end when access is lost by a change of users, passwords, rights, tokens or rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jwt
import pytest

from domain.access.access import AccessPolicy, BearerToken, Grant, Password, User
from domain.access.principal import Principal
from domain.admin.topic import ListTopics
from domain.client.mqtt_session import Attach, MqttSubscription, Unsubscribe
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.limits import SECOND_NS
from domain.turn import WALKS_NS
from domain.walk import STEP_NS, Walks
from gateway.access.authority import Access
from gateway.access.gate import Gate
from gateway.access.records import AccessRecords
from gateway.access.revocation import CHECKED, AccessRevocation
from gateway.connection.client_connection import ClientConnection
from tests.connection_driver import StrictDriver
from tests.gateway.access.memory import access_config
from tests.gateway.scripted import RecordingHandler
from tests.simulation.kit.clock import VirtualClock
from tests.stored_state import memory_state
from tests.turns import most_in_a_turn

STEPS = WALKS_NS // STEP_NS
SECRET = "a secret of thirty-two bytes or so"
HOST = "10.0.0.1"


class Client(StrictDriver):
    """A connection that records its events."""

    def __init__(self, protocol: str = "mqtt", shared: bool = False) -> None:
        self.connection = ClientConnection(protocol, self, shared=shared)
        self.expelled: list[Failure] = []

    def revoke_access(self, failure: Failure) -> None:
        self.expelled.append(failure)
        self.connection.end()


class Scene:
    """A gate, users alice and bob, and subscriptions by connection."""

    def __init__(self, table: dict[str, object] | None = None) -> None:
        self.clock = VirtualClock()
        self.handler = RecordingHandler()
        self.records = AccessRecords(memory_state(), ())
        for user in (User("root", "r00t", privileged=True), User("alice", "pw"), User("bob", "pw2")):
            self.records.put_user(user, lambda _: None)
        self.access = Access(self.records, access_config({"jwt_secret": SECRET, **(table or {})}), self.clock.wall_ms)
        self.filters: dict[ClientConnection, Sequence[MqttSubscription]] = {}
        held = self.filters
        self.revocation = AccessRevocation(
            self.access, Walks(self.clock), self.handler, lambda connection: held.get(connection, ())
        )
        self.gate = Gate(self.access, self.handler, None, self.revocation)

    def principal(self, user: str = "alice", password: str = "pw") -> Principal:
        found = self.access.authenticate(Password(user, password.encode()), HOST)
        assert isinstance(found, Principal)
        return found

    def token(self, user: str, expires_in_s: float) -> Principal:
        text = jwt.encode({"sub": user, "exp": self.clock.wall_ms() / 1000 + expires_in_s}, SECRET, "HS256")
        found = self.access.authenticate(BearerToken(text), HOST)
        assert isinstance(found, Principal)
        return found

    def attach(self, principal: Principal) -> Client:
        client = Client()
        self.ask(client, principal, Attach("ticket", "sensor", True, 0, 10))
        return client

    def ask(self, client: Client, principal: Principal, command: Command | None = None) -> None:
        command = command or ListTopics("ticket")
        command.principal = principal
        self.gate.handle(client.connection, command)

    def change(self, name: str, **changes: object) -> None:
        user = dataclasses.replace(self.records.users[name], **changes)  # type: ignore[arg-type]
        self.records.put_user(user, lambda _: None)
        self.clock.run_turn()


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("changes", [{"enabled": False}, {"password": "another"}])
def test_user_that_is_disabled_or_has_another_password_is_sent_away(scene: Scene, changes: dict[str, object]) -> None:
    alice, bob = scene.attach(scene.principal()), scene.attach(scene.principal("bob", "pw2"))
    scene.change("alice", **changes)
    assert [failure.code for failure in alice.expelled] == [ErrorCode.NOT_AUTHENTICATED]
    assert bob.expelled == []
    assert len(scene.revocation) == 1


def test_user_that_is_deleted_is_sent_away_and_may_come_again_when_made_anew(scene: Scene) -> None:
    alice = scene.attach(scene.principal())
    scene.records.drop_user("alice", lambda _: None)
    scene.clock.run_turn()
    assert len(alice.expelled) == 1
    scene.records.put_user(User("alice", "pw"), lambda _: None)
    again = scene.attach(scene.principal())
    scene.change("bob", password="other")
    assert again.expelled == []


def test_what_does_not_concern_the_password_leaves_everybody_where_they_are(scene: Scene) -> None:
    alice = scene.attach(scene.principal())
    scene.change("alice", privileged=True)
    assert alice.expelled == []


def test_connection_of_many_users_ends_with_any_of_them(scene: Scene) -> None:
    proxy = Client("http")
    scene.ask(proxy, scene.principal())
    scene.ask(proxy, scene.principal("bob", "pw2"))
    scene.change("alice", enabled=False)
    assert len(proxy.expelled) == 1


def test_shared_session_of_a_datagram_port_is_nobodys(scene: Scene) -> None:
    port = Client("coap", shared=True)
    scene.ask(port, scene.principal())
    scene.change("alice", enabled=False)
    assert port.expelled == []
    assert len(scene.revocation) == 0


def test_token_ends_its_connection_when_it_runs_out(scene: Scene) -> None:
    early, late = scene.attach(scene.token("sensor-1", 10)), scene.attach(scene.token("sensor-2", 60))
    scene.clock.run_ns(39 * SECOND_NS)
    assert early.expelled == []
    scene.clock.run_ns(2 * SECOND_NS)
    assert [failure.code for failure in early.expelled] == [ErrorCode.NOT_ALLOWED]
    assert late.expelled == []
    scene.clock.run_ns(60 * SECOND_NS)
    assert len(late.expelled) == 1


def test_later_token_of_the_same_user_takes_the_place_of_the_first(scene: Scene) -> None:
    client = Client("http")
    scene.ask(client, scene.token("sensor-1", 10))
    scene.ask(client, scene.token("sensor-1", 100))
    scene.clock.run_ns(60 * SECOND_NS)
    assert client.expelled == []
    scene.clock.run_ns(71 * SECOND_NS)
    assert len(client.expelled) == 1


def test_filter_that_may_not_be_had_any_more_is_taken_out_and_its_client_sent_away(scene: Scene) -> None:
    scene.records.put_policies("alice", [AccessPolicy("Topic:a", ("Sub",)), AccessPolicy("Topic:b", ("Sub",))], lambda _: None)
    alice = scene.attach(scene.principal())
    scene.filters[alice.connection] = [MqttSubscription("a/#", 1), MqttSubscription("b", 1)]
    scene.records.put_policies("bob", [AccessPolicy("Topic:a", ("Sub",))], lambda _: None)
    scene.clock.run_turn()
    assert alice.expelled == []
    scene.records.put_policies("alice", [AccessPolicy("Topic:b", ("Sub",))], lambda _: None)
    scene.clock.run_turn()
    assert [failure.code for failure in alice.expelled] == [ErrorCode.NOT_ALLOWED]
    assert [command.patterns for command in scene.handler.commands if isinstance(command, Unsubscribe)] == [["a/#"]]


def test_resumed_session_is_looked_at_too(scene: Scene) -> None:
    alice = scene.attach(scene.principal())
    scene.filters[alice.connection] = [MqttSubscription("a/#", 1)]
    scene.revocation.session_resumed(alice.connection)
    scene.clock.run_ns(SECOND_NS)
    assert [failure.code for failure in alice.expelled] == [ErrorCode.NOT_ALLOWED]


def test_configuration_taken_anew_counts_for_who_is_here(scene: Scene) -> None:
    scene = Scene({"anonymous": "guest", "rules": [{"filter": "open/#"}]})
    guest_principal = scene.access.authenticate(None, HOST)
    assert isinstance(guest_principal, Principal)
    guest, alice, sensor = scene.attach(guest_principal), scene.attach(scene.principal()), scene.attach(scene.token("s", 99))
    scene.filters[alice.connection] = [MqttSubscription("open/x", 0)]
    scene.access.reconfigure(access_config({"jwt_secret": SECRET, "anonymous": "guest", "rules": [{"filter": "open/x"}]}))
    scene.clock.run_turn()
    assert (guest.expelled, alice.expelled, sensor.expelled) == ([], [], [])
    scene.access.reconfigure(access_config({"jwt_secret": "another secret of thirty-two bytes"}))
    scene.clock.run_turn()
    told = [client.expelled[0].code for client in (guest, sensor, alice)]
    assert told == [ErrorCode.NOT_AUTHENTICATED, ErrorCode.NOT_AUTHENTICATED, ErrorCode.NOT_ALLOWED]


def test_a_client_that_is_banned_is_sent_away_with_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    alice, bob = scene.attach(scene.principal()), scene.attach(scene.principal("bob", "pw2"))
    scene.access.reconfigure(access_config({"jwt_secret": SECRET, "banned": ["user:alice"]}))
    scene.clock.run_turn()
    assert ([failure.code for failure in alice.expelled], bob.expelled) == ([ErrorCode.NOT_ALLOWED], [])
    (record,) = caplog.records
    assert record.getMessage() == (
        f"client '' of user 'alice' at {HOST} is disconnected: User:alice is banned: "
        "if it may come back, remove it from access.banned"
    )
    assert record.__dict__["event"] == "banned"


def test_grants_of_the_configuration_are_replaced_and_stored_ones_stay() -> None:
    scene = Scene()
    scene.records.put_policies("alice", [AccessPolicy("Topic:kept", ("Sub",))], lambda _: None)
    scene.records.set_fixed([Grant("alice", (AccessPolicy("Topic:new", ("Sub",)),))])
    entries = scene.records.entries("alice")
    assert entries.allow("Topic", "kept", ("Sub",), HOST)
    assert entries.allow("Topic", "new", ("Sub",), HOST)
    scene.records.set_fixed([])
    assert not scene.records.entries("alice").allow("Topic", "new", ("Sub",), HOST)


def test_many_sessions_are_looked_at_in_shares_and_none_is_left_out(scene: Scene) -> None:
    principal = scene.principal()
    clients = [scene.attach(principal) for _ in range(2_001)]
    scene.change("alice", enabled=False)

    def expelled() -> int:
        return sum(len(client.expelled) for client in clients)

    assert 0 < expelled() <= CHECKED * STEPS
    assert most_in_a_turn(scene.clock, expelled, 2_001) <= CHECKED * STEPS
    assert [len(client.expelled) for client in clients] == [1] * len(clients)


def test_tokens_that_expire_together_end_their_clients_in_shares(scene: Scene) -> None:
    principal = scene.token("alice", 30)
    clients = [scene.attach(principal) for _ in range(1_000)]

    def expelled() -> int:
        return sum(len(client.expelled) for client in clients)

    assert most_in_a_turn(scene.clock, expelled, 1_000) <= STEPS
    assert scene.clock.monotonic_ns() >= 60 * SECOND_NS
    late = scene.attach(scene.token("alice", 5))
    scene.clock.run_for(36_000)
    assert len(late.expelled) == 1
