"""Topics of type PRIORITY: a message goes to the queue of its priority, and receives read the highest queue first."""

from __future__ import annotations

import pytest

from domain.admin.broker import ChangeNodePolicy
from domain.admin.group import PutGroup
from domain.admin.topic import PutTopic
from domain.command import Acknowledge, Receive, Send
from domain.delivery.priority import again_first
from domain.errors import ErrorCode
from domain.event import Done, Received, Refused, Sent
from domain.message.message import Message
from domain.message.record import Record
from domain.topic.topic import Group, Topic
from gateway.usecase.topics_and_groups.policy import NodePolicy
from gateway.usecase.topics_and_groups.priority import PriorityReads
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import only


@pytest.fixture
def ranked(bench: Bench) -> Bench:
    """A topic of type PRIORITY with four queues."""
    bench.ask(PutTopic(1, Topic("R", 4, 4, type="PRIORITY")))
    return bench


def send(bench: Bench, *priorities: str, extra: str = "") -> list[int]:
    """Send one message for each priority, with the priority as its body. Returns the queues that they went to."""
    messages = [
        Message("R", each.encode(), f"_SYS_MSG_PRIORITY_\x01{each}\x02{extra}".encode(), queue_id=0) for each in priorities
    ]
    event = only(Sent, bench.ask(Send(1, messages)))
    return [placed.queue_id for placed in event.placed]


def bodies(bench: Bench, limit: int, group: str = "g") -> list[bytes]:
    event = only(Received, bench.ask(Receive(1, group, "R", limit, 60_000, from_first=True)))
    return [Record(each.record).body for each in event.messages]


def test_the_queue_is_the_priority_and_the_last_one_takes_all_above(ranked: Bench) -> None:
    assert send(ranked, "0", "2", "3", "4", "99999999999") == [0, 2, 3, 3, 3]


@pytest.mark.parametrize("extra", ["__SHARDINGKEY\x01k\x02", "DELAY\x011\x02"])
def test_ordered_and_delayed_messages_lose_their_priority(ranked: Bench, extra: str) -> None:
    message = Message("R", b"x", f"_SYS_MSG_PRIORITY_\x013\x02{extra}".encode(), queue_id=1)
    ranked.ask(Send(1, [message]))
    assert b"PRIORITY" not in message.properties


def test_receives_look_at_the_highest_priority_first_each_time(ranked: Bench) -> None:
    send(ranked, "0", "1", "1", "3", "0")
    assert bodies(ranked, 2) == [b"3", b"1"]
    send(ranked, "2")
    assert bodies(ranked, 2) == [b"2", b"1"]
    assert bodies(ranked, 32) == [b"0", b"0"]


def lost(bench: Bench, count: int) -> list[bytes]:
    """Receive so many messages and let their leases end."""
    event = only(Received, bench.ask(Receive(1, "g", "R", count, 1_000, from_first=True)))
    bench.clock.run_for(2_000)
    return [Record(each.record).body for each in event.messages]


def test_what_comes_again_comes_after_all_that_is_new_in_the_order_of_its_priority(ranked: Bench) -> None:
    send(ranked, "1", "2", "3")
    assert lost(ranked, 2) == [b"3", b"2"]
    send(ranked, "0", "3", "2")
    assert bodies(ranked, 3) == [b"3", b"2", b"1"]
    assert bodies(ranked, 2) == [b"0", b"3"], "the last of what is new, and the highest of what comes again"
    assert bodies(ranked, 2) == [b"2"]


def test_what_is_left_is_told(ranked: Bench) -> None:
    send(ranked, "1", "2", "3", "3")
    lost(ranked, 2)
    event = only(Received, ranked.ask(Receive(1, "g", "R", 3, 60_000, from_first=True)))
    assert event.remaining == 1


def test_the_policy_has_what_comes_again_first_or_as_often_as_it_says(ranked: Bench) -> None:
    assert ranked.ask(ChangeNodePolicy(1, {"priority_again_first_percent": "100"})) == [Done(1)]
    send(ranked, "1", "2", "3")
    assert lost(ranked, 2) == [b"3", b"2"]
    send(ranked, "3")
    assert bodies(ranked, 1) == [b"3"]
    assert bodies(ranked, 2) == [b"2", b"3"]
    reads = PriorityReads(NodePolicy(priority_again_first_percent=30))
    topic, group, command = Topic("R", 4, 4, type="PRIORITY"), Group("g"), Receive(1, "g", "R", 1, 60_000)
    assert sum(again_first(reads.queue_id(topic, group, command)) for _ in range(100)) == 30


def test_the_policy_has_queue_0_first(ranked: Bench) -> None:
    assert ranked.ask(ChangeNodePolicy(1, {"priority_order_ascending": "false"})) == [Done(1)]
    send(ranked, "3", "1", "0", "2")
    assert lost(ranked, 2) == [b"0", b"1"]
    assert bodies(ranked, 32) == [b"2", b"3", b"0", b"1"]


@pytest.mark.parametrize("percent", ["-1", "101", "", "x"])
def test_a_share_of_what_comes_again_first_is_0_to_100(bench: Bench, percent: str) -> None:
    assert code(bench.ask(ChangeNodePolicy(1, {"priority_again_first_percent": percent}))) is ErrorCode.ARGUMENT_ILLEGAL
    assert bench.ask(ChangeNodePolicy(1, {"priority_again_first_percent": "0"})) == [Done(1)]


def test_a_factor_of_zero_is_no_priority_and_half_is_half(ranked: Bench) -> None:
    for factor, least, most in (("0", 20, 30), ("50", 50, 75), ("100", 100, 100)):
        ranked.ask(PutGroup(1, Group(f"g{factor}", attributes={"priority.factor": factor})))
        first = 0
        for _ in range(100):
            send(ranked, "0", "1", "2", "3")
            event = only(Received, ranked.ask(Receive(1, f"g{factor}", "R", 1, 60_000, from_first=True)))
            first += event.messages[0].receipt.queue_id == 3
            ranked.ask(Acknowledge(1, f"g{factor}", "R", [each.receipt for each in event.messages]))
        assert least <= first <= most, factor


@pytest.mark.parametrize("value", ["-1", "101", "high", "", "1" * 30])
def test_a_factor_outside_0_to_100_is_refused(bench: Bench, value: str) -> None:
    event = only(Refused, bench.ask(PutGroup(1, Group("g", attributes={"priority.factor": value}))))
    assert event.failure.code is ErrorCode.ARGUMENT_ILLEGAL


def test_attributes_stay_until_they_are_dropped(bench: Bench) -> None:
    bench.ask(PutGroup(1, Group("g", attributes={"priority.factor": "7", "other": "x"})))
    bench.ask(PutGroup(1, Group("g", attributes={"other": "y"})))
    found = bench.store.metadata.group("g")
    assert found is not None
    assert found.attributes == {"priority.factor": "7", "other": "y"}
    bench.ask(PutGroup(1, Group("g", attributes={"-priority.factor": ""})))
    found = bench.store.metadata.group("g")
    assert found is not None
    assert found.attributes == {"other": "y"}


def test_only_messages_with_a_priority_go_to_the_topic_where_types_are_asked_for(ranked: Bench) -> None:
    for stored, fits in ((b"", False), (b"_SYS_MSG_PRIORITY_\x010\x02", True), (b"__SHARDINGKEY\x01k\x02", False)):
        [event] = ranked.ask(Send(1, [Message("R", b"x", stored)], typed=True))
        assert isinstance(event, Sent) is fits
