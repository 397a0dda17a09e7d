"""Which replicas are alive, and which groups need an election."""

from __future__ import annotations

import pytest

from controller.groups import heartbeats
from controller.groups.groups import StoreGroups
from controller.groups.heartbeats import BEATS_MISSED, TIMEOUT_MS, TIMEOUT_MS_MAX, TIMEOUT_MS_MIN, Heartbeats
from domain.controller.change import ElectLeader
from domain.controller.replica_word import ReplicaWord
from tests.controller.groups.sample import NAME, group_of, led, registered, says, start
from tests.instructions import instructions

START = 1_000_000
CONNECTIONS = [object() for _ in range(5)]


def heard(groups: StoreGroups, now_ms: int, *ids: int) -> Heartbeats:
    beats = Heartbeats(START)
    for each in ids:
        beats.heard(NAME, ReplicaWord(says(each)), 3_000, CONNECTIONS[each], now_ms)
    return beats


@pytest.fixture
def groups() -> StoreGroups:
    return led((1, 2))


def test_a_replica_is_alive_until_its_own_timeout(groups: StoreGroups) -> None:
    beats = heard(groups, START, 1, 2)
    assert beats.live(group_of(groups), START + 3_000) == (says(1), says(2))
    beats.heard(NAME, ReplicaWord(says(2, position=200)), 3_000, CONNECTIONS[2], START + 3_000)
    assert beats.live(group_of(groups), START + 3_001) == (says(2, position=200),)
    assert beats.dead(group_of(groups), START + 3_001) == (1,), "3 was never heard, and has time"


def test_timeouts_have_bounds() -> None:
    for said, meant in ((0, TIMEOUT_MS), (-5, TIMEOUT_MS), (1, TIMEOUT_MS_MIN), (1 << 60, TIMEOUT_MS_MAX)):
        beats = Heartbeats(START)
        beats.heard(NAME, ReplicaWord(says(1)), said, None, START)
        assert beats.is_alive(NAME, 1, START + meant)
        assert beats.is_dead(NAME, 1, START + meant + 1)


def test_a_controller_that_has_just_started_deposes_nobody(groups: StoreGroups) -> None:
    beats = heard(groups, START, 2)
    assert beats.due(groups, START + TIMEOUT_MS) == []
    beats.heard(NAME, ReplicaWord(says(2)), 3_000, CONNECTIONS[2], START + TIMEOUT_MS)
    assert beats.due(groups, START + TIMEOUT_MS + 1) == [group_of(groups)]


def test_the_end_of_the_leaders_connections_asks_for_an_election_at_once(groups: StoreGroups) -> None:
    beats = heard(groups, START, 1, 2)
    assert beats.due(groups, START + 1) == []
    beats.closed(CONNECTIONS[2], START + 1)
    assert beats.due(groups, START + 1) == [], "a follower's end changes no leader"
    beats.heard(NAME, ReplicaWord(says(2)), 3_000, CONNECTIONS[4], START + 1)
    beats.closed(CONNECTIONS[2], START + 1)
    beats.closed(CONNECTIONS[1], START + 1)
    assert beats.due(groups, START + 1) == [], "another connection may bring its next heartbeat"
    assert beats.due(groups, START + 3_000 // BEATS_MISSED) == []
    assert beats.due(groups, START + 3_000 // BEATS_MISSED + 1) == [group_of(groups)], "it has missed one"
    beats.heard(NAME, ReplicaWord(says(2), parted=1), 3_000, CONNECTIONS[4], START + 1)
    assert beats.due(groups, START + 1) == [group_of(groups)], "a follower has lost it, too"
    groups.apply(ElectLeader(NAME, beats.live(group_of(groups), START + 1)))
    assert group_of(groups).leader == 2
    assert beats.due(groups, START + 1) == []


def test_an_election_that_nobody_can_win_is_not_asked_for(groups: StoreGroups) -> None:
    beats = heard(groups, START + 90_000, 3)
    assert beats.due(groups, START + 90_000) == [], "3 is not in the set, and who leads may live"
    beats.heard(NAME, ReplicaWord(says(2)), 3_000, CONNECTIONS[2], START + 90_000)
    assert beats.due(groups, START + 90_000) == [group_of(groups)]
    assert Heartbeats(START).due(groups, START + 90_000) == [], "nobody is alive"


def test_a_group_without_a_leader_yet_waits_for_a_replica_that_asks() -> None:
    groups = registered()
    assert heard(groups, START + 90_000, 1, 2, 3).due(groups, START + 90_000) == []


def test_a_leader_that_was_deposed_as_it_started_again_is_followed_by_an_election(groups: StoreGroups) -> None:
    start(groups, 1)
    assert heard(groups, START, 1, 2).due(groups, START) == [group_of(groups)]


def test_heartbeats_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "REPLICAS_HEARD_MAX", 2)
    beats = Heartbeats(START)
    for each in (1, 2, 3):
        beats.heard(NAME, ReplicaWord(says(each)), 3_000, None, START)
    assert (beats.dropped, beats.is_alive(NAME, 3, START), beats.is_alive(NAME, 1, START)) == (1, False, True)
    beats.heard(NAME, ReplicaWord(says(1)), 3_000, None, START + 2_000)
    beats.heard(NAME, ReplicaWord(says(3)), 3_000, None, START + 4_000)
    assert (beats.dropped, beats.is_alive(NAME, 3, START + 4_000)) == (1, True), "2 is over, and has made room"


def test_who_is_not_alive_any_more_was_lost_just_now_for_a_while() -> None:
    beats = heard(led((1, 2)), START, 1, 2)

    def lost(at_ms: int) -> list[int]:
        return [each for each in (1, 2, 3) if beats.is_just_lost(NAME, each, 1_000, at_ms)]

    assert lost(START + 3_000) == []
    assert lost(START + 3_001) == [1, 2], "their time is over"
    assert lost(START + 3_999) == [1, 2]
    assert lost(START + 4_000) == []
    beats.heard(NAME, ReplicaWord(says(1)), 3_000, CONNECTIONS[1], START + 5_000)
    beats.closed(CONNECTIONS[1], START + 5_500)
    assert lost(START + 6_499) == [1], "its connection has ended"
    assert lost(START + 6_500) == []
    beats.heard(NAME, ReplicaWord(says(1)), 3_000, CONNECTIONS[3], START + 6_500)
    assert lost(START + 6_501) == [], "it is back"


def test_who_is_lost_with_all_others_may_live() -> None:
    beats = Heartbeats(START)

    def beat(at_ms: int, *ids: int) -> None:
        for each in ids:
            beats.heard(NAME, ReplicaWord(says(each)), 3_000, CONNECTIONS[each], at_ms)

    for at_ms in range(START, START + 5_000, 250):
        beat(at_ms, 1, 2)
    now = START + 5_000
    assert not beats.lost_all(NAME, 1, 1_000, now), "it is alive"
    beats.closed(CONNECTIONS[1], now)
    assert not beats.lost_all(NAME, 1, 1_000, now), "2 is still heard, as it was before"
    beats.closed(CONNECTIONS[2], now + 15)
    assert beats.lost_all(NAME, 1, 1_000, now + 20)
    beats.heard(NAME, ReplicaWord(says(2)), 3_000, CONNECTIONS[4], now + 100)
    assert beats.lost_all(NAME, 1, 1_000, now + 100), "2 came back over another connection"
    assert not beats.lost_all(NAME, 1, 1_000, now + 1_000), "its time to come back is over"
    beats.heard(NAME, ReplicaWord(says(1)), 3_000, CONNECTIONS[3], now + 200)
    assert not beats.lost_all(NAME, 1, 1_000, now + 200)
    assert not beats.lost_all(NAME, 3, 1_000, now + 200), "it was never heard"


def test_who_was_not_heard_while_this_controller_stood_still_may_live() -> None:
    beats = Heartbeats(START)
    for at_ms in range(START, START + 5_000, 250):
        for each in (1, 2):
            beats.heard(NAME, ReplicaWord(says(each)), 3_000, CONNECTIONS[each], at_ms)
    now = START + 60_000
    beats.heard(NAME, ReplicaWord(says(2)), 3_000, CONNECTIONS[2], now)
    assert beats.lost_all(NAME, 1, 1_000, now)


def test_a_second_process_of_a_replica_is_not_heard_while_the_first_is_alive(groups: StoreGroups) -> None:
    beats = Heartbeats(START)
    beats.heard(NAME, ReplicaWord(says(1), run="a"), 3_000, CONNECTIONS[1], START)
    beats.heard(NAME, ReplicaWord(says(1, position=999), run="b"), 3_000, CONNECTIONS[2], START + 10)
    assert beats.live(group_of(groups), START + 20) == (says(1),)
    assert beats.dropped == 1
    assert beats.runs_elsewhere(NAME, 1, "b", START + 20)
    assert not beats.runs_elsewhere(NAME, 1, "a", START + 20)
    assert not beats.runs_elsewhere(NAME, 1, "", START + 20), "a version before does not say which process it is"
    beats.closed(CONNECTIONS[2], START + 30)
    assert beats.runs_elsewhere(NAME, 1, "b", START + 30), "the end of the second one's connection is not that of the first"
    beats.closed(CONNECTIONS[1], START + 40)
    assert not beats.runs_elsewhere(NAME, 1, "b", START + 40)
    beats.heard(NAME, ReplicaWord(says(1, position=999), run="b"), 3_000, CONNECTIONS[2], START + 50)
    assert beats.live(group_of(groups), START + 60) == (says(1, position=999),)
    assert beats.runs_elsewhere(NAME, 1, "a", START + 60)
    assert not beats.runs_elsewhere(NAME, 1, "a", START + 3_051), "it has not been heard for its time"


def test_why_a_replica_does_not_follow_is_told(groups: StoreGroups) -> None:
    beats = Heartbeats(START)
    beats.heard(NAME, ReplicaWord(says(2), run="a", refuses="another history"), 3_000, CONNECTIONS[2], START)
    assert [each.word.refuses for each in beats.words(group_of(groups), START)] == ["another history"]


def crowd(groups: int) -> tuple[Heartbeats, list[object]]:
    """The heartbeats of many groups of four replicas, each over a connection of its own."""
    beats, connections = Heartbeats(START), [object() for _ in range(groups * 4)]
    for at, connection in enumerate(connections):
        beats.heard(f"group-{at // 4}", ReplicaWord(says(at % 4 + 1)), 3_000, connection, START)
    return beats, connections


def test_the_end_of_a_connection_costs_the_same_however_many_replicas_are_heard() -> None:
    (few, some), (many, all_) = crowd(4), crowd(4_096)
    few.closed(object(), START)
    for act in (
        lambda beats, connections: beats.closed(connections[7], START + 1),
        lambda beats, _: beats.connections("group-1"),
        lambda beats, _: beats.heard("group-2", ReplicaWord(says(1)), 3_000, object(), START + 1),
    ):
        assert instructions(lambda act=act: act(few, some)) == instructions(lambda act=act: act(many, all_))  # type: ignore[misc]


def test_when_all_connections_end_no_leader_costs_a_walk_over_all_heartbeats() -> None:
    costs: list[int] = []
    for groups in (4, 1_024):
        beats, connections = crowd(groups)
        for each in connections:
            beats.closed(each, START + 1)
        costs.append(instructions(lambda beats=beats: beats.lost_all("group-1", 1, 10_000, START + 2)))  # type: ignore[misc]
    assert costs[0] == costs[1]


def test_heartbeats_beyond_the_limit_do_not_walk_over_all_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[int] = []
    for limit in (16, 1_024):
        monkeypatch.setattr(heartbeats, "REPLICAS_HEARD_MAX", limit)
        beats, _ = crowd(limit // 4)
        beats.heard("late", ReplicaWord(says(1)), 3_000, None, START + 1_000)
        costs.append(instructions(lambda beats=beats: beats.heard("late", ReplicaWord(says(1)), 3_000, None, START + 1_001)))  # type: ignore[misc]
        assert beats.dropped == 2
        beats.heard("late", ReplicaWord(says(1)), 3_000, None, START + 3_001)
        assert beats.is_alive("late", 1, START + 3_001), "those that are over make room"
        assert not beats.connections("group-1")
    assert costs[0] == costs[1]
