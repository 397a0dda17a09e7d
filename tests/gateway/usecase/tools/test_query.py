"""Messages by key, and consumers of a topic, over the real store."""

from __future__ import annotations

import pytest

from domain import limits
from domain.admin.group import PutGroup
from domain.admin.message import MessagesFound, QueryMessages
from domain.admin.topic import ConsumersFound, PutTopic, QueryConsumers
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.command import CommitOffsets, Send
from domain.errors import ErrorCode
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import PERM_WRITE, Group, Topic
from gateway.usecase.tools.query import Querying
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder


@pytest.fixture
def place(bench: Bench) -> Bench:
    store, handler = bench.store, bench.handler
    handler.add(Querying(store.log, store.positions, store.metadata, handler.registry, handler.questions, handler.reads))
    bench.ask(PutTopic(1, Topic("T", 2, 2)))
    bench.clock.run_for(20)
    return bench


def found(place: Bench, query: QueryMessages) -> list[str]:
    (event,) = place.ask(query)
    assert isinstance(event, MessagesFound)
    assert event.ticket == query.ticket
    return [Record(record).body.decode() for record in event.records]


def send(place: Bench, body: str, keys: str, topic: str = "T") -> str:
    """Send one message. Returns the id that the gateway gave it."""
    recorder = EventRecorder()
    (event,) = place.ask(Send(1, [Message(topic, body.encode(), f"KEYS\x01{keys}\x02".encode())]), recorder)
    return str(event.placed[0].message_id)  # type: ignore[attr-defined]


def test_by_each_word_of_its_keys_and_by_its_id(place: Bench) -> None:
    first = send(place, "one", "red blue")
    place.clock.run_for(1_000)
    between = place.clock.wall_ms()
    send(place, "two", "blue")
    send(place, "other topic", "blue", "U")
    assert found(place, QueryMessages(3, "T", "blue")) == ["two", "one"]
    assert found(place, QueryMessages(3, "T", "red")) == ["one"]
    assert found(place, QueryMessages(3, "T", "blue", begin_ms=between)) == ["two"]
    assert found(place, QueryMessages(3, "T", "blue", end_ms=between - 1)) == ["one"]
    assert found(place, QueryMessages(3, "T", "blue", limit=1)) == ["two"]
    assert found(place, QueryMessages(3, "T", first)) == ["one"]
    assert found(place, QueryMessages(3, "T", first, unique=True)) == ["one"]
    assert found(place, QueryMessages(3, "T", "blue", unique=True)) == []


def test_what_waits_for_its_time_is_found_when_that_has_come(place: Bench) -> None:
    due = place.clock.wall_ms() + 60_000
    place.ask(Send(1, [Message("T", b"later", f"KEYS\x01k\x02TIMER_DELIVER_MS\x01{due}\x02".encode())]))
    assert found(place, QueryMessages(1, "T", "k")) == []
    place.clock.run_for(61_000)
    assert found(place, QueryMessages(1, "T", "k")) == ["later"]


def test_an_answer_is_bounded_whatever_is_asked(place: Bench) -> None:
    place.ask(Send(1, [Message("T", b"x", b"KEYS\x01k\x02") for _ in range(100)]))
    assert len(found(place, QueryMessages(1, "T", "k", limit=1_000_000))) == limits.QUERY_MESSAGES_MAX
    for _ in range(3):
        place.ask(Send(1, [Message("T", bytes(3_000_000), b"KEYS\x01large\x02")]))
    assert len(found(place, QueryMessages(1, "T", "large"))) == 1


def test_refusals(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("W", 1, 1, PERM_WRITE)))
    assert code(place.ask(QueryMessages(1, "nothing", "k"))) is ErrorCode.TOPIC_NOT_FOUND
    assert code(place.ask(QueryMessages(1, "W", "k"))) is ErrorCode.NOT_ALLOWED
    assert code(place.ask(QueryMessages(1, "T", ""))) is ErrorCode.ARGUMENT_ILLEGAL
    assert code(place.ask(QueryMessages(1, "T", "k", limit=0))) is ErrorCode.ARGUMENT_ILLEGAL
    assert code(place.ask(QueryConsumers(1, "nothing"))) is ErrorCode.TOPIC_NOT_FOUND


def test_consumers_are_groups_with_members_and_groups_with_positions(place: Bench) -> None:
    assert place.ask(QueryConsumers(1, "T")) == [ConsumersFound(1, [])]
    for group in ("away", "idle"):
        place.ask(PutGroup(1, Group(group)))
    place.ask(CommitOffsets(1, "away", [("T", 1, 0)]))
    online = EventRecorder()
    place.ask(Heartbeat(1, "c1", consumers=[Membership("here", subscriptions=[Subscription("T")])]), online)
    place.ask(Heartbeat(1, "c2", consumers=[Membership("elsewhere", subscriptions=[Subscription("U")])]), EventRecorder())
    assert place.ask(QueryConsumers(2, "T")) == [ConsumersFound(2, ["away", "here"])]
