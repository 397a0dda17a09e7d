"""Questions about connections, about the progress of groups in offsets and time, and about the policy; Peek."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from domain.admin.broker import ChangeNodePolicy, NodePolicyFound, QueryNodePolicy
from domain.admin.client import ClientSeen, Connections, Producers, QueryConnections, QueryProducers
from domain.admin.group import ConsumedTopics, PutGroup, QueryConsumedTopics
from domain.admin.message import Peek, Peeked
from domain.admin.position import Backlog, Progress, QueryBacklog, QueryProgress, QueryTimeSpans, QueueTimeSpan, TimeSpans
from domain.admin.topic import PutTopic, QueryTopicState, TopicState
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.command import Acknowledge, CommitOffsets, Disconnected, Pull, Receive
from domain.errors import ErrorCode
from domain.event import Done, Pulled, Received
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder, only


@pytest.fixture
def place(bench: Bench) -> Bench:
    """Four messages in queue 0 of T, a second apart; the position of group g there is 3."""
    bench.furnish(4, 3)
    return bench


def stored_ms(place: Bench) -> list[int]:
    """Store times of the messages in queue 0."""
    event = only(Peeked, place.ask(Peek(1, "nobody", "T", 0, 32)))
    return [Record(record).store_ms for record in event.records]


def test_members_and_producers_with_their_addresses(bench: Bench) -> None:
    assert code(bench.ask(QueryConnections(1, "g"))) is ErrorCode.GROUP_OFFLINE
    assert code(bench.ask(QueryProducers(1, "pg"))) is ErrorCode.GROUP_OFFLINE
    recorder = EventRecorder()
    for expression, version in (("A", 1), ("B", 2)):
        member = Membership("g", "CONSUME_POP", subscriptions=[Subscription("T", expression, version=version)])
        bench.ask(Heartbeat(1, f"c{version}", ["pg"], [member], "GO", 7, address="10.0.0.9:1"), recorder)
    event = only(Connections, bench.ask(QueryConnections(2, "g")))
    assert [(each.client_id, each.address, each.language, each.version) for each in event.clients] == [
        ("c1", "10.0.0.9:1", "GO", 7), ("c2", "10.0.0.9:1", "GO", 7),
    ]  # fmt: skip
    assert (event.consume_type, event.model) == ("CONSUME_POP", "CLUSTERING")
    assert event.subscriptions == [Subscription("T", "B", version=2)]
    listed = only(Producers, bench.ask(QueryProducers(3)))
    assert listed.groups == {"pg": event.clients}
    assert isinstance(listed.groups["pg"][0], ClientSeen)
    bench.handler.handle(recorder.connection, Disconnected("end-of-stream"))
    assert bench.ask(QueryProducers(4)) == [Producers(4, {})]


def test_what_a_group_consumes(place: Bench) -> None:
    assert place.ask(QueryConsumedTopics(1, "g")) == [ConsumedTopics(1, ["T"])]
    place.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("U")])]), EventRecorder())
    assert place.ask(QueryConsumedTopics(1, "g")) == [ConsumedTopics(1, ["T", "U"])]
    assert code(place.ask(QueryConsumedTopics(1, "nobody"))) is ErrorCode.GROUP_NOT_FOUND


def test_progress_with_times_and_backlogs(place: Bench) -> None:
    times = stored_ms(place)
    assert place.ask(QueryProgress(1, "g", times=True)) == [Progress(1, [("T", 0, 4, 3)], 0.0, {("T", 0): times[2]})]
    assert place.ask(QueryBacklog(1)) == [Backlog(1, {"g": [("T", 0, 4, 3)]}, {"g": {("T", 0): times[2]}})]
    assert place.ask(QueryBacklog(1, ordered=True)) == [Backlog(1, {})]


def test_backlogs_have_every_group_that_has_a_position_however_many_groups_and_queues_there_are(place: Bench) -> None:
    place.ask(PutTopic(1, Topic("wide", 1024, 1024)))
    place.ask(PutTopic(1, Topic("orders", 1, 1, order=True)))
    for number in range(70):
        place.ask(PutGroup(1, Group(f"a{number}")))
    place.send("orders", "x")
    received = only(Received, place.ask(Receive(1, "popping", "orders", 1, 60_000, from_first=True)))
    assert len(received.messages) == 1, "leased, and not yet acknowledged: there is no position that a client has reported"
    event = only(Backlog, place.ask(QueryBacklog(1)))
    assert event.groups == {"g": [("T", 0, 4, 3)], "popping": [("orders", 0, 1, 0)]}
    assert event.given == {"popping": {("orders", 0): 1}}
    event = only(Backlog, place.ask(QueryBacklog(1, ordered=True)))
    assert list(event.groups) == ["popping"]


def test_what_members_hold_lies_between_the_position_and_how_far_they_were_given(place: Bench) -> None:
    assert given(place) == {}
    place.ask(CommitOffsets(1, "g", [("T", 0, 0)]))
    place.ask(Heartbeat(1, "c", consumers=[Membership("g", subscriptions=[Subscription("T")])]), EventRecorder())
    only(Pulled, place.ask(Pull(1, "g", "T", 0, 0, 3, 1_000_000, member="c")))
    assert given(place) == {("T", 0): 3}
    place.ask(CommitOffsets(1, "g", [("T", 0, 3)]))
    assert given(place) == {}
    received = only(Received, place.ask(Receive(1, "g", "T", 32, 60_000)))
    assert given(place) == {("T", 0): 4}
    place.ask(Acknowledge(1, "g", "T", [received.messages[0].receipt]))
    assert given(place) == {}


def given(place: Bench) -> Mapping[tuple[str, int], int]:
    """Offsets up to which messages were delivered to group g, by queue."""
    event = only(Progress, place.ask(QueryProgress(1, "g")))
    all_of_them = only(Backlog, place.ask(QueryBacklog(1)))
    assert all_of_them.given.get("g", {}) == event.given
    return event.given


def test_times_of_a_queue_as_a_group_sees_it(place: Bench) -> None:
    times = stored_ms(place)
    assert times == sorted(set(times))
    assert place.ask(QueryTimeSpans(1, "T", "g")) == [
        TimeSpans(1, [QueueTimeSpan(0, times[0], times[3], times[2], times[3]), QueueTimeSpan(1)])
    ]
    assert code(place.ask(QueryTimeSpans(1, "nothing", "g"))) is ErrorCode.TOPIC_NOT_FOUND
    assert code(place.ask(QueryTimeSpans(1, "T", "nobody"))) is ErrorCode.GROUP_NOT_FOUND


def test_when_queues_were_written_last(place: Bench) -> None:
    times = stored_ms(place)
    event = only(TopicState, place.ask(QueryTopicState(1, "T")))
    assert event.queues == [(0, 0, 4, times[3]), (1, 0, 0, -1)]
    assert event.per_second > 0
    assert code(place.ask(QueryTopicState(1, "nothing"))) is ErrorCode.TOPIC_NOT_FOUND


def test_peeking_takes_nothing(place: Bench) -> None:
    for _ in range(2):
        event = only(Peeked, place.ask(Peek(1, "g", "T", -1, 32)))
        assert ([Record(record).body for record in event.records], event.remaining) == ([b"3"], 0)
    event = only(Peeked, place.ask(Peek(1, "nobody", "T", 0, 2)))
    assert ([Record(record).body for record in event.records], event.remaining) == ([b"0", b"1"], 2)
    assert code(place.ask(Peek(1, "g", "nothing", 0, 1))) is ErrorCode.TOPIC_NOT_FOUND
    assert code(place.ask(Peek(1, "g", "T", 2, 1))) is ErrorCode.QUEUE_ILLEGAL


def test_the_policy_is_changed_whole_or_not_at_all(place: Bench) -> None:
    assert code(place.ask(ChangeNodePolicy(1, {"queues": "3", "create_topics": "maybe"}))) is ErrorCode.ARGUMENT_ILLEGAL
    assert code(place.ask(ChangeNodePolicy(1, {"queues": "0"}))) is ErrorCode.ARGUMENT_ILLEGAL
    assert code(place.ask(ChangeNodePolicy(1, {"durability": "page"}))) is ErrorCode.ARGUMENT_ILLEGAL
    assert place.ask(ChangeNodePolicy(1, {"queues": "3"})) == [Done(1)]
    (found_policy,) = place.ask(QueryNodePolicy(1))
    assert isinstance(found_policy, NodePolicyFound)
    assert {"create_topics": "true", "create_groups": "true", "queues": "3"}.items() <= found_policy.values.items()
    place.send("fresh", "a")
    found = place.store.metadata.topic("fresh")
    assert found is not None
    assert found.write_queues == 3
    place.ask(ChangeNodePolicy(1, {"create_topics": "false"}))
    check_policy = place.store.transactions.check_policy
    changes = {"transaction_timeout_ms": "1000", "transaction_check_ms": "2000", "transaction_checks_max": "3"}
    assert code(place.ask(ChangeNodePolicy(1, {**changes, "transaction_check_ms": "0"}))) is ErrorCode.ARGUMENT_ILLEGAL
    assert place.ask(ChangeNodePolicy(1, changes)) == [Done(1)]
    assert (check_policy.timeout_ms, check_policy.interval_ms, check_policy.count_max) == (1_000, 2_000, 3)
    (found_policy,) = place.ask(QueryNodePolicy(1))
    assert isinstance(found_policy, NodePolicyFound)
    assert changes.items() <= found_policy.values.items()
    place.handler.sending.submit([Message("other", b"a")], None)
    place.clock.run_for(20)
    assert place.store.metadata.topic("other") is None
