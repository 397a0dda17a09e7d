"""Users and policies of a cluster in memory: what is asked, what holds how soon, and what holds without the brokers."""

from __future__ import annotations

import logging
from typing import Any

import orjson
import pytest

from domain.access.access import PUB, TOPIC, Need, Password
from domain.errors import Failure
from domain.limits import SECOND_NS
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.apache.users.agreement import DIFFERS_NS
from gateway.apache.users.cluster_users import PERIOD_NS, ClusterUsers
from gateway.apache.users.rights import rights_of
from gateway.brokers.broker_links import Brokers
from gateway.brokers.refusal import BrokerAnswerError
from gateway.observe.counter_texts import COUNTERS
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame
from tests.gateway.access.memory import access_config
from tests.gateway.apache.scripted_cluster import Reply
from tests.gateway.brokers.test_cluster_map import World as MapWorld
from tests.simulation.kit.entropy import FixedEntropy
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
        links = Brokers((), self.cluster, self.clock, FixedEntropy())
        self.cluster_users = ClusterUsers(self.servers, links, self.map, self.clock, KEPT_S * SECOND_NS)
        self.records = AccessRecords(None, (), self.cluster_users, "elsewhere")
        self.access = Access(self.records, access_config({}), self.clock.wall_ms)
        self.changes = 0
        self.records.follow(self._count)

    def _count(self) -> None:
        self.changes += 1

    def _listed(self, frame: Frame, found: list[Any]) -> Reply:
        assert frame.fields(), "brokers fail at requests without fields"
        return codes.SUCCESS, {}, orjson.dumps(found) if found else b""

    def begin(self) -> World:
        """Ask, once the name server has told the brokers."""
        self.clock.run_for(100)
        self.cluster_users.start()
        self.clock.run_for(100)
        return self

    def wait(self, seconds: float) -> None:
        self.clock.run_for(seconds * 1_000)

    def notify(
        self, users: list[Any], acls: list[Any] | None = None, brokers: tuple[str, ...] = ("broker-a", "broker-b")
    ) -> None:
        """From now on these are what `brokers` tell. `acls` None: as before."""
        for name in brokers:
            self.users[name] = users
            if acls is not None:
                self.acls[name] = acls

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
    assert world.cluster_users.is_known
    assert world.admits()
    assert not world.admits(password="wrong")
    assert not world.admits("bob")
    assert world.may_send("orders")
    assert not world.may_send("others")
    assert world.cluster_users.figures()["cluster_users"] == 1
    assert set(world.cluster_users.figures()) <= set(COUNTERS)


def test_the_password_has_the_same_generation_as_at_a_state_node(world: World) -> None:
    there = AccessRecords(memory_state())
    world.begin()
    there.put_user(world.records.users["ann"], lambda _: None)
    assert there.generation("ann") == world.records.generation("ann") != 0


def test_a_change_at_the_broker_holds_after_a_period(world: World) -> None:
    world.begin()
    world.notify([info("bob")])
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert not world.admits()
    assert world.admits("bob")
    world.notify([info("bob", status="disable")])
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert not world.admits("bob")


def test_nothing_is_changed_when_nothing_has_changed(world: World) -> None:
    world.begin()
    changes, epoch = world.changes, world.records.epoch
    world.wait(60)
    assert world.asked("broker-a") > 20
    assert (world.changes, world.records.epoch) == (changes, epoch)


OTHERWISE: dict[str, list[Any]] = {
    "not known": [info("bob")],
    "another password": [info("ann", "other"), info("bob")],
    "disabled": [info("ann", status="disable"), info("bob")],
    "a Super user": [info("ann", kind="Super"), info("bob")],
}
"""What broker-b tells while broker-a has ann and bob."""
A_WHILE_S = DIFFERS_NS / SECOND_NS + 2 * PERIOD_NS / SECOND_NS + 0.5


@pytest.mark.parametrize("users", OTHERWISE.values(), ids=list(OTHERWISE))
@pytest.mark.parametrize("broker", ["broker-a", "broker-b"])
def test_a_user_whom_one_broker_knows_otherwise_is_nobody(world: World, broker: str, users: list[Any]) -> None:
    world.notify([info("ann"), info("bob")])
    world.notify(users, brokers=(broker,))
    world.begin()
    assert not world.admits()
    assert not world.admits(password="other")
    assert world.admits("bob")
    assert world.cluster_users.figures()["cluster_users_differing"] == 1
    world.notify([info("ann"), info("bob")])
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert world.admits()
    assert world.cluster_users.figures()["cluster_users_differing"] == 0


def test_a_user_who_is_nobody_has_no_policies_either(world: World) -> None:
    """A certificate, a token or `anonymous` names a user without asking whether there is one: policies are what it may do."""
    world.notify([info("ann", status="disable"), info("bob")], brokers=("broker-b",))
    world.notify([info("ann"), info("bob")], brokers=("broker-a",))
    world.begin()
    assert "ann" not in world.records.users
    assert "ann" not in world.records.grants
    world.notify([info("ann"), info("bob")])
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert "ann" in world.records.grants


def test_a_user_whose_policies_differ_has_none(world: World) -> None:
    world.notify([info("ann")], [acl("ann", entry("Topic:orders", "Pub")), acl("bob", entry("Topic:orders", "Pub"))])
    world.notify([info("ann")], [acl("ann", entry("Topic:orders", "Pub", decision="Deny"))], brokers=("broker-b",))
    world.begin()
    assert world.admits()
    assert not world.may_send("orders")
    world.notify([info("ann")], [acl("ann", entry("Topic:orders", "Pub"))])
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert world.may_send("orders")


def test_a_change_that_comes_to_one_broker_after_the_other_ends_nobody(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """As by `mqadmin updateUser -c`, which changes the brokers in turn: what was holds until they agree."""
    world.begin()
    changes = world.changes
    world.notify([info("ann", "new")], brokers=("broker-a",))
    world.wait(5)
    assert world.admits()
    assert world.changes == changes
    world.notify([info("ann", "new")])
    world.wait(PERIOD_NS / SECOND_NS + 0.1)
    assert world.admits(password="new")
    assert not world.admits()
    assert "brokers differ" not in caplog.text


def test_what_is_changed_at_one_broker_alone_holds_nowhere(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever is removed from one broker is not let in by what another one still has."""
    world.begin()
    world.notify([info("bob")], brokers=("broker-b",))
    world.wait(A_WHILE_S)
    assert not world.admits()
    assert not world.admits("bob")
    world.wait(30)
    assert caplog.text.count("User:ann is at broker-a; not at broker-b; the user is nobody here") == 1
    assert caplog.text.count("User:bob is at broker-b; not at broker-a; the user is nobody here") == 1


def test_a_new_broker_without_users_shuts_nobody_out(world: World) -> None:
    """It has its Super user alone, and no policies; what it has is compared as soon as it has some."""
    root = info("root", kind="Super")
    world.notify([root, info("ann")])
    world.notify([root], [], brokers=("broker-b",))
    world.begin()
    assert world.admits()
    assert world.may_send("orders")
    world.notify([root, info("bob")], brokers=("broker-b",))
    world.wait(A_WHILE_S)
    assert not world.admits()


def test_super_users_alone_are_compared(world: World) -> None:
    world.notify([info("ann", kind="Super"), info("root", kind="Super")], [])
    world.notify([info("root", kind="Super")], brokers=("broker-b",))
    world.begin()
    assert world.admits("root")
    assert not world.admits()


def test_what_a_broker_has_told_counts_for_a_while_when_it_is_away(world: World) -> None:
    """A user who was removed there is not let in by its end; what another broker has alone holds when it is forgotten."""
    world.notify([info("ann")], brokers=("broker-a",))
    world.notify([info("bob")], brokers=("broker-b",))
    world.begin()
    world.cluster.brokers["broker-b"].stop()
    world.wait(KEPT_S - 10)
    assert not world.admits()
    world.wait(20)
    assert world.admits()
    world.cluster.brokers["broker-b"].up = True
    world.wait(A_WHILE_S)
    assert not world.admits()


def test_without_brokers_users_are_known_for_a_bounded_time(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.begin()
    for broker in world.cluster.brokers.values():
        broker.stop()
    world.wait(KEPT_S - 5)
    assert world.admits()
    assert "users and policies of the cluster are not told" in caplog.text
    world.wait(15)
    assert not world.cluster_users.is_known
    assert not world.admits()
    assert world.cluster_users.fault
    world.cluster.brokers["broker-a"].up = True
    world.wait(10)
    assert world.cluster_users.is_known
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
    assert "broker-a" in world.cluster_users.fault
    assert "broker-b" in world.cluster_users.fault


def test_a_refusal_is_told_in_the_words_of_the_broker(world: World) -> None:
    for broker in world.cluster.brokers.values():
        broker.on(codes.LIST_USER, lambda frame: (codes.NO_PERMISSION, {}, b"", "User:x has no permission"))
    world.begin()
    assert not world.cluster_users.is_known
    assert "broker broker-a does not tell its users: User:x has no permission" in world.cluster_users.fault


def test_users_are_not_changed_here(world: World) -> None:
    answers: list[Failure | None] = []
    world.begin()
    world.records.drop_user("ann", answers.append)
    assert [each.text for each in answers if each is not None] == ["users and policies are changed elsewhere"]


def test_after_the_end_nothing_is_asked(world: World) -> None:
    world.begin()
    asked = world.asked("broker-a")
    world.cluster_users.stop()
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
