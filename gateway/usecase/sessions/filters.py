"""What a session has subscribed to: filters come, are replaced and go, and show the latest values that they match."""

from __future__ import annotations

from typing import Final

from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.filter.path import is_filter
from domain.mqtt_session import (
    AT_MOST_ONCE,
    RETAINED_ALWAYS,
    RETAINED_IF_NEW,
    Interest,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from domain.ports import Clock, MessageStore, Metadata, State
from gateway.connection.client_connection import ClientConnection
from gateway.routing.routes import topic_of_filter
from gateway.usecase.sessions import snapshot
from gateway.usecase.sessions.catchup import CatchUp
from gateway.usecase.sessions.mqtt_session import MqttSession
from gateway.usecase.sessions.outflow import Outflow
from gateway.usecase.sessions.shares import Shares

INTERESTS_MAX: Final = 1_024


class Filters:
    """Subscribe and Unsubscribe of attached sessions."""

    def __init__(
        self,
        store: MessageStore,
        metadata: Metadata,
        state: State,
        clock: Clock,
        outflow: Outflow,
        catch_up: CatchUp,
        shares: Shares,
    ) -> None:
        self._shares = shares
        self._store = store
        self._metadata = metadata
        self._state = state
        self._clock = clock
        self._outflow = outflow
        self._catch_up = catch_up

    def subscribe(self, session: MqttSession, connection: ClientConnection, command: Subscribe) -> None:
        """Add or replace filters; deliver by them at once, and what they retain once they are on record."""
        outcomes: list[Failure | None] = []
        added: list[tuple[Interest, bool]] = []
        shared: list[tuple[int, Interest]] = []
        for at, interest in enumerate(command.interests):
            failure = _refusal(session, interest)
            outcomes.append(failure)
            if failure is None and interest.group:
                shared.append((at, interest))
            elif failure is None:
                added.append((interest, self._add(session, interest)))
        epoch = session.epoch
        left = [1 + len(shared)]

        def done(failure: None | Failure) -> None:
            if session.epoch != epoch:
                return
            if failure is not None:
                connection.answer(Subscribed(command.ticket, [failure] * len(outcomes)))
                return
            connection.answer(Subscribed(command.ticket, outcomes))
            for interest, new in added:
                if interest.retained == RETAINED_ALWAYS or (interest.retained == RETAINED_IF_NEW and new):
                    self._catch_up.showing.begin(session, interest)
            self._catch_up.catch_up(session)

        def one_less() -> None:
            left[0] -= 1
            if left[0] or session.epoch != epoch:
                return
            if session.durable and None in outcomes:
                self._state.put([snapshot.definition(session), *snapshot.progress(session)], done)
            else:
                done(None)

        def share(at: int, interest: Interest) -> None:
            def prepared(failure: None | Failure) -> None:
                outcomes[at] = failure
                if failure is None and session.epoch == epoch:
                    session.shares[interest.name] = interest
                    self._shares.join(session, interest)
                one_less()

            self._shares.prepare(interest, prepared)

        for at, interest in shared:
            share(at, interest)
        one_less()

    def _add(self, session: MqttSession, interest: Interest) -> bool:
        """Put one filter in; True when its pattern is new."""
        old = session.interests.pop(interest.pattern, None)
        # What came while it was not to be kept for this session is not for it either.
        kept = old is not None and old.level > AT_MOST_ONCE
        interest.since = old.since if old is not None and kept else self._outflow.high
        session.interests[interest.pattern] = interest
        session.remembered.clear()
        if old is not None:
            self._outflow.disconnect(session, old)
        self._outflow.connect(session, interest)
        if session.durable:
            name = topic_of_filter(interest.pattern)
            if name == "":
                session.baseline_ms = session.baseline_ms or self._clock.wall_ms()
            else:
                self._begin(session, name)
        return old is None

    def _begin(self, session: MqttSession, name: str) -> None:
        """Note where the queues of a topic end now: what is there already is not for this session."""
        topic = self._metadata.topic(name)
        if topic is None:
            return
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            if (name, queue_id) not in session.positions:
                self._mark_begin(session, (name, queue_id))

    def _mark_begin(self, session: MqttSession, place: tuple[str, int]) -> None:
        def bounds(result: tuple[int, int] | Failure) -> None:
            if not isinstance(result, Failure) and place not in session.positions:
                session.positions[place] = result[1]
                session.touched[place[0]] = None

        self._store.bounds(place[0], place[1], bounds)

    def unsubscribe(self, session: MqttSession, connection: ClientConnection, command: Unsubscribe) -> None:
        """Take filters out; what is under way already stays under way."""
        found: list[bool] = []
        for pattern in command.patterns:
            share = session.shares.pop(pattern, None)
            if share is not None:
                self._shares.leave(session, share)
            interest = session.interests.pop(pattern, None)
            found.append(interest is not None or share is not None)
            if interest is not None:
                self._outflow.disconnect(session, interest)
        session.remembered.clear()

        def done(failure: None | Failure) -> None:
            answer = Unsubscribed(command.ticket, found)
            connection.answer(answer if failure is None else Refused(command.ticket, failure))

        if session.durable and any(found):
            self._state.put([snapshot.definition(session)], done)
        else:
            done(None)


def _refusal(session: MqttSession, interest: Interest) -> Failure | None:
    """Why a filter cannot be had, or None."""
    pattern = interest.pattern
    if interest.refused is not None:
        return interest.refused
    if not is_filter(pattern):
        return Failure(ErrorCode.FILTER_ILLEGAL, f"{pattern!r} is not a topic filter")
    known = interest.name in (session.shares if interest.group else session.interests)
    if not known and len(session.interests) + len(session.shares) >= INTERESTS_MAX:
        return Failure(ErrorCode.QUOTA, f"a session may have {INTERESTS_MAX} filters")
    return None
