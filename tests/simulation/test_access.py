"""Access control on a whole node: a grant or revocation applies to the next request, also after the node was killed."""

from __future__ import annotations

import pytest

from domain.message import property as properties
from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC = "sim"


def controlled(seed: int) -> tuple[World, Tool, Tool]:
    """A node with access control, its administrator, and a user without rights."""
    world = World.started(seed, Config(admin="root:wonderland"))
    root = Tool(world, "root", "root", "wonderland")
    root.topic(TOPIC, 1)
    root.done(codes.CREATE_USER, {"username": "alice"}, {"username": "alice", "password": "secret", "userType": "Normal"})
    return world, root, Tool(world, "alice", "alice", "secret")


def grant(root: Tool, *actions: str) -> None:
    """Grant alice the actions on the topic."""
    entry = {"resource": [f"Topic:{TOPIC}"], "actions": list(actions), "sourceIps": [], "decision": "Allow"}
    body = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [entry]}]}
    root.done(codes.CREATE_ACL, {"subject": "User:alice"}, body)


def send(client: Tool) -> int:
    """Send one message. Returns the code of the answer."""
    fields = {
        "a": "producers", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
        "i": properties.encode([("UNIQ_KEY", "x")]).decode(), "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    return client.call(codes.SEND_V2, fields, b"body").code


@pytest.mark.parametrize("faults", ["none", "kill", "power"])
def test_what_is_granted_and_revoked_counts_with_the_next_request(faults: str) -> None:
    world, root, alice = controlled(111)

    def again() -> None:
        world.disturb(faults)

    assert send(alice) == codes.NO_PERMISSION
    grant(root, "Pub")
    again()
    assert send(alice) == 0
    root.done(codes.DELETE_ACL, {"subject": "User:alice", "resource": f"Topic:{TOPIC}", "policyType": "Custom"})
    again()
    assert send(alice) == codes.NO_PERMISSION
    grant(root, "Sub")
    assert send(alice) == codes.NO_PERMISSION, "another action"
    grant(root, "Pub")
    assert send(alice) == 0
    root.done(codes.UPDATE_USER, {"username": "alice"}, {"username": "alice", "userStatus": "disable"})
    again()
    assert send(alice) == codes.NO_PERMISSION, "disabled, on the connection that it has"
    root.done(codes.UPDATE_USER, {"username": "alice"}, {"username": "alice", "userStatus": "enable"})
    assert send(alice) == 0
    root.done(codes.UPDATE_USER, {"username": "alice"}, {"username": "alice", "password": "another"})
    again()
    assert send(alice) == codes.NO_PERMISSION, "the old password"
    alice.password = "another"
    assert send(alice) == 0
    root.done(codes.DELETE_USER, {"username": "alice"})
    again()
    assert send(alice) == codes.NO_PERMISSION
    assert world.end(TOPIC, 0) == 4, "what was refused is not stored"


def test_wrong_signatures_and_none_are_refused() -> None:
    world, root, alice = controlled(112)
    grant(root, "All")
    assert send(alice) == 0
    assert send(Tool(world, "mallory", "alice", "guess")) == codes.NO_PERMISSION
    assert send(Tool(world, "nobody")) == codes.NO_PERMISSION
    assert alice.call(codes.LIST_USER).code == codes.NO_PERMISSION
    assert world.end(TOPIC, 0) == 1
