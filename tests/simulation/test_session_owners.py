"""Where access is controlled, a session is of one user and one client id: two users with one client id never meet.

By a setting a client id has one session, as it has without access control, which only its user gets.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.node.settings import Config
from protocols.mqtt.connect import Connack, Connect, Will
from protocols.mqtt.property import Properties
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.remoting import codes
from tests.simulation.client import NEVER_S, MqttClient, numbers
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC, GROUP = "sim", "shop"
ADMIN = "root:wonderland"
BY_USER: dict[str, object] = {}
ONE_FOR_ALL: dict[str, object] = {"sessions_by_user": False}


class Scene:
    """A node with access control; anna and bob may send and receive, eve may send."""

    def __init__(self, table: dict[str, object] | None = None, admin: str = ADMIN) -> None:
        self.world = World(201, Config(admin=admin, tables={"access": table or {}}))
        self.world.start()
        root = Tool(self.world, "root", "root", "wonderland") if admin else Tool(self.world, "root")
        root.topic(TOPIC, 1)
        if admin:
            self.people(root)

    def people(self, root: Tool) -> None:
        """Make the users."""
        for name, actions in (("anna", ["Pub", "Sub"]), ("bob", ["Pub", "Sub"]), ("eve", ["Pub"])):
            root.done(codes.CREATE_USER, {"username": name}, {"username": name, "password": name, "userType": "Normal"})
            entry = {
                "resource": [f"Topic:{TOPIC}", f"Group:{GROUP}"], "actions": actions, "sourceIps": [], "decision": "Allow"
            }  # fmt: skip
            policies = {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]}
            root.done(codes.CREATE_ACL, {"subject": f"User:{name}"}, policies)

    def client(self, user: str, name: str = "sensor", version: int = 5) -> MqttClient:
        """A client of a user."""
        made = MqttClient(self.world, name, version)
        if user:
            made.user, made.password = user, user.encode()
        return made

    def say(self, body: bytes, user: str = "anna") -> None:
        """Publish a message."""
        sender = self.client(user, "sender")
        sender.connect(clean=True)
        sender.publish(f"{TOPIC}/a", body)
        sender.leave(0)

    def again(self, table: dict[str, object], admin: str = ADMIN) -> None:
        """Kill the node, and start it with other settings."""
        self.world.clock.run_for(1_000)
        self.world.config = replace(self.world.config, admin=admin, tables={"access": table})
        self.world.again()


@pytest.mark.parametrize("faults", ["none", "kill"])
@pytest.mark.parametrize("version", [4, 5])
def test_two_users_with_one_client_id_have_two_sessions(version: int, faults: str) -> None:
    scene = Scene()
    users = ("anna", "bob")
    for user in users:
        client = scene.client(user, version=version)
        assert client.connect() is False
        client.subscribe(f"{TOPIC}/#")
        client.leave()
    if faults == "kill":
        scene.world.again()
    scene.say(b"kept")
    both = [scene.client(user, version=version) for user in users]
    for client in both:
        assert client.connect() is True
        assert client.take() == [b"kept"]
    scene.say(b"live")
    for client in both:
        assert client.take() == [b"live"]
        assert client.link is not None, "nobody was taken over"


def test_who_knows_a_client_id_harms_nobody_and_gets_nothing() -> None:
    scene = Scene()
    anna = scene.client("anna")
    anna.connect()
    anna.subscribe(f"{TOPIC}/#")
    anna.leave()
    scene.say(b"secret")
    for _ in range(20):
        eve = scene.client("eve")
        assert eve.connect(clean=True) is False
        assert eve.take() == []
        eve.drop()
    assert anna.connect() is True
    assert anna.take() == [b"secret"]


def test_the_same_user_takes_over_its_own_connection() -> None:
    scene = Scene()
    first, second = scene.client("anna"), scene.client("anna")
    first.connect()
    assert second.connect() is True
    assert (first.link, second.link is not None) == (None, True)


def test_no_local_is_about_the_client_of_the_user() -> None:
    scene = Scene()
    anna, bob = scene.client("anna"), scene.client("bob")
    anna.connect()
    bob.connect()
    assert anna.ask(Subscribe(1, [(f"{TOPIC}/#", 1 | 4)]), Suback) is not None
    bob.publish(f"{TOPIC}/a", b"of bob")
    anna.publish(f"{TOPIC}/a", b"of anna")
    assert anna.take() == [b"of bob"]
    anna.leave()
    bob.publish(f"{TOPIC}/a", b"of bob again")
    assert anna.connect() is True
    assert anna.take() == [b"of bob again"]


def test_members_of_a_group_with_one_client_id_are_two() -> None:
    scene = Scene()
    both = [scene.client(user) for user in ("anna", "bob")]
    for client in both:
        client.connect()
        client.subscribe(f"$share/{GROUP}/{TOPIC}/#")
    for number in range(8):
        scene.say(b"%d" % number)
    taken = [client.take() for client in both]
    assert sorted(b"".join(each) for each in taken) != [b"", b"01234567"], "each has a share"
    assert sorted(body for each in taken for body in each) == [b"%d" % number for number in range(8)]
    root = Tool(scene.world, "tool", "root", "wonderland")
    told = root.call(codes.GET_CONSUMER_CONNECTIONS, {"consumerGroup": GROUP})
    assert b"anna/sensor" in told.body
    assert b"bob/sensor" in told.body


@pytest.mark.parametrize("way", ["by-user", "one-for-all"])
@pytest.mark.parametrize("version", [4, 5])
def test_a_session_that_was_stored_before_goes_to_its_user(version: int, way: str) -> None:
    before, after = (ONE_FOR_ALL, BY_USER) if way == "by-user" else (BY_USER, ONE_FOR_ALL)
    scene = Scene(before)
    anna = scene.client("anna", version=version)
    anna.connect(will=Will(f"{TOPIC}/will", b"gone", 1, False, Properties()))
    anna.subscribe(f"{TOPIC}/#")
    anna.leave()
    scene.say(b"kept")
    scene.again(after)
    if way == "by-user":
        bob = scene.client("bob", version=version)
        assert bob.connect() is False
        bob.leave()
    for number in range(2):
        anna = scene.client("anna", version=version)
        assert anna.connect() is True
        assert anna.take() == ([] if number else [b"kept"])
        anna.leave()
        scene.world.clock.run_for(1_000)
        scene.world.again()
    scene.again(before)
    anna = scene.client("anna", version=version)
    assert anna.connect() is True, "it goes back as well"


def test_two_connections_at_once_get_one_session_that_was_stored_before() -> None:
    scene = Scene(ONE_FOR_ALL)
    anna = scene.client("anna")
    anna.connect()
    anna.subscribe(f"{TOPIC}/#")
    anna.leave()
    scene.say(b"kept")
    scene.again(BY_USER)
    clients = [scene.client(user) for user in ("anna", "bob", "anna", "bob")]
    for client in clients:
        scene.world.dial("mqtt", client)
        user, password = client.user, client.password
        client.put(Connect(5, "sensor", False, 0, None, user, password, numbers(session_expiry=NEVER_S)))
    scene.world.clock.run_for(2_000)
    for user, resumed in (("anna", [True, True]), ("bob", [False, True])):
        own = [client for client in clients if client.user == user]
        assert sorted(each.present for client in own for each in client.answers(Connack)) == resumed
        assert sum(client.link is not None for client in own) == 1


@pytest.mark.parametrize("first", ["anna", "bob"])
def test_a_session_of_nobody_goes_to_the_first_user_with_its_client_id(first: str) -> None:
    scene = Scene(admin="")
    client = scene.client("")
    client.connect()
    client.subscribe(f"{TOPIC}/#")
    client.leave()
    scene.say(b"kept", "")
    scene.again(BY_USER)
    scene.people(Tool(scene.world, "root", "root", "wonderland"))
    for number, user in enumerate(sorted(("anna", "bob"), key=lambda user: user != first)):
        asked = scene.client(user)
        assert asked.connect() is (number == 0)
        assert asked.take() == ([] if number else [b"kept"])


# One session for a client id


@pytest.mark.parametrize("faults", ["none", "kill"])
def test_another_user_begins_anew(faults: str) -> None:
    scene = Scene(ONE_FOR_ALL)
    anna = scene.client("anna")
    anna.connect()
    anna.subscribe(f"{TOPIC}/#")
    anna.leave()
    if faults == "kill":
        scene.world.again()
    sender = scene.client("anna", "sender")
    sender.connect(clean=True)
    sender.publish(f"{TOPIC}/a", b"secret")
    eve = scene.client("eve")
    assert eve.connect() is False
    assert eve.take() == []
    sender.publish(f"{TOPIC}/a", b"later")
    assert eve.take() == []
    eve.leave()
    assert anna.connect() is False, "it was ended"


@pytest.mark.parametrize("faults", ["none", "kill"])
def test_its_user_goes_on(faults: str) -> None:
    scene = Scene()
    anna = scene.client("anna")
    anna.connect()
    anna.subscribe(f"{TOPIC}/#")
    anna.leave()
    sender = scene.client("anna", "sender")
    sender.connect(clean=True)
    sender.publish(f"{TOPIC}/a", b"kept")
    if faults == "kill":
        scene.world.again()
        anna = scene.client("anna")
    assert anna.connect() is True
    assert anna.take() == [b"kept"]


def test_who_takes_over_a_connection_gets_nothing_of_it_either() -> None:
    scene = Scene(ONE_FOR_ALL)
    anna = scene.client("anna")
    anna.connect()
    anna.subscribe(f"{TOPIC}/#")
    eve = scene.client("eve")
    assert eve.connect() is False
    sender = scene.client("anna", "sender")
    sender.connect(clean=True)
    sender.publish(f"{TOPIC}/a", b"secret")
    assert eve.take() == []
