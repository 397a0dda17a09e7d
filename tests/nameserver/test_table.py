"""Registered brokers: leases, topics, role switches (RocketMQ's RouteInfoManager)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from domain.limits import SECOND_NS
from domain.nameserver.route import DataVersion, RegisterOutcome, Registration, TopicPage, TopicQueues
from nameserver.table import BROKERS_MAX, REPLICAS_MAX, RouteTable


def queues(broker: str, *names: str, perm: int = 6) -> Mapping[str, TopicQueues]:
    return {name: TopicQueues(broker, 8, 8, perm) for name in names}


MASTER = Registration("c1", "b-x", 0, "m:1", "m:2", 120_000, version=DataVersion(1, 1, 1), topics=queues("b-x", "T", "U"))
TAKEN, MISFIT, FULL = RegisterOutcome.TAKEN, RegisterOutcome.MISFIT, RegisterOutcome.FULL
SLAVE = replace(MASTER, broker_id=1, address="s:1", topics=queues("b-x", "T", "U"))


def test_a_registered_broker_has_routes(table: RouteTable) -> None:
    assert table.register(MASTER, 0) is TAKEN
    assert table.register(SLAVE, 0) is TAKEN
    found, brokers = table.route("T")
    assert [each.broker for each in found] == ["b-x"]
    assert [each.addresses for each in brokers] == [{0: "m:1", 1: "s:1"}]
    assert sorted(table.topics()) == ["T", "U"]
    assert sorted(table.topics("c1")) == ["T", "U"]
    assert sorted(table.topics("c2")) == []
    assert table.route("V") == ([], [])
    assert table.master("b-x") == ("m:1", "m:2")


def test_a_lease_without_renewal_ends_and_removes_the_topics(table: RouteTable) -> None:
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


def test_only_a_new_version_changes_topics(table: RouteTable) -> None:
    table.register(MASTER, 0)
    table.register(replace(MASTER, topics=queues("b-x", "NEW")), 0)
    assert sorted(table.topics()) == ["T", "U"]
    table.register(replace(MASTER, topics=queues("b-x", "NEW"), version=DataVersion(1, 2, 2)), 0)
    assert sorted(table.topics()) == ["NEW", "T", "U"]


def test_a_slave_that_becomes_the_master_keeps_one_address(table: RouteTable) -> None:
    table.register(SLAVE, 0)
    table.register(replace(SLAVE, broker_id=0, version=DataVersion(2, 2, 2)), 0)
    assert [each.addresses for each in table.brokers()] == [{0: "s:1"}]


def test_older_state_at_another_address_is_ignored(table: RouteTable) -> None:
    table.register(replace(MASTER, version=DataVersion(5, 1, 1)), 0)
    assert table.register(replace(MASTER, address="old:1", version=DataVersion(4, 9, 9)), 0) is TAKEN
    assert table.master("b-x")[0] == "m:1"


def test_an_older_leader_does_not_come_between_the_pages_of_a_newer_one(table: RouteTable) -> None:
    older, newer = (replace(MASTER, address=f"{state}:1", version=DataVersion(state, 9, 9), topics=None) for state in (4, 5))
    assert table.register_page(newer, whole(0, False, "T"), 0) is TAKEN
    assert table.register_page(older, whole(0, True, "T"), 0) is TAKEN
    assert table.master("b-x")[0] == "5:1"
    assert table.register_page(newer, whole(1, True, "U"), 0) is TAKEN
    assert sorted(table.topics()) == ["T", "U"]


def test_the_next_leader_is_registered_at_once_and_the_one_before_cannot_take_it_away(table: RouteTable) -> None:
    before, after = (replace(MASTER, address=f"{state}:1", version=DataVersion(state, 9, 9), topics=None) for state in (4, 5))
    table.register_page(before, whole(0, True, "T"), 0, "the connection of the one before")
    table.register_page(after, whole(0, True, "T"), 0, "another")
    assert table.master("b-x")[0] == "5:1"
    table.unregister("b-x", 0, "4:1")
    table.release("the connection of the one before")
    table.register_page(before, whole(0, True, "T"), 0, "the connection of the one before")
    assert table.master("b-x")[0] == "5:1"
    assert [each.addresses for each in table.route("T")[1]] == [{0: "5:1"}]


def test_unregistering_a_broker_and_dropping_a_topic(table: RouteTable) -> None:
    table.register(MASTER, 0)
    table.register(replace(MASTER, cluster="c2", broker="b-y", address="y:1", topics=queues("b-y", "T", "X")), 0)
    table.drop_topic("T", "c2")
    assert [each.broker for each in table.route("T")[0]] == ["b-x"]
    table.drop_topic("T")
    assert table.route("T") == ([], [])
    table.unregister("b-x", 0, "another:1")
    assert len(table.brokers()) == 2
    table.unregister("b-x", 0, "m:1")
    assert [each.broker for each in table.brokers()] == ["b-y"]
    assert sorted(table.topics()) == ["X"]


def test_write_permission_of_a_broker(table: RouteTable) -> None:
    table.register(MASTER, 0)
    assert table.set_writable("b-x", False) == 2
    assert {each.perm for each in table.route("T")[0]} == {4}
    assert table.set_writable("b-x", True) == 2
    assert {each.perm for each in table.route("T")[0]} == {6}
    assert table.set_writable("nobody", True) == 0


def test_the_number_of_brokers_is_bounded(table: RouteTable) -> None:
    for at in range(BROKERS_MAX):
        assert table.register(replace(MASTER, broker=f"b{at}", address=f"h:{at}", topics=None), 0) is TAKEN
    assert table.register(replace(MASTER, broker="one-more"), 0) is FULL
    assert table.register(replace(MASTER, broker="b0", address="h:0"), 0) is TAKEN


OURS = replace(MASTER, version=DataVersion(0, 99, 10), topics=None)


def whole(number: int, last: bool, *names: str) -> TopicPage:
    return TopicPage(number, None, last, queues("b-x", *names))


def changes(base: int, *names: str, gone: tuple[str, ...] = (), number: int = 0, last: bool = True) -> TopicPage:
    return TopicPage(number, base, last, queues("b-x", *names), gone)


def at(counter: int) -> Registration:
    return replace(OURS, version=DataVersion(0, 99, counter))


def test_a_table_of_several_pages_has_a_version_with_the_last(table: RouteTable) -> None:
    assert table.register_page(OURS, whole(0, False, "A", "B"), 0) is TAKEN
    assert table.renew("b-x", "m:1", 0) == DataVersion(OURS.version.state)
    assert sorted(table.topics()) == ["A", "B"]
    assert table.register_page(OURS, whole(1, False, "C"), 0) is TAKEN
    assert table.register_page(OURS, whole(2, True, "D"), 0) is TAKEN
    assert table.renew("b-x", "m:1", 0) == OURS.version
    assert sorted(table.topics()) == ["A", "B", "C", "D"]


def test_routes_stay_while_the_whole_table_comes_again_and_what_it_does_not_bring_is_gone(table: RouteTable) -> None:
    table.register_page(OURS, whole(0, True, "A", "B", "C"), 0)
    assert table.register_page(at(11), whole(0, False, "D"), 0) is TAKEN
    assert sorted(table.topics()) == ["A", "B", "C", "D"]
    assert table.route("C")[0]
    assert table.register_page(at(11), whole(1, True, "B"), 0) is TAKEN
    assert sorted(table.topics()) == ["B", "D"]


def test_a_whole_table_that_was_broken_off_loses_nothing_and_is_sent_again(table: RouteTable) -> None:
    table.register_page(OURS, whole(0, True, "A", "B"), 0)
    table.register_page(at(11), whole(0, False, "C"), 0)
    assert table.renew("b-x", "m:1", 0) not in (OURS.version, at(11).version)
    assert table.register_page(at(12), whole(0, False, "A"), 0) is TAKEN
    assert sorted(table.topics()) == ["A", "B", "C"]
    assert table.register_page(at(12), whole(2, True, "D"), 0) is MISFIT
    assert table.register_page(at(12), whole(1, True, "D"), 0) is TAKEN
    assert sorted(table.topics()) == ["A", "D"]


def test_changes_build_on_the_version_that_is_there(table: RouteTable) -> None:
    assert table.register_page(at(11), changes(10, "A"), 0) is MISFIT
    assert table.brokers() == []
    table.register_page(OURS, whole(0, True, "A", "B"), 0)
    assert table.register_page(at(12), changes(9, "C"), 0) is MISFIT
    assert table.register_page(replace(at(12), version=DataVersion(0, 98, 12)), changes(10, "C"), 0) is MISFIT
    assert table.register_page(at(12), changes(10, "C", gone=("A", "nothing"), last=False), 0) is TAKEN
    assert table.renew("b-x", "m:1", 0) == OURS.version
    assert table.register_page(at(12), changes(10, "D", number=1), 0) is TAKEN
    assert table.renew("b-x", "m:1", 0) == at(12).version
    assert sorted(table.topics()) == ["B", "C", "D"]
    assert table.register_page(at(12), changes(12), 0) is TAKEN
    assert table.register_page(at(13), whole(0, False, "E"), 0) is TAKEN
    assert table.register_page(at(14), changes(12, "F"), 0) is MISFIT


def test_changes_do_not_undo_a_wiped_permission_before_their_version_is_there(table: RouteTable) -> None:
    table.register_page(OURS, whole(0, True, "A"), 0)
    table.set_writable("b-x", False)
    table.register_page(OURS, changes(10), 0)
    assert table.route("A")[0][0].perm == 4
    table.register_page(at(11), changes(10, "B"), 0)
    assert table.route("A")[0][0].perm == 6


def test_a_public_registration_ends_pages(table: RouteTable) -> None:
    table.register_page(OURS, whole(0, True, "A"), 0)
    table.register_page(at(11), whole(0, False, "B"), 0)
    table.register(replace(MASTER, topics=queues("b-x", "C")), 0)
    assert sorted(table.topics()) == ["A", "B", "C"]
    assert table.register_page(at(11), whole(1, True, "D"), 0) is MISFIT


def test_topics_of_pages_are_bounded_and_counted_once() -> None:
    table = RouteTable(routes_max=4)
    assert table.register_page(OURS, whole(0, False, "A", "B"), 0) is TAKEN
    assert table.register_page(OURS, whole(1, False, "C", "D", "E"), 0) is FULL
    assert table.register_page(OURS, whole(1, True, "C", "D"), 0) is TAKEN
    assert table.register_page(at(11), whole(0, False, "A", "B", "C", "D"), 0) is TAKEN
    assert table.register_page(at(11), whole(1, True, "E"), 0) is FULL
    assert table.register_page(at(11), whole(1, True), 0) is TAKEN
    assert table.register(replace(MASTER, broker="b-y", topics=queues("b-y", "T")), 0) is FULL
    assert len(list(table.topics())) == 4


def test_a_hundred_thousand_topics_come_in_pages_and_differ_in_nothing_but_their_names(table: RouteTable) -> None:
    shared = TopicQueues("b-x", 10, 10, 6)
    names = [f"topic-{at}" for at in range(100_000)]
    pages = [names[at : at + 1_000] for at in range(0, len(names), 1_000)]
    for number, some in enumerate(pages):
        page = TopicPage(number, None, number == len(pages) - 1, dict.fromkeys(some, shared))
        assert table.register_page(OURS, page, 0) is TAKEN
    assert len(list(table.topics())) == 100_000
    assert table.register_page(at(11), changes(10, gone=("topic-5",)), 0) is TAKEN
    assert len(list(table.topics())) == 99_999


def test_one_topic_of_a_broker_that_is_not_registered_is_a_change_of_nothing(table: RouteTable) -> None:
    one = replace(MASTER, topics=queues("b-x", "T"))
    assert table.register(one, 0) is MISFIT
    assert table.brokers() == []
    assert table.register(MASTER, 0) is TAKEN
    assert table.register(replace(one, topics=queues("b-x", "NEW"), version=DataVersion(1, 2, 2)), 0) is TAKEN
    assert sorted(table.topics()) == ["NEW", "T", "U"]


def test_the_addresses_of_a_broker_are_bounded(table: RouteTable) -> None:
    for broker_id in range(REPLICAS_MAX):
        assert table.register(replace(SLAVE, broker_id=broker_id, address=f"s:{broker_id}"), 0) is TAKEN
    assert table.register(replace(SLAVE, broker_id=REPLICAS_MAX, address="s:x"), 0) is FULL
    assert table.register(replace(SLAVE, broker_id=3, address="s:y"), 0) is TAKEN


def test_a_holder_takes_what_it_registered_last_with_it(table: RouteTable) -> None:
    first, second = object(), object()
    table.register(MASTER, 0, first)
    table.register(replace(MASTER, broker="b-y", address="y:1"), 0, first)
    table.register_page(OURS, whole(0, True, "A"), 0, second)
    table.release(first)
    assert [each.broker for each in table.brokers()] == ["b-x"]
    table.release(second)
    assert table.brokers() == []


def test_a_slave_without_topics_keeps_those_of_its_master() -> None:
    """As replicas of Headgate register while they follow: over 103 and in pages, beside their master and without it."""
    plain = replace(SLAVE, topics={}, version=DataVersion(1, 5, 1))
    for alone in (False, True):
        for pages in (False, True):
            table = RouteTable()
            table.register(MASTER, 0)
            table.register(plain, 0)
            if alone:
                table.unregister("b-x", 0, "m:1")
            newer = replace(plain, version=DataVersion(2, 5, 1))
            if pages:
                assert table.register_page(replace(newer, topics=None), TopicPage(0, None, True, {}), 0) is TAKEN
            else:
                assert table.register(newer, 0) is TAKEN
            assert sorted(table.topics()) == ["T", "U"]
            assert table.route("T")[1][0].addresses == ({1: "s:1"} if alone else {0: "m:1", 1: "s:1"})
            assert table.renew("b-x", "s:1", 0) == newer.version
            table.unregister("b-x", 1, "s:1")
            assert sorted(table.topics()) == ([] if alone else ["T", "U"])
    table = RouteTable()
    assert table.register(plain, 0) is TAKEN
    assert [each.addresses for each in table.brokers()] == [{1: "s:1"}]
    assert table.route("T") == ([], [])
