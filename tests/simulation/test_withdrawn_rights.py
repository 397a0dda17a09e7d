"""What a user has left to be done later is judged when it is done: wills, subscriptions of sessions, waiting requests.

What was acknowledged stays: a delayed message is delivered whatever has become of its sender.
"""

from __future__ import annotations

import pytest

from gateway.node.settings import Config
from protocols.mqtt.connect import Will
from protocols.mqtt.property import Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.remoting import codes
from tests.simulation.client import MqttClient, numbers
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"
ALL = ("Pub", "Sub")
SECOND_MS = 1_000


class Scene:
    """A node with access control; carol and anna may send and receive."""

    def __init__(self, table: dict[str, object] | None = None) -> None:
        self.world = World(231, Config(admin="root:wonderland", tables={"access": table or {}}))
        self.world.start()
        self.root = Tool(self.world, "root", "root", "wonderland")
        self.root.topic(TOPIC, 1)
        for name in ("carol", "anna"):
            body = {"username": name, "password": name, "userType": "Normal"}
            self.root.done(codes.CREATE_USER, {"username": name}, body)
            self.grant(name, ALL)

    def grant(self, name: str, actions: tuple[str, ...]) -> None:
        """Let a user do `actions` on the topic, and nothing else."""
        entry = {"resource": [f"Topic:{TOPIC}"], "actions": list(actions), "sourceIps": [], "decision": "Allow"}
        policies = {"subject": f"User:{name}", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        self.root.done(codes.CREATE_ACL, {"subject": f"User:{name}"}, policies)

    def client(self, user: str, name: str, version: int = 5) -> MqttClient:
        """A client of a user."""
        made = MqttClient(self.world, name, version)
        made.user, made.password = user, user.encode()
        return made

    def reader(self) -> MqttClient:
        """A client of anna's that receives all of the topic."""
        anna = self.client("anna", "reader")
        anna.connect()
        anna.subscribe(f"{TOPIC}/#")
        return anna

    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.world.clock.run_for(seconds * SECOND_MS)

    # What is done to carol

    def deleted(self) -> None:
        """Delete the user."""
        self.root.done(codes.DELETE_USER, {"username": "carol"})

    def disabled(self) -> None:
        """Disable the user."""
        self.root.done(codes.UPDATE_USER, {"username": "carol"}, {"username": "carol", "userStatus": "disable"})

    def withdrawn(self) -> None:
        """Take the right to the topic away."""
        self.root.done(codes.DELETE_ACL, {"subject": "User:carol", "resource": f"Topic:{TOPIC}", "policyType": "Custom"})

    def unchanged(self) -> None:
        """Do nothing."""

    def renewed(self) -> None:
        """Give the user another password."""
        self.root.done(codes.UPDATE_USER, {"username": "carol"}, {"username": "carol", "password": "another"})


CHANGES = {
    "deleted": Scene.deleted, "disabled": Scene.disabled, "withdrawn": Scene.withdrawn,
    "unchanged": Scene.unchanged, "renewed": Scene.renewed,
}  # fmt: skip
STAYS = ("unchanged", "renewed")


def will(delay_s: int = 0, retain: bool = True) -> Will:
    """A will on the topic."""
    return Will(f"{TOPIC}/state", b"gone", 1, retain, numbers(will_delay=delay_s) if delay_s else Properties())


@pytest.mark.parametrize("faults", ["none", "kill"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_delayed_will_is_judged_when_it_is_due(change: str, faults: str, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    anna = scene.reader()
    carol = scene.client("carol", "sensor")
    carol.connect(will=will(12))
    carol.drop()
    scene.wait(1)
    CHANGES[change](scene)
    if faults == "kill":
        scene.wait(1)
        scene.world.again()
        anna = scene.client("anna", "reader")
        assert anna.connect() is True
    caplog.clear()
    scene.wait(20)
    told = [record.getMessage() for record in caplog.records if "will" in record.getMessage()]
    if change in STAYS:
        assert (anna.take(), told) == ([b"gone"], [])
    else:
        assert anna.take() == []
        assert len(told) == 1
        assert "'carol'" in told[0]
        late = scene.client("anna", "late")
        late.connect()
        late.subscribe(f"{TOPIC}/#")
        assert late.take() == [], "it is not retained either"


@pytest.mark.parametrize("expiry_s", [0, 3_600])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("change", CHANGES)
def test_the_will_of_a_client_that_is_sent_away_is_judged_too(change: str, version: int, expiry_s: int) -> None:
    scene = Scene()
    anna = scene.reader()
    carol = scene.client("carol", "sensor", version)
    carol.connect(clean=version == 4, expiry_s=expiry_s, will=will())
    CHANGES[change](scene)
    scene.wait(2)
    if carol.link is not None:
        carol.drop()
        scene.wait(1)
    assert anna.take() == ([b"gone"] if change in STAYS else [])


def test_a_rule_for_everybody_does_not_publish_for_a_deleted_user() -> None:
    scene = Scene({"rules": [{"filter": f"{TOPIC}/#", "actions": ["Pub"]}]})
    anna = scene.reader()
    carol = scene.client("carol", "sensor")
    carol.connect(will=will(12))
    carol.drop()
    scene.deleted()
    scene.wait(1)
    scene.world.again()
    anna = scene.client("anna", "reader")
    assert anna.connect() is True
    scene.wait(20)
    assert anna.take() == []


@pytest.mark.parametrize("change", ["withdrawn", "unchanged"])
def test_a_resumed_session_is_given_nothing_by_a_filter_that_may_not_be_had_any_more(change: str) -> None:
    scene = Scene()
    carol = scene.client("carol", "reader")
    carol.connect()
    carol.subscribe(f"{TOPIC}/#")
    carol.leave()
    sender = scene.client("anna", "sender")
    sender.connect()
    sender.publish(f"{TOPIC}/a", b"before")
    CHANGES[change](scene)
    sender.publish(f"{TOPIC}/a", b"after")
    assert carol.connect() is True
    scene.wait(2)
    assert carol.take() == ([b"before", b"after"] if change in STAYS else [])
    assert (carol.link is None) is (change not in STAYS), "it is told"


class Deaf(MqttClient):
    """A client that acknowledges nothing."""

    def received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            self._heard.append(packet)


@pytest.mark.parametrize("change", ["withdrawn", "unchanged"])
def test_what_was_in_flight_is_not_sent_again_without_the_right(change: str) -> None:
    scene = Scene()
    deaf = Deaf(scene.world, "reader")
    deaf.user, deaf.password = "carol", b"carol"
    deaf.connect()
    deaf.subscribe(f"{TOPIC}/#")
    sender = scene.client("anna", "sender")
    sender.connect()
    sender.publish(f"{TOPIC}/a", b"m")
    scene.wait(1)
    deaf.leave()
    CHANGES[change](scene)
    carol = scene.client("carol", "reader")
    for _ in range(2):  # the subscription is gone the second time
        assert carol.connect() is True
        scene.wait(2)
        assert carol.take() == ([b"m"] if change in STAYS else [])
        if change in STAYS:
            break


@pytest.mark.parametrize("change", CHANGES)
def test_an_acknowledged_delayed_message_is_delivered(change: str) -> None:
    scene = Scene()
    anna = scene.reader()
    carol = scene.client("carol", "sensor")
    carol.connect()
    about = Properties()
    about.user.append(("deliverytime", str(scene.world.clock.wall_ms() + 10_000)))
    assert carol.ask(Publish(f"{TOPIC}/a".encode(), b"due", 1, False, False, 1, about), Ack) is not None
    CHANGES[change](scene)
    scene.wait(20)
    assert anna.take() == [b"due"]
