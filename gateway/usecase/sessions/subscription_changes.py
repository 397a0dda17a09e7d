"""SUBSCRIBE and UNSUBSCRIBE of a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from domain.client.mqtt_session import (
    AT_LEAST_ONCE,
    RETAINED_ALWAYS,
    RETAINED_IF_NEW,
    MqttSubscription,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from domain.errors import Failure
from domain.event import Refused
from domain.ports import Clock
from domain.store.store_ports import MessageLog, Metadata, State
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import topic_of_filter
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.live_delivery import LiveDelivery
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.resend_and_lag import CLOCKS_MS, CatchUp
from gateway.usecase.sessions.shared.shared_joins import SharedJoins
from gateway.usecase.sessions.shared.shared_subscriptions import SharedSubscriptions
from gateway.usecase.sessions.subscription_limits import refusal
from gateway.usecase.waiting.long_questions import LongQuestions

Done = Callable[[None | Failure], None]


class SubscriptionChanges:
    """Subscribe and Unsubscribe of connected sessions."""

    def __init__(
        self,
        log: MessageLog,
        metadata: Metadata,
        state: State,
        clock: Clock,
        outbound: LiveDelivery,
        catch_up: CatchUp,
        shared: SharedSubscriptions,
        questions: LongQuestions,
    ) -> None:
        self._questions = questions
        self._undefined: dict[MqttSession, list[Done]] = {}
        self._shared = shared
        self._log = log
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._outbound = outbound
        self._catch_up = catch_up

    def subscribe(self, session: MqttSession, connection: ClientConnection, command: Subscribe) -> None:
        """Add or replace subscriptions. New messages are delivered at once, retained messages after the answer."""
        outcomes: list[Failure | None] = []
        added: list[tuple[MqttSubscription, bool]] = []
        shared: list[tuple[int, MqttSubscription]] = []
        coming: list[MqttSubscription] = []
        for at, subscription in enumerate(command.subscriptions):
            failure = refusal(session, subscription, coming)
            outcomes.append(failure)
            if failure is None and subscription.group:
                shared.append((at, subscription))
                coming.append(subscription)
            elif failure is None:
                added.append((subscription, self._add(session, subscription)))
        epoch = session.epoch
        scans = self._catch_up.retained_delivery.scans(session, [each for each, new in added if _wants_values(each, new)])

        def done(failure: None | Failure) -> None:
            if session.epoch != epoch:
                return
            self._catch_up.retained_delivery.begin(session, scans, failure is not None)
            if failure is not None:
                connection.answer(Subscribed(command.ticket, [failure] * len(outcomes)))
                return
            connection.answer(Subscribed(command.ticket, outcomes))
            self._catch_up.catch_up(session)

        def decided() -> None:
            if session.epoch != epoch:
                return
            if session.durable and None in outcomes:
                self._define(session, done)
            else:
                done(None)

        if shared:
            self._questions.ask(connection, SharedJoins(session, self._shared, shared, outcomes, decided).steps())
        else:
            decided()

    def _define(self, session: MqttSession, done: Done) -> None:
        """Store the changes of the session that are not stored, once for all of this turn."""
        if not self._undefined:
            self._clock.call_soon(self._store_definitions)
        self._undefined.setdefault(session, []).append(done)

    def _store_definitions(self) -> None:
        undefined, self._undefined = self._undefined, {}
        for session, waiting in undefined.items():
            if session.connection is None:  # `_disconnect` has stored it, or removed it
                continue
            written = snapshot.definition(session)
            if written.changes:
                session.connection.wrote(sum([len(each.key) + len(each.value or b"") for each in written.changes]))
                self._state.put(written.changes, partial(_notify, waiting, written))
            else:
                _notify(waiting, written, None)

    def _add(self, session: MqttSession, subscription: MqttSubscription) -> bool:
        """Add one subscription; True when its pattern is new."""
        old = session.subscriptions.pop(subscription.pattern, None)
        # At AT_MOST_ONCE missed messages are lost: a new subscription above that does not bring them back.
        kept = old is not None and old.level >= min(subscription.level, AT_LEAST_ONCE)
        subscription.since = old.since if old is not None and kept else self._outbound.log_end
        session.subscriptions[subscription.pattern] = subscription
        session.match_cache.clear()
        if session.durable:
            session.records.subscribed(old, subscription)
        if old is not None:
            self._outbound.disconnect(session, old)
        self._outbound.connect(session, subscription)
        if session.durable:
            name = topic_of_filter(subscription.pattern)
            if name:
                self._begin(session, name)
            elif not session.baseline_ms:
                self._begin_baseline(session)
        return old is None

    def _begin(self, session: MqttSession, name: str) -> None:
        """Set the session's positions in a topic to the present ends: older messages are not for this session.

        The end is the position from which on the session is notified of messages, so that it misses none in between.
        Where that is not known yet, messages count from now on, by their store time.
        """
        topic = self._metadata.topic(name)
        if topic is None:
            return
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            queue = (name, queue_id)
            if queue not in session.positions:
                end = self._log.notified(name, queue_id)
                session.positions[queue] = end if end >= 0 else CLOCKS_MS - self._clock.wall_ms()
                session.records.changed_queues[queue] = None

    def _begin_baseline(self, session: MqttSession) -> None:
        """From now on topics without a position are read by time: those that lag are from where they are read."""
        session.baseline_ms = self._clock.wall_ms() - CLOCKS_MS
        for queue, offset in session.lag.items():
            if queue not in session.positions:
                session.positions[queue] = offset
                session.records.changed_queues[queue] = None

    def unsubscribe(self, session: MqttSession, connection: ClientConnection, command: Unsubscribe) -> None:
        """Remove subscriptions. In-flight messages stay in flight (MQTT 5, 3.10.4)."""
        found: list[bool] = []
        for pattern in command.patterns:
            share = session.shared_subscriptions.pop(pattern, None)
            if share is not None:
                self._shared.leave(session, share)
            subscription = session.subscriptions.pop(pattern, None)
            found.append(subscription is not None or share is not None)
            if found[-1] and session.durable:
                session.records.subscriptions[pattern] = None
            if subscription is not None:
                self._outbound.disconnect(session, subscription)
        session.match_cache.clear()

        def done(failure: None | Failure) -> None:
            answer = Unsubscribed(command.ticket, found)
            connection.answer(answer if failure is None else Refused(command.ticket, failure))

        if session.durable and any(found):
            self._define(session, done)
        else:
            done(None)


def _wants_values(subscription: MqttSubscription, new: bool) -> bool:
    """True when the retained messages are to be delivered (MQTT 5, 3.8.3.1, Retain Handling)."""
    return subscription.retain_handling == RETAINED_ALWAYS or (subscription.retain_handling == RETAINED_IF_NEW and new)


def _notify(waiting: list[Done], written: snapshot.SessionChanges, result: None | Failure) -> None:
    written.settle(result)
    for done in waiting:
        done(result)
