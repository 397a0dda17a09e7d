"""A session is its user's: who knows a client id gets nothing of what waits for the client of another user."""

from __future__ import annotations

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.client import MqttClient
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"


class Scene:
    """A node with access control; anna may send and receive, eve may send."""

    def __init__(self) -> None:
        self.world = World(201, Config(admin="root:wonderland"))
        self.world.start()
        root = Tool(self.world, "root", "root", "wonderland")
        root.topic(TOPIC, 1)
        for name, actions in (("anna", ["Pub", "Sub"]), ("eve", ["Pub"])):
            root.done(codes.CREATE_USER, {"username": name}, {"username": name, "password": name, "userType": "Normal"})
            entry = {"resource": [f"Topic:{TOPIC}"], "actions": actions, "sourceIps": [], "decision": "Allow"}
            policies = {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]}
            root.done(codes.CREATE_ACL, {"subject": f"User:{name}"}, policies)

    def client(self, user: str, name: str = "sensor") -> MqttClient:
        """A client of a user."""
        made = MqttClient(self.world, name)
        made.user, made.password = user, user.encode()
        return made


@pytest.mark.parametrize("faults", ["none", "kill"])
def test_another_user_begins_anew(faults: str) -> None:
    scene = Scene()
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
    scene = Scene()
    anna = scene.client("anna")
    anna.connect()
    anna.subscribe(f"{TOPIC}/#")
    eve = scene.client("eve")
    assert eve.connect() is False
    sender = scene.client("anna", "sender")
    sender.connect(clean=True)
    sender.publish(f"{TOPIC}/a", b"secret")
    assert eve.take() == []
