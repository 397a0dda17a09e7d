"""Rights of the users of webhooks: what they were given is enough, and what they have lost is not taken back by a word."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.http_caller import HttpCaller
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"
ADMIN = "root:wonderland"


class Anna(HttpCaller):
    """A user with a subscription."""

    user = "anna:secret"

    def call(self, method: str, target: str, document: object = None) -> tuple[int, dict[str, str]]:
        """Send a request -> (status, document)."""
        more = {"authorization": "Basic " + base64.b64encode(self.user.encode()).decode(), "content-type": "application/json"}
        body = b"" if document is None else json.dumps(document).encode()
        status, _, content = self.ask(method, target, body, more=more)
        return status, json.loads(content) if content else {}

    def subscribe(self, group: str = "") -> str:
        """Make a subscription. Returns its path."""
        config = {"verify": False, **({"group": group} if group else {})}
        document = {"source": TOPIC, "sink": "https://sink.example/", "protocol": "HTTP", "config": config}
        status, found = self.call("POST", "/subscriptions", document)
        assert status == 201, found
        return f"/subscriptions/{found['id']}"

    def status(self, path: str) -> str:
        """The status of a subscription."""
        return self.call("GET", path)[1]["status"]


class Scene:
    """A node with access control, and its administrator."""

    def __init__(self, table: dict[str, object] | None = None) -> None:
        self.world = World(181, Config(admin=ADMIN, tables={"access": table or {}}))
        self.world.start()
        self.root = Tool(self.world, "root", "root", "wonderland")
        self.root.topic(TOPIC, 1)
        about = {"username": "anna", "password": "secret", "userType": "Normal"}
        self.root.done(codes.CREATE_USER, {"username": "anna"}, about)
        self.anna = Anna(self.world)

    def grant(self, *resources: str) -> None:
        """Let anna receive."""
        entry = {"resource": list(resources), "actions": ["Sub"], "sourceIps": [], "decision": "Allow"}
        body = {"subject": "User:anna", "policies": [{"policyType": "Custom", "entries": [entry]}]}
        self.root.done(codes.CREATE_ACL, {"subject": "User:anna"}, body)
        self.world.clock.run_for(2_000)

    def revoke(self, resource: str) -> None:
        """Take a right of anna's away."""
        self.root.done(codes.DELETE_ACL, {"subject": "User:anna", "resource": resource, "policyType": "Custom"})
        self.world.clock.run_for(2_000)


def test_the_right_to_the_topic_is_enough_also_when_rights_of_others_change() -> None:
    scene = Scene()
    scene.grant(f"Topic:{TOPIC}")
    path = scene.anna.subscribe()
    scene.root.done(codes.CREATE_USER, {"username": "eve"}, {"username": "eve", "password": "e", "userType": "Normal"})
    scene.world.clock.run_for(2_000)
    assert scene.anna.status(path) == "active"
    scene.world.again()
    scene.world.clock.run_for(2_000)
    assert Anna(scene.world).status(path) == "active"


@pytest.mark.parametrize("lost", [f"Topic:{TOPIC}", "Group:g"])
def test_a_suspended_subscription_is_resumed_only_with_its_rights(lost: str, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.grant(f"Topic:{TOPIC}", "Group:g")
    path = scene.anna.subscribe("g")
    scene.revoke(lost)
    assert scene.anna.status(path) == "suspended"
    reason = scene.anna.call("GET", path)[1]["reason"]
    assert reason.endswith(f"; mend that, then POST {path}:resume")
    assert [each.message for each in caplog.records if each.name == "headgate.webhooks"] == [
        f"webhook subscription {path.rpartition('/')[2]} of {TOPIC} is suspended: {reason}"
    ]
    status, told = scene.anna.call("POST", f"{path}:resume")
    assert (status, told["code"]) == (403, "not-allowed")
    root = Anna(scene.world)
    root.user = ADMIN
    assert root.call("POST", f"{path}:resume")[0] == 403, "it would be for anna"
    assert scene.anna.status(path) == "suspended"
    scene.grant(lost)
    assert scene.anna.call("POST", f"{path}:resume")[0] == 200
    assert scene.anna.status(path) == "active"


def test_rights_that_the_configuration_has_no_more_are_missed_at_the_next_start() -> None:
    policy = {"subject": "User:anna", "resource": f"Topic:{TOPIC}", "actions": ["Sub"]}
    scene = Scene({"policies": [policy]})
    path = scene.anna.subscribe()
    scene.world.again()
    scene.world.clock.run_for(2_000)
    assert Anna(scene.world).status(path) == "active"
    scene.world.config = replace(scene.world.config, tables={"access": {"policies": [{**policy, "resource": "Topic:other"}]}})
    scene.world.again()
    scene.world.clock.run_for(2_000)
    assert Anna(scene.world).status(path) == "suspended"
