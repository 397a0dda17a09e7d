"""Position resets: they are stored, connected members go on from them, and reports from before them are not stored."""

from __future__ import annotations

import pytest

from domain.admin.group import PutGroup
from domain.admin.position import ClonePositions, PositionsReset, ResetPositions
from domain.client.membership import Heartbeat, Membership
from domain.command import CommitOffsets, Pull, QueryOffset, Receive
from domain.errors import ErrorCode
from domain.event import Done, Event, Offset, Pulled, Received
from domain.topic.topic import Group
from tests.gateway.usecase.bench import Bench, code
from tests.gateway.usecase.event_recorder import EventRecorder, only


@pytest.fixture
def place(bench: Bench) -> Bench:
    """Ten messages in queue 0 of T, a second apart; the position of group g there is 10."""
    bench.furnish(10, 10)
    return bench


def position(place: Bench, group: str = "g", queue_id: int = 0) -> int:
    event = only(Offset, place.ask(QueryOffset(1, group, "T", queue_id)))
    return event.offset


def test_offline_by_time_and_the_next_comes_from_there(place: Bench) -> None:
    when = place.clock.wall_ms() - 4_500
    event = only(PositionsReset, place.ask(ResetPositions(7, "T", "g", when)))
    offset = event.offsets[0][1]
    assert 4 <= offset <= 7
    assert event.offsets == [(0, offset), (1, 0)]
    assert position(place) == offset
    received = place.receive("g", "T", limit=1)
    assert received.messages[0].record.find(b"%d" % offset) > 0


def test_the_end_one_queue_and_one_offset(place: Bench) -> None:
    place.ask(ResetPositions(7, "T", "g", 0))
    assert position(place) == 0
    assert place.ask(ResetPositions(7, "T", "g", -1)) == [PositionsReset(7, [(0, 10), (1, 0)])]
    assert place.ask(ResetPositions(7, "T", "g", -1, queue_id=0, offset=3)) == [PositionsReset(7, [(0, 3)])]
    assert position(place) == 3


def test_without_force_positions_only_move_back(place: Bench) -> None:
    place.ask(CommitOffsets(1, "g", [("T", 0, 2)]))
    assert place.ask(ResetPositions(7, "T", "g", -1, force=False, queue_id=0)) == [PositionsReset(7, [(0, 2)])]
    assert place.ask(ResetPositions(7, "T", "g", 0, force=False, queue_id=0)) == [PositionsReset(7, [(0, 0)])]


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (ResetPositions(7, "nothing", "g", 0), ErrorCode.TOPIC_NOT_FOUND),
        (ResetPositions(7, "T", "nobody", 0), ErrorCode.GROUP_NOT_FOUND),
        (ResetPositions(7, "T", "g", 0, queue_id=2), ErrorCode.QUEUE_ILLEGAL),
        (ResetPositions(7, "T", "g", 0, queue_id=0, offset=11), ErrorCode.ARGUMENT_ILLEGAL),
        (ResetPositions(7, "T", "g", 0, offset=1), ErrorCode.ARGUMENT_ILLEGAL),
        (ClonePositions(7, "g", "nobody"), ErrorCode.GROUP_NOT_FOUND),
        (ClonePositions(7, "g", "g", "nothing"), ErrorCode.TOPIC_NOT_FOUND),
    ],
)
def test_what_cannot_be_reset(place: Bench, command: ResetPositions, wanted: ErrorCode) -> None:
    assert code(place.ask(command)) is wanted
    assert position(place) == 10


def online(place: Bench) -> EventRecorder:
    recorder = EventRecorder()
    place.ask(Heartbeat(1, "c", consumers=[Membership("g")]), recorder)
    return recorder


def pull(place: Bench, recorder: EventRecorder, offset: int, wait_ms: int = 0, commit: int = -1) -> list[Event]:
    command = Pull(3, "g", "T", 0, offset, 32, 1_000_000, wait_ms=wait_ms, commit=commit, member="c")
    return place.ask(command, recorder)


def answer(event: Event) -> tuple[str, list[bytes], int, int, int]:
    """What a pull was answered with."""
    assert isinstance(event, Pulled)
    return event.status, event.records, event.next_offset, event.min_offset, event.max_offset


def test_members_follow_the_answers_to_their_pulls_and_their_old_reports_are_not_taken(place: Bench) -> None:
    recorder = online(place)
    place.ask(ResetPositions(7, "T", "g", 0))
    assert recorder.take() == [], "what is told beside the answer would make them begin twice"
    assert place.ask(CommitOffsets(8, "g", [("T", 0, 10)]), recorder) == [Done(8)]
    assert position(place) == 0
    [sent_back] = pull(place, recorder, 10, commit=10)
    assert answer(sent_back) == ("TOO_LARGE", [], 0, 0, 10)
    assert position(place) == 0
    event = only(Pulled, pull(place, recorder, 0))
    assert len(event.records) == 10
    place.ask(CommitOffsets(8, "g", [("T", 0, 10)]), recorder)
    assert position(place) == 10


def test_a_parked_pull_is_sent_to_the_new_position_at_once(place: Bench) -> None:
    recorder = online(place)
    assert pull(place, recorder, 10, wait_ms=20_000) == []
    place.ask(ResetPositions(7, "T", "g", 0, queue_id=0, offset=4))
    [event] = recorder.take()
    assert answer(event) == ("TOO_LARGE", [], 4, 0, 10)
    place.clock.run_for(30_000)
    assert recorder.take() == []


def test_a_member_that_never_follows_is_left_alone_after_a_minute(place: Bench) -> None:
    recorder = online(place)
    place.ask(ResetPositions(7, "T", "g", 0))
    recorder.take()
    place.clock.run_for(61_000)
    assert pull(place, recorder, 9)[0].status == "FOUND"  # type: ignore[attr-defined]


def test_somebody_who_is_no_member_sets_what_it_likes(place: Bench) -> None:
    online(place)
    place.ask(ResetPositions(7, "T", "g", 0))
    place.ask(CommitOffsets(8, "g", [("T", 0, 6)]))
    assert position(place) == 6


def test_a_receive_that_waits_gets_what_is_free_again(place: Bench) -> None:
    recorder = EventRecorder()
    assert place.ask(Receive(5, "g", "T", 32, 10_000, 20_000), recorder) == []
    place.ask(ResetPositions(7, "T", "g", 0, queue_id=0, offset=8))
    event = only(Received, recorder.take())
    assert len(event.messages) == 2


def test_another_groups_positions(place: Bench) -> None:
    place.ask(PutGroup(1, Group("h")))
    assert place.ask(ClonePositions(7, "g", "h", "T")) == [Done(7)]
    assert position(place, "h") == 10
    place.ask(ResetPositions(7, "T", "g", 0))
    assert place.ask(ClonePositions(7, "g", "h")) == [Done(7)]
    assert position(place, "h") == 0
