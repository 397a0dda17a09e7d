"""The gate: what passes, what is refused and how, and what changes of users and policies do to it."""

from __future__ import annotations

import hmac
import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import domain
from domain.access.access import (
    ALL,
    CLUSTER,
    EVERY,
    GET,
    PUB,
    SUB,
    AccessPolicy,
    BearerToken,
    CheckAccess,
    Grant,
    Need,
    Password,
    Signature,
    User,
)
from domain.access.principal import GATEWAY, Principal
from domain.admin.topic import QueryTopic
from domain.admin.user import (
    CreateUser,
    DeletePolicies,
    DeleteUser,
    GrantList,
    ListPolicies,
    ListUsers,
    PutPolicies,
    UpdateUser,
    UserList,
)
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.client.mqtt_session import Attach, MqttSubscription, Subscribe, Subscribed, Will
from domain.command import Acknowledge, Command, Pull, Send, TicketedCommand
from domain.errors import ErrorCode, Failure
from domain.event import Done, Refused
from domain.message.message import Message
from domain.store.store_ports import State
from gateway.access.administration import Administration
from gateway.access.authority import Access
from gateway.access.gate import Gate
from gateway.access.records import AccessRecords
from gateway.connection.client_connection import ClientConnection
from gateway.node.use_cases import all_needs
from tests.connection_driver import RecordingDriver
from tests.gateway.access.memory import Sink, access_config
from tests.stored_state import memory_state

HOST = "10.0.0.1"
SECRET = "a secret of thirty-two bytes or so"
TABLE: dict[str, object] = {
    "jwt_secret": SECRET,
    "rules": [{"filter": "home/%c/#"}, {"filter": "test/no", "actions": ["Sub"], "decision": "Deny", "code": 0x80}],
}


class Scene:
    """An authority with users root (Super), alice and bob, and a gate."""

    def __init__(self, table: dict[str, object] = TABLE, state: State | None = None) -> None:
        self.state = state or memory_state()
        self.now_ms = 1_000_000
        config = access_config(table)
        self.records = AccessRecords(self.state, config.grants)
        if state is None:
            for user in (User("root", "r00t", privileged=True), User("alice", "pw"), User("bob", "pw2")):
                self.records.put_user(user, lambda _: None)
            given = (AccessPolicy("Topic:t*", (PUB, SUB)), AccessPolicy("Group:g", (SUB,)))
            self.records.put_policies("alice", given, lambda _: None)
        self.access = Access(self.records, config, lambda: self.now_ms)
        self.sink = Sink()
        self.gate = Gate(self.access, self.sink)
        self.administration = Administration(self.records).verbs
        self.recorder = RecordingDriver()
        self.connection = ClientConnection("test", self.recorder)

    def principal(self, user: str) -> Principal:
        found = self.access.authenticate(Password(user, self.records.users[user].password.encode()), HOST)
        assert isinstance(found, Principal)
        return found

    def ask(self, user: str, command: Command) -> Failure | None:
        """Send a command through the gate; returns why it was refused."""
        if user:
            command.principal = self.principal(user)
        passed, recorded = len(self.sink.passed), len(self.recorder.recorded)
        self.gate.handle(self.connection, command)
        if len(self.sink.passed) > passed:
            assert len(self.recorder.recorded) == recorded
            return None
        (event,) = self.recorder.recorded[recorded:]
        assert isinstance(event, Refused)
        return event.failure

    def refusal(self, user: str, command: Command) -> ErrorCode | None:
        """The code of the refusal of a command; None: it has passed."""
        failure = self.ask(user, command)
        return None if failure is None else failure.code

    def carry_out(self, user: str, command: Any) -> Any:
        """Carry out an administrative command of `user`; returns its event."""
        command.principal = self.principal(user)
        self.administration[type(command)](self.connection, command)
        return self.recorder.recorded[-1]


def signed(scene: Scene, user: str, command: Command) -> Command:
    command.principal = scene.principal(user)
    return command


@pytest.fixture
def scene() -> Scene:
    return Scene()


ROOTS = (Command, TicketedCommand)
"""What commands are made from; nobody sends these themselves."""


def commands() -> Iterator[type[Command]]:
    for found in pkgutil.walk_packages(domain.__path__, "domain."):
        module = importlib.import_module(found.name)
        for kind in vars(module).values():
            if isinstance(kind, type) and Command in kind.__mro__ and kind.__module__ == found.name and kind not in ROOTS:
                yield kind


def test_every_command_has_a_row() -> None:
    special = {"Send", "SendOnce", "Subscribe", "EndTransaction", "SendBack"}
    # For Super users only.
    special |= {"GreetNode", "ClaimSubscriptions", "LeaseDeliveries", "RecordAttempts", "RecordDeliveries"}
    known = all_needs()
    missing = {kind.__name__ for kind in commands() if kind not in known.table and kind not in known.silent} - special
    assert missing == set()


def test_sending_consuming_and_asking(scene: Scene) -> None:
    assert scene.ask("alice", Send(1, [Message("t1", b"")])) is None
    assert scene.ask("alice", Pull(1, "g", "t1", 0, 0, 1, 1)) is None
    assert scene.ask("alice", Pull(1, "g", "%RETRY%g", 0, 0, 1, 1)) is None
    assert scene.ask("alice", Acknowledge(1, "g", "%RETRY%g_t1", [])) is None
    assert scene.ask("alice", QueryTopic(1, "t1")) is None
    assert scene.ask("alice", QueryTopic(1, "TBW102")) is None
    for refused in (
        Send(1, [Message("t1", b""), Message("other", b"")]),
        Pull(1, "g", "other", 0, 0, 1, 1),
        Pull(1, "other", "t1", 0, 0, 1, 1),
        Send(1, [Message("%RETRY%other", b"")]),
        QueryTopic(1, "other"),
        ListUsers(1),
    ):
        assert scene.refusal("alice", refused) is ErrorCode.NOT_ALLOWED
        assert scene.ask("root", refused) is None


def test_a_question_is_answered_here(scene: Scene) -> None:
    needed = (Need(CLUSTER, EVERY, (GET,)),)
    scene.gate.handle(scene.connection, signed(scene, "root", CheckAccess(7, needed)))
    assert scene.recorder.recorded == [Done(7)]
    assert scene.ask("alice", CheckAccess(8, needed)) is not None


def test_a_heartbeat_needs_its_groups_and_their_topics(scene: Scene) -> None:
    def beat(*topics: str) -> Heartbeat:
        return Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription(topic) for topic in topics])])

    assert scene.ask("alice", beat("t1", "%RETRY%g")) is None
    assert scene.ask("alice", beat("t1", "other")) is not None


def test_who_is_nobody_is_refused_and_the_gateway_itself_never(scene: Scene) -> None:
    assert scene.refusal("", Send(1, [Message("t1", b"")])) is ErrorCode.NOT_AUTHENTICATED
    ours = Send(1, [Message("t1", b"")])
    ours.principal = GATEWAY
    assert scene.ask("", ours) is None


@pytest.mark.parametrize(
    ("protocol", "way"),
    [("coap", "DTLS"), ("http", "Authorization"), ("mqtt", "CONNECT"), ("remoting", "username cannot be null.")],
)
def test_who_is_nobody_is_told_what_their_protocol_offers(scene: Scene, protocol: str, way: str) -> None:
    scene.connection.protocol = protocol
    scene.gate.handle(scene.connection, Send(1, [Message("t1", b"")]))
    [refused] = scene.recorder.recorded
    assert isinstance(refused, Refused)
    assert way in refused.failure.text
    assert ("[access] anonymous" in refused.failure.text) is (protocol != "remoting")


def test_nobody_hears_of_what_needs_no_answer(scene: Scene) -> None:
    for user in ("bob", ""):
        command = Send(1, [Message("t1", b"")], wait=False)
        if user:
            command.principal = scene.principal(user)
        scene.gate.handle(scene.connection, command)
    assert scene.recorder.recorded == []
    assert scene.sink.passed == []
    assert scene.access.refused == {"not-allowed": 1, "not-authenticated": 1, "slowed": 0}


def test_filters_are_refused_one_by_one_and_a_rule_has_a_word_of_its_own(scene: Scene) -> None:
    attach = signed(scene, "alice", Attach(1, "dev", True, 0, 10))
    scene.gate.handle(scene.connection, attach)
    assert scene.connection.principal is attach.principal
    scene.connection.client_id = "dev"
    patterns = ["t1/#", "home/dev/x", "home/else/x", "test/no", "#", "$SYS/#"]
    command = Subscribe(2, [MqttSubscription(pattern, 0) for pattern in patterns])
    scene.gate.handle(scene.connection, command)
    assert scene.sink.passed == [attach, command]
    refused = [subscription.refused for subscription in command.subscriptions]
    assert [one is None for one in refused] == [True, True, False, False, False, False]
    assert [one.word for one in refused if one is not None] == [0, 0x80, 0x80, 0]
    none = Subscribe(3, [MqttSubscription("other", 0)])
    scene.gate.handle(scene.connection, none)
    (event,) = scene.recorder.recorded
    assert isinstance(event, Subscribed)
    assert event.outcomes[0] is not None


def test_a_path_is_published_by_rule_and_by_topic(scene: Scene) -> None:
    def to(path: str) -> Send:
        return Send(1, [Message(path.partition("/")[0], b"", b"originMqttTopic\x01" + path.encode() + b"\x02")])

    scene.connection.client_id = "dev"
    assert scene.ask("alice", to("home/dev/x")) is None
    assert scene.ask("alice", to("home/other/x")) is not None
    assert scene.ask("alice", to("t1/x")) is None
    scene.connection.client_id = "other"
    assert scene.ask("alice", to("home/dev/x")) is not None
    assert scene.ask("alice", to("home/other/x")) is None


def test_a_will_that_may_not_be_said_keeps_its_client_out(scene: Scene) -> None:
    will = Will(Message("other", b""))
    assert scene.ask("alice", Attach(1, "dev", True, 0, 10, will)) is not None
    assert scene.connection.principal is None


def test_changes_count_at_once(scene: Scene) -> None:
    held = scene.principal("alice")

    def sends() -> ErrorCode | None:
        command = Send(1, [Message("t1", b"")])
        command.principal = held
        return scene.refusal("", command)

    assert sends() is None
    scene.carry_out("root", DeletePolicies(1, "alice", "Topic:t*"))
    assert sends() is ErrorCode.NOT_ALLOWED
    scene.carry_out("root", PutPolicies(1, Grant("alice", (AccessPolicy("Topic:t1", (ALL,)),))))
    assert sends() is None
    scene.carry_out("root", UpdateUser(1, "alice", enabled=False))
    assert sends() is ErrorCode.NOT_AUTHENTICATED
    scene.carry_out("root", UpdateUser(1, "alice", enabled=True, privileged=True))
    assert sends() is None
    scene.carry_out("root", DeleteUser(1, "alice"))
    assert sends() is ErrorCode.NOT_AUTHENTICATED


def test_credentials(scene: Scene) -> None:
    def code(credentials: Any, certified: str = "") -> str:
        found = scene.access.authenticate(credentials, HOST, certified)
        return found.user if isinstance(found, Principal) else found.code.value

    no = "not-authenticated"
    mac = hmac.digest(b"pw", b"content", "sha1")
    assert code(Password("alice", b"pw")) == "alice"
    assert [code(Password("alice", b"")), code(Password("alice", b"pw2")), code(Password("nobody", b"pw"))] == [no] * 3
    assert code(Signature("alice", mac, b"content")) == "alice"
    assert [code(Signature("alice", mac, b"c")), code(Signature("alice", b"", b"c"))] == [no] * 2
    assert code(Signature("x", mac, b"content")) == no
    assert code(None) == no
    assert code(None, "sensor-7") == "sensor-7"

    def token(key: str = SECRET, **claims: object) -> str:
        return jwt.encode({"sub": "carol", **claims}, key, "HS256")

    assert code(BearerToken(token())) == "carol"
    assert code(Password("carol", token().encode())) == "carol"
    assert code(Password("alice", token().encode())) == no
    assert code(BearerToken(token(exp=1_100))) == "carol"
    assert [code(BearerToken(token(exp=900))), code(BearerToken(token(nbf=2_000))), code(BearerToken(token(exp="x")))] == [
        no
    ] * 3
    assert [
        code(BearerToken(token(SECRET + "!"))),
        code(BearerToken(token(sub="a/b"))),
        code(BearerToken("x.y")),
        code(BearerToken("")),
    ] == [no] * 4
    assert code(BearerToken(jwt.encode({"sub": "root"}, "", "none"))) == no


def test_tokens_of_a_public_key_and_no_other_algorithm() -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    scene = Scene({"jwt_public_key": public.decode(), "jwt_audience": "headgate", "jwt_user_claim": "name"})
    claims = {"name": "carol", "aud": "headgate"}

    def user(text: str) -> str:
        found = scene.access.authenticate(BearerToken(text), HOST)
        return found.user if isinstance(found, Principal) else ""

    assert user(jwt.encode(claims, private, "RS256")) == "carol"
    assert user(jwt.encode({**claims, "aud": "other"}, private, "RS256")) == ""
    assert user(jwt.encode({**claims, "name": 7}, private, "RS256")) == ""
    assert user(jwt.encode(claims, private, "RS512")) == ""
    assert user(jwt.encode(claims, SECRET, "HS256")) == ""


def test_a_token_that_runs_out_ends_its_principal(scene: Scene) -> None:
    held = scene.access.authenticate(BearerToken(jwt.encode({"sub": "alice", "exp": 1_100}, SECRET, "HS256")), HOST)
    assert isinstance(held, Principal)
    for now_ms, expected in ((1_100_000, None), (1_130_000, ErrorCode.NOT_AUTHENTICATED)):
        scene.now_ms = now_ms
        command = Send(1, [Message("t1", b"")])
        command.principal = held
        assert scene.refusal("", command) is expected


def test_anonymous_clients_are_one_user() -> None:
    scene = Scene({"anonymous": "guest", "policies": [{"subject": "User:guest", "resource": "Topic:open", "actions": [SUB]}]})
    found = scene.access.authenticate(None, HOST)
    assert isinstance(found, Principal)
    for topic, allowed in (("open", True), ("closed", False)):
        command: Command = QueryTopic(1, topic)
        command.principal = found
        assert (scene.ask("", command) is None) is allowed


def test_users_and_policies_are_kept(scene: Scene) -> None:
    scene.carry_out("root", CreateUser(1, User("carl", "pw3")))
    scene.carry_out("root", PutPolicies(1, Grant("carl", (AccessPolicy("Topic:c", (PUB,), sources=("10.0.0.0/8",)),))))
    again = Scene(state=scene.state)
    assert again.records.users == scene.records.users
    assert again.records.grants == scene.records.grants
    assert again.ask("carl", Send(1, [Message("c", b"")])) is None


def test_only_super_users_make_super_users_and_see_passwords(scene: Scene) -> None:
    admin = Grant("bob", (AccessPolicy("Cluster:*", (ALL,)),))
    assert scene.carry_out("root", PutPolicies(1, admin)) == Done(1)
    assert isinstance(scene.carry_out("bob", CreateUser(1, User("eve", "pw", privileged=True))), Refused)
    assert isinstance(scene.carry_out("bob", UpdateUser(1, "bob", privileged=True)), Refused)
    assert isinstance(scene.carry_out("bob", UpdateUser(1, "root", password="mine")), Refused)
    assert isinstance(scene.carry_out("bob", DeleteUser(1, "root")), Refused)
    assert isinstance(scene.carry_out("root", DeleteUser(1, "root")), Refused), "the last one"
    assert isinstance(scene.carry_out("root", UpdateUser(1, "root", enabled=False)), Refused)
    assert scene.carry_out("bob", CreateUser(1, User("eve", "pw"))) == Done(1)
    assert scene.carry_out("bob", ListUsers(1, name="alice")) == UserList(1, [User("alice", "")])
    assert scene.carry_out("root", ListUsers(1, name="alice")) == UserList(1, [User("alice", "pw")])
    assert scene.carry_out("root", ListUsers(1, part="o")) == UserList(
        1, [User("bob", "pw2"), User("root", "r00t", privileged=True)]
    )


def test_policies_replace_those_on_the_same_resource(scene: Scene) -> None:
    scene.carry_out("root", PutPolicies(1, Grant("alice", (AccessPolicy("Topic:t*", (SUB,)), AccessPolicy("Topic:x", (PUB,))))))
    found = scene.carry_out("root", ListPolicies(1, resource="Topic"))
    assert found == GrantList(1, [Grant("alice", (AccessPolicy("Topic:t*", (SUB,)), AccessPolicy("Topic:x", (PUB,))))])
    given = Grant("bob", (AccessPolicy("Topic:t", (PUB,)),))
    assert isinstance(scene.carry_out("root", PutPolicies(1, given, create=False)), Refused)
    assert isinstance(scene.carry_out("root", PutPolicies(1, Grant("bob", (AccessPolicy("nonsense", (PUB,)),)))), Refused)
    assert scene.carry_out("root", DeletePolicies(1, "alice")) == Done(1)
    assert scene.carry_out("root", ListPolicies(1)) == GrantList(1, [])
