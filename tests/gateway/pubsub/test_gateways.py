"""Topics of the publish-subscribe draft asked for through a gateway before the store, and subscribers of several gateways."""

from __future__ import annotations

from domain.admin.data_topic import (
    ChangeDataTopic,
    DataTopicFound,
    DataTopicIds,
    DataTopicJoined,
    DeleteDataTopic,
    JoinDataTopic,
    LeaveDataTopic,
    ListDataTopics,
    MakeDataTopic,
    QueryDataTopic,
)
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Done, Event, Refused
from domain.message.message import RETAIN_SET, Message
from domain.topic.data_topic import TopicProperties
from tests.far_node import NodeLink
from tests.gateway.cluster.forwarding.test_forwarder import Two
from tests.gateway.pubsub.book import book_of
from tests.gateway.usecase.event_recorder import EventRecorder

FIRST = TopicProperties(content_format=0, max_subscribers=2, initialize=b"1")


def asked(two: Two, command: Command, recorder: EventRecorder | None = None, link: NodeLink | None = None) -> list[Event]:
    """What a client of a gateway is answered."""
    recorder = recorder or EventRecorder()
    (link.forwarder if link is not None else two.gateway).handle(recorder.connection, command)
    two.clock.run_for(60)
    return recorder.take()


def topic(two: Two, name: str = "T/a") -> str:
    [event] = asked(
        two, MakeDataTopic(1, name, FIRST, "", Message("T", b"1", b"originMqttTopic\x01T/a\x02", retain=RETAIN_SET))
    )
    assert isinstance(event, DataTopicFound)
    assert event.has_value
    return event.topic.id


def code(events: list[Event]) -> ErrorCode:
    [event] = events
    assert isinstance(event, Refused)
    return event.failure.code


def test_a_topic_is_made_read_changed_and_deleted_through_a_gateway() -> None:
    two = Two()
    identity = topic(two)
    [found] = asked(two, QueryDataTopic(2, identity, True))
    assert isinstance(found, DataTopicFound)
    assert (found.topic.name, found.topic.given, found.has_value) == ("T/a", FIRST, True)
    [listed] = asked(two, ListDataTopics(3, name="T/*", prefixes=True))
    assert isinstance(listed, DataTopicIds)
    assert listed.ids == [identity]
    [changed] = asked(two, ChangeDataTopic(4, identity, TopicProperties(type="x")))
    assert isinstance(changed, DataTopicFound)
    assert (changed.topic.given.type, changed.topic.given.max_subscribers) == ("x", 2)
    assert [type(each) for each in asked(two, DeleteDataTopic(5, identity))] == [Done]
    assert code(asked(two, QueryDataTopic(6, identity))) is ErrorCode.TOPIC_NOT_FOUND


def test_subscribers_of_all_gateways_count_and_are_told() -> None:
    two = Two()
    other = NodeLink(two.parts.gate, two.clock, 2)
    two.clock.run_for(300)
    identity = topic(two)
    here, there = EventRecorder(), EventRecorder()
    here.connection.shared = there.connection.shared = True
    assert [type(each) for each in asked(two, JoinDataTopic("a", identity), here)] == [DataTopicJoined]
    assert [type(each) for each in asked(two, JoinDataTopic("b", identity), there, other)] == [DataTopicJoined]
    assert code(asked(two, JoinDataTopic("c", identity), there, other)) is ErrorCode.QUOTA
    asked(two, ChangeDataTopic(1, identity, TopicProperties(observer_check_s=60)))
    for recorder, ticket in ((here, "a"), (there, "b")):
        [event] = recorder.take()
        assert isinstance(event, DataTopicJoined)
        assert (event.ticket, event.topic.check_s) == (ticket, 60)
    asked(two, LeaveDataTopic("a"), here)
    assert [type(each) for each in asked(two, JoinDataTopic("c", identity), there, other)] == [DataTopicJoined]
    asked(two, DeleteDataTopic(2, identity, True))
    ended = {event.ticket: event.failure.code for event in there.take() if isinstance(event, Refused)}
    assert ended == {"b": ErrorCode.TOPIC_NOT_FOUND, "c": ErrorCode.TOPIC_NOT_FOUND}
    assert here.take() == []
    assert book_of(two.parts).subscribers.count == 0


def test_subscribers_behind_a_gateway_stay_when_the_store_starts_again() -> None:
    two, shared = Two(), EventRecorder()
    shared.connection.shared = True
    identity = topic(two)
    asked(two, JoinDataTopic("a", identity), shared)
    two.disk = two.disk.killed(two.clock)
    two.parts = two.store()
    two.link.store = two.parts.gate
    two.link.hang_up()
    two.clock.run_for(500)
    assert [type(each) for each in shared.take()] == [DataTopicJoined]
    assert book_of(two.parts).subscribers.count == 1
    asked(two, DeleteDataTopic(2, identity))
    assert code(shared.take()) is ErrorCode.TOPIC_NOT_FOUND


def test_two_changes_at_once_are_not_mixed() -> None:
    two, recorder = Two(), EventRecorder()
    identity = topic(two)
    two.gateway.handle(recorder.connection, ChangeDataTopic(1, identity, TopicProperties(type="one")))
    two.gateway.handle(recorder.connection, ChangeDataTopic(2, identity, TopicProperties(max_subscribers=9)))
    two.clock.run_for(100)
    done, refused = sorted(recorder.take(), key=lambda event: int(getattr(event, "ticket", 0)))
    assert isinstance(done, DataTopicFound)
    assert code([refused]) is ErrorCode.CHANGED
    [found] = asked(two, QueryDataTopic(3, identity))
    assert isinstance(found, DataTopicFound)
    assert (found.topic.given.type, found.topic.given.max_subscribers) == ("one", 2)


def test_two_topics_of_one_name_at_once_are_one() -> None:
    two, recorder = Two(), EventRecorder()
    for ticket in (1, 2):
        two.gateway.handle(recorder.connection, MakeDataTopic(ticket, "T/same", TopicProperties()))
    two.clock.run_for(100)
    assert sorted(type(each).__name__ for each in recorder.take()) == ["DataTopicFound", "Refused"]
    [listed] = asked(two, ListDataTopics(3))
    assert isinstance(listed, DataTopicIds)
    assert len(listed.ids) == 1
