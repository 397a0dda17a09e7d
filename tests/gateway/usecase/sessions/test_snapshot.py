"""Snapshots of sessions: reading returns what was written, and removal leaves no record."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import Failure
from domain.message import Message
from domain.message_store import MessageStore
from domain.mqtt_session import EXPIRY_NEVER, MqttSubscription, Will
from domain.store_ports import State, StateChange
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.mqtt_session import InFlightMessage, MqttSession
from store.config import StoreConfig
from store.engine import open_store
from store.log_store import LogStore
from tests.store.clock import VirtualClock
from tests.store.disk import MemoryDisk
from tests.stored_state import pairs


def store() -> tuple[LogStore, VirtualClock]:
    clock = VirtualClock()
    return open_store(MemoryDisk(clock), clock, StoreConfig()), clock


def put(opened: LogStore, clock: VirtualClock, changes: list[StateChange]) -> None:
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
        out.in_flight[slot].accepted = draw(st.booleans())
    for topic in ("t", "u"):
        if draw(st.booleans()):
            out.positions[(topic, draw(st.integers(0, 7)))] = draw(st.integers(0, 1 << 50))
            out.changed_topics[topic] = None
    out.user = draw(st.sampled_from(("", "anna", "été")))
    if draw(st.booleans()):
        message = Message("w", draw(st.binary(max_size=5)), b"k\x01v\x02", retain=draw(st.integers(0, 2)))
        out.will = Will(message, draw(st.integers(0, 0xFFFFFFFF)), draw(st.integers(-1, 1 << 30)))
    return out


def facts(session: MqttSession) -> object:
    will = session.will
    message = will and will.message
    return (
        session.client_id, session.user, session.expiry_s, session.disconnected_ms, session.baseline_ms, session.positions,
        [[getattr(each, name) for name in MqttSubscription.__slots__] for each in session.subscriptions.values()],
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
    put(opened, clock, [snapshot.definition(session), *snapshot.progress(session)])
    found = loaded(opened, session.client_id)
    assert found is not None
    assert facts(found) == facts(session)
    outline = outlined(opened.state, session.client_id)
    assert outline is not None
    assert outline.client_id == session.client_id
    assert outlined(opened.state, session.client_id + " of nobody") is None


def test_removal_takes_all_of_one_session_and_nothing_of_another() -> None:
    opened, clock = store()
    for client_id in ("a", "ab", "b"):
        session = MqttSession(client_id)
        session.expiry_s = 1
        session.positions[("t", 0)] = 5
        session.changed_topics["t"] = None
        put(
            opened,
            clock,
            [snapshot.definition(session), *snapshot.progress(session), snapshot.packet_id_change(client_id, 7, True)],
        )
    gone = loaded(opened, "a")
    assert gone is not None
    put(opened, clock, snapshot.removal(gone))
    assert loaded(opened, "a") is None
    for client_id in ("ab", "b"):
        found = loaded(opened, client_id)
        assert found is not None
        assert (found.positions, found.received) == ({("t", 0): 5}, {7: None})
    assert not list(pairs(opened.state, "session", b"a\x00"))


def test_only_topics_that_were_touched_are_written_again() -> None:
    session = MqttSession("a")
    session.positions = {("t", 0): 1, ("u", 0): 1}
    session.changed_topics["u"] = None
    keys = [change.key for change in snapshot.progress(session)]
    assert keys == [b"a\x00f", b"a\x00pu"]
    assert [change.key for change in snapshot.progress(session)] == [b"a\x00f"]
