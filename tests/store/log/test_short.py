"""A leader with fewer replicas in sync than appends above `flushed` need reports it once, and once when there are enough."""

from __future__ import annotations

from domain.errors import ErrorCode
from domain.store.store_event import StoreEvent, StoreEventKind
from gateway.observe.health import SERVING, Health
from store.events import StoreEvents
from store.log.confirmation import Confirmation
from tests.simulation.kit.clock import VirtualClock


def test_a_lack_of_replicas_is_a_reason_not_to_be_ready_until_there_are_enough() -> None:
    events: list[StoreEvent] = []
    health = Health(lambda: 0)
    health.phase = SERVING
    confirmation = Confirmation(VirtualClock(), StoreEvents(events.append, VirtualClock()), 1_000, lambda effects: None, 0)
    for members, ready in ((2, True), (1, False), (1, False), (2, True), (1, False)):
        confirmation.members(members, 2)
        for event in events[-1:]:
            health.heard(event)
        assert health.readiness()["ready"] is ready, members
        failure = confirmation.shortage()
        assert (failure is None) is ready, "what a send is told, and what /readyz says, are one"
        assert failure is None or failure.code is ErrorCode.STORE_UNAVAILABLE
    kinds = [event.kind for event in events]
    assert kinds == [StoreEventKind.SHORT, StoreEventKind.ENOUGH, StoreEventKind.SHORT], "one line each"
    [reason] = health.reasons()
    assert "has 1 of the 2 members" in reason
    assert "headgate cluster set GROUP --min-in-sync" in reason


def test_an_operator_who_wants_fewer_ends_it_too() -> None:
    events: list[StoreEvent] = []
    confirmation = Confirmation(VirtualClock(), StoreEvents(events.append, VirtualClock()), 1_000, lambda effects: None, 0)
    confirmation.members(1, 2)
    confirmation.members(1, 1)
    assert [event.kind for event in events] == [StoreEventKind.SHORT, StoreEventKind.ENOUGH]


def test_a_replica_that_comes_and_goes_has_no_line_each_time() -> None:
    lines: list[StoreEvent] = []
    clock = VirtualClock()
    events = StoreEvents(lambda event: lines.append(event) if event.is_line else None, clock)
    confirmation = Confirmation(clock, events, 1_000, lambda effects: None, 0)
    for _ in range(50):
        for members in (1, 2):
            confirmation.members(members, 2)
            assert (confirmation.shortage() is None) is (members == 2)
            clock.run_for(2_000)
    clock.run_for(61_000)
    kinds = [StoreEventKind.SHORT, StoreEventKind.ENOUGH] * 2
    assert [event.kind for event in lines] == kinds
    assert [events.counts[kind] for kind in kinds[:2]] == [2, 2]
