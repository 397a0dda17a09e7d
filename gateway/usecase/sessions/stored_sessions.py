"""MQTT sessions that outlive their connections: loaded when a client returns, stored when it leaves, ended at a deadline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import final

from domain.errors import Failure
from domain.limits import SECOND_NS
from domain.store.message_store import MessageStore
from domain.store.store_ports import StateChange
from domain.walk import Walks
from gateway.usecase.publish.will_publisher import WillPublisher
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.index.filter_index import FilterIndex
from gateway.usecase.sessions.index.index_rebuild import Replay
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.retry_until_answered import ask_until_answered
from gateway.usecase.sessions.session_deadlines import SessionDeadlines, will_ms
from gateway.usecase.sessions.session_recovery import SessionRecovery
from gateway.usecase.sessions.shared.shared_subscriptions import SharedSubscriptions


@final
class StoredSessions:
    """The sessions of the store, and those in memory.

    in_memory   client id -> session: connected ones, and disconnected ones that are not stored yet or have appends under way:
                these know packet identifiers that the store does not have yet
    _loading    client id -> the callbacks that wait until its session is loaded
    """

    def __init__(
        self,
        store: MessageStore,
        walks: Walks,
        wills: WillPublisher,
        outbound: LiveDelivery,
        shared: SharedSubscriptions,
        filter_index: FilterIndex,
        replay: Replay,
    ) -> None:
        state = self._state = store.state
        self._clock = clock = walks.clock
        self._wills = wills
        self._outbound = outbound
        self._shared = shared
        self._filter_index = filter_index
        self._replay = replay
        self._deadlines = SessionDeadlines(walks, self._due, store.unanswered_bytes)
        self.in_memory: dict[str, MqttSession] = {}
        self._loading: dict[str, list[Callable[[], None]]] = {}
        # When the stored sessions have been recovered, leases that no session has are returned.
        self._recovery = SessionRecovery(state, clock, self._recover, store.leases.lapse, replay.start)

    @property
    def recovering(self) -> bool:
        """True while stored sessions are being recovered after the start."""
        return self._recovery.under_way

    def find(self, client_id: str, then: Callable[[MqttSession | None | Failure], None]) -> None:
        """Call `then` with the session of a client, None when it has none: now if it is in memory, else when it is loaded."""
        waiting = self._loading.get(client_id)
        if waiting is not None:
            waiting.append(lambda: self.find(client_id, then))
            return
        known = self.in_memory.get(client_id)
        if known is None:
            self._load(client_id, then)
        else:
            then(known)

    def _load(self, client_id: str, then: Callable[[MqttSession | None | Failure], None]) -> None:
        waiting = self._loading[client_id] = []

        def loaded(found: MqttSession | None | Failure) -> None:
            del self._loading[client_id]
            then(found)
            for act in waiting:
                act()

        def load() -> None:
            known = self.in_memory.get(client_id)  # recovery may be storing it
            if known is None:
                snapshot.load(self._state, client_id, loaded)
            else:
                loaded(known)

        if self._recovery.under_way:
            self._recovery.recover_now(client_id, load)
        else:
            load()

    def end(self, session: MqttSession) -> list[StateChange]:
        """End a session: publish its pending will. Returns the changes that remove the session from the store."""
        will, session.will = session.will, None
        if will is not None:
            self._wills.publish(will, session.user, session.client_id, [])
        self.in_memory.pop(session.client_id, None)
        self._outbound.checkpoints.forget(session)
        return snapshot.removal(session)

    def remove(self, session: MqttSession) -> None:
        """Remove a session that has ended with its connection: from the store if it is there, then from memory."""

        def done(_: object) -> None:
            if self.in_memory.get(session.client_id) is session:
                del self.in_memory[session.client_id]

        changes = snapshot.removal(session)
        if changes:
            self._state.put(changes, done)
        else:
            done(None)

    def store(self, session: MqttSession) -> None:
        """Store a disconnected session, and publish its will when that is due. Then it is no longer in memory."""
        self.in_memory[session.client_id] = session
        will = session.will
        due = will is not None and will_ms(session) <= self._clock.wall_ms()
        if due:
            session.will = None
        written = snapshot.definition(session)
        epoch = session.epoch

        def leave() -> None:
            if session.epoch == epoch and self.in_memory.get(session.client_id) is session:
                del self.in_memory[session.client_id]
                self._deadlines.add(session)  # not before: a deadline of a session in memory is passed over

        def done(result: object) -> None:
            written.settle(result)
            session.after_appends(leave)

        if due and will is not None:
            self._wills.publish(will, session.user, session.client_id, written.changes, done)
        elif written.changes:
            self._state.put(written.changes, done)
        else:
            done(None)

    def _due(self, client_id: str) -> None:
        """The deadline of a disconnected session: end it or publish its will. Does nothing when the client has reconnected."""
        waiting = self._loading.get(client_id)
        if waiting is not None:
            waiting.append(lambda: self._due(client_id))
        elif client_id not in self.in_memory:
            self._load(client_id, lambda found: self._due_now(client_id, found))

    def _due_now(self, client_id: str, session: MqttSession | None | Failure) -> None:
        if isinstance(session, Failure):
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, lambda: self._due(client_id))
            return
        if session is None or session.disconnected_ms == 0:
            return
        now_ms = self._clock.wall_ms()
        if 0 <= session.expires_ms() <= now_ms:
            self._filter_index.release(session.subscriptions.values())
            self._state.put(self.end(session), None)
        elif 0 <= will_ms(session) <= now_ms:
            self.store(session)
        else:
            self._deadlines.add(session)

    def _recover(self, found: MqttSession, done: Callable[[], None]) -> None:
        """Recover a stored session after a start. If it was connected when the node stopped, it is disconnected now."""
        subscriptions = found.subscriptions.values()
        self._filter_index.acquire(subscriptions)

        def added() -> None:
            if found.disconnected_ms:
                self._deadlines.add(found)
                done()
            else:
                ask_until_answered(self._clock, partial(snapshot.load, self._state, found.client_id), loaded)

        def loaded(session: MqttSession | None) -> None:
            if session is not None:
                session.disconnected_ms = self._clock.wall_ms()
                self._shared.recover(session)
                self.store(session)
            done()

        self._replay.add_session(found.client_id, subscriptions, added)
