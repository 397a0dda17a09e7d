"""Registered brokers: leases, topics, role switches (RocketMQ's RouteInfoManager)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from domain.limits import SECOND_NS
from domain.nameserver.route import DataVersion, Registration, TopicQueues
from nameserver.table import BROKERS_MAX, RouteTable


def queues(broker: str, *names: str, perm: int = 6) -> Mapping[str, TopicQueues]:
    return {name: TopicQueues(broker, 8, 8, perm) for name in names}


MASTER = Registration("c1", "b-x", 0, "m:1", "m:2", 120_000, version=DataVersion(1, 1, 1), topics=queues("b-x", "T", "U"))
SLAVE = replace(MASTER, broker_id=1, address="s:1", topics=queues("b-x", "T"))


def test_a_registered_broker_has_routes() -> None:
    table = RouteTable()
    assert table.register(MASTER, 0)
    assert table.register(SLAVE, 0)
    found, brokers = table.route("T")
    assert [each.broker for each in found] == ["b-x"]
    assert [each.addresses for each in brokers] == [{0: "m:1", 1: "s:1"}]
    assert sorted(table.topics()) == ["T", "U"]
    assert sorted(table.topics("c1")) == ["T", "U"]
    assert sorted(table.topics("c2")) == []
    assert table.route("V") == ([], [])
    assert table.master("b-x") == ("m:1", "m:2")


def test_a_lease_without_renewal_ends_and_removes_the_topics() -> None:
    table = RouteTable()
    table.register(MASTER, 0)
    table.register(SLAVE, 0)
    assert table.renew("b-x", "m:1", 100 * SECOND_NS) == DataVersion(1, 1, 1)
    table.expire(120 * SECOND_NS)
    assert [each.addresses for each in table.brokers()] == [{0: "m:1"}]
    table.expire(219 * SECOND_NS)
    assert sorted(table.topics()) == ["T", "U"]
    table.expire(220 * SECOND_NS)
    assert table.brokers() == []
    assert sorted(table.topics()) == []
    assert table.renew("b-x", "m:1", 221 * SECOND_NS) is None


def test_only_a_new_version_changes_topics() -> None:
    table = RouteTable()
    table.register(MASTER, 0)
    table.register(replace(MASTER, topics=queues("b-x", "NEW")), 0)
    assert sorted(table.topics()) == ["T", "U"]
    table.register(replace(MASTER, topics=queues("b-x", "NEW"), version=DataVersion(1, 2, 2)), 0)
    assert sorted(table.topics()) == ["NEW", "T", "U"]


def test_a_slave_that_becomes_the_master_keeps_one_address() -> None:
    table = RouteTable()
    table.register(SLAVE, 0)
    table.register(replace(SLAVE, broker_id=0, version=DataVersion(2, 2, 2)), 0)
    assert [each.addresses for each in table.brokers()] == [{0: "s:1"}]


def test_older_state_at_another_address_is_ignored() -> None:
    table = RouteTable()
    table.register(replace(MASTER, version=DataVersion(5, 1, 1)), 0)
    assert table.register(replace(MASTER, address="old:1", version=DataVersion(4, 9, 9)), 0)
    assert table.master("b-x")[0] == "m:1"


def test_unregistering_a_broker_and_dropping_a_topic() -> None:
    table = RouteTable()
    table.register(MASTER, 0)
    table.register(replace(MASTER, cluster="c2", broker="b-y", address="y:1", topics=queues("b-y", "T")), 0)
    table.drop_topic("T", "c2")
    assert [each.broker for each in table.route("T")[0]] == ["b-x"]
    table.drop_topic("T")
    assert table.route("T") == ([], [])
    table.unregister("b-x", 0, "another:1")
    assert len(table.brokers()) == 2
    table.unregister("b-x", 0, "m:1")
    assert [each.broker for each in table.brokers()] == ["b-y"]
    assert sorted(table.topics()) == []


def test_write_permission_of_a_broker() -> None:
    table = RouteTable()
    table.register(MASTER, 0)
    assert table.set_writable("b-x", False) == 2
    assert {each.perm for each in table.route("T")[0]} == {4}
    assert table.set_writable("b-x", True) == 2
    assert {each.perm for each in table.route("T")[0]} == {6}
    assert table.set_writable("nobody", True) == 0


def test_the_number_of_brokers_is_bounded() -> None:
    table = RouteTable()
    for at in range(BROKERS_MAX):
        assert table.register(replace(MASTER, broker=f"b{at}", address=f"h:{at}", topics=None), 0)
    assert not table.register(replace(MASTER, broker="one-more"), 0)
    assert table.register(replace(MASTER, broker="b0", address="h:0"), 0)
