"""While access is not controlled no Super user is made, and the first controlled start names the users that were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.http_caller import HttpCaller
from tests.simulation.tool import Tool
from tests.simulation.world import World

ADMIN = "root:wonderland"
CHANGED = (200, 201, 204)


def controlled(world: World, admin: str) -> None:
    """Start the node again, with an admin or without."""
    world.clock.run_for(1_000)
    world.config = replace(world.config, admin=admin)
    world.again()


def by_http(world: World, method: str, path: str, document: dict[str, object]) -> tuple[int, str]:
    """(status, code of the problem) of a request about users."""
    more = {"content-type": "application/json"}
    status, _, content = HttpCaller(world).ask(method, f"/v1/users/{path}", json.dumps(document).encode(), more=more)
    return status, json.loads(content).get("code", "") if content else ""


def by_mqadmin(world: World, code: int, name: str, **said: str) -> int:
    """The code of an answer about users."""
    return (
        Tool(world, f"tool-{code}-{name}").call(code, {"username": name}, json.dumps({"username": name, **said}).encode()).code
    )


def named(caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """The users that the log names, with its text."""
    return {
        each.__dict__["user"]: each.getMessage() for each in caplog.records if each.__dict__.get("event") == "made-while-open"
    }


def test_no_super_user_is_made_by_any_door_while_anybody_may_ask(caplog: pytest.LogCaptureFixture) -> None:
    world = World(241, Config())
    world.start()
    assert by_http(world, "POST", "evil", {"password": "x", "super": True}) == (403, "not-allowed")
    assert by_mqadmin(world, codes.CREATE_USER, "evil", password="x", userType="Super") == codes.NO_PERMISSION
    assert by_http(world, "POST", "ann", {"password": "x"})[0] in CHANGED
    assert by_http(world, "PATCH", "ann", {"super": True}) == (403, "not-allowed")
    assert by_mqadmin(world, codes.UPDATE_USER, "ann", userType="Super") == codes.NO_PERMISSION
    controlled(world, ADMIN)
    users = world.parts.access.records.users  # type: ignore[union-attr]
    assert {name: user.privileged for name, user in users.items()} == {"ann": False, "root": True}
    assert list(named(caplog)) == ["ann"]


def test_a_super_user_is_not_changed_or_removed_while_anybody_may_ask() -> None:
    world = World(242, Config(admin=ADMIN))
    world.start()
    controlled(world, "")
    assert by_http(world, "PATCH", "root", {"password": "mine"}) == (403, "not-allowed")
    assert by_mqadmin(world, codes.UPDATE_USER, "root", password="mine") == codes.NO_PERMISSION
    assert by_http(world, "DELETE", "root", {}) == (403, "not-allowed")


def test_the_first_controlled_start_names_those_made_or_changed_before_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World(243, Config())
    world.start()
    for name in ("ann", "bob"):
        assert by_http(world, "POST", name, {"password": "x"})[0] in CHANGED
    assert by_http(world, "PUT", "bob/policies", {"resource": "*", "actions": ["All"]})[0] in CHANGED
    controlled(world, ADMIN)
    found = named(caplog)
    assert sorted(found) == ["ann", "bob"]
    assert "opens all data" in found["bob"]
    assert "opens all data" not in found["ann"]
    caplog.clear()
    controlled(world, ADMIN)
    assert named(caplog) == {}
    controlled(world, "")
    assert by_http(world, "PATCH", "ann", {"password": "y"})[0] in CHANGED
    controlled(world, ADMIN)
    assert list(named(caplog)) == ["ann"]
