"""Users and policies of a cluster in memory: what is asked, what holds how soon, and what holds without the brokers."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from domain.access import PUB, TOPIC, Need, Password
from domain.errors import Failure
from domain.limits import SECOND_NS
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.observe.metrics import COUNTERS
from gateway.rocketmq.brokers import Brokers
from gateway.rocketmq.link import BrokerAnswerError
from gateway.rocketmq.users.cluster_users import PERIOD_NS, ClusterUsers
from gateway.rocketmq.users.rights import rights_of
from protocols.remoting import codes
from protocols.remoting.frame import Frame
from tests.gateway.access.memory import access_config
from tests.gateway.rocketmq.scripted_cluster import Reply
from tests.gateway.rocketmq.test_brokers import Halves
from tests.gateway.rocketmq.test_cluster_map import World as MapWorld
from tests.stored_state import memory_state

KEPT_S = 30
HOST = "10.0.0.1"


def info(name: str, password: str = "secret", status: str = "enable", kind: str = "Normal") -> dict[str, str]:
    """A UserInfo bean."""
    return {"username": name, "password": password, "userStatus": status, "userType": kind}


def acl(name: str, *entries: dict[str, Any], kind: str = "Custom") -> dict[str, Any]:
    """An AclInfo bean."""
    return {"subject": f"User:{name}", "policies": [{"policyType": kind, "entries": list(entries)}]}


def entry(resource: str, *actions: str, decision: str = "Allow", sources: tuple[str, ...] = ()) -> dict[str, Any]:
    """An entry of a policy."""
    return {"resource": resource, "actions": list(actions), "decision": decision, "sourceIps": list(sources)}


class World(MapWorld):
    """Two brokers with the same users, and what a gateway knows of them.

    users, acls   what each broker tells
    """

    def __init__(self) -> None:
        super().__init__()
        self.users: dict[str, list[Any]] = {}
        self.acls: dict[str, list[Any]] = {}
        for name, server in self.cluster.brokers.items():
            self.users[name], self.acls[name] = [info("ann")], [acl("ann", entry("Topic:orders", "Pub"))]
            server.on(codes.LIST_USER, lambda frame, name=name: self._listed(frame, self.users[name]))  # type: ignore[misc]
            server.on(codes.LIST_ACL, lambda frame, name=name: self._listed(frame, self.acls[name]))  # type: ignore[misc]
        links = Brokers((), self.cluster, self.clock, Halves())
        self.told = ClusterUsers(self.servers, links, self.map, self.clock, KEPT_S * SECOND_NS)
        self.records = AccessRecords(None, (), self.told, "elsewhere")
        self.access = Access(self.records, access_config({}), self.clock.wall_ms)
        self.changes = 0
        self.records.on_change = self._count

    def _count(self) -> None:
        self.changes += 1

    def _listed(self, frame: Frame, found: list[Any]) -> Reply:
        assert frame.fields(), "brokers fail at requests without fields"
        return codes.SUCCESS, {}, orjson.dumps(found) if found else b""

    def begin(self) -> World:
        """Ask, once the name server has told the brokers."""
        self.clock.run_for(100)
        self.told.start()
        self.clock.run_for(100)
        return self

    def wait(self, seconds: float) -> None:
        self.clock.run_for(seconds * 1_000)

    def admits(self, name: str = "ann", password: str = "secret") -> bool:
        return not isinstance(self.access.authenticate(Password(name, password.encode()), HOST), Failure)

    def may_send(self, topic: str) -> bool:
        principal = self.access.authenticate(Password("ann", b"secret"), HOST)
        assert not isinstance(principal, Failure)
        return self.access.verdict(principal, Need(TOPIC, topic, (PUB,))) is None

    def asked(self, broker: str) -> int:
        return self.cluster.brokers[broker].codes().count(codes.LIST_USER)


@pytest.fixture
def world() -> World:
    return World()


def test_users_and_policies_of_a_broker_are_those_of_the_gateway(world: World) -> None:
    assert not world.admits()
    world.begin()
    assert world.told.told
    assert world.admits()
    assert not world.admits(password="wrong")
    assert not world.admits("bob")
    assert world.may_send("orders")
    assert not world.may_send("others")
    assert world.told.figures()["cluster_users"] == 1
    assert set(world.told.figures()) <= set(COUNTERS)


def test_the_password_has_the_same_generation_as_at_a_state_node(world: World) -> None:
    there = AccessRecords(memory_state())
    world.begin()
    there.put_user(world.records.users["ann"], lambda _: None)
    assert there.generation("ann") == world.records.generation("ann") != 0


def test_a_change_at_the_broker_holds_after_a_period(world: World) -> None:
    world.begin()
    world.users["broker-a"] = [info("bob")]
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert not world.admits()
    assert world.admits("bob")
    world.users["broker-a"] = [info("bob", status="disable")]
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert not world.admits("bob")


def test_nothing_is_changed_when_nothing_has_changed(world: World) -> None:
    world.begin()
    changes, epoch = world.changes, world.records.epoch
    world.wait(60)
    assert world.asked("broker-a") > 20
    assert (world.changes, world.records.epoch) == (changes, epoch)


def test_one_broker_is_asked_and_the_next_one_when_it_is_away(world: World) -> None:
    world.begin()
    world.wait(10)
    assert world.asked("broker-b") == 0
    world.cluster.brokers["broker-a"].stop()
    world.users["broker-b"] = [info("bob")]
    world.wait(10)
    assert world.admits("bob")
    world.cluster.brokers["broker-a"].up = True
    world.wait(10)
    assert world.admits("bob"), "the broker that has told them is asked further"


def test_without_brokers_users_are_known_for_a_bounded_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.begin()
    for broker in world.cluster.brokers.values():
        broker.stop()
    world.wait(KEPT_S - 5)
    assert world.admits()
    assert "users and policies of the cluster are not told" in caplog.text
    world.wait(15)
    assert not world.told.told
    assert not world.admits()
    assert world.told.fault
    world.cluster.brokers["broker-a"].up = True
    world.wait(10)
    assert world.told.told
    assert world.admits()


def test_a_broker_that_says_nothing_keeps_nobody_from_being_told(world: World) -> None:
    world.cluster.brokers["broker-a"].silent = True
    world.begin()
    world.wait(5)
    assert world.admits()


@pytest.mark.parametrize("body", [b"nonsense", b"{}", b"[1]"])
def test_an_answer_of_another_shape_changes_nothing(world: World, body: bytes) -> None:
    world.begin()
    for broker in world.cluster.brokers.values():
        broker.on(codes.LIST_ACL, lambda frame: (codes.SUCCESS, {}, body))
    world.wait(10)
    assert world.admits()
    assert "broker-a" in world.told.fault
    assert "broker-b" in world.told.fault


def test_a_refusal_is_told_in_the_words_of_the_broker(world: World) -> None:
    for broker in world.cluster.brokers.values():
        broker.on(codes.LIST_USER, lambda frame: (codes.NO_PERMISSION, {}, b"", "User:x has no permission"))
    world.begin()
    assert not world.told.told
    assert "broker broker-a does not tell its users: User:x has no permission" in world.told.fault


def test_users_are_not_changed_here(world: World) -> None:
    answers: list[Failure | None] = []
    world.begin()
    world.records.drop_user("ann", answers.append)
    assert [each.text for each in answers if each is not None] == ["users and policies are changed elsewhere"]


def test_after_the_end_nothing_is_asked(world: World) -> None:
    world.begin()
    asked = world.asked("broker-a")
    world.told.stop()
    world.wait(10)
    assert world.asked("broker-a") == asked


def names(found: list[Any], acls: list[Any] | None = None) -> list[bytes]:
    return list(rights_of(orjson.dumps(found), orjson.dumps(acls or [])).values)


def test_a_user_without_a_password_is_nobody() -> None:
    """A broker that did not tell passwords would let everybody in."""
    assert names([info("ann", ""), {"username": "bob"}]) == []


@pytest.mark.parametrize("name", ["", "a b", "a/b", "+", "#", "x" * 129])
def test_a_name_that_means_something_else_here_is_left_out_and_told(name: str) -> None:
    told = rights_of(orjson.dumps([info(name), info("ann")]), b"")
    assert list(told.values) == [b"uann"]
    assert len(told.faults) == 1


def test_an_allow_that_cannot_be_read_is_left_out() -> None:
    told = rights_of(b"", orjson.dumps([acl("ann", entry("Topic:a*b", "Pub"), entry("Topic:c", "Pub"))]))
    assert b"Topic:c" in told.values[b"pann"]
    assert b"a*b" not in told.values[b"pann"]
    assert "Topic:a*b" in told.faults[0]


def test_a_deny_that_cannot_be_read_leaves_no_rights() -> None:
    told = rights_of(b"", orjson.dumps([acl("ann", entry("Topic:c", "Pub"), entry("Topic:a*b", "Pub", decision="Deny"))]))
    assert told.values == {}
    assert "no rights" in told.faults[0]


def test_what_has_no_subject_is_left_out() -> None:
    told = rights_of(b"", orjson.dumps([{"subject": "Role:x", "policies": []}, {"policies": []}]))
    assert told.values == {}
    assert len(told.faults) == 2


def test_an_answer_that_is_no_list_raises() -> None:
    with pytest.raises(BrokerAnswerError, match="users"):
        rights_of(b"{}", b"")


def test_what_cannot_be_used_is_in_the_log_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.users["broker-a"] = [info("ann"), info("a b")]
    with caplog.at_level(logging.WARNING):
        world.begin().wait(30)
    assert caplog.text.count("User:a b") == 1
