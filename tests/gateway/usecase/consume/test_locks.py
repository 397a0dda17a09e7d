"""Queue locks of orderly consumers: one holder, renewal, and the end of a lock."""

from __future__ import annotations

from domain.client.membership import Locked, LockQueues
from domain.event import Done, Event
from gateway.usecase.consume.locks import Locks
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.simulation.kit.clock import VirtualClock

QUEUES = [("broker-a", "t", 0), ("broker-a", "t", 1)]


def ask(locks: Locks, client: str, *, unlock: bool = False, queues: list[tuple[str, str, int]] = QUEUES) -> Event:
    recorder = EventRecorder()
    locks.verbs[LockQueues](recorder.connection, LockQueues(1, "g", client, queues, unlock))
    return recorder.recorded[0]


def test_a_lock_is_one_clients_until_it_is_given_back() -> None:
    locks = Locks(VirtualClock())
    assert ask(locks, "a") == Locked(1, QUEUES)
    assert ask(locks, "b") == Locked(1, [])
    assert locks.is_locked("g")
    assert not locks.is_locked("h")
    assert ask(locks, "b", unlock=True) == Done(1), "another's unlock changes nothing"
    assert ask(locks, "b") == Locked(1, [])
    ask(locks, "a", unlock=True)
    assert ask(locks, "b") == Locked(1, QUEUES)


def test_a_lock_ends_sixty_seconds_after_its_last_renewal() -> None:
    clock = VirtualClock()
    locks = Locks(clock)
    ask(locks, "a")
    clock.run_for(59_000)
    ask(locks, "a")
    clock.run_for(59_000)
    assert ask(locks, "b") == Locked(1, [])
    clock.run_for(1_001)
    assert ask(locks, "b") == Locked(1, QUEUES)
