"""A shared subscription is a share name and a filter (MQTT 5, 4.8.2): one name with two filters is two groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.address import is_group, share_group
from domain.errors import ErrorCode, Failure
from domain.topic.topic import Group
from gateway.usecase.topics_and_groups import policy
from protocols.mqtt.subscribe import Unsubscribe
from tests.gateway.usecase.sessions.shared.test_shared_subscriptions import Receiver, member, numbers, send, sender
from tests.protocols.mqtt.stage import Broker

pytestmark = pytest.mark.usefixtures("near_and_late")
UP, STATUS, ALL = "$share/g/t/+/up", "$share/g/t/+/status", "$share/g/t/#"


def test_the_groups_of_names_and_filters() -> None:
    """They are in stores: none may change."""
    assert share_group("g", "t/#") == "g"
    assert share_group("g", "mqtt_other/#") == "g"
    assert share_group("g", "t") == "g-17c80c45463470a4f5e7"
    own = [share_group("g", each) for each in ("t", "#", "+/#", "t/+/x", "t/x/#", "$x/#", "/#", "tbw102/#", "t/+")]
    assert len({*own, share_group("h", "t")}) == len(own) + 1
    long = [share_group("n" * 120, each) for each in ("t/#", "t", "u")]
    assert len(set(long)) == 3
    assert all(is_group(each) for each in own + long)


@pytest.mark.parametrize("end", ["stays", "node is killed"])
def test_a_kept_session_misses_nothing_while_only_members_with_another_filter_are_there(end: str) -> None:
    broker = Broker()
    one, two = member(broker, "one", UP, expiry_s=600), member(broker, "two", STATUS, expiry_s=600)
    source = sender(broker)
    send(source, 1, "t/1/up")
    send(source, 1, "t/1/status", first=1)
    assert (numbers(one.messages()), numbers(two.messages())) == ([0], [1])
    two.leave()
    send(source, 1, "t/2/up", first=2)
    send(source, 1, "t/2/status", first=3)
    assert numbers(one.messages()) == [2]
    if end != "stays":
        broker.kill()
    again = broker.client(5)
    assert again.connect("two", clean=False, expiry_s=600).present
    assert numbers(again.messages()) == [3]


@pytest.mark.parametrize("filters", [(UP, ALL), (UP, "$share/g/+/1/up"), ("$share/g/t/1/up", "$share/g/#")])
def test_filters_that_overlap_are_processed_separately(filters: tuple[str, str]) -> None:
    broker = Broker()
    broker.publish("t", b"before")
    one, two = member(broker, "one", filters[0]), member(broker, "two", filters[1])
    send(sender(broker), 4, "t/1/up")
    assert (numbers(one.messages()), numbers(two.messages())) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_one_session_with_both_gets_a_copy_of_each() -> None:
    broker = Broker()
    client = member(broker, "one", UP)
    assert client.subscribe(ALL, 1) == 1
    send(sender(broker), 3, "t/1/up")
    assert numbers(client.messages()) == [0, 0, 1, 1, 2, 2]
    client.put(Unsubscribe(8, [UP]))
    client.take()
    send(sender(broker), 3, "t/1/up")
    assert numbers(client.messages()) == [0, 1, 2]


def test_members_of_other_protocols_are_in_the_group_of_all_paths_alone() -> None:
    broker = Broker()
    one, all_paths = member(broker, "one", UP), member(broker, "all", ALL)
    receiver = Receiver(broker)
    source = sender(broker)
    send(source, 6, "t/1/up")
    assert numbers(one.messages()) == list(range(6))
    assert numbers(all_paths.messages()) == list(range(6))
    all_paths.leave()
    send(source, 6, "t/1/up")
    assert numbers(one.messages()) == list(range(6))
    assert len(receiver.receive()) == 6


def test_a_filter_begins_where_the_group_of_its_name_is() -> None:
    broker = Broker()
    member(broker, "all", ALL).leave()
    send(sender(broker), 4, "t/1/up")
    receiver = Receiver(broker)
    messages = receiver.receive(limit=2)
    receiver.acknowledge(messages)
    broker.run(1_000)
    one = member(broker, "one", UP)
    assert len(one.messages()) == 2
    again = member(broker, "again", UP)
    send(sender(broker), 1, "t/1/up", first=9)
    assert numbers([*one.messages(), *again.messages()]) == [9], "and goes on where it was itself"


def test_the_group_has_the_settings_of_its_name_and_follows_its_strategy() -> None:
    broker = Broker()
    metadata = broker.store.metadata
    metadata.put_group(replace(Group("g"), retry_max=3, attributes={policy.STRATEGY: policy.STICKY}), lambda _: None)
    broker.run()
    members = [member(broker, name, UP) for name in "ab"]
    own = metadata.group(share_group("g", "t/+/up"))
    assert own is not None
    assert (own.retry_max, own.attributes) == (3, {})
    dispatch = broker.sessions._group_delivery
    assert dispatch.strategy(own.name, "g") == policy.STICKY
    metadata.put_group(replace(own, attributes={policy.STRATEGY: policy.ROUND_ROBIN}), lambda _: None)
    broker.run()
    assert dispatch.strategy(own.name, "g") == policy.ROUND_ROBIN
    assert dispatch.strategy("g", "g") == policy.STICKY
    assert len(members) == 2


@pytest.mark.parametrize("denied", ["g", share_group("g", "t/+/up")])
def test_neither_may_be_a_group_that_may_not_consume(denied: str) -> None:
    broker = Broker()
    broker.store.metadata.put_group(replace(Group(denied), consume_enable=False), lambda _: None)
    broker.run()
    client = broker.client(5)
    client.connect("one")
    assert client.subscribe(UP, 1) == 0x87


@pytest.mark.parametrize("known", [True, False])
def test_where_groups_are_not_made_on_first_use_the_group_of_the_name_decides(known: bool) -> None:
    broker = Broker()
    broker.policy.create_groups = False
    if known:
        broker.store.metadata.put_group(Group("g"), lambda _: None)
        broker.run()
    client = broker.client(5)
    client.connect("one")
    assert client.subscribe(UP, 1) == (1 if known else 0x80)


def test_a_session_that_returns_while_the_store_refuses_joins_when_it_does_not() -> None:
    broker = Broker()
    member(broker, "one", UP, expiry_s=600).leave()
    send(sender(broker), 2, "t/1/up")
    broker.kill()
    groups = broker.sessions._shared.groups
    prepare, refused = groups.prepare, []

    def refusing(subscription, followed, done):  # type: ignore[no-untyped-def]
        refused.append(subscription.name)
        if len(refused) < 3:
            done(Failure(ErrorCode.STORE_UNAVAILABLE, "not now"))
        else:
            prepare(subscription, followed, done)

    groups.prepare = refusing  # type: ignore[method-assign]
    client = broker.client(5)
    client.connect("one", clean=False, expiry_s=600)
    broker.run(5_000)
    assert numbers(client.messages()) == [0, 1]
    assert refused == [UP] * 3
