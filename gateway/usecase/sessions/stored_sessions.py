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
from gateway.access.session_name import SessionName
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

Found = Callable[[MqttSession | None | Failure], None]


@final
class StoredSessions:
    """The sessions of the store, and those in memory.

    in_memory   name -> session: connected ones, and disconnected ones that are not stored yet or have appends under way:
                these know packet identifiers that the store does not have yet
    _loading    name -> the callbacks that wait until that session is loaded
    _earlier    name -> the name under which the store may have that session still: nobody loads it from there
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
        self._earlier: dict[str, str] = {}
        # When the stored sessions have been recovered, leases that no session has are returned.
        self._recovery = SessionRecovery(state, clock, self._recover, store.leases.lapse, replay.start)

    @property
    def recovering(self) -> bool:
        """True while stored sessions are being recovered after the start."""
        return self._recovery.under_way

    def find(self, sought: SessionName, then: Found) -> None:
        """Call `then` with the session of a client, None when it has none: now if it is in memory, else when it is loaded.

        One that is stored under its earlier name, and is the user's, or nobody's, has its name from now on: its next changes
        are written there, and then `settle_name` is called.
        """
        name = sought.name
        waiting = self._loading.get(name)
        if waiting is not None:
            waiting.append(lambda: self.find(sought, then))
            return
        known = self.in_memory.get(name)
        if known is None:
            self._load(sought, then)
        else:
            then(known)

    def _load(self, sought: SessionName, then: Found) -> None:
        name = sought.name
        waiting = self._loading[name] = []

        def loaded(found: MqttSession | None | Failure) -> None:
            if found is None and sought.earlier:
                self.find(SessionName(sought.earlier, "", ""), earlier)
            else:
                done(found)

        def earlier(found: MqttSession | None | Failure) -> None:
            if isinstance(found, MqttSession):
                if found.name != sought.earlier or found.connection is not None or found.user not in ("", sought.user):
                    done(None)
                    return
                self.in_memory[sought.earlier] = found
                self._earlier[name] = sought.earlier
                snapshot.rename(found, name)
            done(found)

        def done(found: MqttSession | None | Failure) -> None:
            del self._loading[name]
            then(found)
            for act in waiting:
                act()

        def load() -> None:
            known = self.in_memory.get(name)  # recovery may be storing it
            if known is None:
                snapshot.load(self._state, name, loaded)
            else:
                loaded(known)

        if self._recovery.under_way:
            self._recovery.recover_now(name, load)
        else:
            load()

    def settle_name(self, session: MqttSession) -> None:
        """The store has the session under its name alone."""
        earlier = self._earlier.pop(session.name, "")
        if earlier:
            self.in_memory.pop(earlier, None)

    def end(self, session: MqttSession) -> list[StateChange]:
        """End a session: publish its pending will. Returns the changes that remove the session from the store."""
        will, session.will = session.will, None
        if will is not None:
            self._wills.publish(will, session.user, session.client_id, [])
        self.in_memory.pop(session.name, None)
        self._outbound.checkpoints.forget(session)
        return snapshot.removal(session)

    def remove(self, session: MqttSession) -> None:
        """Remove a session that has ended with its connection: from the store if it is there, then from memory."""

        def done(_: object) -> None:
            if self.in_memory.get(session.name) is session:
                del self.in_memory[session.name]

        changes = snapshot.removal(session)
        if changes:
            self._state.put(changes, done)
        else:
            done(None)

    def store(self, session: MqttSession) -> None:
        """Store a disconnected session, and publish its will when that is due. Then it is no longer in memory."""
        self.in_memory[session.name] = session
        will = session.will
        due = will is not None and will_ms(session) <= self._clock.wall_ms()
        if due:
            session.will = None
        written = snapshot.definition(session)
        epoch = session.epoch

        def leave() -> None:
            if session.epoch == epoch and self.in_memory.get(session.name) is session:
                del self.in_memory[session.name]
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

    def _due(self, name: str) -> None:
        """The deadline of a disconnected session: end it or publish its will. Does nothing when the client has reconnected."""
        waiting = self._loading.get(name)
        if waiting is not None:
            waiting.append(lambda: self._due(name))
        elif name not in self.in_memory:
            self._load(SessionName(name, "", ""), lambda found: self._due_now(name, found))

    def _due_now(self, name: str, session: MqttSession | None | Failure) -> None:
        if isinstance(session, Failure):
            self._clock.call_at(self._clock.monotonic_ns() + SECOND_NS, lambda: self._due(name))
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
        self._shared.groups.carry_over(found)

        def added() -> None:
            if found.disconnected_ms:
                self._deadlines.add(found)
                done()
            else:
                ask_until_answered(self._clock, partial(snapshot.load, self._state, found.name), loaded)

        def loaded(session: MqttSession | None) -> None:
            if session is not None:
                session.disconnected_ms = self._clock.wall_ms()
                self._shared.recover(session)
                self.store(session)
            done()

        self._replay.add_session(found.name, subscriptions, added)
