"""Strategies of shared subscriptions as pure choices: who is free, who has room, and who gets the next message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.client.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, MqttSubscription
from domain.message import record
from domain.message.message import LOCAL_HOST, Message
from domain.message.record import Record
from gateway.connection.client_connection import CLOSED_DRIVER, ClientConnection
from gateway.usecase.sessions.in_flight import InFlightMessage
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.share_strategy import (
    LEASES_MAX,
    KeyOwners,
    Member,
    choose,
    fits,
    is_free,
    room_of,
    strategy_of,
)
from gateway.usecase.topics_and_groups.policy import LEAST, ROUND_ROBIN, STICKY, STRATEGY

KEYED = b"__SHARDINGKEY\x01k\x02"


def member(client_id: str = "m", level: int = AT_LEAST_ONCE, leases: int = 0, window: int = 1_000) -> Member:
    """A connected member."""
    session = MqttSession(client_id)
    session.connection = ClientConnection("mqtt", CLOSED_DRIVER)
    session.leases, session.window = leases, window
    return session, MqttSubscription("t", level)


def fill(chosen: Member) -> None:
    """Take the last free slot of a member."""
    chosen[0].leases = LEASES_MAX


def stored(body: int, properties: bytes = b"") -> Record:
    return Record(record.encode(Message("t", bytes(body), properties, queue_id=0), 0, 0, 0, LOCAL_HOST))


def test_a_strategy_that_is_not_known_is_the_default() -> None:
    assert strategy_of({STRATEGY: STICKY}, ROUND_ROBIN) == STICKY
    assert strategy_of({STRATEGY: "fastest"}, ROUND_ROBIN) == ROUND_ROBIN
    assert strategy_of({}, STICKY) == STICKY


@pytest.mark.parametrize(("level", "expected"), [(AT_MOST_ONCE, True), (AT_LEAST_ONCE, False), (EXACTLY_ONCE, False)])
def test_only_confirmed_deliveries_need_a_place_in_the_window(level: int, expected: bool) -> None:
    for found in (member(level=level, leases=LEASES_MAX), member(level=level, window=0)):
        assert is_free(*found) == expected
        assert (room_of(found[0], {"t": found[1]}, 5) == 5) == expected


@pytest.mark.parametrize("level", [AT_MOST_ONCE, AT_LEAST_ONCE])
def test_a_client_that_is_away_or_does_not_read_takes_nothing(level: int) -> None:
    session, subscription = member(level=level)
    assert session.connection is not None
    session.connection.stalled = True
    assert not is_free(session, subscription)
    assert room_of(session, {"t": subscription}, 5) == 0
    session.connection = None
    assert not is_free(session, subscription)
    assert room_of(session, {"t": subscription}, 5) == 0


@given(st.integers(0, 100), st.integers(0, 70), st.integers(0, 70), st.integers(0, 40))
def test_room_is_bounded_by_what_is_asked_by_leases_and_by_the_window(most: int, leases: int, window: int, used: int) -> None:
    session, subscription = member(leases=leases, window=window)
    for slot in range(1, used + 1):
        session.in_flight[slot] = InFlightMessage(1, ("t", 0), 0, "", False, ())
    assert room_of(session, {"t": subscription}, most) == max(0, min(most, LEASES_MAX - leases, window - used))


@pytest.mark.parametrize(("packet_bytes_max", "expected"), [(0, True), (1_003, False), (1_004, True)])
def test_a_delivery_that_can_be_declined_is_tried_when_the_body_fits(packet_bytes_max: int, expected: bool) -> None:
    found = member()
    found[0].packet_bytes_max = packet_bytes_max
    assert fits(found, stored(1_000, KEYED)) == expected


@pytest.mark.parametrize("level", [AT_MOST_ONCE, EXACTLY_ONCE])
def test_a_delivery_that_cannot_be_declined_must_fit_for_sure(level: int) -> None:
    found, asked = member(level=level), stored(1_000, KEYED)
    found[0].packet_bytes_max = len(asked.data) + 3 + 8
    assert fits(found, asked)
    found[0].packet_bytes_max -= 1
    assert not fits(found, asked)


def test_round_robin_takes_free_members_in_turn() -> None:
    candidates = [member("a"), member("b", leases=LEASES_MAX), member("c")]
    chosen = [choose(ROUND_ROBIN, KeyOwners(), candidates, b"") for _ in range(4)]
    assert [each[0].client_id for each in chosen if each is not None] == ["a", "c", "a", "c"]


def test_least_in_flight_takes_the_member_with_the_fewest_leases() -> None:
    candidates = [member("a", leases=3), member("b", leases=1), member("c", leases=1), member("d", leases=2)]
    chosen = [choose(LEAST, KeyOwners(), candidates, b"") for _ in range(2)]
    assert [each[0].client_id for each in chosen if each is not None] == ["b", "c"]


@pytest.mark.parametrize("strategy", [ROUND_ROBIN, LEAST, STICKY])
def test_nobody_is_chosen_when_nobody_is_free(strategy: str) -> None:
    candidates = [member("a", leases=LEASES_MAX)]
    assert choose(strategy, KeyOwners(), candidates, KEYED) is None
    assert choose(strategy, KeyOwners(), [], b"") is None
    assert len(candidates) == 1


def test_a_key_stays_with_its_owner_and_waits_for_it() -> None:
    owners, candidates = KeyOwners(), [member("a"), member("b")]
    owner = owners.choose(b"k", candidates)
    assert owner is not None
    assert owners.choose(b"k", candidates[::-1]) == owner
    fill(owner)
    assert owners.choose(b"k", candidates) is None


def test_new_keys_go_to_the_member_with_the_fewest() -> None:
    owners, candidates = KeyOwners(), [member("a"), member("b"), member("c")]
    chosen = [owners.choose(b"%d" % number, candidates) for number in range(9)]
    names = [each[0].client_id for each in chosen if each is not None]
    assert sorted(names) == sorted("abc" * 3)


def test_the_keys_of_a_member_that_left_get_other_owners() -> None:
    owners, candidates = KeyOwners(), [member("a"), member("b")]
    first = owners.choose(b"k", candidates)
    assert first is not None
    owners.disconnect(first[0])
    left = [each for each in candidates if each != first]
    second = owners.choose(b"k", left)
    assert second == left[0]
    assert owners.choose(b"k", candidates) == second


def test_an_owner_that_is_no_candidate_any_more_loses_the_key() -> None:
    owners, candidates = KeyOwners(), [member("a"), member("b")]
    first = owners.choose(b"k", candidates)
    left = [each for each in candidates if each != first]
    assert owners.choose(b"k", left) == left[0]
    assert owners.choose(b"k", candidates) == left[0]
    found = owners.choose(b"another", [*left, *candidates])
    assert found == first
