"""Messages for more sessions than one turn serves: who gets which, in what order, and in how many writes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from domain.client.mqtt_session import AT_LEAST_ONCE, AT_MOST_ONCE, Deliveries, MqttSubscription
from domain.store.store_event import unheard
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.sessions.live_delivery import RUN_RECORDS, TURN_DELIVERIES, TURN_OFFERS, LiveDelivery
from gateway.usecase.sessions.mqtt_session import MqttSession
from store.engine import open_store
from store.settings import StoreSettings
from tests.connection_driver import RecordingDriver
from tests.gateway.usecase.consume.test_watch import record
from tests.neighbours.loop import TurnClock
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk

QUEUE = ("t", 0)


class Audience:
    """Sessions that are connected and subscribe to one filter, and what each of them heard."""

    def __init__(self, outbound: LiveDelivery, pattern: str, count: int) -> None:
        self.sessions: list[MqttSession] = []
        self.heard: list[RecordingDriver] = []
        for number in range(count):
            session, heard = MqttSession(f"{pattern} {number}"), RecordingDriver()
            session.connection = ClientConnection("mqtt", heard)
            outbound.connect(session, MqttSubscription(pattern, AT_MOST_ONCE))
            self.sessions.append(session)
            self.heard.append(heard)

    def writes(self) -> list[list[list[int]]]:
        """The offsets of each write, for each session."""
        events = [[event for event in heard.recorded if isinstance(event, Deliveries)] for heard in self.heard]
        return [[[item.routed.record.queue_offset for item in event.items] for event in of_one] for of_one in events]

    def offsets(self) -> list[list[int]]:
        """The offsets that each session got."""
        return [list(chain.from_iterable(of_one)) for of_one in self.writes()]


def stage() -> tuple[TurnClock, LiveDelivery]:
    clock = TurnClock()
    store = open_store(MemoryDisk(VirtualClock()), VirtualClock(), StoreSettings(), unheard)
    return clock, LiveDelivery(store.state, clock, lambda _lease: None)


def finish(clock: TurnClock, outbound: LiveDelivery, each_turn: Callable[[], None] = lambda: None) -> None:
    for _ in range(200):
        clock.turn()
        each_turn()
    assert (len(outbound.arrivals), outbound.waiting, outbound.arrivals.has(QUEUE)) == (0, 0, False)


def test_what_arrives_meanwhile_goes_out_in_one_write_to_those_whose_turn_is_still_to_come() -> None:
    clock, outbound = stage()
    audience = Audience(outbound, "t", 3 * TURN_OFFERS)
    outbound.arrived(*QUEUE, [record("t", offset=0)])
    clock.turn()
    outbound.arrived(*QUEUE, [record("t", offset=1)])
    finish(clock, outbound)
    assert all(each == [0, 1] for each in audience.offsets())
    assert sum(each == [[0, 1]] for each in audience.writes()) == 2 * TURN_OFFERS


def test_a_stream_to_many_reaches_each_in_order_and_a_turn_stays_bounded() -> None:
    clock, outbound = stage()
    audience = Audience(outbound, "t", 2 * TURN_OFFERS + 7)
    count = 3 * RUN_RECORDS + 1
    left = list(range(count))
    sent = 0

    def feed() -> None:
        nonlocal sent
        now = sum(len(event.items) for heard in audience.heard for event in heard.recorded if isinstance(event, Deliveries))
        assert now - sent <= 2 * TURN_DELIVERIES
        sent = now
        some, left[:] = left[:3], left[3:]
        outbound.arrived(*QUEUE, [record("t", offset=offset) for offset in some])

    feed()
    for _ in range(500):
        clock.turn()
        feed()
    assert (len(outbound.arrivals), outbound.waiting) == (0, 0)
    assert all(each == list(range(count)) for each in audience.offsets())


def test_records_of_others_keep_their_place_behind_a_run() -> None:
    clock, outbound = stage()
    many, other = Audience(outbound, "t", TURN_OFFERS + 1), Audience(outbound, "u", 1)
    outbound.arrived(*QUEUE, [record("t", offset=0)])
    outbound.arrived("u", 0, [record("u", offset=5)])
    outbound.arrived("nobody", 0, [record("nobody", offset=9)])
    outbound.arrived(*QUEUE, [record("t", offset=1)])
    assert [outbound.arrivals.has(each) for each in (QUEUE, ("u", 0), ("nobody", 0), ("u", 1))] == [True, True, True, False]
    finish(clock, outbound)
    assert other.writes() == [[[5]]]
    assert all(each == [0, 1] for each in many.offsets())


def test_who_leaves_during_a_run_gets_no_more_and_holds_up_nobody() -> None:
    clock, outbound = stage()
    audience = Audience(outbound, "t", 3 * TURN_OFFERS)
    gone = audience.sessions[-1]
    outbound.arrived(*QUEUE, [record("t", offset=0)])
    clock.turn()
    gone.connection = None
    outbound.disconnect(gone, MqttSubscription("t", AT_MOST_ONCE))
    outbound.arrived(*QUEUE, [record("t", offset=1)])
    finish(clock, outbound)
    *stayed, left = audience.offsets()
    assert left == []
    assert all(each == [0, 1] for each in stayed)


def returned(outbound: LiveDelivery, position: int) -> tuple[MqttSession, RecordingDriver]:
    """A session that is resumed at a position, and gets messages as they arrive."""
    session, heard = MqttSession("returned"), RecordingDriver()
    session.connection = ClientConnection("mqtt", heard)
    session.window = 100
    session.positions[QUEUE] = position
    outbound.resume(session)
    outbound.connect(session, MqttSubscription("t", AT_LEAST_ONCE))
    return session, heard


def offsets_of(heard: RecordingDriver) -> list[int]:
    events = [event for event in heard.recorded if isinstance(event, Deliveries)]
    return [item.routed.record.queue_offset for event in events for item in event.items]


def test_what_still_waits_and_was_read_before_is_not_delivered_again() -> None:
    clock, outbound = stage()
    audience = Audience(outbound, "t", 2 * TURN_OFFERS)
    outbound.arrived(*QUEUE, [record("t", offset=offset) for offset in range(3)])
    session, heard = returned(outbound, 2)
    finish(clock, outbound)
    assert offsets_of(heard) == [2]
    assert session.positions[QUEUE] == 3
    assert all(each == [0, 1, 2] for each in audience.offsets())
    later, heard = returned(outbound, 3)
    assert later.firsts == {}, "what was offered is forgotten"
    outbound.arrived(*QUEUE, [record("t", offset=offset) for offset in range(2)])
    finish(clock, outbound)
    assert offsets_of(heard) == [0, 1], "the topic was made anew, and nobody has told"


def test_what_was_read_before_it_arrives_is_not_read_again_when_the_window_is_full() -> None:
    clock, outbound = stage()
    session, heard = returned(outbound, 2)
    session.window = 0
    outbound.arrived(*QUEUE, [record("t", offset=1)])
    assert (session.lag, session.missed) == ({}, {})
    outbound.arrived(*QUEUE, [record("t", offset=2)])
    assert session.lag == {QUEUE: 2}
    assert offsets_of(heard) == []
    finish(clock, outbound)


def test_nothing_is_offered_while_it_is_held_and_then_all_in_order() -> None:
    clock, outbound = stage()
    audience = Audience(outbound, "t", 3)
    outbound.hold()
    outbound.hold()
    outbound.arrived(*QUEUE, [record("t", offset=0), record("t", offset=1)])
    clock.turn()
    outbound.release()
    outbound.arrived(*QUEUE, [record("t", offset=2)])
    for _ in range(5):
        clock.turn()
    assert audience.offsets() == [[]] * 3
    outbound.release()
    finish(clock, outbound)
    assert audience.offsets() == [[0, 1, 2]] * 3
