"""Queue locks for orderly consumers: one client of a group holds the lock of a queue while it renews it."""

from __future__ import annotations

from typing import Final

from domain import limits
from domain.client.membership import Locked, LockQueues
from domain.event import Done
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs

LOCK_NS: Final = 60 * limits.SECOND_NS
"""Time from its last renewal to the end of a lock."""
LOCKS_SWEPT_ABOVE: Final = 10_000
"""Number of locks above which those that have ended are removed."""


class Locks:
    """The verb LockQueues. A lock ends 60 s after its last renewal (RocketMQ: RebalanceLockManager)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[str, str, int], tuple[str, int]] = {}
        self.verbs: Verbs = {LockQueues: self._lock}

    def is_locked(self, group: str) -> bool:
        """True while a client of `group` holds the lock of a queue."""
        now = self._clock.monotonic_ns()
        return any(key[0] == group and held[1] > now for key, held in self._held.items())

    def _lock(self, connection: ClientConnection, command: LockQueues) -> None:
        now = self._clock.monotonic_ns()
        owned: list[tuple[str, str, int]] = []
        for broker, topic, queue_id in command.queues:
            key = (command.group, topic, queue_id)
            holder, until = self._held.get(key, ("", 0))
            mine = holder == command.client_id
            if command.unlock:
                if mine:
                    del self._held[key]
            elif mine or until <= now:
                self._held[key] = (command.client_id, now + LOCK_NS)
                owned.append((broker, topic, queue_id))
        if len(self._held) > LOCKS_SWEPT_ABOVE:
            self._held = {key: lock for key, lock in self._held.items() if lock[1] > now}
        if command.wait:
            connection.answer(Done(command.ticket) if command.unlock else Locked(command.ticket, owned))
