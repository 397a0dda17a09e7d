"""Subscriptions to lite topics: adding, replacing, start offsets, exclusive groups and quotas."""

from __future__ import annotations

import pytest

from domain.admin.lite import LiteClient, QueryLiteClient
from domain.command import Disconnected
from domain.errors import ErrorCode
from domain.event import Done
from domain.message.record import Record
from domain.topic.lite import LiteAction, LiteTaken, OffsetOption, OffsetOptionType, SyncSubscription
from gateway.usecase.topics_and_groups.policy import NodePolicy
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder, only
from tests.gateway.usecase.lite.stage import (
    PARENT,
    ack,
    attributes,
    messages,
    notified,
    place_with,
    poll,
    refused,
    send,
    subscribe,
)


def test_complete_replaces_and_ends(place: Bench) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a", "b")
    assert place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["b", "d"]), recorder) == [Done(1)]
    for name in "abd":
        send(place, name, name)
    assert notified(place.ask(poll(), recorder)) == ["b", "d"]
    assert place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_REMOVE), EventRecorder()) == [Done(1)]
    send(place, "d", "d2")
    info = only(LiteClient, place.ask(QueryLiteClient(1, PARENT, "g", "c", 10)))
    assert (info.count, info.names) == (2, ["b", "d"]), "another connection does not end it"
    place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_REMOVE), recorder)
    info = only(LiteClient, place.ask(QueryLiteClient(1, PARENT, "g", "c", 10)))
    assert info.count == -1


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (OffsetOption(OffsetOptionType.MIN), ["0", "1", "2", "3", "4"]),
        (OffsetOption(OffsetOptionType.MAX), []),
        (OffsetOption(OffsetOptionType.OFFSET, 3), ["3", "4"]),
        (OffsetOption(OffsetOptionType.OFFSET, 99), []),
        (OffsetOption(OffsetOptionType.TAIL, 2), ["1", "2", "3", "4"]),
        (OffsetOption(OffsetOptionType.LAST), ["3", "4"]),
        (None, ["3", "4"]),
    ],
)
def test_where_a_group_goes_on(place: Bench, start: OffsetOption | None, expected: list[str]) -> None:
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a")
    send(place, "a", *(str(at) for at in range(5)))
    ack(place, *messages(place.ask(poll(limit=3), recorder)))
    subscribe(place, recorder, "c", "a", start=start)
    assert notified(place.ask(poll(), recorder)) == expected


def test_a_group_goes_on_at_a_time(place: Bench) -> None:
    send(place, "a", "old")
    place.clock.run_for(10_000)
    when = place.clock.wall_ms()
    send(place, "a", "new")
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a", start=OffsetOption(OffsetOptionType.TIME, when))
    assert notified(place.ask(poll(), recorder)) == ["new"]


def test_an_exclusive_lite_topic_belongs_to_its_newest_subscriber(place: Bench) -> None:
    attributes(place, lite_sub_model="Exclusive")
    first, second = EventRecorder(), EventRecorder()
    subscribe(place, first, "c", "a", "b")
    subscribe(place, second, "d", "a")
    assert first.take() == [LiteTaken(None, "c", "g", "a")]
    place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["a", "b"]), first)
    place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["a", "b"]), first)
    send(place, "a", "1")
    assert notified(place.ask(poll("d"), second)) == ["1"]
    assert notified(place.ask(poll("c"), first)) == []
    place.ask(Disconnected("end"), second)
    assert place.ask(SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["a", "b"]), first) == [Done(1)]


def test_taking_and_leaving_may_begin_again(place: Bench) -> None:
    attributes(place, lite_sub_model="Exclusive", lite_sub_reset_offset_exclusive="true")
    attributes(place, lite_sub_reset_offset_unsubscribe="true")
    first, second = EventRecorder(), EventRecorder()
    subscribe(place, first, "c", "a")
    send(place, "a", "1", "2")
    ack(place, *messages(place.ask(poll("c"), first)))
    subscribe(place, second, "d", "a")
    got = messages(place.ask(poll("d"), second))
    assert [Record(each.record).body for each in got] == [b"1", b"2"]
    ack(place, *got)
    assert place.ask(SyncSubscription(1, "d", "g", PARENT, LiteAction.PARTIAL_REMOVE, ["a"]), second) == [Done(1)]
    subscribe(place, second, "d", "a")
    assert notified(place.ask(poll("d"), second)) == ["1", "2"]


def test_members_of_a_wildcard_group_have_everything(place: Bench) -> None:
    attributes(place, lite_sub_wildcard="true")
    recorders = {name: EventRecorder() for name in ("c", "d")}
    send(place, "a", "a1")
    for name, recorder in recorders.items():
        assert place.ask(SyncSubscription(1, name, "g", PARENT, LiteAction.COMPLETE_ADD), recorder) == [Done(1)]
        single = SyncSubscription(1, name, "g", PARENT, LiteAction.PARTIAL_ADD, ["a"])
        assert refused(place.ask(single, recorder)) is ErrorCode.NOT_ALLOWED
    assert notified(place.ask(poll("c"), recorders["c"])) == ["a1"]
    assert place.ask(poll("d", wait_ms=5_000), recorders["d"]) == []
    send(place, "new", "n1")
    place.clock.run_for(5)
    assert notified(recorders["d"].take()) == ["n1"]
    place.ask(Disconnected("end"), recorders["d"])
    send(place, "other", "o1")
    assert notified(place.ask(poll("c"), recorders["c"])) == ["o1"]


def test_quotas(place: Bench) -> None:
    attributes(place, lite_sub_client_quota="3")
    recorder = EventRecorder()
    subscribe(place, recorder, "c", "a", "b", "c")
    add = SyncSubscription(1, "c", "g", PARENT, LiteAction.PARTIAL_ADD, ["d"])
    assert refused(place.ask(add, recorder)) is ErrorCode.QUOTA
    subscribe(place, recorder, "c", "a")
    whole = SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["a", "d", "e", "f"])
    assert refused(place.ask(whole, recorder)) is ErrorCode.QUOTA
    attributes(place, lite_sub_client_quota="-1")
    subscribe(place, recorder, "c", *(f"n{at}" for at in range(47)))
    assert refused(place.ask(add, recorder)) is ErrorCode.QUOTA


def test_no_more_than_a_rate_of_requests_adds_lite_topics(bench: Bench) -> None:
    place_with(bench, NodePolicy(lite_syncs_per_s=3))
    recorder = EventRecorder()
    add = SyncSubscription(1, "c", "g", PARENT, LiteAction.PARTIAL_ADD, ["a"])
    other = SyncSubscription(1, "d", "g", PARENT, LiteAction.PARTIAL_ADD, ["b"])
    assert [bench.ask(each, recorder) for each in (add, other, add)] == [[Done(1)]] * 3
    assert refused(bench.ask(other, recorder)) is ErrorCode.RATE
    whole = SyncSubscription(1, "c", "g", PARENT, LiteAction.COMPLETE_ADD, ["a"])
    gone = SyncSubscription(1, "c", "g", PARENT, LiteAction.PARTIAL_REMOVE, ["a"])
    assert [bench.ask(each, recorder) for each in (whole, gone)] == [[Done(1)]] * 2
    bench.clock.run_for(334)
    assert bench.ask(other, recorder) == [Done(1)]
    assert refused(bench.ask(other, recorder)) is ErrorCode.RATE
