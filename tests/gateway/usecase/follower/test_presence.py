"""Heartbeats at a follower: answered, and what they subscribe to is kept for when it leads."""

from __future__ import annotations

import pytest

from domain.client.membership import Heartbeat, Membership, Subscription
from domain.client.node import GreetNode, NodeGreeted
from domain.event import Done
from gateway.usecase.follower import presence
from gateway.usecase.follower.presence import Presence
from tests.gateway.usecase.event_recorder import EventRecorder


def beat(*subscriptions: Subscription, group: str = "g") -> Heartbeat:
    return Heartbeat(1, "c", consumers=[Membership(group, subscriptions=list(subscriptions))])


def test_the_newest_subscription_of_each_group_and_topic_is_kept() -> None:
    there, client = Presence(0, dict, bytes), EventRecorder()
    say = there.verbs[Heartbeat]
    for each in (
        Subscription("t", "old", version=1),
        Subscription("t", "new", version=3),
        Subscription("t", "late", version=2),
    ):
        say(client.connection, beat(each, Subscription("u")))
        assert client.take() == [Done(1)]
    assert there.heard == {("g", "t"): Subscription("t", "new", version=3), ("g", "u"): Subscription("u")}


def test_a_gateway_is_told_who_leads_once_that_is_known() -> None:
    answer = b""
    there, client = Presence(0, dict, lambda: answer), EventRecorder()
    greet = there.verbs[GreetNode]
    greet(client.connection, GreetNode(1, b"{}"))
    assert client.take() == []
    assert client.closing, "it looks elsewhere"
    answer = b'{"leader":"10.0.0.4:10911"}'
    greet(client.connection, GreetNode(2, b"{}"))
    assert client.take() == [NodeGreeted(2, answer)]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "HEARD_MAX", 2)
    there, client = Presence(0, dict, bytes), EventRecorder()
    say = there.verbs[Heartbeat]
    say(client.connection, beat(Subscription("a"), Subscription("b"), Subscription("c")))
    say(client.connection, beat(Subscription("b", "new", version=1), group="g"))
    assert client.take() == [Done(1), Done(1)]
    assert there.heard == {("g", "a"): Subscription("a"), ("g", "b"): Subscription("b", "new", version=1)}
