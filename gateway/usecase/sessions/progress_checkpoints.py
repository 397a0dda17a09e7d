"""Storage of the progress of sessions: in checkpoints, and before what depends on it is sent."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, final

from domain.client.mqtt_session import Deliveries, DeliveriesAccepted
from domain.delivery.routed import Delivery
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.store_ports import State, StateChange
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.in_flight import DeliveryLease
from gateway.usecase.sessions.mqtt_session import MqttSession

CHECKPOINT_NS: Final = 200 * MILLISECOND_NS
"""Longest time for which progress of a durable session is newer in memory than in the store."""

CHECKPOINT_SESSIONS: Final = 256
"""Sessions whose progress is stored in one turn; the others follow a millisecond later."""

CHECKPOINT_CHANGES: Final = 1_024
"""Changes after which the others follow, too: a session has two for each message of its window, at most."""


@final
class ProgressCheckpoints:
    """Stores the progress of durable sessions some time after it has changed, or at once. `settle` ends a lease."""

    def __init__(self, state: State, clock: Clock, settle: Callable[[DeliveryLease], None]) -> None:
        self._state = state
        self._clock = clock
        self._settle = settle
        self._dirty: dict[MqttSession, None] = {}

    def mark_dirty(self, session: MqttSession) -> None:
        """Store the session's progress within CHECKPOINT_NS."""
        if session.dirty:
            return
        session.dirty = True
        if not self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + CHECKPOINT_NS, self._checkpoint)
        self._dirty[session] = None

    def forget(self, session: MqttSession) -> None:
        """Do not store the session's progress: the caller stores or removes it."""
        self._dirty.pop(session, None)
        session.dirty = False

    def _checkpoint(self) -> None:
        written: list[snapshot.SessionChanges] = []
        changes: list[StateChange] = []
        for session in list(islice(self._dirty, CHECKPOINT_SESSIONS)):
            if len(changes) >= CHECKPOINT_CHANGES:
                break
            del self._dirty[session]
            written.append(snapshot.progress(session))
            changes += written[-1].changes
        if self._dirty:
            self._clock.call_at(self._clock.monotonic_ns() + MILLISECOND_NS, self._checkpoint)

        def done(result: None | Failure) -> None:
            for each in written:
                each.settle(result)

        if changes:
            self._state.put(changes, done)

    def store(self, session: MqttSession) -> None:
        """Store the session's progress, then send the deliveries and DeliveriesAccepted events that wait for the record."""
        deliveries, session.unstored_deliveries = session.unstored_deliveries, []
        accepts, session.unstored_accepts = session.unstored_accepts, []
        epoch = session.epoch
        written: snapshot.SessionChanges | None = None
        if session.durable:
            # Also what a checkpoint has given to the store already, which may refuse it.
            slots = [*[delivery.slot for delivery in deliveries], *accepts]
            session.records.changed_slots.update(dict.fromkeys([slot for slot in slots if slot in session.in_flight]))
            written = snapshot.progress(session)

        def done(failure: None | Failure) -> None:
            if written is not None:
                written.settle(failure)
            connection = session.connection
            if connection is None or session.epoch != epoch:
                return
            if failure is not None:
                connection.driver.close()
                return
            self._take_over(session, deliveries)
            if deliveries:
                connection.answer(Deliveries(deliveries))
            if accepts:
                connection.answer(DeliveriesAccepted(accepts))

        if written is not None:
            self.forget(session)
        if written is not None and written.changes:
            self._state.put(written.changes, done)
        else:
            done(None)

    def _take_over(self, session: MqttSession, deliveries: list[Delivery]) -> None:
        """Settle the leases of EXACTLY_ONCE deliveries: they are stored with the session and no longer go to other members."""
        for delivery in deliveries:
            flight = session.in_flight.get(delivery.slot)
            if flight is not None and flight.lease is not None:
                lease, flight.lease = flight.lease, None
                session.leases -= 1
                session.changed(delivery.slot)
                self._settle(lease)
                self.mark_dirty(session)
