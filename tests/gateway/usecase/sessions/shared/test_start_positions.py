"""Start positions of groups created by subscribing: the end of existing topics, the first message of later ones."""

from __future__ import annotations

import pytest

from domain.admin.topic import DeleteTopic, PutTopic
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from tests.connection_driver import StrictDriver
from tests.gateway.usecase.sessions.shared.test_shared_subscriptions import member, numbers, send, sender
from tests.protocols.mqtt.stage import Broker

FILTERS = ["$share/g/t/#", "$share/g/+/x", "$share/g/#"]


@pytest.mark.parametrize("pattern", FILTERS)
@pytest.mark.parametrize("faults", ["none", "kill"])
def test_a_topic_that_came_after_the_first_member_is_read_from_its_first_message(pattern: str, faults: str) -> None:
    broker = Broker()
    member(broker, "first", pattern).drop()
    broker.run(10)
    if faults == "kill":
        broker.kill()
    send(sender(broker), 10)
    if faults == "kill":
        broker.kill()
    assert numbers(member(broker, "second", pattern).messages()) == list(range(10))
    assert member(broker, "third", pattern).messages() == []


@pytest.mark.parametrize("pattern", FILTERS)
@pytest.mark.parametrize("faults", ["none", "kill"])
def test_members_that_could_take_nothing_lose_nothing_to_one_that_comes(pattern: str, faults: str) -> None:
    broker = Broker()
    first = member(broker, "first", pattern, expiry_s=600)
    first.stalled = first.client_connection.stalled = True
    send(sender(broker), 10, qos=1)
    if faults == "kill":
        broker.kill()
    found = numbers(member(broker, "second", pattern).messages())
    if faults == "none":
        first.drop()
        found += numbers(broker.clients[-1].messages())
    assert sorted(found) == list(range(10))


@pytest.mark.parametrize("pattern", FILTERS)
@pytest.mark.parametrize("faults", ["none", "kill"])
def test_what_a_topic_has_before_anybody_subscribes_is_for_nobody(pattern: str, faults: str) -> None:
    broker = Broker()
    send(sender(broker), 5)
    broker.run(1_000)
    first = member(broker, "first", pattern)
    assert first.messages() == []
    first.drop()
    if faults == "kill":
        broker.kill()
    second = member(broker, "second", pattern)
    assert second.messages() == []
    send(sender(broker), 5, first=5)
    assert numbers(second.messages()) == [5, 6, 7, 8, 9]


def test_a_wildcard_does_not_begin_anew_what_another_filter_has_begun() -> None:
    broker = Broker()
    member(broker, "first", "$share/g/t/#").drop()
    send(sender(broker), 5)
    assert numbers(member(broker, "second", "$share/g/+/x").messages()) == list(range(5))


def test_groups_begin_each_for_itself() -> None:
    broker = Broker()
    member(broker, "first", "$share/g/t/#").drop()
    send(sender(broker), 5)
    broker.run(1_000)
    assert member(broker, "other", "$share/h/t/#").messages() == []
    assert numbers(member(broker, "second", "$share/g/t/#").messages()) == list(range(5))


def test_a_topic_made_anew_under_its_members_is_read_from_its_first_message() -> None:
    broker = Broker()
    first = member(broker, "first", "$share/g/t/#")
    send(sender(broker), 3)
    assert numbers(first.messages()) == [0, 1, 2]
    deaf = ClientConnection("remoting", StrictDriver())
    broker.handler.handle(deaf, DeleteTopic(1, "t"))
    broker.run()
    broker.handler.handle(deaf, PutTopic(2, Topic("t", 2, 2)))
    broker.run()
    first.stalled = first.client_connection.stalled = True
    send(sender(broker), 4, first=10)
    second = member(broker, "second", "$share/g/t/#")
    assert numbers(second.messages()) == [10, 11, 12, 13]
