"""Deadlines of disconnected sessions: one timer, one entry for each session, and a bounded number in each turn."""

from __future__ import annotations

from domain.client.mqtt_session import EXPIRY_NEVER
from gateway.usecase.sessions import session_deadlines
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.session_deadlines import SessionDeadlines
from tests.simulation.kit.clock import VirtualClock


def gone(clock: VirtualClock, client_id: str, expiry_s: int) -> MqttSession:
    session = MqttSession(client_id)
    session.disconnected_ms = clock.wall_ms()
    session.expiry_s = expiry_s
    return session


def test_each_is_due_in_its_time() -> None:
    clock = VirtualClock()
    due: list[str] = []
    absences = SessionDeadlines(clock, due.append)
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
    absences = SessionDeadlines(clock, due.append)
    for _ in range(1_000):
        absences.add(gone(clock, "restless", 600))
        clock.run_for(10)
    assert len(absences) == 1
    for expiry_s in range(500, 100, -1):
        absences.add(gone(clock, "restless", expiry_s))
    assert len(absences) <= 2 + session_deadlines.STALE_MAX + 2
    clock.run_for(600_000)
    assert due == ["restless"], "what something earlier took the place of is not due"
    assert len(absences) == 0


def test_many_that_are_due_together_leave_turns_to_others() -> None:
    clock = VirtualClock()
    events: list[str] = []
    absences = SessionDeadlines(clock, events.append)
    count = 3 * session_deadlines.DUE_PER_TURN
    for number in range(count):
        absences.add(gone(clock, str(number), 5))
    clock.run_for(4_000)
    moment = clock.monotonic_ns() + 1_000_000_000
    for _ in range(3):
        clock.call_at(moment, lambda: events.append("other"))
    clock.run_for(2_000)
    assert len(events) == count + 3
    assert events.index("other") <= session_deadlines.DUE_PER_TURN
