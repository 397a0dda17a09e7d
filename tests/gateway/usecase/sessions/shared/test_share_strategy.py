"""Strategies of shared subscriptions as pure choices: who is free, who has room, and who gets the next message."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.client.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, MqttSubscription
from domain.message import record
from domain.message.message import LOCAL_HOST, Message
from domain.message.receipt import RETRY_NONE, Receipt
from domain.message.record import Record
from gateway.connection.client_connection import CLOSED_DRIVER, ClientConnection
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.shared.share_line import UNLIMITED, PacketLimits, ShareLine
from gateway.usecase.sessions.shared.share_members import LOOKED_MAX, Choice, ShareMembers, UndeliveredMessage
from gateway.usecase.sessions.shared.share_strategy import LEASES_MAX, KeyOwners, Member, is_free, room_of, strategy_of
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


def message(body: int = 5, key: str = "", path: str = "t") -> UndeliveredMessage:
    found = stored(body, f"__SHARDINGKEY\x01{key}\x02".encode() if key else b"")
    lease = DeliveryLease("g", "t", Receipt(0, 1, 1, 0, RETRY_NONE, "b", 0, 0))
    return UndeliveredMessage(lease, found, found.properties, path)


def joined(*members: Member) -> ShareMembers:
    found = ShareMembers()
    for session, subscription in members:
        found.join(session, subscription)
    return found


def names(members: ShareMembers, strategy: str, messages: Iterable[UndeliveredMessage], leased: bool = False) -> list[str]:
    """The client ids of those who get the messages, each of which holds a lease then if `leased`."""
    found: list[str] = []
    for each in messages:
        chosen = members.choose(strategy, each)
        assert not isinstance(chosen, Choice)
        chosen[0].leases += leased
        found.append(chosen[0].client_id)
    return found


@pytest.mark.parametrize(("packet_bytes_max", "expected"), [(0, True), (1_003, False), (1_004, True)])
def test_a_delivery_that_can_be_declined_is_tried_when_the_body_fits(packet_bytes_max: int, expected: bool) -> None:
    session, subscription = member()
    session.packet_bytes_max = packet_bytes_max
    assert message(1_000, "k").fits(session, subscription) == expected


@pytest.mark.parametrize("level", [AT_MOST_ONCE, EXACTLY_ONCE])
def test_a_delivery_that_cannot_be_declined_must_fit_for_sure(level: int) -> None:
    (session, subscription), asked = member(level=level), message(1_000, "k")
    session.packet_bytes_max = len(asked.record.data) + 3 + 8
    assert asked.fits(session, subscription)
    session.packet_bytes_max -= 1
    assert not asked.fits(session, subscription)


def test_round_robin_takes_free_members_in_turn() -> None:
    members = joined(member("a"), member("b", leases=LEASES_MAX), member("c"))
    assert names(members, ROUND_ROBIN, [message() for _ in range(4)]) == ["a", "c", "a", "c"]


def test_least_in_flight_takes_the_member_with_the_fewest_leases() -> None:
    members = joined(member("a", leases=3), member("b", leases=1), member("c", leases=1), member("d", leases=2))
    assert names(members, LEAST, [message() for _ in range(5)], leased=True) == ["b", "c", "d", "b", "c"]


def test_a_member_that_has_become_free_is_chosen_after_it_was_woken() -> None:
    busy, other = member("a", leases=LEASES_MAX), member("b", leases=LEASES_MAX)
    members = joined(busy, other)
    assert members.choose(LEAST, message()) is Choice.WAITS
    assert members.room(5) == 0
    busy[0].leases = 0
    members.wake(busy[0])
    assert members.room(5) == 5
    assert names(members, LEAST, [message()]) == ["a"]


@pytest.mark.parametrize("strategy", [ROUND_ROBIN, LEAST, STICKY])
def test_nobody_is_chosen_when_nobody_is_free(strategy: str) -> None:
    members = joined(member("a", leases=LEASES_MAX))
    assert members.choose(strategy, message(key="k")) is Choice.WAITS
    assert joined().choose(strategy, message()) is Choice.UNWANTED
    assert members.choose(strategy, message(path="other")) is Choice.UNWANTED
    assert len(members) == 1


def test_who_has_two_filters_gets_the_message_once_at_the_highest_level() -> None:
    session, _ = member("a", leases=3)
    members = joined((session, MqttSubscription("t/#", AT_MOST_ONCE)), (session, MqttSubscription("+/x", AT_LEAST_ONCE)))
    chosen = members.choose(LEAST, message(path="t/x"))
    assert isinstance(chosen, tuple)
    assert chosen[1].level == AT_LEAST_ONCE
    session.leases = LEASES_MAX
    assert members.choose(LEAST, message(path="t/x")) is Choice.WAITS
    members.wake(session)
    assert isinstance(members.choose(LEAST, message(path="t/y")), tuple), "the filter of that path needs no acknowledgement"
    assert members.leave(session, "+/x") == (True, False)
    assert members.leave(session, "t/#") == (True, True)
    assert members.choose(LEAST, message(path="t/x")) is Choice.UNWANTED


def test_a_key_stays_with_its_owner_and_waits_for_it() -> None:
    pair = [member("a"), member("b")]
    members = joined(*pair)
    [owner] = names(members, STICKY, [message(key="k")])
    assert names(members, STICKY, [message(key="k") for _ in range(3)]) == [owner] * 3
    fill(next(each for each in pair if each[0].client_id == owner))
    assert members.choose(STICKY, message(key="k")) is Choice.WAITS
    assert names(members, STICKY, [message(key="another")]) != [owner]


def test_new_keys_go_to_the_member_with_the_fewest() -> None:
    members = ShareMembers(keys_max=9)
    for each in "abc":
        members.join(*member(each))
    got = names(members, STICKY, [message(key=f"k{number}") for number in range(9)])
    assert sorted(got) == sorted("abc" * 3)
    assert names(members, STICKY, [message(key="k9")]) == [got[0]], "who has lost its oldest key has the fewest"
    assert names(members, STICKY, [message(key="k9"), message(key="k5")]) == [got[0], got[5]]


def test_the_keys_of_a_member_that_left_get_other_owners() -> None:
    pair = [member("a"), member("b")]
    members = joined(*pair)
    [first] = names(members, STICKY, [message(key="k")])
    gone = next(each for each in pair if each[0].client_id == first)
    members.leave(gone[0], "t")
    [second] = names(members, STICKY, [message(key="k")])
    assert second != first
    members.join(*gone)
    assert names(members, STICKY, [message(key="k")]) == [second]


def test_an_owner_that_cannot_have_the_message_loses_the_key() -> None:
    pair = [member("a"), member("b")]
    members = joined(*pair)
    [first] = names(members, STICKY, [message(key="k")])
    owner = next(each[0] for each in pair if each[0].client_id == first)
    owner.packet_bytes_max = 50
    [second] = names(members, STICKY, [message(1_000, key="k")])
    assert second != first
    assert names(members, STICKY, [message(key="k"), message(key="another")]) == [second, first]


def test_the_oldest_keys_are_forgotten_and_their_number_is_kept() -> None:
    owners, (one, _), (two, _) = KeyOwners(3), member("a"), member("b")
    assert [owners.assign(b"%d" % number, one) for number in range(3)] == [None] * 3
    assert owners.assign(b"3", two) is one
    assert (owners.owner(b"0"), owners.keys(one), owners.keys(two)) == (None, 2, 1)
    owners.disconnect(one)
    assert (owners.owner(b"1"), owners.owner(b"3"), owners.keys(one)) == (None, two, 0)


def limited(client_id: str, most: int) -> Member:
    found = member(client_id)
    found[0].packet_bytes_max = most
    return found


def test_a_message_that_is_too_large_for_all_is_not_waited_with() -> None:
    members = joined(limited("a", 500), limited("b", 900))
    assert members.choose(LEAST, message(1_000)) is Choice.TOO_LARGE
    assert names(members, LEAST, [message(700)]) == ["b"]
    declined = message(700)
    declined.too_small = 900
    assert members.choose(LEAST, declined) is Choice.TOO_LARGE
    busy = member("c", leases=LEASES_MAX)
    members.join(*busy)
    assert members.choose(LEAST, message(1_000)) is Choice.WAITS, "for one that can have it later"
    members.leave(busy[0], "t")
    assert members.choose(LEAST, message(1_000)) is Choice.TOO_LARGE


def test_a_choice_looks_at_so_many_members_and_the_next_one_goes_on() -> None:
    small = [limited(f"s{number}", 100) for number in range(3 * LOOKED_MAX)]
    members = joined(*small, member("large"))
    looks = 1
    while members.choose(ROUND_ROBIN, message(1_000)) is Choice.WAITS:
        assert members.unsure
        looks += 1
    assert looks == 4
    for session, _ in small:
        session.leases = LEASES_MAX
    assert members.room(32) == 0
    assert members.unsure, "there may be others"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 5)), max_size=80))
def test_a_line_is_in_the_order_of_ranks_and_numbers_whatever_comes(changes: list[tuple[int, int, int]]) -> None:
    sessions = [MqttSession(str(number)) for number in range(10)]
    places: dict[int, tuple[int, int]] = {}
    line = ShareLine(lambda session: session.leases)
    for number, (at, act, rank) in enumerate(changes):
        session = sessions[at]
        if act == 0:
            line.leave(session)
            places.pop(at, None)
        elif act == 1:
            session.leases = rank
            line.enter(session, number)
            places[at] = (rank, places.get(at, (0, number))[1])
        else:
            session.leases += rank
            if at in places:
                places[at] = (session.leases, places[at][1])
        first = line.first()
        assert (None if first is None else first[:2]) == min(places.values(), default=None)


@given(st.lists(st.integers(-20, 20), max_size=80))
def test_the_largest_limit_is_known_whatever_comes(changes: list[int]) -> None:
    limits, present = PacketLimits(), list[int]()
    for each in changes:
        if each >= 0:
            limits.add(each or UNLIMITED)
            present.append(each or UNLIMITED)
        elif -each in present:
            limits.remove(-each)
            present.remove(-each)
        assert limits.largest() == max(present, default=0)
