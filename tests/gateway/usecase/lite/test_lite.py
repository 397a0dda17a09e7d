"""Lite topics: refused messages, the properties of stored ones, deletion when idle, and the questions of tools."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup
from domain.admin.lite import (
    DispatchLite,
    LiteClient,
    LiteGroup,
    LiteNode,
    LiteParent,
    LiteTopic,
    QueryLiteClient,
    QueryLiteGroup,
    QueryLiteNode,
    QueryLiteParent,
    QueryLiteTopic,
)
from domain.admin.topic import ChangeTopic, PutTopic, TopicChange
from domain.command import Command, Send
from domain.errors import ErrorCode
from domain.event import Done, Sent
from domain.message.message import Message
from domain.topic import attribute, lite
from domain.topic.lite import LiteAction, ReceiveLite, SyncSubscription
from domain.topic.topic import Group, Topic
from gateway.usecase.lite.inspection import SLICE
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only
from tests.gateway.usecase.lite.stage import (
    PARENT,
    ack,
    messages,
    notified,
    poll,
    refused,
    send,
    subscribe,
)


def test_what_is_not_for_lite_topics_is_refused(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("plain", 1, 1)))
    place.ask(PutGroup(1, Group("free")))

    def ask(group: str, topic: str, name: str = "a") -> ErrorCode:
        return refused(place.ask(SyncSubscription(1, "c", group, topic, LiteAction.PARTIAL_ADD, [name])))

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


def test_a_message_names_its_lite_topics_and_no_offset_of_its_own_choice(place: Bench) -> None:
    bad = Message(PARENT, b"x", b"__LITE_TOPIC\x01no/slash\x02")
    assert refused(place.ask(Send(1, [bad]))) is ErrorCode.PROPERTY_ILLEGAL
    stored = b"INNER_MULTI_DISPATCH\x01%LMQ%$sessions$z,%LMQ%$sessions$y,,%LMQ%$sessions$a\x02INNER_MULTI_QUEUE_OFFSET\x017\x02"
    for more in (b"__LITE_TOPIC\x01a", b""):
        only(Sent, place.ask(Send(1, [Message(PARENT, b"x", stored + more)])))
        assert sorted(place.store.lite_queues.names(PARENT)) == ["a", "y", "z"]
    full = Message(PARENT, b"x", b"__LITE_TOPIC\x01a\x02k\x01" + b"v" * 32_700)
    assert refused(place.ask(Send(1, [full]))) is ErrorCode.PROPERTIES_TOO_LARGE
    assert refused(place.ask(Send(1, [Message(PARENT, b"x")], typed=True))) is ErrorCode.TYPE_CONFLICT


@pytest.mark.parametrize(
    "dispatch",
    ["%LMQ%$other$a", "%LMQ%$sessions$", "%LMQ%$sessions$a b", "%LMQ%a", "sessions", "%LMQ%$sessions$a,%LMQ%$other$a"],
)
def test_a_message_names_no_queue_that_is_not_of_its_topic(place: Bench, dispatch: str) -> None:
    place.ask(PutTopic(1, Topic("other", 1, 1, type="LITE")))
    message = Message(PARENT, b"x", f"INNER_MULTI_DISPATCH\x01{dispatch}\x02".encode())
    assert refused(place.ask(Send(1, [message]))) is ErrorCode.PROPERTY_ILLEGAL
    assert [list(place.store.lite_queues.names(each)) for each in (PARENT, "other")] == [[], []]


def test_a_message_is_in_64_lite_topics_at_most(place: Bench) -> None:
    def dispatched(count: int) -> Message:
        names = ",".join(f"%LMQ%$sessions${number}" for number in range(count))
        return Message(PARENT, b"x", f"INNER_MULTI_DISPATCH\x01{names}\x02".encode())

    assert refused(place.ask(Send(1, [dispatched(65)]))) is ErrorCode.PROPERTY_ILLEGAL
    only(Sent, place.ask(Send(1, [dispatched(64)])))
    assert place.store.lite_queues.count(PARENT) == 64


def test_messages_of_a_lite_topic_go_to_one_queue_of_the_topic(place: Bench) -> None:
    queues: dict[str, set[int]] = {}
    for turn in range(4):
        for name in ("a", "b", "c", "d", "e"):
            event = only(Sent, place.ask(Send(1, [Message(PARENT, b"%d" % turn, f"__LITE_TOPIC\x01{name}\x02".encode())])))
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
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    send(place, "a", "1")
    send(place, "b", "1")
    place.clock.run_for(18 * 60_000)
    send(place, "b", "2")
    place.clock.run_for(6 * 60_000)
    assert list(place.store.lite_queues.names(PARENT)) == ["b"]
    subscribe(place, recorder, "c", "a")
    send(place, "a", "2")
    assert notified(place.ask(poll(), recorder)) == ["2"]


def test_silent_subscribers_are_forgotten(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    for _ in range(3):
        place.clock.run_for(100_000)
        place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["a"]), recorder)
    assert count(place) == 1
    place.clock.run_for(301_000)
    assert count(place) == 0


def count(place: Bench) -> int:
    event = only(LiteNode, place.ask(QueryLiteNode(1)))
    return event.subscriptions


def test_what_tools_ask(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a", "b")
    send(place, "a", "1", "2", "3")
    send(place, "b", "1")
    ack(place, *messages(place.ask(poll(limit=1), recorder)))
    newest = place.clock.wall_ms()
    node = only(LiteNode, place.ask(QueryLiteNode(1)))
    assert (node.queues, node.subscriptions, node.topics, node.groups) == (2, 2, {PARENT: 20}, {PARENT: ["g"]})
    assert place.ask(QueryLiteParent(1, PARENT)) == [LiteParent(1, PARENT, 20, ["g"], 2, 2)]
    topic = only(LiteTopic, place.ask(QueryLiteTopic(1, PARENT, "a")))
    assert (topic.first, topic.end, topic.subscribers) == (0, 3, [("c", "g")])
    assert 0 <= newest - topic.newest_ms < 200
    client = only(LiteClient, place.ask(QueryLiteClient(1, PARENT, "g", "c", 1)))
    assert (client.count, client.names) == (2, ["a"])
    assert client.received_ms > 0
    group = only(LiteGroup, place.ask(QueryLiteGroup(1, "g", "", 5)))
    assert (group.count, [(each.lite, each.count) for each in group.by_count]) == (3, [("a", 2), ("b", 1)])
    one = only(LiteGroup, place.ask(QueryLiteGroup(1, "g", "a", 5)))
    assert (one.count, one.position) == (2, (3, 1, topic.newest_ms))
    none = only(LiteGroup, place.ask(QueryLiteGroup(1, "g", "zzz", 5)))
    assert (none.count, none.oldest_ms, none.position) == (-1, -1, None)
    assert place.ask(DispatchLite(1, "g", "")) == [Done(1)]
    unknown: list[Command] = [QueryLiteParent(1, "none"), QueryLiteTopic(1, "none", "a")]
    unknown.append(QueryLiteClient(1, "none", "g", "c", 1))
    assert [refused(place.ask(each)) for each in unknown] == [ErrorCode.TOPIC_NOT_FOUND] * 3
    assert refused(place.ask(QueryLiteGroup(1, "none", "", 1))) is ErrorCode.GROUP_NOT_FOUND
    assert refused(place.ask(DispatchLite(1, "none", ""))) is ErrorCode.GROUP_NOT_FOUND


def test_what_a_group_has_to_do_is_summed_up_over_all_lite_topics(place: Bench) -> None:
    recorder = EventRecorder()
    count = 3 * SLICE + 10
    names = [f"n{at}" for at in range(count)]
    for at in range(0, count, 1_000):
        made = [Message(PARENT, b"x", f"__LITE_TOPIC\x01{name}\x02".encode()) for name in names[at : at + 1_000]]
        place.ask(Send(1, made))
    send(place, names[-1], "more")
    commits: list[object] = []
    place.store.positions.commit("g", [(lite.queue_name(PARENT, name), 0, 0) for name in names], commits.append)
    place.clock.run_for(100)
    assert commits == [None]
    place.handler.handle(recorder.connection, QueryLiteGroup(1, "g", "", 2))
    place.clock.run_for(100)
    group = only(LiteGroup, recorder.take())
    assert group.count == count + 1
    assert [(each.lite, each.count) for each in group.by_count] == [(names[-1], 2), ("n0", 1)]
    assert len(group.by_age) == 2
