"""The fixture `place`: the use cases with a topic of type LITE, with short calls for their tests."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Acknowledge, Send
from domain.errors import ErrorCode
from domain.event import Done, Event, Leased, Received, Refused, Sent, Settled
from domain.message.message import Message
from domain.message.record import Record
from domain.topic import attribute, lite
from domain.topic.lite import (
    LiteAction,
    OffsetOption,
    ReceiveLite,
    SyncSubscription,
)
from domain.topic.topic import Group, Topic
from gateway.usecase.lite.declaration import lite_use_cases
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.topic_change import TopicChanging
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only

PARENT = "sessions"


@pytest.fixture
def place(bench: Bench) -> Bench:
    """The use cases of lite topics, a topic of type LITE, and a group that is bound to it."""
    place_with(bench, NodePolicy(lite_subscriptions_max=50))
    return bench


def place_with(bench: Bench, policy: NodePolicy) -> None:
    """As `place`, with another policy."""
    store = bench.store
    bench.handler.add(*lite_use_cases(store, bench.handler, bench.clock, policy))
    bench.handler.add(TopicChanging(store.metadata, bench.handler.topics))
    bench.ask(PutTopic(1, Topic(PARENT, 2, 2, type="LITE", attributes={attribute.EXPIRATION: "20"})))
    bench.ask(PutGroup(1, Group("g", attributes={attribute.BIND_TOPIC: PARENT})))


def send(place: Bench, name: str, *bodies: str) -> None:
    messages = [Message(PARENT, body.encode(), f"__LITE_TOPIC\x01{name}\x02".encode()) for body in bodies]
    only(Sent, place.ask(Send(1, messages)))


def subscribe(
    place: Bench, recorder: EventRecorder, client: str, *names: str, group: str = "g", start: OffsetOption | None = None
) -> None:
    command = SyncSubscription(1, client, group, PARENT, LiteAction.PARTIAL_ADD, list(names), start)
    assert place.ask(command, recorder) == [Done(1)]


def poll(client: str = "c", wait_ms: int = 0, limit: int = 32, invisible_ms: int = 10_000, attempt: str = "") -> ReceiveLite:
    return ReceiveLite(7, client, "g", PARENT, limit, invisible_ms, wait_ms, attempt)


def messages(events: list[Event]) -> list[Leased]:
    event = only(Received, events)
    return event.messages


def notified(events: list[Event]) -> list[str]:
    return [Record(each.record).body.decode() for each in messages(events)]


def queue_of(leased: Leased) -> str:
    return lite.queue_name(PARENT, lite.name_in(Record(leased.record).properties))


def ack(place: Bench, *leased: Leased, group: str = "g") -> None:
    for each in leased:
        assert place.ask(Acknowledge(1, group, queue_of(each), [each.receipt])) == [Settled(1, [None])]


def refused(events: list[Event]) -> ErrorCode:
    event = only(Refused, events)
    return event.failure.code


def attributes(place: Bench, **values: str) -> None:
    changed = {key.replace("_", "."): value for key, value in values.items()}
    assert place.ask(PutGroup(1, Group("g", retry_max=2, attributes=changed))) == [Done(1)]
