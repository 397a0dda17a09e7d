"""Deadlines of disconnected sessions: one timer, one entry for each session, and a share of those that are due in each turn."""

from __future__ import annotations

from domain.client.mqtt_session import EXPIRY_NEVER
from domain.turn import WALKS_NS
from domain.walk import PAUSE_NS, STEP_NS, UNANSWERED_BYTES, Walks
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.session_deadlines import SessionDeadlines
from tests.simulation.kit.clock import VirtualClock
from tests.turns import most_in_a_turn


def deadlines(clock: VirtualClock, due: list[str], unanswered_bytes: int = 0) -> SessionDeadlines:
    return SessionDeadlines(Walks(clock), due.append, lambda: unanswered_bytes)


def gone(clock: VirtualClock, client_id: str, expiry_s: int) -> MqttSession:
    session = MqttSession(client_id)
    session.disconnected_ms = clock.wall_ms()
    session.expiry_s = expiry_s
    return session


def test_each_is_due_in_its_time() -> None:
    clock = VirtualClock()
    due: list[str] = []
    absences = deadlines(clock, due)
    for client_id, expiry_s in (("late", 30), ("soon", 10), ("never", EXPIRY_NEVER)):
        absences.add(gone(clock, client_id, expiry_s))
    clock.run_for(9_000)
    assert due == []
    clock.run_for(2_000)
    assert due == ["soon"]
    clock.run_for(20_000)
    assert due == ["soon", "late"]
    assert len(absences) == 0


def test_a_client_that_comes_and_goes_has_one_entry() -> None:
    clock = VirtualClock()
    due: list[str] = []
    absences = deadlines(clock, due)
    for _ in range(1_000):
        absences.add(gone(clock, "restless", 600))
        clock.run_for(10)
    assert len(absences) == 1
    for expiry_s in range(500, 100, -1):
        absences.add(gone(clock, "restless", expiry_s))
        assert len(absences) == 1
    clock.run_for(600_000)
    assert due == ["restless"], "what something earlier took the place of is not due"
    assert len(absences) == 0


def test_many_that_are_due_together_leave_turns_to_others() -> None:
    clock = VirtualClock()
    events: list[str] = []
    absences = deadlines(clock, events)
    count = 3 * (WALKS_NS // STEP_NS)
    for number in range(count):
        absences.add(gone(clock, str(number), 5))
    clock.run_for(4_000)
    moment = clock.monotonic_ns() + 1_000_000_000
    for _ in range(3):
        clock.call_at(moment, lambda: events.append("other"))
    clock.run_for(2_000)
    assert len(events) == count + 3
    assert events.index("other") <= WALKS_NS // STEP_NS


def test_while_the_store_has_much_to_answer_they_are_due_one_after_the_other() -> None:
    clock = VirtualClock()
    events: list[str] = []
    absences = deadlines(clock, events, UNANSWERED_BYTES + 1)
    for number in range(20):
        absences.add(gone(clock, str(number), 5))
    clock.run_until(lambda: bool(events))
    began = clock.monotonic_ns()
    assert most_in_a_turn(clock, lambda: len(events), 20) == 1
    assert clock.monotonic_ns() - began == 19 * PAUSE_NS
