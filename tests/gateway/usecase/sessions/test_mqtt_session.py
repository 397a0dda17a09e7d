"""The state of a session: its in-flight window, what matches a record, and subscriptions merged into one delivery."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.client.mqtt_session import EXPIRY_NEVER, SLOT_MAX, MqttSubscription
from domain.delivery.routed import RoutedRecord
from domain.filter.path_matching import matches
from domain.message.receipt import RETRY_NONE, Receipt
from domain.message.record import Record
from gateway.usecase.sessions.in_flight import DeliveryLease, InFlightMessage
from gateway.usecase.sessions.mqtt_session import MATCH_CACHE_MAX, WINDOW_BYTES_MAX, MqttSession, merge_by_session

PATTERNS = ("t/#", "t/+", "t/a", "+/a", "u")


def lease() -> DeliveryLease:
    return DeliveryLease("g", "t", Receipt(0, 1, 1, 0, RETRY_NONE, "b", 0, 0))


def occupy(session: MqttSession, size: int = 100, leased: bool = False) -> int:
    """Put a message of `size` bytes into a slot; the slot."""
    flight = InFlightMessage(1, ("t", 0), 7, "", False, (), lease=lease() if leased else None)
    return session.occupy_slot(flight, RoutedRecord(Record(bytes(size)), b"", "t", 0)).slot


def session_with(*subscriptions: MqttSubscription) -> MqttSession:
    session = MqttSession("c")
    for each in subscriptions:
        session.subscriptions[each.pattern] = each
    return session


@pytest.mark.parametrize(
    ("expiry_s", "disconnected_ms", "expires_ms"),
    [(60, 0, -1), (60, 5_000, 65_000), (0, 5_000, 5_000), (EXPIRY_NEVER, 5_000, -1)],
)
def test_a_session_expires_after_its_connection(expiry_s: int, disconnected_ms: int, expires_ms: int) -> None:
    session = MqttSession("c")
    session.expiry_s, session.disconnected_ms = expiry_s, disconnected_ms
    assert session.expires_ms() == expires_ms
    assert session.durable == (expiry_s > 0)


def test_the_window_is_full_by_number_or_by_bytes() -> None:
    session = MqttSession("c")
    session.window = 2
    fill = [session.full]
    for _ in range(2):
        occupy(session)
        fill.append(session.full)
    assert fill == [False, False, True]
    session.window = 100
    assert not session.full
    slot = occupy(session, WINDOW_BYTES_MAX)
    assert session.full
    session.free_slot(slot)
    assert not session.full


def test_slots_begin_again_at_1_and_pass_over_those_in_use() -> None:
    session = MqttSession("c")
    assert [occupy(session) for _ in range(3)] == [1, 2, 3]
    session.next_slot = SLOT_MAX
    session.free_slot(2)
    assert [occupy(session) for _ in range(3)] == [SLOT_MAX, 2, 4]
    session.next_slot = SLOT_MAX
    assert occupy(session) == 5


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 6), st.booleans()), max_size=30))
def test_bytes_and_leases_are_the_sum_of_what_is_in_flight(steps: list[tuple[bool, int, bool]]) -> None:
    session = MqttSession("c")
    naive: dict[int, tuple[int, bool]] = {}
    for adds, number, leased in steps:
        if adds:
            slot = occupy(session, 100 * number, leased)
            assert slot not in naive
            naive[slot] = (100 * number, leased)
        else:
            known = naive.pop(number, (0, False))
            assert (session.free_slot(number) is not None) == known[1]
    assert session.in_flight.keys() == naive.keys()
    assert session.in_flight_bytes == sum(size for size, _ in naive.values())
    assert session.leases == sum(leased for _, leased in naive.values())


def test_a_disconnected_session_keeps_its_messages_but_not_their_bytes() -> None:
    session = MqttSession("c")
    session.window = 9
    slot = occupy(session, WINDOW_BYTES_MAX, leased=True)
    session.disconnect()
    assert (list(session.in_flight), session.in_flight_bytes, session.leases, session.epoch) == ([slot], 0, 1, 1)
    assert not session.full
    assert session.free_slot(slot) is not None
    assert (session.in_flight_bytes, session.leases) == (0, 0)


@given(st.sets(st.sampled_from(PATTERNS)), st.lists(st.sampled_from(("t/a", "t/b", "t/a/b", "u"))), st.integers(0, 5))
def test_a_record_matches_subscriptions_that_are_older_than_it(patterns: set[str], paths: list[str], offset: int) -> None:
    known = [MqttSubscription(pattern, 1, since=at) for at, pattern in enumerate(PATTERNS) if pattern in patterns]
    session = session_with(*known)
    for path in [*paths, *paths]:
        found_path, found = session.matching(path.split("/")[0], path.encode(), offset)
        assert found_path == path
        assert found == [each for each in known if matches(each.pattern, path) and each.since <= offset]


def test_remembered_paths_are_bounded() -> None:
    session = session_with(MqttSubscription("t/#", 1))
    for number in range(MATCH_CACHE_MAX + 5):
        assert len(session.matching("t", b"t/%d" % number, 0)[1]) == 1
    assert len(session.match_cache) <= MATCH_CACHE_MAX


def test_subscriptions_of_one_session_become_one_delivery() -> None:
    one, other = MqttSession("a"), MqttSession("b")
    merged = merge_by_session(
        [
            (one, MqttSubscription("t", 0, identifier=5)),
            (other, MqttSubscription("t", 2)),
            (one, MqttSubscription("t/#", 1, as_published=True, identifier=3)),
            (one, MqttSubscription("+", 0)),
        ]
    )
    assert [(each.session, each.level, each.as_published, each.identifiers) for each in merged] == [
        (one, 1, True, (5, 3)), (other, 2, False, ()),
    ]  # fmt: skip
    assert not any(each.excludes_own for each in merged)


def test_own_messages_go_by_the_subscriptions_without_no_local() -> None:
    session = MqttSession("a")
    loud = MqttSubscription("t", 0, identifier=1)
    quiet = MqttSubscription("t/#", 2, no_local=True, identifier=2)
    [both] = merge_by_session([(session, quiet), (session, loud)])
    assert (both.level, both.identifiers, both.excludes_own) == (2, (2, 1), True)
    own = both.for_own_messages
    assert own is not None
    assert (own.level, own.identifiers, own.excludes_own) == (0, (1,), False)
    [alone] = merge_by_session([(session, quiet)])
    assert (alone.excludes_own, alone.for_own_messages) == (True, None)
