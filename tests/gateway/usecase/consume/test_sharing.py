"""One group, one lease table: members that pull beside members that receive."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup
from domain.admin.position import ResetPositions
from domain.admin.topic import PutTopic
from domain.client.membership import Heartbeat, Membership, Subscription
from domain.command import Acknowledge, CommitOffsets, Disconnected, Extend, Pull, QueryOffset, Receive
from domain.event import Event, Leased, Offset, Pulled, Received
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only

SECOND = 1_000


class Puller:
    """A push consumer of RocketMQ as the store sees it: one queue, its own offset, heartbeats."""

    def __init__(self, bench: Bench, name: str = "one", *, retries: bool = True, model: str = "CLUSTERING") -> None:
        self.bench = bench
        self.name = name
        self.recorder = EventRecorder()
        self.offset = 0
        topics = ["t", "%RETRY%g"] if retries else ["t"]
        self.part = Membership("g", model=model, subscriptions=[Subscription(topic) for topic in topics])
        self.member = name if model == "CLUSTERING" else ""
        self.beat()

    def beat(self) -> None:
        self.bench.ask(Heartbeat(1, self.name, consumers=[self.part]), self.recorder)

    def pull(self, limit: int = 32, wait_ms: int = 0) -> list[str]:
        events = self.bench.ask(Pull(1, "g", "t", 0, self.offset, limit, 0, wait_ms, member=self.member), self.recorder)
        return self.take(events)

    def take(self, events: list[Event]) -> list[str]:
        found: list[str] = []
        for event in events:
            if isinstance(event, Pulled):
                self.offset = event.next_offset
                found += [Record(record).body.decode() for record in event.records]
        return found

    def report(self, offset: int) -> None:
        self.bench.ask(CommitOffsets(1, "g", [("t", 0, offset)]), self.recorder)

    def leave(self) -> None:
        self.bench.handler.handle(self.recorder.connection, Disconnected("lost"))
        self.bench.clock.run_for(20)


@pytest.fixture
def group(bench: Bench) -> Bench:
    """Ten messages in the only queue of topic t."""
    bench.ask(PutTopic(1, Topic("t", 1, 1)))
    bench.ask(PutGroup(1, Group("g", retry_max=3)))
    send(bench, *[str(number) for number in range(10)])
    return bench


def send(bench: Bench, *bodies: str) -> None:
    bench.handler.sending.submit([Message("t", body.encode(), queue_id=0) for body in bodies], None)
    bench.clock.run_for(20)


def receive(bench: Bench, limit: int = 32, invisible_ms: int = 60_000, wait_ms: int = 0) -> list[Leased]:
    event = only(Received, bench.ask(Receive(1, "g", "t", limit, invisible_ms, wait_ms, from_first=True), ms=wait_ms + 20))
    return event.messages


def names(messages: list[Leased]) -> list[str]:
    return [Record(message.record).body.decode() for message in messages]


def acknowledge(bench: Bench, messages: list[Leased]) -> None:
    bench.ask(Acknowledge(1, "g", "t", [message.receipt for message in messages]))


def position(bench: Bench) -> int:
    event = only(Offset, bench.ask(QueryOffset(1, "g", "t", 0)))
    return event.offset


def test_where_all_pull_the_ledger_is_one_number(group: Bench) -> None:
    puller = Puller(group)
    written = group.store.figures()["log_written_bytes_total"]
    assert len(puller.pull(4)) == 4
    assert group.store.figures()["log_written_bytes_total"] == written, "a pull writes nothing"
    puller.report(4)
    assert (position(group), group.store.figures()["leases"]) == (4, 0)
    puller.report(2)
    assert position(group) == 2, "its members may go back"


def test_expired_messages_of_a_leased_range_are_settled(group: Bench) -> None:
    assert names(receive(group, 1)) == ["0"]  # from here on, members that pull lease
    puller = Puller(group)
    stored = properties.entry(properties.HG_EXPIRE_MS, str(group.clock.wall_ms() + 1_000))
    for body, properties_of_it in (("brief", stored), ("endless", b""), ("brief too", stored)):
        group.handler.sending.submit([Message("t", body.encode(), properties_of_it, queue_id=0)], None)
    group.clock.run_for(2_000)
    assert puller.pull() == [*map(str, range(1, 10)), "endless"]
    assert group.handler.pulling.expired == 2
    puller.leave()
    assert names(receive(group)) == [*map(str, range(1, 10)), "endless"]
    assert group.handler.receiving.expired == 0, "they were settled when they were pulled"


def test_what_was_pulled_before_anybody_received_is_not_given_out(group: Bench) -> None:
    puller = Puller(group)
    assert puller.pull(4) == ["0", "1", "2", "3"]
    puller.report(1)
    first = receive(group, 3)
    assert names(first) == ["4", "5", "6"]
    assert position(group) == 1
    puller.report(4)
    assert position(group) == 4
    acknowledge(group, first)
    assert position(group) == 7


def test_a_pull_skips_what_others_hold_and_have_settled(group: Bench) -> None:
    held = receive(group, 2)
    done = receive(group, 2)
    acknowledge(group, done)
    puller = Puller(group)
    assert puller.pull(3) == ["4", "5", "6"]
    assert names(receive(group)) == ["7", "8", "9"]
    puller.report(7)
    assert position(group) == 0, "what others hold is not settled by a report"
    acknowledge(group, held)
    assert position(group) == 7
    puller.report(2)
    assert position(group) == 7, "a report never goes back"
    assert puller.pull() == []


def test_what_a_member_held_that_disappears_is_free(group: Bench) -> None:
    receive(group, 1)
    puller = Puller(group)
    assert puller.pull(3) == ["1", "2", "3"]
    puller.report(2)
    recorder = EventRecorder()
    assert len(group.ask(Receive(1, "g", "t", 32, 60_000, 20_000, from_first=True), recorder)) == 1, "the rest"
    group.handler.handle(recorder.connection, Receive(1, "g", "t", 32, 60_000, 20_000, from_first=True))
    group.clock.run_for(100)
    assert recorder.take() == []
    puller.leave()
    event = only(Received, recorder.take())
    assert [(Record(each.record).body, each.attempt) for each in event.messages] == [(b"2", 2), (b"3", 2)]


def test_who_loses_the_queue_loses_what_it_holds(group: Bench) -> None:
    receive(group, 1)
    one = Puller(group, "one")
    assert one.pull(3) == ["1", "2", "3"]
    two = Puller(group, "two")
    two.offset = position(group)
    assert two.pull(5) == ["1", "2", "3", "4", "5"]
    two.leave()
    assert names(receive(group)) == ["1", "2", "3", "4", "5", "6", "7", "8", "9"]


def test_who_drops_the_topic_loses_what_it_holds(group: Bench) -> None:
    receive(group, 1)
    puller = Puller(group)
    puller.pull(3)
    puller.part = Membership("g", subscriptions=[Subscription("other")])
    puller.beat()
    assert names(receive(group, 3)) == ["1", "2", "3"]


def test_an_answer_that_was_lost_is_given_again(group: Bench) -> None:
    receive(group, 1)
    puller = Puller(group)
    assert puller.pull(3) == ["1", "2", "3"]
    puller.offset = 1
    event = only(Pulled, group.ask(Pull(1, "g", "t", 0, 1, 32, 0, member="one"), puller.recorder))
    assert [Record(record).reconsume_times for record in event.records] == [0] * 9


def test_a_member_that_lives_keeps_what_it_works_on_and_a_silent_one_does_not(group: Bench) -> None:
    receive(group, 1, invisible_ms=3_600_000)
    puller = Puller(group)
    assert len(puller.pull()) == 9
    for _ in range(12):
        group.clock.run_for(30 * SECOND)
        puller.beat()
        assert receive(group) == []
    group.clock.run_for(121 * SECOND)
    assert len(receive(group)) == 9


def test_readers_beside_the_group_take_no_part(group: Bench) -> None:
    receive(group, 2)
    listener = Puller(group, "all", model="BROADCASTING")
    assert len(listener.pull()) == 10
    reader = EventRecorder()
    event = only(Pulled, group.ask(Pull(1, "g", "t", 0, 0, 32, 0), reader))
    assert len(event.records) == 10
    assert len(receive(group)) == 8


def test_what_comes_back_behind_the_puller_goes_on_in_the_retry_topic(group: Bench) -> None:
    held = receive(group, 2, invisible_ms=1_000)
    puller = Puller(group)
    assert len(puller.pull()) == 8
    puller.report(10)
    group.clock.run_for(20 * SECOND)
    puller.pull()
    assert position(group) == 0
    group.clock.run_for(30 * SECOND)
    puller.pull()
    assert position(group) == 10
    event = only(Pulled, group.ask(Pull(1, "g", "%RETRY%g", 0, 0, 32, 0, member="one"), puller.recorder))
    copies = [Record(record) for record in event.records]
    assert [(copy.body, copy.reconsume_times) for copy in copies] == [(b"0", 1), (b"1", 1)]
    assert all(b"RETRY_TOPIC\x01t\x02" in copy.properties for copy in copies)
    acknowledge(group, held)
    assert position(group) == 10


def test_when_receivers_have_been_away_for_long_it_is_one_number_again(group: Bench) -> None:
    acknowledge(group, receive(group, 3))
    puller = Puller(group)
    puller.pull(3)
    for _ in range(22):
        group.clock.run_for(30 * SECOND)
        puller.beat()
    puller.report(4)
    assert (position(group), group.store.figures()["leases"]) == (4, 0)
    assert names(receive(group)) == ["6", "7", "8", "9"], "and what it still works on is its own"


def test_attempts_are_limited_for_pullers_too(group: Bench) -> None:
    group.ask(PutGroup(1, Group("g", retry_max=0)))
    [poison] = receive(group, 1)
    group.ask(Extend(1, "g", "t", [poison.receipt], 0))
    puller = Puller(group)
    assert puller.pull() == [str(number) for number in range(1, 10)]
    [letter] = group.receive("undertaker", "%DLQ%g").messages
    assert Record(letter.record).body == b"0"
    puller.report(10)
    assert position(group) == 10


def test_a_waiting_pull_is_answered_with_freed_and_with_new_messages(group: Bench) -> None:
    held = receive(group, 10)
    puller = Puller(group)
    assert puller.pull(wait_ms=10_000) == []
    group.ask(Extend(1, "g", "t", [held[9].receipt], 0))
    group.clock.run_for(100)
    assert puller.take(puller.recorder.take()) == []
    send(group, "new")
    assert puller.take(puller.recorder.take()) == ["new"]
    two = Puller(group, "two")
    two.offset = 9
    assert two.pull() == ["9", "new"], "the queue has a new puller"
    group.handler.handle(puller.recorder.connection, Pull(1, "g", "t", 0, 11, 32, 0, 10_000, member="one"))
    group.clock.run_for(10_100)
    assert len([event for event in puller.recorder.take() if isinstance(event, Pulled)]) == 1


def test_an_ordered_queue_waits_for_receivers(group: Bench) -> None:
    event = only(Received, group.ask(Receive(1, "g", "t", 2, 60_000, from_first=True, ordered=True)))
    puller = Puller(group)
    puller.offset = 2
    assert puller.pull() == []
    acknowledge(group, event.messages)
    assert len(puller.pull()) == 8


def test_a_reset_forgets_leases_forward_too(group: Bench) -> None:
    held = receive(group, 10)
    group.ask(ResetPositions(1, "t", "g", -1, queue_id=0, offset=5))
    assert names(receive(group)) == ["5", "6", "7", "8", "9"]
    acknowledge(group, held)
    assert position(group) == 5, "receipts of before are void"
