"""Lite topics, from subscribing to their end: who gets what, in which order, and what is refused."""

from __future__ import annotations

import pytest

from domain import attribute, lite
from domain.admin import ChangeTopic, TopicChange
from domain.command import Acknowledge, Command, DeadLetter, Disconnected, Extend, Pull, PutGroup, PutTopic, Send
from domain.errors import ErrorCode
from domain.event import Done, Event, Extended, Leased, Pulled, Received, Refused, Sent, Settled
from domain.lite import (
    Action,
    DispatchLite,
    LiteClient,
    LiteGroup,
    LiteNode,
    LiteParent,
    LiteTaken,
    LiteTopic,
    QueryLiteClient,
    QueryLiteGroup,
    QueryLiteNode,
    QueryLiteParent,
    QueryLiteTopic,
    ReceiveLite,
    Start,
    StartAt,
    SuspendLite,
    SyncSubscription,
)
from domain.message import Message
from domain.record import Record
from domain.topic import Group, Topic
from gateway.usecase.lite.parts import lite_use_cases
from gateway.usecase.policy import Policy
from gateway.usecase.topic_change import TopicChanging
from tests.gateway.usecase.ear import Ear
from tests.gateway.usecase.test_dispatcher import Bench, bench

__all__ = ["bench"]

PARENT = "sessions"


@pytest.fixture
def place(bench: Bench) -> Bench:
    """A topic of lite topics, a group that is bound to it, and the use cases."""
    store = bench.store
    policy = Policy(lite_subscriptions_max=50)
    bench.handler.add(*lite_use_cases(store, store.lights, store.metadata, bench.handler, bench.clock, policy))
    bench.handler.add(TopicChanging(store.metadata, bench.handler.topics))
    bench.ask(PutTopic(1, Topic(PARENT, 2, 2, type="LITE", attributes={attribute.EXPIRATION: "20"})))
    bench.ask(PutGroup(1, Group("g", attributes={attribute.BIND_TOPIC: PARENT})))
    return bench


def send(place: Bench, name: str, *bodies: str) -> None:
    messages = [Message(PARENT, body.encode(), f"__LITE_TOPIC\x01{name}\x02".encode()) for body in bodies]
    [event] = place.ask(Send(1, messages))
    assert isinstance(event, Sent), event


def subscribe(place: Bench, ear: Ear, client: str, *names: str, group: str = "g", start: StartAt | None = None) -> None:
    command = SyncSubscription(1, client, group, PARENT, Action.PARTIAL_ADD, list(names), start)
    assert place.ask(command, ear) == [Done(1)]


def poll(client: str = "c", wait_ms: int = 0, limit: int = 32, invisible_ms: int = 10_000, attempt: str = "") -> ReceiveLite:
    return ReceiveLite(7, client, "g", PARENT, limit, invisible_ms, wait_ms, attempt)


def messages(events: list[Event]) -> list[Leased]:
    [event] = events
    assert isinstance(event, Received), event
    return event.messages


def told(events: list[Event]) -> list[str]:
    return [Record(each.record).body.decode() for each in messages(events)]


def queue_of(leased: Leased) -> str:
    return lite.queue_name(PARENT, lite.name_in(Record(leased.record).properties))


def ack(place: Bench, *leased: Leased, group: str = "g") -> None:
    for each in leased:
        assert place.ask(Acknowledge(1, group, queue_of(each), [each.receipt])) == [Settled(1, [None])]


def refused(events: list[Event]) -> ErrorCode:
    [event] = events
    assert isinstance(event, Refused), event
    return event.failure.code


def attributes(place: Bench, **values: str) -> None:
    changed = {key.replace("_", "."): value for key, value in values.items()}
    assert place.ask(PutGroup(1, Group("g", retry_max=2, attributes=changed))) == [Done(1)]


def test_one_poll_serves_all_that_a_client_has_subscribed_to_and_nothing_else(place: Bench) -> None:
    ear = Ear()
    send(place, "a", "a1", "a2")
    send(place, "b", "b1")
    send(place, "c", "c1")
    subscribe(place, ear, "c", "a", "b")
    got = messages(place.ask(poll(), ear))
    assert [Record(each.record).body for each in got] == [b"a1", b"a2", b"b1"]
    assert {(each.receipt.queue_id, each.receipt.revive_queue) for each in got} == {(0, 999)}
    assert told(place.ask(poll(), ear)) == []
    ack(place, *got)
    assert told(place.ask(poll(), ear)) == []


def test_a_poll_waits_for_messages_for_settlements_and_for_the_end_of_leases(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    assert place.ask(poll(wait_ms=5_000), ear) == []
    send(place, "a", "1")
    place.clock.run_for(5)
    first = messages(ear.take())
    send(place, "a", "2")
    assert place.ask(poll(wait_ms=5_000), ear) == [], "2 waits for 1"
    ack(place, *first)
    place.clock.run_for(5)
    assert told(ear.take()) == ["2"]
    assert place.ask(poll(wait_ms=20_000), ear) == []
    place.clock.run_for(11_000)
    assert told(ear.take()) == ["2"], "the lease has ended"


def test_a_poll_ends_with_nothing_and_one_of_a_client_that_has_gone_takes_nothing(place: Bench) -> None:
    ear, gone = Ear(), Ear()
    subscribe(place, ear, "c", "a")
    assert place.ask(poll(wait_ms=1_000), ear) == []
    place.clock.run_for(1_000)
    assert told(ear.take()) == []
    subscribe(place, gone, "d", "a")
    place.ask(poll("d", wait_ms=5_000), gone)
    place.ask(Disconnected("end"), gone)
    send(place, "a", "1")
    assert told(place.ask(poll(), ear)) == ["1"]


def test_a_message_that_is_given_back_comes_again_and_counts(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    send(place, "a", "1", "2")
    [first] = messages(place.ask(poll(limit=1), ear))
    [event] = place.ask(Extend(1, "g", queue_of(first), [first.receipt], 1_000))
    assert isinstance(event, Extended)
    assert place.ask(poll(wait_ms=5_000), ear) == []
    place.clock.run_for(1_500)
    got = messages(ear.take())
    assert [(Record(each.record).body, each.attempt) for each in got] == [(b"1", 2), (b"2", 1)]


def test_one_of_several_is_given_back_and_the_others_are_settled(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    send(place, "a", *(str(at) for at in range(5)))
    got = messages(place.ask(poll(), ear))
    place.ask(Extend(1, "g", queue_of(got[2]), [got[2].receipt], 1_000))
    ack(place, *got[:2], *got[3:])
    assert place.ask(poll(wait_ms=5_000), ear) == []
    place.clock.run_for(1_500)
    assert told(ear.take()) == ["2"]


def test_suspending_is_no_attempt(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    send(place, "a", "1")
    for _ in range(5):
        [got] = messages(place.ask(poll(), ear))
        assert got.attempt == 1
        [event] = place.ask(SuspendLite(1, "g", PARENT, "a", got.receipt, 500))
        assert isinstance(event, Extended)
        place.clock.run_for(600)


def test_attempts_run_out_and_a_consumer_may_give_up_by_itself(place: Bench) -> None:
    attributes(place)
    ear = Ear()
    subscribe(place, ear, "c", "a")
    send(place, "a", "1", "2")
    for attempt in (1, 2, 3):
        [got] = messages(place.ask(poll(limit=1, invisible_ms=100), ear))
        assert got.attempt == attempt
        place.clock.run_for(200)
    [second] = messages(place.ask(poll(limit=1, wait_ms=1_000), ear, ms=100))
    assert Record(second.record).body == b"2"
    assert place.ask(DeadLetter(1, "g", queue_of(second), second.receipt)) == [Done(1)]
    assert place.ask(DeadLetter(1, "g", queue_of(second), second.receipt)) == [Done(1)]
    [event] = place.ask(Pull(1, "", "%DLQ%g", 0, 0, 10, 1 << 20))
    assert isinstance(event, Pulled)
    letters = [Record(data) for data in event.records]
    assert [each.body for each in letters] == [b"1", b"2"]
    assert b"DLQ_ORIGIN_TOPIC\x01sessions\x02" in letters[0].properties
    assert b"INNER_MULTI" not in letters[0].properties


def test_members_share_a_lite_topic_and_another_group_gets_it_all(place: Bench) -> None:
    ears = {name: Ear() for name in ("c", "d")}
    for name, ear in ears.items():
        subscribe(place, ear, name, "a", "b")
    place.ask(PutGroup(1, Group("h", attributes={attribute.BIND_TOPIC: PARENT})))
    subscribe(place, Ear(), "e", "a", group="h")
    send(place, "a", "a1")
    send(place, "b", "b1")
    assert told(place.ask(poll("c", limit=1), ears["c"])) == ["a1"]
    assert told(place.ask(poll("d"), ears["d"])) == ["b1"]
    assert told(place.ask(ReceiveLite(7, "e", "h", PARENT, 32, 10_000), Ear())) == ["a1"]


def test_what_waited_for_a_client_that_has_gone_waits_for_the_others(place: Bench) -> None:
    first, second = Ear(), Ear()
    subscribe(place, first, "c", "a")
    subscribe(place, second, "d", "a")
    assert place.ask(poll("d", wait_ms=30_000), second) == []
    send(place, "a", "1")
    place.clock.run_for(5)
    assert told(second.take()) == ["1"]
    place.clock.run_for(11_000)
    place.ask(Disconnected("end"), first)
    assert told(place.ask(poll("d"), second)) == ["1"]


def test_complete_replaces_and_ends(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a", "b")
    assert place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_ADD, ["b", "d"]), ear) == [Done(1)]
    for name in "abd":
        send(place, name, name)
    assert told(place.ask(poll(), ear)) == ["b", "d"]
    assert place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_REMOVE), Ear()) == [Done(1)]
    send(place, "d", "d2")
    [info] = place.ask(QueryLiteClient(1, PARENT, "g", "c", 10))
    assert isinstance(info, LiteClient)
    assert (info.count, info.names) == (2, ["b", "d"]), "another connection does not end it"
    place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_REMOVE), ear)
    [info] = place.ask(QueryLiteClient(1, PARENT, "g", "c", 10))
    assert isinstance(info, LiteClient)
    assert info.count == -1


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (StartAt(Start.MIN), ["0", "1", "2", "3", "4"]),
        (StartAt(Start.MAX), []),
        (StartAt(Start.OFFSET, 3), ["3", "4"]),
        (StartAt(Start.OFFSET, 99), []),
        (StartAt(Start.TAIL, 2), ["1", "2", "3", "4"]),
        (StartAt(Start.LAST), ["3", "4"]),
        (None, ["3", "4"]),
    ],
)
def test_where_a_group_goes_on(place: Bench, start: StartAt | None, expected: list[str]) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    send(place, "a", *(str(at) for at in range(5)))
    ack(place, *messages(place.ask(poll(limit=3), ear)))
    subscribe(place, ear, "c", "a", start=start)
    assert told(place.ask(poll(), ear)) == expected


def test_a_group_goes_on_at_a_time(place: Bench) -> None:
    send(place, "a", "old")
    place.clock.run_for(10_000)
    when = place.clock.wall_ms()
    send(place, "a", "new")
    ear = Ear()
    subscribe(place, ear, "c", "a", start=StartAt(Start.TIME, when))
    assert told(place.ask(poll(), ear)) == ["new"]


def test_an_exclusive_lite_topic_belongs_to_its_newest_subscriber(place: Bench) -> None:
    attributes(place, lite_sub_model="Exclusive")
    first, second = Ear(), Ear()
    subscribe(place, first, "c", "a", "b")
    subscribe(place, second, "d", "a")
    assert first.take() == [LiteTaken(None, "c", "g", "a")]
    place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_ADD, ["a", "b"]), first)
    place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_ADD, ["a", "b"]), first)
    send(place, "a", "1")
    assert told(place.ask(poll("d"), second)) == ["1"]
    assert told(place.ask(poll("c"), first)) == []
    place.ask(Disconnected("end"), second)
    assert place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_ADD, ["a", "b"]), first) == [Done(1)]


def test_taking_and_leaving_may_begin_again(place: Bench) -> None:
    attributes(place, lite_sub_model="Exclusive", lite_sub_reset_offset_exclusive="true")
    attributes(place, lite_sub_reset_offset_unsubscribe="true")
    first, second = Ear(), Ear()
    subscribe(place, first, "c", "a")
    send(place, "a", "1", "2")
    ack(place, *messages(place.ask(poll("c"), first)))
    subscribe(place, second, "d", "a")
    got = messages(place.ask(poll("d"), second))
    assert [Record(each.record).body for each in got] == [b"1", b"2"]
    ack(place, *got)
    assert place.ask(SyncSubscription(1, "d", "g", PARENT, Action.PARTIAL_REMOVE, ["a"]), second) == [Done(1)]
    subscribe(place, second, "d", "a")
    assert told(place.ask(poll("d"), second)) == ["1", "2"]


def test_members_of_a_wildcard_group_have_everything(place: Bench) -> None:
    attributes(place, lite_sub_wildcard="true")
    ears = {name: Ear() for name in ("c", "d")}
    send(place, "a", "a1")
    for name, ear in ears.items():
        assert place.ask(SyncSubscription(1, name, "g", PARENT, Action.COMPLETE_ADD), ear) == [Done(1)]
        single = SyncSubscription(1, name, "g", PARENT, Action.PARTIAL_ADD, ["a"])
        assert refused(place.ask(single, ear)) is ErrorCode.NOT_ALLOWED
    assert told(place.ask(poll("c"), ears["c"])) == ["a1"]
    assert place.ask(poll("d", wait_ms=5_000), ears["d"]) == []
    send(place, "new", "n1")
    place.clock.run_for(5)
    assert told(ears["d"].take()) == ["n1"]
    place.ask(Disconnected("end"), ears["d"])
    send(place, "other", "o1")
    assert told(place.ask(poll("c"), ears["c"])) == ["o1"]


def test_quotas(place: Bench) -> None:
    attributes(place, lite_sub_client_quota="3")
    ear = Ear()
    subscribe(place, ear, "c", "a", "b", "c")
    add = SyncSubscription(1, "c", "g", PARENT, Action.PARTIAL_ADD, ["d"])
    assert refused(place.ask(add, ear)) is ErrorCode.QUOTA
    subscribe(place, ear, "c", "a")
    whole = SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_ADD, ["a", "d", "e", "f"])
    assert refused(place.ask(whole, ear)) is ErrorCode.QUOTA
    attributes(place, lite_sub_client_quota="-1")
    subscribe(place, ear, "c", *(f"n{at}" for at in range(47)))
    assert refused(place.ask(add, ear)) is ErrorCode.QUOTA


def test_what_is_not_for_lite_topics_is_refused(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("plain", 1, 1)))
    place.ask(PutGroup(1, Group("free")))

    def ask(group: str, topic: str, name: str = "a") -> ErrorCode:
        return refused(place.ask(SyncSubscription(1, "c", group, topic, Action.PARTIAL_ADD, [name])))

    assert ask("g", "none") is ErrorCode.TOPIC_NOT_FOUND
    assert ask("g", "plain") is ErrorCode.ARGUMENT_ILLEGAL
    assert ask("free", PARENT) is ErrorCode.ARGUMENT_ILLEGAL
    assert ask("nobody", PARENT) is ErrorCode.GROUP_NOT_FOUND
    for name in ("", "a b", "x" * 65, "é", "a\n"):
        assert ask("g", PARENT, name) is ErrorCode.ARGUMENT_ILLEGAL
    assert refused(place.ask(ReceiveLite(1, "c", "free", PARENT, 1, 1_000))) is ErrorCode.ARGUMENT_ILLEGAL
    assert refused(place.ask(poll(limit=33))) is ErrorCode.ARGUMENT_ILLEGAL
    place.ask(PutGroup(1, Group("g", consume_enable=False)))
    assert refused(place.ask(poll())) is ErrorCode.NOT_ALLOWED
    assert ask("g", PARENT) is ErrorCode.NOT_ALLOWED


def test_messages_name_one_lite_topic_and_no_queue_of_their_own_choice(place: Bench) -> None:
    bad = Message(PARENT, b"x", b"__LITE_TOPIC\x01no/slash\x02")
    assert refused(place.ask(Send(1, [bad]))) is ErrorCode.PROPERTY_ILLEGAL
    stored = b"INNER_MULTI_DISPATCH\x01%LMQ%$sessions$z\x02INNER_MULTI_QUEUE_OFFSET\x017\x02__LITE_TOPIC\x01a"
    forged = Message(PARENT, b"x", stored)
    [event] = place.ask(Send(1, [forged]))
    assert isinstance(event, Sent)
    assert sorted(place.store.lights.names(PARENT)) == ["a"]
    full = Message(PARENT, b"x", b"__LITE_TOPIC\x01a\x02k\x01" + b"v" * 32_700)
    assert refused(place.ask(Send(1, [full]))) is ErrorCode.PROPERTIES_TOO_LARGE
    assert refused(place.ask(Send(1, [Message(PARENT, b"x")], typed=True))) is ErrorCode.TYPE_CONFLICT


def test_messages_of_a_lite_topic_go_to_one_queue_of_the_topic(place: Bench) -> None:
    queues: dict[str, set[int]] = {}
    for turn in range(4):
        for name in ("a", "b", "c", "d", "e"):
            [event] = place.ask(Send(1, [Message(PARENT, b"%d" % turn, f"__LITE_TOPIC\x01{name}\x02".encode())]))
            assert isinstance(event, Sent)
            queues.setdefault(name, set()).add(event.placed[0].queue_id)
    assert [len(each) for each in queues.values()] == [1] * 5
    assert set().union(*queues.values()) == {0, 1}


def test_a_topic_does_not_become_or_cease_to_be_one_of_lite_topics(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("plain", 1, 1)))
    for name, kind in ((PARENT, "NORMAL"), ("plain", "LITE")):
        change = TopicChange(name, 1, 1, 6, attributes={"message.type": kind})
        assert refused(place.ask(ChangeTopic(1, change))) is ErrorCode.ARGUMENT_ILLEGAL
    for minutes in ("43201", "-2", "soon"):
        change = TopicChange(PARENT, 2, 2, 6, attributes={attribute.EXPIRATION: minutes})
        assert refused(place.ask(ChangeTopic(1, change))) is ErrorCode.ARGUMENT_ILLEGAL


def test_lite_topics_end_when_nobody_sends_to_them(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    send(place, "a", "1")
    send(place, "b", "1")
    place.clock.run_for(18 * 60_000)
    send(place, "b", "2")
    place.clock.run_for(6 * 60_000)
    assert list(place.store.lights.names(PARENT)) == ["b"]
    subscribe(place, ear, "c", "a")
    send(place, "a", "2")
    assert told(place.ask(poll(), ear)) == ["2"]


def test_silent_subscribers_are_forgotten(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a")
    for _ in range(3):
        place.clock.run_for(100_000)
        place.ask(SyncSubscription(1, "c", "g", PARENT, Action.COMPLETE_ADD, ["a"]), ear)
    assert count(place) == 1
    place.clock.run_for(301_000)
    assert count(place) == 0


def count(place: Bench) -> int:
    [event] = place.ask(QueryLiteNode(1))
    assert isinstance(event, LiteNode)
    return event.subscriptions


def test_what_tools_ask(place: Bench) -> None:
    ear = Ear()
    subscribe(place, ear, "c", "a", "b")
    send(place, "a", "1", "2", "3")
    send(place, "b", "1")
    ack(place, *messages(place.ask(poll(limit=1), ear)))
    newest = place.clock.wall_ms()
    [node] = place.ask(QueryLiteNode(1))
    assert isinstance(node, LiteNode)
    assert (node.queues, node.subscriptions, node.topics, node.groups) == (2, 2, {PARENT: 20}, {PARENT: ["g"]})
    assert place.ask(QueryLiteParent(1, PARENT)) == [LiteParent(1, PARENT, 20, ["g"], 2, 2)]
    [topic] = place.ask(QueryLiteTopic(1, PARENT, "a"))
    assert isinstance(topic, LiteTopic)
    assert (topic.first, topic.end, topic.subscribers) == (0, 3, [("c", "g")])
    assert 0 <= newest - topic.newest_ms < 200
    [client] = place.ask(QueryLiteClient(1, PARENT, "g", "c", 1))
    assert isinstance(client, LiteClient)
    assert (client.count, client.names) == (2, ["a"])
    assert client.received_ms > 0
    [group] = place.ask(QueryLiteGroup(1, "g", "", 5))
    assert isinstance(group, LiteGroup)
    assert (group.count, [(each.lite, each.count) for each in group.by_count]) == (3, [("a", 2), ("b", 1)])
    [one] = place.ask(QueryLiteGroup(1, "g", "a", 5))
    assert isinstance(one, LiteGroup)
    assert (one.count, one.position) == (2, (3, 1, topic.newest_ms))
    [none] = place.ask(QueryLiteGroup(1, "g", "zzz", 5))
    assert isinstance(none, LiteGroup)
    assert (none.count, none.oldest_ms, none.position) == (-1, -1, None)
    assert place.ask(DispatchLite(1, "g", "")) == [Done(1)]
    unknown: list[Command] = [QueryLiteParent(1, "none"), QueryLiteTopic(1, "none", "a")]
    unknown.append(QueryLiteClient(1, "none", "g", "c", 1))
    assert [refused(place.ask(each)) for each in unknown] == [ErrorCode.TOPIC_NOT_FOUND] * 3
    assert refused(place.ask(QueryLiteGroup(1, "none", "", 1))) is ErrorCode.GROUP_NOT_FOUND
    assert refused(place.ask(DispatchLite(1, "none", ""))) is ErrorCode.GROUP_NOT_FOUND
