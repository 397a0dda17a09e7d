"""Snapshots of sessions: reading returns what was written, and removal leaves no record."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.client.mqtt_session import EXPIRY_NEVER, MqttSubscription, Will
from domain.errors import ErrorCode, Failure
from domain.message.message import Message
from domain.store.message_store import MessageStore
from domain.store.store_event import unheard
from domain.store.store_ports import State, StateChange
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.in_flight import InFlightMessage
from gateway.usecase.sessions.mqtt_session import MqttSession
from store.engine import open_store
from store.opening.open_store import OpenStore
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.stored_state import pairs


def store() -> tuple[OpenStore, VirtualClock]:
    clock = VirtualClock()
    return open_store(MemoryDisk(clock), clock, StoreSettings(), unheard), clock


def fresh(out: MqttSession) -> MqttSession:
    """A session of which the store has nothing yet."""
    records = out.records
    records.subscriptions.update(dict.fromkeys((*out.subscriptions, *out.shared_subscriptions)))
    records.changed_slots.update(dict.fromkeys(out.in_flight))
    records.changed_queues.update(dict.fromkeys(out.positions))
    return out


def put(opened: OpenStore, clock: VirtualClock, changes: list[StateChange]) -> None:
    answers: list[None | Failure] = []
    opened.state.put(changes, answers.append)
    clock.run_for(20)
    assert answers == [None]


PATTERN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=6)


@st.composite
def sessions(draw: st.DrawFn) -> MqttSession:
    """Any durable, disconnected session."""
    out = MqttSession(draw(PATTERN))
    out.expiry_s = draw(st.integers(1, EXPIRY_NEVER))
    out.disconnected_ms = draw(st.integers(0, 1 << 50))
    out.baseline_ms = draw(st.integers(0, 1 << 50))
    for pattern in draw(st.lists(PATTERN, unique=True, max_size=3)):
        out.subscriptions[pattern] = MqttSubscription(
            pattern, draw(st.integers(0, 2)), draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 2)),
            draw(st.integers(0, 268_435_455)), draw(st.integers(0, 1 << 50)),
        )  # fmt: skip
    for slot in draw(st.lists(st.integers(1, 65_535), unique=True, max_size=4)):
        path = draw(st.sampled_from(["", "t/x"]))
        identifiers = tuple(draw(st.lists(st.integers(1, 268_435_455), max_size=2)))
        place, offset = (draw(st.sampled_from(["t", "u"])), draw(st.integers(0, 7))), draw(st.integers(0, 1 << 50))
        out.in_flight[slot] = InFlightMessage(draw(st.integers(1, 2)), place, offset, path, draw(st.booleans()), identifiers)
        out.in_flight[slot].number = len(out.in_flight)
        if draw(st.booleans()):
            flight = out.in_flight[slot]
            flight.accepted, flight.path, flight.identifiers = True, "", ()  # never sent again
    for topic in ("t", "u"):
        for queue_id in draw(st.lists(st.sampled_from((0, 7, 63, 64, 8_191)), max_size=2)):
            out.positions[(topic, queue_id)] = draw(st.integers(0, 1 << 50))
    out.user = draw(st.sampled_from(("", "anna", "été")))
    if draw(st.booleans()):
        message = Message("w", draw(st.binary(max_size=5)), b"k\x01v\x02", retain=draw(st.integers(0, 2)))
        out.will = Will(message, draw(st.integers(0, 0xFFFFFFFF)), draw(st.integers(-1, 1 << 30)))
    return fresh(out)


def facts(session: MqttSession) -> object:
    will = session.will
    message = will and will.message
    return (
        session.client_id, session.user, session.expiry_s, session.disconnected_ms, session.baseline_ms, session.positions,
        sorted([str(getattr(each, name)) for name in MqttSubscription.__slots__] for each in session.subscriptions.values()),
        [
            (slot, flight.level, flight.queue, flight.offset, flight.path, flight.retained, flight.identifiers, flight.accepted)
            for slot, flight in session.in_flight.items()
        ],
        will and (will.delay_s, will.expiry_s),
        message and (message.topic, message.body, message.properties, message.retain),
    )  # fmt: skip


def loaded(opened: MessageStore, client_id: str) -> MqttSession | None:
    """A session as stored."""
    found: list[MqttSession | None | Failure] = []
    snapshot.load(opened.state, client_id, found.append)
    assert not isinstance(found[0], Failure)
    return found[0]


def outlined(state: State, client_id: str) -> MqttSession | None:
    """The definition of a session as stored."""
    found: list[MqttSession | None | Failure] = []
    snapshot.outline(state, client_id, found.append)
    assert not isinstance(found[0], Failure)
    return found[0]


@settings(max_examples=50, deadline=None)
@given(sessions())
def test_a_session_comes_back_as_it_was(session: MqttSession) -> None:
    opened, clock = store()
    written = snapshot.definition(session)
    put(opened, clock, written.changes)
    written.settle(None)
    found = loaded(opened, session.client_id)
    assert found is not None
    assert facts(found) == facts(session)
    outline = outlined(opened.state, session.client_id)
    assert outline is not None
    assert (outline.client_id, len(outline.subscriptions)) == (session.client_id, len(session.subscriptions))
    assert outline.will == found.will or (outline.will and found.will)
    assert outlined(opened.state, session.client_id + " of nobody") is None


def test_removal_takes_all_of_one_session_and_nothing_of_another() -> None:
    opened, clock = store()
    for client_id in ("a", "ab", "b"):
        session = MqttSession(client_id)
        session.expiry_s = 1
        session.positions[("t", 0)] = 5
        session.subscriptions["t/#"] = MqttSubscription("t/#", 1)
        session.in_flight[3] = InFlightMessage(1, ("t", 0), 4, "", False, ())
        session.will = Will(Message("w", b""))
        put(opened, clock, [*snapshot.definition(fresh(session)).changes, snapshot.packet_id_change(client_id, 7, True)])
    gone = loaded(opened, "a")
    assert gone is not None
    put(opened, clock, snapshot.removal(gone))
    assert loaded(opened, "a") is None
    for client_id in ("ab", "b"):
        found = loaded(opened, client_id)
        assert found is not None
        assert (found.positions, found.received) == ({("t", 0): 5}, {7: None})
        put(opened, clock, snapshot.removal(found))
    assert pairs(opened.state, "session") == pairs(opened.state, "mqtt") == []


def test_what_has_not_changed_is_not_written_again() -> None:
    session = MqttSession("a")
    session.expiry_s = 1
    session.positions = {("t", 0): 1, ("u", 0): 1, ("u", 1): 1, ("u", 64): 1}
    session.records.changed_queues[("u", 1)] = None
    session.subscriptions["t/#"] = MqttSubscription("t/#", 1)
    session.records.subscriptions["t/#"] = None
    assert [change.key for change in snapshot.progress(session).changes] == [snapshot.part_key("a", b"pu\0\0\0")]
    assert snapshot.progress(session).changes == []
    assert [change.space for change in snapshot.definition(session).changes] == ["session", "mqtt"]
    assert snapshot.definition(session).changes == []


@settings(max_examples=50, deadline=None)
@given(sessions())
def test_a_session_that_was_loaded_is_not_written_again(session: MqttSession) -> None:
    opened, clock = store()
    put(opened, clock, snapshot.definition(session).changes)
    found = loaded(opened, session.client_id)
    assert found is not None
    assert snapshot.definition(found).changes == []


@settings(max_examples=50, deadline=None)
@given(sessions(), st.booleans())
def test_what_the_store_refuses_is_written_with_what_follows(session: MqttSession, again: bool) -> None:
    opened, clock = store()
    refused = snapshot.definition(session)
    if again:  # the next change is under way when the first is refused
        put(opened, clock, snapshot.definition(session).changes)
    refused.settle(Failure(ErrorCode.STORE_UNAVAILABLE, ""))
    put(opened, clock, snapshot.definition(session).changes)
    found = loaded(opened, session.client_id)
    assert found is not None
    assert facts(found) == facts(session)


def test_a_removal_that_the_store_refuses_is_made_later() -> None:
    opened, clock = store()
    session = MqttSession("a")
    session.expiry_s = 1
    session.subscriptions["t/#"] = MqttSubscription("t/#", 1)
    session.in_flight[3] = InFlightMessage(1, ("t", 0), 4, "", False, ())
    session.will = Will(Message("w", b""))
    put(opened, clock, snapshot.definition(fresh(session)).changes)
    session.will = None
    session.free_slot(3)
    del session.subscriptions["t/#"]
    session.records.subscriptions["t/#"] = None
    snapshot.definition(session).settle(Failure(ErrorCode.STORE_UNAVAILABLE, ""))
    put(opened, clock, snapshot.definition(session).changes)
    assert pairs(opened.state, "mqtt") == []


def test_deliveries_keep_their_order_when_slots_begin_anew() -> None:
    """4.6: a server that sends messages again keeps their order. Slots are numbers of 16 bits, which come again."""
    opened, clock = store()
    session = MqttSession("a")
    session.expiry_s = 1
    for number, slot in enumerate((5, 65_534, 65_535, 1, 6), 1):
        flight = session.in_flight[slot] = InFlightMessage(1, ("t", 0), number, "", False, tuple(range(1, 302)))
        flight.number = number
    put(opened, clock, snapshot.definition(fresh(session)).changes)
    found = loaded(opened, "a")
    assert found is not None
    assert [(slot, each.offset) for slot, each in found.in_flight.items()] == [(5, 1), (65_534, 2), (65_535, 3), (1, 4), (6, 5)]
    assert (found.next_slot, found.records.number, len(found.in_flight[5].identifiers)) == (7, 5, 301)
